"""Every page in a real browser: quiet, drawn, legible, reachable by keyboard, in light and dark, wide and narrow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import OpenPage, until
from browser.pages import PAGES, Built

WIDTHS = (320, 800, 1280)
MOST_OPEN_MS = 2000  # generous for a machine that others use; bench/pages.py measures
# Texts of a picture that leave it, or lie on each other, by the number of pixels that is more than a rounding.
TEXTS = """() => [...document.querySelectorAll('.plot svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect(), id = svg.closest('figure').id;
  const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim());
  const boxes = texts.map(text => ({words: text.textContent, box: text.getBoundingClientRect()}));
  const cut = boxes.filter(({box}) => box.left < frame.left - 1 || box.right > frame.right + 1
    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1).map(({words}) => `${id}: ${words} is cut`);
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
  const pairs = boxes.flatMap((one, i) => boxes.slice(i + 1).filter(other => over(one.box, other.box))
    .map(other => `${id}: ${one.words} lies on ${other.words}`));
  return [...cut, ...pairs];
})"""
CONTROLS = "a[href], button, input:not([disabled]), select:not([disabled]), summary, [tabindex='0']"
OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"
# What holds for a row of a table holds for all made of the same elements and classes, and axe takes its time for each.
ONE_ROW_OF_A_KIND = """document.querySelectorAll('tbody').forEach(table => {
  const kinds = new Set();
  for (const row of [...table.rows]) {
    const kind = [row, ...row.querySelectorAll('*')].map(one => `${one.tagName} ${one.className}`).join();
    if (kinds.has(kind)) row.remove();
    kinds.add(kind);
  }
})"""
TABLES = """() => infoptCharts.all.map(chart => {
  const table = document.getElementById(chart.id).querySelector('details table');
  const words = row => [...row.cells].map(cell => cell.textContent);
  return [chart.id, [words(table.tHead.rows[0]), [...table.tBodies[0].rows].map(words)], infoptCharts.rows(chart)];
})"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_quiet_fast_and_with_its_tables(
    built: Callable[[str], Built], open_page: OpenPage, screenshot: Callable[[Any, str], Path], name: str
) -> None:
    page = open_page(built(name).path)
    drawn = page.evaluate(
        "[...document.querySelectorAll('.plot')].map(p => [p.clientWidth > 0, !!p.querySelector('svg')])"
    )
    assert all(visible == svg for visible, svg in drawn)
    assert page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") < MOST_OPEN_MS
    # What a change of a control writes into a table is what Python has written there.
    for id, python, browser in page.evaluate(TABLES):
        assert browser == python, id
    screenshot(page, f"{name}-light")
    page.emulate_media(color_scheme="dark")
    screenshot(page, f"{name}-dark")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_or_covered(
    built: Callable[[str], Built],
    open_page: OpenPage,
    screenshot: Callable[[Any, str], Path],
    name: str,
    width: int,
) -> None:
    page = open_page(built(name).path, width=width)
    page.evaluate(OPEN_ALL)
    until(page, "[...document.querySelectorAll('.plot')].every(plot => plot.querySelector('svg'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TEXTS) == []
    if width == min(WIDTHS):
        screenshot(page, f"{name}-narrow")


@pytest.mark.parametrize("name", PAGES)
def test_the_keyboard_reaches_everything_and_axe_finds_nothing_serious(
    built: Callable[[str], Built], open_page: OpenPage, axe: Callable[..., list[str]], name: str
) -> None:
    page = open_page(built(name).path)
    page.evaluate("document.querySelectorAll('figure details').forEach(one => one.open = true)")
    wanted = page.evaluate(
        "selector => { window.reached = new Set(); document.addEventListener('focusin', e => reached.add(e.target));"
        " window.wanted = [...document.querySelectorAll(selector)].filter(e => e.checkVisibility());"
        " return wanted.length; }",
        CONTROLS,
    )
    for _ in range(wanted + 1):
        page.keyboard.press("Tab")
    assert page.evaluate("wanted.filter(e => !reached.has(e)).map(e => e.outerHTML.slice(0, 100))") == []
    assert page.evaluate("document.activeElement === document.body || reached.size >= wanted.length")
    page.evaluate(OPEN_ALL)
    page.evaluate(ONE_ROW_OF_A_KIND)
    assert axe(page) == []
    page.emulate_media(color_scheme="dark")
    assert axe(page, "color-contrast") == []


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_charts_are_light_and_fit(built: Callable[[str], Built], open_page: OpenPage, name: str) -> None:
    page = open_page(built(name).path, scheme="dark", width=1600)
    widths = "[...document.querySelectorAll('.plot svg')].map(svg => svg.getBoundingClientRect().width)"
    before = page.evaluate(widths)
    page.evaluate(
        "window.addEventListener('beforeprint', () => { window.paper = "
        f"{widths}.concat(getComputedStyle(document.body).backgroundColor) }})"
    )
    page.pdf(format="A4")
    *printed, _ = page.evaluate("paper")
    assert set(printed) <= {640}
    assert page.evaluate(widths) == before
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
