"""The picture at the head of README.md: `python tools/screenshot.py`, with Chromium (tests/browser/conftest.py).

The page is that of the command in README; the picture is its top, drawn in the light style.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "plan_page.png"
COMMAND = "plan --model 70b --ctx 32k --hw h100:4 --batch 8"
SIZE = {"width": 1280, "height": 1440}
NAMES = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    from playwright.sync_api import sync_playwright

    browser_path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if browser_path is None:
        sys.exit("no Chromium is installed: tests/browser/chromium.sh installs Debian's")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_path = Path(folder) / "plan.html"
        command = [sys.executable, "-m", "infopt", *COMMAND.split(), "--html", page_path.name]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(page_path.as_uri())
        page.wait_for_selector(".plot svg")
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
