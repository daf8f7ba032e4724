"""The pod's memory limit against what is pinned in it, and against the weights that pass through it."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument
from infopt.gate.placing import whole_number
from infopt.profiles.engines import version_key
from infopt.units import format_gib

GIB, MIB = 2**30, 2**20
LMCACHE, HOST_CACHE_RATIO = "LMCACHE_MAX_LOCAL_CPU_SIZE", 2.0
# llama-server keeps prompts in host memory from here on (ggml-org/llama.cpp pull 16391), so many MiB by default.
PROMPT_CACHE_FROM, PROMPT_CACHE_MIB = "b9102", 8192
SWAP_UNTIL, SWAP_DEFAULT_GIB = "0.8", 4.0


def check(case: Case) -> Iterator[Hit]:
    """Pinned caches, swap and offloaded weights of every rank, a process each, and the checkpoint."""
    host = case.deployment.found.host
    if host.memory_bytes is None:
        return
    said = host.memory_at
    at = None if said is None else Argument(str(said), said.line, said.column, "resources.limits.memory")
    limit, pods = host.memory_bytes, max(1, case.deployment.found.hardware.pods)
    cache = _prompt_cache(case)
    if cache is not None and cache[0] >= limit:
        yield Hit(
            f"up to {format_gib(cache[0])} of earlier prompts stay in host memory, the limit is {format_gib(limit)}",
            at=case.deployment.said_at("prompt_cache_mib") or at,
            detail="" if cache[1] else "the default of --cache-ram; it fills as prompts change",
            remedy=f"--cache-ram {max(0, int(limit / MIB / 4))} or less (MiB), or a larger limit",
            severity="error" if cache[1] else "warning",
            confidence="likely",
        )
        return
    ranks = max(1, case.placed.devices // pods)
    parts = dict(_pinned(case, ranks))
    pinned = sum(parts.values())
    # A rank of PyTorch is a process with its libraries in memory; llama.cpp and Ollama are small.
    small = case.deployment.engine in ("llama.cpp", "ollama")
    processes = 0 if small else ranks * case.parameter("host-memory", "process_gib") * GIB
    listed = ", ".join(f"{name} {format_gib(size)}" for name, size in parts.items())
    if pinned + processes > limit:
        worst = pinned > limit
        yield Hit(
            f"{format_gib(pinned + processes)} of host memory are needed, the limit is {format_gib(limit)}",
            at=at,
            detail="; ".join(filter(None, (listed, f"{ranks} processes {format_gib(processes)}"))),
            remedy=f"a limit of {(pinned + processes) * 1.1 / GIB:.0f}Gi or more",
            severity="error" if worst else "warning",
            confidence="certain" if worst else "likely",
        )
        return
    if case.plan is None or case.deployment.engine in ("llama.cpp", "ollama"):
        return
    weights = case.plan.memory.stored_weights_bytes / pods
    if limit < weights * case.parameter("host-memory", "least_share_of_weights"):
        yield Hit(
            f"the limit of {format_gib(limit)} is {limit / weights:.0%} of the {format_gib(weights)} that are "
            "read at start",
            at=at,
            detail="pages of the checkpoint are dropped and read again by every rank; loaders that copy are killed",
            remedy=f"a limit of {weights / GIB:.0f}Gi, or a loader that streams",
            confidence="possible",
        )


def _pinned(case: Case, ranks: int) -> Iterator[tuple[str, float]]:
    value = case.value
    if value("kv_offload_gib"):
        # vLLM's size is of all ranks together, SGLang's of each.
        each = ranks if case.deployment.engine == "sglang" else 1
        yield "offloaded cache", value("kv_offload_gib") * GIB * each
    if value("weight_offload_gib"):
        yield f"weights left in host memory, {ranks} ranks", value("weight_offload_gib") * GIB * ranks
    version = case.deployment.version
    swaps = case.deployment.engine == "vllm" and version is not None and version_key(version) < version_key(SWAP_UNTIL)
    swap = value("swap_gib") if value("swap_gib") is not None else SWAP_DEFAULT_GIB if swaps else 0.0
    if swap and swaps:
        yield f"swap space, {ranks} x {swap:g} GiB", swap * GIB * ranks
    yield from _caches(case, ranks)
    extra = value("kv_transfer")
    inner = extra.get("kv_connector_extra_config") if isinstance(extra, dict) else None
    said = inner.get("cpu_bytes_to_use") if isinstance(inner, dict) else None
    if isinstance(said, int | float):
        yield "offloaded cache", float(said)


def _prompt_cache(case: Case) -> tuple[float, bool] | None:
    """llama-server's cache of earlier prompts, and whether the file says its size."""
    if case.deployment.engine != "llama.cpp":
        return None
    said = case.value("prompt_cache_mib")
    if said is not None:
        return (whole_number(said) or 0) * MIB, True
    version = case.deployment.version
    kept = version is not None and version_key(version) >= version_key(PROMPT_CACHE_FROM)
    return (PROMPT_CACHE_MIB * MIB, False) if kept else None


def _caches(case: Case, ranks: int) -> Iterator[tuple[str, float]]:
    """Second caches in host memory that are sized by the device's, or by a variable."""
    if case.value("host_cache") and not case.value("kv_offload_gib") and case.plan is not None:
        ratio = float(case.value("host_cache_ratio") or HOST_CACHE_RATIO)
        yield f"host cache, {ratio:g} x the device's", ratio * case.plan.memory.kv_pool_bytes_per_gpu * ranks
    said = whole_number(str(case.deployment.found.environment.get(LMCACHE, "")).partition(".")[0])
    if said:
        yield f"{LMCACHE}, {ranks} x {said} GB", said * 1e9 * ranks


RULE = Rule(
    id="host-memory",
    summary="the pod's memory limit is below what is kept in host memory",
    severity="warning",
    why="The kernel kills the process while it loads or pins its caches; nothing in the engine's log says why.",
    remedy="A larger limit, or smaller caches in host memory.",
    check=check,
    parameters={"process_gib": 2.0, "least_share_of_weights": 0.25},
    source="vllm-project/vllm issue 16916; ollama/ollama issue 18264, rwlove/home-ops pull 13936 (--cache-ram); "
    "vllm config/cache.py (swap space of every GPU), config/kv_transfer.py",
)
