"""The workload matrix of document 2 as a page, and as Markdown."""

from collections.abc import Iterator
from typing import Any

from infopt.reports.simulate_words import rate
from infopt.reports.words import title
from infopt.simulation.summary import Targets
from infopt.studies.experiment_matrix import Matrix, Row
from infopt.units import format_seconds, format_share

COLUMNS = ("cell", "TTFT p99", "TPOT p99", "E2E p99", "good", "most/s", "headroom", "verdict")
TITLE = "Workload matrix of document 2"


def page(found: Matrix) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(found))


def _parts(found: Matrix) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import STYLES, columns_table, facts, heading

    yield Text(f"{TITLE} for {who(found)}", style="bold")
    yield facts(context_rows(found))
    yield ""
    yield Text().append(word(found), style=STYLES[found.holds]).append(f": {sentence(found)}")
    yield ""
    yield columns_table(COLUMNS, [cells(row) for row in found.rows], "cell", ("E2E p99", "most/s", "TPOT p99"))
    for name, note, rows in sections(found):
        if rows:
            yield ""
            yield heading(name, note)
            yield facts(rows, label_width=18)


def who(found: Matrix) -> str:
    """Model and devices, as far as any cell could be planned."""
    simulated = next((row.simulation for row in found.rows if row.simulation is not None), None)
    if simulated is not None:
        return title(simulated.plan)
    job = found.rows[0].job
    return f"{job.model.id} on {job.hardware.accelerator.name or job.hardware.accelerator.id}"


def context_rows(found: Matrix) -> list[tuple[str, str]]:
    """Rate and targets."""
    within = f"{format_share(found.good_share)} of the requests within {targets_words(found.targets)}"
    promised = f"{within}, the same for every cell; long prompts may deserve others (--cell with --ttft)"
    return [("arrives", f"{rate(found.rate_per_s)} of each kind, one kind at a time"), ("targets", promised)]


def targets_words(targets: Targets) -> str:
    """The targets that are given."""
    named = (("TTFT", targets.ttft_s), ("TPOT", targets.tpot_s), ("E2E", targets.e2e_s))
    return ", ".join(f"{name} {format_seconds(value)}" for name, value in named if value is not None)


def word(found: Matrix) -> str:
    """The verdict of all cells."""
    return {True: "HOLDS", False: "BREAKS", None: "UNDETERMINED"}[found.holds]


def sentence(found: Matrix) -> str:
    """How many hold, and which is reached first."""
    held = sum(row.verdict == "holds" for row in found.rows)
    said = f"{held} of {len(found.rows)} cells hold at {rate(found.rate_per_s)}"
    first = found.breaks_first
    if first is None or first.headroom_ratio is None or first.simulation is None:
        return said
    most = rate(first.simulation.saturation_per_s or 0.0)
    how = f"breaks first ({first.verdict})" if first.verdict != "holds" else "would break first"
    return (
        f"{said}; {first.cell.id} {how}: at most {most} of it are served, {factor(first.headroom_ratio)} what arrives"
    )


def cells(row: Row) -> list[str]:
    """One line of the table."""
    found = row.simulation
    if found is None:
        return [row.cell.id, "-", "-", "-", "-", "-", "-", row.verdict]
    figures = found.summary
    times = [format_seconds(one.p99) if one else "-" for one in (figures.ttft_s, figures.tpot_s, figures.e2e_s)]
    most, headroom = found.saturation_per_s, row.headroom_ratio
    return [
        row.cell.id,
        *times,
        format_share(found.good_share) if row.job.targets.given else "-",
        "-" if most is None else f"{most:.3g}",
        "-" if headroom is None else factor(headroom),
        row.verdict,
    ]


def factor(ratio: float) -> str:
    """A headroom: two digits, more where it is large.

    >>> factor(0.031), factor(2.48), factor(396.6)
    ('0.031x', '2.5x', '397x')
    """
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def sections(found: Matrix) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """What each cell is, what failed and why, and what is not shown."""
    yield "CELLS", "each differs from another one in one thing", [(row.cell.id, what(row)) for row in found.rows]
    yield "NOTES", "", [(row.cell.id, note) for row in found.rows for note in notes(row)]
    yield "NOT SHOWN", "", [(row.cell.id, row.cell.not_shown) for row in found.rows if row.cell.not_shown]


def what(row: Row) -> str:
    """A cell in words."""
    cell = row.cell
    return cell.what if cell.over is None else f"{cell.what} ({cell.variable}, over {cell.over})"


def notes(row: Row) -> Iterator[str]:
    """What must be known of a cell's figures."""
    if row.reason:
        yield row.reason
    found = row.simulation
    if found is None:
        return
    if found.left_out:
        yield f"{found.left_out:,} of {found.left_out + found.summary.requests:,} requests left out: too long for it"
    if not row.cell.traffic.streaming:
        yield "answers are shown whole: only a target for whole answers (--e2e) applies"
    if row.job.choices.by_priority and row.cell.traffic.tenants:
        told = (f"{one.name} {format_seconds(one.ttft_s.p99)}" for one in found.summary.tenants if one.ttft_s)
        yield f"served by priority; TTFT p99: {', '.join(told)}"
    yield from found.notes


def markdown(found: Matrix) -> str:
    """The table, and what is not shown."""
    from infopt.reports.markdown import escape, table

    lines = [f"### {TITLE} for {escape(who(found))}", "", f"**{word(found)}**: {escape(sentence(found))}", ""]
    lines += table(COLUMNS, [cells(row) for row in found.rows], "lrrrrrrl")
    for name, _, rows in sections(found):
        if rows:
            lines += ["", *table((name.lower(), ""), rows, "ll")]
    return "\n".join(lines)
