"""Degrees inside tensor parallelism that SGLang does not take: replicas of attention, ranks of dense layers."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.profiles.engines import in_versions

# Versions that take dense layers whole (1) or over all ranks (no flag), and nothing between.
DENSE_WHOLE = ("0.5", "0.5.11")


def check(case: Case) -> Iterator[Hit]:
    """What the engine asserts of its ranks."""
    if case.deployment.engine == "sglang":
        yield from _replicas(case)
        yield from _dense(case)


def _replicas(case: Case) -> Iterator[Hit]:
    """SGLang's --dp-size under --enable-dp-attention."""
    tp, dp = case.placed.tp, int(case.value("dp", 1) or 1)
    if not case.value("attention_dp_in_tp") or tp % dp == 0:
        return
    allowed = ", ".join(str(n) for n in range(1, tp + 1) if tp % n == 0)
    yield Hit(
        f"tp {tp} does not divide into {dp} replicas of attention",
        at=case.deployment.said_at("dp") or case.deployment.said_at("attention_dp_in_tp"),
        detail="with --enable-dp-attention --dp-size is a part of --tp-size, not a factor beside it",
        remedy=f"--dp-size one of {allowed}",
    )


def _dense(case: Case) -> Iterator[Hit]:
    """Dense layers of a mixture over fewer ranks than the rest."""
    ranks, version = case.value("dense_tp"), case.deployment.version
    if not isinstance(ranks, int) or ranks == 1 or version is None or not in_versions(version, *DENSE_WHOLE):
        return
    yield Hit(
        f"sglang {version} takes --moe-dense-tp-size 1 or none, not {ranks}",
        at=case.deployment.said_at("dense_tp"),
        remedy="leave --moe-dense-tp-size out, or 1",
    )


RULE = Rule(
    id="attention-replicas",
    summary="replicas of attention or ranks of dense layers are not a part of the tensor parallel degree",
    severity="error",
    why="Each replica has tp / dp ranks, a whole number; dense layers are whole or over all ranks.",
    remedy="A --dp-size that divides --tp-size; --moe-dense-tp-size 1 or none.",
    check=check,
    source="sglang srt/server_args.py _handle_data_parallelism (assert tp_size % dp_size == 0); sgl-project/sglang "
    "issues 3359, 3750, pull 23996; ai-dynamo/aiconfigurator pulls 308, 613",
)
