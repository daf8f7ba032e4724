"""Start-up logs of engines: what each wrote about its memory.

`read_start_log(text, source)` and `read_start_log_file(path)` give a StartLog; which engine wrote it is found by the
lines it holds. Lines nobody knows are no error; a log of which no line is known is one.
"""

from pathlib import Path

from infopt.errors import InfoptError
from infopt.observing.start_logs.patterns import COMMON, log_lines_of, logged_engines
from infopt.observing.start_logs.reading import Reader, read_all
from infopt.observing.start_logs.record import RankMemory, Refusal, StartLog
from infopt.observing.start_logs.text import log_lines, read_log_text

__all__ = ["RankMemory", "Refusal", "StartLog", "read_start_log", "read_start_log_file"]


def read_start_log(text: str, source: str, skipped_bytes: int = 0) -> StartLog:
    """The start-up log of an engine.

    Errors: InfoptError where no line of any known engine is in it: it names one of each that was looked for.
    """
    readers = [Reader(log_lines_of(engine)) for engine in logged_engines()]
    read_all(readers, log_lines(text))
    shared = {"Application startup complete"} | log_lines_of(COMMON).texts  # any engine may print them
    best = max(readers, key=lambda reader: (len(reader.kinds - shared), reader.start.matched))
    if not best.kinds - shared:
        looked = "; ".join(f"{reader.lines.engine}: {reader.lines.telling!r}" for reader in readers)
        raise InfoptError(
            f"{source}: no start-up log: none of the lines known was found ({looked}); "
            "give the engine's log from its start on, at level INFO"
        )
    return best.record(source, skipped_bytes)


def read_start_log_file(path: Path) -> StartLog:
    """The start-up log in a file; of a large one, its head and its tail."""
    text, skipped = read_log_text(path)
    return read_start_log(text, str(path), skipped)
