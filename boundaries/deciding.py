"""From a gain to a verdict, the same for every technique.

    use      gain >= worth        limited  gain >= limited        skip  below
Where the step model is lent from another class, a verdict stands only if both ends of the interval give it. At the
floor a gain is the most possible, so only `skip` and `limited` can stand: everything else must be measured.
"""

from functools import cache
from pathlib import Path
from typing import Any

from infopt.boundaries.steps import Basis
from infopt.boundaries.technique import Gain, Verdict
from infopt.records import read_yaml

DATA = Path(__file__).resolve().parent / "data"
MEASURE_STEPS = "--point batch=1,tpot=TIME (a measured time per output token; twice, at two batches, is better)"


@cache
def threshold(name: str) -> float:
    """A threshold by its name in data/thresholds.yaml."""
    return float(_thresholds()[name]["value"])


@cache
def _thresholds() -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(DATA / "thresholds.yaml")
    return data


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


def unsure(gain: Gain, basis: Basis) -> str:
    """Why a gain does not decide, for the reason of `measure`."""
    if basis == "floor":
        return "at most: bytes over bandwidth is all that is known"
    return f"{gain.low:.2f}x to {gain.high:.2f}x: constants are lent"
