"""A search as a page: the front in pictures and as a table, the chosen deployment, every row with its command line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.reports import search_tails as tails
from infopt.reports import search_words as words
from infopt.reports.pages.blocks import (
    Html,
    code_block,
    datum,
    details,
    facts,
    figure,
    listing,
    paragraph,
    section,
    table,
    verdict,
)
from infopt.reports.pages.blocks import words as glossary
from infopt.reports.pages.charts import Chart
from infopt.reports.pages.figures import found
from infopt.reports.pages.page import Page
from infopt.reports.pages.search_charts import front_charts, nearest_chart, tail_charts
from infopt.reports.pages.search_row import (
    COLUMNS,
    NUMERIC,
    folded_row,
    headline,
    row_cells,
    row_charts,
    row_section,
    terms_section,
)
from infopt.reports.search_report import LEGEND, as_dict, row
from infopt.studies.search import Search, row_of

Result = Mapping[str, Any]
# Rows of a large front that the page has room for; of the rest there are points in the pictures.
MOST_ROWS = 100
# A result larger than this, in characters, is embedded without what the page does not show of a row.
MOST_OF_RESULT = 600_000
NOT_SHOWN = ("sources", "caveats", "assumptions", "neighbours")
CUT = f"The data inside this page leaves out {', '.join(NOT_SHOWN)} of each row: --json has them."
# Cells of a simulated row that are figures of its object.
TAIL_FIGURES = {2: "simulated.good_share", 3: "simulated.ttft_p99_s", 4: "simulated.tpot_p99_s", 5: "capacity_per_s"}


@dataclass(frozen=True, slots=True)
class Charts:
    """Pictures of the front (or of what is nearest to the targets), of the row in full, of simulated tails."""

    front: tuple[Chart, ...]
    row: tuple[Chart, ...]
    tails: tuple[Chart, ...] = ()


def search_page(result: Search, command: str) -> Page:
    """The page of a search."""
    data, number = as_dict(result), result.chosen_number
    charts = Charts(
        front_charts(result, number) if result.front else (nearest_chart(result),),
        row_charts(result, number) if result.front else (),
        tail_charts(result),
    )
    return Page(
        title=f"Deployments of {result.model.id}",
        command=command,
        result=_embedded(result, data),
        body=_body(result, data, charts),
        charts=(*charts.front, *charts.row, *charts.tails),
    )


def search_row_page(result: Search, number: int, explain: bool, command: str) -> Page:
    """The page of one row of the front, among the others in the pictures."""
    d = row_of(result, number)
    data = row(result, number, d, explain)
    charts = Charts(front_charts(result, number), row_charts(result, number))
    terms = [terms_section(result, number, data)] if explain else []
    return Page(
        title=f"{words.deployment_words(d)} for {result.model.id}",
        command=command,
        result=data,
        body=(
            _asked(result),
            table(COLUMNS, [row_cells(d, data)], f"Row {number}", NUMERIC),
            row_section(result, number, data, charts.row),
            _pictures(charts.front),
            *terms,
        ),
        charts=(*charts.front, *charts.row),
    )


def _embedded(result: Search, data: Result) -> Result:
    """The result; of one too large for a page the rows that are shown, without what is not shown of them."""
    if len(json.dumps(data, separators=(",", ":"))) <= MOST_OF_RESULT:
        return data
    rows = [{name: value for name, value in one.items() if name not in NOT_SHOWN} for one in data["front"]]
    return {**data, "front": rows[: _most_rows(result)]}


def _most_rows(result: Search) -> int:
    """Rows of the table: the chosen one is always among them."""
    return min(len(result.front), max(MOST_ROWS, result.chosen_number))


def _body(result: Search, data: Result, charts: Charts) -> Iterator[Html]:
    yield _verdict(result)
    yield _asked(result)
    if result.binding:
        yield _binding(result, charts.front)
    else:
        number = result.chosen_number
        yield row_section(result, number, data["front"][number - 1], charts.row)
        yield _pictures(charts.front)
        yield _table(result, data)
        if result.tails:
            yield _simulated(result, data, charts.tails)
        yield from _others(result, data)
        if _embedded(result, data) is not data:
            yield paragraph(CUT, soft=True)
    unknown = words.unknown_words(result)
    if unknown:
        yield section("Not shown", listing(unknown), note="What was not measured has no place on the front.")


def _verdict(result: Search) -> Html:
    if result.binding:
        return verdict("fail", "Nothing meets the targets", result.binding.text)
    if result.none_holds:
        missed = any(tail.holds is False for tail in result.tails)
        return verdict("fail" if missed else "open", "No row holds in simulation", tails.verdict_words(result))
    return verdict("pass", words.deployment_words(result.chosen), headline(result.chosen))


def _asked(result: Search) -> Html:
    """What was asked, and what was looked at."""
    s = result.space.replicas[0].scenario
    return facts(
        [
            ("load", words.load_words(result)),
            ("targets", words.target_words(result.targets)),
            ("engine", f"{s.engine.engine} {s.engine_version}, utilization {s.utilization:g}"),
            ("looked at", words.space_words(result)),
        ]
    )


def _binding(result: Search, charts: Sequence[Chart]) -> Html:
    """Why nothing is left, and how near the nearest is."""
    assert result.binding is not None
    return section(
        "What binds",
        facts([("binding", result.binding.text), *(("or", text) for text in result.binding.others)]),
        *map(figure, charts),
        note="The first line names the constraint that is nearest to being met, and what would be enough. Relax it, "
        "or allow more with --hw, --weights and --max-gpus.",
    )


def _pictures(charts: Sequence[Chart]) -> Html:
    return section(
        "The front",
        *map(figure, charts),
        note="A row of the front is the best in something: nothing beats it in price, throughput, latency, energy and "
        "bits at once. Numbers are rows of the table. Pick the mark that is good enough and costs least.",
    )


def _table(result: Search, data: Result) -> Html:
    most = _most_rows(result)
    rows = [row_cells(d, data, f"front.{i}.") for i, d in enumerate(result.front[:most])]
    left_out = [] if most == len(result.front) else [paragraph(_left_out_words(result, most))]
    return section(
        "Rows of the front",
        table(COLUMNS, rows, "Rows of the front", NUMERIC),
        *left_out,
        glossary(LEGEND),
        details("Command line of every row", code_block(_commands(result, data, most), "Command lines of the front")),
        note="In each weight format the cheapest come first. Formats with fewer bits may cost quality.",
    )


def _left_out_words(result: Search, most: int) -> str:
    return f"{len(result.front) - most} more rows are on the front: --format csv has all of them, --json all of each."


def _commands(result: Search, data: Result, most: int) -> str:
    """A comment and a command for each row, to copy as they are."""
    rows = zip(result.front[:most], data["front"], strict=False)
    return "\n".join(f"# row {row['rank']}: {words.deployment_words(d)}\n{row['command']}" for d, row in rows)


def _simulated(result: Search, data: Result, charts: Sequence[Chart]) -> Html:
    rows = [
        _tail_cells(number, cells, data)
        for number, cells in zip(words.shown_numbers(result), words.tail_rows(result), strict=True)
    ]
    return section(
        "Simulated",
        paragraph(f"{tails.heading_words(result)}: {tails.verdict_words(result)}."),
        *map(figure, charts),
        table(tails.COLUMNS, rows, "Simulated rows", (0, *range(2, 7))),
        glossary(tails.LEGEND),
        note="The search judges means; here nearly every request must be in time. Prefer a row that holds.",
    )


def _tail_cells(number: int, written: Sequence[str], data: Result) -> list[str]:
    """The cells of a row as they are written, its figures those of the result."""
    paths = {i: f"front.{number - 1}.{path}" for i, path in TAIL_FIGURES.items()}
    return [datum(paths[i], found(data, paths[i]), text) if i in paths else text for i, text in enumerate(written)]


def _others(result: Search, data: Result) -> Iterator[Html]:
    numbers = [number for number in words.shown_numbers(result) if number != result.chosen_number]
    if numbers:
        yield section(
            "Other rows in full",
            *(folded_row(result, number, data["front"][number - 1]) for number in numbers),
            note="The cheapest of each device, and what is clearly faster than all that cost less. Others: --row N.",
        )
