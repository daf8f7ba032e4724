"""Devices the pod gets against tp x pp x dp."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule


def check(case: Case) -> Iterator[Hit]:
    """More asked for than granted stops the engine; fewer leaves devices idle."""
    if case.granted is None or case.granted == case.needed:
        return
    value = case.value
    product = f"tp {value('tp', 1)} x pp {value('pp', 1)} x dp {value('dp', 1)} = {case.needed}"
    at = case.deployment.said_at("tp") or case.deployment.said_at("pp")
    if case.needed > case.granted:
        yield Hit(f"{product} devices, but {case.granted} are granted", at=at)
        return
    idle = case.granted - case.needed
    yield Hit(
        f"{case.granted} devices are granted, {product}: {idle} stay idle",
        at=at,
        severity="warning",
        remedy=f"--tensor-parallel-size {case.granted}, or ask for {case.needed}" if case.needed == 1 else "",
    )


RULE = Rule(
    id="gpus-granted",
    summary="devices granted are not tp x pp x dp",
    severity="error",
    why="With fewer devices than ranks the engine does not start; with more, paid devices do nothing.",
    remedy="Make the product equal to the devices the pod asks for.",
    check=check,
)
