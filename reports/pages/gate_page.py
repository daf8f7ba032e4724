"""A gate as a page: the verdict, what was found, every deployment with its findings and its memory, the rules.

A page stays small whatever was checked. Deployments come in the order of their verdicts, those that fail first, and
what does not fit on the page is counted there: nothing is left out in silence.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from infopt.gate.check import Checked, Gate, Verdict
from infopt.reports.gate_json import as_dict
from infopt.reports.gate_words import clean, counted, counts, heading, name_of, subject
from infopt.reports.pages.blocks import (
    Html,
    details,
    facts,
    figure,
    listing,
    paragraph,
    section,
    subtitle,
    table,
    verdict,
)
from infopt.reports.pages.charts import Axis, Chart, Role, Series
from infopt.reports.pages.figures import found as found_at
from infopt.reports.pages.figures import joined, shown
from infopt.reports.pages.gate_findings import finding_tables, rule_table, within
from infopt.reports.pages.memory_chart import memory_chart
from infopt.reports.pages.page import Page
from infopt.units import format_gib, format_seconds, format_whole

STATUSES: dict[Verdict, str] = {"pass": "pass", "fail": "fail", "undetermined": "open"}
FIRST: dict[Verdict, int] = {"fail": 0, "undetermined": 1, "pass": 2}
# What a page of 1.5 MB has room for beside the charts' own library, in characters.
MOST_OF_DEPLOYMENTS = 250_000
MOST_OF_TABLE = 100_000
MOST_OF_RESULT = 200_000
MOST_CHARTS = 20
MOST_UNREADABLE = 200
COUNTS: tuple[tuple[str, str, Role], ...] = (
    ("error", "errors", "bad"),
    ("warning", "warnings", "open"),
    ("note", "notes", "other"),
    ("suppressed", "accepted", "good"),
)
ALL_OF_IT = "infopt gate --json prints all of it"
# A deployment with its place in the result.
Placed = tuple[int, Checked]


def gate_page(found: Gate, command: str) -> Page:
    """The page."""
    result = as_dict(found)
    placed = sorted(enumerate(found.checked), key=lambda one: FIRST[one[1].verdict])
    charts = _memory_charts(placed)
    counting = _counts_chart(result)
    embedded, told = _embedded(result)
    return Page(
        title=f"Deployment files: {heading(found)}",
        command=command,
        result=embedded,
        body=_body(found, result, placed, counting, charts, told),
        charts=(counting, *charts.values()),
    )


def _memory_charts(placed: Sequence[Placed]) -> dict[int, Chart]:
    """Of the first deployments that have a plan, by their place."""
    planned = [(number, one.case.plan) for number, one in placed if one.case.plan is not None]
    return {number: memory_chart(plan.memory, f"memory-{number}") for number, plan in planned[:MOST_CHARTS]}


def _embedded(result: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The result, or its head where it is too large, and what to tell of that."""
    if len(json.dumps(result)) <= MOST_OF_RESULT:
        return result, ""
    kept = {name: result[name] for name in ("schema", "verdict", "files", "counts")}
    return kept, f"The data inside this page is the verdict and the counts alone: {ALL_OF_IT}."


def _counts_chart(result: Mapping[str, Any]) -> Chart:
    names = tuple(label for _, label, _ in COUNTS)
    series = tuple(Series(label, role, "bar", [(label, result["counts"][name])]) for name, label, role in COUNTS)
    return Chart(
        "findings",
        "bars",
        "Findings",
        "How many there are of each kind.",
        Axis("severity", "count", "category", names),
        Axis("findings", "count"),
        series,
    )


def _body(
    found: Gate,
    result: Mapping[str, Any],
    placed: Sequence[Placed],
    counting: Chart,
    charts: Mapping[int, Chart],
    told: str,
) -> Iterator[Html]:
    yield verdict(_status(found), heading(found).upper(), _summary(found))
    yield section(
        "What was found",
        facts([(label, shown(result, f"counts.{name}", format_whole)) for name, label, _ in COUNTS]),
        figure(counting),
        note="An error keeps a deployment from starting, or from serving what it promises. Accepted findings have "
        "their reason in the files, the policy or the baseline.",
    )
    if found.errors:
        yield _unreadable(found)
    if placed:
        yield _overview(placed)
        yield _files(result, placed, charts)
    if found.notes:
        note = "Findings that belong to no deployment."
        yield section("About files and the policy", *finding_tables(found.notes, with_file=True), note=note)
    if rules := {finding.rule for finding in found.findings}:
        note = "Why each matters, and what to do in general. infopt rules NAME shows an example."
        yield section("The rules behind it", rule_table(rules), note=note)
    if told:
        yield paragraph(told, soft=True)


def _status(found: Gate) -> str:
    if found.errors:
        return "fail"
    return STATUSES[found.verdict] if found.checked or found.findings else "open"


def _summary(found: Gate) -> str:
    looked = f"{counted(len(found.reads), 'file')}, {counted(len(found.checked), 'deployment')}"
    return f"{looked}; {counts(found.findings).words}"


def _unreadable(found: Gate) -> Html:
    told = [clean(error) for error in found.errors]
    more = len(told) - MOST_UNREADABLE
    rest = [f"{counted(more, 'more file')}: {ALL_OF_IT}"] if more > 0 else []
    note = "Nothing is known of these: the verdict is without them."
    return section("Could not be read", listing([*told[:MOST_UNREADABLE], *rest]), note=note)


def _overview(placed: Sequence[Placed]) -> Html:
    """A row for each deployment."""
    rows = [
        (one.verdict, name_of(one), subject(one), counts(one.findings).words if one.findings else "none", _place(one))
        for _, one in placed
    ]
    kept, more = within(MOST_OF_TABLE, rows)
    columns = ("verdict", "deployment", "serves", "findings", "file")
    parts = [table(columns, kept, counted(len(placed), "deployment"))]
    parts += [paragraph(f"{counted(more, 'more deployment')} left out here: {ALL_OF_IT}.")] if more else []
    note = "Those that fail come first. Undetermined: a fact is missing, and what settles it stands below."
    return section("Deployments", *parts, note=note)


def _place(one: Checked) -> str:
    return clean(f"{one.case.deployment.file}:{one.case.deployment.found.line}")


def _files(result: Mapping[str, Any], placed: Sequence[Placed], charts: Mapping[int, Chart]) -> Html:
    """Every deployment under its file, files that fail first, as long as there is room."""
    worst: dict[str, int] = {}
    for _, one in placed:
        worst.setdefault(one.case.deployment.file, FIRST[one.verdict])
    listed = sorted(placed, key=lambda p: (worst[p[1].case.deployment.file], p[1].case.deployment.file))
    texts = [(one.case.deployment.file, _deployment(result, number, one, charts.get(number))) for number, one in listed]
    kept, more = within(MOST_OF_DEPLOYMENTS, texts)
    parts: list[Html] = []
    for file, members in groupby(kept, key=lambda part: part[0]):
        parts += [subtitle(clean(file)), *(Html(text) for _, text in members)]
    if more:
        parts.append(paragraph(f"{counted(more, 'more deployment')} left out here: {ALL_OF_IT}."))
    drawn = f" Memory is drawn for the first {MOST_CHARTS} that have a plan." if len(charts) == MOST_CHARTS else ""
    return section("One by one", *parts, note=f"What each serves, what was found in it, and what to do.{drawn}")


def _deployment(result: Mapping[str, Any], number: int, one: Checked, chart: Chart | None) -> Html:
    """One deployment: what it serves, what is not known, its findings, its memory."""
    parts = [verdict(STATUSES[one.verdict], name_of(one), f"{one.verdict}; {subject(one)}")]
    parts.append(facts(_facts(result, number, one)))
    if one.case.unknown:
        rows = [(clean(item.fact), clean(item.settle)) for item in one.case.unknown]
        parts.append(table(("unknown", "what settles it"), rows, "What the file does not say"))
    parts += finding_tables(one.findings)
    if one.case.assumed:
        parts.append(details("What was assumed", listing(map(clean, one.case.assumed))))
    parts += [figure(chart)] if chart is not None else []
    return Html("".join(parts))


def _facts(result: Mapping[str, Any], number: int, one: Checked) -> Iterator[tuple[str, str]]:
    """What is known of it, as figures of the result."""
    at = f"deployments.{number}"
    yield "where", _place(one)
    granted, needed = (shown(result, f"{at}.{key}", format_whole) for key in ("gpus", "gpus_needed"))
    yield "devices", joined(granted, "given,", needed, "asked for")
    if one.case.refused:
        yield "refused", clean(one.case.refused)
    if one.case.needs_bytes_per_gpu is not None:
        yield "needs", joined(shown(result, f"{at}.needs_bytes_per_gpu", format_gib), "on each device at least")
    if one.case.plan is None:
        return
    memory, times = f"{at}.plan.memory", f"{at}.plan.estimate"
    used, capacity = (shown(result, f"{memory}.{key}_bytes_per_gpu", format_gib) for key in ("used", "capacity"))
    yield "memory", joined(used, "of", capacity, "on each device, with one request of full length")
    if one.case.plan.memory.unknown:
        yield "not counted", ", ".join(one.case.plan.memory.unknown)
    tokens, most = (shown(result, f"{memory}.{key}", format_whole) for key in ("kv_pool_tokens", "max_sequences"))
    requests = "request" if one.case.plan.memory.max_sequences == 1 else "requests"
    yield "cache", joined(tokens, "tokens:", most, f"{requests} of full length at once")
    if found_at(result, f"{times}.tpot_s") is not None:
        yield "alone", joined(shown(result, f"{times}.tpot_s", format_seconds), "a token (TPOT) for one request alone")
