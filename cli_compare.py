"""`plan --compare A B`: option strings laid over the plan's other options."""

from infopt.cli_options import Format, ScenarioOptions, calibration_notes
from infopt.cli_overlay import overlaid
from infopt.errors import InfoptError
from infopt.studies.planning import Plan


def compared(base: ScenarioOptions, a: str, b: str, form: Format) -> tuple[str, bool | None]:
    """The comparison in one form, and whether both scenarios fit."""
    from infopt.reports.render import render_comparison
    from infopt.studies.compare import compare

    result = compare(_plan(base, a), _plan(base, b), a, b)
    return render_comparison(result, form), result.fits


def _plan(base: ScenarioOptions, text: str) -> Plan:
    from infopt.cli import tell
    from infopt.profiles.resolve import resolve_model
    from infopt.studies.planning import plan

    (options,) = overlaid([base], text)
    if options.hw is None:
        raise InfoptError(f"--compare {text!r}: no hardware; give --hw to both or in each of the two")
    hardware = options.hardware()
    tell(calibration_notes([hardware]))
    return plan(resolve_model(options.model, online=options.online), hardware, options.request())
