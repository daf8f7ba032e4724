"""More devices than the policy's load needs."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.capacity import fewest_devices
from infopt.boundaries.placements import placed
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, situation_of
from infopt.ledgers.memory import memory_ledger


def check(case: Case) -> Iterator[Hit]:
    """Fewer devices of one group hold the load and a full-length request, and keep the targets."""
    situation = situation_of(case)
    if situation is None or case.plan is None or not (lengths_known(case) and load_known(case)):
        return
    s, targets = situation.scenario, situation.load.targets
    if targets.tpot_s is None or case.deployment.found.role:
        return  # more devices may be there for the time of one user
    memory = situation.memory
    used = s.batch_per_replica * memory.layout.request_bytes(s.context_tokens) / max(1.0, memory.kv_pool_bytes_per_gpu)
    if s.tp < 2 or s.dp > 1 or used > case.parameter(RULE.id, "used_share"):
        return
    fewer = max(fewest_devices(s) or s.gpus, fewest_devices(case.plan.scenario) or s.gpus)
    if fewer >= s.gpus or fewer == s.pp:
        return  # one device a stage: tp-not-needed
    less = placed(situation, 1, fewer // s.pp, s.pp, 1, 1)
    tpot_s = less.tpot_s(less.steps)
    if tpot_s > targets.tpot_s or (targets.ttft_s is not None and less.ttft_s(less.steps, tpot_s) > targets.ttft_s):
        return
    kept = memory_ledger(replace(s, gpus=fewer, tp=fewer // s.pp, ep=1)).max_sequences
    yield Hit(
        f"{used:.1%} of the cache is used at {s.batch} sequences of {s.context_tokens:,} tokens: {fewer} devices hold "
        f"{kept:,} of them, {s.gpus} are taken",
        at=case.deployment.said_at("tp"),
        detail=f"TPOT {1e3 * tpot_s:.1f} ms on {fewer}, within the target",
        remedy=f"--tensor-parallel-size {fewer // s.pp}, or more requests",
        confidence="likely",
    )


RULE = Rule(
    id="idle-devices",
    summary="fewer devices hold the policy's load",
    severity="note",
    why="Memory that no request uses is paid for all the same.",
    remedy="Fewer devices, or more requests for each.",
    check=check,
    parameters={"used_share": 0.5},
)
