"""What-if on a plan's page: its controls, and what `data/whatif.js` computes and writes with."""

from typing import Any

from infopt.frozen import dataclass
from infopt.reports import words
from infopt.reports.estimate_words import BOUNDS as BOUND_WORDS
from infopt.reports.estimate_words import TERM_NAMES
from infopt.reports.pages.blocks import Html, paragraph, section
from infopt.reports.pages.controls import choice_field, control_panel, number_field
from infopt.reports.pages.plan_figures import units
from infopt.reports.pages.programs import programs_data
from infopt.studies.plan_curves import DEFAULT_LONGEST_TOKENS, LEAST_BATCH, LEAST_CONTEXT_TOKENS, MOST_BATCH, POINTS
from infopt.studies.planning import Plan
from infopt.studies.whatif import Choice, WhatIf

LABELS = {
    "context_tokens": "Context, tokens",
    "input_tokens": "Input, tokens",
    "output_tokens": "Output, tokens",
    "batch": "Sequences at once",
}
OPTIONS = {"context_tokens": "--ctx", "input_tokens": "--isl", "output_tokens": "--osl", "batch": "--batch"}


@dataclass(frozen=True, slots=True)
class Typed:
    """The command line as words: what stays in any case, how hardware and placement were typed; whether --ep was."""

    base: tuple[str, ...]
    placed: tuple[str, ...]
    has_ep: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The neighbours of a plan, and the command line that made it."""

    found: WhatIf
    typed: Typed


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
    return {
        **programs_data([place.found for place in found.places], found.lengths),
        "axes": {
            "weights": [_option("--weights", one) for one in found.weights],
            "kv": [_option("--kv", one) for one in found.kv],
            "hardware": [one.accelerator.id for one in found.hardware],
            "tp": list(found.tp),
        },
        "units": units(),
        "terms": {"memory": words.TERM_NAMES, "estimate": TERM_NAMES},
        "bounds": BOUND_WORDS,
        "command": {
            "base": list(typed.base),
            "placed": list(typed.placed),
            "has_ep": typed.has_ep,
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
