"""Prompts that begin alike are computed once: less prefill, an earlier first token, room for more sequences.

    ceiling = duplicated prefill FLOP / FLOP of a request                              (document 1)
    gain    = TTFT(0) / TTFT(c)          below saturation: there throughput is the rate, with or without a cache
            = saturation(c) / saturation(0)           from there on
            = the better of TTFT and throughput       where no rate is given and the batch is taken to be always full
c is the mean of what prompts find: whole blocks of the shared tokens times the requests whose prefix is still there
(prefix_reuse.py, ledgers/prefix_cache.py); times are in prefix_gains.py.
FLOP are not time: decode waits for memory, so at a small batch the ceiling in time is far below that in FLOP.
Ignored: prefixes written for the first time, popularity that drifts, attention that reads a shared prefix once.
"""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.deciding import by_gain, measured_by, named_engine, plain_verdict
from infopt.boundaries.load import Prefix
from infopt.boundaries.prefix_gains import (
    capacity_gain,
    first_token_gain,
    fitting,
    machine_s,
    saturations_per_s,
    throughput_gain,
    throughput_ratio,
    ttft_s,
    with_reuse,
)
from infopt.boundaries.prefix_reuse import Reuse, checked, keeping, most_reuse, reuse_of
from infopt.boundaries.quantities import RATE, Quantity
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.ledgers.prefix_cache import saved_flop
from infopt.units import format_bytes, parse_tokens

MEASURE_SHARED = "--shared-prefix TOKENS, or --hit-share SHARE (a server's prefix hits over its queries, in tokens)"
RULE = "the gain is at most the FLOP of duplicated prefill over all FLOP; random prefixes gain almost nothing"
MOST_PREFIXES = 100_000
# Of two verdicts on two gains, what is sure to pay goes before what may.
BEST_FIRST: tuple[Verdict, ...] = ("use", "measure", "limited", "skip", "impossible")


def judge(situation: Situation) -> Judgement:
    """Whether reuse pays, by what the prompts share."""
    reuse = _reuse_or_why_not(situation)
    if isinstance(reuse, Judgement):
        return reuse
    verdict, gain, reason = _verdict(situation, reuse)
    figures = (*_figures(situation, reuse), *_memory_figures(situation, reuse))
    rule = _rule(_flop_share(situation, reuse.cached_tokens), verdict)
    settle = measured_by([situation.scenario]) if verdict == "measure" else ""
    return Judgement(verdict, gain, reason, figures, tuple(_costs(situation, reuse)), rule, settle)


def quick(situation: Situation) -> Verdict:
    """The verdict of `judge` alone."""
    reuse = _reuse_or_why_not(situation, figures=False)
    return reuse.verdict if isinstance(reuse, Judgement) else _verdict(situation, reuse)[0]


def _reuse_or_why_not(situation: Situation, figures: bool = True) -> Reuse | Judgement:
    """What prompts find, or the answer where they find nothing or nothing is known."""
    checked(situation)
    prefix, nothing = situation.load.prefix, _rule(0.0, "skip")
    if TECHNIQUE.id in situation.used:
        return Judgement("skip", None, f"in use: {situation.cached_tokens:,.0f} tokens of a prompt are cached")
    if situation.memory.kv_pool_bytes_per_gpu <= 0:
        return Judgement("impossible", None, "no memory is left for a cache: the model does not fit")
    if all(kind.state_slots for kind, _ in situation.memory.layout.kinds):
        return Judgement("measure", None, "the model keeps no keys and values, only a state", settle=MEASURE_SHARED)
    if prefix.shared_tokens == 0:
        return Judgement("skip", None, "prompts share nothing: there is nothing to reuse", rule=nothing)
    reuse = reuse_of(situation)
    if reuse is None:
        return _unknown(situation, figures)
    if reuse.cached_tokens == 0:
        shown = tuple(_memory_figures(situation, reuse)) if figures else ()
        return Judgement("skip", None, _no_hit(situation, reuse), shown, rule=nothing)
    return reuse


def _unknown(situation: Situation, figures: bool) -> Judgement:
    """What a prompt that is all prefix would gain: the most there is."""
    most, tokens = most_reuse(situation), situation.scenario.input_tokens
    rule = _rule(_flop_share(situation, most.cached_tokens), "skip")
    shown = tuple(_memory_figures(situation, most)) if figures else ()
    if not most.whole_tokens:
        reason = f"a prompt of {tokens:,} tokens fills no block of {most.block_tokens:,}"
        return Judgement("skip", None, reason, shown, rule=rule)
    verdict, gain, _ = _verdict(situation, most)
    shown = (*_figures(situation, most), *shown) if figures else ()
    if verdict == "skip" and gain is not None:
        reason = f"even prompts that are all prefix gain {gain.value:.2f}x only"
        return Judgement("skip", None, reason, shown, rule=rule)
    reason = "what prompts share is not known; gain and figures are of prompts that are all prefix"
    costs = tuple(_costs(situation, most))
    return Judgement("measure", None, reason, shown, costs, Rule(1, RULE, None), MEASURE_SHARED)


def _no_hit(situation: Situation, reuse: Reuse) -> str:
    prefix = situation.load.prefix
    if prefix.hit_share == 0:
        return "measured: no prompt token is found in the cache"
    shared = situation.scenario.input_tokens if prefix.shared_tokens is None else prefix.shared_tokens
    return f"{shared:,} shared tokens fill no block of {reuse.block_tokens:,}"


def _verdict(situation: Situation, reuse: Reuse) -> tuple[Verdict, Gain | None, str]:
    """Latency decides below saturation, throughput from there; without a rate the better of the two."""
    s, rate, basis = situation.scenario, situation.load.traffic.rate_per_s, situation.steps.basis
    hits = f"{reuse.cached_tokens / s.input_tokens:.0%} of prompt tokens are cached"
    if not situation.fits and reuse.sequences >= s.batch_per_replica:
        room = reuse.sequences / max(1, situation.memory.max_sequences)
        return "use", Gain(room, room, room, "sequences"), f"{s.batch} sequences fit only if they share their prefix"
    if situation.steps.shape is None:
        return "measure", None, f"{hits}, but how long a prompt takes here is not known"
    if rate is not None:
        return _at_rate(situation, reuse, rate, hits)
    ttft, throughput = first_token_gain(situation, reuse), throughput_gain(situation, reuse)
    sooner, through = f"TTFT gains {ttft.value:.3g}x", f"throughput {throughput.value:.2f}x"
    early, full = by_gain(ttft, basis), by_gain(throughput, basis)
    if BEST_FIRST.index(early) < BEST_FIRST.index(full):
        return early, ttft, f"{hits}: {sooner}, {through}"
    return full, throughput, f"{hits}: {through}, {sooner}"


def _at_rate(situation: Situation, reuse: Reuse, rate_per_s: float, hits: str) -> tuple[Verdict, Gain, str]:
    """Below the saturation rate only latency moves; from there on more requests are served."""
    basis, (before, after) = situation.steps.basis, saturations_per_s(situation, reuse, situation.steps)
    if rate_per_s < min(before, after):
        ttft = first_token_gain(situation, reuse)
        sooner = f"TTFT gains {ttft.value:.3g}x"
        return by_gain(ttft, basis), ttft, f"{hits}: {sooner}; below saturation throughput stays as it is"
    capacity = capacity_gain(situation, reuse)
    if rate_per_s < before:
        fullest = f"affinity gives one replica {reuse.hot_spot:.2g}x its share"
        return "skip", capacity, f"{fullest}, which saturates it at {rate_per_s:.3g} requests/s"
    reason = f"{hits}: saturated at {after:.3g} requests/s, without reuse at {before:.3g}"
    return by_gain(capacity, basis), capacity, reason


def _flop_share(situation: Situation, cached_tokens: float) -> float:
    """Prefill FLOP that are saved over those of a request."""
    compute, s = situation.compute, situation.scenario
    whole = compute.prefill_flop + s.output_tokens * compute.decode_flop_per_token
    return float(saved_flop(s.model, cached_tokens)) / whole


def _figures(situation: Situation, reuse: Reuse) -> Iterator[Figure]:
    s, steps = situation.scenario, situation.steps
    batch, after = fitting(situation), with_reuse(situation, reuse)
    yield Figure("cached_tokens", reuse.cached_tokens, "tokens", "of a prompt found in the cache on average")
    yield Figure("hit_share", reuse.cached_tokens / s.input_tokens, "share", "of prompt tokens found in the cache")
    if reuse.found_share is not None:
        yield Figure(
            "found_share", reuse.found_share, "share", f"of requests find their prefix ({_assumed(situation)})"
        )
    flop_share = _flop_share(situation, reuse.whole_tokens)
    yield Figure(
        "ceiling_flop_share", flop_share, "share", "of all FLOP saved if every prefix is found (document 1's ceiling)"
    )
    yield Figure("saved_flop", saved_flop(s.model, reuse.cached_tokens), "FLOP", "saved of one prompt on average")
    yield Figure("tpot_s", situation.tpot_s(steps, batch), "s", "TPOT without reuse")
    yield Figure("tpot_after_s", after.tpot_s(steps, batch), "s", "TPOT with reuse: prompts of others take less of it")
    if steps.shape is None:
        return
    all_hit = situation.changed(cached_tokens=float(reuse.whole_tokens))
    time_share = 1 - machine_s(all_hit, steps, batch) / machine_s(situation, steps, batch)
    before_s, after_s = ttft_s(situation, steps, batch), ttft_s(after, steps, batch)
    before, most = saturations_per_s(situation, reuse, steps)
    yield Figure("ceiling_time_share", time_share, "share", "of machine time saved if every prefix is found")
    yield Figure("ttft_s", before_s, "s", "TTFT without reuse")
    yield Figure("ttft_after_s", after_s, "s", "TTFT with reuse")
    yield Figure("saved_ttft_s", before_s - after_s, "s", "TTFT saved")
    full = throughput_ratio(situation, reuse, steps)
    yield Figure("throughput_ratio", full, "ratio", "throughput with reuse over without, the batch always full")
    yield Figure("saturation_rate_per_s", before, "requests/s", "rate at which it is saturated without reuse")
    yield Figure("saturation_rate_after_per_s", most, "requests/s", "rate at which it is saturated with reuse")


def _assumed(situation: Situation) -> str:
    prefix = situation.load.prefix
    if prefix.prefixes is None:
        return "one assumed: --prefixes"
    alike = "all alike assumed: --prefix-skew" if prefix.skew is None else f"Zipf {prefix.skew:g}"
    return f"{prefix.prefixes:,} prefixes, {alike}"


def _memory_figures(situation: Situation, reuse: Reuse) -> Iterator[Figure]:
    memory = situation.memory
    pool, held = memory.kv_pool_bytes_per_gpu, reuse.prefixes * reuse.prefix_bytes
    yield Figure("block_tokens", reuse.block_tokens, "tokens", "in a block: only whole blocks are found")
    yield Figure("whole_tokens", reuse.whole_tokens, "tokens", "of a shared prefix in whole blocks")
    yield Figure("prefix_bytes", reuse.prefix_bytes, "bytes", "KV cache of one prefix on one device")
    yield Figure("held_bytes", held, "bytes", f"KV cache of all prefixes on one device, of {format_bytes(pool)}")
    yield Figure("remembered_requests", reuse.remembered, "requests", "whose prompts one replica keeps in its cache")
    yield Figure("max_sequences", memory.max_sequences, "sequences", "that fit without sharing blocks")
    yield Figure("max_sequences_after", reuse.sequences, "sequences", "that fit when they share their prefixes' blocks")
    yield Figure(
        "sequences_beside_all", _beside_all(situation, reuse), "sequences", "that fit if all prefixes are to stay"
    )
    if reuse.hot_spot > 1:
        yield Figure("hot_spot_ratio", reuse.hot_spot, "ratio", "load of the fullest replica over the mean, at best")


def _beside_all(situation: Situation, reuse: Reuse) -> int:
    """Sequences that fit when every prefix keeps its place."""
    left = situation.memory.kv_pool_bytes_per_gpu - reuse.prefixes * reuse.prefix_bytes
    return max(0, int(left // reuse.own_bytes)) if reuse.own_bytes else situation.memory.max_sequences


def _costs(situation: Situation, reuse: Reuse) -> Iterator[str]:
    s, routing = situation.scenario, situation.load.prefix.routing
    yield "privacy: a short TTFT tells that someone sent the same prefix; separate tenants by salt or pool"
    if s.dp > 1 and routing == "affinity":
        yield f"routing: the fullest of {s.dp} replicas gets {reuse.hot_spot:.2f}x its share, more if hashed"
    elif s.dp > 1:
        yield f"routing: {routing}, so each of {s.dp} replicas computes and keeps every prefix for itself"
    lost = situation.memory.max_sequences - _beside_all(situation, reuse)
    if lost > 0:
        yield f"memory: {lost:,} sequences fewer fit if all {reuse.prefixes:,} prefixes are to stay"
    if any(kind.state_slots for kind, _ in situation.memory.layout.kinds):
        yield "layers with a state keep it at block ends only, in pages of their own: hits come in large blocks"
    yield f"{named_engine(s)}: {keeping(s.engine.engine, s.engine_version).text}"


def _rule(flop_share: float, verdict: Verdict) -> Rule:
    says = plain_verdict(1 / (1 - min(flop_share, 0.999)))
    why = "FLOP are not time: decode waits for memory, and TTFT for the prompt alone"
    return Rule(1, RULE, says, why if says != verdict else "")


def apply(situation: Situation, argument: str) -> Situation:
    """The cache in use: what prompts find on average; an argument is the shared tokens (`prefix-2k`)."""
    if argument:
        situation = _with_shared(situation, parse_tokens(argument, "--with prefix"))
    reuse = reuse_of(situation)
    if reuse is None:
        raise InfoptError(f"--with prefix: what prompts share is not known; give {MEASURE_SHARED}")
    return situation.changed(cached_tokens=reuse.cached_tokens, used=(*situation.used, TECHNIQUE.id))


def _with_prefix(situation: Situation, prefix: Prefix) -> Situation:
    return situation.changed(load=replace(situation.load, prefix=prefix))


def _with_shared(situation: Situation, tokens: float) -> Situation:
    return _with_prefix(situation, replace(situation.load.prefix, shared_tokens=int(tokens), hit_share=None))


def _with_hits(situation: Situation, share: float) -> Situation:
    """A measured share takes the place of what follows from shared tokens."""
    return _with_prefix(situation, replace(situation.load.prefix, shared_tokens=None, hit_share=share))


def _with_prefixes(situation: Situation, number: float) -> Situation:
    return _with_prefix(situation, replace(situation.load.prefix, prefixes=int(number)))


def _hits(situation: Situation) -> float | None:
    reuse = reuse_of(situation)
    return None if reuse is None else reuse.cached_tokens / situation.scenario.input_tokens


def _most_hits(situation: Situation) -> float:
    return most_reuse(situation).whole_tokens / situation.scenario.input_tokens


SHARED = Quantity(
    name="shared-prefix",
    unit="tokens",
    whole=True,
    low=1,
    high=lambda situation: float(situation.scenario.input_tokens),
    get=lambda situation: situation.load.prefix.shared_tokens,
    set=_with_shared,
)
HITS = Quantity(
    name="hit-share",
    unit="share",
    whole=False,
    low=0,
    high=_most_hits,
    get=_hits,
    set=_with_hits,
    share=True,
)
PREFIXES = Quantity(
    name="prefixes",
    unit="prefixes",
    whole=True,
    low=1,
    high=lambda _: float(MOST_PREFIXES),
    get=lambda situation: situation.load.prefix.prefixes,
    set=_with_prefixes,
)
TECHNIQUE = Technique(
    id="prefix-caching",
    name="Prefix caching",
    ledger="prefill compute, first token",
    order=4,
    judge=judge,
    quantities=(SHARED, HITS, PREFIXES, RATE),
    plane=(SHARED, PREFIXES),
    apply=apply,
    quick=quick,
    aliases=("prefix", "prompt-caching"),
)
