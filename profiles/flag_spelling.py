"""One word of a command line read as the parser of a release reads it."""

import re

from infopt.frozen import dataclass
from infopt.profiles.flag_data import Option, Release


@dataclass(frozen=True, slots=True)
class Reading:
    """A word split up.

    word        the option without value and key, as the parser compares it
    spelled     the option string it stands for; empty where it is none or several
    option      what that means; None where it is none or several
    exact       the name is written out
    candidates  option strings an abbreviation may stand for, where there are several
    value       what follows `=`
    key         the dotted key
    """

    word: str
    spelled: str = ""
    option: Option | None = None
    exact: bool = False
    candidates: tuple[str, ...] = ()
    value: str | None = None
    key: str = ""


def read_word(release: Release, options: dict[str, Option], word: str) -> Reading:
    """Find the option a word stands for among those of a release."""
    head, value, key = _split(release, options, word)
    if head in options:
        return Reading(head, head, options[head], exact=True, value=value, key=key)
    if "abbreviations" not in release.parser or not head.startswith("-"):
        return Reading(head, value=value, key=key)
    found = [name for name in options if name.startswith(head) and name[:2] == head[:2]]
    if head[:2] in options and not found:  # -qfp8: the value joined to a one-letter option
        found, value = [head[:2]], head[2:] if value is None else f"{head[2:]}={value}"
    return _one(head, found, options, value, key)


def _one(head: str, found: list[str], options: dict[str, Option], value: str | None, key: str) -> Reading:
    if len(found) == 1:
        return Reading(head, found[0], options[found[0]], value=value, key=key)
    return Reading(head, candidates=tuple(sorted(found)), value=value, key=key)


def _split(release: Release, options: dict[str, Option], word: str) -> tuple[str, str | None, str]:
    """Option, value and dotted key of a word, with `_` made `-` where the parser does."""
    level = re.fullmatch(r"-O=?(\w+)", word)
    if level and "O_level" in release.parser:
        return "--optimization-level", level[1], ""
    if level and "O_value" in release.parser:
        return "-O", level[1], ""
    if word == "-O" and "O_level" in release.parser:
        return "--optimization-level", None, ""
    head, value = word, None
    if word.startswith("-") and "=" in word and "equals" in release.parser and word not in options:
        head, _, value = word.partition("=")
    name, dot, key = head.partition(".")
    if name.startswith("--") and "underscores" in release.parser:
        name = name.replace("_", "-")
    if dot and name.startswith("-") and "dotted" in release.parser:
        return name, value, key.removesuffix("+")
    return name + dot + key, value, ""
