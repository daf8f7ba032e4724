"""Texts of `/metrics` that are kept: a first line says when each was taken, so that two of them have a time between."""

import re
from datetime import datetime

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
