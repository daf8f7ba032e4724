"""Keeps what the JSON Schemas promise: each key with its type, and which are always there.

    python tools/schema_keys.py        write tests/data/schema_keys.json anew; refused where a promise would be broken

A promise of `infopt/plan/1` holds as long as it is called that: a key that goes, may be missing, or changes its type
needs `infopt/plan/2`. Keys that are added only have to be written down.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from infopt.files import write_text
from infopt.reports.schemas import schema_names, schema_text

FROZEN = Path(__file__).resolve().parent.parent / "tests" / "data" / "schema_keys.json"
ALWAYS = "always "


def promised() -> dict[str, dict[str, str]]:
    """The keys of every schema by its id: path, and type, with `always` where it is required."""
    schemas = [json.loads(schema_text(name)) for name in schema_names()]
    return {schema["$id"]: dict(sorted(keys(schema, schema))) for schema in schemas}


def keys(node: Mapping[str, Any], schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """The keys below a node of a schema."""
    node = _followed(node, schema)
    if path.count(".") > 8:  # a definition that holds itself
        return
    for name, child in node.get("properties", {}).items():
        always = ALWAYS if name in node.get("required", ()) else ""
        yield f"{path}{name}", f"{always}{_kind(_followed(child, schema))}"
        yield from keys(child, schema, f"{path}{name}.")
    if isinstance(node.get("items"), Mapping):
        yield from keys(node["items"], schema, f"{path}[].")
    for name in ("anyOf", "oneOf", "allOf"):
        for one in node.get(name, ()):
            yield from keys(one, schema, path)


def _followed(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(node.get("$ref", "")).removeprefix("#/$defs/")
    found: Mapping[str, Any] = schema["$defs"][name] if name else node
    return found


def _kind(node: Mapping[str, Any]) -> str:
    if "const" in node:
        return repr(node["const"])
    kinds = node.get("type", "any")
    if "anyOf" in node:
        kinds = [_kind(one) for one in node["anyOf"]]
    return " or ".join(sorted(kinds)) if isinstance(kinds, list) else str(kinds)


def broken(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What was promised and does not hold any more."""
    found = []
    for id, promises in before.items():
        if id not in now:
            name, _, version = id.rpartition("/")
            if f"{name}/{int(version) + 1}" not in now:
                found.append(f"{id} is gone")
            continue
        for path, kind in promises.items():
            got = now[id].get(path, "gone")
            # A key may come to be there always, and a plain type may not come to be null.
            if got not in (kind, f"{ALWAYS}{kind}"):
                found.append(f"{id}: {path} was {kind}, is {got}: that needs a new version")
    return found


def main() -> None:
    now = promised()
    before = json.loads(FROZEN.read_text(encoding="utf-8")) if FROZEN.is_file() else {}
    if lost := broken(before, now):
        sys.exit("\n".join(lost))
    write_text(FROZEN, json.dumps(now, indent=1) + "\n")


if __name__ == "__main__":
    main()
