"""What a what-if program must answer: the figures of `plan --json`, by section and key."""

import math
from collections.abc import Mapping
from typing import Any

from infopt.reports.json_report import plan_dict
from infopt.studies.planning import Plan
from infopt.studies.whatif_trace import Traced

MOST_DIFFERENCE = 1e-9
SECTIONS = ("workload", "hardware", "memory", "bandwidth", "compute", "estimate", "cost", "energy")
# Not in numbers, or not of the load.
LEFT_OUT = {
    *("hardware.id", "hardware.calibration", "hardware.resolved_as", "memory.unknown", "estimate.extrapolated"),
    *("energy.kind", "energy.source", "estimate.terms_s"),
}
FITS = {1: True, 0: False, -1: None}


def expected_answers(plan: Plan) -> dict[str, Any]:
    """Figures of a plan; terms of the memory and of an output token by name."""
    result = plan_dict(plan)
    found = {f"{section}.{key}": value for section in SECTIONS for key, value in (result[section] or {}).items()}
    found |= {f"estimate.terms_s.{name}": value for name, value in result["estimate"]["terms_s"].items()}
    found |= {f"memory.term.{term.name}": term.value for term in plan.memory.terms}
    found["outside"] = len(result["estimate"]["extrapolated"])
    return {key: value for key, value in found.items() if key not in LEFT_OUT}


def differences(
    expected: Mapping[str, Any], found: Mapping[str, float | None], traced: Traced
) -> tuple[float, list[str]]:
    """The largest relative difference, and what differs by more than MOST_DIFFERENCE or in kind."""
    worst, wrong = 0.0, []
    for key, value in expected.items():
        got = _read(key, found, traced)
        if isinstance(value, int | float) and not isinstance(value, bool) and got is not None:
            off = abs(got - value) / max(abs(value), 1e-300)
            worst = max(worst, off)
            if off > MOST_DIFFERENCE:
                wrong.append(f"{key}: {got!r}, not {value!r}")
        elif got != value:
            wrong.append(f"{key}: {got!r}, not {value!r}")
    return worst, wrong


def _read(key: str, found: Mapping[str, float | None], traced: Traced) -> Any:
    if key == "outside":
        return sum(1 for name, holds in found.items() if name.startswith("outside.") and holds and _estimated(found))
    value = found.get(key)
    if value is None or math.isnan(value):
        return None
    if key in ("estimate.reason", "estimate.bound"):
        return traced.texts[int(value)]
    return FITS[int(value)] if key == "memory.fits" else value


def _estimated(found: Mapping[str, float | None]) -> bool:
    value = found.get("estimate.tpot_s")
    return value is not None and not math.isnan(value)
