"""Sentences and keys of a month of a load, shared by the readable forms and JSON."""

import math
from typing import Any

from infopt.reports import words
from infopt.studies.cost import Month, NoMonth
from infopt.studies.planning import Plan
from infopt.units import format_share, format_usd, format_whole

KEYS = ("served_per_s", "replicas", "gpus", "busy_share", "usd", "usd_per_million_output_tokens", "saving_usd")


def month_rows(plan: Plan, found: Month | NoMonth) -> list[tuple[str, str]]:
    """Label and sentence of each line."""
    if isinstance(found, NoMonth):
        return [("none", found.reason)]
    s, load = plan.scenario, found.load
    each = f"one serves {found.served_per_s:.3g} requests/s with {words.counted(s.batch, 'sequence')} at once"
    in_out = f"{format_whole(s.input_tokens)} tokens in and {format_whole(s.output_tokens)} out"
    rows = [
        ("load", f"{load.rate_per_s:.3g} requests/s for {load.hours:,.0f} hours, {in_out}"),
        ("replicas", f"{words.counted(found.replicas, 'replica')} on {words.counted(found.gpus, 'device')}: {each}"),
        ("busy", f"{format_share(found.busy_share)} of what they serve at that batch"),
        ("rent", _rent_words(found)),
    ]
    if found.saving_usd is not None and load.baseline_usd is not None:
        rows.append(("saving", _saving_words(load.baseline_usd, found.saving_usd)))
    if found.payback_months is not None and load.one_off_usd is not None:
        rows.append(("pay-back", _payback_words(load.one_off_usd, found.payback_months)))
    return rows


def _rent_words(found: Month) -> str:
    per_million = f"{format_usd(found.usd_per_million_output_tokens)} per million output tokens at this load"
    return f"{format_usd(found.usd)} a month; {per_million}"


def _saving_words(baseline_usd: float, saving_usd: float) -> str:
    today = format_usd(baseline_usd)
    if saving_usd < 0:
        return f"none: {format_usd(-saving_usd)} a month more than the {today} of the baseline"
    share = format_share(saving_usd / baseline_usd) if baseline_usd else "0%"
    return f"{format_usd(saving_usd)} a month, {share} of the {today} of the baseline"


def _payback_words(one_off_usd: float, months: float) -> str:
    cost = format_usd(one_off_usd)
    return f"never: nothing is saved against {cost}" if math.isinf(months) else f"{months:.3g} months for {cost}"


def month_dict(found: Month | NoMonth) -> dict[str, Any]:
    """The keys of a month; null where there is none, with the reason. A pay-back that never comes is null."""
    load = found.load
    asked = {
        "requests_per_s": load.rate_per_s,
        "hours": load.hours,
        "baseline_usd": load.baseline_usd,
        "one_off_usd": load.one_off_usd,
    }
    if isinstance(found, NoMonth):
        return {**asked, **dict.fromkeys((*KEYS, "payback_months")), "reason": found.reason}
    months = found.payback_months
    return {
        **asked,
        **{key: getattr(found, key) for key in KEYS},
        "payback_months": None if months is None or math.isinf(months) else months,
        "reason": None,
    }
