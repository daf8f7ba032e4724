"""Refresh the tables of keys in docs/json.md from the JSON Schemas: `python tools/docs_schemas.py`.

Between `<!-- keys: NAME -->` and `<!-- end of keys -->` stand the keys of `infopt schema NAME`: where, type, meaning.
What a schema uses twice is written out where it comes first. `<!-- keys: NAME, not below: a[], b -->` leaves out what
is under some keys, told elsewhere on the page.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infopt.reports.markdown import escape
from infopt.reports.schemas import schema_text

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "json.md"
PART = re.compile(
    r"(?P<begin><!-- keys: (?P<name>\w+)(?:, not below: (?P<without>[^>]+?))? -->\n).*?(?P<end><!-- end of keys -->)",
    re.DOTALL,
)
HEAD = "| key | type | meaning |\n|---|---|---|\n"

Schema = dict[str, Any]


def filled(text: str) -> str:
    """The page with its tables as the schemas are now."""
    return PART.sub(lambda part: f"{part['begin']}\n{keys(part['name'], part['without'])}\n{part['end']}", text)


def keys(name: str, without: str | None = None) -> str:
    """The table of a schema."""
    schema = json.loads(schema_text(name))
    left_out = tuple(key.strip() for key in without.split(",")) if without else ()
    found = _below(schema, "", schema.get("$defs", {}), {})
    rows = [row for row in found if not row[0].startswith(tuple(f"{key}." for key in left_out))]
    return HEAD + "".join(f"| `{key}` | {kind} | {escape(meaning)} |\n" for key, kind, meaning in rows)


def _below(node: Schema, path: str, parts: dict[str, Schema], told: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Rows of what is inside an object, or of the items of an array."""
    for key, value in node.get("properties", {}).items():
        here = f"{path}.{key}" if path else key
        yield from _row(value, here, parts, told)
    for inner in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
        yield from _below(_whole(inner, parts), path, parts, told)
    if isinstance(node.get("items"), dict):
        yield from _below(_whole(node["items"], parts), f"{path}[]", parts, told)


def _row(value: Schema, here: str, parts: dict[str, Schema], told: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    used = _named(value)
    first = told.get(used) if used else None
    whole = _whole(value, parts)
    meaning = _meaning(whole)
    if first:
        yield here, _kind(whole, parts), f"{meaning}{'; ' if meaning else ''}keys as of `{first}`"
        return
    if used:
        told[used] = here
    yield here, _kind(whole, parts), meaning
    yield from _below(whole, here, parts, told)


def _named(value: Schema) -> str:
    """The part of the schema that a value, a null beside it, or its items refer to."""
    inner = [value, *value.get("anyOf", ()), *value.get("oneOf", ())]
    inner += [value["items"]] if isinstance(value.get("items"), dict) else []
    return next((part["$ref"].rpartition("/")[2] for part in inner if "$ref" in part), "")


def _whole(node: Schema, parts: dict[str, Schema]) -> Schema:
    """A schema with what it refers to in place."""
    if "$ref" not in node:
        return node
    return {**parts[node["$ref"].rpartition("/")[2]], **{key: value for key, value in node.items() if key != "$ref"}}


def _kind(node: Schema, parts: dict[str, Schema]) -> str:
    """The type in words."""
    if "const" in node:
        return f"`{node['const']}`"
    choices = [_whole(inner, parts) for inner in (*node.get("anyOf", ()), *node.get("oneOf", ()))]
    if choices:
        return " or ".join(dict.fromkeys(_kind(inner, parts) for inner in choices))
    given = node.get("type", "string" if "enum" in node else "any")
    names = given if isinstance(given, list) else [given]
    names = [*names, "null"] if None in node.get("enum", ()) and "null" not in names else names
    items = _whole(node["items"], parts).get("type") if isinstance(node.get("items"), dict) else None
    of = f" of {items}s" if isinstance(items, str) else ""
    return " or ".join(f"array{of}" if name == "array" else name for name in names)


def _meaning(node: Schema) -> str:
    """The description, with the values there are."""
    values = ", ".join(f"`{value}`" for value in node.get("enum", ()) if value is not None)
    return ": ".join(filter(None, (node.get("description", ""), values)))


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
