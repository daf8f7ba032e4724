"""It fits, but this version of the engine says no."""

from collections.abc import Iterator

from infopt.boundaries.kv_kernels import loss
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.ledgers.paging import layout
from infopt.ledgers.scenario import stages
from infopt.profiles.engines import in_versions, version_key
from infopt.units import format_gib

# Between these versions the check of a full request sums over stages; others read compare each worker with its own.
SUMS_FROM, SUMS_TO = "0.14.1", "0.16.0"
# vLLM's first engine: prompts are cut by themselves above this length, and the kernel of later chunks reads e4m3 from
# this capability on only.
CHUNKS, CHUNKS_ABOVE_TOKENS, E4M3_CAPABILITY = ("0.5", "0.8"), 32_768, 8.9
# Versions of vLLM with two engines.
BOTH = ("0.8", "0.11")
OWN_UNTIL, OWN_FROM = "0.13.0", "0.17.1"


def check(case: Case) -> Iterator[Hit]:
    """Refusals that memory does not explain."""
    plan = case.plan
    if plan is not None and plan.memory.kv_pool_bytes_per_gpu >= plan.memory.kv_bytes_per_gpu:
        yield from (Hit(said, at=case.deployment.said_at("block_tokens")) for said in plan.memory.refusals)
    if plan is None or plan.fits is False:
        return
    yield from _all_stages(case)
    yield from _chunks(case)
    s = plan.scenario
    if s.kv_format != s.model.compute_dtype and case.deployment.version is not None:
        row = loss(s, s.kv_format)
        if row is not None and row.refused:
            # Where V1 is not asked for by name, versions that have both may still start V0 for it.
            asked = case.deployment.found.environment.get("VLLM_USE_V1") == "1"
            forced = asked or not in_versions(case.deployment.version, *BOTH)
            yield Hit(
                f"the {s.kv_format} cache fits, but {row.text[0].lower() + row.text[1:]}",
                at=case.deployment.said_at("kv"),
                detail=row.source,
                remedy="a 16-bit cache" + (f", or a version from {row.until} on" if row.until else ""),
                severity=None if forced else "warning",
                confidence="certain" if forced else "possible",
            )


def _chunks(case: Case) -> Iterator[Hit]:
    """V0 reads a cache of earlier chunks by a kernel that has no e4m3 on older devices."""
    version, kv = case.deployment.version, case.value("kv")
    capability = None if case.device is None else case.device.accelerator.cuda_capability
    if case.deployment.engine != "vllm" or version is None or not in_versions(version, *CHUNKS) or case.plan is None:
        return
    long = case.plan.scenario.context_tokens > CHUNKS_ABOVE_TOKENS
    said = case.value("chunked_prefill")
    chunked = bool(said) if said is not None else long and in_versions(version, "0.6", None)
    if kv not in ("fp8", "fp8_e4m3") or capability is None or capability >= E4M3_CAPABILITY:
        return
    if chunked or case.value("prefix_caching"):
        why = "chunks of prompts" if chunked else "cached prefixes"
        yield Hit(
            f"an e4m3 cache under {why} needs compute capability 8.9 in vllm {version}, the device has {capability:g}",
            at=case.deployment.said_at("kv"),
            detail="" if said is not None or not chunked else "prompts are cut by themselves above 32,768 tokens",
            remedy="--kv-cache-dtype auto or fp8_e5m2, or a limit of 32,768 tokens without chunks",
            confidence="likely",
        )


def _all_stages(case: Case) -> Iterator[Hit]:
    """Versions of vLLM that compare the cache of all layers with the smallest worker."""
    plan, version = case.plan, case.deployment.version
    if plan is None or version is None or case.deployment.engine != "vllm" or case.placed.pp == 1:
        return
    key = version_key(version)
    if not version_key(OWN_UNTIL) < key < version_key(OWN_FROM):
        return
    s, memory = plan.scenario, plan.memory
    whole = sum(layout(stage, s).request_bytes(s.context_tokens) for stage in stages(s.model, s.pp))
    if whole <= memory.kv_pool_bytes_per_gpu:
        return
    own = memory.layout.request_bytes(s.context_tokens)
    read = version_key(SUMS_FROM) <= key <= version_key(SUMS_TO)
    longest = int(s.context_tokens * memory.kv_pool_bytes_per_gpu / whole)
    yield Hit(
        f"one request of {s.context_tokens:,} tokens fits each of {s.pp} stages ({format_gib(own)} of "
        f"{format_gib(memory.kv_pool_bytes_per_gpu)}), but vllm {version} asks {format_gib(whole)} of every one",
        at=case.deployment.said_at("context_tokens") or case.deployment.said_at("pp"),
        detail="this version compares the cache of all layers with the smallest worker",
        remedy=f"vllm up to {OWN_UNTIL} or from {OWN_FROM} on, or a length limit of about {longest:,} tokens",
        confidence="certain" if read else "possible",
    )


RULE = Rule(
    id="engine-refuses",
    summary="it fits, but this version of the engine refuses it",
    severity="error",
    why="The engine exits at start although the memory is there: its own check is stricter than physics.",
    remedy="Another version, or what its check accepts.",
    check=check,
    source="vllm v1/core/kv_cache_utils.py in 0.14.1 and 0.16.0; vllm-project/vllm pull 24577, "
    "issues 7714, 10861, 47549",
)
