"""Weight formats this version has no kernels for on this device."""

from collections.abc import Iterator

from infopt.boundaries.weight_kernels import kernels, storage_only
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument
from infopt.profiles.engines import in_versions

FOUR_BIT_FLOATS = frozenset({"nvfp4", "mxfp4"})


def check(case: Case) -> Iterator[Hit]:
    """A refusal, or weights that are only stored in the format."""
    if case.plan is None or (case.deployment.version is None and case.deployment.engine != "vllm"):
        return
    s = case.plan.scenario
    name, engine, device = s.weight_format, case.deployment.engine, s.accelerator
    capability, at = device.cuda_capability, case.deployment.said_at("quantization") or case.deployment.said_at("model")
    rows = [row for row in kernels().runs if engine in row.engines and name in row.formats]
    own = [row for row in rows if in_versions(s.engine_version, row.since, row.until) and device.vendor in row.vendors]
    named = device.name or device.id
    if rows and not own and device.vendor in kernels().vendors_read:
        yield _absent(case, f"{name} weights on {named}", at)
        return
    least = min((row.capability_from for row in own if row.capability_from is not None), default=None)
    if least is not None and capability is not None and capability < least:
        yield Hit(
            f"{name} weights need compute capability {least:g} in {engine} {s.engine_version}, {named} has "
            f"{capability:g}",
            at=at,
            detail=own[0].source,
            confidence="certain" if case.deployment.version else "likely",
        )
    elif name in FOUR_BIT_FLOATS and storage_only(s):
        yield Hit(
            f"{named} has no 4-bit units: {name} weights are unpacked to 16 bit, which saves memory and no computation",
            at=at,
            severity="warning" if name == "nvfp4" else "note",
            remedy="an int4 or FP8 checkpoint for this device",
        )


def _absent(case: Case, what: str, at: Argument | None) -> Hit:
    """No row has the format on this vendor's devices: refused, unless the engine takes it outside its own table."""
    assert case.plan is not None
    s, said = case.plan.scenario, case.deployment
    for row in kernels().unlisted:
        if said.engine in row.engines and s.weight_format in row.formats and s.accelerator.vendor in row.vendors:
            message = f"{said.engine} does not list {what} among what it supports, and loads them"
            return Hit(message, at=at, detail=row.source, severity="warning", confidence="possible")
    return Hit(
        f"{said.engine} {s.engine_version} has no kernels for {what}",
        at=at,
        severity=None if said.version else "warning",
        confidence="certain" if said.version else "likely",
    )


RULE = Rule(
    id="weights-capability",
    summary="this version cannot multiply these weights on this device",
    severity="error",
    why="The engine stops while it loads, or unpacks every weight before every product.",
    remedy="A checkpoint in a format of this device.",
    check=check,
    source="boundaries/data/weight_kernels.yaml, row by row",
)
