"""What a technique judges: a scenario, what arrives, and the ledgers of both, each computed when first asked for."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from infopt.boundaries.load import Load
from infopt.boundaries.steps import BASES, Basis, Curve, Steps, off_alike, steps_of, variants
from infopt.boundaries.technique import Gain, Metric
from infopt.ledgers.bandwidth import BandwidthLedger, bandwidth_ledger
from infopt.ledgers.compute import ComputeLedger, compute_ledger
from infopt.ledgers.memory import MemoryLedger, memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.profiles.step_constants import StepConstants


class Situation:
    """A scenario under a load.

    calibrated    step constants from the user's measured points, in place of the shipped ones
    curve         measured step times against tokens in a step, in place of the step model
    cached_tokens of every prompt, found in a prefix cache that is already in use (`--with prefix`)
    cycle         (tokens a cycle emits, tokens of a sequence in its verification, seconds of drafting), where
                  speculation is already in use (`--with speculative`)
    used          techniques already in use, for incompatibilities
    """

    def __init__(
        self,
        scenario: Scenario,
        load: Load | None = None,
        calibrated: StepConstants | None = None,
        curve: Curve = (),
        cached_tokens: float = 0.0,
        cycle: tuple[float, float, float] | None = None,
        used: tuple[str, ...] = (),
    ) -> None:
        self.scenario = scenario
        self.load = load or Load()
        self.calibrated = calibrated
        self.curve = curve
        self.cached_tokens = cached_tokens
        self.cycle = cycle
        self.used = used

    def changed(self, **given: Any) -> "Situation":
        """Another situation: `load`, `cached_tokens`, `cycle`, `used`, `curve` by name, any other is the scenario's."""
        own = {"scenario", "load", "calibrated", "curve", "cached_tokens", "cycle", "used"}
        kept = {name: given.pop(name, getattr(self, name)) for name in own}
        if given:
            kept["scenario"] = replace(kept["scenario"], **given)
        other = Situation(**kept)
        other._take_ledgers(self)
        return other

    def _take_ledgers(self, of: "Situation") -> None:
        """Ledgers that were computed for the same scenario need not be computed again."""
        if self.scenario is not of.scenario:
            return
        same_steps = self.calibrated is of.calibrated and self.curve is of.curve
        for name in ("memory", "bandwidth", "compute", *(("steps",) if same_steps else ())):
            if name in of.__dict__:
                self.__dict__[name] = of.__dict__[name]

    @cached_property
    def memory(self) -> MemoryLedger:
        return memory_ledger(self.scenario)

    @cached_property
    def bandwidth(self) -> BandwidthLedger:
        return bandwidth_ledger(self.scenario)

    @cached_property
    def compute(self) -> ComputeLedger:
        return compute_ledger(self.scenario, self.bandwidth)

    @cached_property
    def steps(self) -> Steps:
        return steps_of(self.scenario, self.calibrated, self.curve)

    @property
    def fits(self) -> bool:
        """Whether the ledger's best value holds this batch."""
        return self.memory.max_sequences >= self.scenario.batch_per_replica

    @property
    def batch(self) -> float:
        """Sequences whose tokens meet in one step."""
        return self.scenario.sharing_batch

    def token_s(self, steps: Steps | None = None, batch: float | None = None) -> float:
        """Time per output token without the prompts of others; with the speculation that is in use."""
        steps, batch = steps or self.steps, self.batch if batch is None else batch
        context = self.scenario.decode_context_tokens
        if self.cycle is None:
            return steps.step_s(batch, context)
        tokens, per_sequence, drafting_s = self.cycle
        return (steps.step_s(batch, context, per_sequence) + drafting_s) / tokens

    def tpot_s(self, steps: Steps | None = None, batch: float | None = None) -> float:
        """Time per output token here, with the prefix cache and the speculation that are in use."""
        steps, batch = steps or self.steps, self.batch if batch is None else batch
        return self.token_s(steps, batch) + steps.stall_s(batch, self.cached_tokens)

    def gain(self, metric: Metric, ratio: Callable[[Steps], float]) -> Gain:
        """`ratio` of the steps here, with the interval of what they may be instead."""
        best = ratio(self.steps)
        ends = [best, *(ratio(variant) for variant in variants(self.steps))]
        return Gain(best, min(ends), max(ends), metric)

    def gain_over(self, other: "Situation", metric: Metric, ratio: Callable[[Steps, Steps], float]) -> Gain:
        """The same for a change of placement or format: what the model is off by here it is off by there."""
        best = ratio(self.steps, other.steps)
        ends = [best, *(ratio(here, off_alike(other.steps, here)) for here in variants(self.steps))]
        return Gain(best, min(ends), max(ends), metric)

    def basis_with(self, other: "Situation") -> Basis:
        """The poorer basis of the two: what a comparison rests on."""
        return max(self.steps.basis, other.steps.basis, key=BASES.index)
