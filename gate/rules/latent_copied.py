"""A latent cache under tensor parallelism: every rank keeps all of it."""

from collections.abc import Iterator

from infopt.boundaries.placements import placed
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, situation_of


def check(case: Case) -> Iterator[Hit]:
    """The load does not fit under tp, and does with attention in replicas."""
    situation = situation_of(case)
    if situation is None or not (lengths_known(case) and load_known(case)):
        return
    s = situation.scenario
    latent = any(run.mixer.kind in ("latent", "indexed") for run in s.model.runs)
    apart = case.value("attention_dp_in_tp") or int(case.value("attention_dp", 1) or 1) > 1
    if not latent or s.tp < 2 or s.pp > 1 or s.dp > 1 or apart or int(case.value("dcp", 1) or 1) > 1:
        return
    held = situation.memory.max_sequences
    if held >= s.batch or not s.model.experts:
        return
    spread = placed(situation, 1, 1, 1, s.tp, s.tp)
    if spread.max_sequences <= held:
        return
    yield Hit(
        f"each of {s.tp} ranks keeps the whole latent cache: {held:,} sequences of {s.context_tokens:,} tokens fit, "
        f"{spread.max_sequences:,} with attention in {s.tp} replicas; {s.batch:,} are asked for",
        at=case.deployment.said_at("tp"),
        confidence="likely",
    )


RULE = Rule(
    id="latent-copied",
    summary="tensor parallelism copies a latent cache instead of dividing it",
    severity="warning",
    why="Latent attention has one head to cache: ranks cannot divide it, so more devices hold no more requests.",
    remedy="Data-parallel attention with experts over all devices, or decode context parallelism.",
    check=check,
    source="vllm-project/vllm issue 51454: 7.7x the cache with attention in 8 replicas",
)
