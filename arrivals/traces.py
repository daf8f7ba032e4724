"""A trace file, or one of those shipped, as arrivals: streamed line by line, so that its length does not matter.

    t_i = (T_i - T_0) / r
T_i seconds of request i in the file, T_0 of the first that is taken, r how many times as fast it is replayed. Answers
keep their lengths, whatever the time between requests. Shipped traces with their sources: data/traces.yaml.
Ignored: how long requests took where they were recorded, and that a user's next turn waits for the answer.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from infopt.arrivals.arrival import Arrival
from infopt.arrivals.trace_forms import find_form, form_named
from infopt.arrivals.trace_lines import columns_of, opened
from infopt.arrivals.trace_rows import read_rows
from infopt.errors import InfoptError, nearest
from infopt.frozen import dataclass
from infopt.records import Record, read_yaml, validate_record

DATA = Path(__file__).resolve().parent / "data"
EVERYONE = "all"  # the tenant of a trace that names none


class ShippedTrace(Record):
    """A trace that comes with the package; sha256 is of its unpacked text."""

    id: str
    file: str
    what: str
    requests: int
    sha256: str
    licence: str
    source: str


class _Shipped(Record):
    traces: list[ShippedTrace]


class Skipped:
    """Rows that a stream left out, counted as it runs."""

    def __init__(self) -> None:
        self.failed = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """Arrivals of a trace file; make one with `open_trace`.

    form           how its columns are named, an id of data/trace_columns.yaml
    speed_ratio    replayed so many times as fast
    most_requests  the first so many only
    start_s, duration_s  the part of the file from start_s on, in the file's own seconds since its first request
    requests       None: not counted
    """

    path: Path
    form: str
    name: str
    prefix_block_tokens: int = 0
    tenants: tuple[str, ...] = (EVERYONE,)
    speed_ratio: float = 1.0
    most_requests: int | None = None
    start_s: float = 0.0
    duration_s: float | None = None
    requests: int | None = None
    warmup_s: float = 0.0
    warmup_requests: int = 0
    users: int | None = None

    def stream(self, skipped: Skipped | None = None) -> Iterator[Arrival]:
        """The requests; `skipped` counts those that failed where they were recorded and are left out.

        Errors: InfoptError at the first bad line, or where no request is left.
        """
        return _stream(self, skipped or Skipped())


def _stream(trace: Trace, skipped: Skipped) -> Iterator[Arrival]:
    form = form_named(trace.form)
    tenant_at = {name: index for index, name in enumerate(trace.tenants)} | {"": 0}  # "": the file names no tenants
    end_s = float("inf") if trace.duration_s is None else trace.start_s + trace.duration_s
    most = float("inf") if trace.most_requests is None else trace.most_requests
    file_first_s: float | None = None
    first_s, taken, speed_ratio = 0.0, 0, trace.speed_ratio
    with opened(trace.path) as file:
        for time_s, inputs, outputs, ids, tenant, priority in read_rows(
            trace.path, file, form, trace.prefix_block_tokens
        ):
            if file_first_s is None:
                file_first_s = time_s
            if time_s - file_first_s < trace.start_s:
                continue
            if time_s - file_first_s >= end_s or taken >= most:
                break
            if not outputs:
                skipped.failed += 1
                continue
            if not taken:
                first_s = time_s
            taken += 1
            yield Arrival((time_s - first_s) / speed_ratio, inputs, outputs, ids, tenant_at[tenant], priority)
    if not taken:
        part = file_first_s is not None and (trace.start_s > 0 or trace.duration_s is not None)
        where = " in the part asked for" if part else ""
        failed = f": {skipped.failed} failed where they were recorded" if skipped.failed else ""
        raise InfoptError(f"{trace.path}: holds no requests{where}{failed}")


@cache
def shipped_traces() -> dict[str, ShippedTrace]:
    """The traces that come with the package, by id."""
    path = DATA / "traces.yaml"
    return {trace.id: trace for trace in validate_record(_Shipped, read_yaml(path), str(path)).traces}


def open_trace(
    name: str,
    *,
    speed_ratio: float = 1.0,
    most_requests: int | None = None,
    start_s: float = 0.0,
    duration_s: float | None = None,
    block_tokens: int | None = None,
) -> Trace:
    """The trace of an id in data/traces.yaml or at a path; only its first line is read (all of it if it has tenants).

    block_tokens  of one id of a block, where the file was written with another size than its form's

    Errors: InfoptError for an unknown name, a file that is none, and columns that are not known.
    """
    _check_part(speed_ratio, most_requests, start_s, duration_s, block_tokens)
    shipped = shipped_traces().get(name)
    path = DATA / "traces" / shipped.file if shipped else Path(name)
    if not shipped and not path.exists():
        known = shipped_traces()
        close = nearest(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InfoptError(f"trace {name!r} is no file and no trace that comes with infopt ({', '.join(known)}){hint}")
    columns = columns_of(path)
    form = find_form(columns, str(path))
    whole = most_requests is None and not start_s and duration_s is None
    blocks = form.prefix if form.prefix and form.prefix.column in columns else None
    if block_tokens is not None and blocks is None:
        raise InfoptError(f"{path}: has no ids of blocks, so none has {block_tokens} tokens")
    trace = Trace(
        path=path,
        form=form.id,
        name=name,
        prefix_block_tokens=(block_tokens or blocks.block_tokens) if blocks else 0,
        speed_ratio=speed_ratio,
        most_requests=most_requests,
        start_s=start_s,
        duration_s=duration_s,
        requests=shipped.requests if shipped and whole else None,
    )
    return _with_tenants(trace) if form.tenant in columns else trace


def _check_part(
    speed_ratio: float, most_requests: int | None, start_s: float, duration_s: float | None, block_tokens: int | None
) -> None:
    checked = {
        "the speed of a trace": speed_ratio,
        "the most requests of a trace": most_requests,
        "the duration of a trace": duration_s,
        "the tokens of a block": block_tokens,
    }
    for what, value in checked.items():
        if value is not None and not 0 < value < float("inf"):
            raise InfoptError(f"{what} is {value:g}: it must be more than 0")
    if not 0 <= start_s < float("inf"):
        raise InfoptError(f"the start of a trace is {start_s:g} s: it must be 0 or more")


def _with_tenants(trace: Trace) -> Trace:
    """The trace with the names of its tenants, for which the whole file is read once."""
    import dataclasses

    with opened(trace.path) as file:
        rows = read_rows(trace.path, file, form_named(trace.form), trace.prefix_block_tokens)
        names = dict.fromkeys(row[4] for row in rows)
    return dataclasses.replace(trace, tenants=tuple(names) or trace.tenants)
