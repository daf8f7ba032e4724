"""What an engine printed, predicted: one check per figure.

Groups: kv-tokens, concurrency, needed, max-length (the pool is given by the log: geometry and allocator alone);
blind-pool, weights, start-verdict (the ledger predicts before start). A figure that cannot be predicted from what
the row states is returned with the reason.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator
from infopt.ledgers.cache import cache_sizes
from infopt.ledgers.memory import MemoryLedger, memory_ledger
from infopt.ledgers.paging import Layout, layout
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.weights import stage_rank_bytes
from infopt.studies.truth import Case, case_version, case_weights, terms
from infopt.studies.truth_scenarios import ROOMY_BYTES, case_scenario, prefix_caching

GIB = 2**30
MIB = 2**20
# A log prints GiB to two decimals.
PRINT_ROUNDING_BYTES = 0.005 * GIB


@dataclass(frozen=True, slots=True)
class Check:
    """One printed figure beside its prediction.

    subgroup   a narrower group the figure is also scored in
    tolerance  absolute, what one block and the print's rounding explain (0 where no such rule holds)
    low, high  interval of the prediction, where it has one
    limit      what nothing can beat, in the metric's unit: a floor, of a rate (tokens per second) a ceiling
    reason     why the figure was not scored, else ""
    """

    case_id: str
    group: str
    metric: str
    measured: float
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    tolerance: float = 0.0
    subgroup: str = ""
    reason: str = ""
    limit: float | None = None

    def beyond_limit(self, value: float | None) -> bool:
        """Whether a value beats what nothing can beat (by more than rounding)."""
        if value is None or self.limit is None:
            return False
        return value > self.limit * (1 + 1e-9) if "tok_s" in self.metric else value < self.limit * (1 - 1e-9)

    @property
    def error(self) -> float:
        """Relative error; for verdicts 1 where wrong."""
        if self.predicted is None:
            raise InfoptError(f"{self.case_id}: {self.metric} was not predicted")
        if self.group == "start-verdict":
            return float(self.predicted != self.measured)
        return abs(self.predicted - self.measured) / abs(self.measured)

    @property
    def exact(self) -> bool:
        """Within one block and the print's rounding."""
        return self.predicted is not None and abs(self.predicted - self.measured) <= self.tolerance


# --- one case ---------------------------------------------------------------------------------------------


def case_checks(case: Case, words: dict[str, Any]) -> Iterator[Check]:
    """Checks of one case; a case that cannot be built gives its figures the reason."""
    wanted = list(_wanted(case))
    try:
        scenario, device = case_scenario(case, words)
    except InfoptError as error:
        for group, metric in wanted:
            yield Check(case.id, group, metric, _measured(case, metric), reason=_short(str(error)))
        return
    for group, metric in wanted:
        try:
            yield _CHECKS[group](case, metric, scenario, device)
        except InfoptError as error:
            yield Check(case.id, group, metric, _measured(case, metric), reason=_short(str(error)))


def _wanted(case: Case) -> Iterator[tuple[str, str]]:
    """Which printed figures belong to which group."""
    of_group = {
        "kv_cache_tokens": "kv-tokens",
        "kv_pool_tokens": "kv-tokens",
        "kv_capacity_tokens": "kv-tokens",
        "gpu_blocks": "kv-tokens",
        "cpu_blocks": "kv-tokens",
        "kv_self_size": "kv-tokens",
        "kv_total_size": "kv-tokens",
        "kv_size_full_attn": "kv-tokens",
        "kv_size_swa": "kv-tokens",
        "max_concurrency": "concurrency",
        "kv_memory_needed": "needed",
        "estimated_max_model_len": "max-length",
        "weights_loaded": "weights",
    }
    for metric in case.metrics:
        if metric in of_group:
            yield of_group[metric], metric
    if "available_kv_memory" in case.metrics or "kv_cache_memory" in case.metrics:
        yield "blind-pool", "available_kv_memory" if "available_kv_memory" in case.metrics else "kv_cache_memory"
    if case.metrics.get("startup_failed") or "available_kv_memory" in case.metrics:
        yield "start-verdict", "startup_failed"


def _measured(case: Case, metric: str) -> float:
    if metric == "startup_failed":
        return case.metrics.get(metric, 0.0)
    return case.metrics[metric]


def _short(message: str) -> str:
    return message.split("; nearest")[0][:160]


# --- pool given by the log ------------------------------------------------------------------------------------


def _pool_bytes(case: Case) -> float:
    """The pool the engine printed, in bytes."""
    for metric in ("available_kv_memory", "kv_cache_memory"):
        if metric in case.metrics:
            if "rounded" in case.notes[metric]:
                raise InfoptError("rounded by the reporter")
            return case.metrics[metric] * GIB
    if "kv_cache_bytes" in case.metrics:
        return case.metrics["kv_cache_bytes"]
    if "kv_k_size" in case.metrics and "kv_v_size" in case.metrics:
        return (case.metrics["kv_k_size"] + case.metrics["kv_v_size"]) * GIB
    if "kv_total_size" in case.metrics:
        return case.metrics["kv_total_size"] * GIB
    raise InfoptError("no pool size printed")


def _refuse_unknown(s: Scenario) -> None:
    """A model whose cache layout is not known gets no figure."""
    layout_unknown = [what for what in s.model.unknown if "cache" in what]
    if layout_unknown:
        raise InfoptError(f"unknown: {layout_unknown[0]}")


def _layout(scenario: Scenario, pool_bytes: float) -> Layout:
    """Layout of the stage that holds the fewest tokens in the pool."""
    pages = [layout(stage, scenario) for stage in stages(scenario.model, scenario.pp)]
    line = scenario.engine.token_line
    return min(pages, key=lambda page: page.tokens(pool_bytes, scenario.context_tokens, line))


def _kv_tokens(case: Case, metric: str, s: Scenario, device: Accelerator | None) -> Check:
    if case.units[metric] == "MiB":
        return _llama_buffer(case, metric, s)
    if metric == "cpu_blocks":
        return _swap_blocks(case, metric, s)
    if metric == "kv_total_size":
        raise InfoptError("is the pool of another figure")
    if not case.metrics[metric]:
        raise InfoptError("the pool is empty: scored as a start verdict")
    pool = _pool_bytes(case)
    _refuse_unknown(s)
    page = _layout(s, pool)
    if metric == "gpu_blocks":
        blocks = page.blocks(pool)
        return _sized(case, metric, blocks, 1 + PRINT_ROUNDING_BYTES / page.block_bytes)
    hybrid = page.groups > 1
    if hybrid and (case_version(case) is None or case.context_tokens is None):
        raise InfoptError("the token line of a hybrid depends on the engine version and the context")
    tokens = page.tokens(pool, s.context_tokens, s.engine.token_line if case.context_tokens else "blocks")
    slack = PRINT_ROUNDING_BYTES * (2 if "kv_k_size" in case.metrics else 1)
    rounding = tokens * slack / pool
    return _sized(case, metric, tokens, page.block_tokens + rounding)


def _sized(case: Case, metric: str, predicted: float, tolerance: float) -> Check:
    return Check(case.id, "kv-tokens", metric, case.metrics[metric], predicted, tolerance=tolerance)


def _swap_blocks(case: Case, metric: str, s: Scenario) -> Check:
    """vLLM V0: CPU blocks = 4 GiB of swap over block bytes."""
    page = _layout(s, ROOMY_BYTES)
    return _sized(case, metric, page.blocks(4 * GIB), 1)


def _llama_buffer(case: Case, metric: str, s: Scenario) -> Check:
    """llama.cpp prints its buffers: cells x bytes, windows hold (window + n_ubatch) cells padded to 256."""
    cells, sequences = case.context_tokens, case.flag_number("seqs") or 1
    if cells is None:
        raise InfoptError("no context stated")
    if "sequences" in case.flags:
        sequences = int(case.flags.split(" sequences")[0].split()[-1])
    ubatch = case.flag_number("n_ubatch") or s.max_num_batched_tokens
    sizes = cache_sizes(s.model.runs, s.kv, s.model.compute_dtype)
    pad = s.engine.block_tokens
    full = sizes.full_bytes_per_token * cells
    window = sum(per * min(cells, -(-(span + ubatch) // pad) * pad) for span, per in sizes.windows)
    predicted = {"kv_size_full_attn": full, "kv_size_swa": window}.get(metric, full + window)
    if metric in ("kv_size_full_attn", "kv_size_swa"):
        predicted *= sequences
    return _sized(case, metric, predicted / MIB, 0.01)


def _concurrency(case: Case, metric: str, s: Scenario, device: Accelerator | None) -> Check:
    if case.context_tokens is None:
        raise InfoptError("no context stated")
    pool = _pool_bytes(case)
    _refuse_unknown(s)
    _refuse_state_pages(case, s, pool)
    page = _layout(s, pool)
    predicted = page.concurrency(pool, s.context_tokens)
    one_block = 1 / page.request_blocks(s.context_tokens)
    tolerance = one_block + predicted * PRINT_ROUNDING_BYTES / pool + 0.005
    return Check(case.id, "concurrency", metric, case.metrics[metric], predicted, tolerance=tolerance)


def _refuse_state_pages(case: Case, s: Scenario, pool_bytes: float) -> None:
    """Whether states are kept for prefix reuse follows the version; without one, only where it hardly matters."""
    if case_version(case) is not None or prefix_caching(case) is not None:
        return
    answers = [
        _layout(replace(s, state_pages=pages), pool_bytes).concurrency(pool_bytes, s.context_tokens) for pages in (1, 2)
    ]
    if answers[0] - answers[1] > 0.01 * answers[1]:
        raise InfoptError("whether states are kept for prefix reuse depends on the engine version")


def _needed(case: Case, metric: str, s: Scenario, device: Accelerator | None) -> Check:
    if case.context_tokens is None:
        raise InfoptError("no context stated")
    _refuse_unknown(s)
    page = _layout(s, ROOMY_BYTES)
    predicted = page.request_bytes(s.context_tokens) / GIB
    return Check(case.id, "needed", metric, case.metrics[metric], predicted, tolerance=0.01)


def _max_length(case: Case, metric: str, s: Scenario, device: Accelerator | None) -> Check:
    pool = _pool_bytes(case)
    _refuse_unknown(s)
    page = _layout(s, pool)
    predicted = page.longest_context_tokens(pool, case.context_tokens or s.model.max_position_tokens or 10**7)
    tolerance = page.block_tokens + predicted * PRINT_ROUNDING_BYTES / pool
    return Check(case.id, "max-length", metric, case.metrics[metric], predicted, tolerance=tolerance)


# --- before start ---------------------------------------------------------------------------------------------


def _ledger(case: Case, s: Scenario, device: Accelerator | None, need_share: bool = True) -> MemoryLedger:
    if device is None:
        raise InfoptError("device not known")
    if need_share and case.utilization is None:
        raise InfoptError("utilization not stated")
    if case_version(case) is None and s.engine.engine == "vllm":
        raise InfoptError("engine version not stated")
    return memory_ledger(s)


def _blind_pool(case: Case, metric: str, s: Scenario, device: Accelerator | None) -> Check:
    words = terms()
    if case_weights(case, words) is None:
        raise InfoptError("weight format not stated")
    if "rounded" in case.notes[metric]:
        raise InfoptError("rounded by the reporter")
    if any(word in case.flags for word in words["shared_card"]):
        raise InfoptError("other processes on the card")
    check_identity(case, metric, s)
    ledger = _ledger(case, s, device)
    unit = GIB if case.units[metric] == "GiB" else 1e9
    predicted, low, high = (
        value / unit for value in (ledger.kv_pool_bytes_per_gpu, ledger.kv_pool_low_bytes, ledger.kv_pool_high_bytes)
    )
    measured = case.metrics[metric]
    if measured <= 0:
        raise InfoptError("the pool is empty: scored as a start verdict")
    return Check(case.id, "blind-pool", metric, measured, predicted, low, high, subgroup=_constants_group(s))


def _constants_group(s: Scenario) -> str:
    """The version range whose constants were fitted on a complete sweep, by kind of model."""
    if s.engine.engine != "vllm" or s.engine.until != "0.19.1":
        return ""
    mixture = any(group.feed_forward.experts for group in s.model.groups)
    return f"blind-pool vllm 0.17-0.19 {'mixture' if mixture else 'dense'}"


def check_identity(case: Case, metric: str, s: Scenario) -> None:
    """vLLM's own terms must add up to the share the row states; a row where they do not is not usable."""
    names = ("weights_loaded", "activation_peak", "non_torch_memory", metric)
    if s.engine.budget != "share_of_total" or not all(name in case.metrics for name in names):
        return
    stated = s.utilization * s.accelerator.usable_memory_bytes / GIB
    printed = sum(case.metrics[name] for name in names)
    if abs(printed - stated) > 0.01 * stated:
        raise InfoptError("printed terms do not add up to the stated share of memory")


def _weights(case: Case, metric: str, s: Scenario, device: Accelerator | None) -> Check:
    if case_weights(case, terms()) is None:
        raise InfoptError("weight format not stated")
    if "on CPU" in case.weight_format or "offload" in case.flags.lower():
        raise InfoptError("part of the weights lies on the host")
    cut = stages(s.model, s.pp)
    ranks = [stage_rank_bytes(stage, s, i == 0, i == s.pp - 1) for i, stage in enumerate(cut)]
    return Check(case.id, "weights", metric, case.metrics[metric], max(ranks) / GIB, tolerance=0.005)


def _start_verdict(case: Case, metric: str, s: Scenario, device: Accelerator | None) -> Check:
    """1 = fails to start. A given pool or capacity decides where the log printed one; else the blind ledger."""
    failed = case.metrics.get("startup_failed", 0.0)
    if case.context_tokens is None:
        raise InfoptError("no context stated")
    capacity = case.metrics.get("kv_capacity_tokens")
    page_need = None
    try:
        pool = _pool_bytes(case)
        page_need = _layout(s, max(pool, 1.0)).request_bytes(s.context_tokens)
        predicted = float(page_need > pool)
    except InfoptError:
        if capacity is not None:
            predicted = float(s.context_tokens > capacity)
        else:
            ledger = _ledger(case, s, device)
            if ledger.fits is None:
                raise InfoptError("undetermined by the ledger") from None
            predicted = float(not ledger.fits)
    return Check(case.id, "start-verdict", metric, failed, predicted)


_CHECKS: dict[str, Callable[[Case, str, Scenario, Accelerator | None], Check]] = {
    "kv-tokens": _kv_tokens,
    "concurrency": _concurrency,
    "needed": _needed,
    "max-length": _max_length,
    "blind-pool": _blind_pool,
    "weights": _weights,
    "start-verdict": _start_verdict,
}
