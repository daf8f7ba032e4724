"""Document 2's workload matrix (section 15) as data: each cell is one change to a common base, or to another cell.

The cells are in data/matrix.yaml. A cell's traffic is that of its base with the fields of `changes` put in their place,
so two cells that are compared differ in one thing.
"""

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from infopt.arrivals.profiles import load_profile
from infopt.arrivals.traffic import Traffic
from infopt.errors import InfoptError, unknown_name
from infopt.frozen import dataclass
from infopt.records import Record, read_yaml, validate_record

MATRIX = Path(__file__).resolve().parent / "data" / "matrix.yaml"


@dataclass(frozen=True, slots=True)
class Cell:
    """One workload of the matrix.

    row       the line of document 2 it covers
    variable  the one thing that differs from `over`; empty for the base
    over      id of the cell it differs from; None: the base itself
    changes   (field of Traffic, value) of what differs
    not_shown what a simulation cannot show of it; empty: nothing known
    """

    id: str
    row: str
    what: str
    variable: str
    over: str | None
    changes: tuple[tuple[str, Any], ...]
    traffic: Traffic
    not_shown: str
    source: str


class _Cell(Record):
    id: str
    row: str
    what: str
    variable: str = ""
    over: str | None = None
    changes: dict[str, Any] = Field({})
    not_shown: str = ""
    source: str


class _Matrix(Record):
    base_profile: str
    source: str
    cells: list[_Cell]


@cache
def _matrix() -> _Matrix:
    return validate_record(_Matrix, read_yaml(MATRIX), str(MATRIX))


def base_profile() -> str:
    """The workload profile that the base cell is."""
    return _matrix().base_profile


@cache
def matrix_cells() -> tuple[Cell, ...]:
    """All cells, the base first; a cell stands behind the one it differs from."""
    matrix = _matrix()
    made: dict[str, Cell] = {}
    for cell in matrix.cells:
        where = f"{MATRIX}: cell {cell.id}"
        if cell.over is not None and cell.over not in made:
            raise InfoptError(f"{where}: {cell.over} is no cell above it")
        traffic = load_profile(matrix.base_profile).traffic if cell.over is None else made[cell.over].traffic
        values = traffic.model_dump() | cell.changes
        made[cell.id] = Cell(
            id=cell.id,
            row=cell.row,
            what=cell.what,
            variable=cell.variable,
            over=cell.over,
            changes=tuple(cell.changes.items()),
            traffic=validate_record(Traffic, values, where),
            not_shown=cell.not_shown,
            source=cell.source,
        )
    return tuple(made.values())


def matrix_cell(name: str) -> Cell:
    """The cell of this id. Errors: InfoptError listing them where there is none."""
    cells = {cell.id: cell for cell in matrix_cells()}
    if name not in cells:
        raise unknown_name("cell of the workload matrix", name, cells, f"known: {', '.join(cells)}")
    return cells[name]
