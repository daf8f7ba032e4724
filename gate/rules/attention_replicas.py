"""Replicas of attention inside tensor parallelism that do not divide it."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule


def check(case: Case) -> Iterator[Hit]:
    """SGLang's --dp-size under --enable-dp-attention."""
    tp, dp = case.placed.tp, int(case.value("dp", 1) or 1)
    if case.deployment.engine != "sglang" or not case.value("attention_dp_in_tp") or tp % dp == 0:
        return
    allowed = ", ".join(str(n) for n in range(1, tp + 1) if tp % n == 0)
    yield Hit(
        f"tp {tp} does not divide into {dp} replicas of attention",
        at=case.deployment.said_at("dp") or case.deployment.said_at("attention_dp_in_tp"),
        detail="with --enable-dp-attention --dp-size is a part of --tp-size, not a factor beside it",
        remedy=f"--dp-size one of {allowed}",
    )


RULE = Rule(
    id="attention-replicas",
    summary="replicas of attention do not divide the tensor parallel degree",
    severity="error",
    why="Each replica has tp / dp ranks: the engine asserts that this is a whole number.",
    remedy="A --dp-size that divides --tp-size.",
    check=check,
    source="sglang srt/server_args.py _handle_data_parallelism (assert tp_size % dp_size == 0); sgl-project/sglang "
    "issues 3359, 3750",
)
