"""Checks on memory: head-room, the cache's share, the context limit, and any figure of the ledgers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import get_type_hints

from infopt.errors import InfoptError, unknown_name
from infopt.ledgers.bandwidth import BandwidthLedger
from infopt.ledgers.compute import ComputeLedger
from infopt.ledgers.energy import Energy
from infopt.ledgers.estimate import Estimate, NoEstimate
from infopt.ledgers.memory import MemoryLedger, memory_ledger
from infopt.observing.observation import Observation
from infopt.studies.checklist_context import Answer, Context, needs
from infopt.studies.planning import Cost
from infopt.units import format_gib, format_share, format_tokens, format_whole

Limits = Mapping[str, float]
SECTIONS: dict[str, type] = {
    "memory": MemoryLedger,
    "bandwidth": BandwidthLedger,
    "compute": ComputeLedger,
    "estimate": Estimate,
    "cost": Cost,
    "energy": Energy,
    "observed": Observation,
}
UNITS = {"s": "s", "bytes": "bytes", "share": "share", "tokens": "tokens", "sequences": "sequences", "flop": "FLOP"}


def memory_headroom(context: Context, limits: Limits) -> Answer:
    """What the budget leaves alone, of the whole; a cache that engines grow to their budget's end is not head-room."""
    s, m = context.scenario, context.plan.memory
    free = m.capacity_bytes_per_gpu - m.used_bytes_per_gpu
    if context.plan.fits is False:
        return Answer(
            "fail", min(free, 0.0), "bytes", f"{format_whole(m.max_sequences * s.dp)} of {s.batch} sequences fit"
        )
    spare = m.margin_bytes + (free if s.engine.budget == "exact" else 0.0)
    least, capacity = limits["least_share"], m.capacity_bytes_per_gpu
    less, more = beside_the_budget(context)
    told = f"{format_gib(spare)} a device stay free, {format_share(spare / capacity)}"
    if context.plan.fits is None:
        why = "; ".join(m.unknown) or "the need is within the error of the ledger"
        return needs(f"{told}, but {why}", spare, "bytes")
    if spare + more < least * capacity:
        return Answer("fail", spare, "bytes", f"{told}, less than {format_share(least)}")
    if spare - less < least * capacity:
        told += f" ({format_gib(max(0.0, spare - less))} to {format_gib(spare + more)}), wanted {format_share(least)}"
        return needs(f"{told}: look at it once it has started", spare, "bytes", settle="{memory}")
    return Answer("pass", spare, "bytes", f"{told}; every term is in the budget")


def beside_the_budget(context: Context) -> tuple[float, float]:
    """How much less, and how much more, may stay free: the error of terms that lie outside the engine's budget."""
    s = context.scenario
    names = {"engine"} if s.engine.graphs_in_budget or s.engine.budget != "share_of_total" else {"engine", "graphs"}
    outside = [term for term in context.plan.memory.terms if term.name in names]
    return sum(t.high - t.value for t in outside), sum(t.value - t.low for t in outside)


def kv_share(context: Context, limits: Limits) -> Answer:
    """The share the cache had in full precision."""
    judged, least = context.judgement("kv-quantization"), limits["least_share"]
    before = context.before("kv-quantization")
    share = before.memory.kv_share
    told = f"KV was {format_share(share)} of memory in {before.scenario.kv_format}"
    if not before.fits and context.plan.fits:
        return Answer("pass", share, "share", f"{told}; without it {context.scenario.batch} sequences do not fit")
    if share < least:
        return Answer("fail", share, "share", f"{told}, below {format_share(least)}: little to gain")
    if judged is not None and judged.verdict == "measure":
        return needs(f"{told}, but {judged.reason}", share, "share")
    return Answer("pass", share, "share", f"{told}, at least {format_share(least)}")


def context_asked(context: Context, limits: Limits) -> Answer:
    """Sequences lost to a context limit that no request reaches."""
    s, request = context.scenario, context.deployment.request
    if request.input_tokens is None and request.output_tokens is None:
        return needs("what requests need is not given: --isl and --osl")
    need, asked = s.input_tokens + s.output_tokens, s.context_tokens
    here = context.plan.memory.max_sequences * s.dp
    if asked <= need:
        told = f"memory is sized for {format_tokens(asked)} tokens, what requests need"
        return Answer("pass", 0.0, "sequences", told)
    there = memory_ledger(replace(s, context_tokens=need)).max_sequences * s.dp
    lost = max(0, there - here)
    told = (
        f"{format_whole(here)} sequences of {format_tokens(asked)} tokens fit, "
        f"{format_whole(there)} of {format_tokens(need)}"
    )
    if lost and here < s.batch:
        return Answer("fail", float(lost), "sequences", f"{told}; {s.batch} at once are asked for")
    return Answer("pass", float(lost), "sequences", f"{told}; the {s.batch} asked for fit at full length")


def split_figure(path: str, where: str) -> tuple[str, str]:
    """Section and name of a figure; raises InfoptError for one that is not there."""
    section, _, name = path.partition(".")
    if section not in SECTIONS:
        raise unknown_name("section", section, list(SECTIONS), f"{where}: a figure is written like memory.kv_share")
    fields = Observation.model_fields if section == "observed" else get_type_hints(SECTIONS[section])
    if name not in fields:
        raise unknown_name("figure", path, [f"{section}.{field}" for field in fields], where)
    return section, name


def figure(context: Context, limits: Limits, path: str) -> Answer:
    """A figure of the ledgers or of the observation against its ends."""
    section, name = split_figure(path, "figure")
    record = context.observed if section == "observed" else getattr(context.plan, section)
    unit = UNITS.get(name.rpartition("_")[2], "")
    if record is None or isinstance(record, NoEstimate):
        return needs(record.reason if isinstance(record, NoEstimate) else f"no {section} is known", None, unit)
    is_time = section == "observed" and name in ("tpot_s", "itl_s", "ttft_s")
    value = record.mean_s(name) if is_time else getattr(record, name)
    if value is None:
        return needs(f"{path} is not known", None, unit)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InfoptError(f"figure {path}: not a number")
    least, most = limits.get("at_least"), limits.get("at_most")
    ends = " and ".join(f"{word} {end:g}" for word, end in (("at least", least), ("at most", most)) if end is not None)
    good = (least is None or value >= least) and (most is None or value <= most)
    return Answer("pass" if good else "fail", float(value), unit, f"{path} is {value:.4g}, wanted {ends}")
