"""Programs of places as data for `data/program.js`.

Programs with the same operations are one shape; numbers stand once, in a list of all, and a place names those of its
own by their place in it. NaN, which is null in `--json`, is null.
"""

import math
from collections.abc import Sequence
from typing import Any

from infopt.ledgers.traced import ARITY, Program
from infopt.studies.whatif_trace import LOAD, Traced

VARIES = -1


class _Table:
    """Values in the order in which they were first met."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._known: dict[Any, int] = {}

    def place(self, value: Any) -> int:
        key, kept = ("NaN", None) if isinstance(value, float) and math.isnan(value) else (value, value)
        if key not in self._known:
            self._known[key] = len(self.values)
            self.values.append(kept)
        return self._known[key]


def programs_data(places: Sequence[Traced | str], lengths: Program) -> dict[str, Any]:
    """Programs in the order of their places, a text where there is none, and what makes loads of lengths."""
    numbers, names, texts = _Table(), _Table(), _Table()
    shapes: dict[Any, list[Program]] = {}
    for one in places:
        if isinstance(one, Traced):
            shapes.setdefault(one.program.shape, []).append(one.program)
    common = {shape: (i, _common(programs, numbers)) for i, (shape, programs) in enumerate(shapes.items())}
    own = [numbers.place(value) for value in lengths.constants]
    return {
        "operations": [[name, count] for name, count in ARITY.items()],
        "load": list(LOAD),
        "lengths": {"inputs": list(lengths.inputs), **_shape(lengths, own, names)},
        "shapes": [_shape(programs[0], common[shape][1], names) for shape, programs in shapes.items()],
        "places": [one if isinstance(one, str) else _place(one, common, numbers, texts) for one in places],
        "numbers": numbers.values,
        "names": names.values,
        "texts": texts.values,
    }


def _common(programs: Sequence[Program], numbers: _Table) -> list[int]:
    """Constants that all programs of a shape have in common; `VARIES` where they differ."""
    columns = [[numbers.place(value) for value in program.constants] for program in programs]
    return [some[0] if len(set(some)) == 1 else VARIES for some in zip(*columns, strict=True)]


def _shape(program: Program, constants: list[int], names: _Table) -> dict[str, Any]:
    outputs = [number for name, slot in program.output_slots.items() for number in (names.place(name), slot)]
    return {"operations": list(program.operations), "constants": constants, "outputs": outputs}


def _place(found: Traced, common: dict[Any, tuple[int, list[int]]], numbers: _Table, texts: _Table) -> list[Any]:
    """Shape, constants of its own, texts that results number, and texts of what lies outside."""
    shape, shared = common[found.program.shape]
    own = [numbers.place(value) for value, one in zip(found.program.constants, shared, strict=True) if one == VARIES]
    return [shape, own, *([texts.place(text) for text in some] for some in (found.texts, found.outside))]
