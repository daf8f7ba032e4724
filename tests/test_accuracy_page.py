"""docs/accuracy.md shows what `validate` computes today."""

import importlib.util
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "tools" / "docs_accuracy.py"


def test_the_table_is_current():
    spec = importlib.util.spec_from_file_location("docs_accuracy", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text(encoding="utf-8")
    assert tool.refreshed(page) == page, "run python tools/docs_accuracy.py"
