"""How far a run of probes is: a bar with the time left on a terminal, nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress() -> Iterator[Callable[[str, float, float], None]]:
    """A function to be told what is measured, for how many seconds it has been, and how many are expected."""
    if not sys.stderr.isatty():
        yield lambda what, done_s, expected_s: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("measuring", total=None)

        def tell(what: str, done_s: float, expected_s: float) -> None:
            bars.update(task, description=what, completed=done_s, total=max(expected_s, done_s) or None)

        yield tell
