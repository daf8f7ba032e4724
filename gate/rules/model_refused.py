"""Models that this version of the engine does not run on this device, or split this way."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.model_support import Refused, support


def check(case: Case) -> Iterator[Hit]:
    """Rows that hold."""
    for row in support().refused:
        if row.holds(case) and case.model is not None:
            yield Hit(
                f"{case.model.id} {_where(case, row)}: {row.text}",
                at=case.deployment.said_at(row.parallel or "model"),
                detail=row.source,
                remedy=row.remedy,
            )


def _where(case: Case, row: Refused) -> str:
    version = f" {case.deployment.version}" if case.deployment.version else ""
    if row.parallel is not None:
        return f"over {row.parallel} {getattr(case.placed, row.parallel)} in {case.deployment.engine}{version}"
    if row.capability_below is not None and case.device is not None:
        device = case.device.accelerator
        capability = f"compute capability {device.cuda_capability:g}, below {row.capability_below:g}"
        return f"on {device.name or device.id} ({capability}) in {case.deployment.engine}{version}"
    return f"in {case.deployment.engine}{version}"


RULE = Rule(
    id="model-refused",
    summary="this version does not run the model here",
    severity="error",
    why="The engine stops while it builds the model: a kernel or a way to split is missing.",
    remedy="Another version, device or way to split.",
    check=check,
    source="gate/data/model_support.yaml, row by row",
)
