"""Blocks of a sweep as CSV, JSON lines or Parquet."""

import csv
import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from itertools import repeat
from typing import IO, Any, Literal, Protocol

from infopt.errors import InfoptError, MissingExtraError
from infopt.reports.csv_report import cell
from infopt.studies.sweep import OUTPUT_COLUMNS, Block
from infopt.studies.sweep_groups import RESULT_COLUMNS, WHOLE_COLUMNS
from infopt.studies.sweep_values import READ_COLUMNS, column_of, parser_of

SweepFormat = Literal["csv", "json", "parquet"]
TRUTH = {1: True, 0: False, -1: None}
TRUTH_CELLS = {1: "true", 0: "false", -1: ""}


class RowWriter(Protocol):
    """Writes blocks to a stream that is whole after every block, and finished after `close`."""

    def write(self, block: Block) -> None: ...

    def close(self) -> None: ...


def row_writer(form: SweepFormat) -> Callable[[IO[Any], Sequence[str]], RowWriter]:
    """What writes a format, given a stream and the input columns; raises where its extra is not installed."""
    if form == "parquet":
        try:
            importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise MissingExtraError("Parquet", "tables") from error
        return _ParquetWriter
    return _JsonWriter if form == "json" else _CsvWriter


class _CsvWriter:
    """One header line, then a row each: input cells as they stood, unknown values empty."""

    def __init__(self, stream: IO[str], columns: Sequence[str]) -> None:
        self._stream = stream
        self._cells = _Cells()
        csv.writer(stream, lineterminator="\n").writerow((*columns, *OUTPUT_COLUMNS))

    def write(self, block: Block) -> None:
        text = StringIO()
        columns = (repeat(column, block.rows) if isinstance(column, str) else column for column in _inputs(block))
        results = (self._column(name, block) for name in RESULT_COLUMNS)
        csv.writer(text, lineterminator="\n").writerows(zip(*columns, *results, _errors(block), strict=False))
        self._stream.write(text.getvalue())
        self._stream.flush()

    def _column(self, name: str, block: Block) -> Iterable[Any]:
        values = block.results.columns[name]
        if name == "fits":
            return map(TRUTH_CELLS.__getitem__, values.tolist())
        if name in WHOLE_COLUMNS:
            return _known_whole(values, block.rows, "")
        if name.endswith("_per_gpu"):  # few different values among many rows
            return map(self._cells.__getitem__, _listed(values, block.rows))
        return _known(values, block.rows, "")

    def close(self) -> None:
        self._stream.flush()


class _Cells(dict[float, Any]):
    """Cells of numbers, whole ones without a point, each made once."""

    def __missing__(self, value: float) -> Any:
        text = cell(value) if value == value else ""
        if len(self) < 100_000:
            self[value] = text
        return text


class _JsonWriter:
    """One object a line, null where nothing is known; cells that are numbers become numbers."""

    def __init__(self, stream: IO[str], columns: Sequence[str]) -> None:
        self._stream = stream
        self._names = (*columns, *OUTPUT_COLUMNS)
        self._typed = [Typed(name) for name in columns]

    def write(self, block: Block) -> None:
        encode = json.JSONEncoder().encode
        rows = zip(*_typed_columns(block, self._typed), strict=True)
        self._stream.write("".join([encode(dict(zip(self._names, row, strict=True))) + "\n" for row in rows]))
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()


class _ParquetWriter:
    """Typed columns, a row group for every block of some size."""

    def __init__(self, stream: IO[bytes], columns: Sequence[str]) -> None:
        self._arrow = arrow = importlib.import_module("pyarrow")
        self._typed = [Typed(name, strict=True) for name in columns]
        fields = [(name, _arrow_type(arrow, name)) for name in columns]
        fields += [(name, arrow.float64()) for name in OUTPUT_COLUMNS]
        own = {name: arrow.int64() for name in WHOLE_COLUMNS} | {"fits": arrow.bool_(), "error": arrow.string()}
        self._schema = arrow.schema([(name, own.get(name, kind)) for name, kind in fields])
        self._writer = importlib.import_module("pyarrow.parquet").ParquetWriter(stream, self._schema)

    def write(self, block: Block) -> None:
        columns = _typed_columns(block, self._typed)
        arrays = [self._array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))

    def _array(self, values: Sequence[Any], kind: Any) -> Any:
        try:
            return self._arrow.array(values, kind)
        except UnicodeEncodeError:  # bytes of the input that are no UTF-8
            return self._arrow.array([str(value).encode(errors="replace").decode() for value in values], kind)

    def close(self) -> None:
        self._writer.close()


def _arrow_type(arrow: Any, column: str) -> Any:
    kind = Typed(column).kind
    return arrow.string() if kind is None else arrow.float64() if kind is float else arrow.int64()


class Typed(dict[str, Any]):
    """Cells of an input column as numbers where it holds numbers: null for a blank, the text for anything else.

    strict  null for what is no number
    """

    def __init__(self, column: str, strict: bool = False) -> None:
        self._column, self._strict = column, strict
        self._parse, self.kind = parser_of(column)

    def __missing__(self, text: str) -> Any:
        value = self._value(text)
        if len(self) < 100_000:
            self[text] = value
        return value

    def _value(self, text: str) -> Any:
        if not text.strip() and column_of(self._column) in READ_COLUMNS:
            return None
        if self._parse is None:
            return text
        try:
            return self._parse(text, self._column)
        except InfoptError:
            return None if self._strict else text


def _typed_columns(block: Block, typed: Sequence[Typed]) -> list[Sequence[Any]]:
    """All columns as values: numbers, texts, truth values, None."""
    columns: list[Sequence[Any]] = []
    for texts, column in zip(typed, _inputs(block), strict=True):
        if isinstance(column, str):
            columns.append([texts[column]] * block.rows)
        else:
            columns.append([texts[one] if isinstance(one, str) else one for one in column])
    for name in RESULT_COLUMNS:
        values = block.results.columns[name]
        if name == "fits":
            columns.append([TRUTH[one] for one in values.tolist()])
        elif name in WHOLE_COLUMNS:
            columns.append(list(_known_whole(values, block.rows, None)))
        else:
            columns.append(list(_known(values, block.rows, None)))
    return [*columns, _errors(block)]


def _inputs(block: Block) -> list[Any]:
    """Input columns: one text for all rows, or a list."""
    return [column.tolist() if hasattr(column, "tolist") else column for column in block.inputs]


def _listed(values: Any, rows: int) -> list[Any]:
    """A result column as plain numbers."""
    return values.tolist() if getattr(values, "ndim", 0) else [float(values)] * rows


def _known(values: Any, rows: int, missing: Any) -> Iterable[Any]:
    listed = _listed(values, rows)
    return [value if value == value else missing for value in listed]


def _known_whole(values: Any, rows: int, missing: Any) -> Iterable[Any]:
    if not getattr(values, "ndim", 0):
        return repeat(int(values) if values >= 0 else missing, rows)
    return [value if value >= 0 else missing for value in values.tolist()]


def _errors(block: Block) -> list[str]:
    texts = [""] * block.rows
    for row, text in block.results.errors.items():
        texts[row] = text
    return texts
