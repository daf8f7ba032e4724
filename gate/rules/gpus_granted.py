"""Devices the pod gets against tp x pp x dp."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument


def check(case: Case) -> Iterator[Hit]:
    """More asked for than granted stops the engine; fewer leaves devices idle."""
    if case.granted is None or case.granted == case.needed or any(u.fact.endswith(" parallel") for u in case.unknown):
        return
    product, at = _product(case), _at(case)
    if case.needed > case.granted:
        yield Hit(
            f"{product} devices, but {case.granted} are granted",
            at=at,
            remedy=f"{case.needed} devices, or degrees whose product is {case.granted}",
        )
        return
    idle, tp = case.granted - case.needed, case.deployment.said_at("tp")
    default = "; tp is 1 where nothing is said" if tp is None and case.needed == 1 else ""
    yield Hit(
        f"{case.granted} devices are granted, {product}: {idle} stay idle{default}",
        at=at,
        severity="warning",
        remedy=f"tp {case.granted}, or ask for {case.needed}" if case.needed == 1 else f"ask for {case.needed}",
    )


def _product(case: Case) -> str:
    placed, pcp = case.placed, int(case.value("pcp", 1) or 1)
    more = f" x pcp {pcp}" if pcp > 1 else ""
    return f"tp {placed.tp} x pp {placed.pp} x dp {placed.dp}{more} = {placed.devices}"


def _at(case: Case) -> Argument | None:
    return next((at for name in ("tp", "pp", "dp") if (at := case.deployment.said_at(name)) is not None), None)


RULE = Rule(
    id="gpus-granted",
    summary="devices granted are not tp x pp x dp",
    severity="error",
    why="With fewer devices than ranks the engine does not start; with more, paid devices do nothing.",
    remedy="Make the product equal to the devices the pod asks for.",
    check=check,
    source="QwenLM/Qwen3 issue 67; engines' options: tensor, pipeline, data parallel size",
)
