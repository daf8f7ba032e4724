"""Rows of a trace file as requests: numbers checked as they stream by, and what is wrong said by line and column.

The loop over a CSV file looks at every cell once, cheaply; a row it cannot take as it is goes to `Checks`, which takes
what is only spelled differently ("374.0") and names what is wrong. Times are in seconds of the file's own clock.
"""

import math
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NoReturn

from infopt.arrivals.arrival import MOST_TOKENS
from infopt.arrivals.trace_forms import Form
from infopt.arrivals.trace_lines import csv_rows, json_rows, kind_of
from infopt.errors import InfoptError

PER_S = {"s": 1, "ms": 1000}
MOST_PRIORITY = 10**6
MOST_TIME_S = 1e12  # 30,000 years: more is another unit
MOST_DIGITS = 40  # of an id
SHOWN = 40  # characters of a value in an error

# time_s, input, output (0: failed), ids of blocks, tenant, priority
Row = tuple[float, int, int, tuple[int, ...], str, int]


class Checks:
    """What a cell must be; every error names file, line, column and value."""

    def __init__(self, path: Path, form: Form, block_tokens: int) -> None:
        self.path, self.form, self.block_tokens = path, form, block_tokens
        self.line = 0
        self.first_date: datetime | None = None

    def fail(self, column: str, value: object, why: str) -> NoReturn:
        shown = value if isinstance(value, str) else repr(value)
        shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "..."
        named = column if column.isprintable() else repr(column)
        raise InfoptError(f"{self.path}: line {self.line}: {named[:SHOWN]} {shown!r}: {why}")

    def number(self, column: str, value: Any) -> float:
        """A finite number; text only where the cell came from CSV, in which everything is text."""
        if isinstance(value, str) and value.strip() == "":
            self.fail(column, value, "is missing")
        if isinstance(value, bool) or not isinstance(value, int | float | str) or "_" in str(value):
            self.fail(column, value, "is not a number")
        try:
            number = float(value)
        except (ValueError, OverflowError):
            self.fail(column, value, "is not a number")
        if not math.isfinite(number):
            self.fail(column, value, "is not a finite number")
        return number

    def whole(self, column: str, value: Any, most: int) -> int:
        number = self.number(column, value)
        if number != math.floor(number):
            self.fail(column, value, "is not a whole number")
        if number > most:
            self.fail(column, value, f"is more than {most}")
        return int(number)

    def time_s(self, value: Any) -> float:
        unit, column = self.form.time.unit, self.form.time.column
        if unit == "date":
            return self._date_s(column, value)
        number = self.number(column, value)
        if number < 0:
            self.fail(column, value, "is negative")
        if number > MOST_TIME_S * PER_S[unit]:
            self.fail(column, value, f"is more than {MOST_TIME_S:g} s: the column is in {unit}")
        return number / PER_S[unit]

    def _date_s(self, column: str, value: Any) -> float:
        """Seconds since the first date of the file."""
        try:
            date = datetime.fromisoformat(value.strip())
        except (ValueError, AttributeError):
            self.fail(column, value, "is not a date and time such as 2023-11-16 18:15:46.68")
        if self.first_date is None:
            self.first_date = date
        try:
            return (date - self.first_date).total_seconds()
        except TypeError:
            self.fail(column, value, "some dates have an offset from UTC, others none")

    def tokens(self, column: str, value: Any, *, least: int) -> int:
        tokens = self.whole(column, value, MOST_TOKENS)
        if tokens < least:
            self.fail(column, value, "is negative" if tokens < 0 else "is zero: a request has at least one token")
        return tokens

    def blocks(self, value: Any, input_tokens: int) -> tuple[int, ...]:
        """Ids of the prompt's blocks, as many as it can have, or must have where the form says so."""
        prefix = self.form.prefix
        assert prefix is not None
        column, ids = prefix.column, value
        if not isinstance(ids, list):
            self.fail(column, value, "is not a list of block ids")
        for block in ids:
            if type(block) is not int or block < 0:
                self.fail(column, block, "is not a block id: whole numbers from 0 on")
        most = -(-input_tokens // self.block_tokens)
        least = {"all": most, "most": input_tokens // self.block_tokens, "some": 0}[prefix.blocks]
        if not least <= len(ids) <= most:
            asked = f"{most}" if least == most else f"{least} to {most}"
            why = f"{input_tokens} input tokens are {asked} blocks of {self.block_tokens}"
            self.fail(column, f"{len(ids)} ids", why)
        return tuple(ids)


def read_rows(path: Path, file: IO[str], form: Form, block_tokens: int) -> Iterator[Row]:
    """The requests of an opened trace, in its order; failed ones too (output 0) where the form has them."""
    checks = Checks(path, form, block_tokens)
    if kind_of(path) == "jsonl":
        return _from_json(checks, file)
    return _from_csv(checks, file)


def _in_order(checks: Checks, time_s: float, last_s: float, value: Any) -> float:
    if time_s < last_s:
        checks.fail(checks.form.time.column, value, "is before the line above: times must not fall; sort the file")
    return time_s


def _from_json(checks: Checks, file: IO[str]) -> Iterator[Row]:
    form, last_s, columns = checks.form, 0.0, None
    least_output = 0 if form.failed else 1
    blocks = form.prefix.column if form.prefix else ""
    numbers = [form.input, form.output, *([] if form.time.unit == "date" else [form.time.column])]
    for line, row in json_rows(checks.path, file):
        checks.line = line
        columns = row.keys() if columns is None else columns
        if row.keys() != columns or None in row.values():
            _uneven(checks, row, columns)
        for name in numbers:
            if isinstance(row[name], str):
                checks.fail(name, row[name], "is text, not a number")
        last_s = _in_order(checks, checks.time_s(row[form.time.column]), last_s, row[form.time.column])
        input_tokens = checks.tokens(form.input, row[form.input], least=1)
        output_tokens = checks.tokens(form.output, row[form.output], least=least_output)
        ids = checks.blocks(row[blocks], input_tokens) if blocks in row else ()
        yield last_s, input_tokens, output_tokens, ids, _tenant(checks, row), _priority(checks, row)


def _uneven(checks: Checks, row: dict[str, Any], columns: Collection[str]) -> NoReturn:
    """What a line lacks, or has beside the columns of the first line."""
    for name, value in row.items():
        if name not in checks.form.known:
            checks.fail(
                name, value, f"is an unknown column; the form {checks.form.id} has {', '.join(checks.form.known)}"
            )
        if name not in columns:
            checks.fail(name, value, "is not in the first line: every line has the same columns")
    checks.fail(next(name for name in columns if row.get(name) is None), "", "is missing")


def _tenant(checks: Checks, row: dict[str, Any]) -> str:
    name = checks.form.tenant
    if name is None or name not in row:
        return ""
    value = row[name]
    if not isinstance(value, str) or not value.strip():
        checks.fail(name, value, "is not the name of a tenant")
    if not value.strip().isprintable():
        checks.fail(name, value, "is not the name of a tenant: printable characters only")
    return value.strip()


def _priority(checks: Checks, row: dict[str, Any]) -> int:
    name = checks.form.priority
    if name is None or name not in row:
        return 0
    priority = checks.whole(name, row[name], MOST_PRIORITY)
    if priority < 0:
        checks.fail(name, row[name], "is negative: 0 is served first")
    return priority


def _from_csv(checks: Checks, file: IO[str]) -> Iterator[Row]:
    """The loop that ten million lines go through: two conversions and one comparison of a good row."""
    form, rows = checks.form, csv_rows(checks.path, file)
    columns = next(rows)[1]
    at = {name.strip(): index for index, name in enumerate(columns)}
    time_at, input_at, output_at = at[form.time.column], at[form.input], at[form.output]
    width, per_s = len(columns), PER_S.get(form.time.unit)
    optional = _optional(checks, at)
    last_s = 0.0
    for line, row in rows:
        try:
            time_text, input_text, output_text = row[time_at], row[input_at], row[output_at]
            time_s = float(time_text) / per_s if per_s else checks.time_s(time_text)
            input_tokens, output_tokens = int(input_text), int(output_text)
            plain = (
                last_s <= time_s <= MOST_TIME_S
                and 0 < input_tokens <= MOST_TOKENS
                and 0 < output_tokens <= MOST_TOKENS
                and len(row) == width
                and "_" not in time_text + input_text + output_text
            )
        except (ValueError, IndexError, InfoptError):
            plain = False
        checks.line = line
        if not plain:
            time_s, input_tokens, output_tokens = _checked(checks, row, at, last_s)
        last_s = time_s
        if optional:
            yield time_s, input_tokens, output_tokens, *optional(row, input_tokens)
        else:
            yield time_s, input_tokens, output_tokens, (), "", 0


def _checked(checks: Checks, row: list[str], at: dict[str, int], last_s: float) -> tuple[float, int, int]:
    """The three numbers of a row that the fast path did not take, or what is wrong with it."""
    form = checks.form
    if len(row) != len(at):
        raise InfoptError(
            f"{checks.path}: line {checks.line}: has {len(row)} cells, the header {len(at)} "
            f"({', '.join(at)}): one is missing or too many"
        )
    time_text = row[at[form.time.column]]
    time_s = _in_order(checks, checks.time_s(time_text), last_s, time_text)
    input_tokens = checks.tokens(form.input, row[at[form.input]], least=1)
    return time_s, input_tokens, checks.tokens(form.output, row[at[form.output]], least=0 if form.failed else 1)


def _optional(
    checks: Checks, at: dict[str, int]
) -> Callable[[list[str], int], tuple[tuple[int, ...], str, int]] | None:
    """What reads blocks, tenant and priority of a CSV row; None where the file has none of them."""
    form = checks.form
    blocks = form.prefix.column if form.prefix else ""
    there = [name for name in (blocks, form.tenant, form.priority) if name in at]
    if not there:
        return None

    def read(row: list[str], input_tokens: int) -> tuple[tuple[int, ...], str, int]:
        cells: dict[str, Any] = {name: row[at[name]] for name in there if name}
        ids: tuple[int, ...] = ()
        if blocks in cells:
            texts = cells[blocks].split()
            ids = checks.blocks(
                [int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else text for text in texts], input_tokens
            )
        return ids, _tenant(checks, cells), _priority(checks, cells)

    return read
