"""Programs of ledgers/traced.py run in Python: what `reports/pages/data/whatif.js` does in a browser."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from infopt.ledgers.traced import ARITY, OPERATIONS, Program

PYTHON: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else math.copysign(math.inf, a) if a else math.nan,
    "//": lambda a, b: a // b,
    "**": lambda a, b: a**b,
    "min": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else min(a, b),
    "max": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else max(a, b),
    "<": lambda a, b: float(a < b),
    "<=": lambda a, b: float(a <= b),
    "==": lambda a, b: float(a == b),
    "&": lambda a, b: float(bool(a) and bool(b)),
    "|": lambda a, b: float(bool(a) or bool(b)),
    "^": lambda a, b: float(bool(a) != bool(b)),
    "neg": lambda a: -a,
    "floor": math.floor,
    "trunc": math.trunc,
    "rint": round,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "?": lambda condition, yes, no: yes if condition else no,
}


def run(program: Program, inputs: Mapping[str, float]) -> dict[str, float]:
    """The outputs of a program for its inputs."""
    values: list[float] = [float(inputs[name]) for name in program.inputs]
    values += program.constants
    codes: Sequence[int] = program.operations
    at = 0
    while at < len(codes):
        name = OPERATIONS[codes[at]]
        operands = [values[slot] for slot in codes[at + 1 : at + 1 + ARITY[name]]]
        values.append(float(PYTHON[name](*operands)))
        at += 1 + ARITY[name]
    return {name: values[slot] for name, slot in program.output_slots.items()}
