"""`plan --ladder`: document 3's cost steps for the plan's model and hardware."""

from infopt.cli_options import Format, LadderOptions, ScenarioOptions, calibration_notes
from infopt.errors import InfoptError


def laddered(scenario: ScenarioOptions, options: LadderOptions, form: Format) -> tuple[str, bool | None]:
    """The ladder in one form, and its verdict: None where no step has an estimate."""
    from infopt.cli import tell
    from infopt.profiles.resolve import resolve_model
    from infopt.reports.render import render_ladder
    from infopt.studies.ladder import ladder

    if scenario.hw is None:
        raise InfoptError("--ladder is of one deployment: name it with --hw")
    model = resolve_model(scenario.model, online=scenario.online)
    hardware = scenario.hardware()
    tell(calibration_notes([hardware]))
    found = ladder(model, hardware, scenario.request(), options.knobs())
    verdict = True if found.gain_ratio is not None else None if found.plan.fits is not False else False
    return render_ladder(found, form), verdict
