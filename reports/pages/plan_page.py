"""A plan as a page: what if, verdict, memory, floors, what to expect, pictures, and what it rests on."""

from collections.abc import Iterator, Mapping
from typing import Any

from infopt.ledgers.estimate import Estimate
from infopt.reports import words
from infopt.reports.estimate_words import BOUNDS, extrapolated_rows
from infopt.reports.json_report import plan_dict
from infopt.reports.month_words import month_rows
from infopt.reports.pages.blocks import Html, above, details, facts, figure, listing, paragraph, section, table, verdict
from infopt.reports.pages.charts import Chart
from infopt.reports.pages.controls import of_the_plan, replaceable, said
from infopt.reports.pages.page import Page
from infopt.reports.pages.plan_charts import KV, ROOFLINE, TERMS, TPOT, plan_charts
from infopt.reports.pages.plan_figures import COST, EXPECTED, EXPERTS, MEMORY, STEP, figure_facts
from infopt.reports.pages.plan_whatif import Asked, whatif_data, whatif_section
from infopt.studies.cost import Month, NoMonth
from infopt.studies.derivations import explain as derivations
from infopt.studies.planning import Plan

STATUSES = {True: "pass", False: "fail", None: "open"}
DATA = "infopt-whatif"
OF_A_CHANGE = "The command line under What if prints this for what you changed."
NO_WHATIF = "What-if is left out: what was observed holds for the load it was observed under."


def plan_page(
    plan: Plan,
    command: str,
    asked: Asked | None = None,
    target_s: float | None = None,
    explain: bool = False,
    month: Month | NoMonth | None = None,
) -> Page:
    """The page, with what-if where its neighbours are given."""
    result = plan_dict(plan, explain, month)
    charts = {chart.id: chart for chart in plan_charts(plan, target_s)}
    panel = paragraph(NO_WHATIF, soft=True) if asked is None else whatif_section(asked.found, plan, command)
    data = None if asked is None else {DATA: whatif_data(asked, plan)}
    return Page(
        title=words.title(plan),
        command=command,
        result=result,
        body=_body(plan, result, charts, panel, explain, month),
        charts=tuple(charts.values()),
        data=data,
        scripts=() if data is None else ("program.js", "whatif.js"),
    )


def _body(
    plan: Plan,
    result: Mapping[str, Any],
    charts: Mapping[str, Chart],
    panel: Html,
    explain: bool,
    month: Month | NoMonth | None,
) -> Iterator[Html]:
    line = verdict(STATUSES[plan.fits], words.verdict_word(plan), words.verdict_words(plan))
    yield replaceable("verdict", line)
    yield panel
    yield of_the_plan(*_remedies(plan), _setting(plan))
    yield section(
        "Memory of one device",
        figure(charts["memory"]),
        figure(charts[KV]),
        figure_facts(result, MEMORY),
        note="What lies on a device, and how many sequences the rest holds.",
    )
    yield section(
        "What to expect",
        *_expected(plan, result),
        figure(charts[TPOT]),
        figure(charts[TERMS]),
        note="From measurements of this engine on this class of devices, with the interval of nine in ten of them.",
    )
    yield section(
        "Floors of a step and of a prompt",
        figure_facts(result, (STEP[0], EXPERTS, *STEP[1:]) if plan.scenario.model.experts else STEP),
        *([figure(charts[ROOFLINE])] if ROOFLINE in charts else []),
        note="Bounds from bytes, bandwidth and peak: nothing measured may be below them.",
    )
    if plan.cost is not None:
        source = of_the_plan(paragraph(f"Price: {plan.cost.source}", soft=True))
        yield section("Cost", figure_facts(result, COST), source, note="Of all devices, at list price or --price.")
    if month is not None:
        of_month = of_the_plan(facts(month_rows(plan, month)), otherwise=OF_A_CHANGE)
        yield section("Month", of_month, note="Of this load on deployments like it.")
    yield _rests_on(plan)
    if explain:
        yield _derivations(plan)


def _remedies(plan: Plan) -> Iterator[Html]:
    if plan.fits is not True and plan.remedies:
        sure = "It would fit with any one of:" if plan.fits is False else "It would surely fit with any one of:"
        yield paragraph(sure)
        yield listing(remedy.text for remedy in plan.remedies)


def _setting(plan: Plan) -> Html:
    return facts(
        [
            ("model", words.model_words(plan)),
            ("devices", words.device_words(plan)),
            ("engine", words.engine_words(plan)),
            ("load", words.load_words(plan)),
        ]
    )


def _expected(plan: Plan, result: Mapping[str, Any]) -> Iterator[Html]:
    """Expected times, or why there are none; what sets the pace; what lies outside the measurements."""
    e = plan.estimate
    outside = [text for _, text in extrapolated_rows(e)] if isinstance(e, Estimate) else []
    yield facts([("none", said("estimate.reason", "" if isinstance(e, Estimate) else e.reason))])
    yield figure_facts(result, EXPECTED)
    yield facts(
        [
            ("bound by", said("estimate.bound", BOUNDS[result["estimate"]["bound"]])),
            ("extrapolated", said("estimate.extrapolated", "; ".join(outside))),
        ]
    )


def _rests_on(plan: Plan) -> Html:
    assumed = [("assumed" if i == 0 else "", text) for i, text in enumerate(words.assumptions(plan))]
    notes = [("note" if i == 0 else "", text) for i, text in enumerate(words.page_caveats(plan))]
    sources = details("Sources", listing(plan.sources))
    return section(
        "What this rests on",
        of_the_plan(facts([*assumed, *notes]), sources, otherwise=OF_A_CHANGE),
        note="Correct an assumption with the option of its name, and plan again.",
    )


def _derivations(plan: Plan) -> Html:
    rows = [
        (
            line.ledger,
            words.term_name(line.name),
            words.line_quantity(line),
            words.line_interval(line) or "",
            above(line.formula, line.source),
        )
        for line in derivations(plan)
    ]
    columns = ("ledger", "term", "value", "interval", "formula, and below it its source")
    return section("Every term", of_the_plan(table(columns, rows, "Terms", (2, 3)), otherwise=OF_A_CHANGE))
