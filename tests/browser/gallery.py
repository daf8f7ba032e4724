"""A page with a chart of every kind and every mark, with the odd values that real ones can have."""

import math
from pathlib import Path

from infopt.reports.pages.blocks import figure, section
from infopt.reports.pages.charts import Axis, Chart, Line, Series
from infopt.reports.pages.page import Page, page_text

GIB = 2**30
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SHARES = tuple(f"{share}%" for share in range(30, 100, 10))
STEP_S = [(batch, 0.015 + 0.0002 * batch) for batch in BATCHES]
BATCH, TIME = Axis("sequences at once", "count", "log"), Axis("step time", "s")
TECHNIQUE = Axis("technique", "count", "category")

STEP = Chart(
    "step",
    "lines",
    "Step time against batch",
    "The estimate stays above the floor.",
    BATCH,
    TIME,
    (
        Series("interval", "interval", "band", [(b, s * 0.85, s * 1.2) for b, s in STEP_S]),
        Series("estimate", "estimate", "line", STEP_S),
        Series("floor", "floor", "line", [(b, s * 0.7) for b, s in STEP_S]),
        Series("measured", "measured", "points", [(8, 0.0171), (64, 0.030)]),
        Series("this plan", "chosen", "points", [(32, 0.0214, "batch 32")]),
    ),
    (
        Line("y", 0.04, "target TPOT 40 ms"),
        Line("x", 32, "batch 32", "chosen"),
        Line("x", 40, "most that fit: 40", "limit"),
        Line("y", 60.0, "a minute"),
    ),
)
ROOFLINE = Chart(
    "roofline",
    "lines",
    "Roofline",
    "Decode lies under the slope, prefill under the roof.",
    Axis("arithmetic intensity", "flop/byte", "log"),
    Axis("rate", "flop/s", "log"),
    (
        Series("roof", "limit", "line", [(1, 3.35e12), (295, 989e12), (10000, 989e12)]),
        Series(
            "here",
            "chosen",
            "points",
            [(8, 2.6e13, "decode"), (3000, 989e12, "prefill of 32k tokens"), (9, 2.9e13, "b")],
        ),
    ),
)
WATERFALL = Chart(
    "waterfall",
    "waterfall",
    "Memory of one GPU",
    "13 sequences fit.",
    Axis("part", "count", "category"),
    Axis("memory", "bytes"),
    (
        Series(
            "used",
            "estimate",
            "part",
            [("weights", 0, 33 * GIB), ("a part with a name of many words", 33 * GIB, 35 * GIB)],
        ),
        Series("free", "other", "part", [("free", 35 * GIB, 79 * GIB)]),
    ),
    (Line("y", 79 * GIB, "usable 79.00 GiB", "limit"),),
)
RANGES = Chart(
    "ranges",
    "ranges",
    "Gain of each technique",
    "Right of 1 it pays.",
    TECHNIQUE,
    Axis("gain", "ratio", "log"),
    (
        Series("use", "good", "range", [("continuous batching", 2.2, 2.56, 2.9), ("prefix caching", 1.1, 1.42, 1.9)]),
        Series("do not use", "bad", "range", [("speculative decoding", 0.7, 0.82, 0.95)]),
        Series("open", "open", "range", [("LoRA", None, 1.0, None), ("offload", None, None, None)]),
    ),
    (Line("y", 1.0, "no gain", "limit"),),
)
BARS = Chart(
    "bars",
    "bars",
    "Two bars a group",
    "The second is longer.",
    TECHNIQUE,
    Axis("throughput", "tokens/s"),
    (
        Series("before", "other", "bar", [("a", 100.0), ("b", 0.0), ("c", None)]),
        Series("after", "estimate", "bar", [("a", 250.0), ("b", 30.0), ("c", -20.0)]),
    ),
)
VERDICTS = Chart(
    "verdicts",
    "heat",
    "Where speculation pays",
    "By batch and acceptance.",
    Axis("acceptance", "count", "category", SHARES),
    Axis("batch", "count", "category", tuple(map(str, BATCHES))),
    (
        Series("pays", "good", "cell", [(s, str(b), 1.5) for s in SHARES for b in BATCHES if b < 40]),
        Series("does not pay", "bad", "cell", [(s, str(b), 0.7) for s in SHARES for b in BATCHES if b > 100]),
        Series("not known", "open", "cell", [(s, "64", None) for s in SHARES]),
        Series("here", "chosen", "points", [("70%", "32")]),
    ),
    values=Axis("gain", "ratio"),
)
VALUES = Chart(
    "values",
    "heat",
    "Throughput",
    "More to the right.",
    Axis("acceptance", "count", "category", SHARES),
    Axis("batch", "count", "category", tuple(map(str, BATCHES))),
    (
        Series(
            "throughput", "estimate", "cell", [(s, str(b), i * b / 7) for i, s in enumerate(SHARES) for b in BATCHES]
        ),
    ),
    values=Axis("throughput", "tokens/s"),
)
CURVES = Chart(
    "curves",
    "lines",
    "Percentiles over time",
    "Curves of one role are told apart.",
    Axis("time", "s"),
    Axis("TTFT", "s"),
    tuple(
        Series(
            name,
            "estimate",
            "line",
            [(t, None if t == 100 else k * (1 + 0.3 * math.sin(t / 30))) for t in range(0, 400, 5)],
        )
        for name, k in (("p50", 0.2), ("p90", 0.5), ("p99", 0.9), ("longest", 1.4))
    ),
    (Line("y", 2.0, "target p99 2 s"),),
)
SPARSE = Chart(
    "sparse",
    "lines",
    "Little to see",
    "One point, one empty series, a log axis with a zero.",
    BATCH,
    Axis("rate", "1/s", "log"),
    (
        Series("empty", "estimate", "line", []),
        Series("one", "floor", "line", [(4, 2.0)]),
        Series("zero", "other", "points", [(0, 0.0), (4, None), (4, 3.0, "<b>label</b>")]),
    ),
)
EMPTY = Chart("empty", "lines", "Nothing to see", "No series at all.", BATCH, TIME, ())
NAMES = Chart(
    "names",
    "lines",
    "Categories along",
    "Names under a curve.",
    Axis("engine", "count", "category", ("vllm", "sglang", "trtllm")),
    Axis("price", "usd"),
    (Series("price", "estimate", "line", [("vllm", 2.0), ("sglang", 3.5), ("trtllm", 0.01)]),),
)
CHARTS = (STEP, ROOFLINE, WATERFALL, RANGES, BARS, VERDICTS, VALUES, CURVES, SPARSE, EMPTY, NAMES)


def write_gallery(path: Path, charts: tuple[Chart, ...] = CHARTS) -> Path:
    page = Page("Charts", "infopt", {}, [section("All kinds", *map(figure, charts))], charts)
    path.write_text(page_text(page), encoding="utf-8")
    return path
