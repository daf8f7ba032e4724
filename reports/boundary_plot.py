"""Curves of a technique as a picture (extra `report`)."""

from pathlib import Path

from infopt.errors import InfoptError
from infopt.reports.pictures import drawing, saved
from infopt.studies.boundary import Boundaries
from infopt.studies.boundary_curve import curves


def draw(found: Boundaries, path: Path) -> None:
    """Gain with its interval against each quantity of the technique; break-evens as lines.

    Errors: InfoptError where matplotlib is missing or the ending is none it writes.
    """
    library = drawing(path, "--picture")
    known = [c for c in curves(found) if any(p.gain for p in c.points)]
    if not known:
        raise InfoptError(f"--picture {path}: {found.techniques[0].technique.id} has no gain to draw here")
    figure = library.Figure(figsize=(7, 3 * len(known)), layout="constrained")
    axes = figure.subplots(len(known), 1, squeeze=False)
    for axis, curve in zip(axes[:, 0], known, strict=True):
        points = [p for p in curve.points if p.gain is not None]
        xs = [p.value for p in points]
        axis.plot(xs, [p.gain.value for p in points if p.gain], color="tab:blue")
        lows, highs = [p.gain.low for p in points if p.gain], [p.gain.high for p in points if p.gain]
        axis.fill_between(xs, lows, highs, color="tab:blue", alpha=0.2, linewidth=0)
        axis.axhline(1.0, color="gray", linewidth=0.8)
        for flip in curve.flips:
            axis.axvline(flip.value, color="tab:red", linestyle="--", linewidth=1)
        if curve.current is not None:
            axis.axvline(curve.current, color="black", linestyle=":", linewidth=1)
        if not curve.quantity.share:
            axis.set_xscale("log")
        axis.set_xlabel(f"{curve.quantity.name} ({curve.quantity.unit})")
        axis.set_ylabel("gain")
    figure.suptitle(f"{curve.technique.name}: {found.situation.scenario.model.id}")
    saved(figure, path)
