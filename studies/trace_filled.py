"""A trace in place of what was not given: mean lengths, and the hits that the pool here has.

What a user typed stands. The hit share is that of prompt tokens in the pool beside running requests, with the
techniques in use that change the pool; at most what whole blocks of the mean prompt can give.
"""

from collections.abc import Sequence
from dataclasses import replace

from infopt.boundaries.load import Load
from infopt.boundaries.prefix_caching import TECHNIQUE as PREFIX_CACHING
from infopt.boundaries.prefix_reuse import keeping, most_reuse
from infopt.boundaries.steps import Curve
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.terms import Caveat
from infopt.profiles.geometry import ModelProfile
from infopt.studies.boundary import named, situated
from infopt.studies.observed import Filled
from infopt.studies.prefix_trace import Hits, cached_share, has_blocks
from infopt.studies.scenarios import Request


def with_trace(
    hits: Hits,
    model: ModelProfile,
    hardware: HardwareChoice,
    filled: Filled,
    curve: Curve = (),
    applied: Sequence[str] = (),
) -> Filled:
    """The request and the load with what the trace says, and each figure that was taken from it."""
    said: list[Caveat] = []
    request = _with_lengths(hits, filled.request, said)
    load = _with_hits(hits, model, hardware, replace(filled, request=request), curve, applied, said)
    return Filled(request, load, (*filled.assumed, *said))


def _with_lengths(hits: Hits, request: Request, said: list[Caveat]) -> Request:
    """Mean prompt and answer, each where it was not given; they must fit in a context that was."""
    isl = request.input_tokens or max(1, round(hits.mean_input_tokens))
    osl = request.output_tokens or max(1, round(hits.mean_output_tokens))
    told = [
        f"{name} {found}"
        for name, given, found in (("input", request.input_tokens, isl), ("output", request.output_tokens, osl))
        if given is None
    ]
    if not told:
        return request
    ctx = request.context_tokens
    if ctx is not None and isl + osl > ctx:
        text = f"{' and '.join(told)} tokens, means of {hits.name}, do not fit in a context of {ctx}"
        said.append(Caveat("lengths", text))
        return request
    said.append(Caveat("lengths", f"{' and '.join(told)} tokens: means of {hits.name}"))
    return replace(request, input_tokens=isl, output_tokens=osl)


def _with_hits(
    hits: Hits,
    model: ModelProfile,
    hardware: HardwareChoice,
    filled: Filled,
    curve: Curve,
    applied: Sequence[str],
    said: list[Caveat],
) -> Load:
    load = filled.load
    if load.prefix.hit_share is not None or load.prefix.shared_tokens is not None:
        return load
    if not hits.block_tokens:
        said.append(Caveat("prefix", f"{hits.name} has no prefix ids: hits cannot be counted"))
        return load
    others = [text for text in applied if named(text)[0].id != PREFIX_CACHING.id]
    situation, _ = situated(model, hardware, filled.request, load, curve, others)
    if not has_blocks(situation):
        return load
    s = situation.scenario
    if keeping(s.engine.engine, s.engine_version).keeps == "slots":
        text = f"hits of {hits.name} are not taken: {s.engine.engine} keeps the last prompt of each slot, not blocks"
        said.append(Caveat("prefix", text))
        return load
    share = cached_share(situation, hits)
    told = f"prefix hits {share:.1%} of prompt tokens: counted in {hits.name} with this pool beside what runs"
    most = most_reuse(situation).whole_tokens / s.input_tokens
    if share > most:
        told += f", taken as the {most:.1%} that whole blocks can give here"
    said.append(Caveat("prefix", told))
    prefixes = load.prefix.prefixes
    if prefixes is None:
        prefixes = hits.conversations
        said.append(Caveat("prefixes", f"{prefixes:,} prefixes: conversations that {hits.name} begins"))
    return replace(load, prefix=replace(load.prefix, hit_share=min(share, most), prefixes=prefixes))
