"""Commands that run for minutes: SIGTERM ends them as Ctrl-C does."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopped_by_terminate() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does, with finished parts kept."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
