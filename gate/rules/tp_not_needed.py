"""Tensor parallelism where one device holds the model and the requests asked for: replicas serve more."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.deciding import by_gain
from infopt.boundaries.parallelism import basis_of, gain_of
from infopt.boundaries.placements import Placed, placed, present
from infopt.boundaries.situation import Situation
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, situation_of
from infopt.ledgers.memory import memory_ledger


def check(case: Case) -> Iterator[Hit]:
    """One device holds a full-length request and its part of the load, and nothing is lost by replicas."""
    situation = situation_of(case)
    if situation is None or case.plan is None or case.deployment.found.role:
        return
    s = situation.scenario
    if s.tp < 2 or s.pp > 1:
        return
    held = held_by_one(case)
    alone = placed(situation, s.gpus, 1, 1, 1, 1)
    known = lengths_known(case) and load_known(case)
    if held < 1 or (known and alone.max_sequences < situation.scenario.batch):
        return
    device = s.accelerator.name or s.accelerator.id
    start = f"one {device} holds the model and {held:,} requests of {case.plan.scenario.context_tokens:,} tokens"
    if known:
        yield from _by_load(case, situation, alone, start)
    elif held >= case.parameter(RULE.id, "spare_sequences" if s.accelerator.link else "spare_sequences_pcie"):
        yield Hit(
            f"{start}: tp {s.tp} is not needed to fit",
            at=case.deployment.said_at("tp"),
            remedy=f"{s.gpus} replicas of one device, unless one user's speed matters more than throughput",
            severity="note" if s.accelerator.link else "warning",
            confidence="possible" if s.accelerator.link else "likely",
        )


def held_by_one(case: Case) -> int:
    """Full-length requests that one device holds."""
    assert case.plan is not None
    one = replace(case.plan.scenario, gpus=1, tp=1, pp=1, dp=1, ep=1, batch=1)
    return memory_ledger(one).max_sequences


def _by_load(case: Case, situation: Situation, alone: Placed, start: str) -> Iterator[Hit]:
    """Only where replicas are sure to serve more at the policy's load, and keep its target."""
    here, target_s = present(situation), situation.load.targets.tpot_s
    gain, meets = gain_of(situation, here, alone, [], True)
    if not meets or gain.metric != "throughput" or by_gain(gain, basis_of(here, alone)) != "use":
        return
    kept = "" if target_s is None else f", TPOT {1e3 * alone.waited_s(alone.steps):.1f} ms"
    yield Hit(
        f"{start}: {alone.name} serves {gain.value:.2f}x the tokens/s of {here.name} at batch "
        f"{situation.scenario.batch}{kept}",
        at=case.deployment.said_at("tp"),
        detail=f"{gain.low:.2f}x to {gain.high:.2f}x; TPOT {1e3 * alone.tpot_s(alone.steps):.1f} ms instead of "
        f"{1e3 * here.tpot_s(here.steps):.1f}",
        confidence="likely",
    )


RULE = Rule(
    id="tp-not-needed",
    summary="one device holds what several share by tensor parallelism",
    severity="warning",
    why="Sums between devices cost time that replicas do not spend; a lost device stops all of them.",
    remedy="Replicas of one device each, and a router.",
    check=check,
    parameters={"spare_sequences": 8, "spare_sequences_pcie": 2},
    source="vllm-project/vllm issues 689, 1873",
)
