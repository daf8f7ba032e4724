"""Every number of the three source documents beside what the ledgers say, and what makes theirs true.

The claims are data (studies/data/claims); each of our figures is computed when it is asked for.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from infopt.errors import InfoptError
from infopt.studies import (  # noqa: F401  they register their figures
    claim_batching,
    claim_money,
    claim_speculation,
    claim_techniques,
)
from infopt.studies.claim_figures import evaluate
from infopt.studies.claims import Assumption, Claim, Computation, Document, Value, load_documents, unit

Status = Literal["agrees", "differs", "depends"]


@dataclass(frozen=True, slots=True)
class Span:
    """One value, or a range; in base units."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Item:
    """One claim, answered.

    theirs, ours  in the base unit `unit`; None where a document gives no value, or no figure can be computed
    *_text        the same for a reader
    assumption    what makes theirs true, or what decides, with its numbers
    values        the numbers inside the assumption, in base units, by name
    source        of facts in the assumption that are in no record of ours
    """

    id: str
    document: int
    section: str
    statement: str
    theirs: Span | None
    ours: Span | None
    unit: str
    theirs_text: str
    ours_text: str
    status: Status
    assumption: str
    values: Mapping[str, float]
    source: str = ""


def reproduce(document: int | None = None) -> tuple[Item, ...]:
    """All claims in the order of the documents; those of one where `document` is given.

    Raises InfoptError for a document that is not 1, 2 or 3.
    """
    documents = load_documents()
    known = [record.document for record in documents]
    if document is not None and document not in known:
        raise InfoptError(f"--document {document}: there are documents {', '.join(map(str, known))}")
    chosen = [record for record in documents if document in (None, record.document)]
    return tuple(_item(record, claim) for record in chosen for claim in record.claims)


def titles() -> dict[int, str]:
    """Titles of the documents by number."""
    return {record.document: record.title for record in load_documents()}


def _item(record: Document, claim: Claim) -> Item:
    theirs, ours = _theirs(record, claim), _ours(record, claim)
    text, values = _assumption(claim, claim.assumption, record.defaults)
    return Item(
        id=claim.id,
        document=record.document,
        section=claim.section,
        statement=claim.statement,
        theirs=theirs,
        ours=ours,
        unit=claim.unit,
        theirs_text=_printed(claim) or _span_text(theirs, claim.unit, "none"),
        ours_text=_span_text(ours, claim.unit, "not computable"),
        status=_status(claim, theirs, ours),
        assumption=text,
        values=values,
        source=claim.source,
    )


def _theirs(record: Document, claim: Claim) -> Span | None:
    if claim.formula is not None:
        value = _value(claim, claim.formula, record.defaults)
        return Span(value, value)
    return _span([unit(claim.unit).parse(text) for text in claim.theirs])


def _ours(record: Document, claim: Claim) -> Span | None:
    return _span([_value(claim, one, record.defaults) for one in claim.ours])


def _span(values: list[float]) -> Span | None:
    return Span(min(values), max(values)) if values else None


def _value(claim: Claim, computation: Computation, defaults: Mapping[str, Value]) -> float:
    """The computation's value, which must come in the claim's unit."""
    value, found = evaluate(computation, defaults)
    if found != claim.unit:
        raise InfoptError(f"claim {claim.id}: {computation.compute} gives {found}, the claim is in {claim.unit}")
    return value


def _assumption(claim: Claim, assumption: Assumption, defaults: Mapping[str, Value]) -> tuple[str, dict[str, float]]:
    """The text with its numbers filled in, and the numbers."""
    values: dict[str, float] = {}
    shown: dict[str, str] = {}
    for name, computation in assumption.values.items():
        values[name], base = evaluate(computation, defaults)
        shown[name] = _text(values[name], base)
    try:
        return assumption.text.format(**shown), values
    except (KeyError, IndexError) as error:
        raise InfoptError(f"claim {claim.id}: the assumption names {error}, which has no value") from error


def _status(claim: Claim, theirs: Span | None, ours: Span | None) -> Status:
    """Depends where the claim says so; else ours must lie in theirs, ends within the tolerance."""
    if claim.depends:
        return "depends"
    if theirs is None or ours is None:
        raise InfoptError(f"claim {claim.id}: without both figures it can only depend")
    below, above = theirs.low * (1 - claim.tolerance), theirs.high * (1 + claim.tolerance)
    if claim.at_least:
        return "agrees" if ours.low >= below else "differs"
    if ours.low == ours.high:
        return "agrees" if below <= ours.low <= above else "differs"
    near = (math.isclose(getattr(ours, end), getattr(theirs, end), rel_tol=claim.tolerance) for end in ("low", "high"))
    return "agrees" if all(near) else "differs"


def _text(value: float, base: str) -> str:
    return unit(base).format(value) if math.isfinite(value) else "never"


def _span_text(span: Span | None, base: str, nothing: str) -> str:
    if span is None:
        return nothing
    low, high = _text(span.low, base), _text(span.high, base)
    return low if low == high else f"{low} to {high}"


def _printed(claim: Claim) -> str:
    """Theirs with the digits of the document, where it prints a unit beside them."""
    return "" if any(text.replace(".", "").isdigit() for text in claim.theirs) else " to ".join(claim.theirs)
