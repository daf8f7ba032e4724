"""The site of `make docs`: it builds without a warning, every link in it leads somewhere, nothing is fetched."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent

# One worker builds once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]


class Page(HTMLParser):
    """Links, anchors, and what the browser loads by itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "href" in given:
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


page_of = cache(Page)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    recipe = re.search(r"^SPHINX := \$\(BIN\)/sphinx-build (?P<options>.*) -d ", makefile(), re.MULTILINE)
    assert recipe is not None
    command = [sys.executable, "-m", "sphinx", *recipe["options"].split(), "-d", str(folder / "doctrees")]
    done = subprocess.run(
        [*command, ".", str(folder / "html")], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    for path in sorted(site.rglob("*.html")):
        yield path, page_of(path)


def test_every_page_is_in_the_site(site: Path) -> None:
    written = {path.relative_to(ROOT).with_suffix(".html") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))}
    assert written <= {path.relative_to(site) for path in site.rglob("*.html")}


def test_every_link_leads_somewhere(site: Path) -> None:
    broken = []
    for path, page in pages(site):
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{path.name}: {link}")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page_of(target).anchors:
                broken.append(f"{path.name}: {link}, no such place")
    assert not broken


def test_links_are_seen(site: Path) -> None:
    """The parser finds what it should: links between pages, anchors in another page."""
    links = page_of(site / "docs" / "index.html").links
    assert "tutorial.html" in links
    assert any(re.search(r"formulas.html#\w+", link) for link in page_of(site / "docs" / "prefix_trace.html").links)


def test_nothing_is_fetched(site: Path) -> None:
    """Scripts, styles, fonts and images are the site's own, so it can be read from file:// without a network."""
    for path, page in pages(site):
        assert not [load for load in page.loads if urlsplit(load).scheme not in ("", "data")], path
    for path in (*site.rglob("*.css"), *site.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"@import[^;]*https?:|url\([\"']?https?:", text), path


def test_every_page_is_in_the_table_of_contents(site: Path) -> None:
    """From the first page's margin all pages can be reached, those of rules and decisions too."""
    margin = set(page_of(site / "docs" / "index.html").links)
    for path in sorted(ROOT.glob("docs/**/*.md")):
        name = path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert name in margin or name == "index.html", name


def test_the_first_page_opens_the_documentation(site: Path) -> None:
    assert "url=docs/index.html" in (site / "index.html").read_text(encoding="utf-8")


def test_options_keep_their_dashes(site: Path) -> None:
    assert "\u2013\u2013" not in (text := (site / "docs" / "commands" / "plan.html").read_text(encoding="utf-8"))
    assert "--max-num-seqs" in text


def test_the_site_is_in_no_wheel_and_not_in_git() -> None:
    assert "/build/" in (ROOT / ".gitignore").read_text(encoding="utf-8")
    assert re.search(r"^docs: .*\n\t.*\n\t\$\(SPHINX\) \. build/docs$", makefile(), re.MULTILINE)
