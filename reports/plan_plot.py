"""A plan as a picture: memory of one device, the roofline, TPOT against the batch, the cache against the context."""

from pathlib import Path
from typing import Any

from infopt.reports import words
from infopt.reports.pictures import (
    BLUE,
    CYCLE,
    FLOOR,
    LIMIT,
    MARKERS,
    NOW,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    TARGET,
    picture,
    scale,
    title,
)
from infopt.studies.plan_curves import KvCurve, PlanCurves, Roofline, TpotCurve
from infopt.studies.planning import Plan
from infopt.units import format_flop_per_s, format_gib, format_seconds, format_share, format_tokens, format_whole

WIDTH_INCHES, HEIGHT_INCHES = 11.0, 7.5
COLOURS = {"weights": BLUE, "kv": PURPLE, "margin": "0.75", "free": "white", "missing": RED}
ROOM = 1.2  # of the widest bar, for the figure beside it
GIB = 2**30


def draw(plan: Plan, curves: PlanCurves, path: Path) -> None:
    """Four panels.

    Errors: InfoptError where the file cannot be written, MissingExtraError without matplotlib.
    """
    with picture(path, WIDTH_INCHES, HEIGHT_INCHES) as figure:
        (memory, roofline), (tpot, kv) = figure.subplots(2, 2)
        _memory(memory, plan)
        _roofline(roofline, curves.roofline)
        _tpot(tpot, curves.tpot)
        _kv(kv, curves.kv, plan.scenario.batch)
        title(figure, f"{words.title(plan)}: {words.verdict_word(plan).lower()}")


def _memory(panel: Any, plan: Plan) -> None:
    """Terms one on another, up to what a device has."""
    pieces, capacity = plan.memory.pieces, plan.memory.capacity_bytes_per_gpu
    for row, piece in enumerate(pieces):
        style = {"color": COLOURS.get(piece.name, SKY), "edgecolor": "0.3", "linewidth": 0.5}
        panel.barh(row, piece.size_bytes / GIB, left=piece.start_bytes / GIB, **style)
        where = {"textcoords": "offset points", "va": "center", "fontsize": 8}
        panel.annotate(format_gib(piece.size_bytes), (piece.end_bytes / GIB, row), (4, 0), **where)
    panel.set_yticks(range(len(pieces)), [words.term_name(piece.name) for piece in pieces])
    panel.invert_yaxis()
    panel.axvline(capacity / GIB, **LIMIT)
    panel.set_xlim(0, ROOM * max(capacity, plan.memory.used_bytes_per_gpu) / GIB)
    panel.set(title=f"Memory of one device, {format_gib(capacity)} usable", xlabel="GiB")
    panel.grid(visible=False, axis="y")


def _roofline(panel: Any, roofline: Roofline | None) -> None:
    """The roof, what work may reach under it, and what a decode step is expected to reach."""
    panel.set(title="Roofline of one replica", xlabel="FLOP per byte read", ylabel="FLOP/s")
    if roofline is None:
        panel.set_axis_off()
        panel.text(0.5, 0.5, "the device's dense peak is not known", ha="center", transform=panel.transAxes)
        return
    ridge, points = roofline.ridge_flop_per_byte, roofline.points
    low, high = min(0.5, points[0].flop_per_byte / 2), 4 * max(ridge, *(p.flop_per_byte for p in points))
    peak, rate = roofline.peak_flop_per_s, roofline.bandwidth_bytes_per_s
    panel.plot((low, ridge, high), (low * rate, peak, peak), color="0.35", linewidth=1.4)
    text = f"{format_flop_per_s(peak)}, {roofline.peak_format}"
    panel.annotate(text, (high, peak), (0, 8), textcoords="offset points", ha="right")
    for point, colour, marker in zip(points, CYCLE, MARKERS, strict=False):
        style = {"color": colour, "marker": marker, "linestyle": ""}
        panel.plot(point.flop_per_byte, point.at_most_flop_per_s, label=point.name, **style)
        if point.expected_flop_per_s is not None:
            panel.plot(point.flop_per_byte, point.expected_flop_per_s, markerfacecolor="none", **style)
    if any(point.expected_flop_per_s is not None for point in points):
        panel.plot([], [], color="0.35", marker="o", linestyle="", markerfacecolor="none", label="expected")
    scale(panel.xaxis, lambda value: f"{value:g}", base=10)
    scale(panel.yaxis, format_flop_per_s, base=10)
    panel.set_ylim(top=4 * peak)
    panel.legend(loc="lower right")


def _tpot(panel: Any, curve: TpotCurve) -> None:
    """Expected TPOT with its interval over the floor, up to the most that fit."""
    panel.set(title="TPOT against sequences at once", xlabel="sequences at once", ylabel="time per output token")
    known = [row for row in zip(curve.batch, curve.tpot_low_s, curve.tpot_s, curve.tpot_high_s, strict=True) if row[2]]
    if known:
        batches, lows, bests, highs = zip(*known, strict=True)
        panel.fill_between(batches, lows, highs, color=BLUE, alpha=0.2, linewidth=0, label="nine in ten measurements")
        panel.plot(batches, bests, color=BLUE, label="expected")
    panel.plot(curve.batch, curve.tpot_floor_s, label="floor", **FLOOR)
    if curve.target_s is not None:
        panel.axhline(curve.target_s, label=f"target {format_seconds(curve.target_s)}", **TARGET)
    panel.axvline(curve.now, label=f"now {format_whole(curve.now)}", **NOW)
    if curve.most:
        panel.axvline(curve.most, label=f"{format_whole(curve.most)} fit", **LIMIT)
    scale(panel.xaxis, lambda value: format_whole(round(value)), base=2)
    scale(panel.yaxis, format_seconds)
    panel.set_ylim(bottom=0)
    panel.legend(loc="best")


def _kv(panel: Any, curve: KvCurve, batch: int) -> None:
    """The cache as a share of memory and of a step's bytes."""
    panel.set(title=f"KV cache of {format_whole(batch)} at once, against the tokens of each")
    panel.set(xlabel="tokens of each sequence", ylabel="share")
    panel.plot(curve.context_tokens, curve.kv_share, color=BLUE, label="of a device's memory")
    panel.plot(curve.context_tokens, curve.kv_share_of_step, color=ORANGE, linestyle="--", label="of a step's bytes")
    panel.plot(curve.context_tokens, curve.pool_share, label="the most there is room for", **LIMIT)
    panel.axvline(curve.now_tokens, label=f"now {format_tokens(curve.now_tokens)}", **NOW)
    scale(panel.xaxis, lambda value: format_tokens(round(value)), base=2)
    scale(panel.yaxis, format_share)
    panel.set_ylim(0, 1)
    panel.legend(loc="best")
