"""A start-up log beside the memory ledger: what the engine says of each term, what the ledger says, how far apart.

`start_log_page(log, model, hardware, request)` is the whole: the request is filled from the log where the user left it
open, the ledger is asked twice (blind, and given the engine's own pool), and a refusal is held against it.
    blind      pool by the ledger's own constants, of this model, device, version and limits
    in pool    tokens, concurrency and longest context that the ledger puts into the pool the engine printed
Nothing the log does not say is compared. Sources: observing/start_logs, ledgers/memory.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.memory import MemoryLedger, memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.observing.start_logs import StartLog
from infopt.profiles.formats import format_name
from infopt.profiles.geometry import ModelProfile
from infopt.studies.scenarios import Built, Request, build
from infopt.studies.start_log_refusal import Verdict, verdict
from infopt.studies.truth import sized_device
from infopt.studies.truth_scenarios import ROOMY_BYTES

# Engines print two decimals of a GiB.
ROUNDING_BYTES = 0.005 * 2**30
# The engine that prints what is free when the weights come, after everything else is set up.
STATIC_ENGINE = "sglang"
# Assumptions that bear on memory: lengths of a request do not.
TOLD = ("engine", "utilization", "calibration", "ranks")
# Fields of a request that a log may fill: the request's, the log's, and the option that gives it.
FILLED = (
    ("tp", "tp", "--tp"),
    ("context_tokens", "context_tokens", "--ctx"),
    ("utilization", "utilization_share", "--util"),
    ("max_num_seqs", "max_num_seqs", "--max-num-seqs"),
    ("max_num_batched_tokens", "max_num_batched_tokens", "--max-num-batched-tokens"),
    ("block_tokens", "block_tokens", "--block-size"),
    ("kv", "kv_format", "--kv"),
    ("prefix_caching", "prefix_caching", "--prefix-caching"),
    ("engine_version", "engine_version", "--engine-version"),
)


@dataclass(frozen=True, slots=True)
class LogRow:
    """One figure of both, of one rank.

    logged               what the engine printed, in base units
    expected, low, high  what the ledger says, None where it has no such figure
    unit                 bytes, tokens or sequences
    exact                counted from geometry: a difference beyond rounding means another model or format
    """

    name: str
    unit: str
    logged: float
    expected: float | None
    low: float | None = None
    high: float | None = None
    exact: bool = False
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Expected over logged, minus one."""
        return None if self.expected is None or not self.logged else self.expected / self.logged - 1

    @property
    def inside(self) -> bool | None:
        """Whether the engine's figure lies in the ledger's interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.logged <= self.high


@dataclass(frozen=True, slots=True)
class StartLogPage:
    """A log beside the ledger.

    scenario  what was planned, None where the model is not known: then only the log is shown
    memory    the blind ledger
    version_known  the log or the user says which version it is
    rows      figures of both;  verdict  on a refusal, None where the engine started
    """

    log: StartLog
    scenario: Scenario | None
    memory: MemoryLedger | None
    rows: tuple[LogRow, ...]
    verdict: Verdict | None
    notes: tuple[str, ...]
    version_known: bool = False


def start_log_page(
    log: StartLog, model: ModelProfile | None, hardware: HardwareChoice | None, request: Request | None = None
) -> StartLogPage:
    """The page of a log.

    model     None: the log's figures alone
    hardware  None: a device with the total the log prints, else one large enough for anything (no blind pool then)
    request   what the user gave; what it leaves open is filled from the log
    Errors: InfoptError where the user's options contradict the log.
    """
    if model is None:
        note = "the model is not known here: name it with --model to see the ledger beside it"
        return StartLogPage(log, None, None, (), None, (*log.notes, note))
    choice, sized = device_of(log, hardware)
    filled = request_of(log, model, request or Request())
    built = build(model, choice, filled)
    blind = memory_ledger(built.scenario)
    rows = (
        *_device_rows(log, built.scenario, hardware),
        *_rows(log, built, blind, sized, _in_pool(log, model, choice, filled)),
    )
    told = verdict(log, built.scenario, blind, _of_refused_pool(log, model, choice, filled), sized)
    assumed = (caveat.text for caveat in built.assumptions if caveat.id in TOLD)
    notes = (*log.notes, *assumed, *_notes(log, built, hardware, sized))
    return StartLogPage(log, built.scenario, blind, rows, told, notes, filled.engine_version is not None)


def device_of(log: StartLog, hardware: HardwareChoice | None) -> tuple[HardwareChoice, bool]:
    """The device of a log, and whether its memory is known: the user's, else one of the total the log prints.

    Devices that hold one model together count as one of their size.
    """
    if hardware is not None:
        one, several = hardware.accelerator, hardware.gpus or 1
        if not log.together or several == 1:
            return hardware, True
        whole = {name: several * getattr(one, name) for name in ("memory_bytes", "usable_memory_bytes")}
        return replace(hardware, accelerator=replace(one, **whole), gpus=None), True
    total = log.worst("total_bytes") or (log.refusal.total_bytes if log.refusal else None)
    device = sized_device(total or ROOMY_BYTES, None, log.source)
    if log.processor:
        device = replace(device, processor=True)
    return HardwareChoice(device, None, f"as the log says ({log.device or 'device not named'})"), total is not None


def request_of(log: StartLog, model: ModelProfile, request: Request) -> Request:
    """The request with what the log says where the user said nothing.

    Errors: InfoptError where both say something else.
    """
    changed: dict[str, Any] = {"engine": log.engine}
    for name, logged, option in FILLED:
        value, given = getattr(log, logged), getattr(request, name)
        if name == "context_tokens" and value and log.together:
            value //= log.max_num_seqs or 1  # cells of all sequences
        if value is None:
            continue
        if given is None:
            changed[name] = value
        elif not _same(given, value):
            raise InfoptError(f"{option} {given} contradicts {log.source}, which says {value}; leave one of them out")
    for name in ("pp", "dp"):
        value = getattr(log, name)
        if value and getattr(request, name) not in (1, value):
            raise InfoptError(f"--{name} {getattr(request, name)} contradicts {log.source}, which says {value}")
        changed[name] = value or getattr(request, name)
    changed["eager"] = request.eager or bool(log.eager)
    if log.together:
        changed["batch"] = max(request.batch, log.max_num_seqs or 1)
    if log.dtype and request.weights is None and model.quantization is None and not log.quantization:
        changed["weights"] = format_name(log.dtype, "weights") if log.dtype != model.compute_dtype else None
    pool = log.kv_pool_bytes if log.kv_given or log.kv_given_bytes is not None else None
    if pool and request.kv_pool_bytes is None:
        changed["kv_pool_bytes"] = round(pool)
    return replace(request, **changed)


def _same(given: Any, logged: Any) -> bool:
    if isinstance(given, str):
        return str(logged).lower().startswith(given.lower())
    return bool(given == logged)


def _in_pool(log: StartLog, model: ModelProfile, choice: HardwareChoice, request: Request) -> list[MemoryLedger]:
    """The ledger given the pool the engine printed: as printed, and at both ends of its rounding."""
    pool = log.kv_pool_bytes
    if pool is None or pool <= ROUNDING_BYTES or log.together:
        return []
    given = log.kv_given_bytes is not None or request.kv_pool_bytes is not None
    off = 0.0 if given else ROUNDING_BYTES * max(rank.kv_pool_figures for rank in log.devices)
    return [_at_pool(model, choice, request, pool + shift) for shift in (0.0, -off, off)]


def _of_refused_pool(
    log: StartLog, model: ModelProfile, choice: HardwareChoice, request: Request
) -> MemoryLedger | None:
    """The ledger given the pool of a refused start."""
    refusal = log.refusal
    if refusal is None or log.together:  # buffers of exact size are no pool
        return None
    pool = log.kv_pool_bytes or refusal.available_bytes
    return None if not pool else _at_pool(model, choice, request, pool)


def _at_pool(model: ModelProfile, choice: HardwareChoice, request: Request, pool_bytes: float) -> MemoryLedger:
    return memory_ledger(build(model, choice, replace(request, kv_pool_bytes=round(pool_bytes))).scenario)


def _device_rows(log: StartLog, s: Scenario, hardware: HardwareChoice | None) -> Iterator[LogRow]:
    """The device that was named, beside the one the engine found."""
    total = log.worst("total_bytes")
    if total is not None and hardware is not None:
        yield LogRow("device memory", "bytes", total, float(s.accelerator.usable_memory_bytes))


def _rows(
    log: StartLog, built: Built, blind: MemoryLedger, sized: bool, in_pool: list[MemoryLedger]
) -> Iterator[LogRow]:
    """Every other figure the log has."""
    s = built.scenario
    yield from _term_rows(log, s, blind)
    pool, tokens = log.kv_pool_bytes, log.kv_pool_tokens
    if tokens is None and log.kv_blocks is not None:
        tokens = log.kv_blocks * s.block_tokens
    if log.together:
        if pool is not None and not _context_assumed(built):
            cache = _whole(log, "kv_pool_bytes")
            yield LogRow("KV cache", "bytes", cache, blind.kv_bytes_per_gpu, exact=True)
        return
    profiled = s.kv_pool_bytes is None and sized
    if pool is not None and profiled:
        low, high = blind.kv_pool_low_bytes, blind.kv_pool_high_bytes
        yield LogRow("KV pool", "bytes", pool, blind.kv_pool_bytes_per_gpu, low, high)
    if tokens is not None and profiled:
        yield LogRow("KV tokens, blind", "tokens", tokens, float(blind.kv_pool_tokens))
    if not in_pool:
        return
    best, least, most = in_pool
    if tokens is not None:
        ends = float(least.kv_pool_tokens), float(most.kv_pool_tokens)
        yield LogRow("KV tokens in it", "tokens", tokens, float(best.kv_pool_tokens), *ends, exact=True)
    if log.max_concurrency is not None and best.kv_pool_concurrency is not None:
        ends = (least.kv_pool_concurrency or 0.0) - 0.005, (most.kv_pool_concurrency or 0.0) + 0.005
        note = f"requests of {s.context_tokens} tokens"
        name = "concurrency in it"
        yield LogRow(name, "sequences", log.max_concurrency, best.kv_pool_concurrency, *ends, exact=True, note=note)


def _context_assumed(built: Built) -> bool:
    """Whether neither the log nor the user says which context the buffers are for."""
    return any(caveat.id == "context" for caveat in built.assumptions)


def _term_rows(log: StartLog, s: Scenario, blind: MemoryLedger) -> Iterator[LogRow]:
    """Weights and what lies beside them."""
    terms = {term.name: term for term in blind.terms}
    weights = _whole(log, "weights_bytes") if log.together else log.worst("weights_bytes")
    if weights:
        held = terms["weights"]
        extra = blind.weights_bytes_per_gpu + (terms["extra"].value if "extra" in terms else 0.0)
        spread = held.high - held.value
        yield LogRow("weights", "bytes", weights, extra, extra - spread, extra + spread, exact=True)
    single = s.engine.non_torch_bytes.single
    shared = terms["communication"]
    own = terms["engine"].value - s.engine.context_bytes.at(s.tp * s.pp).value
    non_torch = own + shared.value, single.low + shared.low, max(own, single.high) + shared.high
    logged = non_torch_bytes(log, float(s.accelerator.usable_memory_bytes))
    if logged is not None:
        yield LogRow("non-torch", "bytes", logged, *non_torch)
    activation = terms["activation"]
    if (held_bytes := log.worst("activation_bytes")) is not None:
        yield LogRow("activation peak", "bytes", held_bytes, activation.value, activation.low, activation.high)
    graphs = terms["graphs"]
    for name, field in (("graphs, estimated", "graphs_estimated_bytes"), ("graphs, taken", "graphs_taken_bytes")):
        if (held_bytes := log.worst(field)) is not None:
            yield LogRow(name, "bytes", held_bytes, graphs.value, graphs.low, graphs.high)


def non_torch_bytes(log: StartLog, total_bytes: float) -> float | None:
    """Memory outside torch: as printed; consumed minus weights; what was gone before the weights were loaded."""
    printed = log.worst("non_torch_bytes")
    if printed is not None:
        return printed
    consumed, weights = log.worst("consumed_bytes"), log.worst("weights_bytes")
    if consumed is not None and weights is not None:
        return max(0.0, consumed - weights)
    free = log.worst("free_at_load_bytes")
    total = log.worst("total_bytes") or total_bytes
    return total - free if log.engine == STATIC_ENGINE and free is not None and free < total < ROOMY_BYTES else None


def _whole(log: StartLog, name: str) -> float:
    """A figure of all ranks, those of the host too."""
    return float(sum(getattr(rank, name) or 0.0 for rank in log.ranks))


def _notes(log: StartLog, built: Built, hardware: HardwareChoice | None, sized: bool) -> Iterator[str]:
    """What a reader must know of the comparison."""
    if log.together and log.kv_pool_bytes is not None and _context_assumed(built):
        yield "the log does not say its context: name it with --ctx to see its cache predicted"
    if hardware is None and not sized:
        yield "the log does not say how much memory the device has: name it with --hw to see its pool predicted"
    on_host = sum(rank.weights_bytes or 0.0 for rank in log.ranks if rank.host)
    if log.together and on_host and any(not rank.host for rank in log.ranks):
        yield f"{on_host / 2**30:.2f} GiB of the weights lie in memory of the host"
    if log.together and sum(not rank.host for rank in log.devices) > 1:  # buffers of a processor are one memory
        yield f"{len(log.devices)} devices hold the model together: figures are sums"
    if log.started is None and log.refusal is None:
        yield "the log ends before the engine serves"
