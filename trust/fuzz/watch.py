"""The rule every input is held to: a result or an InfoptError of one line, within 5 s and 500 MB, without a warning."""

import contextlib
import io
import re
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.target import ROOT, BrokenError, Target

from infopt.errors import InfoptError

MOST_SECONDS = 5.0
MOST_BYTES = 500_000_000
# What differs from input to input in an error that is the same: quoted parts, numbers, paths.
_DETAIL = re.compile(r"'[^']*'|\"[^\"]*\"|\S*/\S*|\d+")


class _TooSlow(BaseException):
    """Raised by the clock; no handler of errors on the way takes it."""


@dataclass(frozen=True)
class Seen:
    """What an input did.

    grown_bytes  of memory, over what the process had before
    outcome  what was answered, without what differs between inputs that take the same way
    broken   what of the rule was broken and where, "" where nothing was; `trace` the last lines of the stack
    """

    seconds: float
    grown_bytes: int
    outcome: str
    broken: str = ""
    trace: str = ""


def watched(target: Target, data: bytes) -> Seen:
    """Give one input to a target."""
    before = restarted_peak_bytes()
    begun = time.process_time()
    outcome, broken, trace = _called(target, data)
    seconds = time.process_time() - begun
    grown = max(0, peak_bytes() - before)
    if not broken and seconds > MOST_SECONDS:
        broken = f"{target.name}: took more than {MOST_SECONDS:g} s"
    if not broken and grown > MOST_BYTES:
        broken = f"{target.name}: took more than {MOST_BYTES / 1e6:.0f} MB"
    return Seen(seconds, grown, outcome, broken, trace)


def _called(target: Target, data: bytes) -> tuple[str, str, str]:
    """Outcome, what is broken, and the stack."""
    try:
        with _clock(), warnings.catch_warnings(), _silent():
            warnings.simplefilter("error")
            answer = target.call(data)
    except InfoptError as error:
        line = str(error)
        said = f"{type(error).__name__}: {_DETAIL.sub('_', line[:200])}"
        if len(line.splitlines()) > 1:
            return said, f"{_place(error)}: an error of several lines", line
        return said, "", ""
    except BrokenError as error:
        return "broken", str(error), ""
    except _TooSlow as error:
        return "slow", f"{_place(error)}: more than {MOST_SECONDS:g} s", _stack(error)
    except Exception as error:
        return "broken", f"{_place(error)}: {type(error).__name__}", _stack(error)
    return f"good {answer}"[:80] if isinstance(answer, str | int) else "good", "", ""


@contextlib.contextmanager
def _clock() -> Iterator[None]:
    """Processor time of this process alone, so that a busy machine breaks no rule."""

    def ring(number: int, frame: object) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What is printed on the way goes nowhere."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _place(error: BaseException) -> str:
    """The last line of the package that the error came through: file:line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(frame.filename)]
    last = (own or frames)[-1]
    return f"{_relative(last.filename)}:{last.lineno}"


def _is_own(filename: str) -> bool:
    path = Path(filename)
    return path.is_relative_to(ROOT) and ".venv" not in path.parts and "trust" not in path.parts


def _relative(filename: str) -> str:
    path = Path(filename)
    short = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    return short.removeprefix(".links/infopt/")


def _stack(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-8))


def peak_bytes() -> int:
    """The most memory this process has had since the count was restarted."""
    return _of_status("VmHWM")


def restarted_peak_bytes() -> int:
    """What it has now; from here on its peak is counted anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _of_status("VmRSS")


def _of_status(name: str) -> int:
    """Linux alone tells the memory of a process so; `ru_maxrss` begins with that of the process it was forked from."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))


def shrunk(target: Target, data: bytes, broken: str, for_s: float = 3.0) -> bytes:
    """A smaller input that breaks the same: pieces are left out, halves first, as long as it still does."""
    end = time.monotonic() + for_s
    size = max(1, len(data) // 2)
    while size >= 1 and time.monotonic() < end:
        at, before = 0, len(data)
        while at < len(data) and time.monotonic() < end:
            shorter = data[:at] + data[at + size :]
            if watched(target, shorter).broken == broken:
                data = shorter
            else:
                at += size
        if len(data) == before or size > 1:
            size //= 2
    return data
