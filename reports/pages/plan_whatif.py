"""What-if on a plan's page: its controls, and the programs of its neighbours as data for `data/whatif.js`.

Programs with the same operations are one shape; numbers stand once, in a list of all, and a place names its own by
their place in it. NaN, which is null in `--json`, is null.
"""

import math
from collections.abc import Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.traced import ARITY, Program
from infopt.reports import words
from infopt.reports.estimate_words import BOUNDS as BOUND_WORDS
from infopt.reports.estimate_words import TERM_NAMES
from infopt.reports.pages.blocks import Html, paragraph, section
from infopt.reports.pages.controls import choice_field, control_panel, number_field
from infopt.reports.pages.plan_figures import units
from infopt.studies.plan_curves import DEFAULT_LONGEST_TOKENS, LEAST_BATCH, LEAST_CONTEXT_TOKENS, MOST_BATCH, POINTS
from infopt.studies.planning import Plan
from infopt.studies.whatif import Choice, Place, WhatIf
from infopt.studies.whatif_trace import LOAD, Traced

LABELS = {
    "context_tokens": "Context, tokens",
    "input_tokens": "Input, tokens",
    "output_tokens": "Output, tokens",
    "batch": "Sequences at once",
}
OPTIONS = {"context_tokens": "--ctx", "input_tokens": "--isl", "output_tokens": "--osl", "batch": "--batch"}
VARIES = -1


@dataclass(frozen=True, slots=True)
class Typed:
    """The command line as words: what stays in any case, and how hardware and placement were typed."""

    base: tuple[str, ...]
    placed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """The neighbours of a plan, and the command line that made it."""

    found: WhatIf
    typed: Typed


class _Table:
    """Values in the order in which they were first met."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._known: dict[Any, int] = {}

    def place(self, value: Any) -> int:
        key = "NaN" if value != value else value
        if key not in self._known:
            self._known[key] = len(self.values)
            self.values.append(None if value != value else value)
        return self._known[key]


def whatif_section(found: WhatIf, plan: Plan, command: str) -> Html:
    """The controls."""
    fields = [
        *(_number_field(found, plan, name) for name in found.lengths.inputs),
        choice_field("weights", "Weights", [_named(one, "as stored") for one in found.weights]),
        choice_field("kv", "KV cache", [_named(one, "auto") for one in found.kv]),
        choice_field("hardware", "Hardware", [one.accelerator.id for one in found.hardware]),
        choice_field("tp", "Tensor parallel", [str(tp) for tp in found.tp]),
    ]
    notes = [paragraph(text, soft=True) for text in _notes(found, plan)]
    note = "Change a value: every figure and picture below is computed anew, by the same formulas as the command's."
    return section("What if", control_panel("what-if", fields, command), *notes, note=note)


def _number_field(found: WhatIf, plan: Plan, name: str) -> Html:
    return number_field(name, LABELS[name], getattr(plan.scenario, name), found.fixed and name != "batch")


def _named(choice: Choice, left_out: str) -> str:
    return f"{choice.name} ({left_out})" if choice.option is None else choice.name


def _notes(found: WhatIf, plan: Plan) -> list[str]:
    s, notes = plan.scenario, []
    if s.pp * s.dp > 1:
        notes.append(f"Devices are tensor parallel x {s.pp * s.dp}: pp {s.pp} and dp {s.dp} stay.")
    if found.fixed:
        notes.append("Measured points hold for this placement and these lengths: only the batch may change.")
    if s.accelerator.calibration is not None:
        notes.append("The calibration is of the plan's own hardware; other hardware has the shipped figures.")
    return notes


def whatif_data(asked: Asked, plan: Plan) -> dict[str, Any]:
    """Everything the script computes with."""
    found, typed = asked.found, asked.typed
    numbers, names, texts = _Table(), _Table(), _Table()
    traced = [place.found for place in found.places if isinstance(place.found, Traced)]
    shapes: dict[Any, list[Program]] = {}
    for one in traced:
        shapes.setdefault(one.program.shape, []).append(one.program)
    shared = {shape: (i, _common(programs, numbers)) for i, (shape, programs) in enumerate(shapes.items())}
    lengths, constants = found.lengths, [numbers.place(value) for value in found.lengths.constants]
    return {
        "operations": [[name, count] for name, count in ARITY.items()],
        "load": list(LOAD),
        "lengths": {"inputs": list(lengths.inputs), **_shape(lengths, constants, names)},
        "shapes": [_shape(programs[0], shared[shape][1], names) for shape, programs in shapes.items()],
        "places": [_place(place, shared, numbers, texts) for place in found.places],
        "axes": {
            "weights": [_option("--weights", one) for one in found.weights],
            "kv": [_option("--kv", one) for one in found.kv],
            "hardware": [one.accelerator.id for one in found.hardware],
            "tp": list(found.tp),
        },
        "numbers": numbers.values,
        "names": names.values,
        "texts": texts.values,
        "units": units(),
        "terms": {"memory": words.TERM_NAMES, "estimate": TERM_NAMES},
        "bounds": BOUND_WORDS,
        "command": {
            "base": list(typed.base),
            "placed": list(typed.placed),
            "options": OPTIONS,
            "calibrated": [one.accelerator.calibration is not None for one in found.hardware],
        },
        "curve": {
            "points": POINTS,
            "least_batch": LEAST_BATCH,
            "most_batch": MOST_BATCH,
            "least_context_tokens": LEAST_CONTEXT_TOKENS,
            "longest_tokens": plan.scenario.model.max_position_tokens or DEFAULT_LONGEST_TOKENS,
        },
    }


def _option(name: str, choice: Choice) -> list[str]:
    """The words of an option; none where it is left out."""
    return [] if choice.option is None else [name, choice.option]


def _common(programs: Sequence[Program], numbers: _Table) -> list[int]:
    """Constants that all programs of a shape have in common; `VARIES` where they differ."""
    columns = zip(*(program.constants for program in programs), strict=True)
    return [numbers.place(column[0]) if _all_same(column) else VARIES for column in columns]


def _all_same(column: Sequence[float]) -> bool:
    return len({"NaN" if math.isnan(value) else value for value in column}) == 1


def _shape(program: Program, constants: list[int], names: _Table) -> dict[str, Any]:
    outputs = [number for name, slot in program.outputs.items() for number in (names.place(name), slot)]
    return {"operations": list(program.operations), "constants": constants, "outputs": outputs}


def _place(place: Place, shared: dict[Any, tuple[int, list[int]]], numbers: _Table, texts: _Table) -> Any:
    """Shape, own constants, texts that results number and texts of what lies outside; or why there is no program."""
    found = place.found
    if isinstance(found, str):
        return found
    shape, common = shared[found.program.shape]
    own = [numbers.place(value) for value, same in zip(found.program.constants, common, strict=True) if same == VARIES]
    return [shape, own, *([texts.place(text) for text in some] for some in (found.texts, found.outside))]
