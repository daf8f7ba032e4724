"""The memory ledger: what lies on one device, and how many sequences the rest holds.

    weights + KV + state + activation + communication + graphs + engine + margin <= usable memory
Ranks differ under pipeline parallelism; the one that holds the fewest sequences decides. The pool an engine gives to
the cache is in ledgers/pool.py; the margin is what its budget rule keeps out of everybody's reach.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.activation import logits_bytes
from infopt.ledgers.arrays import larger
from infopt.ledgers.cache import model_cache
from infopt.ledgers.paging import Layout
from infopt.ledgers.pool import Room, StageMemory, room, stage_memory
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.start_checks import refusals
from infopt.ledgers.terms import Caveat, Term
from infopt.ledgers.weights import stored_weights_bytes
from infopt.profiles.geometry import LayerRun

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a device's memory where it lies on the pile: a term of the ledger, `free` or `missing`."""

    name: str
    start_bytes: float
    end_bytes: float

    @property
    def size_bytes(self) -> float:
        return self.end_bytes - self.start_bytes


@dataclass(frozen=True, slots=True)
class MemoryLedger:
    """Memory of the deciding rank.

    terms                 lines that sum to used_bytes_per_gpu
    kv_bytes_per_token    whole model, marginal at long context, no parallelism (logical)
    kv_bytes_per_sequence logical, windows and latents exact, at context_tokens
    kv_bytes_per_gpu      what the engine reserves on this rank for the batch
    kv_pool_*             pool of the engine on this rank: best value and interval
    kv_pool_concurrency   sequences of context_tokens in that pool, as an engine prints it; None: nothing is cached
    fits                  None where the interval straddles the need and constants are not known
    refusals              why the engine does not start, each with its numbers, where that is known
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
    kv_pool_concurrency: float | None
    kv_share: float
    max_sequences: int
    max_context_tokens: int
    fits: bool | None
    refusals: tuple[str, ...]
    unknown: tuple[str, ...]
    caveats: tuple[Caveat, ...]

    @property
    def kv_room_bytes(self) -> float:
        """Memory beside everything but the cache, below zero where there is none: the most a given pool may be."""
        return self.capacity_bytes_per_gpu - sum(t.value for t in self.terms if t.name not in ("kv", "margin"))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The terms, one on another, and what is left of the device, or missing from it."""
        pile: list[Piece] = []
        end = 0.0
        for term in self.terms:
            if term.value:
                pile.append(Piece(term.name, end, end + term.value))
                end += term.value
        capacity = float(self.capacity_bytes_per_gpu)
        return (*pile, Piece("free", end, capacity) if end <= capacity else Piece("missing", capacity, end))

    @property
    def is_pool_too_large(self) -> bool:
        """Whether the pool is more than the memory beside the rest, which only one that is given can be."""
        pool = self.kv_pool_bytes_per_gpu
        return 0 < pool == self.kv_pool_low_bytes == self.kv_pool_high_bytes and pool > self.kv_room_bytes


def memory_ledger(s: Scenario) -> MemoryLedger:
    """The ledger of the rank that decides: the fewest sequences, then the smallest pool."""
    s.check()
    cut = stages(s.model, s.pp)
    ledgers = [_stage_ledger(s, stage, index) for index, stage in enumerate(cut)]
    return min(ledgers, key=lambda ledger: (ledger.max_sequences, ledger.kv_pool_tokens))


def _stage_ledger(s: Scenario, stage: Sequence[LayerRun], index: int) -> MemoryLedger:
    part = stage_memory(s, stage, index)
    held = room(s, part)
    page, figures = part.layout, stage_figures(s, part, held)
    limit = s.model.max_position_tokens or s.context_tokens
    pool = figures["kv_pool_bytes_per_gpu"]
    longest = page.longest_context_tokens(pool, max(limit, s.context_tokens)) if page.kinds else limit
    refused = tuple(refusals(s, part, held.pool_bytes, longest))
    notes = _caveats(s, part, held, figures["margin_bytes"])
    return MemoryLedger(
        **figures,
        layout=page,
        stage=index,
        max_context_tokens=longest,
        fits=False if refused else None if held.unsure else held.holds,
        refusals=refused,
        unknown=unknown_terms(s),
        caveats=(*(Caveat("refused", text) for text in refused), *notes),
    )


def stage_figures(s: Scenario, part: StageMemory, held: Room) -> dict[str, Any]:
    """Figures of a rank by their names in the ledger; arrays where the load is one."""
    page, capacity = part.layout, s.accelerator.usable_memory_bytes
    by_name = {term.name: term for term in part.terms}
    sequences = s.batch_per_replica
    reserved = sequences * page.request_bytes(s.context_tokens)
    state = sequences * part.cache.state_bytes if not page.kinds else 0.0
    kv = _exact("kv", reserved + state, _kv_formula(s, page, sequences), s.kv.source)
    margin = _margin(s, by_name, kv.value)
    terms = (*part.terms, kv, _exact("margin", margin, _margin_formula(s), "budget rule of the engine"))
    used = sum(term.value for term in terms)
    whole = model_cache(s.model, s.kv)
    pool = larger(held.pool_bytes, 0.0)
    return {
        "terms": terms,
        "stored_weights_bytes": stored_weights_bytes(s.model, s.weight_bits, _as_stored(s)),
        "weights_bytes_per_gpu": by_name["weights"].value,
        "kv_bytes_per_token": whole.full_bytes_per_token,
        "kv_bytes_per_sequence": whole.kv_bytes_per_sequence(s.context_tokens),
        "kv_bytes_per_gpu": kv.value,
        "state_bytes_per_sequence": whole.state_bytes,
        "activation_bytes": by_name["activation"].value,
        "communication_bytes": by_name["communication"].value,
        "graph_bytes": by_name["graphs"].value,
        "engine_bytes": by_name["engine"].value,
        "margin_bytes": margin,
        "used_bytes_per_gpu": used,
        "capacity_bytes_per_gpu": capacity,
        "kv_pool_bytes_per_gpu": pool,
        "kv_pool_low_bytes": larger(held.low_bytes, 0.0),
        "kv_pool_high_bytes": larger(held.high_bytes, 0.0),
        "kv_pool_tokens": held.tokens,
        "kv_pool_concurrency": page.concurrency(pool, s.context_tokens) if page.kinds else None,
        "kv_share": kv.value / capacity,
        "max_sequences": held.sequences,
    }


def _as_stored(s: Scenario) -> bool:
    stored = s.model.quantization.format if s.model.quantization else s.model.compute_dtype
    return s.weight_format == stored


def _margin(s: Scenario, terms: dict[str, Term], kv_bytes: Any) -> Any:
    """Memory the budget rule keeps out of everybody's reach, beyond what lies outside the budget anyway."""
    capacity, u, engine = float(s.accelerator.usable_memory_bytes), s.utilization, s.engine
    single = engine.non_torch_bytes.single.value
    if s.kv_pool_bytes is not None:
        return larger(0.0, capacity - sum(term.value for term in terms.values()) - larger(s.kv_pool_bytes, kv_bytes))
    if engine.budget == "share_of_total":
        outside = terms["engine"].value - single
        outside += 0.0 if engine.graphs_in_budget else terms["graphs"].value
        return larger(0.0, (1 - u) * capacity - outside)
    if engine.budget == "static_share":
        held = (1 - u) * (capacity - single - terms["communication"].value)
        return larger(0.0, held - terms["activation"].value - terms["graphs"].value)
    if engine.budget == "share_after_load":
        loaded = (terms[n].value for n in ("weights", "extra", "activation", "communication") if n in terms)
        free = capacity - sum(loaded) - single
        return larger(0.0, (1 - u) * free - terms["graphs"].value)
    return engine.margin_bytes


def _caveats(s: Scenario, part: StageMemory, held: Room, margin_bytes: float) -> Iterator[Caveat]:
    """What the reader must know about how sure the verdict is."""
    engine = f"{s.engine.engine} {s.engine_version}"
    need = held.need_bytes / GIB
    if part.capped is not None:
        bound = f"{held.capped_bytes / GIB:.2f} GiB capped, {need:.2f} GiB whole"
        yield Caveat("windows", f"how {engine} keeps windows is not modelled: {bound}; counted whole")
    if held.straddles:
        text = f"the pool may be {held.low_bytes / GIB:.2f} to {held.high_bytes / GIB:.2f} GiB and {need:.2f} GiB"
        if s.engine.known:
            yield Caveat("tight", f"within the error of the ledger: {text} are needed")
        else:
            yield Caveat("undetermined", f"{text} are needed; constants of {engine} are not known")
    fits = held.holds and not held.unsure
    warm_up = s.engine.warmup_copies * logits_bytes(s)
    by_share = s.engine.budget == "share_of_total" and s.kv_pool_bytes is None
    if by_share and fits and margin_bytes < warm_up and s.utilization > 0.94:
        left, one = margin_bytes / GIB, logits_bytes(s) / GIB
        text = f"{left:.2f} GiB left outside the budget; sampler warm-up may ask {one:.2f} GiB at once"
        yield Caveat("warm-up", text)
    limit = s.model.max_position_tokens
    if limit and s.context_tokens > limit:
        yield Caveat("context", f"{s.context_tokens} tokens is more than the {limit} positions of the model")
    node = s.accelerator.node
    if s.engine.takes_all_memory and node is not None and node.ranks > 1:
        nodes = f"this machine has {node.nodes}: name the processors of each rank, VLLM_CPU_OMP_THREADS_BIND=0|1"
        yield Caveat("nodes", f"{engine} binds each rank to a memory node of its own, {nodes}")
    if not s.engine.known and part.logged is None:
        yield Caveat("engine", f"memory constants of {engine} are carried over from an older version")


def unknown_terms(s: Scenario) -> tuple[str, ...]:
    """What geometry cannot tell; encoders do not matter where only text is served."""
    return tuple(what for what in s.model.unknown if not (s.text_only and "coder" in what))


def _exact(name: str, value_bytes: float, formula: str, source: str) -> Term:
    return Term(name, value_bytes, value_bytes, value_bytes, "bytes", formula, source, "exact")


def _kv_formula(s: Scenario, page: Layout, sequences: int) -> str:
    blocks = page.request_blocks(s.context_tokens)
    return (
        f"{sequences} x {blocks} blocks x {page.block_bytes / 2**20:.3f} MiB "
        f"({page.groups} x {page.group_layers} layers, {page.block_tokens} tokens a block, {s.kv_format})"
    )


def _margin_formula(s: Scenario) -> str:
    if s.kv_pool_bytes is not None:
        return "neither used nor given to the cache"
    return f"left out of reach at utilization {s.utilization:g} ({s.engine.utilization_meaning})"
