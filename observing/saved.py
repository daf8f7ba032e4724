"""Texts of `/metrics` that are kept: a first line says when each was taken, so that two of them have a time between."""

import re
from datetime import datetime

from infopt.errors import InfoptError
from infopt.observing.metric_names import engines_of, spelled
from infopt.observing.windows import Snapshot

_SAVED = re.compile(rb"# infopt saved (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\b")


def saved_text(text: bytes, taken: str, address: str) -> str:
    """The text with that line before it; to a Prometheus parser it is a comment."""
    return f"# infopt saved {taken} from {address}\n{text.decode('utf-8', 'replace')}"


def taken_of(text: bytes) -> str | None:
    """When a text was taken, UTC; None where it does not say it."""
    said = _SAVED.match(text)
    if said is None:
        return None
    taken = said[1].decode()
    try:
        datetime.fromisoformat(taken)
    except ValueError:  # a 13th month
        return None
    return taken


def seconds_between(before: Snapshot, after: Snapshot) -> float | None:
    """By the wall clock; None where one does not say when it was taken, or the clock was set back."""
    if before.taken is None or after.taken is None:
        return None
    apart_s = (datetime.fromisoformat(after.taken) - datetime.fromisoformat(before.taken)).total_seconds()
    return apart_s if apart_s > 0 else None


def check_pair(before: Snapshot, after: Snapshot, apart_s: float | None) -> None:
    """Whether one can be the earlier text of the other.

    Errors: InfoptError where both say when they were taken and are the wrong way round, or are of different engines.
    """
    if apart_s is None and before.taken is not None and after.taken is not None and before.taken > after.taken:
        raise InfoptError(
            f"--since: taken {before.taken}, after SOURCE ({after.taken}): swap them, or say with --apart how long "
            "they are apart"
        )
    mine, its = ({names.engine for names in engines_of(spelled(one.metrics))} for one in (before, after))
    if mine and its and not mine & its:
        raise InfoptError(
            f"--since: holds metrics of {', '.join(sorted(mine))}, SOURCE those of {', '.join(sorted(its))}: an "
            "earlier text of the same server is expected"
        )
