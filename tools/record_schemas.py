"""Write the JSON Schemas of records, anew after every change of them: python tools/record_schemas.py"""

import json
from typing import Any

from infopt.hardware import calibration
from infopt.records import Record
from infopt.reports.schemas import FOLDER
from infopt.studies import saved_run

RECORDS: tuple[tuple[str, type[Record], str, str], ...] = (
    (
        "calibration.json",
        calibration.Calibration,
        calibration.SCHEMA,
        "what `infopt probe` writes and `--calibration FILE` reads (YAML), and `infopt probe --json` prints",
    ),
    (
        "run.json",
        saved_run.SavedRun,
        saved_run.SCHEMA,
        "what `infopt simulate --save` and `infopt experiment save` write, and `experiment compare` reads",
    ),
)


def record_schema(record: type[Record], id: str, title: str) -> dict[str, Any]:
    """The record's own types, without the titles that repeat every name."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": id, "title": title}
    found: dict[str, Any] = _without_titles(record.model_json_schema(by_alias=True))
    return head | found


def _without_titles(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    # A property may itself be called title: then it is no text.
    return {k: _without_titles(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}


if __name__ == "__main__":
    for file, record, id, title in RECORDS:
        text = json.dumps(record_schema(record, id, title), indent=2, ensure_ascii=False) + "\n"
        (FOLDER / file).write_text(text, encoding="utf-8")
