"""The JSON Schema of `infopt.yaml`, made of the tables that the reader reads by (`infopt schema policy`)."""

from typing import Any

from infopt.gate.policy_file import ACCEPTED, KEYS, OVERRIDE_KEYS, SAID, SECTIONS, Table
from infopt.gate.policy_kinds import HARDWARE, SEVERITY, TEXT, kind_of
from infopt.gate.rules.registry import catalogue

JsonSchema = dict[str, Any]


def policy_schema() -> JsonSchema:
    """Draft 2020-12; accepts what `read_policy` accepts, but for names of hardware, which only a catalogue knows."""
    parts: JsonSchema = {
        "hardware": HARDWARE.schema,
        **{section: _section(table) for section, (table, _) in SECTIONS.items()},
        "rules": _rules(),
        "deployments": _list(_section(SAID)),
        "accept": _list(_section(ACCEPTED)),
    }
    parts["accept"]["items"]["properties"]["rule"] = {"enum": [rule.id for rule in catalogue()]}
    override = _object({"match": TEXT.schema, **{key: {"$ref": f"#/$defs/{key}"} for key in OVERRIDE_KEYS[1:]}})
    parts["overrides"] = _list(override | {"required": ["match"]})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "infopt/policy/1",
        "title": "infopt.yaml: what a repository says of its deployments",
        "type": ["object", "null"],
        "properties": {key: {"$ref": f"#/$defs/{key}"} for key in KEYS},
        "additionalProperties": False,
        "$defs": {key: parts[key] for key in KEYS},
    }


def _object(properties: JsonSchema) -> JsonSchema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _section(table: Table) -> JsonSchema:
    made = _object({name: key.kind.schema for name, key in table.items()})
    required = [name for name, key in table.items() if key.required]
    return made | ({"required": required} if required else {})


def _list(of: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": of}


def _rules() -> JsonSchema:
    """Every rule by its id: a severity alone, or with the rule's own numbers."""
    by_id = {
        f"^{rule.id}$": {
            "anyOf": [
                SEVERITY.schema,
                {
                    "type": "object",
                    "patternProperties": {
                        "^severity$": SEVERITY.schema,
                        **{f"^{name}$": kind_of(default).schema for name, default in rule.parameters.items()},
                    },
                    "additionalProperties": False,
                },
            ]
        }
        for rule in catalogue()
    }
    return {"type": "object", "patternProperties": by_id, "additionalProperties": False}
