"""Command-line flags of each engine by release: the tables, read once.

`data/flag_tables/<engine>.csv` holds one row per flag and run of releases in which nothing about it changed;
`releases.csv` the releases that were read, in order, with the file and its sha256; `replaced.csv` what took the place
of a flag, with its source. `tools/flag_tables.py` writes the first two.
"""

import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from infopt.errors import InfoptError, unknown_name
from infopt.frozen import dataclass

FOLDER = Path(__file__).resolve().parent / "data" / "flag_tables"
COLUMNS = [
    "flag",
    "first",
    "last",
    "aliases",
    "negations",
    "kind",
    "type",
    "default",
    "choices",
    "env",
    "status",
    "replaced_by",
]
RELEASE_COLUMNS = ["engine", "version", "parser", "file", "sha256"]

_VERSION = re.compile(r"[vb]?([0-9]{1,18}(?:\.[0-9]{1,18})*+)(?!\.?[0-9])(?:[.-]?(rc|dev|post)([0-9]{1,18}))?")
_STAGES = {"dev": -2, "rc": -1, None: 0, "post": 1}

VersionKey = tuple[tuple[int, ...], int, int]


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of a command line, as it is over a run of releases.

    negations    options that say no: --no-x, --disable-x
    kind         value; optional (a value may follow); values (several); switch (no value); boolean (bare or true/false)
    type         str, int, float, bool, json, size (a number with a suffix), size_or_auto
    default      JSON; empty where it is known only when the engine runs
    choices      what is accepted; empty where it is open or not literal
    env          the environment variable that says the same
    status       deprecated: taken with a warning; refused: known to the parser, but the engine stops
    replaced_by  what the engine's own deprecation says to use
    """

    name: str
    aliases: tuple[str, ...]
    negations: tuple[str, ...]
    kind: str
    type: str
    default: str
    choices: tuple[str, ...]
    env: str
    status: str
    replaced_by: str


@dataclass(frozen=True, slots=True)
class Release:
    """A release that was read, and how its parser reads options.

    underscores    `_` is `-` in long names, before the first dot
    abbreviations  a long name may be cut where one option is left
    equals         `--flag=value` is two words in one
    dotted         `--config.key value` sets one key of a JSON option
    O_level        -O3 is --optimization-level 3; O_value: -O3 is -O 3
    paired         yes-or-no options come as --enable-x and --disable-x too
    """

    engine: str
    version: str
    parser: frozenset[str]
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Option:
    """What one spelling means in a release: the flag, and whether it says no."""

    flag: Flag
    negated: bool


def release_key(version: str) -> VersionKey | None:
    """Comparable form of "0.4.9.post6", "v0.11.0rc2" or "b4094"; None where there is no version in the text.

    >>> release_key("0.4.9.post6") > release_key("0.4.9") > release_key("0.4.9rc1")
    True
    """
    found = _VERSION.match(version.strip())
    if found is None:
        return None
    numbers = tuple(int(part) for part in found[1].split("."))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers, _STAGES[found[2]], int(found[3] or 0)


class FlagTable:
    """Flags of one engine: for each release read, what every option means."""

    def __init__(self, engine: str, releases: list[Release], rows: list[tuple[Flag, int, int]]) -> None:
        self.engine = engine
        self.releases = releases
        self.rows = rows
        self.options: list[dict[str, Option]] = [{} for _ in releases]
        for flag, first, last in rows:
            yes, no = Option(flag, False), Option(flag, True)
            spellings = [(name, yes) for name in (flag.name, *flag.aliases, flag.env) if name]
            spellings += [(name, no) for name in flag.negations]
            for options in self.options[first : last + 1]:
                options.update(spellings)

    def flags(self, version: str) -> dict[str, Flag]:
        """Flags of a release that was read, by canonical name."""
        at = [release.version for release in self.releases].index(version)
        return {flag.name: flag for flag, first, last in self.rows if first <= at <= last}

    def place(self, version: str | None) -> tuple[int | None, int | None]:
        """The releases on both sides of a version; twice the same where it was read itself; (None, None) unplaced."""
        key = release_key(version) if version else None
        keys = [release_key(release.version) for release in self.releases]
        if key is None or (self.engine == "llama.cpp" and len(key[0]) > 1):  # semantic versions beside build numbers
            return None, None
        if key in keys:
            return keys.index(key), keys.index(key)
        below = sum(known is not None and known < key for known in keys)
        return (below - 1 if below else None), (below if below < len(keys) else None)


def read_csv(path: Path, columns: list[str]) -> Iterator[dict[str, str]]:
    """Rows of a data file; other columns than these are an error."""
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        if reader.fieldnames != columns:
            raise InfoptError(f"{path}: the columns are not {', '.join(columns)}")
        yield from reader


def read_releases(engine: str) -> list[Release]:
    """Releases of an engine in order; empty for an engine without a table."""
    rows = [row for row in read_csv(FOLDER / "releases.csv", RELEASE_COLUMNS) if row["engine"] == engine]
    return [
        Release(engine, row["version"], frozenset(row["parser"].split()), row["file"], row["sha256"]) for row in rows
    ]


def flag_of(row: dict[str, str]) -> Flag:
    """A flag from a row of the data file."""
    return Flag(
        row["flag"],
        tuple(row["aliases"].split()),
        tuple(row["negations"].split()),
        row["kind"],
        row["type"],
        row["default"],
        tuple(row["choices"].split()),
        row["env"],
        row["status"],
        row["replaced_by"],
    )


def engines_with_tables() -> tuple[str, ...]:
    return tuple(sorted({row["engine"] for row in read_csv(FOLDER / "releases.csv", RELEASE_COLUMNS)}))


@cache
def flag_table(engine: str) -> FlagTable:
    """The flags of an engine by its canonical name (profiles/engines.py)."""
    releases = read_releases(engine)
    if not releases:
        known = engines_with_tables()
        raise unknown_name("engine", engine, known, f"flags are known for {', '.join(known)}")
    position = {release.version: at for at, release in enumerate(releases)}
    rows = read_csv(FOLDER / f"{engine}.csv", COLUMNS)
    return FlagTable(engine, releases, [(flag_of(row), position[row["first"]], position[row["last"]]) for row in rows])


@cache
def replacements(engine: str) -> dict[str, tuple[str, str]]:
    """What took the place of a flag, and the source, by the flag's canonical name."""
    rows = read_csv(FOLDER / "replaced.csv", ["engine", "flag", "replaced_by", "source"])
    return {row["flag"]: (row["replaced_by"], row["source"]) for row in rows if row["engine"] == engine}
