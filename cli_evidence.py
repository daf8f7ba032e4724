"""`infopt reproduce` and `infopt validate`: the documents, the measurements, and a record of one's own, beside ours."""

from pathlib import Path
from typing import Annotated

import typer

from infopt.cli import ALWAYS_GOOD, app, emit, verdict_status
from infopt.cli_options import OutputOptions, PlotFile, takes
from infopt.cli_page import PageOptions
from infopt.cli_pictures import check_pictures
from infopt.errors import InfoptError

VALIDATE_STATUSES = (
    "Exit status: 0 good, 2 wrong usage or unreadable input; with --calibration 1 where the record does not hold, "
    "4 where it holds too little to tell."
)


@app.command(epilog=ALWAYS_GOOD)
@takes(OutputOptions, PageOptions)
def reproduce(
    output: OutputOptions,
    page: PageOptions,
    document: Annotated[int | None, typer.Option("--document", metavar="1|2|3", help="Only this document.")] = None,
) -> None:
    """Every number of the three source documents beside what the ledgers say, and why they differ.

    \b
    infopt reproduce --document 1
    """
    from infopt.reports.render import render_reproduction
    from infopt.studies.reproduce import reproduce as study

    page.check()
    items = study(document)
    if page.html is not None:
        from infopt.reports.pages.reproduce_page import reproduce_page

        page.write(lambda command: reproduce_page(items, command))
    emit(render_reproduction(items, output.form))


@app.command(epilog=VALIDATE_STATUSES)
@takes(OutputOptions, PageOptions)
def validate(
    output: OutputOptions,
    page: PageOptions,
    truth: Annotated[Path | None, typer.Option("--truth", metavar="FILE.csv", help="Your own measurements.")] = None,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", metavar="FILE.csv", help="Write every row here.")
    ] = None,
    plot: PlotFile = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", metavar="FILE.yaml", help="Check a record of `infopt probe` instead."),
    ] = None,
) -> None:
    """Predictions beside published measurements: errors by group, and what was left out and why.

    \b
    infopt validate --predictions rows.csv
    infopt validate --truth mine.csv --plot mine.svg
    infopt validate --calibration h100.yaml

    A calibration record is checked against itself: no step below the floor or above the interval, untouched steps
    predicted.
    """
    if calibration is not None:
        if truth or predictions or plot or page.html:
            raise InfoptError(
                "--calibration checks a record against itself: leave --truth, --predictions, --plot and --html out"
            )
        from infopt.hardware.calibration import load_calibration
        from infopt.reports.calibration_check_report import render_calibration_check
        from infopt.studies.calibration_check import check_calibration

        checked = check_calibration(load_calibration(calibration))
        emit(render_calibration_check(checked, output.form))
        raise typer.Exit(verdict_status(checked.passes, False))
    from infopt.files import write_text
    from infopt.reports.render import render_validation
    from infopt.studies.validate import predictions_csv
    from infopt.studies.validate import validate as study

    check_pictures(False, plot, output)
    page.check(("--predictions", predictions), ("--plot", plot))
    result = study(truth)
    if predictions is not None:
        write_text(predictions, predictions_csv(result))
    if plot is not None:
        from infopt.reports.validate_plot import draw

        draw(result, plot)
    if page.html is not None:
        from infopt.reports.pages.validate_page import validate_page

        page.write(lambda command: validate_page(result, command))
    emit(render_validation(result, output.form))
