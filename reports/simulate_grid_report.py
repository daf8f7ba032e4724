"""Many configurations under the same traffic: a table, Markdown, CSV, JSON."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from infopt.reports import simulate_words as words
from infopt.studies.simulate import Simulation
from infopt.studies.simulate_grid import Grid, usd_per_million
from infopt.studies.simulate_many import Failed
from infopt.units import format_seconds, format_usd

if TYPE_CHECKING:
    from infopt.reports.render import Form

SCHEMA = "infopt/simulate_grid/1"
COLUMNS = ("goodput", "TTFT p99", "TPOT p99", "tok/s", "batch", "$/Mtok", "")
DROPPED_FIRST = ("batch", "tok/s", "$/Mtok")
LEGEND = (
    ("goodput", "requests/s answered within the targets; without targets, requests/s answered"),
    ("batch", "sequences that run in a replica, on average; tok/s: output tokens of all replicas"),
    ("$/Mtok", "US dollars per million output tokens at this load"),
)


def render_grid(grid: Grid, form: "Form") -> str:
    """The grid in one form."""
    if form == "json":
        from infopt.reports.json_report import dumps

        return dumps(as_dict(grid))
    if form == "csv":
        from infopt.reports.csv_report import rows_csv

        return rows_csv([flat_row(grid, position) for position in range(len(grid.found))])
    return markdown(grid) if form == "md" else page(grid)


def as_dict(grid: Grid) -> dict[str, Any]:
    """Every configuration with the simulation's object, without its curves over time."""
    from infopt.reports.simulate_json import as_dict as simulation

    rows: list[dict[str, Any]] = []
    for position, one in enumerate(grid.found):
        row = _asked(grid, position)
        if isinstance(one, Failed):
            rows.append({**row, "error": one.text, "simulation": None})
        else:
            data = simulation(one)
            del data["samples"]
            rows.append({**row, "error": None, "simulation": data})
    return {"schema": SCHEMA, "varied": list(grid.names), "best": grid.best, "rows": rows}


def _asked(grid: Grid, position: int) -> dict[str, Any]:
    one = grid.found[position]
    return {
        "values": dict(zip(grid.names, grid.values[position], strict=True)),
        "best": position == grid.best,
        "usd_per_million_output_tokens": None if isinstance(one, Failed) else usd_per_million(one),
    }


def flat_row(grid: Grid, position: int) -> dict[str, Any]:
    """One configuration as CSV has it."""
    one = grid.found[position]
    values = {f"vary_{name}": value for name, value in zip(grid.names, grid.values[position], strict=True)}
    figures: dict[str, Any] = {}
    if isinstance(one, Simulation):
        m = one.summary
        figures = {
            "keeps_up": one.keeps_up,
            "saturated": m.saturated,
            "goodput_per_s": m.goodput_per_s,
            "good_share": one.good_share,
            "served_per_s": one.served_per_s,
            "ttft_p50_s": m.ttft_s.p50 if m.ttft_s else None,
            "ttft_p99_s": m.ttft_s.p99 if m.ttft_s else None,
            "tpot_p50_s": m.tpot_s.p50 if m.tpot_s else None,
            "tpot_p99_s": m.tpot_s.p99 if m.tpot_s else None,
            "e2e_p99_s": m.e2e_s.p99 if m.e2e_s else None,
            "output_tokens_per_s": m.output_tokens_per_s,
            "effective_batch": m.effective_batch,
            "preemptions": m.preemptions,
            "prefix_hit_share": m.prefix_hit_share,
            "usd_per_hour": one.usd_per_hour,
            "usd_per_million_output_tokens": usd_per_million(one),
        }
    error = one.text if isinstance(one, Failed) else ""
    return {**values, "best": position == grid.best, **dict.fromkeys(CSV_FIGURES), **figures, "error": error}


CSV_FIGURES = (
    "keeps_up", "saturated", "goodput_per_s", "good_share", "served_per_s", "ttft_p50_s", "ttft_p99_s", "tpot_p50_s",
    "tpot_p99_s", "e2e_p99_s", "output_tokens_per_s", "effective_batch", "preemptions", "prefix_hit_share",
    "usd_per_hour", "usd_per_million_output_tokens",
)  # fmt: skip


def cells(grid: Grid, position: int) -> list[str]:
    """One line of the table."""
    one, asked = grid.found[position], grid.values[position]
    if isinstance(one, Failed):
        return [*asked, *["-"] * (len(COLUMNS) - 1), "error"]
    m, usd = one.summary, usd_per_million(one)
    rate = m.goodput_per_s if m.goodput_per_s is not None else one.served_per_s
    verdict = "BEST" if position == grid.best else "" if one.keeps_up else words.verdict(one)[0].lower()
    times = (format_seconds(t.p99) if t else "-" for t in (m.ttft_s, m.tpot_s))
    tokens, batch = words.tokens_per_s(m.output_tokens_per_s), words.number(m.effective_batch)
    return [*asked, words.rate(rate), *times, tokens, batch, "-" if usd is None else format_usd(usd), verdict]


def page(grid: Grid) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(grid))


def _parts(grid: Grid) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import columns_table, facts, listed

    yield Text(title(grid), style="bold")
    yield facts(common(grid))
    yield ""
    table = [cells(grid, position) for position in range(len(grid.found))]
    yield columns_table((*grid.names, *COLUMNS), table, grid.names[0], DROPPED_FIRST, indent=2)
    yield ""
    yield facts([*listed("verdict", verdict(grid)), *listed("error", errors(grid)), *LEGEND])


def title(grid: Grid) -> str:
    return f"{len(grid.found)} configurations: {', '.join(grid.names)}"


def common(grid: Grid) -> list[tuple[str, str]]:
    """What all of them have in common, as of the first that could be simulated."""
    first = next((one for one in grid.found if isinstance(one, Simulation)), None)
    if first is None:
        return []
    from infopt.reports.words import title as scenario

    told = "the same requests for all" if same_traffic(grid) else "what is varied changes the requests: part is chance"
    wanted = words.target_words(first.job.targets)
    rows = [("first", scenario(first.plan)), ("arrives", "; ".join(words.arrivals(first))), ("requests", told)]
    return [*rows, ("targets", wanted)] if wanted else rows


def same_traffic(grid: Grid) -> bool:
    sources = [one.job.source for one in grid.found if isinstance(one, Simulation)]
    return all(source == sources[0] for source in sources)


def verdict(grid: Grid) -> list[str]:
    """The best, in words."""
    if grid.best is None:
        return ["none keeps up within the targets"]
    chosen = dict(zip(grid.names, grid.values[grid.best], strict=True))
    settings = " ".join(f"{name} {value}" for name, value in chosen.items())
    return [f"{settings}: the cheapest token of those that keep up; where equal, the most in time, then the soonest"]


def errors(grid: Grid) -> list[str]:
    """Why some have none, each reason once."""
    found: dict[str, list[str]] = {}
    for one, values in zip(grid.found, grid.values, strict=True):
        if isinstance(one, Failed):
            found.setdefault(one.text, []).append(" ".join(values))
    return [f"{', '.join(settings)}: {text}" for text, settings in found.items()]


def markdown(grid: Grid) -> str:
    """The table with what is common and the verdict."""
    from infopt.reports.markdown import escape, table

    rows = [cells(grid, position) for position in range(len(grid.found))]
    said = [*(f"{name}: {text}" for name, text in common(grid)), *verdict(grid), *errors(grid)]
    body = table((*grid.names, *COLUMNS), rows, "l" * len(grid.names) + "r" * (len(COLUMNS) - 1) + "l")
    return "\n".join([f"### {escape(title(grid))}", "", *(f"- {escape(text)}" for text in said), "", *body])
