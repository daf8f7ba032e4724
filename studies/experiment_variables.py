"""Knobs of a configuration, and how many variables two configurations differ in (data/experiment/knobs.yaml).

A knob that differs is a variable of its own, unless
    nobody set it on either side      it came with what was set (an engine's default)
    it follows one that was changed   devices follow tp, a quantized checkpoint is a repository of its own
    it is part of one turned on       drafted tokens, where speculation was turned on or off
    it cannot be changed alone        tp, pp, dp and ep of the same devices are one variable
A knob that only one side states is not known to be equal: neither the same nor a change.
Ignored: what a knob does to another inside the engine (a smaller cache format makes the pool larger: the same change).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, FiniteFloat

from infopt.errors import InfoptError, unknown_name
from infopt.frozen import dataclass
from infopt.records import Record, read_yaml, validate_record

DATA = Path(__file__).resolve().parent / "data" / "experiment"
FLAG = "flag."  # before the name of an engine's own option
OFF = "off"
Scalar = bool | int | FiniteFloat | str | None
TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Knob(Record):
    """One thing that is set; see data/experiment/knobs.yaml."""

    id: str
    kind: Literal["text", "number", "truth"]
    what: str
    follows: list[str] = Field([])
    part_of: str | None = None
    quality: bool = False
    flag: dict[str, str] = Field({})
    option: str | None = None


class Together(Record):
    """Knobs that are one variable while another one stays."""

    variable: str
    knobs: list[str]
    while_equal: str


class Knobs(Record):
    """The file."""

    source: str
    knobs: list[Knob]
    together: list[Together]
    secret_words: list[str]


@cache
def all_knobs() -> Knobs:
    """The data, read once."""
    path = DATA / "knobs.yaml"
    return validate_record(Knobs, read_yaml(path), str(path))


@cache
def knobs() -> dict[str, Knob]:
    """Knobs by name."""
    return {knob.id: knob for knob in all_knobs().knobs}


def knob(name: str) -> Knob:
    """The knob of a name; an engine's own option is one of its own.

    Errors: InfoptError for an unknown name, and for an option whose name says that its value is secret.
    """
    if name.startswith(FLAG) and len(name) > len(FLAG):
        secret = set(re.split(r"[-_.]+", name.lower())) & set(all_knobs().secret_words)
        if secret:
            raise InfoptError(f"{name}: a {secret.pop()} is not written into a saved run: leave it out")
        return Knob(id=name, kind="text", what="option of the engine")
    if name not in knobs():
        raise unknown_name("knob", name, knobs(), f"an engine's own option is {FLAG}NAME")
    return knobs()[name]


def parsed(name: str, text: str) -> Scalar:
    """The value of a knob as it was typed. Errors: InfoptError for text where a number or yes/no is due."""
    kind = knob(name).kind
    text = text.strip()
    if not text:
        raise InfoptError(f"{name}: no value; {name}=VALUE is expected")
    if kind == "truth":
        if text.lower() not in TRUTHS:
            raise InfoptError(f"{name}={text}: yes or no is expected")
        return TRUTHS[text.lower()]
    if kind == "text":
        return text
    if text.lower() in ("none", OFF):
        return None
    return number(name, text)


def number(name: str, text: str) -> int | float:
    """A finite number, a whole one where it is written so. Errors: InfoptError."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")):
        raise InfoptError(f"{name}={text}: a number is expected")
    return value


@dataclass(frozen=True, slots=True)
class Change:
    """One variable that differs.

    knobs     (knob, value in A, value in B) that differ for it, the one that was changed first
    quality   answers may get worse
    """

    variable: str
    knobs: tuple[tuple[str, Scalar, Scalar], ...]

    @property
    def quality(self) -> bool:
        return any(knob(name).quality for name, _, _ in self.knobs)


@dataclass(frozen=True, slots=True)
class Differences:
    """What two configurations differ in.

    changes  by variable
    unknown  (knob, "A" or "B") stated on that side only
    """

    changes: tuple[Change, ...]
    unknown: tuple[tuple[str, str], ...]


def differences(a: Mapping[str, Scalar], b: Mapping[str, Scalar], defaulted: Iterable[str] = ()) -> Differences:
    """How B differs from A; `defaulted` are knobs that nobody set in either."""
    names = list(dict.fromkeys((*a, *b)))
    differing = [name for name in names if name in a and name in b and a[name] != b[name]]
    unknown = tuple((name, "A" if name in a else "B") for name in names if (name in a) != (name in b))
    came_along = _came_along(differing, a, b, set(defaulted))
    own = [name for name in differing if name not in came_along]
    changes = [
        Change(variable, tuple((name, a[name], b[name]) for name in group)) for variable, group in _grouped(own, a, b)
    ]
    for name in came_along:
        first = _host(name, changes)
        changes[first] = Change(changes[first].variable, (*changes[first].knobs, (name, a[name], b[name])))
    turned_on = {name for change in changes for name, old, new in change.knobs if _is_off(old) or _is_off(new)}
    unknown = tuple((name, side) for name, side in unknown if knob(name).part_of not in turned_on)
    return Differences(tuple(changes), unknown)


def _came_along(
    differing: Sequence[str], a: Mapping[str, Scalar], b: Mapping[str, Scalar], defaulted: set[str]
) -> list[str]:
    """Knobs that differ because another one does; never all of them."""
    found = []
    for name in differing:
        known = knob(name)
        switch = known.part_of
        switched = switch in differing and (_is_off(a[name]) or _is_off(b[name]))
        if switched or any(other in differing for other in known.follows):
            found.append(name)
    set_ones = [name for name in differing if name not in defaulted and name not in found]
    return [*found, *(name for name in differing if name in defaulted and name not in found)] if set_ones else found


def _is_off(value: Scalar) -> bool:
    return not value or value == OFF


def _grouped(own: Sequence[str], a: Mapping[str, Scalar], b: Mapping[str, Scalar]) -> list[tuple[str, list[str]]]:
    """Knobs by variable, those that cannot be changed alone in one."""
    groups: dict[str, list[str]] = {}
    for name in own:
        together = next((group for group in all_knobs().together if name in group.knobs), None)
        if (
            together is not None
            and together.while_equal in a
            and a[together.while_equal] == b.get(together.while_equal)
        ):
            groups.setdefault(together.variable, []).append(name)
        else:
            groups.setdefault(name, []).append(name)
    return list(groups.items())


def _host(name: str, changes: Sequence[Change]) -> int:
    """Where among the changes a knob that came along is shown: beside what it follows, else the first."""
    followed = (*knob(name).follows, knob(name).part_of)
    return next((i for i, change in enumerate(changes) if any(k in followed for k, _, _ in change.knobs)), 0)
