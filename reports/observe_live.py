"""A watch while it lasts: the last interval's figures on a terminal's standard error, nothing anywhere else."""

import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from infopt.observing.observation import Observation
from infopt.observing.watching import Progress, Told
from infopt.units import format_count, format_seconds, format_share

if TYPE_CHECKING:
    from rich.console import RenderableType

BARS, ASCII_BARS = "▁▂▃▄▅▆▇█", "._-=*#"
POINTS = 40  # of the curve
PER_S = 4  # how often the clock is drawn anew


@contextmanager
def live() -> Iterator[Told | None]:
    """A function to be told after each look; None where nobody watches."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    page = Page("utf" in (sys.stderr.encoding or "").lower())
    # What is printed goes to stdout after the watch: nothing is to be redirected meanwhile.
    with Live(
        get_renderable=page.drawn,
        console=console,
        transient=True,
        refresh_per_second=PER_S,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as shown:

        def tell(progress: Progress) -> None:
            page.tell(progress)
            shown.refresh()

        yield tell


class Page:
    """What is drawn: where the watch is, the last interval, and the batch over time."""

    def __init__(self, unicode: bool) -> None:
        self._bars = BARS if unicode else ASCII_BARS
        self._now: Progress | None = None
        self._batches: deque[float] = deque(maxlen=POINTS)

    def tell(self, progress: Progress) -> None:
        """One look more."""
        self._now = progress
        if progress.last is not None and progress.last.effective_batch is not None:
            self._batches.append(progress.last.effective_batch)

    def drawn(self) -> "RenderableType":
        """The lines, as of now."""
        from rich.text import Text

        return Text("\n".join(self.lines(time.monotonic())), no_wrap=True, overflow="ellipsis")

    def lines(self, at_s: float) -> Iterator[str]:
        """What is known at a moment."""
        now = self._now
        if now is None:
            yield "looking at the server"
            return
        done_s = min(max(0.0, at_s - now.begun_s), now.duration_s)
        failed = f", {now.failed} failed" if now.failed else ""
        yield f"{done_s:.0f} s of {now.duration_s:.0f} s: {now.looks} looks{failed}; Ctrl-C ends with what was seen"
        if now.trouble is not None:
            yield f"the last look failed: {now.trouble}"
        if now.last is not None:
            yield from (line for line in ("; ".join(load(now.last)), "; ".join(times(now.last))) if line)
        if len(self._batches) > 1:
            yield f"batch {curve(list(self._batches), self._bars)} {self._batches[-1]:.3g}"


def load(o: Observation) -> Iterator[str]:
    """What the last interval carried."""
    if o.effective_batch is not None:
        yield f"batch {o.effective_batch:.3g}"
    if o.waiting is not None:
        yield f"waiting {o.waiting:.3g}"
    if o.output_tokens_per_s is not None:
        yield f"{format_count(o.output_tokens_per_s)} tokens/s"
    if o.kv_use_share is not None:
        yield f"KV {format_share(o.kv_use_share)}"


def times(o: Observation) -> Iterator[str]:
    """Its mean times."""
    for name, words in (("tpot_s", "per token"), ("itl_s", "step"), ("ttft_s", "first token")):
        mean = o.mean_s(name)
        if mean is not None:
            yield f"{words} {format_seconds(mean)}"


def curve(values: list[float], bars: str) -> str:
    """A bar for each value, as high as it is beside the highest.

    >>> curve([0.0, 1.0, 2.0], "_-#")
    '_-#'
    """
    top = max(values) or 1.0
    return "".join(bars[round(value / top * (len(bars) - 1))] for value in values)
