"""The memory ledger: what lies on one device, and how many sequences the rest holds.

    weights + KV + state + activation + communication + graphs + engine + margin <= usable memory
The pool an engine gives to the cache depends on its budget rule (U usable, u its fraction):
    share_of_total    pool = u U - weights - activation - non-torch [- graphs]   context [and graphs] lie outside
    static_share      pool = u (U - non-torch) - weights                          activation and graphs lie outside
    share_after_load  pool = u (U - weights - activation - non-torch)
    exact             pool = U - weights - activation - non-torch - margin
Ranks differ under pipeline parallelism; the one that holds the fewest sequences decides.
Sources: vLLM v1/worker/gpu_worker.py, SGLang srt/server_args.py, TensorRT-LLM KvCacheConfig; constants in
profiles/data/engines.
"""

import math
from collections.abc import Sequence

from infopt.frozen import dataclass
from infopt.ledgers.activation import activation_term, logits_bytes
from infopt.ledgers.cache import cache_sizes, model_cache
from infopt.ledgers.paging import Layout, layout
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.terms import Caveat, Term
from infopt.ledgers.weights import stage_rank_bytes, stored_weights_bytes
from infopt.profiles.engines import Span
from infopt.profiles.geometry import LayerRun

GIB = 2**30
# Share by which an assumed usable memory may be off (driver figure minus a typical context).
ASSUMED_CAPACITY_SHARE = 0.006
# Weights in engine logs lie within this share of geometry (docs/accuracy.md, group weights).
WEIGHTS_SHARE = 0.006


@dataclass(frozen=True, slots=True)
class MemoryLedger:
    """Memory of the deciding rank.

    terms                 lines that sum to used_bytes_per_gpu
    kv_bytes_per_token    whole model, marginal at long context, no parallelism (logical)
    kv_bytes_per_sequence logical, windows and latents exact, at context_tokens
    kv_bytes_per_gpu      what the engine reserves on this rank for the batch
    kv_pool_*             pool of the engine on this rank: best value and interval
    fits                  None where the interval straddles the need and constants are not known
    """

    terms: tuple[Term, ...]
    layout: Layout
    stage: int
    stored_weights_bytes: float
    weights_bytes_per_gpu: float
    kv_bytes_per_token: float
    kv_bytes_per_sequence: float
    kv_bytes_per_gpu: float
    state_bytes_per_sequence: float
    activation_bytes: float
    communication_bytes: float
    graph_bytes: float
    engine_bytes: float
    margin_bytes: float
    used_bytes_per_gpu: float
    capacity_bytes_per_gpu: float
    kv_pool_bytes_per_gpu: float
    kv_pool_low_bytes: float
    kv_pool_high_bytes: float
    kv_pool_tokens: int
    kv_share: float
    max_sequences: int
    max_context_tokens: int
    fits: bool | None
    unknown: tuple[str, ...]
    caveats: tuple[Caveat, ...]


def memory_ledger(s: Scenario) -> MemoryLedger:
    """The ledger of the rank that decides: the fewest sequences, then the smallest pool."""
    s.check()
    cut = stages(s.model, s.pp)
    ledgers = [_stage_ledger(s, stage, index) for index, stage in enumerate(cut)]
    return min(ledgers, key=lambda ledger: (ledger.max_sequences, ledger.kv_pool_tokens))


def _stage_ledger(s: Scenario, stage: Sequence[LayerRun], index: int) -> MemoryLedger:
    first, last = index == 0, index == s.pp - 1
    capacity = s.accelerator.usable_memory_bytes
    lines = _fixed_terms(s, stage, first, last)
    by_name = {term.name: term for term in lines}
    pool, low, high = _pool(s, by_name)
    page = layout(stage, s)
    per_rank = cache_sizes(stage, s.kv, s.model.compute_dtype, s.tp)
    sequences = s.batch_per_replica
    reserved = sequences * page.request_bytes(s.context_tokens)
    state = sequences * per_rank.state_bytes if not page.kinds else 0.0
    margin = _margin(s, by_name)
    kv = _exact("kv", reserved + state, _kv_formula(s, page, sequences), s.kv.source)
    terms = (*lines, kv, _exact("margin", margin, _margin_formula(s), "budget rule of the engine"))
    used = sum(term.value for term in terms)
    whole = model_cache(s.model, s.kv)
    per_sequence = float(whole.kv_bytes_per_sequence(s.context_tokens))
    max_sequences = page.sequences(pool, s.context_tokens) if pool > 0 else 0
    caveats, fits = _verdict(s, page, pool, low, high, margin, by_name)
    limit = s.model.max_position_tokens or s.context_tokens
    return MemoryLedger(
        terms=terms,
        layout=page,
        stage=index,
        stored_weights_bytes=stored_weights_bytes(s.model, s.weight_bits, _as_stored(s)),
        weights_bytes_per_gpu=by_name["weights"].value,
        kv_bytes_per_token=whole.full_bytes_per_token,
        kv_bytes_per_sequence=per_sequence,
        kv_bytes_per_gpu=kv.value,
        state_bytes_per_sequence=whole.state_bytes,
        activation_bytes=by_name["activation"].value,
        communication_bytes=by_name["communication"].value,
        graph_bytes=by_name["graphs"].value,
        engine_bytes=by_name["engine"].value,
        margin_bytes=margin,
        used_bytes_per_gpu=used,
        capacity_bytes_per_gpu=capacity,
        kv_pool_bytes_per_gpu=max(pool, 0.0),
        kv_pool_low_bytes=max(low, 0.0),
        kv_pool_high_bytes=max(high, 0.0),
        kv_pool_tokens=page.tokens(max(pool, 0.0), s.context_tokens, s.engine.token_line) if page.kinds else 0,
        kv_share=kv.value / capacity,
        max_sequences=min(max_sequences, 10**9),
        max_context_tokens=page.longest_context_tokens(max(pool, 0.0), max(limit, s.context_tokens))
        if page.kinds
        else limit,
        fits=fits,
        unknown=_unknown(s),
        caveats=caveats,
    )


def _as_stored(s: Scenario) -> bool:
    stored = s.model.quantization.format if s.model.quantization else s.model.compute_dtype
    return s.weight_format == stored


def _fixed_terms(s: Scenario, stage: Sequence[LayerRun], first: bool, last: bool) -> list[Term]:
    """Everything but the cache and the margin."""
    world = s.tp * s.pp
    weights = stage_rank_bytes(stage, s, first, last)
    spread = WEIGHTS_SHARE * weights
    counted = f"{s.model.params_total / 1e9:.2f}B parameters as {s.weight_format}"
    formula = f"{counted}, tp {s.tp}, pp {s.pp}, experts over {s.expert_shards}"
    single, used = s.engine.non_torch_bytes.single, s.engine.non_torch_bytes.at(world)
    context = s.engine.context_bytes.at(world)
    engine = _sum_spans("engine", (single, context), "CUDA context and libraries", inside=False)
    communication = _difference("communication", used, single)
    graph = s.engine.graph_bytes
    return [
        Term("weights", weights, weights - spread, weights + spread, "bytes", formula, s.model.source, "exact"),
        activation_term(stage, s, last),
        communication,
        _sum_spans("graphs", (graph,), "captured CUDA graphs", inside=s.engine.graphs_in_budget),
        engine,
    ]


def _pool(s: Scenario, terms: dict[str, Term]) -> tuple[float, float, float]:
    """Pool of the engine: best value, low, high (root sum of squares of the terms' intervals)."""
    capacity = float(s.accelerator.usable_memory_bytes)
    engine = s.engine
    single = engine.non_torch_bytes.single
    u = s.utilization
    weights, activation = terms["weights"], terms["activation"]
    communication, graphs = terms["communication"], terms["graphs"]
    scale = 1.0
    if engine.budget == "share_of_total":
        parts = [weights, activation, communication, _span_term(single)]
        parts += [graphs] if engine.graphs_in_budget else []
        start = u * capacity
    elif engine.budget == "static_share":
        parts = [weights]
        start = u * (capacity - single.value - communication.value)
    elif engine.budget == "share_after_load":
        parts = [weights, activation, communication, _span_term(single)]
        start, scale = capacity, u
    else:
        parts = [weights, activation, communication, _span_term(single)]
        start = capacity - engine.margin_bytes
    pool = scale * (start - sum(term.value for term in parts))
    kind = s.accelerator.data.get("usable_memory_bytes")
    off = ASSUMED_CAPACITY_SHARE * capacity if kind is None or kind.kind == "assumed" else 0.0
    below = math.sqrt(off**2 + sum((term.high - term.value) ** 2 for term in parts)) * scale
    above = math.sqrt(off**2 + sum((term.value - term.low) ** 2 for term in parts)) * scale
    return pool, pool - below, pool + above


def _margin(s: Scenario, terms: dict[str, Term]) -> float:
    """Memory the budget rule keeps out of everybody's reach, beyond what lies outside the budget anyway."""
    capacity, u, engine = float(s.accelerator.usable_memory_bytes), s.utilization, s.engine
    single = engine.non_torch_bytes.single.value
    if engine.budget == "share_of_total":
        outside = terms["engine"].value - single
        outside += 0.0 if engine.graphs_in_budget else terms["graphs"].value
        return max(0.0, (1 - u) * capacity - outside)
    if engine.budget == "static_share":
        held = (1 - u) * (capacity - single - terms["communication"].value)
        return max(0.0, held - terms["activation"].value - terms["graphs"].value)
    if engine.budget == "share_after_load":
        free = capacity - sum(terms[n].value for n in ("weights", "activation", "communication")) - single
        return max(0.0, (1 - u) * free - terms["graphs"].value)
    return engine.margin_bytes


def _verdict(
    s: Scenario,
    page: Layout,
    pool_bytes: float,
    low_bytes: float,
    high_bytes: float,
    margin_bytes: float,
    terms: dict[str, Term],
) -> tuple[tuple[Caveat, ...], bool | None]:
    """Does the batch fit, and what the reader must know about how sure that is."""
    caveats: list[Caveat] = []
    need = s.batch_per_replica * page.request_bytes(s.context_tokens) + page.null_blocks * page.block_bytes
    fits: bool | None = pool_bytes >= need and pool_bytes > 0
    least_bytes = _least_need_bytes(s, page)
    if s.engine.windows == "full" and least_bytes:
        bound = f"{least_bytes / GIB:.2f} GiB capped, {need / GIB:.2f} GiB whole"
        text = f"how {s.engine.engine} {s.engine_version} keeps windows is not modelled: {bound}; counted whole"
        caveats.append(Caveat("windows", text))
        if not fits and least_bytes <= high_bytes:
            fits = None
    if low_bytes < need <= high_bytes or (low_bytes <= 0 < high_bytes):
        text = (
            f"the pool may be {low_bytes / GIB:.2f} to {high_bytes / GIB:.2f} GiB and {need / GIB:.2f} GiB are needed"
        )
        if s.engine.known:
            caveats.append(Caveat("tight", f"within the error of the ledger: {text}"))
        else:
            caveats.append(
                Caveat("undetermined", f"{text}; constants of {s.engine.engine} {s.engine_version} are not known")
            )
            fits = None
    if (
        s.engine.budget == "share_of_total"
        and fits
        and margin_bytes < s.engine.warmup_copies * logits_bytes(s)
        and s.utilization > 0.94
    ):
        left, one = margin_bytes / GIB, logits_bytes(s) / GIB
        caveats.append(
            Caveat("warm-up", f"{left:.2f} GiB left outside the budget; sampler warm-up may ask {one:.2f} GiB at once")
        )
    limit = s.model.max_position_tokens
    if limit and s.context_tokens > limit:
        caveats.append(Caveat("context", f"{s.context_tokens} tokens is more than the {limit} positions of the model"))
    if not s.engine.known:
        caveats.append(
            Caveat(
                "engine",
                f"memory constants of {s.engine.engine} {s.engine_version} are carried over from an older version",
            )
        )
    return tuple(caveats), fits


def _least_need_bytes(s: Scenario, page: Layout) -> float:
    """Bytes the batch needs on this rank if windows are capped; 0 where the model has none."""
    if not any(group.mixer.window_tokens for group in s.model.groups):
        return 0.0
    layers = sum(kind.layers for kind, _ in page.kinds)
    share = layers / s.model.layers
    sizes = cache_sizes(s.model.runs, s.kv, s.model.compute_dtype, s.tp)
    per_sequence = float(sizes.kv_bytes_per_sequence(s.context_tokens)) + sizes.state_bytes
    return s.batch_per_replica * per_sequence * share


def _unknown(s: Scenario) -> tuple[str, ...]:
    """What geometry cannot tell; encoders do not matter where only text is served."""
    return tuple(what for what in s.model.unknown if not (s.text_only and "coder" in what))


def _exact(name: str, value_bytes: float, formula: str, source: str) -> Term:
    return Term(name, value_bytes, value_bytes, value_bytes, "bytes", formula, source, "exact")


def _span_term(span: Span) -> Term:
    return Term("", span.value, span.low, span.high, "bytes", "", span.source, span.kind)


def _sum_spans(name: str, spans: Sequence[Span], formula: str, inside: bool) -> Term:
    return Term(
        name,
        sum(span.value for span in spans),
        sum(span.low for span in spans),
        sum(span.high for span in spans),
        "bytes",
        formula,
        spans[0].source,
        spans[0].kind,
        inside,
    )


def _difference(name: str, used: Span, base: Span) -> Term:
    """What collectives add to the non-torch memory of a single device."""
    value = max(0.0, used.value - base.value)
    low, high = max(0.0, used.low - base.low), max(value, used.high - base.high)
    formula = "buffers of the collectives (NCCL, custom all-reduce)"
    return Term(name, value, min(low, value), high, "bytes", formula, used.source, used.kind)


def _kv_formula(s: Scenario, page: Layout, sequences: int) -> str:
    blocks = page.request_blocks(s.context_tokens)
    return (
        f"{sequences} x {blocks} blocks x {page.block_bytes / 2**20:.3f} MiB "
        f"({page.groups} x {page.group_layers} layers, {page.block_tokens} tokens a block, {s.kv_format})"
    )


def _margin_formula(s: Scenario) -> str:
    return f"left out of reach at utilization {s.utilization:g} ({s.engine.utilization_meaning})"
