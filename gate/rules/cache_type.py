"""Cache types this version or build does not take."""

from collections.abc import Iterator

from infopt.gate.arguments import tabled
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.profiles.engines import version_key
from infopt.profiles.flag_tables import lookup

FLAG = "--kv-cache-dtype"
PLAIN = frozenset({"f16", "bf16", "f32"})
# Pairs the default CUDA build of llama.cpp has kernels for.
FAST = frozenset({"q8_0", "q4_0"})
# Flash attention is on by itself from here (common/arg.cpp: -fa auto).
FLASH_AUTO_FROM = "b6325"


def check(case: Case) -> Iterator[Hit]:
    """The type against the choices of the version, and llama.cpp's own conditions."""
    if case.deployment.engine == "llama.cpp":
        yield from _llama(case)
        return
    kv, engine, version = case.value("kv"), case.deployment.engine, case.deployment.version
    if kv is None or engine not in tabled() or version is None:
        return
    answer = lookup(engine, version, FLAG)
    choices = answer.flag.choices if answer.flag is not None and "choices" not in answer.uncertain else ()
    at = case.deployment.said_at("kv")
    if choices and kv not in choices:
        yield Hit(f"{engine} {version} has no cache type {kv}", at=at, remedy=f"one of {', '.join(choices)}")
    stored = case.model.quantization.format if case.model is not None and case.model.quantization is not None else ""
    if engine == "vllm" and kv == "fp8_e5m2" and stored.startswith("fp8"):
        text = "an e5m2 cache with an FP8 checkpoint is refused: its scales are of e4m3"
        yield Hit(text, at=at, remedy="--kv-cache-dtype fp8_e4m3")


def _llama(case: Case) -> Iterator[Hit]:
    keys, values = str(case.value("kv", "f16")), str(case.value("kv_values", "f16"))
    flash, version = case.value("flash_attention"), case.deployment.version
    off = str(flash).lower() in ("off", "false", "0") if flash is not None else None
    if off is None and version is not None and version_key(version) < version_key(FLASH_AUTO_FROM):
        off = True
    if values not in PLAIN and off:
        yield Hit(
            f"a {values} cache of values needs flash attention, which is off",
            at=case.deployment.said_at("kv_values"),
            remedy="-fa on",
        )
        return
    slow = {kind for kind in (keys, values) if kind not in PLAIN and kind not in FAST}
    mixed = keys != values and not {keys, values} <= PLAIN
    if (slow or mixed) and not off:
        what = f"{', '.join(sorted(slow))}" if slow else f"keys in {keys} with values in {values}"
        yield Hit(
            f"default CUDA builds have no attention kernels for a cache of {what}: it runs on the processor",
            at=case.deployment.said_at("kv") or case.deployment.said_at("kv_values"),
            severity="warning",
            remedy="q8_0 or q4_0 for both, or a build with GGML_CUDA_FA_ALL_QUANTS",
        )


RULE = Rule(
    id="cache-type",
    summary="the cache type is not one of this version, or needs what is off",
    severity="error",
    why="The engine prints its usage and exits, or attention silently falls to the processor.",
    remedy="A cache type of this version.",
    check=check,
    source="flag tables (profiles/data/flag_tables); vllm-project/vllm issue 8409; ggml-org/llama.cpp issues "
    "10378, 28524, 28455",
)
