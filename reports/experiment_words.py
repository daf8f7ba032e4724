"""Words that the pages of `infopt experiment` share: values of knobs and metrics, verdicts."""

from infopt.studies.experiment_variables import Scalar
from infopt.studies.saved_run import Metric
from infopt.units import format_seconds, format_share, format_whole

MANY = 10.0


def value(found: Scalar) -> str:
    """A knob's value as people say it."""
    if found is None:
        return "none"
    if isinstance(found, bool):
        return "on" if found else "off"
    if isinstance(found, int):
        return format_whole(found)
    return f"{found:g}" if isinstance(found, float) else found


def figure(number: float | None, metric: Metric) -> str:
    """A metric in its unit."""
    if number is None:
        return "-"
    if metric.unit == "s":
        return format_seconds(number)
    if metric.unit == "share":
        return format_share(number)
    text = f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
    return f"{text}/s" if metric.unit in ("1/s", "tokens/s") else text


def percent(ratio: float) -> str:
    """A change in percent with its sign; as a factor where it is tenfold.

    >>> percent(0.95), percent(1.2), percent(12.0)
    ('-5%', '+20%', '12.0x')
    """
    if ratio >= MANY:
        return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.1f}x"
    return f"{'+' if ratio >= 1 else '-'}{format_share(abs(ratio - 1))}"


def times(ratio: float) -> str:
    """A gain as a factor: three digits near 1."""
    return f"{ratio:.3g}x" if ratio >= 10 else f"{ratio:.2f}x"
