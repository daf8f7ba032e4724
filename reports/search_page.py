"""A search as a page for the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from infopt.reports import search_tails as tails
from infopt.reports import search_words as words
from infopt.reports.screen import terminal_width
from infopt.reports.search_report import DROPPED_FIRST, LEGEND
from infopt.reports.terminal import STYLES, columns_table, facts, heading, listed, to_text
from infopt.studies.search import Deployment, Search, plan_of, row_of
from infopt.studies.search_neighbours import neighbours

MOST_LABEL = 40  # columns of a neighbour's name


def search_page(result: Search, curves: bool = False) -> str:
    """What was asked, the front by weight format, the chosen deployment, why its neighbours lost."""
    return to_text(_parts(result, curves))


def _parts(result: Search, curves: bool) -> Iterator[RenderableType]:
    yield Text(f"Deployments of {result.model.id}", style="bold")
    scenario = result.space.replicas[0].scenario
    yield facts(
        [
            ("load", words.load_words(result)),
            ("targets", words.target_words(result.targets)),
            ("engine", f"{scenario.engine.engine} {scenario.engine_version}, utilization {scenario.utilization:g}"),
            ("looked at", words.space_words(result)),
        ]
    )
    yield ""
    if result.binding:
        yield Text().append("NOTHING MEETS THE TARGETS", style=STYLES[False])
        yield facts([("binding", result.binding.text), *listed("or", result.binding.others), *_unknown(result)])
        return
    yield from _tables(result)
    if curves:
        from infopt.reports.search_curves import drawn

        yield from drawn(result)
        yield ""
    if result.tails:
        yield from _simulated(result)
    yield from _row(result, result.chosen_number)
    yield ""
    yield facts(
        [
            *LEGEND,
            *(tails.LEGEND if result.tails else ()),
            *_unknown(result),
            ("next", "--row 2 for another row, --explain for its terms, --format csv for all rows"),
        ]
    )


def _simulated(result: Search) -> Iterator[RenderableType]:
    yield heading("SIMULATED", tails.heading_words(result))
    table = words.tail_rows(result)
    yield columns_table(tails.COLUMNS, table, "deployment", tails.DROPPED_FIRST, indent=2)
    style = STYLES[not result.none_holds]
    yield Padding(Text(tails.verdict_words(result), style=style), (0, 0, 0, 2))
    yield ""


def row_page(result: Search, number: int) -> str:
    """One row of the front: what it is, its command line, why its neighbours lost."""
    return to_text(_row(result, number))


def _unknown(result: Search) -> list[tuple[str, str]]:
    return listed("not shown", words.unknown_words(result))


def _tables(result: Search) -> Iterator[RenderableType]:
    groups = list(words.by_format(result))
    limits = [words.SHOWN_FIRST, *[words.SHOWN_OTHER] * len(groups)]
    kept = [words.shown(group, limit) for (_, group), limit in zip(groups, limits, strict=False)]
    everything = [words.cells(number, d) for rows in kept for number, d in rows]
    for (weights, group), rows in zip(groups, kept, strict=True):
        yield heading(f"{weights} weights", words.format_note(result, group[0][1]))
        table = [words.cells(number, d) for number, d in rows]
        yield columns_table(words.COLUMNS, table, "deployment", DROPPED_FIRST, indent=2, beside=everything)
        if len(group) > len(rows):
            yield Padding(f"and {len(group) - len(rows)} more on the front", (0, 0, 0, 2))
        yield ""


def _row(result: Search, number: int) -> Iterator[RenderableType]:
    d = row_of(result, number)
    plan = plan_of(d)
    command = words.command_of(plan)
    yield heading(f"ROW {number}", f"{why(result, d)}weights {words.format_note(result, d)}")
    simulated = [("simulated", tails.row_words(d, result.tails[number - 1], result.targets))] if result.tails else []
    yield facts([*words.deployment_facts(d, plan), *simulated, *listed("note", words.notes(d, plan))])
    yield ""
    yield heading("COMMAND", "of each replica" if d.replicas > 1 else "")
    yield Text("\n".join(folded(command.parts, terminal_width())))
    if command.notes:
        yield facts(listed("note", command.notes))
    yield ""
    yield heading("NEIGHBOURS", f"against row {number}")
    found = neighbours(result, d)
    width = min(MOST_LABEL, max((len(n.change) for n in found), default=0))
    yield facts([(n.change, n.verdict) for n in found], width)


def folded(parts: Sequence[str], width: int) -> list[str]:
    """A command over several lines, broken before options so that it can still be pasted."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]} {part}" if lines[-1] else part
        if len(longer) + len(" \\") > width and lines[-1].strip():
            lines[-1] += " \\"
            lines.append(f"  {part}")
        else:
            lines[-1] = longer
    return lines


def why(result: Search, d: Deployment) -> str:
    """Why the first row is first."""
    if d is not result.chosen:
        return ""
    if result.chosen_number > 1:
        return "the first that holds, "
    return "the cheapest, " if d.usd_per_hour is not None else "the fewest devices, "
