"""Write the JSON Schema of saved runs, anew after every change of them: python tools/run_schema.py"""

import json
from typing import Any

from infopt.reports.schemas import FOLDER
from infopt.studies.saved_run import SCHEMA, SavedRun


def run_schema() -> dict[str, Any]:
    """The record's own types, without the titles that repeat every name."""
    found = _without_titles(SavedRun.model_json_schema(by_alias=True))
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        "title": "what `infopt simulate --save` and `infopt experiment save` write, and `experiment compare` reads",
    }
    return head | found


def _without_titles(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {k: _without_titles(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}


if __name__ == "__main__":
    text = json.dumps(run_schema(), indent=2, ensure_ascii=False) + "\n"
    (FOLDER / "run.json").write_text(text, encoding="utf-8")
