"""What the options say of the weights against what the checkpoint is, and against what its name promises."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.models import without_format
from infopt.units import format_gib

# Methods that need weights quantized beforehand, and the stored formats they read.
STORED = {
    "awq": {"int4_awq", "int4"},
    "awq_marlin": {"int4_awq", "int4"},
    "gptq": {"int4_gptq", "int8", "int4"},
    "gptq_marlin": {"int4_gptq", "int8", "int4"},
    "marlin": {"int4_gptq", "int4"},
    "compressed-tensors": {"int4", "int8", "fp8", "fp8_block", "nvfp4"},
    "modelopt": {"fp8", "nvfp4"},
    "modelopt_fp4": {"nvfp4"},
}
SPELLED = {
    "int4_awq": "AWQ",
    "int4_gptq": "GPTQ",
    "int4": "int4",
    "int8": "int8",
    "fp8": "FP8",
    "nvfp4": "NVFP4",
    "nf4": "4 bit",
}


def check(case: Case) -> Iterator[Hit]:
    """The option first, then names."""
    if case.model is None or case.deployment.engine not in ("vllm", "sglang", "tgi"):
        return
    asked = str(case.value("quantization") or "").lower()
    stored = case.model.quantization.format if case.model.quantization is not None else None
    at = case.deployment.said_at("quantization")
    name = case.deployment.model or case.model.id
    if any(item.fact == "weights" for item in case.unknown):
        return
    if asked in STORED and (stored is None or stored not in STORED[asked]):
        what = f"{stored} weights" if stored else f"unquantized {case.model.compute_dtype} weights"
        yield Hit(
            f"{asked} needs a checkpoint quantized that way, {name} has {what}",
            at=at,
            remedy=f"a checkpoint in {asked}, or no --quantization" if stored is None else "leave --quantization out",
            confidence="certain" if stored is None else "likely",
        )
        return
    yield from _promised(case, stored, asked)


def _promised(case: Case, stored: str | None, asked: str) -> Iterator[Hit]:
    """Names that promise fewer bits than are loaded."""
    if stored is not None or asked:
        return
    model = case.model
    assert model is not None
    for what, name in (
        ("served name", str(case.value("served_name") or "")),
        ("deployment", case.deployment.found.name),
    ):
        promised = without_format(name)[1]
        if promised in SPELLED:
            weights = case.plan.memory.stored_weights_bytes if case.plan is not None else None
            size = f" ({format_gib(weights)})" if weights is not None else ""
            yield Hit(
                f"{what} {name} promises {SPELLED[promised]}, {model.id} is loaded as {model.compute_dtype}{size}",
                at=case.deployment.said_at("model"),
                severity="warning",
                confidence="likely",
                remedy=f"the checkpoint in {SPELLED[promised]}, or another name",
            )
            return


RULE = Rule(
    id="quantization-mismatch",
    summary="options or names say another number of bits than the checkpoint has",
    severity="error",
    why="The engine finds no quantization config and stops, or 16-bit weights take the memory meant for the cache.",
    remedy="The checkpoint that was meant.",
    check=check,
    source="vllm model_executor/model_loader/weight_utils.py get_quant_config, config/model.py _verify_quantization",
)
