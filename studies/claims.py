"""Claims of the three source documents, as data: what they print, and which computation stands beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from infopt.errors import InfoptError
from infopt.records import ROOT, Record, names_in, read_yaml, validate_record
from infopt.units import (
    format_bytes,
    format_bytes_per_s,
    format_count,
    format_flop_per_s,
    format_share,
    format_usd,
    format_whole,
    parse_bytes,
    parse_bytes_per_s,
    parse_count,
    parse_flop_per_s,
    parse_seconds,
    parse_share,
)

CLAIMS = ROOT / "studies" / "data" / "claims"

Value = str | int | float | bool


class Computation(Record):
    """One figure of ours: a named function of `studies/claim_*.py` and what it is given."""

    compute: str
    given: dict[str, Value] = Field(default_factory=dict)


class Assumption(Record):
    """What makes theirs true, or what the answer depends on; `{name}` in the text is the value of that name."""

    text: str
    values: dict[str, Computation] = Field(default_factory=dict)


class Claim(Record):
    """One number of a document.

    theirs      as printed: one value, or the two ends of a range; empty where the document gives a formula
    formula     the document's own formula, evaluated, where it prints no value
    unit        base unit of theirs and ours
    at_least    theirs is a lower bound: ours agrees from there on
    ours        one computation, or one per end; empty where nothing can be computed (then it depends)
    tolerance   share by which the two may differ and still agree (how precisely theirs is printed)
    source      where facts of the assumption come from that are in no record of ours
    depends     the document leaves out what decides it; the assumption says what, with the number where it flips
    """

    id: str
    section: str
    statement: str
    theirs: list[str] = Field(default_factory=list, max_length=2)
    formula: Computation | None = None
    unit: str
    at_least: bool = False
    ours: list[Computation] = Field(default_factory=list, max_length=2)
    tolerance: float = 0.01
    depends: bool = False
    source: str = ""
    assumption: Assumption


class Document(Record):
    """The claims of one document. `defaults` fill parameters a computation has and a claim does not give."""

    document: Literal[1, 2, 3]
    title: str
    defaults: dict[str, Value]
    claims: list[Claim]


@dataclass(frozen=True, slots=True)
class Unit:
    """How a base unit is read from a document and printed for a reader."""

    parse: Callable[[str], float]
    format: Callable[[float], str]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InfoptError(f"claims: {text!r} is not a number") from error


def _ratio(text: str) -> float:
    return _number(text.removesuffix("x"))


def _usd(text: str) -> float:
    """Dollars with or without a suffix: "$0.06", "$100M"."""
    plain = text.removeprefix("$")
    return float(parse_count(plain)) if plain[-1:].isalpha() else _number(plain)


def _plain(value: float) -> str:
    return f"{value:.3g}"


def _dollars(value: float) -> str:
    return f"${format_count(value)}" if value >= 10_000 else format_usd(value)


def _counted(one: str, several: str) -> Unit:
    def text(value: float) -> str:
        number = _plain(value) if value < 1000 else format_whole(round(value)) if value < 1e9 else format_count(value)
        return f"{number} {one if number == '1' else several}"

    return Unit(_number, text)


UNITS: dict[str, Unit] = {
    "bytes": Unit(parse_bytes, format_bytes),
    "s": Unit(parse_seconds, lambda value: f"{_plain(value * 1e3)} ms"),
    "bytes_per_s": Unit(parse_bytes_per_s, format_bytes_per_s),
    "flop_per_s": Unit(parse_flop_per_s, format_flop_per_s),
    "share": Unit(parse_share, format_share),
    "ratio": Unit(_ratio, lambda value: f"{_plain(value)}x"),
    "exponent": Unit(_number, _plain),
    "spread": Unit(_number, _plain),
    "cosine": Unit(_number, _plain),
    "bits": Unit(_number, lambda value: f"{value:.5g} bits"),
    "bytes_per_element": Unit(_number, lambda value: f"{_plain(value)} B"),
    "params": Unit(parse_count, format_count),
    "gpus": _counted("GPU", "GPUs"),
    "sequences": _counted("sequence", "sequences"),
    "terms": _counted("term", "terms"),
    "tokens": _counted("token", "tokens"),
    "tokens_per_s": _counted("tok/s", "tok/s"),
    "requests_per_s": _counted("request/s", "requests/s"),
    "reuses": _counted("use", "uses"),
    "usd": Unit(_usd, _dollars),
    "usd_per_hour": Unit(_usd, lambda value: f"${value:.3f}/h"),
    "usd_per_million_tokens": Unit(_usd, lambda value: f"{_dollars(value)} per 1M tokens"),
}


def unit(name: str) -> Unit:
    """The unit called `name`; raises InfoptError for one that no claim may use."""
    if name not in UNITS:
        raise InfoptError(f"claims: unknown unit {name!r}; known are {', '.join(UNITS)}")
    return UNITS[name]


def load_documents() -> tuple[Document, ...]:
    """The claims of all documents, in order."""
    paths = [CLAIMS / f"{name}.yaml" for name in names_in(CLAIMS)]
    return tuple(validate_record(Document, read_yaml(path), str(path)) for path in paths)
