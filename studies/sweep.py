"""Many scenarios at once: a grid of options, or the rows of a file, as blocks of columns.

Rows of a block are evaluated group by group (studies.sweep_groups), so that any number of rows takes the memory of one
block. A row that cannot be gets an error, and the others are computed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from infopt.frozen import dataclass
from infopt.studies.sweep_groups import RESULT_COLUMNS, Groups, Load, Results, unknown
from infopt.studies.sweep_values import KEY_COLUMNS, LOAD_COLUMNS

BLOCK_ROWS = 65_536
OUTPUT_COLUMNS = (*RESULT_COLUMNS, "error")


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a sweep.

    inputs   columns of what was asked, in the order of the sweep's: a sequence of cells, or one cell for all rows
    results  columns of what was found (NaN or -1 where there is no value), and errors by row
    line     the line of a row in the file it was read from
    """

    rows: int
    inputs: Sequence[Any]
    results: Results
    line: Callable[[int], int] | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep that runs as its blocks are taken.

    columns  input columns
    notes    what the reader should know beforehand
    rows     how many there are, None where that is not known yet
    share    part of the work that is done, where the number of rows is not known
    said     what became known while it ran
    """

    columns: tuple[str, ...]
    blocks: Iterator[Block]
    notes: tuple[str, ...] = ()
    rows: int | None = None
    share: Callable[[], float] | None = None
    said: Callable[[], Sequence[str]] = tuple


@dataclass(frozen=True, slots=True)
class Grid:
    """Every combination of these values.

    keys   texts by key column, [""] for the default
    loads  numbers by load column; None for a length that is not given
    """

    keys: Mapping[str, Sequence[str]]
    loads: Mapping[str, Sequence[int] | None]


def grid_sweep(grid: Grid, groups: Groups) -> Sweep:
    """All combinations, concurrency varying fastest.

    Raises InfoptError for a model or hardware that nobody knows; combinations that cannot be get an error in their row.
    """
    for name in grid.keys["model"]:
        groups.model(name)
    for name in grid.keys["hw"]:
        groups.hardware(name)
    axes = [np.array(given or [0], dtype=np.int64) for given in grid.loads.values()]
    rows = prod(len(texts) for texts in grid.keys.values()) * prod(len(axis) for axis in axes)
    blocks = _grid_blocks(grid, axes, groups)
    return Sweep((*KEY_COLUMNS, *LOAD_COLUMNS), blocks, rows=rows, said=groups.calibration_notes)


def _grid_blocks(grid: Grid, axes: Sequence[Any], groups: Groups) -> Iterator[Block]:
    given = [values is not None for values in grid.loads.values()]
    inner = prod(len(axis) for axis in axes)
    for key in product(*(grid.keys[name] for name in KEY_COLUMNS)):
        group = groups.group(key)
        for start in range(0, inner, BLOCK_ROWS):
            rows = np.arange(start, min(inner, start + BLOCK_ROWS))
            cells = _axis_values(axes, rows)
            if isinstance(group, str):
                results = no_results(len(rows), group)
            else:
                lengths = [column if is_given else None for column, is_given in zip(cells, given, strict=True)]
                results = group.results(Load(*lengths))
            shown = [column if is_given else "" for column, is_given in zip(cells, given, strict=True)]
            yield Block(len(rows), (*key, *shown), results)


def _axis_values(axes: Sequence[Any], rows: Any) -> list[Any]:
    """Values of the axes at flat row numbers, the last axis varying fastest."""
    found: list[Any] = []
    for axis in reversed(axes):
        found.append(axis[rows % len(axis)])
        rows = rows // len(axis)
    return found[::-1]


def no_results(rows: int, error: str) -> Results:
    """Rows that all have the same error."""
    return Results({name: unknown(name, rows) for name in RESULT_COLUMNS}, dict.fromkeys(range(rows), error))
