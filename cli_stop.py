"""Signals that end a run: they unwind it as Ctrl-C does, so that nothing half written is left and no process behind."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# The terminal is gone; the system, a shell or a scheduler asks to end. Windows has no SIGHUP.
ENDING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name))


@contextmanager
def stopped_by_terminate() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does, with finished parts kept; what is ignored (nohup) stays so."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
