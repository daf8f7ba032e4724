"""A bound on the time that one file may take, so that a hostile one cannot keep the others from being checked.

Processor time, so that a busy machine refuses nothing that an idle one would check.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from infopt.errors import InfoptError

MOST_SECONDS = 4.0


class _TooSlow(BaseException):
    """Raised by the clock; no handler of errors on the way takes it."""


@contextmanager
def within(what: str, limit_s: float = MOST_SECONDS) -> Iterator[None]:
    """Raise InfoptError where the block takes longer; inside another such block, that one's clock stands still.

    There is a clock in the main thread of Unix only, and only where nobody else uses it.
    """
    if not _has_clock():
        yield
        return
    ours = signal.getsignal(signal.SIGPROF) is _ring
    before = signal.signal(signal.SIGPROF, _ring)
    left_s = signal.setitimer(signal.ITIMER_PROF, limit_s)[0]
    try:
        yield
    except _TooSlow:
        raise InfoptError(f"{what}: takes more than {limit_s:g} s to check: too large, or made to be slow") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, left_s if ours else 0)
        signal.signal(signal.SIGPROF, before)


def _has_clock() -> bool:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGPROF) in (signal.SIG_DFL, _ring)


def _ring(number: int, frame: object) -> None:
    raise _TooSlow
