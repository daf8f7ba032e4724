"""From a gain to a verdict, the same for every technique.

    use      gain >= worth        limited  gain >= limited        skip  below
Where the step model is lent from another class, a verdict stands only if both ends of the interval give it. At the
floor a gain is the most possible, so only `skip` and `limited` can stand: everything else must be measured.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from infopt.boundaries.steps import Basis
from infopt.boundaries.technique import Gain, Verdict
from infopt.errors import InfoptError
from infopt.ledgers.estimate import Clock, step_clock
from infopt.ledgers.scenario import Scenario
from infopt.records import read_yaml

DATA = Path(__file__).resolve().parent / "data"
# measured here or by the source; stated by its vendor, in its source code or in one of the three documents; or assumed
KINDS = ("measured", "vendor", "source_code", "document", "assumed")
MEASURE_STEPS = "--point batch=1,tpot=TIME (a measured time per output token; twice, at two batches, is better)"

MEASURE_CURVE = (
    "--step-curve 1=TIME,8=TIME,.. (step times measured at so many tokens; there are no constants here that "
)
MEASURE_CURVE += "--point could calibrate)"
MEASURE_BOTH = (
    "a measurement on this machine, with it and without: there are no constants here that --point could calibrate"
)


@cache
def threshold(name: str) -> float:
    """A threshold by its name in data/thresholds.yaml."""
    return float(_thresholds()[name]["value"])


@cache
def _thresholds() -> dict[str, Any]:
    found: dict[str, Any] = checked_yaml("thresholds")
    return found


def plain_verdict(ratio: float) -> Verdict:
    """use, limited or skip by the ratio alone."""
    if ratio >= threshold("worth_ratio"):
        return "use"
    return "limited" if ratio >= threshold("limited_ratio") else "skip"


def by_gain(gain: Gain, basis: Basis) -> Verdict:
    """The verdict a gain deserves on what is known of the steps."""
    verdict = plain_verdict(gain.value)
    if basis == "floor":
        return "measure" if verdict == "use" else verdict
    if basis == "assumed" and plain_verdict(gain.low) != plain_verdict(gain.high):
        return "measure"
    return verdict


@cache
def checked_yaml(name: str) -> Any:
    """A file of data/, in which every value says what it is and where it is from.

    Errors: InfoptError where a mapping with a `value` has no `source`, or no `kind` out of KINDS.
    """
    path = DATA / f"{name}.yaml"
    found = read_yaml(path)
    for where, row in _values(found, ""):
        if not str(row.get("source", "")).strip():
            raise InfoptError(f"{path}: {where} has no source")
        if row.get("kind") not in KINDS:
            raise InfoptError(f"{path}: the kind of {where} is none of {', '.join(KINDS)}")
    return found


def _values(node: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Mappings with a value, however deep, and their path."""
    if isinstance(node, dict) and "value" in node:
        yield where, node
    elif isinstance(node, dict):
        for key, below in node.items():
            yield from _values(below, f"{where}.{key}".strip("."))
    elif isinstance(node, list):
        for index, below in enumerate(node):
            yield from _values(below, f"{where}[{index}]")


def named_engine(s: Scenario) -> str:
    """The engine as it writes itself, with its version."""
    names: dict[str, str] = checked_yaml("engine_names")
    return f"{names.get(s.engine.engine, s.engine.engine)} {s.engine_version}"


def on_by_default(s: Scenario) -> str:
    """That nothing need be switched on, for reasons and costs: the verdict is of keeping it."""
    return f"on by default in {named_engine(s)}"


def measured_by(scenarios: Sequence[Scenario], by_curve: bool = False) -> str:
    """What settles a verdict that step times of these scenarios leave open.

    Points calibrate constants of an engine and class of devices, so there must be some; `by_curve`: step times of the
    present deployment are enough.
    """
    if all(isinstance(step_clock(s), Clock) for s in scenarios):
        return MEASURE_STEPS
    return MEASURE_CURVE if by_curve else MEASURE_BOTH


def unsure(gain: Gain, basis: Basis) -> str:
    """Why a gain does not decide, for the reason of `measure`."""
    if basis == "floor":
        return "at most: bytes over bandwidth is all that is known"
    return f"{gain.low:.2f}x to {gain.high:.2f}x with lent step constants"
