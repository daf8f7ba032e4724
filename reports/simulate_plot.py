"""A simulation over time as a picture (extra `report`)."""

from pathlib import Path
from typing import Any

from infopt.reports.pictures import BLUE, LIMIT, ORANGE, RED, TARGET, picture, scale, title
from infopt.reports.simulate_curves import series
from infopt.reports.simulate_words import headline, verdict
from infopt.simulation.over_time import Percentiles, over_time
from infopt.studies.simulate import Simulation
from infopt.units import format_count, format_seconds, format_share

WIDTH_INCHES, HEIGHT_INCHES = 8.0, 10.0
PERCENTILES = (("p50", BLUE, "-"), ("p90", ORANGE, "--"), ("p99", RED, "-."))


def draw(s: Simulation, path: Path) -> None:
    """Percentiles of both times, running and waiting requests, cache and tokens against time.

    Errors: InfoptError where the file cannot be written, MissingExtraError without matplotlib.
    """
    panels = list(series(s))
    times = over_time(s.rows) if s.rows is not None else None
    with picture(path, WIDTH_INCHES, HEIGHT_INCHES) as figure:
        axes = figure.subplots(len(panels) + 2 * (times is not None), 1, sharex=True)
        if times is not None:
            _times(axes[0], "TTFT", times.time_s, times.ttft_s, s.job.targets.ttft_s)
            _times(axes[1], "TPOT", times.time_s, times.tpot_s, s.job.targets.tpot_s)
        for panel, (name, values, _) in zip(axes[-len(panels) :], panels, strict=True):
            panel.fill_between(s.samples.time_s, values, color=BLUE, alpha=0.2, linewidth=0)
            panel.plot(s.samples.time_s, values, color=BLUE, linewidth=1)
            panel.set_ylabel(name)
            scale(panel.yaxis, format_share if name == "KV cache in use" else format_count)
        for panel in axes:
            panel.set_ylim(bottom=0)
            for loss in s.ready.setup.losses:
                panel.axvline(loss.time_s, **LIMIT)
        axes[-1].set_xlabel("time since the start")
        scale(axes[-1].xaxis, format_seconds)
        title(figure, f"{headline(s)}: {verdict(s)[0].lower()}")


def _times(panel: Any, name: str, time_s: tuple[float, ...], found: Percentiles, target_s: float | None) -> None:
    """Percentiles of a time by when the requests were sent; a window without an answer is a gap."""
    for part, colour, dash in PERCENTILES:
        values = [float("nan") if value is None else value for value in getattr(found, part)]
        panel.plot(time_s, values, color=colour, linestyle=dash, marker=".", markersize=3, label=part)
    if target_s is not None:
        panel.axhline(target_s, label=f"target {format_seconds(target_s)}", **TARGET)
    panel.set_ylabel(name)
    scale(panel.yaxis, format_seconds)
    panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False)
