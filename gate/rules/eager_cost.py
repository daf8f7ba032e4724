"""Graphs switched off on a server: kernels of every step are launched one by one."""

from collections.abc import Iterator

from infopt.boundaries.cuda_graphs import judge
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import load_known, own_engine, running_of


def check(case: Case) -> Iterator[Hit]:
    """A gain worth having at the policy's load, or of one user."""
    at, situation = case.deployment.said_at("eager"), None
    if case.value("eager") and at is not None and own_engine(case) and case.deployment.found.role != "prefill":
        situation = running_of(case)
    if situation is None:
        return
    found = judge(situation)
    if found.gain is None or found.verdict not in ("use", "limited", "measure"):
        return
    if found.verdict == "measure" and found.gain.low < 1.03:
        return
    batch = situation.scenario.batch
    load = f"at batch {batch}" if load_known(case) else "of one user"
    yield Hit(
        f"without graphs a token {load} takes {found.gain.value:.2f}x as long "
        f"({found.gain.low:.2f}x to {found.gain.high:.2f}x)",
        at=at,
        detail=f"graphs would take {situation.scenario.engine.graph_bytes.value / 2**30:.2f} GiB on each device",
        severity="warning" if found.verdict == "use" else "note",
        confidence="likely" if found.verdict != "measure" else "possible",
    )


RULE = Rule(
    id="eager-cost",
    summary="CUDA graphs are switched off",
    severity="warning",
    why="The host launches hundreds of kernels a step; at small batches the device waits for it.",
    remedy="Leave graphs on; where memory is short, capture fewer sizes.",
    check=check,
    source="boundaries/data/cold_start.yaml",
)
