"""A quantized cache whose kernels lose on this device."""

from collections.abc import Iterator

from infopt.boundaries.kv_kernels import loss
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import own_engine


def check(case: Case) -> Iterator[Hit]:
    """A format asked for in the file that was measured to lose here, or never measured."""
    at = case.deployment.said_at("kv")
    if case.plan is None or at is None or case.deployment.version is None or not own_engine(case):
        return
    s = case.plan.scenario
    row = loss(s, s.kv_format)
    if row is None or row.refused:
        return
    yield Hit(
        f"{s.kv_format} cache on {s.accelerator.name or s.accelerator.id}: {row.text}",
        at=at,
        detail=row.source,
        severity="note" if row.worst_ratio is None else "warning",
        confidence="possible" if row.worst_ratio is None else "likely",
    )


RULE = Rule(
    id="kv-quantization-slow",
    summary="a quantized cache that was measured to be slower here",
    severity="warning",
    why="Where kernels unpack the cache, a step takes longer than the bytes it saves.",
    remedy="The model's own cache type, unless the room is needed.",
    check=check,
    source="boundaries/data/kv_kernels.yaml",
)
