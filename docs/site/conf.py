"""The documentation as a site: `make docs`. Its source is the repository, so that links work as they do in git."""

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent.parent

project = "infopt"
copyright = "the infopt authors, Apache-2.0"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "build", "dist", "tests", "*.egg-info"]
root_doc = "docs/index"
nitpicky = True
smartquotes = False  # `--option` in a sentence stays what is typed
myst_heading_anchors = 4  # as a Git host makes them

html_theme = "furo"
html_title = "infopt"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # it is fetched, which a browser refuses from file://

# The Git host shows a folder's index.md, or lists the folder; a site can only do the former.
FOLDER_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)\)")
SECTION = re.compile(r"^## (?P<caption>.*)\n\n(?P<table>(?:\|.*\n)+)", re.MULTILINE)
ROW_LINK = re.compile(r"^\| \[[^\]]*\]\(([^)]+)\)", re.MULTILINE)


def adapted(_: Sphinx, page: str, source: list[str]) -> None:
    """Links to folders as a site has them; and the pages that an index lists are those below it."""
    folder = (ROOT / page).parent
    source[0] = FOLDER_LINK.sub(lambda link: folder_link(link, folder), source[0])
    if page.endswith("/index"):
        source[0] += "".join(contents(source[0], page))


def folder_link(link: re.Match[str], folder: Path) -> str:
    """A link as it was, to a folder's index, or where it has none the words alone."""
    target = folder / link[2]
    if not target.is_dir():
        return link[0]
    return f"[{link[1]}]({link[2]}/index.md)" if (target / "index.md").is_file() else link[1]


def contents(text: str, page: str) -> list[str]:
    """A table of contents for every section of an index whose table links to pages; captions at the top only."""
    tables = [(found["caption"], ROW_LINK.findall(found["table"])) for found in SECTION.finditer(text)]
    if page != root_doc:
        tables = [("", ROW_LINK.findall(text))]
    return [
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}" if caption else "", "", *links, "```", ""])
        for caption, links in tables
        if links
    ]


def setup(app: Sphinx) -> None:
    app.connect("source-read", adapted)
