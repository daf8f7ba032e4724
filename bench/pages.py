"""How long pages take in a browser: from opening the file to every chart drawn, and to draw four charts anew.

Each page is opened RUNS times in a fresh tab of one Chromium; figures are the median, and the least and most. Nothing
is measured of the command that made the page.

    python bench/pages.py [--runs 20]
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from browser.conftest import chromium
from browser.pages import PAGES, build

DRAWN_MS = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
# Four of the page's charts, put in their own places again; the frame after them is painted.
ANEW_MS = """async () => {
  const charts = infoptCharts.all.slice(0, 4), start = performance.now();
  charts.forEach(chart => infoptCharts.update(chart.id, chart));
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""


def spread(values_ms: list[float]) -> str:
    return f"{statistics.median(values_ms):6.0f} ({min(values_ms):.0f} to {max(values_ms):.0f})"


def measure(browser: Any, path: Path, runs: int) -> tuple[list[float], list[float]]:
    opened, anew = [], []
    for _ in range(runs):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        opened.append(page.evaluate(DRAWN_MS))
        anew.append(page.evaluate(ANEW_MS))
        page.close()
    return opened, anew


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        sys.exit("no Chromium here: set CHROMIUM")
    pages = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, command in PAGES.items():
            place = Path(folder) / name
            place.mkdir()
            pages[name] = build(command, place).path
        print(f"median (least to most) of {runs}")
        print(f"{'page':22}{'kB':>6}  {'open to drawn, ms':>22}  {'four charts anew, ms':>22}")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for name, path in pages.items():
                opened, anew = measure(browser, path, runs)
                print(f"{name:22}{path.stat().st_size / 1000:6.0f}  {spread(opened):>22}  {spread(anew):>22}")
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
