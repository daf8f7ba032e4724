"""Published speedups of speculative decoding beside tokens per cycle over the cost of a cycle.

A speedup is scored where the same run states the accepted length, by two costs of a cycle: speculation takes that of
the method and of the software that ran it (`data/cycle_costs.yaml`), speculation-steps the one `boundary speculative`
computes from the steps of model and device, where a served engine ran on a device that is known.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from infopt.boundaries.drafting import drafting
from infopt.boundaries.load import Draft, Load
from infopt.boundaries.situation import Situation
from infopt.boundaries.speculation_case import Case
from infopt.errors import InfoptError
from infopt.ledgers.speculation import speedup_ratio
from infopt.records import read_yaml
from infopt.studies.memory_checks import Check
from infopt.studies.speed_truth import SpeedRow, served_scenario, speed_terms
from infopt.studies.truth import DATA

GROUP = "speculation"
STEPS_GROUP = "speculation-steps"
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


def speculation_checks(row: SpeedRow, tokens: float | None) -> Iterator[Check]:
    """The checks of a speedup, or the reason why it has none."""
    kinds = (_by_source, _by_steps)
    try:
        if tokens is None:
            raise InfoptError("accepted length of the run not stated")
        found = [check for kind in kinds if (check := kind(row, tokens)) is not None]
        if not found:
            raise InfoptError("cost of a cycle of this method not known")
    except InfoptError as error:
        found = [Check(row.id, GROUP, row.metric, row.value, reason=str(error).split("; nearest")[0][:160])]
    yield from found


def _by_source(row: SpeedRow, tokens: float) -> Check | None:
    """The cycle of this method in the software that ran it."""
    costs = cycle_costs()
    of = costs.get(row.prefix, {}).get(_method(row))
    if of is None:
        return None
    cycle = of["cycle"] + of.get("per_draft_token", 0.0) * (_drafted(row) or 0)
    low, high = costs["interval"]
    predicted = speedup_ratio(tokens, cycle)
    return Check(row.id, GROUP, row.metric, row.value, predicted, low * predicted, high * predicted)


def _by_steps(row: SpeedRow, tokens: float) -> Check | None:
    """The cycle of the model's own steps on its device."""
    method, drafted = cycle_costs()["methods"].get(_method(row)), _drafted(row)
    if method is None or not drafted or served_engine(row.engine) is None:
        return None
    situation = Situation(served_scenario(row), Load(draft=Draft(method=method, drafted_tokens=drafted)))
    if situation.steps.basis != "estimate":
        return None
    gain = Case(situation, situation.load.draft, drafting(situation)).gain(drafted, tokens)
    return Check(row.id, STEPS_GROUP, row.metric, row.value, gain.value, gain.low, gain.high)


def served_engine(engine: str) -> str | None:
    """The engine record of a served row, None for software that is not a server."""
    found: str | None = speed_terms()["served_engines"].get(engine.split(" ")[0].lower())
    return found


def _method(row: SpeedRow) -> str:
    return row.note.split(";")[0].split(" ")[0].strip()


def _drafted(row: SpeedRow) -> int | None:
    found = re.search(r"draft length (\d{1,6})", row.note)
    return int(found.group(1)) if found else None


@cache
def cycle_costs() -> dict[str, Any]:
    """Costs by source and method."""
    data: dict[str, Any] = read_yaml(DATA / "cycle_costs.yaml")
    return data
