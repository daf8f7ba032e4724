"""How published request traces name their columns, as data: which form a file has, or why none.

The forms and their sources are in data/trace_columns.yaml.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from infopt.errors import InfoptError, nearest
from infopt.records import Record, read_yaml, validate_record

FORMS = Path(__file__).resolve().parent / "data" / "trace_columns.yaml"


class TimeColumn(Record):
    """Where the time is, and in what."""

    column: str
    unit: Literal["s", "ms", "date"]


class PrefixColumn(Record):
    """Where the ids of a prompt's blocks are, tokens of one, and how much of a prompt they cover."""

    column: str
    block_tokens: int
    blocks: Literal["all", "most", "some"]


class Form(Record):
    """One way to write a trace; the fields are explained at the top of the data file."""

    id: str
    what: str
    time: TimeColumn
    input: str
    output: str
    prefix: PrefixColumn | None = None
    tenant: str | None = None
    priority: str | None = None
    tells: list[str] = Field(default_factory=list)
    failed: bool = False
    ignored: list[str] = Field(default_factory=list)
    source: str

    @property
    def needed(self) -> list[str]:
        """Columns without which a file is not of this form."""
        return [self.time.column, self.input, self.output, *self.tells]

    @property
    def known(self) -> list[str]:
        """Every column a file of this form may have."""
        optional = [self.prefix.column if self.prefix else None, self.tenant, self.priority, *self.ignored]
        return list(dict.fromkeys([*self.needed, *(name for name in optional if name)]))


class Refused(Record):
    """A known set of columns from which no arrivals follow."""

    columns: list[str]
    why: str
    source: str


class _Forms(Record):
    forms: list[Form]
    refused: list[Refused]


@cache
def _read() -> _Forms:
    return validate_record(_Forms, read_yaml(FORMS), str(FORMS))


def form_named(name: str) -> Form:
    """The form of an id that `find_form` found."""
    return next(form for form in _read().forms if form.id == name)


def find_form(columns: Sequence[str], where: str) -> Form:
    """The form of a file with these columns.

    Errors: InfoptError naming a column twice, a column that no form with the others has, or the sets that are known.
    """
    have = set(columns)
    for name in columns:
        if columns.count(name) > 1:
            raise InfoptError(f"{where}: column {name!r} is there twice: keep one")
    fitting = [form for form in _read().forms if have.issuperset(form.needed)]
    if not fitting:
        raise _unknown(have, where)
    form = max(fitting, key=lambda form: len(form.needed))
    for name in columns:
        if name not in form.known:
            close = nearest(name, form.known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InfoptError(
                f"{where}: unknown column {name[:40]!r} in a trace of the form {form.id} "
                f"({', '.join(form.known)}){hint or ': remove it'}"
            )
    return form


def _unknown(have: set[str], where: str) -> InfoptError:
    for refused in _read().refused:
        if have.issuperset(refused.columns):
            return InfoptError(f"{where}: a trace with {', '.join(refused.columns)} cannot be replayed: {refused.why}")
    sets = "; ".join(f"{','.join(form.needed)} ({form.id})" for form in _read().forms)
    shown = ", ".join(name if name.isprintable() else repr(name) for name in sorted(have)[:8]) or "none"
    return InfoptError(f"{where}: no trace is known with the columns {shown[:200]}; known: {sets}")
