"""The cache pool an engine leaves on one rank, and what it holds; compiled once, batch and context stay free.

U usable memory, u the engine's fraction of it; the budget rule of the engine decides:
    share_of_total    pool = u U - weights - activation - non-torch [- graphs]   context [and graphs] lie outside
    static_share      pool = u (U - non-torch) - weights                          activation and graphs lie outside
    share_after_load  pool = u (U - weights - activation - non-torch)
    exact             pool = U - weights - activation - non-torch - margin
    given             pool = what the user gives; it must fit beside everything else: pool + terms <= U
    fits              B request(n) + null blocks <= pool
B sequences of n tokens, either of them a number or an array. The interval is the root of the sum of squares of the
terms' intervals. Sources: vLLM v1/worker/gpu_worker.py, SGLang srt/server_args.py, TensorRT-LLM KvCacheConfig;
constants in profiles/data/engines.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from infopt.frozen import dataclass
from infopt.ledgers.activation import activation_bytes, activation_term
from infopt.ledgers.arrays import larger, root, smaller
from infopt.ledgers.cache import CacheSizes, cache_sizes
from infopt.ledgers.paging import UNBOUNDED, Layout, layout
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.terms import Term
from infopt.ledgers.weights import stage_rank_bytes
from infopt.profiles.engines import Span
from infopt.profiles.geometry import LayerRun

if TYPE_CHECKING:  # most plans have no log of their engine, and reading one costs time at start-up
    from infopt.ledgers.measured_memory import MeasuredMemory

# Share by which an assumed usable memory may be off (driver figure minus a typical context).
ASSUMED_CAPACITY_SHARE = 0.006
# Weights in engine logs lie within this share of geometry (docs/accuracy.md, group weights).
WEIGHTS_SHARE = 0.006

# Best value, low, high.
Interval = tuple[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class StageMemory:
    """One pipeline stage on one of its ranks.

    terms   everything but the cache and the margin
    layout  how its pool is cut
    capped  cache of one sequence were windows capped, where the engine keeps them whole and the model has some
    logged  its start-up log that gives what constants of the engine would, None where they do
    """

    stage: tuple[LayerRun, ...]
    last: bool
    terms: tuple[Term, ...]
    layout: Layout
    cache: CacheSizes
    capped: CacheSizes | None
    logged: str | None = None

    def term(self, name: str) -> Term:
        return next(term for term in self.terms if term.name == name)


@dataclass(frozen=True, slots=True)
class Room:
    """What the pool of a rank holds; numbers or arrays.

    pool_bytes, low_bytes, high_bytes  best value and interval, below zero where the rest is too large already
    need_bytes, capped_bytes           what the batch reserves; what it would need with windows capped (else 0)
    tokens, sequences                  the engine's token figure; whole sequences of this context
    holds                              the best value holds the batch
    straddles                          the interval reaches across the need
    unsure                             neither yes nor no: constants or windows are not known well enough
    """

    pool_bytes: Any
    low_bytes: Any
    high_bytes: Any
    need_bytes: Any
    capped_bytes: Any
    tokens: Any
    sequences: Any
    holds: Any
    straddles: Any
    unsure: Any


def stage_memory(s: Scenario, stage: Sequence[LayerRun], index: int) -> StageMemory:
    """Compile stage `index` of a scenario."""
    last = index == s.pp - 1
    page = layout(stage, s)
    windowed = any(group.mixer.window_tokens for group in s.model.groups)
    measured = _measured(s, stage, last)
    in_question = s.engine.windows == "full" and windowed and page.kinds
    return StageMemory(
        stage=tuple(stage),
        last=last,
        terms=tuple(_fixed_terms(s, stage, index == 0, last, measured)),
        layout=page,
        cache=cache_sizes(stage, s.kv, s.model.compute_dtype, s.tp),
        capped=cache_sizes(s.model.runs, s.kv, s.model.compute_dtype, s.tp) if in_question else None,
        logged=measured.source if measured is not None and measured.own else None,
    )


def room(s: Scenario, part: StageMemory) -> Room:
    """Pool and verdict of a stage at the scenario's batch and context."""
    page, context = part.layout, s.context_tokens
    pool, low, high = pool_interval(s, part)
    need = s.batch_per_replica * page.request_bytes(context) + page.null_blocks * page.block_bytes
    capped = _capped_need_bytes(s, part)
    holds = (pool >= need) & (pool > 0)
    straddles = ((low < need) & (need <= high)) | ((low <= 0) & (high > 0))
    placed = True
    if s.kv_pool_bytes is not None:
        free, least, most = free_interval(s, part)
        placed = pool <= free
        holds = holds & placed
        straddles = straddles | ((least < pool) & (pool <= most) & (need <= pool))
    unsure = (holds ^ True) & (capped <= high) if part.capped is not None else False
    if not s.engine.known:
        unsure = unsure | straddles
    kept = larger(pool, 0.0)
    return Room(
        pool_bytes=pool,
        low_bytes=low,
        high_bytes=high,
        need_bytes=need,
        capped_bytes=capped,
        tokens=page.tokens(kept, context, s.engine.token_line) if page.kinds else 0,
        sequences=smaller(page.sequences(pool, context) * (pool > 0) * placed, UNBOUNDED),
        holds=holds,
        straddles=straddles,
        unsure=unsure,
    )


def pool_interval(s: Scenario, part: StageMemory) -> Interval:
    """Pool of the engine: best value, low, high; without an interval where the user gives it."""
    if s.kv_pool_bytes is not None:
        return (float(s.kv_pool_bytes),) * 3
    capacity = float(s.accelerator.usable_memory_bytes)
    engine = s.engine
    single, u = engine.non_torch_bytes.single, s.utilization
    weights, communication, graphs = (_interval(part.term(name)) for name in ("weights", "communication", "graphs"))
    extra = (_extra_bytes(s, part.last),) * 3
    measured, own = _measured(s, part.stage, part.last), _interval(single)
    if measured is None:
        parts = [weights, extra, activation_bytes(part.stage, s, part.last), communication, own]
        parts += [graphs] if engine.budget == "share_of_total" and engine.graphs_in_budget else []
    else:
        weights = weights if measured.weights_bytes is None else (measured.weights_bytes,) * 3
        parts, own = [weights, extra, *measured.pool], measured.terms.get("engine", own)
    scale = 1.0
    if engine.budget == "share_of_total":
        start = u * capacity
    elif engine.budget == "static_share":
        parts = [weights, extra]
        start = u * (capacity - own[0] - communication[0])
    elif engine.budget == "share_after_load":
        start, scale = capacity, u
    else:
        start = capacity - engine.margin_bytes
    pool = scale * (start - sum(value for value, _, _ in parts))
    datum = s.accelerator.data.get("usable_memory_bytes")
    off = ASSUMED_CAPACITY_SHARE * capacity if datum is None or datum.kind == "assumed" else 0.0
    below = root(off**2 + sum((high - value) ** 2 for value, _, high in parts)) * scale
    above = root(off**2 + sum((value - low) ** 2 for value, low, _ in parts)) * scale
    return pool, pool - below, pool + above


def _measured(s: Scenario, stage: Sequence[LayerRun], last: bool) -> "MeasuredMemory | None":
    """What start-up logs of a calibration say of this rank, None where there are none of it."""
    if not s.accelerator.measured_memory:
        return None
    from infopt.ledgers.measured_memory import measured_memory

    return measured_memory(s, stage, last)


def free_interval(s: Scenario, part: StageMemory) -> Interval:
    """Usable memory beside everything but the cache: best value, low, high."""
    parts = [_interval(term) for term in part.terms]
    free = float(s.accelerator.usable_memory_bytes) - sum(value for value, _, _ in parts)
    below = root(sum((high - value) ** 2 for value, _, high in parts))
    above = root(sum((value - low) ** 2 for value, low, _ in parts))
    return free, free - below, free + above


def _fixed_terms(
    s: Scenario, stage: Sequence[LayerRun], first: bool, last: bool, measured: "MeasuredMemory | None"
) -> list[Term]:
    """Everything but the cache and the margin."""
    terms = _shipped_terms(s, stage, first, last)
    return terms if measured is None else [_as_measured(term, s, measured) for term in terms]


def _as_measured(term: Term, s: Scenario, measured: "MeasuredMemory") -> Term:
    """A term as a start-up log has it; the context of the device stays beside the engine's own."""
    if term.name not in measured.terms:
        return term
    value, low, high = measured.terms[term.name]
    if term.name == "engine":
        context = s.engine.context_bytes.at(s.tp * s.pp)
        value, low, high = value + context.value, low + context.low, high + context.high
    formula = "by the engine's own start-up log, moved to these limits"
    return replace(term, value=value, low=low, high=high, formula=formula, source=measured.source, kind="measured")


def _shipped_terms(s: Scenario, stage: Sequence[LayerRun], first: bool, last: bool) -> list[Term]:
    """The same by the constants of the engine's record."""
    world = s.tp * s.pp
    weights = stage_rank_bytes(stage, s, first, last)
    spread = WEIGHTS_SHARE * weights
    counted = f"{s.model.params_total / 1e9:.2f}B parameters as {s.weight_format}"
    formula = f"{counted}, tp {s.tp}, pp {s.pp}, experts over {s.expert_shards}"
    single, used = s.engine.non_torch_bytes.single, s.engine.non_torch_bytes.at(world)
    context = s.engine.context_bytes.at(world)
    extra = _extra_bytes(s, last)
    graphs = s.engine.graph_bytes
    if s.eager:
        graphs = Span(value=0, low=0, high=0, kind="source_code", source="the engine captures none (--enforce-eager)")
    beside = [Term("extra", extra, extra, extra, "bytes", "weights beside the model", "geometry", "exact")]
    return [
        Term("weights", weights, weights - spread, weights + spread, "bytes", formula, s.model.source, "exact"),
        *(beside if extra else []),
        activation_term(stage, s, last),
        _difference("communication", used, single, s.accelerator.link is not None),
        _sum_spans("graphs", (graphs,), "captured CUDA graphs", inside=s.engine.graphs_in_budget),
        _sum_spans("engine", (single, context), "CUDA context and libraries", inside=False),
    ]


def _extra_bytes(s: Scenario, last: bool) -> float:
    """Weights beside the model: a draft runs where the last stage ends."""
    return s.extra_bytes_per_gpu if last else 0.0


def _capped_need_bytes(s: Scenario, part: StageMemory) -> Any:
    """Bytes the batch needs on this rank if windows are capped; 0 where that is not in question."""
    if part.capped is None:
        return 0.0
    layers = sum(kind.layers for kind, _ in part.layout.kinds)
    share = layers / s.model.layers
    per_sequence = part.capped.kv_bytes_per_sequence(s.context_tokens) + part.capped.state_bytes
    return s.batch_per_replica * per_sequence * share


def _interval(of: Term | Span) -> Interval:
    return of.value, of.low, of.high


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


def _difference(name: str, used: Span, base: Span, linked: bool) -> Term:
    """What collectives add to the non-torch memory of a single device.

    It was measured on devices with links. Without one it may be next to nothing: 0.25 GiB in all on two RTX 4090
    (vllm-project/vllm issue 13061).
    """
    value = max(0.0, used.value - base.value)
    low = max(0.0, used.low - base.low) if linked else 0.0
    high = max(value, used.high - base.high)
    formula = "buffers of the collectives (NCCL, custom all-reduce)"
    return Term(name, value, min(low, value), high, "bytes", formula, used.source, used.kind)
