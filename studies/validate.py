"""Predictions beside published measurements: errors by group, and what was not scored and why.

The checks themselves are in `memory_checks.py` and `speed_checks.py`: one per published figure. The columns of a truth
file say which of the two it holds.
"""

import csv
import io
from pathlib import Path

from infopt.frozen import dataclass
from infopt.studies.memory_checks import Check, case_checks
from infopt.studies.speed_checks import SUSPECT, speed_checks
from infopt.studies.speed_truth import BUNDLED_SPEED, read_speed_rows
from infopt.studies.speed_truth import COLUMNS as SPEED_COLUMNS
from infopt.studies.truth import BUNDLED_MEMORY, read_cases, terms

MEMORY_GROUPS = (
    "kv-tokens",
    "concurrency",
    "needed",
    "max-length",
    "blind-pool",
    "blind-pool vllm 0.17-0.19 dense",
    "blind-pool vllm 0.17-0.19 mixture",
    "weights",
    "start-verdict",
)
SPEED_GROUPS = (
    "single-stream",
    "served-dense",
    "served-moe",
    "e2e-dense",
    "e2e-moe",
    "max-load",
    "prefill",
    "speculation",
    "speculation-steps",
)
GROUPS = (*MEMORY_GROUPS, *SPEED_GROUPS)


@dataclass(frozen=True, slots=True)
class GroupScore:
    """Errors of one group, as fractions of 1; below_floor counts predictions that beat their floor."""

    group: str
    n: int
    mape: float
    median_ape: float
    within_1pct: float
    within_20pct: float
    within_30pct: float
    exact: float
    interval_coverage: float | None
    below_floor: int


@dataclass(frozen=True, slots=True)
class Validation:
    """All checks of a truth file and their scores."""

    truth: str
    checks: tuple[Check, ...]
    inferred: int

    @property
    def scored(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.reason)

    @property
    def skipped(self) -> dict[str, int]:
        count: dict[str, int] = {}
        for check in self.checks:
            if check.reason:
                count[check.reason] = count.get(check.reason, 0) + 1
        return dict(sorted(count.items(), key=lambda item: -item[1]))

    @property
    def suspects(self) -> tuple[str, ...]:
        """Rows that are faster than their bytes allow."""
        return tuple(dict.fromkeys(check.case_id for check in self.checks if check.reason == SUSPECT))

    @property
    def groups(self) -> tuple[GroupScore, ...]:
        return tuple(
            _score(group, members)
            for group in GROUPS
            if (members := [check for check in self.scored if group in (check.group, check.subgroup)])
        )


def validate(path: Path | None = None) -> Validation:
    """Score every independent figure of a truth file; without one, of the bundled copies of memory and speed.

    Cases whose shape or context its reporter inferred from the same figures are counted, never scored.
    """
    if path is None:
        memory, inferred = _memory_checks(BUNDLED_MEMORY)
        return Validation("the bundled copies", (*memory, *_speed_checks(BUNDLED_SPEED)), inferred)
    if holds_speed(path):
        return Validation(str(path), _speed_checks(path), 0)
    return Validation(str(path), *_memory_checks(path))


def holds_speed(path: Path) -> bool:
    """Whether a truth file has the columns of speed measurements (an unreadable one is left to its reader)."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            header = next(csv.reader(handle), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return False
    return "batch_or_concurrency" in header or set(SPEED_COLUMNS) <= set(header)


def _memory_checks(path: Path) -> tuple[tuple[Check, ...], int]:
    words = terms()
    cases = read_cases(path)
    checks = tuple(check for case in cases if case.independent for check in case_checks(case, words))
    return checks, sum(1 for case in cases if not case.independent)


def _speed_checks(path: Path) -> tuple[Check, ...]:
    return tuple(speed_checks(list(read_speed_rows(path))))


def _score(group: str, members: list[Check]) -> GroupScore:
    errors = sorted(check.error for check in members)
    n = len(errors)
    middle = (errors[(n - 1) // 2] + errors[n // 2]) / 2
    with_interval = [c for c in members if c.low is not None and c.high is not None]
    covered = [c for c in with_interval if (c.low or 0.0) <= c.measured <= (c.high or 0.0)]
    return GroupScore(
        group=group,
        n=n,
        mape=sum(errors) / n,
        median_ape=middle,
        within_1pct=sum(e <= 0.01 for e in errors) / n,
        within_20pct=sum(e <= 0.20 for e in errors) / n,
        within_30pct=sum(e <= 0.30 for e in errors) / n,
        exact=sum(check.exact for check in members) / n,
        interval_coverage=len(covered) / len(with_interval) if with_interval else None,
        below_floor=sum(check.beyond_limit(check.predicted) for check in members),
    )


def predictions_csv(result: Validation) -> str:
    """Every check as a CSV line: id, group, metric, measured, predicted, low, high, reason."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "group", "metric", "measured", "predicted", "low", "high", "reason"])
    for c in result.checks:
        row = [c.case_id, c.group, c.metric, c.measured, c.predicted, c.low, c.high, c.reason]
        writer.writerow(["" if value is None else value for value in row])
    return out.getvalue()
