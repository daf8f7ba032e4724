"""An observation beside the ledgers, the checklist items it answers, and the advice: sections of the page, and JSON.

The terminal and Markdown forms are those of reports/observe_report.py: what is here goes between the observation and
its notes as `Added`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from infopt.boundaries.technique import BreakEven, Gain
from infopt.ledgers.estimate import Estimate
from infopt.reports.boundary_words import BASES, bare_text, interval_text, nearest_flip, value_text
from infopt.reports.checklist_report import LABELS
from infopt.reports.observe_report import Added, Section
from infopt.studies.advice import Advice, Change, Judged
from infopt.studies.advice_flags import Setting
from infopt.studies.beside import Beside, Compared, floor_note
from infopt.studies.measure_next import Measure
from infopt.studies.observed_items import Answered
from infopt.studies.planning import Plan
from infopt.units import format_bytes, format_flop, format_share

NAMES = {
    "step_s": "step",
    "tpot_s": "TPOT",
    "ttft_s": "TTFT - queue",
    "step_bytes": "engine reads",
    "read_bytes_per_s": "engine reads",
    "kv_pool_tokens": "pool",
}
METRICS = {"throughput": "throughput", "tpot": "time per token", "ttft": "time to the first token"}
NOTHING_PAYS = "nothing that is known of this deployment would pay; what may is below"


def beside_added(found: Beside, plan: Plan, items: Sequence[Answered] = ()) -> Added:
    """The observation beside the ledgers, and the checklist items it answers."""
    sections = [Section("BESIDE THE LEDGERS", plan.scenario.model.id, tuple(_beside_rows(found, plan)))]
    if items:
        rows = tuple((LABELS[item.status], f"{item.id}: {item.reason}") for item in items)
        sections.append(Section("CHECKLIST", "items this answers", rows))
    return Added(tuple(sections), {"beside": beside_dict(found, plan), "checklist": [_item(item) for item in items]})


def advice_added(advice: Advice) -> Added:
    """Advice and what to measure next."""
    sections = [Section("ADVICE", _short_words(advice), tuple(_advice_rows(advice)))]
    if advice.measure_next:
        rows = tuple(row for one in advice.measure_next for row in _measure_rows(one))
        sections.append(Section("MEASURE NEXT", "what the metrics cannot tell", rows))
    data = {"advice": advice_dict(advice), "measure_next": [_measure(one) for one in advice.measure_next]}
    return Added(tuple(sections), data)


def joined(*parts: Added) -> Added:
    """Several one after the other."""
    data: dict[str, Any] = {}
    for part in parts:
        data |= part.data
    return Added(tuple(section for part in parts for section in part.sections), data)


def beside_dict(found: Beside, plan: Plan) -> dict[str, Any]:
    """Base units; null where a figure is not known."""
    s = plan.scenario
    return {
        "model": s.model.id,
        "hardware": s.accelerator.id,
        "gpus": s.gpus,
        "batch": s.batch,
        "input_tokens": s.input_tokens,
        "output_tokens": s.output_tokens,
        "compared": [_compared(one) for one in (*found.times, *found.others)],
        "step_s": found.step_s,
        "needed_bytes_per_step": found.needed_bytes,
        "needed_flop_per_step": found.needed_flop,
        "bandwidth_utilization": found.bandwidth_utilization,
        "flop_utilization": found.flop_utilization,
        "effective_batch": found.batch_gauge,
        "effective_batch_by_littles_law": found.batch_little,
        "batch_note": found.batch_note or None,
        "bounds": [{"ledger": one.ledger, "reason": one.reason} for one in found.bounds],
        "floor_note": floor_note(found) or None,
    }


def _compared(one: Compared) -> dict[str, Any]:
    return {
        "name": one.name,
        "unit": one.unit,
        "observed": one.observed,
        "expected": one.expected,
        "low": one.low,
        "high": one.high,
        "floor": one.floor,
        "ratio": one.ratio,
        "inside": one.inside,
        "off_ratio": one.off_ratio,
        "note": one.note or None,
    }


def _beside_rows(found: Beside, plan: Plan) -> Iterator[tuple[str, str]]:
    for one in (*found.times, *found.others):
        if one.observed is not None:
            yield NAMES[one.name], _compared_words(one)
    if not isinstance(plan.estimate, Estimate):
        yield "expected", plan.estimate.reason
    if found.bandwidth_utilization is not None and found.needed_bytes is not None:
        used = format_share(found.bandwidth_utilization)
        yield "bandwidth", f"{used} in use: a step needs {format_bytes(found.needed_bytes)} of each device"
    if found.flop_utilization is not None and found.needed_flop is not None:
        used = format_share(found.flop_utilization)
        yield "peak FLOP/s", f"{used} in use: a step needs {format_flop(found.needed_flop)} of a replica"
    if found.batch_gauge and found.batch_little:
        note = f": {found.batch_note}" if found.batch_note else ", as it should be where both saw one load"
        yield "batch", f"{found.batch_gauge:.3g} in a step, {found.batch_little:.3g} by Little's law{note}"
    for position, bound in enumerate(found.bounds):
        yield ("bound by" if position == 0 else "and by"), f"{bound.ledger}: {bound.reason}"
    below = floor_note(found)
    if below:
        yield "impossible", below


def _compared_words(one: Compared) -> str:
    observed = value_text(one.observed, one.unit)
    floor = "" if one.floor is None else f"; at least {value_text(one.floor, one.unit)}"
    if one.expected is None:
        return f"{observed} observed{floor}" + (f"; {one.note}" if one.note else "")
    expected = value_text(one.expected, one.unit)
    if one.low is not None and one.high is not None:
        expected += f" ({value_text(one.low, one.unit)} to {value_text(one.high, one.unit)})"
    told = f"{observed} observed, {expected} expected"
    if one.note:
        return f"{told}; {one.note}"
    if one.inside is None:
        return f"{told}: {one.ratio:.2f} times" if one.ratio is not None else told
    if one.inside:
        return f"{told}: inside"
    if one.off_ratio is None:  # nothing is expected
        return f"{told}: outside"
    return f"{told}: {one.off_ratio:.2f} times the {'low' if one.off_ratio < 1 else 'high'} end"


def _item(item: Answered) -> dict[str, Any]:
    return {"id": item.id, "text": item.text, "status": item.status, "before": item.before, "reason": item.reason}


def _short_words(advice: Advice) -> str:
    return f"for {METRICS[advice.short]}: {advice.why}" if advice.short is not None else advice.why


def _advice_rows(advice: Advice) -> Iterator[tuple[str, str]]:
    if not advice.changes:
        yield "-", NOTHING_PAYS
    for number, change in enumerate(advice.changes, start=1):
        yield from _change_rows(str(number), change)
    for change in advice.not_worth:
        yield from _change_rows("not worth it", change)
    for remark in advice.remarks:
        yield "note", remark
    steps = advice.context.situation.steps
    yield "gains from", steps.reason if steps.basis == "assumed" and steps.reason else BASES[steps.basis].format("some")
    for position, caveat in enumerate(advice.assumptions):
        yield ("assumed" if position == 0 else ""), caveat.text


def _change_rows(label: str, change: Change) -> Iterator[tuple[str, str]]:
    yield label, f"{change.action}: {change.name.lower()}, {interval_text(change.gain)} ({change.ledger})"
    yield "  set", _setting_words(change.setting)
    yield "  because", change.reason
    yield "  flips", _flip_words(change.flips)


def _setting_words(setting: Setting) -> str:
    parts = [setting.text, setting.note, *setting.by_hand]
    return "; ".join(part for part in parts if part)


def _flip_words(flips: tuple[BreakEven, ...]) -> str:
    flip = nearest_flip(flips)
    if flip is None or flip.value is None:
        names = dict.fromkeys(one.quantity for one in flips)
        return f"nowhere along {', '.join(names)}" if names else "not looked for"
    value = bare_text(flip.value, flip.unit)
    here = "" if flip.current is None else f", here {bare_text(flip.current, flip.unit)}"
    return f"{flip.quantity} {value}{here}: {flip.below} below it, {flip.above} from there"


def _measure_rows(one: Measure) -> Iterator[tuple[str, str]]:
    yield one.what, one.why
    yield "  $", one.command


def _measure(one: Measure) -> dict[str, Any]:
    return {"what": one.what, "why": one.why, "command": one.command}


def advice_dict(advice: Advice) -> dict[str, Any]:
    """The JSON part: what is short, the changes, every verdict."""
    return {
        "short": advice.short,
        "why": advice.why,
        "changes": [_change(change) for change in advice.changes],
        "not_worth": [_change(change) for change in advice.not_worth],
        "verdicts": [_judged(one) for one in advice.judged],
        "remarks": list(advice.remarks),
        "assumptions": [{"id": c.id, "text": c.text} for c in advice.assumptions],
    }


def _gain(gain: Gain | None) -> dict[str, Any]:
    return {
        "gain_ratio": gain.value if gain else None,
        "gain_low_ratio": gain.low if gain else None,
        "gain_high_ratio": gain.high if gain else None,
        "gain_metric": gain.metric if gain else None,
    }


def _judged(one: Judged) -> dict[str, Any]:
    return {
        "technique": one.technique,
        "verdict": one.verdict,
        "in_use": one.in_use,
        **_gain(one.gain),
        "reason": one.reason,
    }


def _change(change: Change) -> dict[str, Any]:
    setting = change.setting
    return {
        "technique": change.technique,
        "name": change.name,
        "ledger": change.ledger,
        "action": change.action,
        **_gain(change.gain),
        "basis": change.basis,
        "reason": change.reason,
        "break_even": [
            {"quantity": f.quantity, "value": f.value, "unit": f.unit, "current": f.current, "below": f.below}
            | {"above": f.above}
            for f in change.flips
        ],
        "setting": setting.text or None,
        "setting_versions": list(setting.versions),
        "setting_note": setting.note or None,
        "by_hand": list(setting.by_hand),
        "costs": list(change.costs),
    }
