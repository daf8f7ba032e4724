"""An engine's command line as that engine reads it: settings by our names, and what it would not take as written.

Flags are looked up in the version's own table (profiles/flag_tables.py); engines without one, in the list of their
settings (data/settings/*.yaml). The last of several wins, as in every one of these parsers.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import isfinite
from typing import Any, Literal

from pydantic import Field

from infopt.errors import InfoptError, UndeterminedError
from infopt.frozen import dataclass
from infopt.gate.deployment import Problem, Setting
from infopt.gate.engines import DATA
from infopt.gate.environment import templates, unresolved
from infopt.gate.found import Argument
from infopt.profiles.flag_data import engines_with_tables, flag_table
from infopt.profiles.flag_tables import Answer, lookup, parse_engine_int
from infopt.records import Record, read_yaml, validate_record

Reading = Literal["count", "tokens", "share", "gib", "text", "switch", "json"]
NEGATIVE = re.compile(r"-\d")
MOST_COUNTED = 10**18  # of tokens, devices and the like: more is no value of any option
STATES = frozenset({"on", "off", "auto"})
TRUE, FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


class Known(Record):
    """A flag the gate reads."""

    setting: str
    read: Reading
    aliases: list[str] = Field([])


class Settings(Record):
    """What the gate reads of an engine; see data/settings/vllm.yaml."""

    flags: dict[str, Known]
    keys: dict[str, Known] = Field({})
    positional: str = ""
    variables: dict[str, str] = Field({})


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command line read."""

    settings: Mapping[str, Setting]
    problems: tuple[Problem, ...]


@cache
def settings_of(engine: str) -> Settings | None:
    """What the gate reads of an engine, None where it reads nothing."""
    path = DATA / "settings" / f"{engine}.yaml"
    return validate_record(Settings, read_yaml(path), path.name) if path.is_file() else None


@cache
def tabled() -> frozenset[str]:
    """Engines whose flags are known by version."""
    return frozenset(engines_with_tables())


def parse(engine: str, version: str | None, arguments: Iterable[Argument]) -> Parsed:
    """The settings of a command line; what cannot be read is a problem, and the rest is read on."""
    known = settings_of(engine)
    reader = _Reader(engine, version, known or Settings(flags={}))
    reader.read(list(arguments))
    return Parsed(reader.settings, tuple(reader.problems))


def parse_keys(engine: str, version: str | None, pairs: Iterable[tuple[str, Argument]]) -> Parsed:
    """The settings of an engine's options file, by its dotted keys; the gate knows the keys that it reads."""
    known = settings_of(engine)
    reader = _Reader(engine, version, Settings(flags=known.keys if known is not None else {}))
    for key, argument in pairs:
        if key in reader.known.flags:
            reader.take(key, argument)
    return Parsed(reader.settings, tuple(reader.problems))


class _Reader:
    """Reads one command line from left to right."""

    def __init__(self, engine: str, version: str | None, known: Settings) -> None:
        self.engine, self.version, self.known = engine, version, known
        self.settings: dict[str, Setting] = {}
        self.problems: list[Problem] = []

    def take(self, key: str, argument: Argument) -> None:
        """Take a key and its value."""
        self._set(key, argument.text, argument.text.lower() in FALSE, argument)

    def read(self, arguments: list[Argument]) -> None:
        position, positional = 0, 0
        while position < len(arguments):
            argument = arguments[position]
            if argument.text.startswith("-") and not NEGATIVE.match(argument.text) and len(argument.text) > 1:
                position += 1 + self._option(argument, arguments[position + 1 :])
                continue
            if positional == 0 and self.known.positional:
                self._first(argument)
            positional += 1
            position += 1

    def _first(self, argument: Argument) -> None:
        """Take the first word that belongs to no option."""
        setting = self.known.positional
        if names := _open(argument.text):
            self.problems.append(_unresolved(f"the {setting}", names, argument, setting))
            return
        self.settings.setdefault(setting, Setting(argument.text, "positional", argument))

    def _option(self, argument: Argument, rest: list[Argument]) -> int:
        """Take an option; how many of the following words were its values."""
        if self.engine in tabled():
            return self._tabled(argument, rest)
        name, equals, value = argument.text.partition("=")
        flag = self._listed(name)
        if flag is None:
            return 0 if equals or not rest or rest[0].text.startswith("-") else 1
        if self.known.flags[flag].read == "switch":
            following = rest[0].text.lower() if rest and not equals else value.lower()
            taken = bool(rest) and not equals and following in TRUE | FALSE
            self._set(flag, "", following in FALSE, argument)
            return int(taken)
        if equals:
            self._set(flag, value, False, argument)
            return 0
        self._set(flag, rest[0].text if rest else "", False, rest[0] if rest else argument)
        return 1

    def _listed(self, name: str) -> str | None:
        """The canonical flag of a list; dashes and underscores are alike."""
        plain = name.replace("_", "-")
        for flag, known in self.known.flags.items():
            if plain in {spelled.replace("_", "-") for spelled in (flag, *known.aliases)}:
                return flag
        return None

    def _tabled(self, argument: Argument, rest: list[Argument]) -> int:
        answer = lookup(self.engine, self.version, argument.text)
        if self.version is None and answer.status == "undetermined" and answer.around[-1][1].status == "known":
            # No version is pinned: what runs is new enough for the options its file has, where the newest has them.
            answer = answer.around[-1][1]
        if answer.status != "known" or answer.flag is None:
            self.problems.append(problem_of(self.engine, self.version, argument, answer))
            follows = bool(rest) and not rest[0].text.startswith("-") and _joined(answer) is None
            # What stands between two options belongs to the first.
            if answer.status in ("removed", "not_yet", "undetermined"):
                self._guess(answer, argument, rest)
            return int(follows)
        if answer.problem:
            self.problems.append(Problem("form", answer.problem, argument))
        elif answer.flag.status == "deprecated" and answer.replaced_by:
            message = f"{answer.name} is deprecated"
            self.problems.append(Problem("deprecated", message, argument, f"write {answer.replaced_by}"))
        value, at, taken = self._value(answer, argument, rest)
        if answer.name in self.known.flags:
            self._set(answer.name, value, self._negated(answer, value), at, answer.key)
        return taken

    def _guess(self, answer: Answer, argument: Argument, rest: list[Argument]) -> None:
        """A flag this version has not still tells what was meant, where nothing else says it."""
        names = (answer.name, *(other.name for _, other in answer.around if other.status == "known"))
        name = next((name for name in names if name in self.known.flags), "")
        known = self.known.flags.get(name)
        if known is None or known.setting in self.settings or known.read == "switch":
            return
        joined = _joined(answer)
        if joined is None and (not rest or rest[0].text.startswith("-")):
            return
        self._set(name, joined if joined is not None else rest[0].text, False, argument)

    def _stray(self, answer: Answer, word: Argument) -> None:
        """A truth value behind an option that is one by itself: the parser refuses the word."""
        instead = "leave the option out, or its --no- form" if word.text.lower() in FALSE else answer.name
        message = f"{answer.name} takes no value: {word.text} behind it is refused"
        self.problems.append(Problem("form", message, word, instead))

    @staticmethod
    def _negated(answer: Answer, value: str) -> bool:
        return answer.negated or (value.lower() in FALSE and answer.flag is not None and answer.flag.type == "bool")

    def _value(self, answer: Answer, argument: Argument, rest: list[Argument]) -> tuple[str, Argument, int]:
        """Value of an option, where it stands, and how many words it took."""
        flag = answer.flag
        assert flag is not None
        if answer.value is not None:
            return answer.value, argument, 0
        plain = rest[0] if rest and (not rest[0].text.startswith("-") or NEGATIVE.match(rest[0].text)) else None
        if flag.kind == "switch" or answer.negated:
            # Versions differ: what stands there tells how this one reads it.
            valued = "kind" in answer.uncertain and plain is not None and plain.text.lower() in STATES
            if plain is not None and "kind" not in answer.uncertain and plain.text.lower() in TRUE | FALSE:
                self._stray(answer, plain)
                return "", argument, 1
            return (plain.text, plain, 1) if valued and plain is not None else ("", argument, 0)
        if flag.kind == "boolean":
            taken = plain is not None and plain.text.lower() in TRUE | FALSE
            return (plain.text, plain, 1) if taken and plain is not None else ("", argument, 0)
        if flag.kind == "values":
            count = next((i for i, word in enumerate(rest) if word.text.startswith("--")), len(rest))
            return " ".join(word.text for word in rest[:count]), argument, count
        if plain is None:
            if flag.kind != "optional":
                self.problems.append(Problem("bad-value", f"{answer.name} has no value", argument))
            return "", argument, 0
        return plain.text, plain, 1

    def _set(self, flag: str, value: str, negated: bool, at: Argument, key: str = "") -> None:
        known = self.known.flags[flag]
        if key and known.read not in ("json", "text"):
            message = f"{flag} is one value and has no part {key!r}"
            self.problems.append(Problem("bad-value", message, at, setting=known.setting))
            return
        names = _open(value)
        if names and known.setting == "secret":
            return  # A secret belongs elsewhere.
        if names and known.read != "json":
            self.problems.append(_unresolved(flag, names, at, known.setting))
            return
        try:
            read: Any = not negated if known.read == "switch" else self._read(flag, known.read, value)
        except UndeterminedError as error:
            # Some version takes the suffix: what it means there is what was meant.
            self.problems.append(Problem("undetermined", f"{flag}: {error}", at, setting=known.setting))
            try:
                read = parse_engine_int(self.engine, flag_table(self.engine).releases[-1].version, value, flag)
            except InfoptError:
                return
        except (InfoptError, ValueError) as error:
            detail = str(error) if isinstance(error, InfoptError) else f"{value[:60]!r} is not a value of {flag}"
            bad = Problem("bad-value", f"{flag}: {detail}", at, setting=known.setting)
            self.problems.append(_unresolved(flag, names, at, known.setting) if names else bad)
            return
        if key:
            before = self.settings.get(known.setting)
            read = {**(before.value if before and isinstance(before.value, dict) else {}), key: value}
        self.settings[known.setting] = Setting(read, flag, at)

    def _read(self, flag: str, kind: Reading, value: str) -> Any:
        if kind in ("tokens", "count"):
            number = parse_engine_int(self.engine, self.version, value, flag) if kind == "tokens" else int(value)
            if abs(number) > MOST_COUNTED:
                raise ValueError(value)
            return number
        if kind in ("share", "gib"):
            if not isfinite(share := float(value)):
                raise ValueError(value)
            return share
        if kind == "json" and value.lstrip().startswith("{"):
            return json.loads(value)
        return value


def _joined(answer: Answer) -> str | None:
    """What follows the `=` of an option, also where only the versions around this one split it off."""
    values = (one.value for one in (answer, *(other for _, other in answer.around)))
    return next((value for value in values if value is not None), None)


def _open(value: str) -> list[str]:
    """Variables and templates that are still in a value."""
    return [*(f"${name}" for name in unresolved(value)), *templates(value)]


def _unresolved(what: str, names: list[str], at: Argument, setting: str) -> Problem:
    """A value that something outside the file says."""
    message = f"{what} is set by {', '.join(names)}, which the file does not define"
    return Problem("unresolved", message, at, "give it a value or a default in the file", setting=setting)


def problem_of(engine: str, version: str | None, argument: Argument, answer: Answer) -> Problem:
    """What a version that does not know an option does with it."""
    word = argument.text.partition("=")[0]
    named = f"{engine} {version}" if version else engine
    instead = f"write {answer.replaced_by}" if answer.replaced_by else ""
    if answer.status == "removed":
        message = f"{word} is not in {named}: last in {answer.last_with}, gone in {answer.gone}"
        return Problem("removed", message, argument, instead or f"leave {word} out")
    if answer.status == "not_yet":
        message = f"{word} is not in {named}: first in {answer.since}, not in {answer.last_without}"
        return Problem("not-yet", message, argument, f"use {engine} {answer.since} or newer, or leave {word} out")
    if answer.status == "ambiguous":
        message = f"{word} may be {', '.join(answer.candidates)} in {named}"
        return Problem("ambiguous", message, argument, "write the name whole")
    if answer.status == "undetermined":
        said = "; ".join(f"{at}: {other.status.replace('_', ' ')}" for at, other in answer.around)
        return Problem("undetermined", f"whether {named} takes {word} is not known ({said})", argument)
    near = f"nearest: {', '.join(answer.candidates)}" if answer.candidates else ""
    return Problem("unknown", f"{word} is no option of {named}", argument, near)


@cache
def _twins(engine: str) -> dict[str, str]:
    """Variables of an engine's table that say the same as a flag (LLAMA_ARG_CTX_SIZE)."""
    return {flag.env: flag.name for flag, _, _ in flag_table(engine).rows if flag.env} if engine in tabled() else {}


def of_variables(engine: str, environment: Mapping[str, Any]) -> Iterator[Argument]:
    """Options that environment variables stand for (TGI, llama.cpp): the command line wins, so they come first."""
    known = settings_of(engine)
    for name, value in environment.items():
        flag = known.variables.get(name) if known is not None else None
        twin = _twins(engine).get(name) if flag is None else None
        if twin is not None:
            # This parser takes no `=`.
            yield from (Argument(word, value.line, value.column, f"env {name}") for word in (twin, str(value)))
        if flag is not None:
            yield Argument(f"{flag}={value}", value.line, value.column, f"env {name}")
