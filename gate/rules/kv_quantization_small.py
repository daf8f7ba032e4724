"""A quantized cache where the cache is a small part of memory."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.deciding import threshold
from infopt.boundaries.kv_quantization import in_format, judge
from infopt.boundaries.situation import Situation
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import figure_of, lengths_known, load_known, situation_of
from infopt.ledgers.step_time import FULL_PRECISION_BITS
from infopt.profiles.formats import kv_format_name


def check(case: Case) -> Iterator[Hit]:
    """The load fits without it, its share is small, and steps hardly gain."""
    situation = situation_of(case)
    at = case.deployment.said_at("kv")
    if situation is None or case.plan is None or at is None or not (lengths_known(case) and load_known(case)):
        return
    s = situation.scenario
    native = kv_format_name(s.model, None)
    if s.kv.bits_per_element >= FULL_PRECISION_BITS or native == s.kv_format:
        return
    before = in_format(situation.changed(load=replace(situation.load, kv_format=s.kv_format)), native)
    found = judge(before)
    share = before.memory.kv_share
    if (
        found.verdict not in ("limited", "skip")
        or not before.fits
        or found.gain is None
        or share >= threshold("kv_share")
    ):
        return
    if in_format(Situation(case.plan.scenario), native).memory.max_sequences < 1:
        return  # a request of full length needs it
    batch = figure_of(found, "share_limit_batch")
    turn = f"; from {batch:,.0f} sequences it is a tenth of memory" if batch is not None and batch > s.batch else ""
    yield Hit(
        f"the cache is {share:.1%} of memory in {native} at batch {s.batch} of {s.context_tokens:,} tokens: "
        f"{s.kv_format} gains {found.gain.value:.2f}x in TPOT{turn}",
        at=at,
        confidence="likely",
    )


RULE = Rule(
    id="kv-quantization-small",
    summary="a quantized cache that saves little",
    severity="note",
    why="Precision is given up for memory that no request needs.",
    remedy="Leave the cache in the model's own type.",
    check=check,
    source="document 1, section 3: below a tenth of memory",
)
