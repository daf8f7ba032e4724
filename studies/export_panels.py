"""Panels of a dashboard: what runs, beside what the plan says, in the plan's own units."""

from collections.abc import Iterator, Mapping

from infopt.frozen import dataclass
from infopt.ledgers.estimate import Estimate, NoEstimate
from infopt.ledgers.paging import UNBOUNDED
from infopt.studies.export_figures import Figure, percentile
from infopt.studies.export_thresholds import Threshold
from infopt.studies.planning import Plan


@dataclass(frozen=True, slots=True)
class Series:
    """A live figure under its legend."""

    legend: str
    query: str


@dataclass(frozen=True, slots=True)
class Line:
    """A constant of the plan. `alarm`: the figure should stay below it ("above") or above it ("below")."""

    legend: str
    value: float
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph. unit: as Grafana names it; `says`: where its lines come from."""

    title: str
    unit: str
    says: str
    series: tuple[Series, ...]
    lines: tuple[Line, ...]


def panels(
    plan: Plan, figures: Mapping[str, Figure], numbers: Mapping[str, Threshold], good_share: float
) -> tuple[Panel, ...]:
    """Those of which the engine counts at least one figure."""
    return tuple(panel for panel in _panels(plan, figures, numbers, good_share) if panel.series)


def _panels(
    plan: Plan, figures: Mapping[str, Figure], numbers: Mapping[str, Threshold], good_share: float
) -> Iterator[Panel]:
    s, m, e = plan.scenario, plan.memory, plan.estimate

    def series(**legends: str) -> tuple[Series, ...]:
        return tuple(Series(text, query) for id, text in legends.items() if (query := figures[id].query) is not None)

    def each(**legends: str) -> tuple[Series, ...]:
        shared = figures["replicas"].query
        return (
            ()
            if shared is None
            else tuple(Series(one.legend, f"({one.query}) / ({shared})") for one in series(**legends))
        )

    def line(legend: str, id: str, alarm: str = "") -> tuple[Line, ...]:
        value = numbers[id].value
        return () if value is None else (Line(legend, value, alarm),)

    floor = (Line("plan: floor", plan.bandwidth.tpot_floor_s),)
    yield Panel(
        "Time per output token",
        "s",
        numbers["tpot-above-interval"].reason,
        series(tpot="mean", tpot_p50="p50", tpot_p99="p99"),
        (*floor, *_times("tpot", e), *line("target", "tpot-above-target", "above")),
    )
    good = f"ttft_{percentile(good_share)}"
    least = () if plan.compute.ttft_floor_s is None else (Line("plan: floor", plan.compute.ttft_floor_s),)
    yield Panel(
        "Time to first token",
        "s",
        numbers["ttft-above-target"].reason,
        series(**{"ttft": "mean", "ttft_p50": "p50", good: percentile(good_share), "ttft_p99": "p99"}),
        (*least, *_times("ttft", e), *line("target", "ttft-above-target", "above")),
    )
    fits = () if m.max_sequences >= UNBOUNDED else (Line("plan: fit", float(m.max_sequences)),)
    yield Panel(
        "Sequences, each replica",
        "short",
        numbers["running-above-memory"].reason,
        (*series(batch="in a step"), *each(running="running", waiting="waiting")),
        (Line("plan: batch", float(s.batch_per_replica)), *fits),
    )
    yield Panel(
        "KV cache in use",
        "percentunit",
        numbers["kv-use-above-plan"].reason,
        series(kv_use="in use"),
        line("plan: batch at full length", "kv-use-above-plan", "above"),
    )
    yield Panel(
        "Requests a second, each replica",
        "reqps",
        numbers["arrivals-above-saturation"].reason,
        each(arrivals="arrive", finished="finish"),
        (
            *line("plan: rate", "arrivals-above-plan"),
            *line("plan: saturation", "arrivals-above-saturation", "above"),
        ),
    )
    yield Panel(
        "Output tokens a second, each replica",
        "short",
        "expected with the planned batch always full",
        each(output_tokens="output tokens/s"),
        (Line("plan: a full batch", e.output_tokens_per_s / s.dp),) if isinstance(e, Estimate) else (),
    )
    yield Panel(
        "Preemptions a second",
        "short",
        numbers["preemptions"].reason,
        series(preemptions="preemptions"),
        (),
    )
    yield Panel(
        "Prompt tokens found in the cache",
        "percentunit",
        numbers["prefix-hits-below-break-even"].reason,
        series(prefix_hits="found"),
        line("break-even", "prefix-hits-below-break-even", "below"),
    )
    yield Panel(
        "Drafts",
        "short",
        numbers["drafts-below-break-even"].reason,
        series(accepted_per_draft="accepted tokens of a draft", tokens_per_step="tokens of a step"),
        line("break-even", "drafts-below-break-even", "below"),
    )


def _times(name: str, e: Estimate | NoEstimate) -> tuple[Line, ...]:
    """Estimate and interval of tpot or ttft, where there is one."""
    if isinstance(e, NoEstimate):
        return ()
    named = (("interval, low", "low_s"), ("estimate", "s"), ("interval, high", "high_s"))
    return tuple(Line(f"plan: {legend}", getattr(e, f"{name}_{end}")) for legend, end in named)
