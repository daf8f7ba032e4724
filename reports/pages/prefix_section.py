"""A recorded trace through prefix caches of several sizes, as a section of a page."""

from collections.abc import Sequence

from infopt.reports.pages.blocks import Html, facts, figure, section, table
from infopt.reports.pages.charts import Axis, Chart, Role, Series, Value
from infopt.reports.prefix_trace_report import (
    FINDS,
    FINDS_NOTE,
    SAVES,
    SAVES_NOTE,
    fact_rows,
    finds_rows,
    note_rows,
    saves_rows,
)
from infopt.studies.prefix_curve import HitCurve, found_shares, hit_curve
from infopt.studies.prefix_trace import PrefixTrace, Room


def prefix_section(trace: PrefixTrace) -> Html:
    """What the trace is, what caches find and save, what follows. Its charts are `prefix_charts`."""
    return section(
        f"Prefix cache on the trace {trace.hits.name}",
        facts(fact_rows(trace)),
        *map(figure, prefix_charts(trace)),
        table(FINDS, finds_rows(trace), f"Finds: {FINDS_NOTE}", range(1, len(FINDS))),
        table(SAVES, saves_rows(trace), f"Saves: {SAVES_NOTE}", range(1, len(SAVES))),
        facts(note_rows(trace)),
        note="More memory pays as long as the curve still climbs.",
    )


def prefix_charts(trace: PrefixTrace) -> tuple[Chart, ...]:
    """Hits against memory, and how much of its prompt a request finds; none of a trace without blocks."""
    curve = hit_curve(trace)
    return () if curve is None else (_hits(trace, curve), _found(trace))


def _hits(trace: PrefixTrace, curve: HitCurve) -> Chart:
    """In the order that was recorded and in random order."""
    rooms = [room for room in trace.rooms if room.device_bytes > 0]
    return Chart(
        "prefix-hits",
        "lines",
        "Hits against memory",
        "Blocks of prompts that are found in the cache, by its memory on a device.",
        Axis("memory of the cache", "bytes", "log"),
        Axis("hits", "share"),
        (
            Series("as recorded", "measured", "line", _points(curve.device_bytes, curve.hit_share)),
            Series("in random order", "other", "line", _points(curve.device_bytes, curve.shuffled_hit_share)),
            Series("sizes of the tables", "chosen", "points", [(r.device_bytes, r.hit_share, r.name) for r in rooms]),
        ),
    )


def _found(trace: PrefixTrace) -> Chart:
    """The distribution over requests, beside what runs and with unbounded memory."""
    shown: tuple[tuple[Room, Role], ...] = ((trace.beside, "estimate"), (trace.rooms[-1], "floor"))
    return Chart(
        "prefix-found",
        "lines",
        "How much of its prompt a request finds",
        "The share of requests that find at most this much of their prompt; the lower the curve, the more is found.",
        Axis("share of the prompt found", "share"),
        Axis("share of requests", "share"),
        tuple(Series(room.name, role, "line", found_shares(trace, room)) for room, role in shown),
    )


def _points(x: Sequence[float], y: Sequence[float]) -> list[tuple[Value, ...]]:
    return list(zip(x, y, strict=True))
