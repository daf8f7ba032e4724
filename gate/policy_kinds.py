"""Scalars of the policy file: how each kind is read, and the same in JSON Schema, so that both say one thing."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

from infopt.errors import InfoptError, unknown_name
from infopt.frozen import dataclass
from infopt.gate.nodes import FALSE, TRUE, Node, Text, boolean
from infopt.hardware.names import resolve_hardware
from infopt.units import parse_count, parse_rate_per_s, parse_seconds, parse_share, parse_tokens, parse_usd

NUMBER = r"([0-9]+(\.[0-9]+)?|\.[0-9]+)"
# What YAML takes for something other than text where it is not quoted.
NO_TEXT = re.compile(r"[-+]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][-+]?\d+)?|(?i:true|false|yes|no|on|off|null|~|\.nan|\.inf)")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of scalar.

    read    the value of a text; InfoptError or ValueError for what it is not
    schema  the JSON Schema of what `read` takes
    what    what it is called in an error
    plain   unquoted numbers and words of YAML are taken too
    named   a mapping of names to such values
    """

    read: Callable[[str], Any]
    schema: dict[str, Any]
    what: str
    plain: bool = True
    named: bool = False


def value_of(kind: Kind, node: Node) -> Any:
    """The value of a node; InfoptError where it is none of this kind."""
    if kind.named:
        if not isinstance(node, dict):
            raise InfoptError(f"must be names with {kind.what} each")
        each = replace(kind, named=False)
        return {str(name): value_of(each, value) for name, value in node.items()}
    if not isinstance(node, Text):
        raise InfoptError(f"must be {kind.what}")
    if not kind.plain and (not node.strip() or (node.plain and NO_TEXT.fullmatch(node))):
        raise InfoptError(f"{str(node)!r} is not {kind.what}: put it in quotes" if node.strip() else "is empty")
    try:
        return kind.read(node)
    except ValueError as error:
        raise InfoptError(f"{str(node)!r} is not {kind.what}") from error


def _string(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern}$"}


def one_of(*values: str) -> Kind:
    """One of a few words; `off` is no in YAML 1.1, so no is taken for it."""

    def read(text: str) -> str:
        if text not in values:
            raise unknown_name("value", text, values, f"it is one of {', '.join(values)}")
        return str(text)

    return Kind(read, {"enum": [*values, *([False] if "off" in values else [])]}, f"one of {', '.join(values)}")


def _hardware(text: str) -> str:
    resolve_hardware(text)
    return str(text)


def _whole(text: str) -> int:
    return parse_count(text, minimum=0)


def _number(text: str) -> float:
    if not re.fullmatch(NUMBER + r"([eE][-+]?[0-9]{1,2})?", text.strip()):
        raise ValueError
    return float(text)


def _boolean(text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise ValueError
    return boolean(text) is True


def _date(text: str) -> str:
    if len(text) != 10:
        raise ValueError
    return date.fromisoformat(text).isoformat()


TEXT = Kind(str, {"type": "string", "minLength": 1}, "text", plain=False)
VERSION = Kind(str, {"type": ["string", "number"]}, "a version")
HARDWARE = Kind(_hardware, {"type": "string", "minLength": 1}, "hardware", plain=False)
TOKENS = Kind(
    parse_tokens,
    {"anyOf": [{"type": "integer", "minimum": 1}, _string(rf"({NUMBER} ?[kKmM]?|[0-9]{{1,3}}(,[0-9]{{3}})+)")]},
    "a number of tokens",
)
COUNT = Kind(parse_count, {"anyOf": [{"type": "integer", "minimum": 1}, _string("[0-9]+ ?[kKmM]?")]}, "a count")
RATE = Kind(parse_rate_per_s, _string(NUMBER + " ?/(s|min|h)"), "a rate")
SECONDS = Kind(parse_seconds, _string(NUMBER + " ?(ns|us|µs|ms|s|min|h)"), "a duration")
SHARE = Kind(
    parse_share,
    {
        "anyOf": [
            {"type": "number", "minimum": 0, "maximum": 1},
            _string(r"((100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?) ?%|0?\.[0-9]+|[01](\.0+)?)"),
        ]
    },
    "a share",
)
USD = Kind(parse_usd, {"anyOf": [{"type": "number", "minimum": 0}, _string(r"\$?" + NUMBER)]}, "a price")
DATE = Kind(_date, _string("[0-9]{4}-[0-9]{2}-[0-9]{2}"), "a date as 2027-01-31")
SEVERITY = one_of("error", "warning", "note", "off")
WHOLE = Kind(_whole, {"anyOf": [{"type": "integer", "minimum": 0}, _string("[0-9]+ ?[kKmM]?")]}, "a whole number")
FLOAT = Kind(_number, {"anyOf": [{"type": "number", "minimum": 0}, _string(NUMBER)]}, "a number")
BOOLEAN = Kind(_boolean, {"type": "boolean"}, "true or false")


def kind_of(default: Any) -> Kind:
    """The kind of a rule's parameter, by its default."""
    if isinstance(default, dict):
        return replace(WHOLE, named=True, schema={"type": "object", "additionalProperties": WHOLE.schema})
    if isinstance(default, bool):
        return BOOLEAN
    if isinstance(default, int):
        return WHOLE
    return FLOAT if isinstance(default, float) else TEXT
