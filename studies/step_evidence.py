"""How well steps of a device are predicted from few of them: what docs/accuracy.md says of a calibrated ledger.

Calibrated with one step of a small and a large model at one context and with the batches of one of them, the ledger is
asked for models between the two, other contexts, batches of other sizes, and a model outside.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Literal

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.hardware.calibration import Step
from infopt.ledgers.device_steps import device_constants
from infopt.ledgers.estimate import band_of
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import step_shape, step_terms_s
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.step_constants import StepConstants
from infopt.studies.scenarios import Request, build

Aspect = Literal["size between", "other context", "batch of another size", "size outside"]
SMALL, LARGE = "HuggingFaceTB/SmolLM2-135M", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"
BETWEEN = ("HuggingFaceTB/SmolLM2-360M-Instruct", "Qwen/Qwen2.5-0.5B-Instruct")
OUTSIDE = "HuggingFaceTB/SmolLM2-1.7B-Instruct"
CONTEXT_TOKENS = 256
# Bandwidth and peaks cancel out of calibrated constants: any will do.
HERE = Accelerator(
    id="here",
    vendor="any",
    memory_class="ddr",
    memory_bytes=2**34,
    driver_memory_bytes=None,
    usable_memory_bytes=2**34,
    bandwidth_bytes_per_s=2e10,
    peak_flop_per_s={"fp32": 1e11, "bf16": 2e11},
    processor=True,
)


@dataclass(frozen=True, slots=True)
class Prediction:
    """One step that was not calibrated with. curve  the model whose batches were"""

    aspect: Aspect
    curve: str
    step: Step
    predicted_s: float
    low_s: float
    high_s: float

    @property
    def error(self) -> float:
        """|predicted / measured - 1|."""
        return abs(self.predicted_s / self.step.median_s - 1)

    @property
    def is_inside(self) -> bool:
        return self.low_s <= self.step.median_s <= self.high_s


@dataclass(frozen=True, slots=True)
class Row:
    """Predictions of one aspect: several runs of the same steps, a median error for each."""

    weights: str
    aspect: Aspect
    curve: str
    steps: int
    medians: tuple[float, ...]
    worst: float
    inside: float

    @property
    def median(self) -> float:
        return median(self.medians)


def aspect_of(step: Step, curve: str) -> Aspect | None:
    """What predicting a step would show; None for one that was calibrated with."""
    if step.model == OUTSIDE:
        return "size outside"
    if step.batch > 1:
        return None if step.model == curve else "batch of another size"
    if step.context_tokens != CONTEXT_TOKENS:
        return "other context"
    return "size between" if step.model in BETWEEN else None


def predictions(steps: Sequence[Step], curve: str) -> Iterator[Prediction]:
    """All decode steps of one run in one format that the ledger was not calibrated with."""
    decodes = [step for step in steps if step.tokens == 1]
    known = tuple(step for step in decodes if aspect_of(step, curve) is None)
    for step in decodes:
        aspect = aspect_of(step, curve)
        if aspect is None:
            continue
        yield Prediction(aspect, curve, step, *predicted_s(step, known))


def predicted_s(step: Step, known: tuple[Step, ...]) -> tuple[float, float, float]:
    """What a decode step takes on a device of which `known` was measured, least and most of its interval.

    Errors: InfoptError where `known` says nothing about it, and for a model that is not in the catalogue.
    """
    s, constants = calibrated(step, known)
    shape = step_shape(s, constants)
    if shape is None:
        raise InfoptError(f"{step.model}: steps hold for one device")
    terms = step_terms_s(shape, constants, step.batch, step.context_tokens, 1, 1, with_stall=False)
    whole_s, band = float(sum(terms.values())), band_of(constants, step.batch)
    return whole_s, whole_s * band.low, whole_s * band.high


def calibrated(step: Step, known: tuple[Step, ...]) -> tuple[Scenario, StepConstants]:
    """The scenario of a step on a device of which `known` was measured, and its constants."""
    choice = HardwareChoice(replace(HERE, measured_steps=known), None, "here")
    request = Request(context_tokens=step.context_tokens + 1, weights=step.weights, kv=step.kv, batch=step.batch)
    s = replace(
        build(load_catalogue_model(step.model), choice, request).scenario,
        decode_context_tokens=float(step.context_tokens),
    )
    constants = device_constants(s, step.engine)
    if not isinstance(constants, StepConstants):
        raise InfoptError(f"{step.model}: {constants}")
    return s, constants


def rows(runs: Sequence[Sequence[Step]]) -> list[Row]:
    """Errors by format, aspect and calibration; each run is calibrated for itself."""
    groups: dict[tuple[str, Aspect, str], list[list[Prediction]]] = {}
    for steps in runs:
        for weights in sorted({step.weights for step in steps}):
            for curve in (SMALL, LARGE):
                found = list(predictions([step for step in steps if step.weights == weights], curve))
                for aspect in dict.fromkeys(p.aspect for p in found):
                    if aspect != "batch of another size" and curve != SMALL:
                        continue  # the curve does not matter at batch 1
                    groups.setdefault((weights, aspect, curve), []).append([p for p in found if p.aspect == aspect])
    made = []
    for (weights, aspect, curve), each in groups.items():
        together = [p for run in each for p in run]
        inside = sum(p.is_inside for p in together) / len(together)
        medians = tuple(median(p.error for p in run) for run in each)
        worst = max(p.error for p in together)
        made.append(Row(weights, aspect, curve, len(together), medians, worst, inside))
    return made


def markdown(found: Sequence[Row]) -> list[str]:
    """The rows as a table."""
    lines = [
        "| weights | predicted | batches measured with | n | median error | by run | worst | in the interval |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(found, key=lambda row: (row.weights, row.aspect, row.curve)):
        curve = row.curve.split("/")[1] if row.aspect == "batch of another size" else "-"
        by_run = f"{min(row.medians):.1%} to {max(row.medians):.1%}"
        lines.append(
            f"| {row.weights} | {row.aspect} | {curve} | {row.steps} | {row.median:.1%} | {by_run} "
            f"| {row.worst:.1%} | {row.inside:.0%} |"
        )
    return lines
