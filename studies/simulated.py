"""From a scenario to what is simulated: the cache of its memory ledger, its engine's scheduling, its estimate as clock.

    capacity    blocks of the pool without null blocks; bytes where each kind of layer has a pool of its own
    longest     min(model's positions, context asked, what the pool holds)
    replicas    dp; replicas that share experts step together: one engine with the sum of their pools and limits
Where a plan has no estimate a simulation has no clock, for the same reason.
Ignored: speculation; engines that reserve room for the whole answer preempt here instead.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from infopt.boundaries.deciding import checked_yaml, named_engine
from infopt.boundaries.prefix_reuse import keeping
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.estimate import NoEstimate, band_of, clock, extrapolations
from infopt.ledgers.memory import MemoryLedger, memory_ledger
from infopt.ledgers.mixed_step import mixed_step
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import first_token_of
from infopt.ledgers.terms import Caveat
from infopt.profiles.engines import in_versions
from infopt.profiles.step_constants import StepConstants
from infopt.records import Record, read_yaml, validate_record
from infopt.simulation.clock import EstimateClock
from infopt.simulation.setup import Batching, Cache, Loss, Routing, Scheduler, Setup

_SCHEDULING = Path(__file__).resolve().parent / "data" / "scheduling.yaml"


class Scheduling(Record):
    """How an engine schedules (data/scheduling.yaml)."""

    engine: str
    until: str | None = None
    prefill_first: Literal["always", "whole", "never"]
    whole_prompt_check: bool
    watermark_share: float
    reserves_answers: bool
    source: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks of the scheduler and the deployment; None: as the engine does by default.

    Fields as in simulation/setup.py; max_tokens is the longest request the engine is to accept.
    """

    max_tokens: int | None = None
    chunk_tokens: int | None = None
    chunked: bool | None = None
    prefill_first: bool | None = None
    prefix_caching: bool | None = None
    whole_prompt_check: bool | None = None
    watermark_share: float | None = None
    batching: Batching = "continuous"
    static_batch: int | None = None
    static_wait_s: float | None = None
    by_priority: bool = False
    admission_wait_s: float | None = None
    most_waiting: int | None = None
    routing: Routing = "least-loaded"
    streaming: bool = True
    aborts: bool = True
    losses: tuple[Loss, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Simulated:
    """A scenario made ready to be simulated, and what was assumed."""

    scenario: Scenario
    memory: MemoryLedger
    clock: EstimateClock
    setup: Setup
    assumptions: tuple[Caveat, ...]

    @property
    def constants(self) -> StepConstants:
        return self.clock.mixed.clock.constants

    def ends(self, sequences: int) -> tuple[Setup, Setup]:
        """The same with every time as short, and as long, as the estimate's interval at so many sequences allows."""
        band, first = band_of(self.constants, max(1, sequences)), first_token_of(self.constants)
        ratios = ((band.low, first.low), (band.high, first.high))
        low, high = (EstimateClock(self.clock.mixed, step, token) for step, token in ratios)
        return replace(self.setup, clock=low), replace(self.setup, clock=high)

    def extrapolated(self, sequences: int, input_tokens: int, output_tokens: int) -> tuple[str, ...]:
        """Where such a load lies outside what the constants were measured with."""
        s = replace(
            self.scenario,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            decode_context_tokens=input_tokens + output_tokens / 2,
            batch=max(1, sequences) * self.setup.replicas,
        )
        return tuple(extrapolations(s, self.constants))


DEFAULTS = Asked()


def simulated(s: Scenario, asked: Asked = DEFAULTS, calibrated: StepConstants | None = None) -> Simulated | NoEstimate:
    """What is simulated of a scenario, or why there is no telling.

    calibrated  step constants from measured points (planning.own_constants)
    Errors: InfoptError for what cannot be asked.
    """
    memory = memory_ledger(s)
    longest = _max_tokens(s, memory, asked)
    if isinstance(longest, NoEstimate):
        return longest
    compiled = clock(s, calibrated)
    if isinstance(compiled, NoEstimate):
        return compiled
    most = compiled.constants.most_sequences
    if most is not None and s.max_num_seqs > most:
        limited = f"{s.engine.engine} was measured with at most {most} sequence at a time"
        return NoEstimate(f"{limited}, this one runs up to {s.max_num_seqs}: --max-num-seqs {most}")
    rules = _scheduler(s, asked)
    at_once = longest if not rules.chunked else min(rules.chunk_tokens or longest, rules.max_num_batched_tokens)
    ticking = EstimateClock(mixed_step(s, compiled, max(1, at_once)))
    setup = Setup(
        clock=ticking,
        scheduler=rules,
        cache=_cache(s, memory),
        max_tokens=longest,
        replicas=s.dp // s.sharing_replicas,
        routing=asked.routing,
        streaming=asked.streaming,
        aborts=asked.aborts,
        losses=asked.losses,
        seed=asked.seed,
    )
    return Simulated(s, memory, ticking, setup, tuple(_assumptions(s, memory, asked, setup, calibrated)))


def _max_tokens(s: Scenario, memory: MemoryLedger, asked: Asked) -> int | NoEstimate:
    """The longest request: what the model knows and the pool holds; a context that was asked for must fit."""
    if asked.max_tokens is not None and asked.max_tokens < 2:
        raise InfoptError(f"a longest request of {asked.max_tokens} tokens: a prompt and an answer take at least 2")
    if memory.refusals:
        return NoEstimate(f"it does not start: {memory.refusals[0]}")
    limit, holds = s.model.max_position_tokens, memory.max_context_tokens
    wanted = asked.max_tokens or limit or s.context_tokens
    if limit is not None and wanted > limit:
        raise InfoptError(f"a request of {wanted:,} tokens is more than the {limit:,} positions of {s.model.id}")
    if holds < 2:
        return NoEstimate("it does not fit")
    if asked.max_tokens is not None and holds < wanted:
        return NoEstimate(f"it does not fit: the cache pool holds a request of {holds:,} tokens at most")
    return min(wanted, holds)


def _scheduler(s: Scenario, asked: Asked) -> Scheduler:
    """The engine's own scheduling, as far as nothing else is asked; limits of replicas that step together add up."""
    row, together = scheduling(s), s.sharing_replicas
    chunked = _given(asked.chunked, chunked_by_default(s))
    first = row.prefill_first == "always" or (row.prefill_first == "whole" and not chunked)
    prefix = _given(asked.prefix_caching, keeping(s.engine.engine, s.engine_version).default == "on")
    return Scheduler(
        max_num_seqs=s.max_num_seqs * together,
        max_num_batched_tokens=s.max_num_batched_tokens * together,
        chunk_tokens=asked.chunk_tokens,
        chunked=chunked,
        prefill_first=_given(asked.prefill_first, first),
        batching=asked.batching,
        static_batch=asked.static_batch or s.max_num_seqs * together,
        static_wait_s=asked.static_wait_s,
        watermark_share=row.watermark_share if asked.watermark_share is None else asked.watermark_share,
        prefix_caching=prefix,
        whole_prompt_check=_given(asked.whole_prompt_check, row.whole_prompt_check),
        by_priority=asked.by_priority,
        admission_wait_s=asked.admission_wait_s,
        most_waiting=asked.most_waiting,
    )


def _given(asked: bool | None, default: bool) -> bool:
    return default if asked is None else asked


def _cache(s: Scenario, memory: MemoryLedger) -> Cache:
    layout, pool = memory.layout, memory.kv_pool_bytes_per_gpu
    if not layout.kinds:
        return Cache(layout, 1)  # nothing is cached: every sequence takes no unit
    units = int(pool) if layout.separate else int(layout.blocks(pool)) - layout.null_blocks
    return Cache(layout, units * s.sharing_replicas)


def _assumptions(
    s: Scenario, memory: MemoryLedger, asked: Asked, setup: Setup, calibrated: StepConstants | None
) -> list[Caveat]:
    """What was filled in."""
    rules, engine = setup.scheduler, named_engine(s)
    order = "prompts stop answers" if rules.prefill_first else "prompts and answers share steps"
    whole = "in chunks" if rules.chunked else "whole"
    found = "kept for reuse" if rules.prefix_caching else "not kept for reuse"
    said = [
        Caveat("scheduling", f"{engine}: prompts {whole}, {order}, blocks {found}"),
        Caveat("limits", f"at most {rules.max_num_seqs:,} at once and {rules.max_num_batched_tokens:,} tokens a step"),
    ]
    if asked.max_tokens is None:
        said.append(Caveat("longest", f"requests of up to {setup.max_tokens:,} tokens: model and cache pool"))
    if s.sharing_replicas > 1:
        text = f"{s.sharing_replicas} replicas share their experts and step together: one engine with all their caches"
        said.append(Caveat("replicas", text))
    if scheduling(s).reserves_answers and rules.batching == "continuous":
        text = f"{engine} reserves room for answers; here a request whose room is missing is computed anew"
        said.append(Caveat("preemption", text))
    if s.speculative_tokens:
        said.append(Caveat("speculation", "steps are those without drafts"))
    if memory.kv_pool_low_bytes < memory.kv_pool_high_bytes:
        said.append(Caveat("pool", "the cache pool is the ledger's best value"))
    if calibrated is not None:
        said.append(Caveat("calibration", f"step times calibrated by {calibrated.source}"))
    return said


def scheduling(s: Scenario) -> Scheduling:
    """How the scenario's engine schedules. Errors: InfoptError where that was not read."""
    for row in _rows():
        if row.engine == s.engine.engine and in_versions(s.engine_version, None, row.until):
            return row
    known = ", ".join(dict.fromkeys(row.engine for row in _rows()))
    raise InfoptError(f"how {s.engine.engine} schedules is not known here; simulated are {known}")


@cache
def _rows() -> tuple[Scheduling, ...]:
    return tuple(validate_record(Scheduling, row, str(_SCHEDULING)) for row in read_yaml(_SCHEDULING))


def chunked_by_default(s: Scenario) -> bool:
    """Whether prompts are cut to fit beside answers where nobody says so."""
    return not any(
        row["engine"] == s.engine.engine and in_versions(s.engine_version, row.get("since"), row.get("until"))
        for row in checked_yaml("chunked_prefill")
    )
