"""A real browser for pages, and pages that must stay quiet.

The browser is the machine's own: $CHROMIUM, or the first of `NAMES` on the PATH. Without one, tests are skipped.
"""

import functools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.pages import PAGES, Built, build

NAMES = ("chromium", "chromium-browser", "google-chrome")
SHOTS = Path(__file__).resolve().parent.parent.parent / "build" / "screenshots"
SERIOUS = ("serious", "critical")
# What a browser does by itself with every page: nothing of ours.
OWN = ("file:", "data:", "about:")

OpenPage = Callable[..., Any]


def chromium() -> str | None:
    """The machine's own browser, where it has one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def until(page: Any, expression: str, seconds: float = 10) -> None:
    """Wait until an expression is true. `page.wait_for_function` evaluates in the page, which its policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"after {seconds} s it is still not true: {expression}"
        page.wait_for_timeout(20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs a module: one browser each."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(f"browser {item.path.stem}"))


# A module, not a session: a browser that is open holds an event loop, which tests of other things could not stand.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, started once a module."""
    program = chromium()
    if program is None:
        pytest.skip("no Chromium here: set CHROMIUM, or install one of " + ", ".join(NAMES))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


class Tab:
    """A tab, and what was wrong in it: a warning or an error on the console, an exception, a refusal by the page's
    policy, an address that is not the page's own.
    """

    def __init__(self, browser: Any) -> None:
        self.page, self.address, self.complaints = browser.new_page(), "", list[str]()
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("warning", "error") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)
        self.page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " e => console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`))"
        )

    def _asked(self, request: Any) -> None:
        if request.url.split("#")[0] != self.address:
            self.complaints.append(f"asked for {request.url}")

    def open(self, path: Path, scheme: str = "light", width: int = 1280, motion: str = "no-preference") -> Any:
        self.address = path.resolve().as_uri()
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(media="null", color_scheme=scheme, reduced_motion=motion)
        self.page.mouse.move(0, 0)
        self.page.goto(self.address)
        if self.page.locator("figure.chart").count():
            assert self.page.evaluate("document.documentElement.dataset.charts") == "drawn"
        return self.page


# A new tab is a new process, which takes longer to start than a page to open.
@pytest.fixture(scope="module")
def tab(browser: Any) -> Tab:
    """The tab of a module, where one page follows the other."""
    return Tab(browser)


@pytest.fixture
def open_page(tab: Tab) -> Iterator[OpenPage]:
    """Open a file: `open_page(path, scheme="dark", width=400)`. No page may have complained once the test is over."""
    tab.complaints.clear()
    yield tab.open
    assert tab.complaints == []


@pytest.fixture
def screenshot() -> Callable[[Any, str], Path]:
    """Keep a picture of a whole page: build/screenshots/NAME.jpg."""

    def kept(page: Any, name: str) -> Path:
        SHOTS.mkdir(parents=True, exist_ok=True)
        target = SHOTS / f"{name}.jpg"
        page.screenshot(path=target, full_page=True, quality=85)
        return target

    return kept


@pytest.fixture(scope="session")
def axe() -> Callable[..., list[str]]:
    """What axe-core finds that is serious or critical, one line each; of the named rules alone where there are any."""
    from axe_playwright_python.sync_playwright import Axe

    judge = Axe()

    def found(page: Any, *rules: str) -> list[str]:
        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        violations = judge.run(page, options={"resultTypes": ["violations"], **only}).response["violations"]
        return [
            f"{one['id']} ({one['impact']}): {one['help']}: {node['html'][:200]}"
            for one in violations
            if one["impact"] in SERIOUS
            for node in one["nodes"][:3]
        ]

    return found


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    """The page of a name in `PAGES`, made once."""

    @functools.cache
    def made(name: str) -> Built:
        return build(PAGES[name], tmp_path_factory.mktemp("page"))

    return made
