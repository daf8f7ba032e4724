"""Cases of a sweep from a CSV file: read in blocks, grouped by what they have in common, evaluated as arrays."""

import csv
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from itertools import islice
from typing import IO, Any

import numpy as np

from infopt.errors import InfoptError, nearest
from infopt.frozen import dataclass
from infopt.studies.sweep import BLOCK_ROWS, OUTPUT_COLUMNS, Block, Grid, Sweep, grid_sweep, no_results
from infopt.studies.sweep_groups import RESULT_COLUMNS, Group, Groups, Load, Results, unknown
from infopt.studies.sweep_values import (
    ALIASES,
    BAD,
    BLANK,
    KEY_COLUMNS,
    LOAD_COLUMNS,
    READ_COLUMNS,
    Numbers,
    column_of,
    grid,
)

REQUIRED = ("model", "hw")
# The first block is small, so that something is done soon.
FIRST_ROWS = 2048
MAX_TEXTS = 200_000


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a cases file.

    names  all columns, as they stand
    kept   places of the columns that are written out again
    place  where each column that is read stands
    """

    names: tuple[str, ...]
    kept: tuple[int, ...]
    place: Mapping[str, int]
    notes: tuple[str, ...]


def case_sweep(lines: Iterable[str], where: str, given: Mapping[str, str], groups: Groups) -> Sweep:
    """The rows of a cases file whose text comes line by line, line ends included.

    where  the file's name for messages
    given  cells for columns that the file lacks
    Raises InfoptError for a file that has no header, or lacks the model or the hardware.
    """
    reader = csv.reader(lines, strict=True)
    header = _header(next(iter(_rows(reader, 1, where)), []), where, given)
    columns = tuple(header.names[place] for place in header.kept)
    blocks = _blocks(reader, header, where, given, groups)
    return Sweep(columns, blocks, header.notes, said=groups.calibration_notes)


def open_sweep(
    cases: str | None, options: Mapping[str, str | None], online: bool, calibration: str | None = None
) -> AbstractContextManager[Sweep]:
    """The sweep of a cases file, where one is named, else of the grid the options span.

    calibration  a record for all hardware of the sweep, or `auto`: rows of other hardware have an error
    """
    groups = Groups(online, calibration)
    keys, loads = grid(options)
    if cases is None:
        for name in REQUIRED:
            if not options[name]:
                raise InfoptError(f"no --{name}: give --model and --hw, or --cases FILE.csv")
        loads["concurrency"] = loads["concurrency"] or [1]
        return nullcontext(grid_sweep(Grid(keys, loads), groups))
    for column, found in (keys | loads).items():
        if found is not None and len(found) > 1:
            raise InfoptError(f"{options[column]!r} for column {column} beside --cases: give one value")
    return opened_cases(cases, {column: text for column, text in options.items() if text}, groups)


@contextmanager
def opened_cases(name: str, given: Mapping[str, str], groups: Groups) -> Iterator[Sweep]:
    """The sweep of a cases file, `-` for standard input; see `case_sweep`. A byte-order mark is skipped."""
    if name == "-":
        if sys.stdin is None:
            raise InfoptError("standard input is closed; give --cases a file")
        file: IO[bytes] = sys.stdin.buffer
        size = 0
    else:
        try:
            file = open(name, "rb")  # noqa: SIM115
            size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise InfoptError(f"{name}: cannot be read: {error.strerror}") from error
    with TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
        sweep = case_sweep(lines, "standard input" if name == "-" else name, given, groups)
        yield replace(sweep, share=lambda: file.tell() / size) if size else sweep


def _header(cells: Sequence[str], where: str, given: Mapping[str, str]) -> Header:
    names = tuple(cell.strip() for cell in cells)
    if "\0" in "".join(names):
        raise InfoptError(f"{where}: not UTF-8 text; save it as CSV UTF-8")
    if not any(names):
        raise InfoptError(f"{where}: no header; the first line names the columns: {', '.join(READ_COLUMNS)}")
    place: dict[str, int] = {}
    notes = []
    for index, name in enumerate(names):
        if not name:  # spreadsheets leave commas at the end
            continue
        column = column_of(name)
        if column in place or name in names[:index]:
            raise InfoptError(f"{where}: column {name!r} stands twice (batch and concurrency are one); remove one")
        if column in READ_COLUMNS:
            place[column] = index
        elif name not in OUTPUT_COLUMNS:
            close = nearest(name, (*READ_COLUMNS, *ALIASES), at_most=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            notes.append(f"{where}: column {name!r} is kept but not read{hint}")
    for name in REQUIRED:
        if name not in place and not given.get(name):
            raise InfoptError(f"{where}: no column {name!r} among {', '.join(names)}; add it, or give --{name}")
    old = [name for name in names if name in OUTPUT_COLUMNS]
    if old:
        notes.append(f"{where}: computed anew: {', '.join(old)}")
    kept = tuple(index for index, name in enumerate(names) if name not in old)
    return Header(names, kept, place, tuple(notes))


class Unreadable(list[str]):
    """A line that is no CSV, as a row without cells."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = f"not readable as CSV: {why}"


def _rows(reader: Any, most: int, where: str) -> list[list[str]]:
    """The next rows of a reader, none at its end."""
    rows: list[list[str]] = []
    while len(rows) < most:
        try:
            rows.extend(islice(reader, most - len(rows)))
            break
        except csv.Error as error:  # what was read before stays; the reader goes on with the next line
            rows.append(Unreadable(str(error)))
        except OSError as error:
            if not rows:  # else at the next call
                raise InfoptError(f"{where}: line {reader.line_num}: cannot be read: {error.strerror}") from error
            break
    return rows


def _blocks(reader: Any, header: Header, where: str, given: Mapping[str, str], groups: Groups) -> Iterator[Block]:
    headings = {column: header.names[place] for column, place in header.place.items()}
    numbers = {column: Numbers(column, headings.get(column, column)) for column in LOAD_COLUMNS}
    size, before = FIRST_ROWS, reader.line_num
    while read := _rows(reader, size, where):
        block = [row for row in read if row or isinstance(row, Unreadable)]  # no blank lines
        if block:
            yield _block(block, header, given, groups, numbers, partial(_line, read, before))
        for texts in numbers.values():
            texts.trim(MAX_TEXTS)
        size, before = BLOCK_ROWS, reader.line_num


def _line(read: Sequence[Sequence[str]], before: int, row: int) -> int:
    """The line on which row `row` of a block ends, blank lines and lines inside cells counted."""
    line = before
    for cells in read:
        line += 1 + sum(cell.count("\n") for cell in cells)
        row -= bool(cells) or isinstance(cells, Unreadable)
        if row < 0:
            break
    return line


def _block(
    rows: list[list[str]],
    header: Header,
    given: Mapping[str, str],
    groups: Groups,
    numbers: Mapping[str, Numbers],
    line: Callable[[int], int],
) -> Block:
    errors: dict[int, str] = {}
    width = len(header.names)
    if set(map(len, rows)) != {width}:
        errors = {
            row: cells.why if isinstance(cells, Unreadable) else f"{len(cells)} cells, but the header names {width}"
            for row, cells in enumerate(rows)
            if len(cells) != width
        }
        rows = [[*cells, *[""] * width][:width] for cells in rows]
    cells = list(zip(*rows, strict=True))
    column: dict[str, Sequence[str]] = {name: cells[place] for name, place in header.place.items()}
    loads = {}
    for name, texts in numbers.items():
        read = column.get(name) or [given.get(name, "")] * len(rows)
        loads[name] = np.fromiter(map(texts.__getitem__, read), np.int64, len(rows))
        for row in np.flatnonzero(loads[name] == BAD).tolist():
            errors.setdefault(row, texts.refused[read[row]])
    keys = [column.get(name) or given.get(name, "") for name in KEY_COLUMNS]
    results = _evaluate(keys, loads, errors, groups)
    return Block(len(rows), [cells[place] for place in header.kept], results, line)


def _evaluate(
    keys: Sequence[Sequence[str] | str], loads: Mapping[str, Any], errors: dict[int, str], groups: Groups
) -> Results:
    """Results of rows of different groups; `errors` holds the rows that cannot be evaluated."""
    rows = len(loads["ctx"])
    columns = {name: unknown(name, rows) for name in RESULT_COLUMNS}
    errors = dict(errors)
    ids, found = _key_ids(keys, rows)
    given = [loads[name] != BLANK for name in ("ctx", "isl", "osl")]
    ids = ((ids * 2 + given[0]) * 2 + given[1]) * 2 + given[2]
    if errors:
        ids[list(errors)] = BAD
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=BAD - 1))
    for members in np.split(order, starts[1:]):
        id = int(ids[members[0]])
        if id == BAD:
            continue
        group = groups.group(tuple(cell.strip() for cell in found[id >> 3]))
        part = _group_results(group, loads, id & 7, members)
        for name, values in part.columns.items():
            columns[name][members] = values
        errors |= {int(members[row]): text for row, text in part.errors.items()}
    return Results(columns, errors)


def _group_results(group: Group | str, loads: Mapping[str, Any], pattern: int, members: Any) -> Results:
    if isinstance(group, str):
        return no_results(len(members), group)
    ctx, isl, osl = (
        loads[name][members] if pattern & bit else None for name, bit in (("ctx", 4), ("isl", 2), ("osl", 1))
    )
    batch = loads["concurrency"][members]
    return group.results(Load(ctx, isl, osl, np.where(batch == BLANK, 1, batch)))


def _key_ids(keys: Sequence[Sequence[str] | str], rows: int) -> tuple[Any, list[tuple[str, ...]]]:
    """A number for each row's key cells, and the keys by number. Columns with one cell for all rows cost little."""
    alike = [column if isinstance(column, str) else column[0] for column in keys]
    differing = [
        index for index, column in enumerate(keys) if not isinstance(column, str) and column.count(column[0]) < rows
    ]
    if not differing:
        return np.zeros(rows, dtype=np.int64), [tuple(alike)]
    places: dict[tuple[str, ...], int] = {}
    ids = np.fromiter(
        [places.setdefault(cells, len(places)) for cells in zip(*(keys[index] for index in differing), strict=True)],
        np.int64,
        rows,
    )
    found = []
    for cells in places:
        whole = list(alike)
        for index, cell in zip(differing, cells, strict=True):
            whole[index] = cell
        found.append(tuple(whole))
    return ids, found
