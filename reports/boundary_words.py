"""Words and figures that every form of a boundary shares."""

from collections.abc import Callable

from infopt.boundaries.deciding import named_engine
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps, lent_steps
from infopt.boundaries.technique import BreakEven, Figure, Gain, Judgement
from infopt.units import (
    format_bytes,
    format_bytes_per_s,
    format_flop,
    format_seconds,
    format_share,
    format_usd,
    format_whole,
)

METRICS = {
    "tpot": "TPOT",
    "itl": "worst ITL",
    "ttft": "TTFT",
    "throughput": "tok/s",
    "sequences": "sequences",
    "memory": "memory",
    "cost": "cost",
    "start": "start",
}
BASES = {
    "curve": "measured step times (--step-curve)",
    "estimate": "step constants measured on this engine and class of devices",
    "assumed": "step constants of the nearest class, from no overhead to {} times its own",
    "floor": "bytes over bandwidth alone: gains are the most that is possible",
}
# What is counted: a thousand has a separator, and one of them is singular.
COUNTS = {
    "adapters": "adapter",
    "blocks": "block",
    "chunks": "chunk",
    "devices": "device",
    "gpus": "gpu",
    "kernels": "kernel",
    "layers": "layer",
    "placements": "placement",
    "prefixes": "prefix",
    "replicas": "replica",
    "requests": "request",
    "sequences": "sequence",
    "slots": "slot",
    "tokens": "token",
    "tokens/s": "token/s",
    "uses": "use",
    "years": "year",
}
# Plain numbers whose text says what they are.
BARE = {"", "rank"}


def _basis(steps: Steps) -> str:
    """What step times rest on, and how wide lent ones are taken."""
    if steps.basis != "assumed":
        return BASES[steps.basis]
    doubt = steps.doubt or lent_steps().device
    known = BASES["assumed"].format(f"{doubt.overhead:g}")
    return f"{known} ({steps.reason})" if doubt is lent_steps().version else known


def value_text(value: float | None, unit: str) -> str:
    """A value in its unit, as people read it."""
    if value is None:
        return "-"
    known: dict[str, Callable[[float], str]] = {
        "bytes": format_bytes,
        "bytes/s": format_bytes_per_s,
        "s": format_seconds,
        "share": format_share,
        "flop": format_flop,
        "FLOP": format_flop,
        "usd": format_usd,
        "usd/h": lambda price: f"{format_usd(price)}/h",
        "params": lambda count: f"{count / 1e9:.3g}B parameters",
        "ratio": lambda ratio: f"{_count(ratio)}x",
        "requests/s": lambda rate: f"{_count(rate)}/s",
    }
    if value != value or value in (float("inf"), float("-inf")):
        return "never" if value > 0 else "-"
    if unit in known:
        return known[unit](value)
    count = _count(value)
    if unit in BARE:
        return count
    return f"{count} {COUNTS.get(unit, unit) if count == '1' else unit}"


def _count(value: float) -> str:
    return format_whole(round(value)) if value >= 100 or value == round(value) else f"{value:.3g}"


def gain_text(gain: Gain | None) -> str:
    """The best value with what it is of."""
    return "-" if gain is None else f"{gain.value:.2f}x {METRICS[gain.metric]}"


def interval_text(gain: Gain) -> str:
    """The gain with its interval."""
    if gain.low == gain.high:
        return gain_text(gain)
    return f"{gain_text(gain)} ({gain.low:.2f} to {gain.high:.2f})"


def flip_text(flip: BreakEven) -> str:
    """Where a verdict flips: the quantity and the value."""
    return f"{flip.quantity} {bare_text(flip.value, flip.unit)}"


def bare_text(value: float | None, unit: str) -> str:
    """A value whose name says already what is counted."""
    text = value_text(value, unit)
    return text.partition(" ")[0] if unit in COUNTS else text


def turn_text(flip: BreakEven) -> str:
    """The verdicts on both sides."""
    return f"{flip.below} -> {flip.above}" if flip.value is not None else f"always {flip.below}"


def nearest_flip(flips: tuple[BreakEven, ...]) -> BreakEven | None:
    """The flip to show where there is room for one: of the first quantity that has any, the one nearest to here."""
    from infopt.boundaries.roots import nearest

    for name in dict.fromkeys(flip.quantity for flip in flips):
        known = tuple(flip for flip in flips if flip.quantity == name and flip.value is not None)
        if known:
            return nearest(known)
    return None


def agreement_text(judgement: Judgement) -> str:
    """The document's rule beside our verdict."""
    rule = judgement.rule
    if rule is None:
        return ""
    start, why = f"document {rule.document}: {rule.text}. ", f": {rule.why}" if rule.why else ""
    if rule.says is None:
        return f"{start}It gives no verdict here{why}"
    if rule.says == judgement.verdict:
        return f"{start}By this rule: {rule.says}, as here"
    return f"{start}By this rule: {rule.says}, here {judgement.verdict}{why}"


def figure_row(figure: Figure) -> tuple[str, str]:
    """Text and value of a figure."""
    return figure.text, value_text(figure.value, figure.unit)


def situation_facts(situation: Situation) -> list[tuple[str, str]]:
    """The scenario in two lines."""
    s = situation.scenario
    device = s.accelerator.name or s.accelerator.id
    placed = ", ".join(f"{name} {getattr(s, name)}" for name in ("tp", "pp", "dp", "ep") if getattr(s, name) > 1)
    served = f"{s.gpus} x {device}" + (f" ({placed})" if placed else "") + f", {named_engine(s)}"
    load = (
        f"{s.input_tokens:,} in, {s.output_tokens:,} out, {s.batch:,} at once; "
        f"{s.weight_format} weights, {s.kv_format} cache"
    )
    rows = [("model", s.model.id), ("served by", served), ("load", load)]
    tpot_s = situation.tpot_s()
    rows.append(("TPOT", f"{format_seconds(tpot_s)}, from {_basis(situation.steps)}"))
    return rows
