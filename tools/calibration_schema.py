"""Write the JSON Schema of calibration records, anew after every change of them: python tools/calibration_schema.py"""

import json
from typing import Any

from infopt.hardware.calibration import SCHEMA, Calibration
from infopt.reports.schemas import FOLDER


def calibration_schema() -> dict[str, Any]:
    """The record's own types, without the titles that repeat every name."""
    found = _without_titles(Calibration.model_json_schema(by_alias=True))
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        "title": "what `infopt probe` writes and `--calibration FILE` reads (YAML), and `infopt probe --json` prints",
    }
    return head | found


def _without_titles(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    # A property may itself be called title: then it is no text.
    return {k: _without_titles(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}


if __name__ == "__main__":
    text = json.dumps(calibration_schema(), indent=2, ensure_ascii=False) + "\n"
    (FOLDER / "calibration.json").write_text(text, encoding="utf-8")
