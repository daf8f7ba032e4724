"""How an engine is told to use a technique, or not to use it; and whether a version of it takes the option.

Formats, placement and limits of sequences follow from profiles/data/engine_flags (studies/commands.py); what is said
here is the rest (data/engine_settings/<engine>.yaml). Words with a dollar are filled in: $drafted, $budget and so on.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template

from pydantic import Field

from infopt.boundaries.deciding import checked_yaml
from infopt.profiles.engines import in_versions
from infopt.profiles.flag_data import engines_with_tables
from infopt.profiles.flag_tables import lookup
from infopt.records import Record, load_record, names_in

FOLDER = Path(__file__).resolve().parent / "data" / "engine_settings"
_OPTION = re.compile(r"(?<![\w\"'])--?[a-z][\w-]*")


class Setting(Record):
    """One technique in an engine.

    technique, method  its id (or kv-pool: the size of the cache, and how many share it); of drafts the method
    since, until       versions: from `since` on, before `until`
    always             it cannot be turned off
    by_default         it is on unless it was turned off
    enable, disable    what turns it on, and off; empty where nothing does
    """

    technique: str
    method: str | None = None
    since: str | None = None
    until: str | None = None
    always: bool = False
    by_default: bool = False
    enable: str = ""
    disable: str = ""
    source: str = Field(min_length=1)


class EngineSettings(Record):
    """One file."""

    engine: str
    settings: list[Setting]


def settings_of(engine: str) -> Sequence[Setting]:
    """Rows of an engine by its canonical name; none for an engine without a file."""
    return _settings(engine).settings if engine in names_in(FOLDER) else ()


@cache
def _settings(engine: str) -> EngineSettings:
    return load_record(EngineSettings, FOLDER, engine, "engine", "see boundaries/data/engine_settings")


def setting(engine: str, version: str, technique: str, method: str | None = None) -> Setting | None:
    """The row of a technique in a version; None where nothing is known of it."""
    for row in settings_of(engine):
        fits = row.technique == technique and (row.method is None or row.method == method)
        if fits and in_versions(version, row.since, row.until):
            return row
    return None


def written(text: str, words: Mapping[str, str]) -> str:
    """A text with its words put in, on one line; a word nobody has stays as it is."""
    return " ".join(Template(text).safe_substitute(words).split())


def options_in(text: str) -> list[str]:
    """The options of a text, in order, those inside quotes left out.

    >>> options_in("--enable-lora --max-loras 4"), options_in("leave --enforce-eager out")
    (['--enable-lora', '--max-loras'], ['--enforce-eager'])
    """
    return _OPTION.findall(re.sub(r"'[^']*'", "''", text))


def refused_by(engine: str, versions: Sequence[str], text: str) -> str:
    """Why a version does not take the options of a text, or is not known to; empty where all of them do."""
    options, name = options_in(text), checked_yaml("engine_names").get(engine, engine)
    if options and engine not in engines_with_tables():
        return f"the options of {name} are in no table here: look {options[0]} up"
    for version in versions:
        for option in options:
            answer = lookup(engine, version, option)
            if answer.status == "undetermined":
                return f"whether {name} {version} takes {option} was not read"
            if answer.status != "known" or answer.problem:
                instead = f": {answer.replaced_by}" if answer.replaced_by else ""
                return f"{name} {version} does not take {option}{instead}"
    return ""
