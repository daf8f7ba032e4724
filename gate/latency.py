"""A time against its target, for the rules of both latencies."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit
from infopt.gate.situations import Seconds
from infopt.units import format_seconds


def late(case: Case, name: str, load: str, seconds: Seconds, target_s: float) -> Iterator[Hit]:
    """A miss: certain where even the least is above the target; where the best value is, an error is not sure."""
    sure = seconds.low > target_s
    if not sure and (not seconds.measured or seconds.value <= target_s):
        return
    range_ = f" ({format_seconds(seconds.low)} to {format_seconds(seconds.high)})" if seconds.measured else " at least"
    shown = seconds.value if seconds.measured else seconds.low
    margin = case.policy.margins.latency_share
    kept = f", {margin:.0%} below what users were promised" if margin else ""
    yield Hit(
        f"{name} {load} is {format_seconds(shown)}{range_}; the target is {format_seconds(target_s)}{kept}",
        detail=_detail(seconds),
        severity="error" if sure else "warning",
        confidence="possible" if not sure else "likely" if seconds.outside else "certain",
    )


def _detail(seconds: Seconds) -> str:
    if not seconds.measured:
        return "bytes and products at the device's full speed: no step was measured here"
    return f"beyond what was measured: {seconds.outside}" if seconds.outside else ""
