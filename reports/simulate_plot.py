"""A simulation over time as a picture (extra `report`)."""

from pathlib import Path

from infopt.reports.pictures import drawing, saved
from infopt.reports.simulate_curves import series
from infopt.reports.simulate_words import headline, verdict
from infopt.studies.simulate import Simulation

SIZE_INCHES = (7.0, 8.0)


def draw(s: Simulation, path: Path) -> None:
    """Running and waiting requests, cache and tokens against time.

    Errors: InfoptError where matplotlib is missing or the ending is none it writes.
    """
    figure = drawing(path, "--picture").Figure(figsize=SIZE_INCHES, layout="constrained")
    panels = list(series(s))
    axes = figure.subplots(len(panels), 1, sharex=True)
    for axis, (name, values, _) in zip(axes, panels, strict=True):
        axis.plot(s.samples.time_s, values, linewidth=1)
        axis.set_ylabel(name)
        axis.set_ylim(bottom=0)
        for loss in s.ready.setup.losses:
            axis.axvline(loss.time_s, color="tab:red", linestyle="--", linewidth=1)
    axes[-1].set_xlabel("seconds")
    word, _, _ = verdict(s)
    figure.suptitle(f"{headline(s)}: {word.lower()}")
    saved(figure, path)
