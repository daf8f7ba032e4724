"""Two simulations beside each other: page, Markdown, CSV, JSON."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from infopt.reports import simulate_words as words
from infopt.studies.simulate import Simulation
from infopt.studies.simulate_compare import SimulationComparison, Term
from infopt.units import format_seconds, format_share, format_usd

if TYPE_CHECKING:
    from infopt.reports.render import Form

SCHEMA = "infopt/simulate_comparison/1"
COLUMNS = ("", "A", "B", "B / A", "better")
TITLES = {"load": "LOAD", "times": "TIMES", "inside": "INSIDE", "cost": "COST"}
QUANTITIES: dict[str, Callable[[float], str]] = {
    "requests/s": words.rate,
    "tokens/s": words.tokens_per_s,
    "s": format_seconds,
    "share": format_share,
    "count": lambda value: f"{value:,.0f}",
    "sequences": words.number,
    "requests": words.number,
    "usd": format_usd,
    "usd_per_hour": lambda value: f"{format_usd(value)}/h",
}
# Ratios below this far from one are none.
SAME = 0.005
SAME_REQUESTS = "the same requests in both: what differs is not chance"
OTHER_REQUESTS = "the options change the traffic: the requests differ, and a part of what differs is chance"


def render_comparison(c: SimulationComparison, form: "Form") -> str:
    """Both in one form."""
    if form == "json":
        from infopt.reports.json_report import dumps

        return dumps(as_dict(c))
    if form == "csv":
        from infopt.reports.csv_report import rows_csv

        return rows_csv([_flat(term) for term in c.terms])
    return markdown(c) if form == "md" else page(c)


def as_dict(c: SimulationComparison) -> dict[str, Any]:
    """Both simulations whole, and every figure of both with its ratio."""
    from infopt.reports.simulate_json import as_dict as one

    return {
        "schema": SCHEMA,
        "a": one(c.a),
        "b": one(c.b),
        "a_options": c.a_options,
        "b_options": c.b_options,
        "same_traffic": c.same_traffic,
        "terms": [_flat(term) for term in c.terms],
    }


def _flat(term: Term) -> dict[str, Any]:
    return {
        "group": term.group,
        "name": term.name,
        "unit": term.unit,
        "a": term.a,
        "b": term.b,
        "ratio": term.ratio,
        "better": _better(term).lower() or None,
    }


def _better(term: Term) -> str:
    """Which of the two is better, where one is."""
    if not term.better or term.a is None or term.b is None:
        return ""
    if term.a == term.b or (term.ratio is not None and abs(term.ratio - 1) < SAME):
        return ""
    return "B" if (term.b > term.a) == (term.better == "more") else "A"


def cells(term: Term) -> list[str]:
    """One line of the table."""
    show = QUANTITIES[term.unit]
    a, b = ("-" if value is None else show(value) for value in (term.a, term.b))
    ratio = "" if term.ratio is None else "=" if abs(term.ratio - 1) < SAME else f"{term.ratio:.2f}x"
    return [term.name, a, b, ratio, _better(term)]


def page(c: SimulationComparison) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(c))


def _parts(c: SimulationComparison) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import columns_table, facts, heading, listed

    yield Text("Two simulations, term by term", style="bold")
    yield facts([*listed("A", _who(c.a, c.a_options)), *listed("B", _who(c.b, c.b_options))])
    yield facts([("requests", _requests(c))])
    everything = [cells(term) for term in c.terms]
    for group, terms in groupby(c.terms, key=lambda term: term.group):
        yield ""
        yield heading(TITLES[group])
        yield columns_table(
            COLUMNS, [cells(term) for term in terms], "", ("better", "B / A"), indent=2, beside=everything
        )


def _requests(c: SimulationComparison) -> str:
    return SAME_REQUESTS if c.same_traffic else OTHER_REQUESTS


def _who(s: Simulation, options: str) -> list[str]:
    word, sentence, _ = words.verdict(s)
    return [
        options or "(the options as they are)",
        f"{words.headline(s)}; {words.arrivals(s)[0]}",
        f"{word}: {sentence}",
    ]


def markdown(c: SimulationComparison) -> str:
    """One table with a heading row for each group."""
    from infopt.reports.markdown import escape, table

    lines = ["### Two simulations, term by term", ""]
    for name, side, options in (("A", c.a, c.a_options), ("B", c.b, c.b_options)):
        lines.append(f"- {name}: {'; '.join(escape(text) for text in _who(side, options))}")
    lines += [f"- {_requests(c)}", ""]
    body: list[list[str]] = []
    for group, terms in groupby(c.terms, key=lambda term: term.group):
        body.append([f"**{TITLES[group]}**", "", "", "", ""])
        body += [cells(term) for term in terms]
    return "\n".join([*lines, *table(COLUMNS, body, "lrrrl")])
