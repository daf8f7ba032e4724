"""Charts as they are drawn: figures as Python writes them, colours that can be seen, every kind with odd values."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import OpenPage, until
from browser.gallery import CHARTS, RANGES, STEP, VERDICTS, WATERFALL, write_gallery
from browser.test_pages import OPEN_ALL, TABLES, TEXTS, WIDTHS

from infopt.reports.pages.charts import WRITTEN, Axis, Chart, Series, chart_dict, written

EACH = 500
# Ratio of luminances (WCAG 2.2): text, and what one must see of a graphic.
TEXT, GRAPHIC = 4.5, 3.0
ROLES = (
    "estimate",
    "floor",
    "interval",
    "target",
    "measured",
    "limit",
    "chosen",
    "other",
    "good",
    "bad",
    "open",
    "axis",
)
MORE = tuple(f"more-{n}" for n in range(1, 6))
CELLS = ("good-cell", "bad-cell", "open-cell", "other-cell", "cell")
COLOURS = """names => Object.fromEntries(names.map(name => {
  const probe = document.body.appendChild(document.createElement('i'));
  probe.style.color = `var(--${name})`;
  const rgb = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return [name, rgb];
}))"""

STROKES = """id => [...document.querySelectorAll(`#${id} .plot path`)]
  .map(path => [path.getAttribute('stroke'), path.getAttribute('stroke-dasharray')])"""


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    return write_gallery(tmp_path / "gallery.html")


def values(unit: str) -> list[float]:
    """Figures of every size, ties, what rounds up to the next unit, negative ones, whole ones."""
    draw = random.Random(unit)
    found = [draw.choice((1, 1, -1)) * draw.uniform(1, 10) * 10 ** draw.uniform(-9, 15) for _ in range(EACH)]
    ties = [n / 8 for n in range(-9, 10)] + [n / 2 for n in range(1, 2000, 37)] + [0.125e3, 12350.0, 12450.0, 1250.0]
    edges = [0.0, 0.9995, 0.99949, 999.5, 9999.5, 999949.9, 0.09995, 1e-6, 1e-5, 0.1, 1e3, 1e6, 99.995, 2.0**30]
    return [*found, *ties, *edges, *(float(draw.randrange(10**6)) for _ in range(50))]


def test_figures_are_written_as_in_python(open_page: OpenPage, gallery: Path) -> None:
    page = open_page(gallery)
    for unit, write in WRITTEN.items():
        given = values(unit)
        browser = page.evaluate("([all, unit]) => all.map(value => infoptCharts.written(value, unit))", [given, unit])
        assert browser == [write(value) for value in given], unit
    assert page.evaluate("infoptCharts.written(null, 's')") == written(None, Axis("x", "s"))


def contrast(one: list[float], other: list[float]) -> float:
    def luminance(rgb: list[float]) -> float:
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("media", ["screen", "print"])
def test_colours_can_be_seen(open_page: OpenPage, gallery: Path, scheme: str, media: str) -> None:
    page = open_page(gallery, scheme=scheme)
    page.emulate_media(media=media, color_scheme=scheme)
    heats = [f"heat-{n}" for n in range(6)]
    names = ["paper", "field", "ink", "soft", "link", "pass", "fail", "heat-ink", "heat-ink-far", *heats]
    colour = page.evaluate(COLOURS, [*names, *ROLES, *MORE, *CELLS])
    pairs = [
        (name, ground, TEXT)
        for name in ("ink", "soft", "link", "pass", "fail", "open")
        for ground in ("paper", "field")
    ]
    # Labels of lines have the colour of their role.
    pairs += [(name, "paper", TEXT) for name in ROLES if name not in ("interval", "axis")]
    pairs += [(name, "paper", GRAPHIC) for name in (*ROLES, *MORE, *CELLS[:2])]
    pairs += [("ink", name, TEXT) for name in CELLS]
    pairs += [("heat-ink" if n < 3 else "heat-ink-far", f"heat-{n}", TEXT) for n in range(6)]
    poor = {(a, b): contrast(colour[a], colour[b]) for a, b, least in pairs if contrast(colour[a], colour[b]) < least}
    assert poor == {}


@pytest.mark.parametrize("width", WIDTHS)
def test_every_kind_is_drawn_whole(
    open_page: OpenPage, screenshot: Callable[[Any, str], Path], gallery: Path, width: int
) -> None:
    page = open_page(gallery, width=width)
    assert page.locator(".plot svg").count() == len(CHARTS)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TEXTS) == []
    screenshot(page, f"charts-{width}")


def test_tables_and_axe(open_page: OpenPage, axe: Callable[..., list[str]], gallery: Path) -> None:
    page = open_page(gallery)
    for id, python, browser in page.evaluate(TABLES):
        assert browser == python, id
    page.evaluate(OPEN_ALL)
    assert axe(page) == []


def test_a_role_looks_the_same_everywhere(open_page: OpenPage, gallery: Path) -> None:
    page = open_page(gallery)
    drawn = {tuple(pair) for chart in CHARTS for pair in page.evaluate(STROKES, chart.id)}
    dashes = {role: {dash for stroke, dash in drawn if stroke == f"var(--{role})"} for role in ROLES}
    assert dashes["floor"] == {"6,4"}
    assert dashes["target"] == {"2,3"}
    assert None in dashes["estimate"]
    assert len(dashes["limit"]) == 1
    assert {f"var(--more-{n})" for n in (1, 2, 3)} <= {stroke for stroke, _ in drawn}


def test_the_pointer_reads_a_figure_and_no_name_is_html(open_page: OpenPage, tmp_path: Path) -> None:
    name = "<img src=x onerror=window.hit=1>"
    curves = tuple(replace(series, name=f"{series.name} {name}") for series in STEP.series)
    ranges = tuple(replace(series, name=name) for series in RANGES.series)
    charts = (replace(STEP, series=curves), replace(RANGES, series=ranges), WATERFALL, VERDICTS)
    page = open_page(write_gallery(tmp_path / "named.html", charts))
    box = page.locator("#step .plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.6)
    tip = page.locator("#step .tip")
    tip.wait_for(state="visible")
    assert "sequences at once: 16" in tip.inner_text()
    assert f"estimate {name}: 18.2 ms" in tip.inner_text()
    for id, reads in (("ranges", "2.2x to 2.9x"), ("waterfall", "33.00 GiB"), ("verdicts", "1.5x")):
        mark = page.locator(f"#{id} .plot svg path[fill^='var(--']").first
        mark.scroll_into_view_if_needed()
        mark.hover(force=True)
        until(page, f"!!document.querySelector('#{id} .tip')?.textContent")
        assert reads in page.locator(f"#{id} .tip").inner_text()
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0


def test_another_chart_in_its_place(open_page: OpenPage, gallery: Path) -> None:
    """Picture, words, legend and table are those of the new one, and it is quick."""
    page = open_page(gallery)
    faster = [(x, y / 2) for x, y in STEP.series[1].points]
    changed = replace(
        STEP,
        title="Twice as fast",
        description="It changed.",
        series=(Series("half", "estimate", "line", faster),),
        lines=(),
    )
    page.evaluate("document.querySelector('#step details').open = true")
    page.evaluate("chart => infoptCharts.update('step', chart)", chart_dict(changed))
    figure = page.locator("#step")
    assert "Twice as fast It changed." in figure.locator("figcaption").inner_text().replace("\n", " ")
    assert figure.locator(".plot").get_attribute("aria-label") == "Twice as fast. It changed."
    assert figure.locator(".legend li").count() == 0
    assert figure.locator("th").all_inner_texts() == ["sequences at once", "half"]
    assert figure.locator("td").nth(1).inner_text() == written(faster[0][1], STEP.y)
    assert page.locator("#step .plot path[stroke='var(--floor)']").count() == 0
    # A table that is closed is written when it is opened.
    page.evaluate("chart => infoptCharts.update('roofline', {...chart, id: 'roofline'})", chart_dict(changed))
    page.locator("#roofline summary").click()
    until(page, "document.querySelectorAll('#roofline th').length === 2")
    assert page.locator("#roofline th").all_inner_texts() == ["sequences at once", "half"]


def test_a_window_that_changes_and_a_part_that_opens(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(write_gallery(tmp_path / "g.html"))
    width = "document.querySelector('#step svg').getBoundingClientRect().width"
    wide = page.evaluate(width)
    page.set_viewport_size({"width": 360, "height": 800})
    until(page, f"{width} < 340")
    page.set_viewport_size({"width": 1280, "height": 900})
    until(page, f"{width} === {wide}")
    page.evaluate("document.querySelector('section').hidden = true")
    page.set_viewport_size({"width": 900, "height": 900})
    page.evaluate("document.querySelector('section').hidden = false")
    until(page, f"{width} < 900")
    assert page.evaluate(TEXTS) == []


def test_no_motion_and_no_focus_in_a_picture(open_page: OpenPage, gallery: Path) -> None:
    page = open_page(gallery, motion="reduce")
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.locator(".plot [tabindex]").count() == 0


def test_a_chart_of_many_points_is_drawn(open_page: OpenPage, tmp_path: Path) -> None:
    points = [(n, 0.01 + n % 7 * 0.001) for n in range(1, 5001)]
    many = Chart(
        "many", "lines", "Many", "Many points.", Axis("n"), Axis("s", "s"), (Series("a", "estimate", "line", points),)
    )
    page = open_page(write_gallery(tmp_path / "many.html", (many,)))
    assert page.locator("#many .plot path").count() > 0
