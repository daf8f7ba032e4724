"""Published speedups of speculative decoding beside tokens per cycle over the cost of a cycle.

A speedup is scored where the same run states the accepted length; the cost of a cycle belongs to the method and to the
software that ran it (`data/cycle_costs.yaml`).
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from infopt.errors import InfoptError
from infopt.ledgers.speculation import speedup_ratio
from infopt.records import read_yaml
from infopt.studies.memory_checks import Check
from infopt.studies.speed_truth import SpeedRow
from infopt.studies.truth import DATA

GROUP = "speculation"
# Ways in which the notes of two rows of one run differ.
SAME_RUN = (r"; derived.*$", r"\boverall\b|\bmean over Spec-Bench\b")


def run_key(row: SpeedRow) -> tuple[str, str, str, str]:
    """What the rows of one speculative run share."""
    note = row.note
    for pattern in SAME_RUN:
        note = re.sub(pattern, "", note)
    return row.prefix, row.model, row.gpu, note


def accepted_lengths(rows: Iterable[SpeedRow]) -> dict[tuple[str, str, str, str], float]:
    """Accepted tokens per cycle, the target's own included, by run."""
    return {run_key(row): row.value for row in rows if row.metric == "spec_accept_len"}


def speculation_check(row: SpeedRow, tokens: float | None) -> Check:
    """The check of a speedup; raises InfoptError with the reason where it has none."""
    if tokens is None:
        raise InfoptError("accepted length of the run not stated")
    costs = cycle_costs()
    method = row.note.split(";")[0].split(" ")[0].strip()
    of = costs.get(row.prefix, {}).get(method)
    if of is None:
        raise InfoptError("cost of a cycle of this method not known")
    drafted = re.search(r"draft length (\d+)", row.note)
    cycle = of["cycle"] + of.get("per_draft_token", 0.0) * (int(drafted.group(1)) if drafted else 0)
    low, high = costs["interval"]
    predicted = speedup_ratio(tokens, cycle)
    return Check(row.id, GROUP, row.metric, row.value, predicted, low * predicted, high * predicted)


@cache
def cycle_costs() -> dict[str, Any]:
    """Costs by source and method."""
    data: dict[str, Any] = read_yaml(DATA / "cycle_costs.yaml")
    return data
