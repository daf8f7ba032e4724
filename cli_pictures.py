"""`--curves` under the page and `--plot FILE`: refused where they cannot be drawn, before anything is computed."""

from pathlib import Path
from typing import TYPE_CHECKING

from infopt.cli_options import OutputOptions
from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.studies.plan_curves import PlanCurves
    from infopt.studies.planning import Plan


def check_pictures(curves: bool, plot: Path | None, output: OutputOptions) -> None:
    """Refuse curves in a form that has no place for them, and a file that cannot be written."""
    if curves and output.form != "table":
        raise InfoptError("--curves are under the page: leave --json and --format out, or --plot FILE.svg instead")
    if plot is not None:
        from infopt.reports.pictures import check_picture

        check_picture(plot)


def check_plan_pictures(curves: bool, plot: Path | None, output: OutputOptions, is_one: bool) -> None:
    """The same for `plan`, whose page may be another than that of one deployment."""
    if not is_one:
        raise InfoptError(
            "--curves and --plot are of one deployment: name it with --hw, and leave --compare and --ladder out"
        )
    check_pictures(curves, plot, output)


def pictures_of_plan(plan: "Plan", curves: bool, plot: Path | None, target_s: float | None) -> "PlanCurves | None":
    """Draw the picture, where one is asked for; the curves that belong under the page, where they are."""
    from infopt.studies.plan_curves import plan_curves

    found = plan_curves(plan, target_s)
    if plot is not None:
        from infopt.reports.plan_plot import draw

        draw(plan, found, plot)
    return found if curves else None
