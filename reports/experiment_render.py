"""Ladder, matrix and compared runs in the form that was asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infopt.reports.render import Form
    from infopt.studies.experiment_compare import Compared
    from infopt.studies.experiment_ladder import Ladder
    from infopt.studies.experiment_matrix import Matrix


def render_ladder(found: "Ladder", form: "Form") -> str:
    """The tuning ladder."""
    from infopt.reports import experiment_json as plain

    if form in ("json", "csv"):
        return _plain(plain.ladder_dict(found) if form == "json" else plain.ladder_rows(found))
    from infopt.reports import experiment_ladder_report as report

    return report.markdown(found) if form == "md" else report.page(found)


def render_matrix(found: "Matrix", form: "Form") -> str:
    """The workload matrix."""
    from infopt.reports import experiment_json as plain

    if form in ("json", "csv"):
        return _plain(plain.matrix_dict(found) if form == "json" else plain.matrix_rows(found))
    from infopt.reports import experiment_matrix_report as report

    return report.markdown(found) if form == "md" else report.page(found)


def render_compared(found: "Sequence[Compared]", names: Sequence[str], form: "Form") -> str:
    """Saved runs beside each other; `names` are their files."""
    from infopt.reports import experiment_json as plain

    if form in ("json", "csv"):
        return _plain(plain.compared_dict(found, names) if form == "json" else plain.compared_rows(found, names))
    from infopt.reports import experiment_compare_report as report

    return report.markdown(found, names) if form == "md" else report.page(found, names)


def _plain(data: dict[str, Any] | list[dict[str, Any]]) -> str:
    if isinstance(data, dict):
        from infopt.reports.json_report import dumps

        return dumps(data)
    from infopt.reports.csv_report import rows_csv

    return rows_csv(data)
