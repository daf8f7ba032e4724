"""A simulation as a page, and as Markdown."""

from collections.abc import Iterator, Sequence
from typing import Any

from infopt.reports import simulate_words as words
from infopt.simulation.summary import Summary, TenantFigures, Times
from infopt.studies.simulate import Simulation
from infopt.studies.simulate_bounds import Phase
from infopt.units import format_seconds, format_share, format_usd

TIMES = ("", "mean", "p50", "p90", "p99", "most")
TENANTS = ("tenant", "requests", "share", "machine", "$/h", "good", "TTFT p50", "TTFT p99", "TPOT p50")
PHASES = ("requests", "for", "number", "answered", "good", "TTFT p50", "TTFT p99", "TPOT p50")
# Columns that go on a narrow screen, the first to go first.
NARROW_TENANTS = ("TPOT p50", "TTFT p50", "requests", "$/h", "share")
NARROW_PHASES = ("TPOT p50", "TTFT p50", "for", "answered", "number")
PHASE_NAMES = {"before": "before", "hit": "as it failed", "during": "with one away"}
INTERVAL = ("", "shortest", "expected", "longest")


def page(s: Simulation, command: str = "", curves: bool = False) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(s, command, curves))


def _parts(s: Simulation, command: str, curves: bool) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import STYLES, columns_table, facts, heading, listed

    word, sentence, good = words.verdict(s)
    yield Text(f"Traffic for {words.headline(s)}", style="bold")
    yield facts([*listed("arrives", words.arrivals(s)), *listed("served by", words.serving(s))])
    yield ""
    yield Text().append(word, style=STYLES[good]).append(f": {sentence}")
    yield ""
    rows = time_rows(s.summary)
    if rows:
        yield heading("TIMES", "of requests answered whole")
        yield columns_table(TIMES, rows, "", ("most", "mean", "p90"), indent=2)
        yield ""
    yield heading("LOAD", f"measured over {format_seconds(s.summary.measured_s)}")
    yield facts(words.load_rows(s))
    for name, note, columns, table, droppable in tables(s):
        yield ""
        yield heading(name, note)
        yield columns_table(columns, table, columns[0], droppable, indent=2)
    if curves:
        from infopt.reports.simulate_curves import drawn

        yield ""
        yield from drawn(s)
    if s.prefix is not None:
        from infopt.reports.prefix_trace_report import section

        yield from section(s.prefix, ())
    yield ""
    ending = [*listed("assumed", assumption_texts(s)), *listed("note", words.note_texts(s))]
    ending.append(("seed", f"{s.job.choices.seed}: the same seed gives the same requests"))
    yield facts([*ending, *([("next", command)] if command else [])])


def assumption_texts(s: Simulation) -> list[str]:
    """What was filled in, each once."""
    return list(dict.fromkeys(caveat.text for caveat in s.assumptions))


def time_rows(m: Summary) -> list[list[str]]:
    """Percentiles as cells."""
    named = (("TTFT", m.ttft_s), ("TPOT", m.tpot_s), ("whole answer", m.e2e_s))
    return [[name, *_cells(times)] for name, times in named if times is not None]


def _cells(t: Times) -> list[str]:
    return [format_seconds(value) for value in (t.mean, t.p50, t.p90, t.p99, t.most)]


Section = tuple[str, str, Sequence[str], list[list[str]], Sequence[str]]


def tables(s: Simulation) -> Iterator[Section]:
    """Tables beside the figures: title, remark, columns, cells, and which columns can go."""
    if s.low is not None and s.high is not None:
        rows = list(interval_rows(s))
        yield (
            "INTERVAL",
            f"the same requests with every step as short, and as long, as it may be{_saturated_ends(s)}",
            INTERVAL,
            rows,
            ("expected",),
        )
    if s.summary.tenants:
        rows = [tenant_cells(s, one) for one in s.summary.tenants]
        yield (
            "TENANTS",
            "machine: part of the computing time, and of the price",
            TENANTS,
            rows,
            NARROW_TENANTS,
        )
    if s.losses is not None:
        rows = [phase_cells(one) for one in (s.losses.before, s.losses.hit, s.losses.during) if one is not None]
        yield (
            "LOSSES",
            "answered before, there as a replica failed, sent while one was away",
            PHASES,
            rows,
            NARROW_PHASES,
        )


def _saturated_ends(s: Simulation) -> str:
    """Which ends of the interval have no waits to tell."""
    ends = (("shortest", s.low), ("longest", s.high))
    full = [name for name, found in ends if found is not None and found.saturated]
    return f"; saturated: {' and '.join(full)}" if full and not s.summary.saturated else ""


def tenant_cells(s: Simulation, one: TenantFigures) -> list[str]:
    usd = s.usd_per_hour
    return [
        one.name,
        f"{one.requests:,}",
        format_share(one.requests_share),
        format_share(one.machine_share),
        "-" if usd is None else format_usd(usd * one.machine_share),
        "-" if one.good_share is None else format_share(one.good_share),
        *_percentiles(s.summary.saturated, one.ttft_s, one.tpot_s),
    ]


def _percentiles(saturated: bool, ttft: Times | None, tpot: Times | None) -> list[str]:
    waits = ["-", "-"] if saturated or ttft is None else [format_seconds(ttft.p50), format_seconds(ttft.p99)]
    return [*waits, "-" if tpot is None else format_seconds(tpot.p50)]


def phase_cells(one: Phase) -> list[str]:
    return [
        PHASE_NAMES[one.name],
        "-" if one.time_s is None else format_seconds(one.time_s),
        f"{one.requests:,}",
        "-" if one.completed_per_s is None else words.rate(one.completed_per_s),
        "-" if one.good_share is None else format_share(one.good_share),
        *_percentiles(False, one.ttft_s, one.tpot_s),
    ]


def interval_rows(s: Simulation) -> Iterator[list[str]]:
    """Figures of the three runs."""
    runs = [one for one in (s.low, s.summary, s.high) if one is not None]
    for name, pick in (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("whole answer", "e2e_s")):
        for percentile in ("p50", "p99"):
            times = [getattr(run, pick) for run in runs]
            cells = ["-" if one is None else format_seconds(getattr(one, percentile)) for one in times]
            yield [f"{name} {percentile}", *cells]
    yield ["batch", *(words.number(run.effective_batch) for run in runs)]
    if s.job.targets.given:
        yield ["good", *(format_share(run.good_share or 0.0) for run in runs)]
    yield ["saturated", *("yes" if run.saturated else "no" for run in runs)]


def markdown(s: Simulation) -> str:
    """The page as Markdown."""
    return "\n".join(_markdown(s))


def _markdown(s: Simulation) -> Iterator[str]:
    from infopt.reports.markdown import escape, table

    word, sentence, _ = words.verdict(s)
    yield f"### Traffic for {escape(words.headline(s))}"
    yield ""
    yield from (f"- arrives: {escape(text)}" for text in words.arrivals(s))
    yield from (f"- served by: {escape(text)}" for text in words.serving(s))
    yield ""
    yield f"**{word}**: {escape(sentence)}"
    rows = time_rows(s.summary)
    if rows:
        yield ""
        yield from table(TIMES, rows, "lrrrrr")
    yield ""
    yield from (f"- {label or 'also'}: {escape(text)}" for label, text in words.load_rows(s))
    for name, note, columns, body, _ in tables(s):
        yield ""
        yield f"**{name}**, {note}"
        yield ""
        yield from table(columns, body, "l" + "r" * (len(columns) - 1))
    if s.prefix is not None:
        from infopt.reports.prefix_trace_report import markdown as prefix_markdown

        yield ""
        yield prefix_markdown(s.prefix, ())
    yield ""
    yield from (f"- assumed: {escape(text)}" for text in assumption_texts(s))
    yield from (f"- note: {escape(text)}" for text in words.note_texts(s))
