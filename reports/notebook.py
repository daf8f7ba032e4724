"""The Markdown form of an answer as HTML for a notebook: tables, and nothing that loads, links or runs."""

import re
from typing import Any

# Of CommonMark, what our Markdown uses. Links, images and raw HTML are off: their text is shown as it stands.
RULES = ("table", "fence", "heading", "list", "paragraph", "backticks", "emphasis", "entity", "escape", "newline")
FOLD = re.compile(r"^<details><summary>(.*)</summary>$", re.MULTILINE)
MARKS = re.compile(r"^(?:</details>|<!-- infopt gate -->)\n?", re.MULTILINE)


def notebook_html(markdown: str) -> str:
    """An answer's Markdown as one block of HTML; whatever text it holds is escaped."""
    plain = MARKS.sub("", FOLD.sub(r"**\1**", markdown))
    return f'<div class="infopt">{_reader().render(plain)}</div>'


def _reader() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("zero").enable(list(RULES))
