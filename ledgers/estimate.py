"""What a user will get: TPOT, TTFT and throughput with intervals, where measurements cover the case.

    output_tokens_per_s = B OSL / (TTFT + OSL TPOT)
Intervals are the 5th to 95th percentile of measured over predicted with the model left out of the fit. No estimate lies
below the floor. Steps measured on the device itself come before the constants of its class. Where nothing was measured
on the engine, the memory class or the kind of model, or where more sequences are asked for than fit, there is no
estimate but a reason.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from infopt.frozen import dataclass
from infopt.ledgers.arrays import larger, unmeasured
from infopt.ledgers.bandwidth import BandwidthLedger
from infopt.ledgers.memory import MemoryLedger
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import StepShape, first_token_of, first_token_s, prompt_work_s, step_shape, step_terms_s
from infopt.ledgers.terms import Term
from infopt.ledgers.traffic import traffic
from infopt.profiles.step_constants import Band, Measured, StepConstants, step_constants
from infopt.units import format_bytes

DOES_NOT_FIT = "it does not fit"
MUST_QUEUE = "more sequences than fit at once: they queue, and a step time says nothing about the wait"
SAME = 0.02  # of the weights of two models that count as one size
Bound = Literal["weights", "kv", "compute", "link", "overhead", "prefill"]
# Which of the bounds a term of the step belongs to.
BOUND_OF: dict[str, Bound] = {
    "weights": "weights",
    "kv": "kv",
    "attention": "kv",
    "links": "link",
    "compute": "compute",
    "kernels": "overhead",
    "requests": "overhead",
    "experts": "overhead",
    "prefill stall": "prefill",
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected times of one scenario.

    terms          seconds of one output token by name; they sum to tpot_s
    prompt_work_s  what one prompt takes of its replica's time, of the whole deployment's where replicas share experts
    bound          the largest of weights, kv, compute, overhead and prefill
    source         the constants and their errors
    extrapolated   where the scenario lies outside the measurements: there the interval is not measured
    assumed        about the load, where times depend on it
    """

    terms: tuple[Term, ...]
    tpot_s: float
    tpot_low_s: float
    tpot_high_s: float
    ttft_s: float
    ttft_low_s: float
    ttft_high_s: float
    output_tokens_per_s: float
    prompt_work_s: float
    bound: Bound
    source: str
    extrapolated: tuple[str, ...]
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clock:
    """A placement compiled: its times follow for any batch and lengths."""

    constants: StepConstants
    shape: StepShape


@dataclass(frozen=True, slots=True)
class Times:
    """Expected times, numbers or arrays; the terms are of one output token."""

    terms_s: dict[str, Any]
    tpot_s: Any
    ttft_s: Any
    output_tokens_per_s: Any


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """Why there is none."""

    reason: str


def estimate(
    s: Scenario, memory: MemoryLedger, bandwidth: BandwidthLedger, calibrated: StepConstants | None = None
) -> Estimate | NoEstimate:
    """The estimate of a scenario, or why it has none; `calibrated` constants replace the shipped ones of its class."""
    if memory.max_sequences == 0 or memory.refusals:
        return NoEstimate(DOES_NOT_FIT)
    if memory.max_sequences < s.batch_per_replica:
        return NoEstimate(MUST_QUEUE)
    compiled = clock(s, calibrated)
    if isinstance(compiled, NoEstimate):
        return compiled
    most = compiled.constants.most_sequences
    if most is not None and s.batch_per_replica > most:
        return NoEstimate(too_many_words(s, most))
    times = expected_times(s, compiled, bandwidth.step_floor_s)
    return _with_intervals(s, compiled, times, bandwidth)


def too_many_words(s: Scenario, most_sequences: int) -> str:
    """Of a batch beyond what was measured."""
    return f"{s.engine.engine} was measured with at most {most_sequences} sequence at a time; the floors hold"


def clock(s: Scenario, calibrated: StepConstants | None = None) -> Clock | NoEstimate:
    """Constants and shape of a placement, or why it has none."""
    compiled = step_clock(s, calibrated)
    if isinstance(compiled, NoEstimate) or compiled.constants.first_token is not None:
        return compiled
    return NoEstimate(f"no first token of {s.engine.engine} was measured; the floors hold")


def step_clock(s: Scenario, calibrated: StepConstants | None = None) -> Clock | NoEstimate:
    """The same where only steps are asked for, not first tokens."""
    own = None if calibrated else _constants_of_device(s)
    constants = calibrated or (own if isinstance(own, StepConstants) else _constants_of_class(s))
    if constants is None or constants.most_sequences == 0:
        return NoEstimate(own if isinstance(own, str) else _not_measured(s))
    formats = constants.measured_formats(s.accelerator.cuda_capability)
    if formats is not None and s.weight_format not in formats:
        where = f"{s.engine.engine} on {s.accelerator.name or s.accelerator.id}"
        return NoEstimate(f"{s.weight_format} weights were not measured with {where}; the floors hold")
    shape = step_shape(s, constants)
    if shape is None:
        remedy = "; `infopt probe compute` measures it" if s.accelerator.calibration else ""
        return NoEstimate(f"the dense peak of {s.accelerator.id} is not known{remedy}")
    return Clock(constants, shape)


def _not_measured(s: Scenario) -> str:
    """Steps of another engine do not stand in: it runs other kernels."""
    reason = (
        f"no measurements of {s.engine.engine} on {s.accelerator.name or s.accelerator.id} are in the step-time data"
    )
    others = sorted({step.engine for step in s.accelerator.measured_steps})
    remedy = (
        f"the calibration has steps of {', '.join(others)}: --engine {others[0]} plans with them; " if others else ""
    )
    return f"{reason}; {remedy}the floors hold"


def _constants_of_device(s: Scenario) -> StepConstants | str | None:
    """Constants from steps measured on the device itself."""
    if not s.accelerator.measured_steps:
        return None
    from infopt.ledgers.device_steps import device_constants  # most plans have no calibration

    return device_constants(s)


def _constants_of_class(s: Scenario) -> StepConstants | None:
    device = s.accelerator
    return step_constants(
        s.engine.engine, device.memory_class, device.vendor, device.cuda_capability, s.model.experts > 0
    )


def expected_times(s: Scenario, clock: Clock, step_floor_s: Any, cached_tokens: Any = 0) -> Times:
    """Times at the scenario's batch and lengths, which may be arrays; no step is below its floor.

    With more sequences than were measured times are NaN. `cached_tokens` of every prompt are not
    computed anew: a prompt cache holds them.
    """
    constants, shape, batch = clock.constants, clock.shape, s.sharing_batch
    lengths = (s.decode_context_tokens, s.input_tokens, s.output_tokens)
    terms_s = step_terms_s(shape, constants, batch, *lengths, cached_tokens)
    tpot_s = larger(sum(terms_s.values()), step_floor_s)
    if constants.most_sequences is not None:  # added last: the larger of a number and NaN may be either
        tpot_s = tpot_s + unmeasured(s.batch_per_replica, constants.most_sequences)
    ttft_s = first_token_s(shape, constants, tpot_s, batch, s.input_tokens - cached_tokens, cached_tokens)
    return Times(terms_s, tpot_s, ttft_s, s.batch * s.output_tokens / (ttft_s + s.output_tokens * tpot_s))


def prompt_time_s(s: Scenario, clock: Clock, cached_tokens: int = 0) -> Any:
    """Machine time of one prompt: what it takes from the others where that was measured, else its own first token."""
    shape, c = clock.shape, clock.constants
    if c.prefill_ratio or c.prefill_token_s:
        return prompt_work_s(shape, c, s.input_tokens, cached_tokens)
    return first_token_s(shape, c, 0.0, 1, s.input_tokens - cached_tokens, cached_tokens)


def _with_intervals(s: Scenario, clock: Clock, times: Times, bandwidth: BandwidthLedger) -> Estimate:
    constants = clock.constants
    terms_s, tpot_s, ttft_s = times.terms_s, times.tpot_s, times.ttft_s
    band, first = band_of(constants, s.sharing_batch), first_range(s, constants)
    assumed = []
    if constants.of_device and s.batch_per_replica > 1:
        assumed.append(
            f"{s.batch_per_replica} requests are taken to start together: one prompt alone, then the others in steps "
            f"of at most {s.max_num_batched_tokens} tokens"
        )
    by_bound = bounds_s(terms_s)
    return Estimate(
        terms=tuple(_term(name, value, band, constants) for name, value in terms_s.items()),
        tpot_s=tpot_s,
        ttft_s=ttft_s,
        **interval_s(times, bandwidth.step_floor_s, (band.low, band.high), first),
        output_tokens_per_s=times.output_tokens_per_s,
        prompt_work_s=prompt_time_s(s, clock),
        bound=max(by_bound, key=lambda name: by_bound[name]),
        source=constants.source,
        extrapolated=tuple(extrapolations(s, constants)),
        assumed=tuple(assumed),
    )


def interval_s(times: Times, step_floor_s: Any, step: tuple[Any, Any], first: tuple[Any, Any]) -> dict[str, Any]:
    """Low and high of both times, from measured over predicted of steps and of first tokens; numbers or arrays."""
    return {
        "tpot_low_s": larger(times.tpot_s * step[0], step_floor_s),
        "tpot_high_s": times.tpot_s * step[1],
        "ttft_low_s": times.ttft_s * first[0],
        "ttft_high_s": times.ttft_s * first[1],
    }


def first_range(s: Scenario, constants: StepConstants) -> tuple[Any, Any]:
    """Measured over predicted of first tokens, low and high; wider where prompts of a device's own steps wait."""
    first = first_token_of(constants)
    if not constants.of_device or not s.batch_per_replica > 1:
        return first.low, first.high
    from infopt.ledgers.prompt_wave import WAVE_HIGH, WAVE_LOW  # only with a calibration

    return first.low * WAVE_LOW, first.high * WAVE_HIGH


def bounds_s(terms_s: Mapping[str, Any]) -> dict[Bound, Any]:
    """Seconds of an output token by what bounds them; numbers or arrays."""
    found: dict[Bound, Any] = {}
    for name, value in terms_s.items():
        found[BOUND_OF[name]] = found.get(BOUND_OF[name], 0.0) + value
    return found


def extrapolations(s: Scenario, constants: StepConstants) -> Iterator[str]:
    """Where a scenario is above the most that was measured, or below half of the least."""
    yield from _weights_outside(s, constants.measured)
    for name, asked, span in measured_sides(s, constants.measured):
        if not span[0] / 2 <= asked <= span[1]:
            yield f"{name} {asked:,}, measured {span_words(span)}"
    yield from _links_outside(s, constants.measured)


def standing_extrapolations(s: Scenario, constants: StepConstants) -> Iterator[str]:
    """Those that hold for any load."""
    yield from _weights_outside(s, constants.measured)
    yield from _links_outside(s, constants.measured)


def measured_sides(s: Scenario, measured: Measured) -> Iterator[tuple[str, Any, list[int]]]:
    """What is asked of each side of a scenario, a number or an array, and the least and most that was measured."""
    sides = (
        ("sequences at once", s.sharing_batch, measured.sequences),
        ("devices of a replica", s.tp * s.pp * s.sharing_replicas, measured.devices),
        ("pipeline stages", s.pp, measured.stages),
        ("prompt tokens", s.input_tokens, measured.prompt_tokens),
        ("tokens of context", round(s.decode_context_tokens), measured.context_tokens),
    )
    yield from ((name, asked, span) for name, asked, span in sides if span is not None)


def span_words(span: list[int]) -> str:
    return f"{span[0]:,}" if span[0] == span[1] else f"{span[0]:,} to {span[1]:,}"


def _weights_outside(s: Scenario, measured: Measured) -> Iterator[str]:
    if measured.weight_bytes is None:
        return
    least, most = measured.weight_bytes
    asked = sum(float(stage.weight_bytes(1)) for stage in traffic(s))
    if not least * (1 - SAME) <= asked <= most * (1 + SAME):
        yield f"weights {format_bytes(asked)}, measured {format_bytes(least)} to {format_bytes(most)}"


def _links_outside(s: Scenario, measured: Measured) -> Iterator[str]:
    if s.tp > 1 and s.accelerator.link is None and not measured.pcie:
        yield "tensor parallelism over PCIe, measured over NVLink"


def band_of(constants: StepConstants, sequences: int) -> Band:
    """The interval of a concurrency: the first band that reaches it."""
    return next((band for band in constants.bands if sequences <= band.sequences), constants.bands[-1])


def _term(name: str, value_s: float, band: Band, constants: StepConstants) -> Term:
    return Term(name, value_s, value_s * band.low, value_s * band.high, "s", "", constants.source, constants.kind)
