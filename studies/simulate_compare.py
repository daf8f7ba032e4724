"""Two simulations term by term: the same requests, so that what differs is not chance.

Where both have the same traffic and seed, requests come at the same times with the same lengths in both (common random
numbers). Options that change the traffic itself change the requests, and the comparison says so.
"""

from collections.abc import Iterator

from infopt.frozen import dataclass
from infopt.simulation.summary import Summary, Times
from infopt.studies.simulate import Job, Simulation, simulated


@dataclass(frozen=True, slots=True)
class Term:
    """One figure of both; None where one has none. `better` is more, less, or neither (empty)."""

    group: str
    name: str
    unit: str
    better: str
    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        return self.b / self.a if self.a and self.b is not None else None


@dataclass(frozen=True, slots=True)
class SimulationComparison:
    """Two simulations, the options that made them, and whether they had the same requests."""

    a: Simulation
    b: Simulation
    a_options: str
    b_options: str
    same_traffic: bool
    terms: tuple[Term, ...]

    @property
    def good(self) -> bool:
        """Whether both keep up."""
        return self.a.keeps_up and self.b.keeps_up


def compare(a: Job, b: Job, a_options: str, b_options: str) -> SimulationComparison:
    """Both simulated, and every figure that either has. Errors: those of `simulated`."""
    first, second = simulated(a), simulated(b)
    return compared(first, second, a_options, b_options)


def compared(a: Simulation, b: Simulation, a_options: str, b_options: str) -> SimulationComparison:
    """Two simulations beside each other."""
    rows, others = list(_figures(a)), list(_figures(b))
    terms = tuple(
        Term(group, name, unit, better, value, other_value)
        for (group, name, unit, better, value), (*_, other_value) in zip(rows, others, strict=True)
        if value is not None or other_value is not None
    )
    return SimulationComparison(a, b, a_options, b_options, a.job.source == b.job.source, terms)


Figure = tuple[str, str, str, str, float | None]


def _figures(s: Simulation) -> Iterator[Figure]:
    """Group, name, unit, what is better, value."""
    m = s.summary
    yield "load", "arrive", "requests/s", "", s.arrive_per_s
    yield "load", "served", "requests/s", "more", s.served_per_s
    yield "load", "goodput", "requests/s", "more", m.goodput_per_s
    yield "load", "good share", "share", "more", s.good_share
    yield "load", "output tokens", "tokens/s", "more", m.output_tokens_per_s
    yield "load", "saturation", "requests/s", "more", s.saturation_per_s
    yield from _waits(m)
    yield "inside", "batch", "sequences", "", m.effective_batch
    yield "inside", "waiting", "requests", "less", m.waiting
    yield "inside", "KV in use", "share", "", m.kv_share
    yield "inside", "preemptions", "count", "less", float(m.preemptions)
    yield "inside", "prefix hits", "share", "more", m.prefix_hit_share
    yield "inside", "wasted tokens", "share", "less", m.wasted_share
    yield "inside", "busy", "share", "", m.busy_share
    usd, per_s = s.usd_per_hour, m.output_tokens_per_s
    yield "cost", "all devices", "usd_per_hour", "less", usd
    yield "cost", "million tokens", "usd", "less", usd / 3600 / per_s * 1e6 if usd and per_s else None


def _waits(m: Summary) -> Iterator[Figure]:
    named = (("TTFT", m.ttft_s), ("TPOT", m.tpot_s), ("answer", m.e2e_s))
    for name, times in named:
        for part in ("mean", "p50", "p90", "p99"):
            yield "times", f"{name} {part}", "s", "less", _part(times, part)


def _part(times: Times | None, part: str) -> float | None:
    return None if times is None else float(getattr(times, part))
