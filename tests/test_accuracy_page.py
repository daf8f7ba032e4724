"""docs/accuracy.md shows what `validate` computes today."""

from scripts import script


def test_the_table_is_current():
    tool = script("tools/docs_accuracy.py")
    page = tool.PAGE.read_text(encoding="utf-8")
    assert tool.refreshed(page) == page, "run python tools/docs_accuracy.py"
