"""What an option of a deployment's command line means in a version of its engine.

`lookup` reads one word (`--max-model-len=32k`, `-tp`, `--speculative-config.method`) as the parser of that version
does: exact names, abbreviations that leave one option, `_` for `-`, `--no-x`, dotted keys, joined values. A version
that was not read gets an answer only where the versions read on both sides of it agree.
"""

import re
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from infopt.errors import UndeterminedError, nearest
from infopt.frozen import dataclass
from infopt.profiles.engine_ints import plain_int, sized_int
from infopt.profiles.flag_data import Flag, FlagTable, engines_with_tables, flag_table, replacements
from infopt.profiles.flag_spelling import Reading, read_word

Status = Literal["known", "ambiguous", "removed", "not_yet", "unknown", "undetermined"]

_SIZED = {"vllm": "--max-model-len", "sglang": "--context-length"}
_COMPARED = ("kind", "type", "default", "choices", "negations", "status")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one word of a command line means.

    status        known; ambiguous (an abbreviation of several); removed; not_yet; unknown (in no version read);
                  undetermined (the versions around this one disagree, or there is none on one side)
    name          the flag's canonical name; the word itself where it is not known
    flag          the record, where the status is known; of several versions, the oldest's
    uncertain     fields of the record in which the versions around this one differ
    value         what follows `=`, or the level of -O3; None where the word has no value in it
    key           the key inside a JSON option: `method` of --speculative-config.method
    negated       the word says no: --no-x
    problem       why the engine stops although it knows the flag; empty where it does not
    candidates    options an abbreviation may mean, or the nearest names of an unknown one
    since         first version read that has it, in the run around this version; None at the start of the table
    last_without  the version read before `since`
    last_with, gone  last version read that has it, and the next one, which has not; None where it is still there
    replaced_by, source  what to write instead, and who says so
    around        the answers of the versions on each side, where undetermined
    """

    status: Status
    name: str
    flag: Flag | None = None
    uncertain: tuple[str, ...] = ()
    value: str | None = None
    key: str = ""
    negated: bool = False
    problem: str = ""
    candidates: tuple[str, ...] = ()
    since: str | None = None
    last_without: str | None = None
    last_with: str | None = None
    gone: str | None = None
    replaced_by: str = ""
    source: str = ""
    around: "tuple[tuple[str, Answer], ...]" = ()


def lookup(engine: str, version: str | None, word: str) -> Answer:
    """The meaning of an option in a version; without a version, what all versions read agree on.

    engine: canonical name (profiles/engines.py). A name without a table is an error.
    """
    return _lookup(engine, version, word)


@lru_cache(maxsize=4096)
def _lookup(engine: str, version: str | None, word: str) -> Answer:
    table = flag_table(engine)
    below, above = table.place(version)
    if below is not None and below == above:
        return answer_at(table, below, word)
    if below is None and above is None:
        return _agreed(table, list(range(len(table.releases))), word)
    if below is None or above is None:
        at = (above if below is None else below) or 0
        return Answer("undetermined", word, around=((table.releases[at].version, answer_at(table, at, word)),))
    return _agreed(table, [below, above], word)


def _agreed(table: FlagTable, places: list[int], word: str) -> Answer:
    """One answer where all versions give it; else undetermined, with each answer that differs from the one before."""
    answers = [answer_at(table, at, word) for at in places]
    meanings = [_meaning(answer) for answer in answers]
    first, last = answers[0], answers[-1]
    if len(set(meanings)) > 1:
        turns = [n for n, meaning in enumerate(meanings) if n == 0 or meaning != meanings[n - 1]]
        around = tuple((table.releases[places[n]].version, answers[n]) for n in turns)
        return Answer("undetermined", word, around=around)
    if first.flag is None:
        return first
    flags = [answer.flag for answer in answers if answer.flag]
    uncertain = tuple(name for name in _COMPARED if len({getattr(flag, name) for flag in flags}) > 1)
    problem = first.problem if all(answer.problem for answer in answers) else ""
    return replace(first, uncertain=uncertain, problem=problem, last_with=last.last_with, gone=last.gone)


def _meaning(answer: Answer) -> tuple[object, ...]:
    """What two versions must share to agree."""
    if answer.status in ("unknown", "ambiguous"):
        return (answer.status,)
    return answer.status, answer.name, answer.negated, answer.key, answer.value


def answer_at(table: FlagTable, at: int, word: str) -> Answer:
    """The meaning in a version that was read."""
    reading = read_word(table.releases[at], table.options[at], word)
    if reading.option is not None:
        return _known(table, at, reading)
    if reading.candidates:
        return Answer("ambiguous", reading.word, value=reading.value, key=reading.key, candidates=reading.candidates)
    return _absent(table, at, word, reading)


def _known(table: FlagTable, at: int, reading: Reading) -> Answer:
    assert reading.option is not None
    flag, spelled = reading.option.flag, reading.spelled
    first = last = at
    while first and spelled in table.options[first - 1]:
        first -= 1
    while last + 1 < len(table.releases) and spelled in table.options[last + 1]:
        last += 1
    ended = last + 1 < len(table.releases)
    replaced_by, source = _replacement(table, flag) if flag.status or ended else ("", "")
    return Answer(
        "known",
        flag.name,
        flag,
        value=reading.value,
        key=reading.key,
        negated=reading.option.negated,
        problem=_problem(flag, reading),
        since=table.releases[first].version if first else None,
        last_without=table.releases[first - 1].version if first else None,
        last_with=table.releases[last].version if ended else None,
        gone=table.releases[last + 1].version if ended else None,
        replaced_by=replaced_by,
        source=source,
    )


def _problem(flag: Flag, reading: Reading) -> str:
    """Why the engine stops at a word it knows."""
    if flag.status == "refused":
        return f"{flag.name} was withdrawn: the engine stops"
    negated = reading.option is not None and reading.option.negated
    if reading.value is None or not (flag.kind == "switch" or negated):
        return ""
    no = next((name for name in flag.negations if name.startswith("--no-")), "")
    if reading.value.lower() in ("false", "0", "no", "off") and not negated:
        instead = f"write {no}" if no else f"leave {flag.name} out"
    else:
        instead = f"write {reading.spelled} alone"
    return f"{reading.spelled} takes no value in this version; {instead}"


def _absent(table: FlagTable, at: int, word: str, reading: Reading) -> Answer:
    """Removed, not there yet, or in no version: other versions are asked, whole names before abbreviations."""
    for exact in (True, False):
        found = {
            other: known
            for other in range(len(table.releases))
            if (known := read_word(table.releases[other], table.options[other], word)).option is not None
            and (known.exact or not exact)
        }
        older = max((other for other in found if other < at), default=None)
        newer = min((other for other in found if other > at), default=None)
        if older is not None:
            return _removed(table, older, newer, found[older])
        if newer is not None:
            return _not_yet(table, newer, found[newer])
    close = nearest(reading.word, table.options[at]) if reading.word.startswith("-") else []
    return Answer("unknown", reading.word, value=reading.value, key=reading.key, candidates=tuple(close))


def _flag(reading: Reading) -> Flag:
    assert reading.option is not None
    return reading.option.flag


def _not_yet(table: FlagTable, newer: int, reading: Reading) -> Answer:
    return Answer(
        "not_yet",
        _flag(reading).name,
        value=reading.value,
        key=reading.key,
        since=table.releases[newer].version,
        last_without=table.releases[newer - 1].version,
    )


def _removed(table: FlagTable, older: int, newer: int | None, reading: Reading) -> Answer:
    replaced_by, source = _replacement(table, _flag(reading))
    return Answer(
        "removed",
        _flag(reading).name,
        value=reading.value,
        key=reading.key,
        last_with=table.releases[older].version,
        gone=table.releases[older + 1].version,
        since=table.releases[newer].version if newer is not None else None,
        replaced_by=replaced_by,
        source=source,
    )


def _replacement(table: FlagTable, flag: Flag) -> tuple[str, str]:
    """What took a flag's place: as we know it, or as the engine's own deprecation says."""
    known = replacements(table.engine).get(flag.name)
    if known:
        return known
    said = [(row.replaced_by, last) for row, _, last in table.rows if row.name == flag.name and row.replaced_by]
    if not said:
        return "", ""
    name, last = said[-1]
    return name, f"deprecation in {table.engine} {table.releases[last].version}"


def parse_engine_int(engine: str, version: str | None, text: str, word: str = "") -> int:
    """A whole number as an engine's command line reads it; -1 for `auto` where that is taken.

    word: the option it stands behind; by default one that takes suffixes wherever the engine knows them.

    >>> parse_engine_int("vllm", "0.33.0", "32k"), parse_engine_int("sglang", "0.5.23", "1M")
    (32000, 1000000)
    """
    word = word or _SIZED.get(engine, "")
    if not word or engine not in engines_with_tables():
        return plain_int(text)
    answer = lookup(engine, version, word)
    if answer.flag is None or "type" in answer.uncertain:
        if re.fullmatch(r"-?\d+", text.strip()):
            return int(text)
        where = version or "of unknown version"
        raise UndeterminedError(f"{engine} {where}: whether {word} takes {text!r} is not known; write a plain number")
    if answer.flag.type == "size_or_auto" and text.strip().lower() == "auto":
        return -1
    if answer.flag.type in ("size", "size_or_auto"):
        return sized_int(engine, text)
    return plain_int(text)


__all__ = ["Answer", "answer_at", "flag_table", "lookup", "parse_engine_int", "sized_int"]
