"""Build `reports/pages/data/echarts.min.js`: Apache ECharts, only the parts that our charts use (decision 0014).

Run by hand for a new version: `python tools/vendor_charts.py` (needs node and npm, and the npm registry). Versions are
pinned; echarts pins what it needs itself. The same versions give the same bytes: the hash is written beside the file,
and tests/test_pages.py holds the file to it.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

ECHARTS, ESBUILD = "6.1.0", "0.28.2"
DATA = Path(__file__).resolve().parent.parent / "reports" / "pages" / "data"
# Bars, bands, parts and cells are custom shapes (shapes.js); legend and table are HTML (charts.js).
ENTRY = """\
import { init, use } from "echarts/core";
import { CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, TooltipComponent } from "echarts/components";
import { SVGRenderer } from "echarts/renderers";
use([CustomChart, LineChart, ScatterChart, GridComponent, TooltipComponent, SVGRenderer]);
window.echarts = { init };
"""
# Stands at the head of the file, and so in every page.
NOTICE = f"""\
/*!
Apache ECharts {ECHARTS}, https://echarts.apache.org, only the modules that infopt's charts use, none of them changed.
{{echarts}}
Licensed under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0

ZRender {{zrender_version}}, https://github.com/ecomfe/zrender
{{zrender}}

D3, parts of src/util/number.ts of Apache ECharts
{{d3}}

tslib {{tslib_version}}, https://github.com/Microsoft/tslib
{{tslib}}
*/
"""


def main() -> int:
    """Bundle; write the library under its notice, and its hash."""
    with tempfile.TemporaryDirectory() as name:
        at = Path(name)
        (at / "entry.js").write_text(ENTRY)
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", name]
        subprocess.run([*install, f"echarts@{ECHARTS}", f"esbuild@{ESBUILD}"], check=True, cwd=at)
        bundle = ["--bundle", "--minify", "--format=iife", "--target=es2020", "--log-level=warning"]
        subprocess.run(["npx", "esbuild", "entry.js", *bundle, "--outfile=echarts.min.js"], check=True, cwd=at)
        script = notice_of(at / "node_modules").encode() + (at / "echarts.min.js").read_bytes()
    (DATA / "echarts.min.js").write_bytes(script)
    digest = hashlib.sha256(script).hexdigest()
    (DATA / "echarts.min.js.sha256").write_text(f"{digest}  echarts.min.js\n")
    print(f"echarts {ECHARTS}: {len(script):,} bytes, sha256 {digest}")
    return 0


def notice_of(modules: Path) -> str:
    """Names, versions and licences of what is in the bundle."""

    def version(package: str) -> str:
        lines = (modules / package / "package.json").read_text().splitlines()
        return next(line.split('"')[3] for line in lines if line.strip().startswith('"version"'))

    def licence(path: str) -> str:
        return (modules / path).read_text().strip()

    return NOTICE.format(
        echarts=licence("echarts/NOTICE"),
        zrender=licence("zrender/LICENSE"),
        zrender_version=version("zrender"),
        d3=licence("echarts/licenses/LICENSE-d3"),
        tslib=licence("tslib/LICENSE.txt"),
        tslib_version=version("tslib"),
    )


if __name__ == "__main__":
    sys.exit(main())
