"""One placement of a plan with its load left open: the ledgers run once on traced numbers, a program comes of it.

The results have the names of `plan --json`, section and key; NaN stands for null. Beside them, for pictures and texts:
    memory.term.NAME  lines of the memory ledger in its order
    estimate.reason   place in `texts` of why there is no estimate; bounds likewise
    roofline.NAME     the scenario's work on it (studies/plan_curves.py)
    curve.most_batch  sequences that the engine is set to run at most
    outside.N         the load lies outside what was measured, by the N-th of `outside`
Not followed: remedies, caveats, assumptions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers import estimate as estimates
from infopt.ledgers.arrays import larger, smaller
from infopt.ledgers.bandwidth import BandwidthLedger, bandwidth_ledger
from infopt.ledgers.compute import ComputeLedger, all_weights_read_bytes, compute_ledger
from infopt.ledgers.estimate import Clock, Estimate, NoEstimate, Times
from infopt.ledgers.memory import stage_figures, unknown_terms
from infopt.ledgers.pool import Room, StageMemory, room, stage_memory
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.start_checks import is_too_long, standing_refusals
from infopt.ledgers.traced import Program, Tape, every_branch, program
from infopt.profiles.step_constants import StepConstants
from infopt.studies.planning import Bound, Cost, cost_of, energy_of, floor_bound
from infopt.studies.scenarios import Built, Request, filled_lengths

LENGTHS = ("context_tokens", "input_tokens", "output_tokens")
LOAD = (*LENGTHS, "decode_context_tokens", "batch")
# `fits` as a number.
YES, NO, UNDETERMINED = 1, 0, -1
# No sequence has as many tokens as a number of so many bits.
LENGTH_BITS = 40
BOUNDS: tuple[str, ...] = (*get_args(Bound), *(one for one in get_args(estimates.Bound) if one not in get_args(Bound)))
ENERGY = ("watts", "joules_per_output_token", "output_tokens_per_joule")
Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Traced:
    """A placement's program, with the texts that some of its results number, and what each `outside` is of."""

    program: Program
    texts: tuple[str, ...]
    outside: tuple[str, ...]


def given_lengths(request: Request) -> tuple[str, ...]:
    """The lengths of a request that were given: what a reader may change. The context, where none was."""
    return tuple(name for name in LENGTHS if getattr(request, name) is not None) or LENGTHS[:1]


def traced_lengths(names: Sequence[str]) -> Program:
    """From the lengths given and a batch to the load of a placement, and whether it is possible."""
    tape = Tape()
    context, prompt, answer, decode = filled_lengths(*(tape.input(name) if name in names else None for name in LENGTHS))
    load = dict(zip(LOAD, (context, prompt, answer, decode, tape.input("batch")), strict=True))
    contradicts = (prompt < 1) | (answer < 1) | (prompt + answer > context)
    possible = True if names == LENGTHS[:1] else contradicts ^ True
    return program(tape, (*names, "batch"), {**load, "possible": possible})


def traced_plan(
    built: Built, hardware: HardwareChoice, request: Request, calibrated: StepConstants | None = None
) -> Traced:
    """The program of a placement, from its load: `LOAD`; `built` is it at any.

    Raises InfoptError for one that no engine runs.
    """
    built.scenario.check()
    tape = Tape()
    load: Results = {name: tape.input(name) for name in LOAD}
    s = replace(built.scenario, **load)
    clock = estimates.clock(s, calibrated)
    reasons = _reasons(s, clock)
    bandwidth = bandwidth_ledger(s)
    results = {**_workload(s), **_memory(s), **_bandwidth(bandwidth)}
    results |= _compute(tape, s, bandwidth)
    results |= _expected(tape, s, hardware, request, clock, results, bandwidth)
    outside = {} if isinstance(clock, NoEstimate) else _outside(s, built.scenario, clock.constants)
    results |= {f"outside.{i}": holds for i, holds in enumerate(outside.values())}
    return Traced(program(tape, LOAD, results), (*BOUNDS, *reasons), tuple(outside))


def _outside(s: Scenario, placed: Scenario, c: StepConstants) -> Results:
    """What may lie outside the measurements, by what was measured."""
    found: Results = dict.fromkeys(estimates.standing_extrapolations(placed, c), True)
    for name, asked, span in estimates.measured_sides(s, c.measured):
        found[f"{name}, measured {estimates.span_words(span)}"] = (asked < span[0] / 2) | (asked > span[1])
    return found


def _workload(s: Scenario) -> Results:
    device = s.accelerator
    rates = {"memory_bytes": device.usable_memory_bytes, "bandwidth_bytes_per_s": device.bandwidth_bytes_per_s}
    degrees = {name: getattr(s, name) for name in ("gpus", "tp", "pp", "dp", "ep")}
    placed = {f"hardware.{name}": value for name, value in {**rates, **degrees}.items()}
    load = {f"workload.{name}": getattr(s, name) for name in LOAD}
    return {**load, **placed, "curve.most_batch": s.max_num_seqs * s.dp}


def _memory(s: Scenario) -> Results:
    """Figures of the rank that decides: the fewest sequences, then the smallest pool, then the first."""
    parts: list[StageMemory] = []
    for index, stage in enumerate(stages(s.model, s.pp)):
        part = stage_memory(s, stage, index)
        if part not in parts:
            parts.append(part)
    chosen, *others = (_rank(s, part) for part in parts)
    for other in others:
        (tokens, sequences), (own_tokens, own) = (
            (one["memory.kv_pool_tokens"], one["memory.max_sequences"]) for one in (other, chosen)
        )
        fewer = (sequences < own) | ((sequences == own) & (tokens < own_tokens))
        chosen = {name: _chosen(fewer, other[name], value) for name, value in chosen.items()}
    if unknown_terms(s):
        chosen["memory.fits"] = _chosen(chosen["memory.fits"] == YES, UNDETERMINED, chosen["memory.fits"])
    return chosen


def _rank(s: Scenario, part: StageMemory) -> Results:
    held = room(s, part)
    figures = stage_figures(s, part, held)
    terms = {f"memory.term.{term.name}": term.value for term in figures.pop("terms")}
    found = {f"memory.{name}": value for name, value in figures.items()}
    refused = any(standing_refusals(s)) | is_too_long(s, part, held.pool_bytes)
    found["memory.max_context_tokens"] = _longest_tokens(s, part, figures["kv_pool_bytes_per_gpu"])
    found["memory.refused"] = refused
    found["memory.fits"] = _fits(held, refused)
    return {name: math.nan if value is None else value for name, value in {**found, **terms}.items()}


def _fits(held: Room, refused: Any) -> Any:
    return _chosen(refused, NO, _chosen(held.unsure, UNDETERMINED, _chosen(held.holds, YES, NO)))


def _longest_tokens(s: Scenario, part: StageMemory, pool_bytes: Any) -> Any:
    """The longest single sequence: searched now, or by the program where the pool goes by the context itself."""
    known = s.model.max_position_tokens or s.context_tokens
    if not part.layout.kinds:
        return known
    limit = larger(known, s.context_tokens)
    if isinstance(pool_bytes, int | float):
        return smaller(part.layout.longest_context_tokens(pool_bytes, 2**LENGTH_BITS), limit)
    longest: Any = 0
    for bit in reversed(range(LENGTH_BITS)):
        more = longest + 2**bit
        holds = (more <= limit) & (part.layout.sequences(pool_bytes, more) >= 1)
        longest = _chosen(holds, more, longest)
    return longest


def _bandwidth(bandwidth: BandwidthLedger) -> Results:
    return {f"bandwidth.{name}": getattr(bandwidth, name) for name in BandwidthLedger.__slots__}


def _compute(tape: Tape, s: Scenario, bandwidth: BandwidthLedger) -> Results:
    """The compute ledger, what sets the floor, and the scenario's work on the roofline."""

    def figures() -> Results:
        c = compute_ledger(s, bandwidth)
        return {
            "compute.prefill_flop": c.prefill_flop,
            "compute.decode_flop_per_token": c.decode_flop_per_token,
            "compute.ttft_floor_s": c.ttft_floor_s,
            "compute.ridge_batch": c.ridge_batch,
            **_roofline(s, c, bandwidth),
            "floor.bound": BOUNDS.index(floor_bound(bandwidth, c)),
        }

    return every_branch(tape, figures)


def _roofline(s: Scenario, c: ComputeLedger, bandwidth: BandwidthLedger) -> Results:
    """The roof of a replica, and the work of a step and of a prompt below it."""
    peak = math.nan if c.peak_flop_per_s is None else c.peak_flop_per_s * s.tp * s.pp
    rate, step_flop = s.accelerator.bandwidth_bytes_per_s * s.tp, s.batch_per_replica * c.decode_flop_per_token
    decode = step_flop / (bandwidth.weight_bytes_per_step + bandwidth.kv_bytes_per_step)
    prompt = c.prefill_flop / all_weights_read_bytes(s, bandwidth)
    return {
        "roofline.peak_flop_per_s": peak,
        "roofline.bandwidth_bytes_per_s": rate,
        "roofline.step_flop": step_flop,
        "roofline.decode_flop_per_byte": decode,
        "roofline.decode_at_most_flop_per_s": smaller(peak, decode * rate),
        "roofline.prefill_flop_per_byte": prompt,
        "roofline.prefill_at_most_flop_per_s": smaller(peak, prompt * rate),
    }


def _reasons(s: Scenario, clock: Clock | NoEstimate) -> tuple[str, ...]:
    """Why there may be no estimate, in the order in which `plan` asks."""
    if isinstance(clock, NoEstimate):
        return estimates.DOES_NOT_FIT, estimates.MUST_QUEUE, clock.reason
    most = clock.constants.most_sequences
    return estimates.DOES_NOT_FIT, estimates.MUST_QUEUE, *([] if most is None else [estimates.too_many_words(s, most)])


def _reason(s: Scenario, clock: Clock | NoEstimate, memory: Mapping[str, Any]) -> Any:
    """The place of the reason among the texts, NaN where there is an estimate."""
    first, sequences = len(BOUNDS), memory["memory.max_sequences"]
    if isinstance(clock, NoEstimate):
        last: Any = first + 2
    else:
        most = clock.constants.most_sequences
        last = math.nan if most is None else _chosen(s.batch_per_replica > most, first + 2, math.nan)
    queues = _chosen(sequences < s.batch_per_replica, first + 1, last)
    return _chosen((sequences == 0) | memory["memory.refused"], first, queues)


def _expected(
    tape: Tape,
    s: Scenario,
    hardware: HardwareChoice,
    request: Request,
    clock: Clock | NoEstimate,
    so_far: Mapping[str, Any],
    bandwidth: BandwidthLedger,
) -> Results:
    """Expected times, price and energy; NaN where there is no estimate, which has a reason then."""
    floor = {"estimate.bound": so_far["floor.bound"]}
    reason = _reason(s, clock, so_far)
    if isinstance(clock, NoEstimate):
        return {"estimate.reason": reason, **floor, **_paid(s, hardware, request, bandwidth, clock)}
    times = estimates.expected_times(s, clock, bandwidth.step_floor_s)
    found = {
        "estimate.tpot_s": times.tpot_s,
        "estimate.ttft_s": times.ttft_s,
        "estimate.output_tokens_per_s": times.output_tokens_per_s,
        "estimate.output_tokens_per_s_per_gpu": times.output_tokens_per_s / s.gpus,
        "estimate.bound": _largest(estimates.bounds_s(times.terms_s)),
        **{f"estimate.{name}": value for name, value in _interval(tape, s, clock, times, bandwidth).items()},
        **{f"estimate.terms_s.{name}": value for name, value in times.terms_s.items()},
    }
    paid = _paid(s, hardware, request, bandwidth, _estimate(s, clock, times))
    without = {**dict.fromkeys((*found, *paid), math.nan), **floor, **_paid(s, hardware, request, bandwidth, None)}
    is_none = reason >= 0
    joined = {name: _chosen(is_none, without[name], value) for name, value in {**found, **paid}.items()}
    return {"estimate.reason": reason, **joined}


def _interval(tape: Tape, s: Scenario, clock: Clock, times: Times, bandwidth: BandwidthLedger) -> Results:
    """Low and high of the times."""

    def ratios() -> Results:
        step, first = estimates.band_of(clock.constants, s.sharing_batch), estimates.first_range(s, clock.constants)
        return {"low": step.low, "high": step.high, "first_low": first[0], "first_high": first[1]}

    found = every_branch(tape, ratios)
    step, first = (found["low"], found["high"]), (found["first_low"], found["first_high"])
    return estimates.interval_s(times, bandwidth.step_floor_s, step, first)


def _estimate(s: Scenario, clock: Clock, times: Times) -> Estimate:
    """What prices and energy read of an estimate."""
    unread: Results = dict.fromkeys(("tpot_low_s", "tpot_high_s", "ttft_low_s", "ttft_high_s"), math.nan)
    return Estimate(
        terms=(),
        tpot_s=times.tpot_s,
        ttft_s=times.ttft_s,
        **unread,
        output_tokens_per_s=times.output_tokens_per_s,
        prompt_work_s=estimates.prompt_time_s(s, clock),
        bound="weights",
        source="",
        extrapolated=(),
    )


def _paid(
    s: Scenario, hardware: HardwareChoice, request: Request, bandwidth: BandwidthLedger, e: Estimate | NoEstimate | None
) -> Results:
    """Price and energy at an estimate, or without one."""
    expected = e if isinstance(e, Estimate) else NoEstimate("")
    cost, energy = cost_of(s, hardware, bandwidth, expected), energy_of(s, request, expected)
    found = {f"cost.{name}": getattr(cost, name, None) for name in Cost.__slots__ if name != "source"}
    found |= {f"energy.{name}": getattr(energy, name, None) for name in ENERGY}
    return {name: math.nan if value is None else value for name, value in found.items()}


def _largest(values: Mapping[Any, Any]) -> Any:
    """The bound of the largest value, the first of equal ones."""
    names = iter(values)
    first = next(names)
    place: Any = BOUNDS.index(first)
    most = values[first]
    for name in names:
        more = most < values[name]
        place, most = _chosen(more, BOUNDS.index(name), place), larger(most, values[name])
    return place


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, bool | np.bool_):
        return yes if condition else no
    return np.where(condition, yes, no)
