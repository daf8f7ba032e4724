"""Figures of a page, taken from the object that `--json` prints: what is read and what is embedded are one value."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from infopt.reports.pages.blocks import Html, datum, put

UNKNOWN = "-"


def found(result: Any, key: str) -> Any:
    """The value at a path such as `terms.0.a`; None where a part of the path is null. Errors: KeyError, IndexError."""
    for part in key.split("."):
        if result is None:
            return None
        result = result[int(part)] if isinstance(result, Sequence) else result[part]
    return result


def shown(result: Mapping[str, Any], key: str, write: Callable[[Any], str]) -> Html:
    """The figure at `key`; "-" where it is null."""
    value = found(result, key)
    return datum(key, value, UNKNOWN if value is None else write(value))


def joined(*parts: str) -> Html:
    """Figures and words beside each other in one cell."""
    return Html(" ".join(put(part) for part in parts))
