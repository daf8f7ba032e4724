"""How well steps of a device are predicted from few of them: what docs/accuracy.md says of a calibrated ledger.

Calibrated with a small and a large model, the ledger is asked for models between the two, other contexts, batches of
another size, and a model outside. It knows of each either one step at one context, and the batches of one of the two;
or all that `probe latency` measures of both.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Literal

from infopt.frozen import dataclass
from infopt.hardware.calibration import Step
from infopt.studies.predicted_steps import predicted_s

Aspect = Literal["size between", "other context", "batch of another size", "size outside"]
Known = Literal["batches of the small", "batches of the large", "all of both"]
KNOWN: tuple[Known, ...] = ("batches of the small", "batches of the large", "all of both")
SMALL, LARGE = "HuggingFaceTB/SmolLM2-135M", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"
BETWEEN = ("HuggingFaceTB/SmolLM2-360M-Instruct", "Qwen/Qwen2.5-0.5B-Instruct")
OUTSIDE = "HuggingFaceTB/SmolLM2-1.7B-Instruct"
CONTEXT_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Prediction:
    """One step that was not calibrated with."""

    aspect: Aspect
    known: Known
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
    known: Known
    steps: int
    medians: tuple[float, ...]
    worst: float
    inside: float

    @property
    def median(self) -> float:
        return median(self.medians)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Steps of several runs on one machine."""

    machine: str
    threads: int
    runs: list[list[Step]]


def read_evidence(path: Path) -> Evidence:
    """Steps that `write_evidence` kept."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    runs = [[Step(**step) for step in steps] for steps in kept["runs"]]
    return Evidence(kept["machine"], kept["threads"], runs)


def write_evidence(evidence: Evidence, path: Path) -> None:
    """Keep steps, each on a line of its own."""
    runs = [",\n".join(json.dumps(step.model_dump()) for step in steps) for steps in evidence.runs]
    head = json.dumps({"machine": evidence.machine, "threads": evidence.threads})[:-1]
    body = "],\n[".join(runs)
    path.write_text(f'{head}, "runs": [[{body}]]}}\n', encoding="utf-8")


def aspect_of(step: Step, known: Known) -> Aspect | None:
    """What predicting a step would show; None for one that was calibrated with."""
    if step.model == OUTSIDE:
        return "size outside"
    between = step.model in BETWEEN
    if known == "all of both" and not between:
        return None
    if step.batch > 1:
        curve = SMALL if known == "batches of the small" else LARGE
        return "batch of another size" if between or step.model != curve else None
    if step.context_tokens != CONTEXT_TOKENS:
        return "other context"
    return "size between" if between else None


def predictions(steps: Sequence[Step], known: Known) -> Iterator[Prediction]:
    """All decode steps of one run in one format that the ledger was not calibrated with."""
    decodes = [step for step in steps if step.tokens == 1]
    calibrating = tuple(step for step in decodes if aspect_of(step, known) is None)
    for step in decodes:
        aspect = aspect_of(step, known)
        if aspect is None:
            continue
        yield Prediction(aspect, known, step, *predicted_s(step, calibrating))


def rows(runs: Sequence[Sequence[Step]]) -> list[Row]:
    """Errors by format, aspect and calibration; each run is calibrated for itself."""
    groups: dict[tuple[str, Aspect, Known], list[list[Prediction]]] = {}
    for steps in runs:
        for weights in sorted({step.weights for step in steps}):
            for known in KNOWN:
                found = list(predictions([step for step in steps if step.weights == weights], known))
                for aspect in dict.fromkeys(p.aspect for p in found):
                    # Whose batches are known does not matter to a single sequence.
                    if aspect == "batch of another size" or known != "batches of the large":
                        groups.setdefault((weights, aspect, known), []).append([p for p in found if p.aspect == aspect])
    made = []
    for (weights, aspect, known), each in groups.items():
        together = [p for run in each for p in run]
        inside = sum(p.is_inside for p in together) / len(together)
        medians = tuple(median(p.error for p in run) for run in each)
        made.append(Row(weights, aspect, known, len(together), medians, max(p.error for p in together), inside))
    return made


def markdown(found: Sequence[Row]) -> list[str]:
    """The rows as a table."""
    lines = [
        "| weights | predicted | calibrated with | n | median error | by run | worst | in the interval |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(found, key=lambda row: (row.weights, row.aspect, KNOWN.index(row.known))):
        one = row.aspect != "batch of another size" and row.known != "all of both"
        by_run = f"{min(row.medians):.1%} to {max(row.medians):.1%}"
        lines.append(
            f"| {row.weights} | {row.aspect} | {'one context' if one else row.known} | {row.steps} | {row.median:.1%} "
            f"| {by_run} | {row.worst:.1%} | {row.inside:.0%} |"
        )
    return lines
