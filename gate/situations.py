"""The situation of a case: its scenario under the policy's load, for rules that ask the boundaries.

One is made when a rule first asks. What the policy does not say of the load is not made up: `lengths_known` and
`load_known` tell a rule whether its number would rest on it. Rates and concurrency are of all replicas of the file,
what a case serves is its part of them.
"""

from dataclasses import replace
from functools import lru_cache
from math import ceil

from infopt.boundaries.continuous_batching import occupancy
from infopt.boundaries.load import Adapters, Load, Prefix, Targets, Traffic
from infopt.boundaries.prefix_caching import apply as with_prefixes
from infopt.boundaries.prefix_reuse import keeping
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import variants
from infopt.boundaries.technique import Judgement
from infopt.frozen import dataclass
from infopt.gate.case import Case
from infopt.ledgers.estimate import extrapolations
from infopt.ledgers.scenario import Scenario
from infopt.studies.planning import Plan, plan_built
from infopt.studies.scenarios import Built, Request


@dataclass(frozen=True, slots=True)
class Seconds:
    """A time as it is expected, and the ends of what it may be.

    measured  whether the ends are those of measurements; else `low` is a floor
    outside   where the case lies beyond them: there the ends were not measured
    """

    value: float
    low: float
    high: float
    measured: bool
    outside: str = ""

    def divided(self, by: float) -> "Seconds":
        """The same over a number."""
        return Seconds(self.value / by, self.low / by, self.high / by, self.measured, self.outside)


class _Same:
    """A case by identity: many rules ask for the same one, one after the other."""

    __slots__ = ("case",)

    def __init__(self, case: Case) -> None:
        self.case = case

    def __hash__(self) -> int:
        return id(self.case)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.case is other.case


def situation_of(case: Case) -> Situation | None:
    """The deployment under the policy's load, as many sequences at once as are asked for; None without a plan."""
    return None if case.plan is None else _situation(_Same(case))


def running_of(case: Case) -> Situation | None:
    """The same with the sequences that run at once, prefixes found where a cache keeps them; None where none runs."""
    return None if case.plan is None else _running(_Same(case))


def loaded_plan(case: Case) -> Plan | None:
    """The plan under the policy's load: estimates and prices; None where the load or a plan is not known."""
    situation = running_of(case)
    if situation is None or case.device is None or not (lengths_known(case) and load_known(case)):
        return None
    return plan_built(Built(situation.scenario, ()), case.device, Request(), explain_fit=False)


def lengths_known(case: Case) -> bool:
    """Whether the policy says how long requests are."""
    workload = case.policy.workload
    return bool(workload.input_tokens and workload.output_tokens)


def load_known(case: Case) -> bool:
    """Whether the policy says how many requests there are."""
    return bool(case.policy.workload.concurrency or (case.policy.workload.rate_per_s and lengths_known(case)))


def own_engine(case: Case) -> bool:
    """Whether what is known of the engine is its own: some are planned by the record of another."""
    return case.plan is not None and case.plan.scenario.engine.engine == case.deployment.engine


def caches_prefixes(case: Case) -> bool | None:
    """Whether a prefix cache is on: as the file says, else by the version's default; None where that is not known."""
    said = case.value("prefix_caching")
    if case.value("no_prefix_caching"):
        return False
    if said is not None:
        return bool(said)
    if case.deployment.version is None or not own_engine(case):
        return None
    return keeping(case.deployment.engine, case.deployment.version).default == "on"


def held_sequences(situation: Situation) -> int:
    """Sequences of the whole deployment that run at once: what memory holds, up to the engine's limit."""
    s = situation.scenario
    return s.dp * min(situation.memory.max_sequences, s.max_num_seqs)


def tpot_seconds(situation: Situation) -> Seconds:
    """Time per output token."""
    steps, batch, value = situation.steps, situation.batch, situation.tpot_s()
    if steps.basis != "estimate":
        floor_s = steps.floor_s(batch, situation.scenario.decode_context_tokens, batch)
        return Seconds(value, min(value, floor_s), float("inf"), False)
    ends = [situation.tpot_s(other) for other in variants(steps)]
    return Seconds(value, min(value, *ends), max(value, *ends), True, outside_of(situation))


def ttft_seconds(situation: Situation) -> Seconds:
    """First token; its least is prompt FLOP at dense peak where nothing better was measured."""
    s, steps, batch = situation.scenario, situation.steps, situation.batch
    value = steps.ttft_s(situation.tpot_s(), batch, s.input_tokens, situation.cached_tokens)
    constants = steps.constants
    first = constants.first_token if constants is not None and steps.basis == "estimate" else None
    if first is not None:
        return Seconds(value, first.low * value, first.high * value, True, outside_of(situation))
    computed = 1 - situation.cached_tokens / s.input_tokens
    floor_s = situation.compute.ttft_floor_s if computed == 1 else None
    low = min(value, floor_s) if floor_s is not None else 0.0
    return Seconds(max(value, low), low, float("inf"), False)


def outside_of(situation: Situation) -> str:
    """Where the case lies beyond what was measured; empty where it does not, or nothing was."""
    constants = situation.steps.constants
    if situation.steps.basis != "estimate" or constants is None:
        return ""
    return "; ".join(extrapolations(situation.scenario, constants))


def figure_of(judgement: Judgement, name: str) -> float | None:
    """A figure of a judgement, None where it has none."""
    return next((figure.value for figure in judgement.figures if figure.name == name), None)


@lru_cache(maxsize=2)
def _situation(same: _Same) -> Situation:
    case = same.case
    assert case.plan is not None
    plain = Situation(_loaded(case, case.plan.scenario), _load(case))
    concurrency, rate = case.policy.workload.concurrency, plain.load.traffic.rate_per_s
    if concurrency is not None:
        return plain.changed(batch=max(1, ceil(concurrency / _replicas(case))))
    if rate is None or not lengths_known(case) or not plain.memory.max_sequences:
        return plain
    # Little's law: what arrives in the time that requests stay.
    here = occupancy(plain, plain.steps)
    s = plain.scenario
    return plain.changed(batch=max(1, ceil(here.batch * s.dp / s.sharing_replicas)))


@lru_cache(maxsize=2)
def _running(same: _Same) -> Situation | None:
    situation = _situation(same)
    held = held_sequences(situation)
    if not held:
        return None
    if held < situation.scenario.batch:
        situation = situation.changed(batch=held)
    if lengths_known(same.case) and situation.load.prefix.shared_tokens and caches_prefixes(same.case):
        return with_prefixes(situation, "")
    return situation


def _replicas(case: Case) -> int:
    return max(1, case.deployment.found.hardware.replicas)


def _loaded(case: Case, s: Scenario) -> Scenario:
    """The scenario with the policy's requests in place of one of full length; never longer than the limit."""
    workload = case.policy.workload
    if not (workload.input_tokens and workload.output_tokens):
        return s
    entered, made = workload.input_tokens, workload.output_tokens
    return replace(
        s,
        input_tokens=entered,
        output_tokens=made,
        context_tokens=entered + made,
        decode_context_tokens=entered + made / 2,
    )


def _load(case: Case) -> Load:
    workload, targets, value = case.policy.workload, case.policy.targets, case.value
    kept = 1 - (case.policy.margins.latency_share or 0.0)
    rate = workload.rate_per_s
    return Load(
        traffic=Traffic(rate_per_s=rate / _replicas(case) if rate else None),
        prefix=Prefix(shared_tokens=_shared(case)),
        targets=Targets(
            tpot_s=targets.tpot_s * kept if targets.tpot_s else None,
            ttft_s=targets.ttft_s * kept if targets.ttft_s else None,
            start_s=targets.start_s,
        ),
        adapters=Adapters(slots=value("lora_slots"), rank=value("lora_rank")) if value("lora") else Adapters(),
        eager=bool(value("eager")),
    )


def _shared(case: Case) -> int | None:
    """Shared tokens; no more than a prompt has."""
    shared, entered = case.policy.workload.shared_prefix_tokens, case.policy.workload.input_tokens
    return shared if shared is None or entered is None else min(shared, entered)
