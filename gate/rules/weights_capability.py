"""Weight formats this version has no kernels for on this device."""

from collections.abc import Iterator

from infopt.boundaries.weight_kernels import kernels, storage_only
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument

FOUR_BIT_FLOATS = frozenset({"nvfp4", "mxfp4"})


def check(case: Case) -> Iterator[Hit]:
    """A refusal, or weights that are only stored in the format; without a version, what holds for every one."""
    if case.plan is None or (case.deployment.version is None and case.deployment.engine != "vllm"):
        return
    s, version = case.plan.scenario, case.deployment.version
    name, engine, device = s.weight_format, case.deployment.engine, s.accelerator
    capability, at = device.cuda_capability, case.deployment.said_at("quantization") or case.deployment.said_at("model")
    rows = [row for row in kernels().runs if engine in row.engines and name in row.formats]
    own = [row for row in rows if device.vendor in row.vendors and (version is None or row.in_version(version))]
    what, who = f"{name} weights on {device.name or device.id}", f"{engine} {version or ''}".strip()
    if rows and not own and device.vendor in kernels().vendors_read:
        yield _absent(case, who, what, at)
        return
    least = min((row.capability_from or 0.0 for row in own), default=None)
    if least is not None and capability is not None and capability < least:
        yield Hit(
            f"{name} weights need compute capability {least:g} in {who}, {device.name or device.id} has {capability:g}",
            at=at,
            detail=own[0].source,
        )
    elif name in FOUR_BIT_FLOATS and storage_only(s):
        yield Hit(
            f"{device.name or device.id} has no 4-bit units: {name} weights are unpacked to 16 bit, which saves memory "
            "and no computation",
            at=at,
            severity="warning" if name == "nvfp4" else "note",
            remedy="an int4 or FP8 checkpoint for this device",
        )


def _absent(case: Case, who: str, what: str, at: Argument | None) -> Hit:
    """No row has the format on this vendor's devices: refused, unless the engine takes it outside its own table."""
    assert case.plan is not None
    s, engine = case.plan.scenario, case.deployment.engine
    for row in kernels().unlisted:
        if engine in row.engines and s.weight_format in row.formats and s.accelerator.vendor in row.vendors:
            message = f"{engine} does not list {what} among what it supports, and loads them"
            return Hit(message, at=at, detail=row.source, severity="warning", confidence="possible")
    return Hit(f"{who} has no kernels for {what}", at=at)


RULE = Rule(
    id="weights-capability",
    summary="this version cannot multiply these weights on this device",
    severity="error",
    why="The engine stops while it loads, or unpacks every weight before every product.",
    remedy="A checkpoint in a format of this device.",
    check=check,
    source="boundaries/data/weight_kernels.yaml, row by row",
)
