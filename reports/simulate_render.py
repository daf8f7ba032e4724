"""A simulation in the form that was asked for."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infopt.reports.render import Form
    from infopt.studies.simulate import Simulation


def render_simulation(found: "Simulation", form: "Form", command: str = "", curves: bool = False) -> str:
    """One simulation."""
    if form in ("json", "csv"):
        from infopt.reports import simulate_json as plain

        if form == "json":
            from infopt.reports.json_report import dumps

            return dumps(plain.as_dict(found))
        from infopt.reports.csv_report import rows_csv

        return rows_csv([plain.flat_row(found)])
    from infopt.reports import simulate_report as report

    return report.markdown(found) if form == "md" else report.page(found, command, curves)
