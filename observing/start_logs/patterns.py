"""Lines of an engine's log as data: observing/data/start_logs/<engine>.yaml.

A line is found by a text it holds and read by a pattern. Names of the pattern's groups are fields of the record, their
unit last: `weights_gib` fills weights_bytes. Parts after two underscores add up (`kv_pool_gib__k`, `kv_pool_gib__v`),
the part `alone` counts where no other of its field was read. A `<field>_size` with a `<field>_unit` is a number whose
unit the line says.
"""

import re
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from infopt.observing.start_logs.record import RefusalKind
from infopt.records import Record, names_in, read_yaml, validate_record

DATA = Path(__file__).resolve().parents[1] / "data" / "start_logs"
# Lines any engine on torch may end with.
COMMON = "common"
Keep = Literal["last", "first", "sum", "max", "min"]


class Line(Record):
    """One kind of line.

    find     text it holds: looked for before the pattern, so that other lines cost next to nothing
    pattern  how its figures are read, None where the line itself says all
    fields   what the line says by being there
    keep     of several: last, first, sum, max or min
    begins   another start begins with it;  aside  a second model is loaded now: its figures are not read
    example  a line of this kind, ours in its numbers
    """

    find: str
    pattern: str | None = None
    fields: dict[str, bool | int | str] = Field({})
    keep: Keep = "last"
    begins: bool = False
    aside: bool = False
    example: str


class OptionLine(Record):
    """A line that lists options as `name=value` or `'name': value`."""

    find: str
    begins: bool = False
    example: str


class RefusalLine(Record):
    """A line an engine ends with."""

    find: str
    pattern: str | None = None
    kind: RefusalKind
    example: str


class NoteLine(Record):
    """A warning that bears on memory, and what it means."""

    find: str
    means: str


class LogLines(Record):
    """Everything read of one engine's log.

    telling      what to look for in a log of this engine, for those who gave another file
    rank         pattern of the part of a line that names its rank
    host_ranks   pattern of ranks that are memory of the host
    together     figures of all ranks add up to one model
    options      names in option lines, and the fields they fill
    values       words of options, and ours for them
    """

    engine: str
    telling: str = ""
    source: str
    rank: str | None = None
    host_ranks: str | None = None
    together: bool = False
    lines: list[Line] = Field([])
    option_lines: list[OptionLine] = Field([])
    options: dict[str, str] = Field({})
    values: dict[str, str] = Field({})
    refusals: list[RefusalLine] = Field([])
    notes: list[NoteLine] = Field([])

    @property
    def texts(self) -> set[str]:
        """Everything a line is found by."""
        return {line.find for group in (self.lines, self.option_lines, self.refusals, self.notes) for line in group}


@cache
def log_lines_of(engine: str) -> LogLines:
    """What is read of an engine's log; refusals of torch after its own."""
    path = DATA / f"{engine}.yaml"
    lines = validate_record(LogLines, read_yaml(path), str(path))
    if engine == COMMON:
        return lines
    return lines.model_copy(update={"refusals": [*lines.refusals, *log_lines_of(COMMON).refusals]})


@cache
def logged_engines() -> tuple[str, ...]:
    """Engines whose start-up logs are read."""
    return tuple(name for name in names_in(DATA) if name != COMMON)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern, compiled once."""
    return re.compile(pattern)
