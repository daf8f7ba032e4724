"""Pictures in files: which endings are written, the style all of them share, and saving whole or not at all.

The same picture makes the same file. Colours can be told apart by colour-blind readers (Okabe and Ito 2008) and, with
the dashes and markers, in grey print. Matplotlib (extra `report`) is loaded only here.
"""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError, MissingExtraError
from infopt.files import write_bytes

OPTION = "--plot"
ENDINGS = (".svg", ".png", ".pdf")
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
CYCLE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, "#000000")
MARKERS = "os^Dv"
TICKS = 4  # at most, on a logarithmic axis
CLOSE, FAR = 4, 256  # ratios of the ends of an axis
FLOOR: Mapping[str, Any] = {"color": "0.35", "linestyle": "--", "linewidth": 1.2}
TARGET: Mapping[str, Any] = {"color": RED, "linestyle": ":", "linewidth": 1.6}
LIMIT: Mapping[str, Any] = {"color": RED, "linestyle": "-.", "linewidth": 1.0}
NOW: Mapping[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 1.0}
STYLE = {
    "text.parse_math": False,  # a dollar sign in a model's name or a price is a dollar sign
    "svg.hashsalt": "infopt",  # names inside the file come from what is drawn, not from chance
    "savefig.dpi": 150,
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler(color={list(CYCLE)})",
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.0,
    "legend.framealpha": 0.9,
    "legend.edgecolor": "0.8",
}
# What tells when a file was made.
DATES: Mapping[str, Mapping[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}


def check_picture(path: Path) -> None:
    """Refuse what cannot be written before anything is computed.

    Errors: InfoptError for the name, MissingExtraError without the drawing library.
    """
    if path.suffix.lower() not in ENDINGS:
        raise InfoptError(f"{OPTION} {path}: the name must end in {', '.join(ENDINGS)}; --curves draws in the terminal")
    if not path.parent.is_dir():
        raise InfoptError(f"{OPTION} {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise InfoptError(f"{OPTION} {path}: is a folder: name a file")
    _library("figure")


def _library(part: str) -> Any:
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its remarks on caches and fonts are no answer
    try:
        return import_module(f"matplotlib.{part}")
    except ImportError as error:
        raise MissingExtraError(OPTION, "report") from error


@contextmanager
def picture(path: Path, width_inches: float, height_inches: float) -> Iterator[Any]:
    """A figure to draw on, written to `path` in the end."""
    check_picture(path)
    with _library("style").context(["default", STYLE], after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in another script: boxes stand for it
        figure = _library("figure").Figure(figsize=(width_inches, height_inches), layout="constrained")
        yield figure
        content, ending = BytesIO(), path.suffix.lower()
        figure.savefig(content, format=ending[1:], metadata=dict(DATES[ending]))
    write_bytes(path, content.getvalue())


def title(figure: Any, text: str) -> None:
    """The headline; a long name of a model is broken."""
    figure.suptitle(text, fontweight="bold", wrap=True)


def base_of(values: Iterable[float]) -> int:
    """The base of the axis on which values are told apart: 0, a linear one, where they lie close together.

    >>> base_of([3, 5]), base_of([1, 16]), base_of([1, 4096]), base_of([0, 9])
    (0, 2, 10, 0)
    """
    known = list(values)
    low, high = min(known), max(known)
    if low <= 0 or high < CLOSE * low:
        return 0
    return 2 if high <= FAR * low else 10


def scale(axis: Any, write: Callable[[float], str], base: int = 0) -> None:
    """Write the figures of an x or y axis with `write`; `base` makes it logarithmic, a tick at each power."""
    if base:
        axis._set_axes_scale("log", base=base)
        axis.set_major_locator(_library("ticker").LogLocator(base=base, numticks=TICKS))
    axis.set_major_formatter(lambda value, _: write(value))
    axis.set_minor_formatter(lambda value, _: "")
