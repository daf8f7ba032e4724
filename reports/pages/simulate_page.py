"""A simulation as a page: verdict, times and load over time, how times are distributed, what was assumed."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infopt.reports import simulate_words as words
from infopt.reports.pages.blocks import Html, details, facts, figure, section, table, verdict
from infopt.reports.pages.charts import Chart
from infopt.reports.pages.figures import found, joined, shown
from infopt.reports.pages.page import Page
from infopt.reports.pages.prefix_section import prefix_charts, prefix_section
from infopt.reports.pages.simulate_charts import inside_charts, interval_chart, times_charts
from infopt.reports.simulate_json import as_dict
from infopt.reports.simulate_report import TIMES, assumption_texts, tables
from infopt.studies.simulate import Simulation
from infopt.units import format_seconds, format_share, format_usd, format_whole

PARTS = ("mean", "p50", "p90", "p99", "most")
NAMED_TIMES = (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("whole answer", "e2e_s"))
# Figures of the load: label, path in `--json`, how it is written, what it is.
LOAD: tuple[tuple[str, str, Callable[[Any], str], str], ...] = (
    ("arrive", "arrive_per_s", words.rate, "requests"),
    ("served", "served_per_s", words.rate, "answered whole"),
    ("goodput", "goodput_per_s", words.rate, "answered within every target"),
    ("good share", "good_share", format_share, "of requests; the verdict rests on it"),
    ("saturation", "saturation.rate_per_s", words.rate, "the most that can be served"),
    ("output", "output_tokens_per_s", words.tokens_per_s, "tokens/s of all replicas"),
    ("prompts", "prompt_tokens_per_s", words.tokens_per_s, "tokens/s of all replicas"),
    ("running batch", "effective_batch", words.number, "sequences in a replica, on average"),
    ("waiting", "waiting", words.number, "requests, on average"),
    ("KV cache", "kv_share", format_share, "in use, on average"),
    ("busy", "busy_share", format_share, "of the time"),
    ("preempted", "preemptions", format_whole, "times, computed anew"),
    ("prefix hits", "prefix_hit_share", format_share, "of prompt tokens"),
    ("wasted", "wasted_share", format_share, "of output tokens, which nobody read"),
    ("cost", "usd_per_hour", format_usd, "per hour, all devices"),
)


def simulate_page(s: Simulation, command: str) -> Page:
    """The page of one simulation. Its requests' rows were kept (Choices.keep_rows)."""
    result = as_dict(s)
    inside, times = inside_charts([("", s)]), times_charts([("", s)])
    ends = () if s.low is None else (interval_chart(s),)
    hits = () if s.prefix is None else prefix_charts(s.prefix)
    return Page(
        title=f"Traffic for {words.headline(s)}",
        command=command,
        result=result,
        body=_body(s, result, inside, times, ends),
        charts=(*times, *inside, *ends, *hits),
    )


def _body(
    s: Simulation,
    result: Mapping[str, Any],
    inside: tuple[Chart, ...],
    times: tuple[Chart, ...],
    ends: tuple[Chart, ...],
) -> Iterator[Html]:
    yield verdict_line(s)
    yield facts([*labelled("arrives", words.arrivals(s)), *labelled("served by", words.serving(s)), *_promised(s)])
    yield section(
        "How long users wait",
        time_table(result),
        *map(figure, times),
        note="TTFT is the wait for the first token, TPOT the time of each token after it. Where p99 leaves p50 far "
        "behind, a few users wait much longer than most. Below a dotted target line the promise is kept. A saturated "
        "system has no percentiles of waits: they grow as long as requests come.",
    )
    yield section(
        "What happens inside",
        *map(figure, inside),
        note="A queue that only grows cannot be served: fewer requests or more replicas. A cache at its limit makes "
        "requests wait, or computes them anew.",
    )
    yield section(
        "Load",
        load_facts(result),
        details("The same in words, beside Little's law and the plan", facts(words.load_rows(s))),
        note=f"Measured over {format_seconds(s.summary.measured_s)}, the warm-up left out.",
    )
    yield from _tables(s, ends)
    yield section(
        "What this rests on",
        facts([*labelled("assumed", assumption_texts(s)), *labelled("note", words.note_texts(s)), _seed(s)]),
        note="Correct an assumption with the option of its name, and simulate again.",
    )


def verdict_line(s: Simulation) -> Html:
    """The verdict of a simulation."""
    word, sentence, good = words.verdict(s)
    return verdict("pass" if good else "fail", word, sentence)


def labelled(label: str, texts: list[str]) -> list[tuple[str, str]]:
    """Lines of which the first has the label."""
    return [("" if i else label, text) for i, text in enumerate(texts)]


def _promised(s: Simulation) -> list[tuple[str, str]]:
    if not s.job.targets.given:
        return [("promised", "nothing: --ttft 1s --tpot 50ms judges it by what users were told")]
    return [("promised", f"{words.target_words(s.job.targets)}, to {format_share(s.job.good_share)} of requests")]


def time_table(result: Mapping[str, Any], prefix: str = "") -> Html:
    """Percentiles of the measured requests."""
    rows = [
        [name, *(shown(result, f"{prefix}{key}.{part}", format_seconds) for part in PARTS)] for name, key in NAMED_TIMES
    ]
    return table(TIMES, rows, "Times of requests answered whole", range(1, len(TIMES)))


def load_facts(result: Mapping[str, Any]) -> Html:
    """Figures of the load, as far as there are any."""
    return facts(
        [
            (label, joined(shown(result, key, write), what))
            for label, key, write, what in LOAD
            if found(result, key) is not None
        ]
    )


def _tables(s: Simulation, charts: tuple[Chart, ...]) -> Iterator[Html]:
    """What only some simulations have: the interval of step times, tenants, losses, caches of other sizes."""
    for name, note, columns, rows, _ in tables(s):
        parts = [*map(figure, charts)] if name == "INTERVAL" else []
        body = table(columns, rows, name.capitalize(), range(1, len(columns)))
        yield section(name.capitalize(), body, *parts, note=f"{note[:1].upper()}{note[1:]}.")
    if s.prefix is not None:
        yield prefix_section(s.prefix)


def _seed(s: Simulation) -> tuple[str, str]:
    return "seed", f"{s.job.choices.seed}: the same seed gives the same requests"
