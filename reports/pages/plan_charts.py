"""Pictures of a plan. `data/whatif.js` fills the same charts with other points, so series are found by their names."""

from collections.abc import Sequence

from infopt.ledgers.estimate import Estimate
from infopt.reports.estimate_words import term_name
from infopt.reports.pages.charts import Axis, Chart, Line, Series
from infopt.reports.pages.memory_chart import memory_chart
from infopt.studies.plan_curves import KvCurve, Roofline, TpotCurve, plan_curves
from infopt.studies.planning import Plan

TERMS, TPOT, KV, ROOFLINE = "terms", "tpot", "kv", "roofline"
FLOOR, ESTIMATE, INTERVAL, NOW = "floor", "estimate", "interval", "this load"
TARGET, MOST = "target", "most that fit"
CACHE, POOL, STEP = "cache of the batch", "room for the cache", "cache's part of a step's bytes"
ROOF, AT_MOST, EXPECTED = "roof", "at most", "expected"


def plan_charts(plan: Plan, target_s: float | None = None) -> tuple[Chart, ...]:
    """The charts of a plan; `target_s` is a TPOT to stay below."""
    curves = plan_curves(plan, target_s)
    roofline = () if curves.roofline is None else (roofline_chart(curves.roofline),)
    return memory_chart(plan.memory), tpot_chart(curves.tpot), terms_chart(plan), kv_chart(curves.kv), *roofline


def tpot_chart(curve: TpotCurve) -> Chart:
    """Times against the batch."""
    at = curve.batch.index(curve.now)
    now = curve.tpot_s[at] if curve.tpot_s[at] is not None else curve.tpot_floor_s[at]
    lines = [] if curve.most is None else [Line("x", float(curve.most), MOST, "limit")]
    lines += [] if curve.target_s is None else [Line("y", curve.target_s, TARGET, "target")]
    return Chart(
        TPOT,
        "lines",
        "Time per output token against the batch",
        "No step can be below the floor. The band holds nine in ten measurements.",
        Axis("sequences at once", "tokens", "log"),
        Axis("TPOT", "s", "log"),
        (
            Series(INTERVAL, "interval", "band", _bands(curve)),
            Series(FLOOR, "floor", "line", list(zip(curve.batch, curve.tpot_floor_s, strict=True))),
            Series(ESTIMATE, "estimate", "line", list(zip(curve.batch, curve.tpot_s, strict=True))),
            Series(NOW, "chosen", "points", [(curve.now, now)]),
        ),
        tuple(lines),
    )


def _bands(curve: TpotCurve) -> Sequence[tuple[float | None, ...]]:
    return list(zip(curve.batch, curve.tpot_low_s, curve.tpot_high_s, strict=True))


def terms_chart(plan: Plan) -> Chart:
    """What an output token's time is made of."""
    e = plan.estimate
    terms = [(term_name(term.name), term.value) for term in e.terms] if isinstance(e, Estimate) else []
    return Chart(
        TERMS,
        "bars",
        "What one output token's time is made of",
        "The longest bar is what to shorten first.",
        Axis("part", "count", "category", tuple(name for name, _ in terms)),
        Axis("time", "s"),
        (Series(ESTIMATE, "estimate", "bar", terms),),
    )


def kv_chart(curve: KvCurve) -> Chart:
    """The cache of the batch against its context."""
    at = curve.context_tokens.index(curve.now_tokens)
    return Chart(
        KV,
        "lines",
        "The KV cache against the context",
        "The batch fits while its cache is below the room. Shares of a device's memory, and of the bytes of a step.",
        Axis("tokens of each sequence", "tokens", "log"),
        Axis("share", "share"),
        (
            Series(CACHE, "estimate", "line", list(zip(curve.context_tokens, curve.kv_share, strict=True))),
            Series(POOL, "limit", "line", list(zip(curve.context_tokens, curve.pool_share, strict=True))),
            Series(STEP, "other", "line", list(zip(curve.context_tokens, curve.kv_share_of_step, strict=True))),
            Series(NOW, "chosen", "points", [(curve.now_tokens, curve.kv_share[at])]),
        ),
    )


def roofline_chart(roofline: Roofline) -> Chart:
    """Decode and prefill under the roof of one replica."""
    places = [point.flop_per_byte for point in roofline.points]
    ends = (min(*places, roofline.ridge_flop_per_byte) / 2, max(*places, roofline.ridge_flop_per_byte) * 2)
    roof = [(x, roofline.at_most_flop_per_s(x)) for x in (ends[0], roofline.ridge_flop_per_byte, ends[1])]
    at_most = [(point.flop_per_byte, point.at_most_flop_per_s, point.name) for point in roofline.points]
    expected = [(point.flop_per_byte, point.expected_flop_per_s) for point in roofline.points]
    return Chart(
        ROOFLINE,
        "lines",
        "Roofline of one replica",
        "Left of the bend memory sets the pace, right of it the products.",
        Axis("FLOP per byte read", "flop/byte", "log"),
        Axis("FLOP per second", "flop/s", "log"),
        (
            Series(ROOF, "limit", "line", roof),
            Series(AT_MOST, "floor", "points", at_most),
            Series(EXPECTED, "estimate", "points", [pair for pair in expected if pair[1] is not None]),
        ),
    )
