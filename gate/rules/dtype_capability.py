"""bfloat16 on devices without it."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.profiles.engines import version_key

BF16_CAPABILITY = 8.0
# From here on `auto` takes float16 where the device has no bfloat16 (vllm config: a warning in place of the error).
FALLS_BACK_FROM = "0.9"


def check(case: Case) -> Iterator[Hit]:
    """The type the model computes in, asked for or the checkpoint's own."""
    if case.device is None or case.deployment.engine not in ("vllm", "sglang", "tgi"):
        return
    device = case.device.accelerator
    capability = device.cuda_capability
    if capability is None or capability >= BF16_CAPABILITY or device.vendor != "nvidia":
        return
    asked = str(case.value("dtype", "auto") or "auto").lower()
    explicit = asked in ("bfloat16", "bf16")
    own = asked == "auto" and case.model is not None and case.model.compute_dtype == "bf16"
    if not (explicit or own):
        return
    version = case.deployment.version
    falls_back = not explicit and version is not None and version_key(version) >= version_key(FALLS_BACK_FROM)
    if falls_back and case.deployment.engine == "vllm":
        return
    named = device.name or device.id
    how = "asked for" if explicit else "the checkpoint's type"
    yield Hit(
        f"bfloat16 ({how}) needs compute capability 8.0, {named} has {capability:g}",
        at=case.deployment.said_at("dtype") or case.deployment.said_at("model"),
        detail="" if explicit else f"versions from {FALLS_BACK_FROM} on take float16 by themselves",
        remedy="--dtype half",
        # Without a version nobody knows whether it takes float16 by itself.
        severity=None if explicit or version is not None else "warning",
        confidence="certain" if explicit or version is not None else "likely",
    )


RULE = Rule(
    id="dtype-capability",
    summary="bfloat16 on a device that has none",
    severity="error",
    why="The engine stops at start: bfloat16 begins with compute capability 8.0.",
    remedy="--dtype half.",
    check=check,
    source="vllm v1/worker/gpu_worker.py _check_if_gpu_supports_dtype, config/model.py; vllm-project/vllm "
    "issues 946, 1157",
)
