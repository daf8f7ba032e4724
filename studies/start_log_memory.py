"""From a start-up log to the memory part of a calibration record.

    rest        u T - W - pool             vLLM: T total, u utilization, W weights (graphs are in it where the engine
                                           takes them from the budget)
                T - W - free, peak - W     TensorRT-LLM: free when the pool is cut, or the peak it profiled
    non-torch   T - free before the weights  SGLang; consumed - W, or as printed, vLLM
Each figure is printed with two decimals of a GiB: what they may be off adds up as squares. Weights that the log does
not print are the ledger's, with its error. What was measured holds for the limits of that start; the ledger moves it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import infopt
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.hardware.calibrate import device_of, same_kind
from infopt.hardware.calibration import METHOD, Calibration, MemoryTerm, State, load_calibration
from infopt.hardware.calibration_store import check_target, save
from infopt.ledgers.arrays import root
from infopt.ledgers.measured_memory import shipped_terms
from infopt.ledgers.pool import WEIGHTS_SHARE
from infopt.ledgers.scenario import Scenario, stages
from infopt.observing.start_logs import StartLog
from infopt.studies.start_log import ROUNDING_BYTES, StartLogPage, non_torch_bytes
from infopt.units import format_gib

# The total of a log and of the device it is said to be of may differ by this share: by a driver, not by a size.
SAME_DEVICE_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure with what its rounding may hide."""

    name: str
    value_bytes: float
    rounding_bytes: float


def calibrate_memory(page: StartLogPage, hardware: HardwareChoice | None, path: Path) -> tuple[MemoryTerm, ...]:
    """Write the memory of a log into the record at `path`, beside what it holds; the terms written.

    hardware  what the log is of, as the user named it
    Errors: InfoptError where the model or the device is not known, the log holds nothing to learn from, it is not of
    this device, or the file holds a record of another one.
    """
    if page.scenario is None:
        raise InfoptError(f"--calibrate {path}: the model of {page.log.source} is not known; name it with --model")
    if hardware is None:
        raise InfoptError(f"--calibrate {path}: a record is of one device: name it with --hw")
    if not page.version_known:
        raise InfoptError(
            f"--calibrate {path}: {page.log.source} does not say which version of {page.log.engine} it is of, and "
            "constants are of a version: give --engine-version"
        )
    terms = memory_terms(page.log, page.scenario)
    old = load_calibration(path) if path.exists() else None
    if old is not None and not same_kind(old.device, hardware.accelerator):
        raise InfoptError(
            f"--calibrate {path}: it is of {old.device.name}, the log is said to be of {hardware.resolved_as}"
        )
    record = _record(old, hardware.accelerator, terms)
    check_target(path, record.device)
    save(record, path)
    return terms


def memory_terms(log: StartLog, s: Scenario) -> tuple[MemoryTerm, ...]:
    """What a log says that constants of its engine would say otherwise.

    Errors: InfoptError where it says nothing of the kind, or the device is another.
    """
    total = log.worst("total_bytes")
    capacity = float(s.accelerator.usable_memory_bytes)
    if total is not None and abs(total / capacity - 1) > SAME_DEVICE_SHARE and not s.accelerator.processor:
        raise InfoptError(
            f"{log.source}: its device has {format_gib(total)}, {s.accelerator.id} {format_gib(capacity)}: "
            "name the one it is of with --hw"
        )
    figures = [figure for figure in _figures(log, s) if figure.value_bytes > 0]
    if not figures:
        raise InfoptError(
            f"{log.source}: nothing in it that memory constants of {log.engine} could be read from: a pool that was "
            "given is not profiled; give the log of a start with --gpu-memory-utilization, at level INFO or DEBUG"
        )
    if total is not None and not s.accelerator.processor:
        figures.append(Figure("total", total, ROUNDING_BYTES))
    weights = log.worst("weights_bytes")
    shipped = {"activation": float(shipped_terms(s, stages(s.model, 1)[0], True)["activation"][0])}
    taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return tuple(
        MemoryTerm(
            engine=log.engine,
            engine_version=s.engine_version,
            name=figure.name,  # type: ignore[arg-type]  # checked by the record
            value_bytes=figure.value_bytes,
            rounding_bytes=figure.rounding_bytes,
            shipped_bytes=shipped.get(figure.name),
            weights_bytes=None if log.together else weights,
            model=s.model.id,
            weights=s.weight_format,
            tp=s.tp,
            pp=s.pp,
            eager=s.eager,
            speculative_tokens=s.speculative_tokens,
            context_tokens=s.context_tokens,
            max_num_seqs=s.max_num_seqs,
            max_num_batched_tokens=s.max_num_batched_tokens,
            utilization=s.utilization,
            source=log.source,
            taken=taken,
        )
        for figure in figures
    )


def _figures(log: StartLog, s: Scenario) -> Iterator[Figure]:
    """Parts where the log has them, else what is left when pool and weights are taken off."""
    capacity = float(s.accelerator.usable_memory_bytes)
    non_torch, activation = non_torch_bytes(log, capacity), log.worst("activation_bytes")
    if non_torch is not None:
        printed = log.worst("non_torch_bytes") is not None
        yield Figure("non_torch", non_torch, ROUNDING_BYTES if printed else root(2 * ROUNDING_BYTES**2))
    # An engine that takes its parts apart says them all; one that allocates to size has no others.
    if activation is not None and (non_torch is not None or log.together):
        yield Figure("activation", activation, ROUNDING_BYTES)
        graphs = log.worst("graphs_estimated_bytes")
        if graphs is not None and s.engine.graphs_in_budget:
            yield Figure("graphs", graphs, ROUNDING_BYTES)
        return
    yield from _rest(log, s)


def _rest(log: StartLog, s: Scenario) -> Iterator[Figure]:
    """All of the budget but weights and pool, by its rule."""
    printed = log.worst("weights_bytes")
    weights, off = (printed, ROUNDING_BYTES) if printed is not None else _ledger_weights(s)
    total = log.worst("total_bytes")
    capacity = total if total is not None else float(s.accelerator.usable_memory_bytes)
    pool, free = log.worst("kv_pool_bytes"), log.worst("free_at_load_bytes")
    peak = log.worst("rest_bytes")
    if s.engine.budget == "share_of_total" and peak is not None and s.kv_pool_bytes is None:
        yield Figure("rest", peak - weights, root(off**2 + ROUNDING_BYTES**2))
    elif s.engine.budget == "share_of_total" and pool is not None and s.kv_pool_bytes is None:
        rest = s.utilization * capacity - weights - pool
        yield Figure("rest", rest, root(off**2 + ROUNDING_BYTES**2 + (s.utilization * ROUNDING_BYTES) ** 2))
    elif s.engine.budget == "share_after_load":
        used = peak if peak is not None else capacity - free if free is not None else None
        if used is not None:
            yield Figure("rest", used - weights, root(off**2 + 2 * ROUNDING_BYTES**2))


def _ledger_weights(s: Scenario) -> tuple[float, float]:
    """Weights of a rank by geometry, and how far they may be off."""
    from infopt.ledgers.memory import memory_ledger

    weights = memory_ledger(s).weights_bytes_per_gpu
    return weights, WEIGHTS_SHARE * weights


def _record(old: Calibration | None, device: Accelerator, terms: tuple[MemoryTerm, ...]) -> Calibration:
    """A record of these terms: the old one's device and state stay, since a log measures neither."""
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if old is not None:
        return old.model_copy(update={"created": created, "infopt": infopt.__version__, "memory": list(terms)})
    return Calibration(
        schema="infopt/calibration/1",
        method=METHOD,
        created=created,
        infopt=infopt.__version__,
        complete=True,
        device=device_of(device),
        state=State(notes=["memory by start-up logs; nothing was measured by infopt"]),
        software={},
        memory=list(terms),
    )
