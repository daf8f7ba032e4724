"""A month of a load: replicas of a plan's deployment, their price, the saving against a baseline, the pay-back.

    replicas    R >= rate / (output_tokens_per_s / OSL)       of the deployment at the plan's own batch
    usd         R usd_per_hour hours
    pay-back    one-off usd / (baseline usd - usd)            in months, never where nothing is saved
Ignored: bursts (the load is its mean over the hours), scaling down at night, what the baseline's own conversion cost.
"""

import math

from infopt.frozen import dataclass
from infopt.ledgers.estimate import NoEstimate
from infopt.studies.planning import Plan
from infopt.studies.search import replicas_needed

HOURS_PER_MONTH = 8760 / 12


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a month; a baseline is what the same load costs today."""

    rate_per_s: float
    hours: float = HOURS_PER_MONTH
    baseline_usd: float | None = None
    one_off_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Month:
    """What a month of a load takes.

    served_per_s                   requests of one deployment at the plan's batch
    usd_per_million_output_tokens  at this load: an idle machine costs as much as a busy one
    """

    load: Load
    served_per_s: float
    replicas: int
    gpus: int
    usd: float
    usd_per_million_output_tokens: float

    @property
    def busy_share(self) -> float:
        return self.load.rate_per_s / (self.replicas * self.served_per_s)

    @property
    def saving_usd(self) -> float | None:
        """Baseline less ours: negative where ours costs more."""
        return None if self.load.baseline_usd is None else self.load.baseline_usd - self.usd

    @property
    def payback_months(self) -> float | None:
        """Months until the saving has paid the one-off cost: infinite where nothing is saved, None where not asked."""
        saving, cost = self.saving_usd, self.load.one_off_usd
        if saving is None or cost is None:
            return None
        if saving <= 0:
            return math.inf
        return cost / saving


@dataclass(frozen=True, slots=True)
class NoMonth:
    """Why there is none."""

    load: Load
    reason: str


def month(plan: Plan, load: Load) -> Month | NoMonth:
    """The month of a load, or why there is none."""
    device = plan.scenario.accelerator.id
    if plan.cost is None:
        return NoMonth(load, f"no price of {device} is known: --price {device}=USD gives one")
    if isinstance(plan.estimate, NoEstimate):
        return NoMonth(load, f"no estimate of what a replica serves: {plan.estimate.reason}")
    s = plan.scenario
    served = plan.estimate.output_tokens_per_s / s.output_tokens
    replicas = replicas_needed(load.rate_per_s, served)
    usd = replicas * plan.cost.usd_per_hour * load.hours
    tokens = load.rate_per_s * load.hours * 3600 * s.output_tokens
    return Month(load, served, replicas, replicas * s.gpus, usd, usd / tokens * 1e6)
