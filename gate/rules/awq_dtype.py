"""AWQ weights computed in bfloat16 by kernels that know float16 only."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.profiles.engines import version_key

# `awq` takes float16 only up to the first, both from the second on; Marlin's kernels take both.
HALF_ONLY_TO, BOTH_FROM, MARLIN_FROM = "0.19.1", "0.33.0", "0.5.4"


def check(case: Case) -> Iterator[Hit]:
    """bfloat16, asked for or the checkpoint's own, with the plain AWQ kernels."""
    if case.deployment.engine != "vllm" or case.value("dtype") not in ("bfloat16", "bf16", "auto", None):
        return
    explicit = case.value("dtype") in ("bfloat16", "bf16")
    model, asked, version = case.model, case.value("quantization"), case.deployment.version
    stored = model is not None and model.quantization is not None and model.quantization.format == "int4_awq"
    key = version_key(version) if version is not None else None
    old = key is not None and key < version_key(MARLIN_FROM)
    if not (asked == "awq" or (stored and asked is None and old)) or not explicit:
        return
    if key is not None and key >= version_key(BOTH_FROM):
        return
    named = f"vllm {version}" if version else "vllm"
    yield Hit(
        f"AWQ kernels of {named} compute in float16 only, the file asks for bfloat16",
        at=case.deployment.said_at("dtype") or case.deployment.said_at("quantization"),
        remedy="--dtype half, or --quantization awq_marlin on compute capability 8.0 and newer",
        confidence="certain" if key is not None and key <= version_key(HALF_ONLY_TO) else "possible",
    )


RULE = Rule(
    id="awq-dtype",
    summary="AWQ with bfloat16 in a version that takes float16 only",
    severity="error",
    why="The engine stops at start.",
    remedy="--dtype half.",
    check=check,
    source="vllm model_executor/layers/quantization/awq.py 0.4.2 to 0.19.1, auto_awq 0.33.0; "
    "vllm-project/vllm issues 1823, 1941",
)
