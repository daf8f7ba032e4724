"""A sweep run to its end, or to where it is stopped: rows written, progress shown, nothing left half done."""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import IO, Any

from infopt.cli_stop import ENDING
from infopt.errors import InfoptError
from infopt.files import say
from infopt.frozen import dataclass
from infopt.reports.sweep_files import SweepFormat, row_writer
from infopt.studies.sweep import Block, Sweep

SUFFIXES: dict[str, SweepFormat] = {
    ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
NOTHING = 3  # exit status where there is nothing to check
QUIET_S = 2.0  # a shorter sweep shows no progress
SCREEN_S, LOG_S = 0.2, 10.0  # between two looks at it, on a screen and in a log


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sweep came to.

    first_error  text of the first row that has one, with its line
    left         the reader of standard output left before the end
    stopped      the signal that ended it early, None where it ran to its end
    """

    rows: int
    errors: int
    first_error: str
    stopped: int | None
    left: bool

    @property
    def exit_status(self) -> int:
        """0, 3 where there was no row, or what a shell expects of a signal; a reader who leaves early is no failure."""
        if self.stopped is not None:
            return 128 + self.stopped
        return 0 if self.rows or self.left else NOTHING

    def lines(self) -> Iterator[str]:
        """What the user should know, for standard error."""
        if self.stopped is not None:
            yield f"stopped; {self.rows:,} rows are written"
        elif not self.rows and not self.left:
            yield "no rows: there is nothing below the header"
        if self.errors:
            yield f"{self.errors:,} of {self.rows:,} rows have an error; the first: {self.first_error}"


class Stopped(KeyboardInterrupt):
    """The user, or the system, asked to stop."""


class Stopping:
    """While active, the first SIGINT, SIGTERM or SIGHUP raises Stopped, but never inside `held`: then at its end."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._held = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> "Stopping":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *ENDING):
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background
                    self._old[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        first, self.signal = self.signal is None, number
        if first and not self._held:
            raise Stopped

    @contextmanager
    def held(self) -> Iterator[None]:
        """A stretch that must not be cut in two."""
        before, self._held = self.signal, True
        try:
            yield
        finally:
            self._held = False
        if self.signal is not None and before is None:
            raise Stopped


class Progress:
    """How far it is, on standard error: one line that changes on a screen, a line now and then elsewhere."""

    def __init__(self, sweep: Sweep, shown: bool) -> None:
        self._sweep, self._shown = sweep, shown
        self._screen = _is_screen(sys.stderr)
        self._start, self._last, self._width = time.monotonic(), 0.0, 0

    def update(self, rows: int) -> None:
        now = time.monotonic()
        if not self._shown or now - self._start < QUIET_S or now - self._last < (SCREEN_S if self._screen else LOG_S):
            return
        self._last = now
        line = self._line(rows, now - self._start)
        if self._screen:
            say("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            say(line + "\n")

    def _line(self, rows: int, elapsed_s: float) -> str:
        done = self._done(rows)
        line = f"{rows:,} rows, {rows / elapsed_s:,.0f}/s"
        if done is None or not 0 < done <= 1:
            return line
        filled = int(20 * done)
        return f"[{'#' * filled}{'.' * (20 - filled)}] {done:4.0%}  {line}, {elapsed_s * (1 / done - 1):.0f} s left"

    def _done(self, rows: int) -> float | None:
        if self._sweep.rows:
            return rows / self._sweep.rows
        return self._sweep.share() if self._sweep.share else None

    def end(self) -> None:
        if self._width:
            say("\r" + " " * self._width + "\r")


def run_sweep(sweep: Sweep, path: Path | None, form: SweepFormat) -> Outcome:
    """Write all rows of a sweep to a file, or to standard output.

    Raises InfoptError where the output cannot be written, or the input cannot be read on; rows done before that, or
    before a signal, are kept.
    """
    make = row_writer(form)
    rows = errors = 0
    first, ended = "", False
    stopping = Stopping()
    progress = Progress(sweep, shown=path is not None or not _is_screen(sys.stdout))
    try:
        with stopping, _no_collection(), output(path, form) as stream:
            writer = make(stream, sweep.columns)
            try:
                for block in sweep.blocks:
                    with stopping.held():
                        writer.write(block)
                        rows += block.rows
                        if block.results.errors:
                            first = first or _first_error(block)
                            errors += len(block.results.errors)
                    progress.update(rows)
                ended = True
            finally:
                with stopping.held():
                    writer.close()
    except Stopped:
        pass
    finally:
        progress.end()
    return Outcome(rows, errors, first, stopping.signal, left=not ended and stopping.signal is None)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Rows are lists without cycles, and looking for cycles among millions of them takes a quarter of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _first_error(block: Block) -> str:
    row = min(block.results.errors)
    where = f"line {block.line(row)}: " if block.line else ""
    return where + block.results.errors[row]


def format_of(path: Path | None) -> SweepFormat:
    """The format a file's name says; CSV where it says none."""
    return SUFFIXES.get(path.suffix.lower(), "csv") if path else "csv"


def output(path: Path | None, form: SweepFormat) -> AbstractContextManager[IO[Any]]:
    """A stream for rows: standard output, or a file."""
    if path is not None:
        return _file(path, form)
    if form == "parquet":
        raise InfoptError("Parquet goes to a file; give --out FILE.parquet")
    return _standard_output()


@contextmanager
def _standard_output() -> Iterator[IO[str]]:
    """Standard output; a reader who leaves early (`| head -1`) is no failure, a full disk is."""
    try:
        if isinstance(sys.stdout, TextIOWrapper):
            # Data, whatever the terminal shows; what was no UTF-8 in the input goes out as it came.
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
        yield sys.stdout
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered must go nowhere, or the interpreter complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InfoptError(f"the output cannot be written: {error.strerror}") from error


@contextmanager
def _file(path: Path, form: SweepFormat) -> Iterator[IO[Any]]:
    """A file beside `path` that takes its place when all is done.

    It also takes its place where the sweep is stopped or its input cannot be read on; it is dropped where writing
    failed. A path that is no regular file (a device, a pipe) is written to as it is.
    """
    place = os.path.realpath(path)
    direct = os.path.exists(place) and not os.path.isfile(place)
    beside = place if direct else f"{place}.{os.getpid()}.part"
    early: BaseException | None = None
    try:
        with _opened(beside, form) as stream:
            try:
                yield stream
            except (InfoptError, Stopped) as error:
                early = error
        if not direct:
            os.replace(beside, place)
    except BaseException as error:
        if not direct and os.path.exists(beside):
            os.unlink(beside)
        if isinstance(error, OSError):
            raise InfoptError(f"{path}: cannot be written: {error.strerror or error}") from error
        raise
    if early is not None:
        raise early


def _opened(name: str, form: SweepFormat) -> IO[Any]:
    if form == "parquet":
        return open(name, "wb")
    return open(name, "w", encoding="utf-8", errors="surrogateescape", newline="")


def _is_screen(stream: IO[Any] | None) -> bool:
    return stream is not None and stream.isatty()
