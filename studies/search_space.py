"""The space of a search: every way to place one replica, and its times at every concurrency.

    accelerators x (tp, pp, dp, ep) x weight formats x KV formats x concurrency
Concurrency is an array, one entry for each number of sequences up to what memory and the engine hold, and runs through
the formulas that `plan` uses. What cannot hold its own weights is dropped before any ledger is asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infopt.errors import UndeterminedError
from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.hardware.catalogue import FORMATS, hardware_names, load_accelerator, override
from infopt.ledgers.bandwidth import step_bytes
from infopt.ledgers.estimate import Clock, NoEstimate, clock, expected_times
from infopt.ledgers.links import machine_devices
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import step_shape
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.engines import engine_name
from infopt.profiles.formats import kv_format_name, load_kv_format, load_weight_format
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.step_constants import StepConstants
from infopt.studies.choices import weight_formats
from infopt.studies.scenarios import Built, Request, build, usable_tensor_parallel

WIDEST_TP = 8  # of the measured deployments
SIXTEEN_BITS = ("bf16", "fp16")
Kind = tuple[str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """One way to place one replica; `times` of it is None where it does not fit.

    built     its scenario, with one sequence for each attention replica
    max_gpus  devices of this kind that may be used in all
    """

    built: Built
    hardware: HardwareChoice
    request: Request
    max_gpus: int
    times: "Times | None"

    @property
    def scenario(self) -> Scenario:
        return self.built.scenario

    @property
    def gpus(self) -> int:
        return self.built.scenario.gpus

    @property
    def kind(self) -> Kind:
        """Device, weight format and cache format: what neighbouring placements share."""
        s = self.built.scenario
        return s.accelerator.id, s.weight_format, s.kv_format


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Expected times of a replica by concurrency (arrays, rising).

    sequences        concurrent sequences of the replica
    requests_per_s   sequences / (ttft + osl tpot): Little's law, the rate it serves at that concurrency
    """

    sequences: Any
    ttft_s: Any
    tpot_s: Any
    requests_per_s: Any


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """What a search looked at.

    by_kind       the replicas by device, weight format and cache format
    looked_at     scenarios whose times were computed
    no_estimate   ids of accelerators without measurements
    no_estimate_formats  weight formats without measurements on accelerators that have some
    """

    replicas: tuple[Replica, ...]
    by_kind: Mapping[Kind, Sequence[Replica]]
    looked_at: int
    accelerators: int
    no_estimate: tuple[str, ...]
    no_estimate_formats: tuple[str, ...]


def all_devices() -> list[HardwareChoice]:
    """Every accelerator of the catalogue."""
    devices = (load_accelerator(id) for id in hardware_names())
    return [HardwareChoice(device, None, device.name) for device in devices]


def device_at_unit_price(choice: HardwareChoice) -> HardwareChoice:
    """`choice` with the price of an instance shared by its devices; its count stays the most that may be used."""
    if choice.usd_per_hour is None or not choice.gpus:
        return choice
    device = override(choice.accelerator, {"usd_per_hour": choice.usd_per_hour / choice.gpus})
    return replace(choice, accelerator=device, usd_per_hour=None)


def space(model: ModelProfile, request: Request, devices: Sequence[HardwareChoice], max_gpus: int) -> Space:
    """All placements of one replica on at most `max_gpus` devices of each kind.

    Raises UndeterminedError where no device has measurements to estimate from.
    """
    found: list[Replica] = []
    reasons: dict[tuple[str, str], str] = {}
    for device in devices:
        found += _replicas(model, request, device, max_gpus, reasons)
    known = {replica.kind[0] for replica in found}
    if not known:
        # A format that was not measured says more than a device that was not.
        told = sorted(reasons.items(), key=lambda item: item[0][1] not in item[1])
        several = f" on any of {len(devices)} accelerators" if len(devices) > 1 else ""
        raise UndeterminedError(f"nothing to search by{several}: {told[0][1]}, and `infopt plan` gives them")
    by_kind: dict[Kind, list[Replica]] = {}
    for replica in found:
        by_kind.setdefault(replica.kind, []).append(replica)
    looked_at = sum(len(replica.times.sequences) for replica in found if replica.times)
    unknown = dict.fromkeys(device for device, _ in reasons if device not in known)
    formats = sorted({weights for device, weights in reasons if device in known})
    return Space(tuple(found), by_kind, looked_at, len(known), tuple(unknown), tuple(formats))


def _replicas(
    model: ModelProfile,
    request: Request,
    device: HardwareChoice,
    max_gpus: int,
    reasons: dict[tuple[str, str], str],
) -> Iterator[Replica]:
    """Every placement on one kind of device in what was measured; `reasons` gets why the rest has no estimate."""
    most = min(max_gpus, device.gpus or max_gpus)
    one = replace(device, gpus=None, usd_per_hour=None)
    for weights, kv in formats(model, request, device.accelerator):
        asked = replace(request, weights=weights, kv=kv, gpus=1, tp=1, pp=1, dp=1, ep=1, batch=1)
        built = build(model, one, asked)
        compiled = clock(built.scenario)
        if isinstance(compiled, NoEstimate):
            reasons[device.accelerator.id, built.scenario.weight_format] = compiled.reason
            continue
        yield from _placed(built, one, asked, most, compiled.constants)


def _placed(
    built: Built, device: HardwareChoice, asked: Request, most: int, constants: StepConstants
) -> Iterator[Replica]:
    """One format in every placement; over several machines only where none of them alone holds the model.

    The time of links between machines is not in the estimate, so such replicas are a last resort.
    """
    s, held = built.scenario, False
    needed, machine = least_weight_bytes(s), machine_devices(device.accelerator)
    for tp, pp, dp, ep in placements(s.model, device.accelerator, most):
        gpus = tp * pp * dp
        scenario = replace(s, gpus=gpus, tp=tp, pp=pp, dp=dp, ep=ep, batch=dp)
        if (held and gpus > machine) or dp > scenario.sharing_replicas:
            continue  # replicas that share nothing on this engine are counted as replicas
        small = needed > gpus * device.accelerator.usable_memory_bytes
        times = None if small else _times(scenario, constants)
        held = held or (times is not None and gpus <= machine)
        placed = replace(asked, gpus=gpus, tp=tp, pp=pp, dp=dp, ep=ep, batch=dp)
        yield Replica(Built(scenario, built.assumptions), device, placed, most, times)


def formats(model: ModelProfile, request: Request, device: Accelerator) -> Iterator[tuple[str | None, str | None]]:
    """Weight and KV formats worth trying: as stored (or asked for), then smaller ones the device computes in."""
    engine = engine_flags(engine_name(request.engine))
    small = engine.small_kv
    own_cache = load_kv_format(kv_format_name(model, None))
    try_small = request.kv is None and load_kv_format(small).bits_per_element < own_cache.bits_per_element
    computed = [name for name in engine.small_weights if _computes(device, load_weight_format(name).compute)]
    for weights in weight_formats(model, request, computed):
        yield weights, request.kv
        if try_small and (_computes(device, small) or small not in FORMATS):
            yield weights, small


def _computes(device: Accelerator, compute: str) -> bool:
    """Whether the device has dense units for a format; 16 bits are 16 bits."""
    peaks = device.peak_flop_per_s
    return compute in peaks or (compute in SIXTEEN_BITS and any(name in peaks for name in SIXTEEN_BITS))


def placements(model: ModelProfile, device: Accelerator, max_gpus: int) -> list[tuple[int, int, int, int]]:
    """(tp, pp, dp, ep) of one replica, the fewest devices first: powers of two, tp within a machine.

    Replicas of a dense model are independent and counted outside; those of a mixture may share its experts (dp), whole
    or in slices (ep).
    """
    widest = min(machine_devices(device), WIDEST_TP, max_gpus)
    found = []
    for tp in (tp for tp in usable_tensor_parallel(model, widest) if tp & (tp - 1) == 0):
        for pp in _powers(min(max_gpus // tp, model.layers)):
            found += [(tp, pp, 1, ep) for ep in ((1, tp) if model.experts and tp > 1 else (1,))]
        if model.experts:
            found += [(tp, 1, dp, ep) for dp in _powers(max_gpus // tp)[1:] for ep in (1, tp * dp)]
    return sorted(found, key=lambda degrees: degrees[0] * degrees[1] * degrees[2])


def _powers(limit: int) -> list[int]:
    """1, 2, 4, ... up to `limit`."""
    return [2**n for n in range(max(1, limit).bit_length())]


def least_weight_bytes(s: Scenario) -> float:
    """Weights that all devices of a replica hold together, at least: nothing replicated, text alone."""
    parts = s.model.params_by_part
    return sum(parts[part] * s.weight_bits[part] / 8 for part in parts if part not in ("mtp", "vision"))


def _times(s: Scenario, constants: StepConstants) -> Times | None:
    """Times at every concurrency that fits, None where not even one sequence for each attention replica does."""
    memory = memory_ledger(s)
    most = min(memory.max_sequences, s.max_num_seqs)
    shape = step_shape(s, constants)
    if memory.fits is not True or most < 1 or shape is None:
        return None
    return times_at(s, Clock(constants, shape), range(1, most + 1))


def times_at(s: Scenario, compiled: Clock, each: Sequence[int]) -> Times | None:
    """Expected times with so many sequences in each attention replica, as far as they were measured."""
    import numpy as np

    batch: Any = np.array(each, dtype=np.float64) * s.dp
    placed = replace(s, batch=batch)
    weights, kv = step_bytes(compiled.shape.stages, placed.batch_per_replica, s.decode_context_tokens)
    times = expected_times(placed, compiled, (weights + kv) / s.accelerator.bandwidth_bytes_per_s)
    unmeasured = ~np.isfinite(times.output_tokens_per_s)
    count = int(unmeasured.argmax()) if unmeasured.any() else len(batch)
    if not count:
        return None
    rate = times.output_tokens_per_s / s.output_tokens
    return Times(batch[:count], times.ttft_s[:count], times.tpot_s[:count], rate[:count])


def weight_bits(s: Scenario) -> float:
    """Bits of all weights: what smaller formats save, and may cost in quality."""
    return sum(count * s.weight_bits[part] for part, count in s.model.params_by_part.items())
