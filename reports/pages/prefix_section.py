"""A recorded trace through prefix caches of several sizes, as a section of a page."""

from infopt.reports.pages.blocks import Html, facts, figure, section, table
from infopt.reports.pages.charts import Axis, Chart, Series
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
from infopt.studies.prefix_trace import PrefixTrace


def prefix_section(trace: PrefixTrace) -> Html:
    """What the trace is, what caches find and save, what follows. Its chart is `prefix_chart`."""
    return section(
        f"Prefix cache on the trace {trace.hits.name}",
        facts(fact_rows(trace)),
        figure(prefix_chart(trace)),
        table(FINDS, finds_rows(trace), f"Finds: {FINDS_NOTE}", range(1, len(FINDS))),
        table(SAVES, saves_rows(trace), f"Saves: {SAVES_NOTE}", range(1, len(SAVES))),
        facts(note_rows(trace)),
        note="More memory pays as long as the curve still climbs.",
    )


def prefix_chart(trace: PrefixTrace) -> Chart:
    """Hits against the memory of the cache, in the order that was recorded and in random order."""
    rooms = [room for room in trace.rooms if room.device_bytes > 0]
    return Chart(
        "prefix-hits",
        "lines",
        "Hits against memory",
        "Blocks of prompts that are found in the cache, by its memory on a device.",
        Axis("memory of the cache", "bytes", "log"),
        Axis("hits", "share"),
        (
            Series("as recorded", "measured", "line", [(room.device_bytes, room.hit_share) for room in rooms]),
            Series("in random order", "other", "line", [(r.device_bytes, r.shuffled_hit_share) for r in rooms]),
        ),
    )
