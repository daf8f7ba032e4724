"""From lines to a record: every known line adds figures to its rank, a new start begins anew."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from infopt.observing.start_logs.patterns import Keep, Line, LogLines, compiled
from infopt.observing.start_logs.record import RankMemory, Refusal, StartLog
from infopt.records import validate_record
from infopt.units import parse_bytes

UNITS = {"gib": 2**30, "mib": 2**20, "kib": 2**10}
# A part that counts where no other of its field was read.
ALONE = "alone"
RANK_FIELDS = frozenset(RankMemory.model_fields) - {"rank", "host", "kv_pool_figures"}
WHOLE = ("tp", "pp", "dp", "kv_blocks", "max_num_seqs", "workers")
FLAGS = ("eager", "prefix_caching", "processor", "started")
NO_VALUE = ("", "None", "auto", "null", "none")
# Where 0 is no figure, but "not set"; below 0 nothing is one (-1 is "the engine's own choice").
ABOVE_ZERO = ("tp", "pp", "dp", "workers", "context_tokens", "block_tokens", "total_bytes", "utilization_share")
MOST_FIGURE = 1e18  # a line that says more is broken
SHOWN_CHARS = 300
LATER = "after the start:"
TRIED = "before it started:"
# `'name': value`, `name=value` and `name=Path('value')`, values without brackets: lists and nested settings are no
# options of ours. A bare value ends where the next begins: `config: model='m'` has no option `config`.
_OPTION = re.compile(
    r"'?\b([a-z_]{2,40})'?(?:=|: )(?:[A-Z]\w{0,30}\((?=['\"]))?"
    r"('[^']{0,300}'|\"[^\"]{0,300}\"|[^\s,'\"(){}\[\]=]{1,120}(?=[\s,'\"(){}\[\]]|$))"
)
_ERROR = re.compile(r"\b[A-Z]\w{2,60}(?:Error|Exception)\b: ")


@dataclass
class Start:
    """What one start said so far.

    parts  value by (rank, field, part): parts of a field add up
    aside  a second model whose beginning comes, or whose lines are being read
    """

    values: dict[str, Any] = field(default_factory=dict)
    parts: dict[tuple[str, str, str], float] = field(default_factory=dict)
    refusal: Refusal | None = None
    notes: list[str] = field(default_factory=list)
    matched: int = 0
    aside: Literal["", "comes", "is read"] = ""

    @property
    def told(self) -> bool:
        """Whether it came to its memory, served or ended: another beginning is another start then."""
        pool = any(name == "kv_pool_bytes" for _, name, _ in self.parts)
        return pool or self.refusal is not None or bool(self.values.get("started"))


class Reader:
    """Reads the lines of one engine; `kinds` is how many kinds of line it knew."""

    def __init__(self, lines: LogLines) -> None:
        self.lines = lines
        self.start = Start()
        self.starts = 1
        self.kinds: set[str] = set()

    def read(self, line: str) -> None:
        """Take what a line says."""
        for option in self.lines.option_lines:
            if option.find in line:
                self._begin(option.begins)
                self._options(line[line.find(option.find) :])
                self._matched(option.find)
        for known in self.lines.lines:
            if known.find in line:
                self._known(known, line)
        for note in self.lines.notes:
            if note.find in line and note.means not in self.start.notes:
                self.start.notes.append(note.means)
        self._refusal(line)

    def _begin(self, begins: bool) -> None:
        if begins and self.start.told:
            self.start = Start()
            self.starts += 1

    def _matched(self, kind: str) -> None:
        self.kinds.add(kind)
        self.start.matched += 1

    def _options(self, line: str) -> None:
        seen: set[str] = set()
        for name, text in _OPTION.findall(line):
            target = self.lines.options.get(name)
            value = text.strip("'\"")
            if target is None or target in seen or value in NO_VALUE:
                continue
            seen.add(target)
            self._set(target, self.lines.values.get(value, value))

    def _known(self, known: Line, line: str) -> None:
        match = compiled(known.pattern).search(line) if known.pattern else None
        if (known.pattern and match is None) or self._aside(known):
            return
        self._begin(known.begins)
        self._matched(known.find)
        if known.aside:
            self.start.aside = "comes"
        for name, value in known.fields.items():
            self.start.values[name] = value
        if known.fields.get("started") and self.start.refusal is not None:
            self.start.notes.append(f"{TRIED} {self.start.refusal.text}")
            self.start.refusal = None
        if match is None:
            return
        groups = {name: text for name, text in match.groupdict().items() if text is not None}
        rank = groups.pop("rank", None) or self._rank(line)
        for name, text in groups.items():
            target, part, factor = _target(name)
            if target in RANK_FIELDS:
                self._add((rank, target, part), _number(target, text, float), factor, known.keep)
            else:
                keep: Keep = "last" if known.keep == "sum" else known.keep
                self._set(target, self.lines.values.get(text, text), keep)

    def _aside(self, known: Line) -> bool:
        """Whether a line is of a second model: its beginning, or one of its figures."""
        start = self.start
        if known.begins and start.aside == "comes":
            start.aside = "is read"
            return True
        return bool(start.aside) and not known.begins and known.pattern is not None

    def _rank(self, line: str) -> str:
        found = compiled(self.lines.rank).search(line) if self.lines.rank else None
        return found.group("rank").strip() if found else ""

    def _add(self, key: tuple[str, str, str], value: float | None, factor: float, keep: Keep) -> None:
        if value is None:  # digits and dots that are no number
            return
        old = self.start.parts.get(key)
        self.start.parts[key] = value * factor if old is None else _kept(old, value * factor, keep)

    def _set(self, name: str, value: Any, keep: Keep = "last") -> None:
        new = _typed(name, value)
        if new is None:
            return
        old = self.start.values.get(name)
        if old is not None and isinstance(new, int | float) and not isinstance(new, bool):
            new = _kept(old, new, keep)
        self.start.values[name] = new

    def _refusal(self, line: str) -> None:
        """The first named cause stands; what only says that there was one gives way to it."""
        held = self.start.refusal
        if held is not None and held.kind != "other":
            return
        for known in self.lines.refusals:
            if known.find not in line or (held is not None and known.kind == "other"):
                continue
            match = compiled(known.pattern).search(line) if known.pattern else None
            if known.pattern and match is None:
                continue
            self._matched(known.find)
            if self.start.values.get("started"):
                if not any(note.startswith(LATER) for note in self.start.notes):
                    self.start.notes.append(f"{LATER} {_shown(line)}")
                return
            figures = _refusal_figures({} if match is None else match.groupdict())
            self.start.refusal = Refusal(kind=known.kind, text=_shown(line), **figures)
            return

    def record(self, source: str, skipped_bytes: int = 0) -> StartLog:
        """What was read of the last start."""
        start, notes = self.start, list(self.start.notes)
        if self.starts > 1:
            notes.append(f"the file holds {self.starts} starts: the last is read")
        if skipped_bytes:
            notes.append(f"{skipped_bytes} bytes between the file's head and tail were not read")
        values = dict(start.values)
        if start.refusal is not None:
            values["started"] = False
            if values.get("context_tokens") is None:
                values["context_tokens"] = start.refusal.context_tokens
        blocks, size = values.get("kv_blocks"), values.get("block_tokens")
        if values.get("kv_pool_tokens") is None and blocks and size:
            values["kv_pool_tokens"] = blocks * size
        data = {
            "source": source,
            "engine": self.lines.engine,
            "together": self.lines.together,
            "ranks": self._ranks(),
            "refusal": start.refusal,
            "starts": self.starts,
            "notes": tuple(notes),
            "matched_lines": start.matched,
            **values,
        }
        return validate_record(StartLog, data, source)

    def _ranks(self) -> tuple[RankMemory, ...]:
        sums: dict[str, dict[str, Any]] = {}
        others = {name for _, name, part in self.start.parts if part != ALONE}
        for (rank, name, part), value in self.start.parts.items():
            if part == ALONE and name in others:
                continue
            figures = sums.setdefault(rank, {})
            if name == "kv_pool_bytes" and name in figures:
                figures["kv_pool_figures"] = figures.get("kv_pool_figures", 1) + 1
            figures[name] = figures.get(name, 0.0) + value
        host = self.lines.host_ranks
        return tuple(
            RankMemory(rank=rank, host=bool(host and compiled(host).search(rank)), **figures)
            for rank, figures in sums.items()
        )


def _kept(old: float, new: float, keep: Keep) -> float:
    match keep:
        case "first":
            return old
        case "sum":
            return old + new
        case "max":
            return max(old, new)
        case "min":
            return min(old, new)
    return new


def _target(name: str) -> tuple[str, str, float]:
    """Field, part and factor of a group's name: `kv_pool_gib__k` is part k of kv_pool_bytes, in GiB."""
    base, _, part = name.partition("__")
    stem, _, unit = base.rpartition("_")
    if unit in UNITS:
        return f"{stem}_bytes", part, float(UNITS[unit])
    return base, part, 1.0


def _typed(name: str, value: Any) -> Any:
    """A value as its field takes it, by the unit in its name."""
    if isinstance(value, bool) or not isinstance(value, str):
        return value
    if name in FLAGS:
        return value not in ("False", "false", "0")
    if name in WHOLE or name.endswith("_tokens") or name == "max_num_batched_tokens":
        return _number(name, value, int)
    if name.endswith(("_bytes", "_s", "_share")) or name == "max_concurrency":
        return _number(name, value, float)
    return value[:SHOWN_CHARS]


def _number(name: str, text: str, kind: type) -> Any:
    """A number as printed; None for what is none, or can be none of its field."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    if not 0 <= value <= MOST_FIGURE or (value == 0 and name in ABOVE_ZERO):
        return None
    return kind(value)


def _refusal_figures(groups: Mapping[str, str | None]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, text in groups.items():
        if text is None or name.endswith("_unit"):
            continue
        if name.endswith("_size"):
            stem = name.removesuffix("_size")
            value = _number(f"{stem}_bytes", text, float)
            scale = float(parse_bytes(f"1 {groups[f'{stem}_unit']}"))
            figures[f"{stem}_bytes"] = None if value is None else value * scale
            continue
        target, _, factor = _target(name)
        value = _typed(target, text)
        figures[target] = value * factor if factor != 1.0 and value is not None else value
    return figures


def _shown(line: str) -> str:
    """An error without what stands before it, shortened."""
    found = _ERROR.search(line)
    text = " ".join((line[found.start() :] if found else line).split())
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."


def read_all(readers: Iterable[Reader], lines: Iterable[str]) -> None:
    """Every reader reads the lines that hold a text it knows; the rest, requests mostly, is never looked at."""
    text = "\n".join(lines)
    for reader in readers:
        for start in sorted(_lines_with(text, reader.lines.texts)):
            end = text.find("\n", start)
            reader.read(text[start : end if end >= 0 else len(text)])


def _lines_with(text: str, needles: Iterable[str]) -> set[int]:
    """Where lines begin that hold any of the texts."""
    found: set[int] = set()
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            found.add(text.rfind("\n", 0, at) + 1)
            end = text.find("\n", at)
            at = text.find(needle, end) if end >= 0 else -1
    return found
