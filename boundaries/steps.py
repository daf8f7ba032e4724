"""How long a step takes when a technique changes what is in it, and how far that may be off.

    step(B, n) = terms(B) + roof(B n) - roof(B)          B sequences that each bring n tokens (n = 1: plain decoding)
    roof(T)    = max(weights(T) r_x / BW, T 2 P r_c / F)  + fitted costs of products and experts
Of a device whose own curve over tokens was measured, roof(T) is its weights(1) r_x r(T) / BW: products are in it.
weights(T) counts the distinct experts T tokens hit; keys and values are read once per sequence, whatever n is. So a
step of one token a sequence is the estimate's own, and more tokens cost nothing until the roof is reached.
A measured curve of step times against tokens in the step replaces all of it. Its points have one token a sequence, so
keys and values that n tokens of one sequence share are taken off: B (n - 1) sequences less, at full bandwidth.

What is known of a step, from good to bad:
    curve     measured on the machine
    estimate  constants measured on this engine, memory class and kind of model; its interval is the estimate's
    assumed   constants of the nearest class, or of newer software; the interval runs from the floor to a multiple of
              overhead and prompts that such steps were measured at (data/lent_steps.yaml)
    floor     bytes over bandwidth alone: gains are the most that is possible
Ignored: attention products of drafted tokens (they share their sequence's reads).
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from infopt.boundaries.weight_kernels import unpacked_shape
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.compute import compute_format
from infopt.ledgers.estimate import Clock, band_of, step_clock
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import (
    StepShape,
    first_token_s,
    prompt_at_peak_s,
    prompt_stall_s,
    prompt_work_s,
    step_shape,
    step_terms_s,
    weights_at,
)
from infopt.ledgers.traffic import StageTraffic, distinct_experts, traffic
from infopt.profiles.engines import in_versions
from infopt.profiles.step_constants import StepConstants, step_constants
from infopt.records import Record, read_yaml, validate_record

Basis = Literal["curve", "estimate", "assumed", "floor"]
# From good to bad.
BASES: tuple[Basis, ...] = ("curve", "estimate", "assumed", "floor")
BYTES = frozenset({"weights", "kv", "attention"})
STALL = "prefill stall"
# Class that lends its constants where none was measured: capability of the devices it was fitted on.
LENDER = ("hbm", "nvidia", 9.0)
_LENT = Path(__file__).resolve().parent / "data" / "lent_steps.yaml"

Curve = tuple[tuple[float, float], ...]


class Doubt(Record):
    """How many times as long it may be than constants that are lent say."""

    overhead: float
    stall: float
    source: str


class Lent(Record):
    """data/lent_steps.yaml: doubt by reason, and the oldest versions whose steps the constants hold."""

    device: Doubt
    vendor: Doubt
    version: Doubt
    oldest_versions: dict[str, str]
    versions_source: str


@cache
def lent_steps() -> Lent:
    """The data."""
    return validate_record(Lent, read_yaml(_LENT), str(_LENT))


@dataclass(frozen=True, slots=True)
class Steps:
    """Step times of a placement at any batch, context and number of tokens a sequence.

    basis     what they rest on; `reason` says why not better
    stages    what each stage reads
    overhead  multiplies everything that is neither bytes nor the stall of other prompts
    traffic   multiplies the time of bytes
    curve     (tokens in a step, seconds), rising in tokens
    doubt     how many times as long overhead and the prompts of others may be, where constants are lent
    """

    scenario: Scenario
    basis: Basis
    constants: StepConstants | None
    shape: StepShape | None
    stages: tuple[StageTraffic, ...]
    overhead: float = 1.0
    traffic: float = 1.0
    stall: float = 1.0
    curve: Curve = ()
    reason: str = ""
    doubt: "Doubt | None" = None

    def step_s(self, batch: float, context_tokens: float, tokens_per_sequence: float = 1.0) -> float:
        """Seconds of one step, other requests' prompts left out."""
        tokens = batch * tokens_per_sequence
        if self.curve:
            return self._curve_s(batch, context_tokens, tokens)
        if self.shape is None or self.constants is None:
            return self.floor_s(batch, context_tokens, tokens)
        plain = sum(self._terms(batch, context_tokens, with_stall=False).values())
        return max(plain + self._roof_s(tokens) - self._roof_s(batch), self.floor_s(batch, context_tokens, tokens))

    def mixed_s(self, batch: float, context_tokens: float, prompt_tokens: float, work_s: float) -> float:
        """Seconds of a step that also takes tokens of prompts, whose work is `work_s` (prompt_s) where it is alone.

            step(B) + max(roof(B + c) - roof(B), work - spare(B))
            spare(B) = weights(B) - products(B)                     idle units while weights are read
        Spare time counts where the constants do: not where weights and products were fitted or measured as a sum.
        """
        plain_s = self.step_s(batch, context_tokens)
        if self.curve:
            return interpolated(self.curve, batch + prompt_tokens)
        if self.shape is None or self.constants is None:
            return self.floor_s(batch, context_tokens, batch + prompt_tokens)
        more_s = self._roof_s(batch + prompt_tokens) - self._roof_s(batch)
        return plain_s + max(0.0, more_s, work_s - self._spare_s(batch))

    def tpot_s(self, batch: float, context_tokens: float) -> float:
        """What one user waits per token: the step and the prompts of others."""
        return self.step_s(batch, context_tokens) + self.stall_s(batch)

    def stall_s(self, batch: float, cached_tokens: float = 0.0) -> float:
        """Seconds per output token that prompts of other sequences take, less what is cached of them."""
        s = self.scenario
        if self.curve and self.shape is None:
            return 0.0
        c = self.constants
        if self.shape is not None and c is not None and c.of_device and c.prefill_ratio:
            lengths = (s.input_tokens, s.output_tokens, cached_tokens)
            return self.stall * float(prompt_stall_s(self.shape, c, max(1.0, batch), *lengths))
        return max(0.0, batch - 1) / s.output_tokens * self.prompt_s(s.input_tokens, cached_tokens)

    def prompt_s(self, input_tokens: float, cached_tokens: float = 0.0) -> float:
        """Machine time of one prompt, at dense peak where nothing better is known; 0 where even that is not known."""
        return float(self.prompts_s(input_tokens, cached_tokens))

    def prompts_s(self, input_tokens: Any, cached_tokens: Any = 0.0) -> Any:
        """prompt_s of numbers or arrays."""
        if self.shape is None or self.constants is None:
            return 0.0 * input_tokens
        c = self.constants
        if c.prefill_ratio or c.prefill_token_s:
            return self.stall * prompt_work_s(self.shape, c, input_tokens, cached_tokens)
        if c.first_token is not None:
            return first_token_s(self.shape, c, 0.0, 1, input_tokens - cached_tokens, cached_tokens)
        return prompt_at_peak_s(self.shape, input_tokens) - prompt_at_peak_s(self.shape, cached_tokens)

    def entry_s(self, input_tokens: float, cached_tokens: float = 0.0) -> float:
        """prompt_s; with a curve alone a prompt is a step of as many tokens, its attention left out."""
        if self.curve and self.shape is None:
            return interpolated(self.curve, max(1.0, input_tokens - cached_tokens))
        return self.prompt_s(input_tokens, cached_tokens)

    def ttft_s(self, tpot_s: float, batch: float, input_tokens: float, cached_tokens: float = 0.0) -> float:
        """First token of a prompt of which some is cached; prompt work and a step where no first token was measured."""
        return float(self.first_tokens_s(tpot_s, batch, input_tokens, cached_tokens))

    def first_tokens_s(self, tpot_s: float, batch: float, input_tokens: Any, cached_tokens: Any = 0.0) -> Any:
        """ttft_s of numbers or arrays."""
        c, rest = self.constants, input_tokens - cached_tokens
        if c is not None and self.shape is not None and c.first_token is not None and self.basis != "assumed":
            return first_token_s(self.shape, c, tpot_s, batch, rest, cached_tokens)
        return self.prompts_s(input_tokens, cached_tokens) + tpot_s

    def terms_s(self, batch: float, context_tokens: float) -> dict[str, float]:
        """The step by name (weights, kv, kernels, ...), the stall included; empty on a floor or a curve."""
        return self._terms(batch, context_tokens) if self.shape is not None and not self.curve else {}

    def _terms(self, batch: float, context_tokens: float, with_stall: bool = True) -> dict[str, float]:
        assert self.shape is not None
        assert self.constants is not None
        s = self.scenario
        lengths = (context_tokens, s.input_tokens, s.output_tokens)
        terms = step_terms_s(self.shape, self.constants, batch, *lengths, with_stall=with_stall)
        factors = {name: self.traffic if name in BYTES else self.overhead for name in terms} | {STALL: self.stall}
        return {name: factors[name] * float(value) for name, value in terms.items()}

    def _roof_s(self, tokens: float) -> float:
        """Time that grows with the tokens of a step: weights of more experts, products."""
        shape, c = self.shape, self.constants
        assert shape is not None
        assert c is not None
        bytes_s = sum(float(stage.weight_bytes(tokens)) for stage in shape.stages) / shape.bandwidth_bytes_per_s
        weights_s = self.traffic * shape.weight_ratio * bytes_s
        if c.weight_curve is not None:
            return float(weights_at(c, weights_s, tokens))
        products_s = tokens * shape.decode_flop_per_token / shape.flop_per_s / shape.devices
        if c.decode_ratio:
            hit = distinct_experts(shape.experts, shape.experts_per_token, tokens) if shape.experts else 0.0
            experts_s = c.expert_s * shape.mixture_layers * hit / shape.expert_ranks
            return weights_s + self.overhead * (c.decode_ratio * products_s + experts_s)
        return max(weights_s, products_s * _products_ratio(c))

    def _curve_s(self, batch: float, context_tokens: float, tokens: float) -> float:
        """The curve at `tokens`, less the keys and values that tokens of one sequence share."""
        measured = interpolated(self.curve, tokens)
        if tokens <= batch:
            return measured
        shared_s = self._kv_s(tokens - batch, context_tokens)
        return max(measured - shared_s, min(measured, interpolated(self.curve, batch)))

    def _kv_s(self, sequences: float, context_tokens: float) -> float:
        """Reading the cache of so many sequences, at full bandwidth."""
        s = self.scenario
        kv = sum(float(stage.kv_bytes(sequences / s.sharing_replicas, context_tokens)) for stage in self.stages)
        return kv / s.accelerator.bandwidth_bytes_per_s

    def _spare_s(self, tokens: float) -> float:
        """Time in which the weights of a step are read and nothing is left to multiply."""
        shape, c = self.shape, self.constants
        assert shape is not None
        assert c is not None
        if c.decode_ratio or c.weight_curve is not None:
            return 0.0
        products_s = tokens * shape.decode_flop_per_token / shape.flop_per_s / shape.devices
        return max(0.0, self._roof_s(tokens) - max(1.0, c.prefill_ratio) * products_s)

    def floor_s(self, batch: float, context_tokens: float, tokens: float) -> float:
        """Bytes over bandwidth, or products over peak where that is more."""
        s = self.scenario
        weights = sum(float(stage.weight_bytes(1)) for stage in self.stages)
        bytes_s = weights / s.accelerator.bandwidth_bytes_per_s + self._kv_s(batch, context_tokens)
        # Not the shape's own peak: of engines measured in cycles it is far below what the device computes.
        peak = s.accelerator.peak_flop_per_s.get(compute_format(s))
        if self.shape is None or not peak:
            return bytes_s
        return max(bytes_s, tokens * self.shape.decode_flop_per_token / peak / self.shape.devices)


def _products_ratio(c: StepConstants) -> float:
    """Time of products over that at the shape's peak, which is one FLOP a cycle where prompts were measured so."""
    if c.prompt_by_cycles and c.first_token is not None:
        return c.first_token.prefill_ratio
    return max(1.0, c.prefill_ratio)


def interpolated(curve: Curve, tokens: float) -> float:
    """Seconds at `tokens`: straight between measured points, on along the last two; the first holds below it.

    >>> interpolated(((1, 1.0), (3, 2.0)), 2), interpolated(((1, 1.0), (3, 2.0)), 5)
    (1.5, 3.0)
    """
    if tokens <= curve[0][0] or len(curve) == 1:
        return curve[0][1]
    left, right = curve[-2], curve[-1]
    for before, after in itertools.pairwise(curve):
        if tokens <= after[0]:
            left, right = before, after
            break
    slope = (right[1] - left[1]) / (right[0] - left[0])
    # A step does not get shorter by what lies beyond the last measurement.
    slope = max(0.0, slope) if tokens > curve[-1][0] else slope
    return left[1] + slope * (tokens - left[0])


def checked_curve(points: Sequence[tuple[float, float]]) -> Curve:
    """Points in order of their tokens; raises InfoptError where there is none, or one is twice or not positive."""
    ordered = tuple(sorted(points))
    if not ordered:
        raise InfoptError("a step curve needs at least one point")
    if len({tokens for tokens, _ in ordered}) < len(ordered):
        raise InfoptError("a step curve names the same number of tokens twice")
    if any(tokens < 1 or seconds <= 0 for tokens, seconds in ordered):
        raise InfoptError("a step curve needs at least one token and a time above 0 at every point")
    return ordered


def steps_of(s: Scenario, calibrated: StepConstants | None = None, curve: Curve = ()) -> Steps:
    """The best that is known of the steps of a scenario."""
    compiled = step_clock(s, calibrated)
    if isinstance(compiled, Clock):
        basis: Basis = "curve" if curve else "estimate"
        known = Steps(s, basis, compiled.constants, compiled.shape, compiled.shape.stages, curve=curve)
        if curve or calibrated is not None:
            return known
        most = compiled.constants.most_sequences
        if most is not None and s.batch_per_replica > most:
            reason = f"{s.engine.engine} was measured with at most {most} sequence at a time"
            return replace(known, basis="assumed", reason=reason)
        oldest = lent_steps().oldest_versions.get(s.engine.engine)
        if oldest is not None and in_versions(s.engine_version, None, oldest):
            reason = f"{s.engine.engine} before {oldest} was not measured, and is slower"
            return replace(known, basis="assumed", reason=reason, doubt=lent_steps().version)
        return known
    if curve:
        return Steps(s, "curve", None, None, traffic(s), curve=curve)
    # Constants that measured points fitted to this device go before those of another, also for formats not measured.
    lent = calibrated or step_constants(s.engine.engine, *LENDER, s.model.experts > 0)
    shape = step_shape(s, lent) if lent is not None else None
    if lent is None or shape is None:
        return Steps(s, "floor", None, None, traffic(s), reason=compiled.reason)
    other = s.accelerator.vendor != LENDER[1]
    doubt = lent_steps().vendor if other else lent_steps().device
    return Steps(s, "assumed", lent, unpacked_shape(s, shape), shape.stages, reason=compiled.reason, doubt=doubt)


def variants(steps: Steps) -> tuple[Steps, Steps]:
    """The same with everything as short, and as long, as it may be at the scenario's batch.

    Of an estimate: what its interval adds or takes goes to the overhead and the stall, then to the bytes down to the
    bandwidth itself. Of lent constants: no overhead, or as much more as there is doubt.
    """
    if steps.basis in ("curve", "floor") or steps.constants is None or steps.shape is None:
        return steps, steps
    if steps.basis == "assumed":
        short = replace(steps, overhead=0.0, traffic=1 / steps.constants.traffic_ratio)
        doubt = steps.doubt or lent_steps().device
        return short, replace(steps, overhead=doubt.overhead, stall=doubt.stall)
    s = steps.scenario
    band = band_of(steps.constants, s.sharing_batch)
    return _scaled(steps, band.low), _scaled(steps, band.high)


def _scaled(steps: Steps, ratio: float) -> Steps:
    """The steps whose time per token at the scenario's own load is `ratio` times as long."""
    s = steps.scenario
    terms = steps.terms_s(s.sharing_batch, s.decode_context_tokens)
    total, in_bytes = sum(terms.values()), sum(value for name, value in terms.items() if name in BYTES)
    rest = total - in_bytes
    wanted = ratio * total - in_bytes
    if rest > 0 and wanted >= 0:
        return replace(steps, overhead=wanted / rest, stall=wanted / rest)
    floor_s = bandwidth_ledger(s).step_floor_s
    least = min(1.0, floor_s / in_bytes) if in_bytes else 1.0
    return replace(steps, overhead=0.0, stall=0.0, traffic=max(least, ratio * total / in_bytes if in_bytes else 1.0))


def off_alike(steps: Steps, by: Steps) -> Steps:
    """The steps of another placement, off by what those of `by` are off."""
    if steps.basis in ("curve", "floor") or by.basis in ("curve", "floor"):
        return steps
    return replace(steps, overhead=by.overhead, traffic=by.traffic, stall=by.stall)
