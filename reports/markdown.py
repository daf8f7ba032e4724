"""A plan or a choice of hardware as Markdown, for a pull request or a wiki."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from infopt.reports import words
from infopt.reports.csv_report import cell
from infopt.reports.estimate_words import estimate_rows
from infopt.reports.month_words import month_rows
from infopt.studies.choices import Choices
from infopt.studies.cost import Month, NoMonth
from infopt.studies.planning import Plan
from infopt.units import format_bytes, format_seconds, format_share, format_whole

MARKS = {True: "✅", False: "❌", None: "❔"}


def plan_markdown(plan: Plan, explain: bool = False, month: Month | NoMonth | None = None) -> str:
    """The plan with its three ledgers; `explain` adds every term with formula and source."""
    return "\n".join(_plan_lines(plan, explain, month))


def _plan_lines(plan: Plan, explain: bool, month: Month | NoMonth | None) -> Iterator[str]:
    yield f"### {escape(words.title(plan))}"
    yield ""
    yield f"{MARKS[plan.fits]} **{words.verdict_word(plan)}**: {escape(words.verdict_words(plan))}"
    yield ""
    yield from table(("", ""), _setting_rows(plan), "ll")
    if plan.fits is not True and plan.remedies:
        yield ""
        yield f"Would {'' if plan.fits is False else 'surely '}fit with any one of:"
        yield ""
        yield from (f"- {escape(remedy.text)}" for remedy in plan.remedies)
    yield ""
    yield from table(("memory of one device", "GiB", "share"), _memory_rows(plan), "lrr")
    yield ""
    yield from table(("floor, not an estimate", "", ""), _floor_rows(plan), "lrl")
    yield ""
    yield f"The floor is set by {escape(words.bound_words(plan))}."
    yield ""
    yield from table(("estimate", ""), estimate_rows(plan), "ll")
    if month is not None:
        yield ""
        yield from table(("month", ""), month_rows(plan, month), "ll")
    yield from _remarks(plan)
    if explain:
        yield ""
        yield from _explanation(plan)


def _setting_rows(plan: Plan) -> list[Sequence[str]]:
    rows = [
        ("model", words.model_words(plan)),
        ("devices", words.device_words(plan)),
        ("engine", words.engine_words(plan)),
        ("load", words.load_words(plan)),
        *(("KV cache", text) for text in words.kv_words(plan)),
    ]
    return [*rows, *words.money_rows(plan)]


def _memory_rows(plan: Plan) -> Iterator[Sequence[str]]:
    m = plan.memory
    free = m.capacity_bytes_per_gpu - m.used_bytes_per_gpu
    lines = [(words.term_name(term.name), term.value) for term in m.terms]
    lines.append(("free", free) if free >= 0 else ("missing", -free))
    lines.append(("**usable**", m.capacity_bytes_per_gpu))
    for name, size in lines:
        yield name, f"{size / 2**30:.2f}", format_share(size / m.capacity_bytes_per_gpu)


def _floor_rows(plan: Plan) -> Iterator[Sequence[str]]:
    b, c = plan.bandwidth, plan.compute
    yield "TPOT at least", format_seconds(b.tpot_floor_s), words.step_equation(plan)
    yield "amortized per token", format_seconds(b.amortized_s_per_token), f"step / batch {plan.scenario.batch}"
    if c.ttft_floor_s is not None:
        yield "TTFT at least", format_seconds(c.ttft_floor_s), words.ttft_equation(plan)
    yield "ridge batch", "-" if c.ridge_batch is None else format_whole(round(c.ridge_batch)), words.ridge_words(plan)


def _remarks(plan: Plan) -> Iterator[str]:
    remarks = [f"Assumed: {text}" for text in words.assumptions(plan)] + [
        f"Note: {text}" for text in words.page_caveats(plan)
    ]
    if remarks:
        yield ""
        yield from (f"- {escape(text)}" for text in remarks)


def _explanation(plan: Plan) -> Iterator[str]:
    from infopt.studies.derivations import explain

    rows = [
        (
            f"{line.ledger}: {words.term_name(line.name)}",
            words.line_quantity(line),
            line.formula,
            line.kind,
            line.source,
        )
        for line in explain(plan)
    ]
    yield "<details><summary>Every term</summary>"
    yield ""
    yield from table(("term", "value", "formula", "kind", "source"), rows, "lrlll")
    yield ""
    yield "</details>"


def choices_markdown(choices: Choices, command: str) -> str:
    """The choices, one table for each weight format."""
    return "\n".join(_choices_lines(choices, command))


def _choices_lines(choices: Choices, command: str) -> Iterator[str]:
    yield f"### Hardware for {escape(choices.model.id)}"
    yield ""
    yield f"`{command}`"
    for weights, plans in choices.by_format():
        stored = format_bytes(plans[0].memory.stored_weights_bytes)
        yield ""
        yield f"**{weights}** weights, {stored}{', as stored' if weights == choices.stored_format else ''}"
        yield ""
        names = ("#", "hardware", "tp", "pp", "math", "TPOT at least", "sequences", "longest", "$/h")
        yield from table(names, (words.choice_cells(n, plan) for n, plan in enumerate(plans, start=1)), "rlrrrrrrr")
    yield ""
    yield f"Order: {choices.ranking}. Times are floors, not estimates."
    if choices.refused:
        yield f"Too small on up to {choices.limit} devices: {', '.join(choices.refused)}."


def table(names: Sequence[str], rows: Iterable[Sequence[str]], alignment: str) -> Iterator[str]:
    """A Markdown table; `alignment` has l or r for each column."""
    yield row(names)
    yield "|" + "|".join("---:" if side == "r" else ":---" for side in alignment) + "|"
    yield from (row(cells) for cells in rows)


def row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"


def escape(text: str) -> str:
    """Text that Markdown must not read as a cell's end or as HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def rows_markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """Flat objects as a table, columns in order of appearance."""
    columns = list(dict.fromkeys(column for entry in rows for column in entry))
    cells = ([str(cell(entry.get(column))) for column in columns] for entry in rows)
    return "\n".join(table(columns, cells, "l" * len(columns)))
