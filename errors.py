"""What infopt refuses, in one line the user can act on."""

import difflib
import re
from collections.abc import Iterable

# In an address: who asks, with a password; what follows a question mark, which may hold a key. A path keeps one slash.
_USER = re.compile(r"(?<=\w\w:/)(/?)[^\s/@'\"]+(?=@)")
_QUERY = re.compile(r"(://[^\s?'\"]*\?)[^\s'\":]+")


class InfoptError(Exception):
    """Wrong usage or unreadable input: one line saying what, where and what to do.

    `exit_status` is the process status the command line ends with (DESIGN section 3). What somebody gave is repeated on
    one line and, of an address, without its credentials.
    """

    exit_status = 2

    def __init__(self, said: str = "") -> None:
        super().__init__(one_line(said))


class UndeterminedError(InfoptError):
    """A fact is missing, so neither yes nor no is honest."""

    exit_status = 4


class MissingExtraError(InfoptError):
    """A command needs an optional dependency that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra that is not installed: pip install 'infopt[{extra}]'")


def without_credentials(text: str) -> str:
    """A text whose addresses name no user, no password and no query.

    >>> without_credentials("https://me:secret@host/x?key=secret: no answer")
    'https://***@host/x?***: no answer'
    """
    return _QUERY.sub(r"\1***", _USER.sub(r"\1***", text)) if ":/" in text else text


def one_line(text: str) -> str:
    """A text without credentials on one line, and characters that would command a terminal as their escapes.

    >>> one_line("a\\nb\\x1b[1m")
    'a b\\\\x1b[1m'
    """
    said = without_credentials(text)
    if said.isprintable():
        return said
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(said.split()))


def nearest(name: str, known: Iterable[str], at_most: int = 4) -> list[str]:
    """The known names closest to `name`, best first; substrings count as close.

    >>> nearest("lama-3.1-8b", ["llama-3.1-8b", "qwen3-8b"])[0]
    'llama-3.1-8b'
    """
    lowered = {candidate.lower(): candidate for candidate in known}
    wanted = name.lower()
    close = difflib.get_close_matches(wanted, lowered, n=at_most, cutoff=0.55)
    inside = sorted((c for c in lowered if wanted in c and c not in close), key=len)
    return [lowered[c] for c in [*close, *inside][:at_most]]


def unknown_name(kind: str, name: str, known: Iterable[str], remedy: str) -> InfoptError:
    """The error for a name nobody knows, with the nearest names that exist."""
    close = nearest(name, known)
    hint = f"; nearest: {', '.join(close)}" if close else ""
    return InfoptError(f"unknown {kind} {name!r}{hint}; {remedy}")
