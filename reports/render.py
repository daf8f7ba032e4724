"""Choose the output form; the module of a form is imported only when it is asked for."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from infopt.hardware.accelerator import HardwareChoice
    from infopt.studies.boundary import Boundaries
    from infopt.studies.boundary_curve import Curve
    from infopt.studies.checklist import Checked
    from infopt.studies.choices import Choices
    from infopt.studies.compare import Comparison
    from infopt.studies.cost import Month, NoMonth
    from infopt.studies.hardware_view import Stored
    from infopt.studies.ladder import Ladder
    from infopt.studies.model_view import ModelView
    from infopt.studies.plan_curves import PlanCurves
    from infopt.studies.planning import Plan
    from infopt.studies.reproduce import Item
    from infopt.studies.search import Search
    from infopt.studies.validate import Validation

Form = Literal["table", "json", "csv", "md"]


def render_plan(
    plan: "Plan",
    form: Form,
    explain: bool,
    month: "Month | NoMonth | None" = None,
    curves: "PlanCurves | None" = None,
) -> str:
    """One plan in one form, with the month of a load and, on a page, the curves where they are asked for."""
    if form == "json":
        from infopt.reports.json_report import dumps, plan_dict

        return dumps(plan_dict(plan, explain, month))
    if form == "csv":
        from infopt.reports.csv_report import plans_csv

        return plans_csv([plan], month=month)
    if form == "md":
        from infopt.reports.markdown import plan_markdown

        return plan_markdown(plan, explain, month)
    from infopt.reports.table_plan import plan_page

    return plan_page(plan, explain, month, curves)


def render_choices(choices: "Choices", form: Form, command: str) -> str:
    """The choice of hardware in one form."""
    if form == "json":
        from infopt.reports.json_report import choices_dict, dumps

        return dumps(choices_dict(choices))
    if form == "csv":
        from infopt.reports.csv_report import plans_csv

        return plans_csv(choices.plans, ranked=True)
    if form == "md":
        from infopt.reports.markdown import choices_markdown

        return choices_markdown(choices, command)
    from infopt.reports.table_choices import choices_page

    return choices_page(choices, command)


def render_models(ids: Sequence[str], views: "Sequence[ModelView] | None", form: Form) -> str:
    """A list of models: names alone, or with what was read of each."""
    from infopt.studies.model_view import short_names

    if form == "table":
        from infopt.reports.table_models import names_page, summary_page

        return summary_page(views) if views is not None else names_page(ids, short_names())
    from infopt.reports.json_catalogue import list_models

    return _rows(list_models(ids, views), "models", form)


def render_model(view: "ModelView", form: Form) -> str:
    """One model."""
    if form == "table":
        from infopt.reports.table_models import model_page

        return model_page(view)
    from infopt.reports.json_catalogue import show_model

    return _record(show_model(view), form)


def render_hardware_list(summaries: "Sequence[dict[str, Any]]", form: Form) -> str:
    """A list of accelerators."""
    if form == "table":
        from infopt.reports.table_hardware import list_page

        return list_page(summaries)
    from infopt.reports.json_catalogue import list_hardware

    return _rows(list_hardware(summaries), "accelerators", form)


def render_hardware(choice: "HardwareChoice", calibrations: "Sequence[Stored]", form: Form) -> str:
    """One accelerator, and the calibration records stored of it."""
    if form == "table":
        from infopt.reports.table_hardware import hardware_page

        return hardware_page(choice, calibrations)
    from infopt.reports.json_catalogue import show_hardware

    data = show_hardware(choice, calibrations)
    return _json(data) if form == "json" else _record(data | {"calibrations": [one.file for one in calibrations]}, form)


def render_reproduction(items: "Sequence[Item]", form: Form) -> str:
    """The documents' numbers beside ours."""
    from infopt.reports import reproduce_report as report

    if form == "json":
        return _json(report.as_dict(items))
    if form == "csv":
        return report.csv_text(items).removesuffix("\n")
    if form == "md":
        return report.markdown(items)
    from infopt.reports.screen import terminal_width

    return report.render(items, terminal_width())


def render_validation(result: "Validation", form: Form) -> str:
    """Predictions beside published measurements."""
    from infopt.reports import validate_report as report

    if form == "json":
        return _json(report.as_dict(result))
    if form == "csv":
        return _table(report.as_dict(result)["groups"], form)
    return report.markdown(result) if form == "md" else report.page(result)


def _rows(data: Mapping[str, Any], key: str, form: Form) -> str:
    """An object whose `key` is a list of flat objects."""
    return _table(data[key], form) if form in ("csv", "md") else _json(data)


def _record(data: Mapping[str, Any], form: Form) -> str:
    """One object as JSON, as a row, or as a table of field and value."""
    if form == "json":
        return _json(data)
    from infopt.reports.csv_report import flattened

    leaves = dict(flattened(data))
    if form == "csv":
        return _table([leaves], form)
    return _table([{"field": name, "value": value} for name, value in leaves.items()], form)


def _table(rows: Sequence[Mapping[str, Any]], form: Form) -> str:
    if form == "csv":
        from infopt.reports.csv_report import rows_csv

        return rows_csv(rows)
    from infopt.reports.markdown import rows_markdown

    return rows_markdown(rows)


def _json(data: Mapping[str, Any]) -> str:
    from infopt.reports.json_report import dumps

    return dumps(data)


def render_comparison(comparison: "Comparison", form: Form) -> str:
    """Two plans beside each other."""
    from infopt.reports import compare_report as report

    if form == "json":
        return _json(report.as_dict(comparison))
    if form == "csv":
        return _table(report.rows(comparison), form)
    return report.markdown(comparison) if form == "md" else report.page(comparison)


def render_search_row(result: "Search", number: int, form: Form, explain: bool) -> str:
    """One row of a search, with every term of its plan where they are asked for."""
    from infopt.reports import search_report as report
    from infopt.studies.search import plan_of, row_of

    d = row_of(result, number)
    if form == "json":
        return _json(report.row(result, number, d, explain))
    if form == "csv":
        return _table([report.flat_row(number, d)], form)
    if form == "md":
        return report.row_markdown(result, number) + ("\n\n" + render_plan(plan_of(d), form, True) if explain else "")
    from infopt.reports.search_page import row_page

    return row_page(result, number) + ("\n\n" + render_plan(plan_of(d), form, True) if explain else "")


def render_search(result: "Search", form: Form, curves: bool = False) -> str:
    """The deployments that meet the targets."""
    from infopt.reports import search_report as report

    if form == "json":
        return _json(report.as_dict(result))
    if form == "csv":
        return _table(report.rows(result), form)
    return report.markdown(result) if form == "md" else report.page(result, curves)


def render_ladder(found: "Ladder", form: Form) -> str:
    """The cost ladder beside the document's."""
    from infopt.reports import ladder_report as report

    if form == "json":
        return _json(report.as_dict(found))
    if form == "csv":
        return _table(report.rows(found), form)
    return report.markdown(found) if form == "md" else report.page(found)


def render_boundaries(found: "Boundaries", form: Form) -> str:
    """All techniques."""
    from infopt.reports import boundary_report as report

    if form == "json":
        return _json(report.as_dict(found))
    if form == "csv":
        return _table(report.rows(found), form)
    return report.markdown(found) if form == "md" else report.page(found)


def render_boundary(found: "Boundaries", form: Form, curves: bool = False) -> str:
    """One technique in full."""
    if form in ("json", "csv"):
        return render_boundaries(found, form)
    from infopt.reports import boundary_page as report

    return report.markdown(found) if form == "md" else report.page(found, curves)


def render_curve(curve: "Curve", form: Form) -> str:
    """A technique along a quantity, as rows."""
    rows = [
        {
            "value": point.value,
            "verdict": point.verdict,
            "gain_ratio": point.gain.value if point.gain else None,
            "gain_low_ratio": point.gain.low if point.gain else None,
            "gain_high_ratio": point.gain.high if point.gain else None,
        }
        for point in curve.points
    ]
    of = {"technique": curve.technique.id, "quantity": curve.quantity.name, "unit": curve.quantity.unit}
    if form == "json":
        return _json({"schema": "infopt/curve/1", **of, "points": rows})
    return _table([{curve.quantity.name: row.pop("value"), **row} for row in rows], form)


def render_checklist(found: "Checked", form: Form) -> str:
    """The pre-deployment checklist."""
    from infopt.reports import checklist_report as report

    if form == "json":
        return _json(report.as_dict(found))
    if form == "csv":
        from infopt.reports.csv_report import flattened

        return _table([dict(flattened(row)) for row in report.rows(found)], form)
    return report.markdown(found) if form == "md" else report.page(found)
