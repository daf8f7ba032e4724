"""The plan of one scenario: three ledgers, what binds, what it costs, and what would make it fit."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.bandwidth import BandwidthLedger, bandwidth_ledger
from infopt.ledgers.compute import ComputeLedger, compute_ledger
from infopt.ledgers.cost import attributed_prices, prefill_share, usd_per_million_tokens
from infopt.ledgers.energy import Energy, energy
from infopt.ledgers.estimate import Estimate, NoEstimate, estimate
from infopt.ledgers.memory import MemoryLedger, memory_ledger
from infopt.ledgers.scenario import Scenario, allowed_tensor_parallel
from infopt.ledgers.terms import Caveat
from infopt.profiles.formats import weight_bits_by_part
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.step_constants import StepConstants
from infopt.studies.scenarios import Built, Request, build, with_weights

# A weight format is offered as a remedy only where it is at least this much smaller.
WORTHWHILE_SHARE = 0.8
Bound = Literal["weights", "kv", "compute"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Price of the deployment; of tokens at the expected throughput where there is one, and at the floor.

    usd_per_million_output_tokens  the whole price over the output tokens
    attributed prices              the same divided between prompts and answers by the time they take
    prefill_share                  part of a request's machine time that its prompt takes
    """

    usd_per_hour: float
    usd_per_million_output_tokens: float | None
    usd_per_million_output_tokens_at_floor: float
    source: str
    usd_per_million_input_tokens_attributed: float | None = None
    usd_per_million_output_tokens_attributed: float | None = None
    prefill_share: float | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change that would make the scenario fit, with its number."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything `plan` prints about one scenario.

    bound    what sets the floor of a decode step: weights, kv or compute
    step_s   the longer of the memory and the compute floor of a decode step
    preemption  what the engine does with a batch that it starts and cannot hold
    calibrated  step-time constants of the user's own points, None where none were given
    """

    scenario: Scenario
    memory: MemoryLedger
    bandwidth: BandwidthLedger
    compute: ComputeLedger
    estimate: Estimate | NoEstimate
    bound: Bound
    cost: Cost | None
    energy: Energy | None
    remedies: tuple[Remedy, ...]
    assumptions: tuple[Caveat, ...]
    resolved_as: str
    preemption: Caveat | None = None
    calibrated: StepConstants | None = None

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        notes = [Caveat("model", note) for note in self.scenario.model.notes]
        quality = self.scenario.weight_quality
        if quality is not None and quality[0] < 1:
            low, high = quality
            kept = f"{low:.0%}" if low == high else f"{low:.0%} to {high:.0%}"
            text = f"{self.scenario.weight_format} weights keep about {kept} of quality (document 3); measure yours"
            notes.append(Caveat("quality", text))
        notes += [Caveat("hardware", note) for note in self.scenario.accelerator.notes]
        preempted = (self.preemption,) if self.preemption else ()
        return (*self.memory.caveats, *preempted, *notes)

    @property
    def fits(self) -> bool | None:
        """The verdict: a definite no stands even where a term is unknown; a yes does not."""
        if self.memory.fits and self.memory.unknown:
            return None
        return self.memory.fits

    @property
    def sources(self) -> tuple[str, ...]:
        s = self.scenario
        device = (f"{name}: {datum.kind}, {datum.source}" for name, datum in sorted(s.accelerator.data.items()))
        return (f"model: {s.model.source}", *device, f"engine: {s.engine.source}", f"kv: {s.kv.source}")


def plan(model: ModelProfile, hardware: HardwareChoice, request: Request) -> Plan:
    """The plan of a scenario; raises InfoptError for a placement that no engine runs."""
    return plan_built(build(model, hardware, request), hardware, request)


def plan_built(built: Built, hardware: HardwareChoice, request: Request, explain_fit: bool = True) -> Plan:
    """The plan of a resolved scenario."""
    s = built.scenario
    memory = memory_ledger(s)
    bandwidth = bandwidth_ledger(s)
    compute = compute_ledger(s, bandwidth)
    measured = own_constants(s, request)
    expected = estimate(s, memory, bandwidth, measured)
    told = [Caveat("calibration", f"estimate calibrated by {measured.source}")] if measured else []
    told += [Caveat("load", text) for text in (expected.assumed if isinstance(expected, Estimate) else ())]
    remedies = tuple(_remedies(built, hardware, request, memory)) if explain_fit and memory.fits is not True else ()
    return Plan(
        scenario=s,
        memory=memory,
        bandwidth=bandwidth,
        compute=compute,
        estimate=expected,
        bound=floor_bound(bandwidth, compute),
        cost=cost_of(s, hardware, bandwidth, expected),
        energy=energy_of(s, request, expected),
        remedies=remedies,
        assumptions=(*built.assumptions, *told),
        resolved_as=hardware.resolved_as,
        preemption=_preemption(s, memory) if explain_fit and memory.fits is not True else None,
        calibrated=measured,
    )


def _preemption(s: Scenario, memory: MemoryLedger) -> Caveat | None:
    from infopt.ledgers.preemption import preemption  # most plans fit

    return preemption(s, memory)


def own_constants(s: Scenario, request: Request) -> StepConstants | None:
    """Step-time constants made to fit the user's measured points, None where none are given."""
    if not request.points:
        return None
    from infopt.studies.measured_points import calibrated_constants

    return calibrated_constants(s, request.points)


def floor_bound(bandwidth: BandwidthLedger, compute: ComputeLedger) -> Bound:
    """What sets the floor of a decode step."""
    if compute.decode_compute_s is not None and compute.decode_compute_s > bandwidth.step_floor_s:
        return "compute"
    return "kv" if bandwidth.kv_share_of_step > 0.5 else "weights"


def cost_of(
    s: Scenario, hardware: HardwareChoice, bandwidth: BandwidthLedger, expected: Estimate | NoEstimate
) -> Cost | None:
    """Price of all devices; None where no dated price is known."""
    device = s.accelerator
    if hardware.usd_per_hour is not None and hardware.gpus == s.gpus:
        usd, source = hardware.usd_per_hour, hardware.resolved_as
    elif device.usd_per_hour is not None:
        datum = device.data.get("usd_per_hour")
        usd, source = device.usd_per_hour * s.gpus, datum.source if datum else "--price"
    else:
        return None
    floor = usd_per_million_tokens(usd, s.batch / bandwidth.step_floor_s)
    if not isinstance(expected, Estimate):
        return Cost(usd, None, floor, source)
    per_s, share = expected.output_tokens_per_s, request_prefill_share(s, expected)
    parts = attributed_prices(usd, per_s, share, s.input_tokens, s.output_tokens)
    inputs, outputs = parts.usd_per_million_input_tokens, parts.usd_per_million_output_tokens
    return Cost(usd, usd_per_million_tokens(usd, per_s), floor, source, inputs, outputs, share)


def request_prefill_share(s: Scenario, e: Estimate) -> Any:
    """Part of a request's machine time that its prompt takes; replicas that share nothing work side by side."""
    prompt_s = e.prompt_work_s * s.sharing_replicas / s.dp
    return prefill_share(prompt_s, s.output_tokens / e.output_tokens_per_s)


def energy_of(s: Scenario, request: Request, expected: Estimate | NoEstimate) -> Energy | None:
    """Power of all devices; None where none is known."""
    per_s = expected.output_tokens_per_s if isinstance(expected, Estimate) else None
    return energy(request.power, s.accelerator.tdp_watts, s.gpus, per_s)


def _remedies(built: Built, hardware: HardwareChoice, request: Request, memory: MemoryLedger) -> Iterator[Remedy]:
    """Changes that would make it fit, one at a time, each computed by the same ledger."""
    s = built.scenario
    longest = safe_context_tokens(s, memory) if s.batch_per_replica == 1 else 0
    if 0 < longest < s.context_tokens:
        yield Remedy("context", f"context of at most {longest} tokens")
    if 0 < memory.max_sequences < s.batch_per_replica:
        yield Remedy("batch", f"at most {memory.max_sequences * s.dp} sequences at once")
    need = memory.kv_bytes_per_gpu + memory.layout.null_blocks * memory.layout.block_bytes
    if s.kv_pool_bytes is not None and s.kv_pool_bytes < need <= memory.kv_room_bytes:
        yield Remedy("kv-pool", f"a KV pool of at least {need / 2**20:,.0f} MiB a device")
    if memory.is_pool_too_large and need <= memory.kv_room_bytes:
        yield Remedy("kv-pool", f"a KV pool of at most {memory.kv_room_bytes / 2**20:,.0f} MiB a device")
    for weights in ("fp8", "int4"):
        if _bits(s, weights) < WORTHWHILE_SHARE * _bits(s, None) and _fits(with_weights(built, weights).scenario):
            yield Remedy(
                "weights", f"{weights} weights ({_device_gib(with_weights(built, weights).scenario)} a device)"
            )
            break
    if s.kv.bits_per_element > 8:
        smaller = build(s.model, hardware, replace(request, kv="fp8", gpus=s.gpus, tp=s.tp))
        if _fits(smaller.scenario):
            yield Remedy("kv", "fp8 KV cache")
    if s.accelerator.node is not None:
        return  # this machine has one
    more = fewest_gpus(built, hardware, request, start=s.gpus + 1)
    if more is not None:
        yield Remedy("gpus", f"{more.scenario.gpus} devices (tp {more.scenario.tp}, pp {more.scenario.pp})")


def safe_context_tokens(s: Scenario, memory: MemoryLedger) -> int:
    """The longest length that fits where this one does not; 0 where none does.

    What the pool holds, but for engines that run a whole prompt to measure memory: the pool of another length is
    another one, the smaller the longer it is (up to where they cut prompts, beyond which it stays), so it is searched.
    """
    low, high = 0, memory.max_context_tokens + 1
    if not s.engine.unchunked_profile or _holds_one(s, memory.max_context_tokens):
        return memory.max_context_tokens
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _holds_one(s, middle) else (low, middle)
    return low


def _holds_one(s: Scenario, context_tokens: int) -> bool:
    return context_tokens > 0 and memory_ledger(replace(s, context_tokens=context_tokens)).max_sequences >= 1


def fewest_gpus(
    built: Built, hardware: HardwareChoice, request: Request, start: int = 1, limit: int = 64
) -> Built | None:
    """The smallest number of devices, at TP (then PP across nodes) this model allows, that holds the scenario.

    The request's dp stays, and its pp is the least number of stages tried.
    """
    from infopt.ledgers.links import NODE_DEVICES  # most plans fit

    model = built.scenario.model
    node = hardware.accelerator.devices_per_node or NODE_DEVICES
    degrees = [tp for tp in allowed_tensor_parallel(model) if tp <= node and tp & (tp - 1) == 0]
    depths = [request.pp * times for times in (1, 2, 4, 8)]
    sizes = sorted(
        (tp * pp * request.dp, pp, tp) for tp in degrees for pp in depths if pp == request.pp or tp == max(degrees)
    )
    one_device = replace(hardware, gpus=None, usd_per_hour=None)
    for gpus, pp, tp in sizes:
        if not start <= gpus <= limit or pp > model.layers:
            continue
        candidate = build(model, one_device, replace(request, gpus=gpus, tp=tp, pp=pp, ep=None))
        if _fits(candidate.scenario):
            return candidate
    return None


def _fits(s: Scenario) -> bool:
    return memory_ledger(s).fits is True


def _bits(s: Scenario, weights: str | None) -> float:
    """Total bits of the weights in a format (None: as they are in the scenario)."""
    bits = s.weight_bits if weights is None else weight_bits_by_part(s.model, weights)[1]
    return sum(count * bits[part] for part, count in s.model.params_by_part.items())


def _device_gib(s: Scenario) -> str:
    return f"{memory_ledger(s).weights_bytes_per_gpu / 2**30:.1f} GiB"
