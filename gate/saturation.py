"""Most requests a second that a deployment serves within the policy's time per token, against the rate that arrives."""

from infopt.boundaries.continuous_batching import CAPS, occupancy
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import variants
from infopt.frozen import dataclass
from infopt.gate.case import Case
from infopt.gate.deployment import Confidence
from infopt.gate.drafts import drafts
from infopt.gate.situations import lengths_known, outside_of, running_of


@dataclass(frozen=True, slots=True)
class Saturation:
    """Requests a second of all replicas of the file.

    per_s      as expected, or the most there can be where no step was measured (`expected` is False)
    low, high  ends of it
    reached    the rate is above it; `sure` at the shortest steps as well
    batch      sequences of one replica then, bounded by `bound`
    """

    situation: Situation
    per_s: float
    low_per_s: float
    high_per_s: float
    expected: bool
    reached: bool
    sure: bool
    batch: float
    bound: str

    @property
    def confidence(self) -> Confidence:
        """Lent steps, and those beyond what was measured, are not certain."""
        if not self.sure:
            return "possible"
        s = self.situation.scenario
        full = self.situation.changed(batch=max(s.dp, round(self.batch * s.dp / s.sharing_replicas)))
        lent = full.steps.basis == "assumed" or outside_of(full)
        return "likely" if lent else "certain"


def saturation_of(case: Case) -> Saturation | None:
    """None where no rate or lengths are given, for one role of a split, and where drafts make it anybody's guess."""
    running = running_of(case) if case.policy.workload.rate_per_s is not None else None
    if running is None or not lengths_known(case) or case.deployment.found.role or drafts(case):
        return None
    # At a batch of its own the engine runs no more than its limit of sequences.
    situation = running.changed(batch=running.scenario.dp)
    here = occupancy(situation, situation.steps)
    ends = [occupancy(situation, steps) for steps in variants(situation.steps)]
    replicas = max(1, case.deployment.found.hardware.replicas)
    rates = [replicas * one.saturation_per_s for one in (here, *ends)]
    expected = situation.steps.basis == "estimate"
    return Saturation(
        situation=situation,
        per_s=rates[0] if expected else max(rates),
        low_per_s=min(rates),
        high_per_s=max(rates),
        expected=expected,
        reached=here.saturated,
        sure=ends[0].saturated,
        batch=here.most,
        bound=CAPS[here.capped_by],
    )
