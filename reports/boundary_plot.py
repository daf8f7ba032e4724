"""Curves of a technique as a picture (extra `report`)."""

from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.reports import boundary_words as words
from infopt.reports.pictures import BLUE, LIMIT, NOW, OPTION, base_of, picture, scale, title
from infopt.reports.words import device_name
from infopt.studies.boundary import Boundaries
from infopt.studies.boundary_curve import Curve, curves

WIDTH_INCHES, PANEL_INCHES = 7.5, 3.0


def draw(found: Boundaries, path: Path) -> None:
    """Gain with its interval against each quantity of the technique; break-evens as lines.

    Errors: InfoptError where the file cannot be written or nothing can be drawn, MissingExtraError without matplotlib.
    """
    known = [c for c in curves(found) if any(p.gain for p in c.points)]
    if not known:
        raise InfoptError(f"{OPTION} {path}: {found.techniques[0].technique.id} has no gain to draw here")
    with picture(path, WIDTH_INCHES, PANEL_INCHES * len(known)) as figure:
        panels = figure.subplots(len(known), 1, squeeze=False)[:, 0]
        for panel, curve in zip(panels, known, strict=True):
            _panel(panel, curve)
        s = found.situation.scenario
        title(figure, f"{known[0].technique.name}: {s.model.id} on {s.gpus} x {device_name(s.accelerator)}")


def _panel(panel: Any, curve: Curve) -> None:
    unit = curve.quantity.unit
    points = [(p.value, p.gain.low, p.gain.value, p.gain.high) for p in curve.points if p.gain]
    xs, lows, bests, highs = zip(*points, strict=True)
    panel.fill_between(xs, lows, highs, color=BLUE, alpha=0.2, linewidth=0, label="interval")
    panel.plot(xs, bests, color=BLUE, label="gain", marker="." if len(points) == 1 else "")
    panel.axhline(1.0, color="0.35", linewidth=0.8)
    for flip in curve.flips:
        label = f"{words.bare_text(flip.value, flip.unit)}: {words.turn_text(flip)}"
        panel.axvline(flip.value, label=label, **LIMIT)
    if curve.current is not None:
        panel.axvline(curve.current, label=f"now {words.bare_text(curve.current, unit)}", **NOW)
    panel.set(title=f"Gain against {curve.quantity.name}", xlabel=f"{curve.quantity.name} ({unit})", ylabel="gain")
    scale(panel.xaxis, lambda value: words.bare_text(value, unit), 0 if curve.quantity.share else base_of(xs))
    scale(panel.yaxis, lambda value: f"{value:.2f}x")
    panel.legend(loc="best")
