"""A plan's curves in characters: TPOT against the batch, the cache's share against the context."""

from collections.abc import Iterator

from rich.console import RenderableType

from infopt.reports import curves as drawing
from infopt.reports.terminal import heading
from infopt.studies.plan_curves import KvCurve, PlanCurves, TpotCurve
from infopt.units import format_seconds, format_share, format_tokens, format_whole


def drawn(curves: PlanCurves) -> Iterator[RenderableType]:
    """Both, one under the other."""
    yield heading("TPOT", "against sequences at once")
    yield from _tpot(curves.tpot)
    yield ""
    yield heading("KV CACHE", f"of {format_whole(curves.tpot.now)} at once, against the tokens of each")
    yield from _kv(curves.kv)


def _tpot(curve: TpotCurve) -> Iterator[RenderableType]:
    columns = drawing.width()
    low, high = float(curve.batch[0]), float(curve.batch[-1])
    at = drawing.even(low, high, columns)
    lows, bests, highs, floors = (
        drawing.read_off(curve.batch, values, at)
        for values in (curve.tpot_low_s, curve.tpot_s, curve.tpot_high_s, curve.tpot_floor_s)
    )
    layers = [drawing.Layer("nine in ten", drawing.mark("band"), lows, highs)]
    layers.append(drawing.line("floor", floors, "floor"))
    if curve.target_s is not None:
        layers.append(drawing.rule(f"target {format_seconds(curve.target_s)}", curve.target_s, columns))
    layers.append(drawing.line("expected", bests))
    if all(best is None for best in bests):
        layers = [layer for layer in layers if layer.name not in ("nine in ten", "expected")]
    top = drawing.round_top(max(value for layer in layers for value in layer.high if value is not None))
    yield from drawing.chart(layers, 0.0, top, {0.0: "0", top / 2: format_seconds(top / 2), top: format_seconds(top)})
    most = f"{format_whole(curve.batch[-1])}" + (", the most that fit" if curve.most == curve.batch[-1] else "")
    now = drawing.column_of(curve.now, low, high, columns), f"now {format_whole(curve.now)}"
    yield from drawing.axis(format_whole(curve.batch[0]), most, columns, now)
    yield drawing.legend(layers)


def _kv(curve: KvCurve) -> Iterator[RenderableType]:
    columns, places = drawing.width(), curve.context_tokens
    low, high = float(places[0]), float(places[-1])
    at = drawing.even(low, high, columns)
    pool, step, memory = (
        drawing.read_off(places, values, at) for values in (curve.pool_share, curve.kv_share_of_step, curve.kv_share)
    )
    layers = [
        drawing.line("the most there is room for", pool, "rule"),
        drawing.line("of the bytes of a step", step, "other"),
        drawing.line("of a device's memory", memory),
    ]
    yield from drawing.chart(layers, 0.0, 1.0, {share: format_share(share) for share in (0.0, 0.5, 1.0)})
    now = drawing.column_of(curve.now_tokens, low, high, columns), f"now {format_tokens(curve.now_tokens)}"
    yield from drawing.axis(format_tokens(places[0]), f"{format_tokens(places[-1])} tokens", columns, now)
    yield drawing.legend(layers)
