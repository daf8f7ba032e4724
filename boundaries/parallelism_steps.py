"""Document 2's seven steps to a placement, each as figures.

    1 one GPU?  2 TP in the fast links  3 PP across machines  4 replicas  5 experts  6 context parallelism  7 P/D split
Bubbles of a prompt in a pipeline: (stages - 1)/(chunks + stages - 1). Balance of prefill and decode devices:
prompt work / (OSL step / B), both on the present group. A break-even here is where two named placements are equal;
those of the verdict are found by judging again.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import ceil

from infopt.boundaries.load import Links
from infopt.boundaries.placement_links import PlacementLinks, wires_here
from infopt.boundaries.placements import Placed, Unloaded, fewest_devices, longest_stage_ratio, placed
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Figure
from infopt.errors import InfoptError
from infopt.ledgers.arrays import ceil_div
from infopt.ledgers.cache import model_cache
from infopt.ledgers.compute import attention_prefill_flop, prefill_flop
from infopt.ledgers.links import group_wire, layer_sums_s, send_s, with_bandwidth
from infopt.ledgers.scenario import allowed_tensor_parallel
from infopt.ledgers.traffic import distinct_experts

LEAST_LINK_BYTES_PER_S, MOST_LINK_BYTES_PER_S = 1e7, 1e13
MOST_BATCH = 65536
MOST_PROMPT_TOKENS = 2**24


def figures(situation: Situation, here: Placed, holding: int) -> tuple[Figure, ...]:
    """All of them, in the order of the steps."""
    steps = (one_device, tensor_parallel, pipeline, replicas, experts, context, split)
    found = [figure for step in steps for figure in step(situation, here)]
    return (*found, Figure("placements", holding, "placements", "of these devices that hold a sequence"))


def one_device(situation: Situation, here: Placed) -> Iterator[Figure]:
    """1. Whether one device holds weights and cache."""
    one = _placed(situation, 1, 1, 1)
    held = one.held_by_replica if one is not None else 0
    yield Figure("one_gpu_max_sequences", held, "sequences", "one device: sequences that fit beside the weights")
    yield Figure(
        "fewest_gpus", _fewest(Unloaded(situation)), "devices", "fewest that hold the weights and one sequence"
    )


@lru_cache(maxsize=64)
def _fewest(place: Unloaded) -> int | None:
    return fewest_devices(place.situation)


def tensor_parallel(situation: Situation, here: Placed) -> Iterator[Figure]:
    """2. Time per token by width, and the link below which the present width loses against half of it."""
    s = situation.scenario
    wires = wires_here(situation)
    widths = [tp for tp in (1, 2, 4, 8) if tp <= wires.machine_devices and tp in allowed_tensor_parallel(s.model, 8)]
    first_s = None
    for tp in widths:
        one = _placed(situation, 1, tp, 1)
        if one is None:
            continue
        one = one.unbounded()
        tpot_s = one.tpot_s(one.steps)
        first_s = first_s or tpot_s * tp
        fits = "" if one.max_sequences >= s.batch else ", if memory held it"
        yield Figure(f"tpot_tp{tp}_s", tpot_s, "s", f"tp {tp}: TPOT at this batch{fits}")
        yield Figure(
            f"tp{tp}_efficiency_share", first_s / (tp * tpot_s), "share", f"tp {tp}: speed-up over the devices it takes"
        )
    wire, width = group_wire(wires, max(2, s.tp)), s.tp if s.tp > 1 else 2
    if wire is not None and width in allowed_tensor_parallel(s.model, width):
        kind = f"link: of one device, one direction ({wire.kind.kind})"
        yield Figure("link_bytes_per_s", wire.bytes_per_s, "bytes/s", kind)
        sums_s = float(layer_sums_s(wires, s.model, width, here.resident / s.dp))
        yield Figure("step_all_reduce_s", sums_s, "s", f"tp {width}: all-reduces of one decode step, two a layer")
        even = _link_break_even(situation, width)
        text = f"link: below it tp {width} has a longer TPOT than 2 x tp {width // 2}" + _if_none(even)
        yield Figure("link_break_even_bytes_per_s", even, "bytes/s", text)


def _if_none(value: float | None) -> str:
    return ": none" if value is None else ""


def _link_break_even(situation: Situation, width: int) -> float | None:
    """Bandwidth at which the width has the TPOT of two groups of half of it; None where one always wins."""
    wide, narrow = _placed(situation, 1, width, 1), _placed(situation, 2, width // 2, 1)
    if wide is None or narrow is None or not narrow.holds:
        return None
    lead_s = narrow.tpot_s(narrow.steps) - narrow.linked_s(narrow.links)
    lead_s -= wide.tpot_s(wide.steps) - wide.linked_s(wide.links)

    def lead(bytes_per_s: float) -> float:
        wires = replace(wide.links.wires, inside=with_bandwidth(wide.links.wires.inside, bytes_per_s))
        linked = [p.linked_s(PlacementLinks(p.situation, p.steps.constants, wires)) for p in (narrow, wide)]
        return lead_s + linked[0] - linked[1]

    return _turn(lead, LEAST_LINK_BYTES_PER_S, MOST_LINK_BYTES_PER_S)


def pipeline(situation: Situation, here: Placed) -> Iterator[Figure]:
    """3. Stages in place of tensor parallelism, over machines where there are several."""
    s = situation.scenario
    together = s.tp * s.pp
    stages = s.pp if s.pp > 1 else max(2, ceil_div(together, wires_here(situation).machine_devices))
    if together % stages or stages > s.model.layers:
        return
    piped = _placed(situation, 1, together // stages, stages)
    if piped is None:
        return
    chunks, tpot_s = piped.chunks, piped.tpot_s(piped.steps)
    share = (stages - 1) / (chunks + stages - 1)
    what = f"{piped.name}"
    yield Figure("pipeline_tpot_s", tpot_s, "s", f"{what}: TPOT, a token passes all stages")
    yield Figure("pipeline_tokens_per_s", piped.rate_per_s(piped.steps), "tokens/s", f"{what}: throughput")
    yield Figure(
        "pipeline_bubble_share",
        share,
        "share",
        f"{what}: bubble, idle part of a lone prompt in {chunks} chunk{'s'[: chunks > 1]}",
    )
    idle = 1 - min(1.0, piped.resident / stages)
    yield Figure("pipeline_idle_share", idle, "share", f"{what}: part of its stages idle at this batch")
    yield Figure(
        "pipeline_longest_stage_ratio",
        longest_stage_ratio(piped.scenario),
        "ratio",
        f"{what}: layers of the longest stage over the mean",
    )
    yield Figure(
        "pipeline_hops_s",
        piped.links.hops_s(max(1.0, piped.resident / stages)),
        "s",
        f"{what}: hops between stages, beyond what step times hold",
    )


def replicas(situation: Situation, here: Placed) -> Iterator[Figure]:
    """4. One group over all devices against as many replicas as hold the model."""
    s = situation.scenario
    pair = _wide_and_narrow(situation)
    if pair is None:
        return
    for placement, name in zip(pair, ("group", "replicas"), strict=True):
        yield Figure(
            f"{name}_tokens_per_s", placement.rate_per_s(placement.steps), "tokens/s", f"{placement.name}: throughput"
        )
        yield Figure(f"{name}_tpot_s", placement.tpot_s(placement.steps), "s", f"{placement.name}: TPOT")
        yield Figure(
            f"{name}_max_sequences", placement.max_sequences, "sequences", f"{placement.name}: sequences that fit"
        )
        lost = 1 / (placement.groups * (1 if s.model.experts else placement.scenario.dp))
        yield Figure(f"{name}_lost_share", lost, "share", f"{placement.name}: capacity lost with one device")
    batch = _replica_batch(
        Unloaded(situation),
        situation.load.links,
        situation.load.chunk_tokens,
        situation.cached_tokens,
        situation.cycle,
    )
    text = f"{pair[1].name}: batch from which it serves more than {pair[0].name}" + _if_none(batch)
    yield Figure("replicas_batch", batch, "sequences", text)


def _wide_and_narrow(situation: Situation) -> tuple[Placed, Placed] | None:
    """The widest TP group of all devices, and the narrowest replicas that hold a sequence."""
    s = situation.scenario
    widths = [tp for tp in allowed_tensor_parallel(s.model, min(8, s.gpus)) if s.gpus % tp == 0]
    found = [each for tp in widths if (each := _placed(situation, s.gpus // tp, tp, 1)) is not None and each.holds]
    return (found[-1], found[0]) if len(found) > 1 else None


@lru_cache(maxsize=64)
def _replica_batch(
    place: Unloaded,
    links: Links,
    chunk_tokens: int | None,
    cached_tokens: float,
    cycle: tuple[float, float, float] | None,
) -> float | None:
    """The batch from which replicas serve more; None where they never do, or always do.

    Beside the placement, whatever of the situation times of a placement depend on is part of the key.
    """
    situation = place.situation

    def lead(batch: float) -> float:
        pair = _wide_and_narrow(situation.changed(batch=round(batch)))
        assert pair is not None
        return pair[1].rate_per_s(pair[1].steps) - pair[0].rate_per_s(pair[0].steps)

    found = _turn(lead, 1.0, float(MOST_BATCH), whole=True)
    return None if found is None else float(ceil(found))


def experts(situation: Situation, here: Placed) -> Iterator[Figure]:
    """5. Experts on ranks of their own: what travels, who waits for whom, what each rank reads."""
    s = situation.scenario
    ranks = s.tp * s.dp
    if not s.model.experts or ranks < 2:
        return
    spread = _placed(situation, 1, 1, 1, ranks, ranks)
    shape = here.steps.shape
    if spread is None or shape is None:
        return
    tokens, layers = spread.resident, sum(run.layers for run in s.model.groups if run.feed_forward.experts)
    wire = group_wire(spread.links.wires, ranks)
    if wire is not None:
        one_s = spread.links.one_exchange_s(wire, ranks, tokens)
        yield Figure("expert_exchange_s", one_s, "s", f"ep {ranks}: exchange out and back in one of {layers} layers")
    yield Figure(
        "expert_imbalance_ratio", spread.imbalance(tokens), "ratio", f"ep {ranks}: busiest rank over the mean, at least"
    )
    hit = distinct_experts(shape.experts, shape.experts_per_token, tokens)
    read = sum(block.expert_bytes * hit for stage in shape.stages for block in stage.experts)
    yield Figure(
        "expert_bytes_per_step",
        float(read),
        "bytes",
        f"ep {ranks}: read by a rank in a step, {hit:.0f} distinct experts a layer in all",
    )
    yield Figure("expert_parallel_tpot_s", spread.tpot_s(spread.steps), "s", f"{spread.name}: TPOT")
    yield Figure(
        "expert_parallel_max_sequences", spread.max_sequences, "sequences", f"{spread.name}: sequences that fit"
    )
    yield Figure("present_max_sequences", here.max_sequences, "sequences", f"{here.name}: sequences that fit now")


def context(situation: Situation, here: Placed) -> Iterator[Figure]:
    """6. Context parallelism pays where attention is most of a prompt, or a prompt alone breaks the target."""
    s = situation.scenario
    attention = attention_share(situation, s.input_tokens)
    yield Figure("attention_share_of_prefill", attention, "share", "prefill: attention's part of the FLOP of a prompt")
    half = _turn(lambda tokens: attention_share(situation, tokens) - 0.5, 16.0, float(MOST_PROMPT_TOKENS))
    yield Figure(
        "context_parallel_tokens",
        half,
        "tokens",
        "context parallelism: shortest prompt of which attention is half",
    )
    steps = here.steps
    prompt_s = here.prompt_s(steps)
    yield Figure("prompt_s", prompt_s or None, "s", f"prefill: time of one prompt on {here.name}")
    target_s = situation.load.targets.ttft_s
    if target_s is not None and prompt_s:
        longest = _turn(lambda tokens: steps.prompt_s(tokens) - target_s, 1.0, float(MOST_PROMPT_TOKENS))
        yield Figure(
            "longest_prompt_tokens",
            longest,
            "tokens",
            "prefill: longest prompt within the TTFT target, nothing else running",
        )


def attention_share(situation: Situation, tokens: float) -> float:
    """Attention's part of the FLOP of a prompt."""
    model = situation.scenario.model
    attention = sum(run.layers * float(attention_prefill_flop(run.mixer, tokens)) for run in model.groups)
    return attention / float(prefill_flop(model, tokens))


def split(situation: Situation, here: Placed) -> Iterator[Figure]:
    """7. Prompts on devices of their own: what must travel, how many of each, what decoding is rid of."""
    s, wires, steps = situation.scenario, wires_here(situation), here.steps
    size = float(model_cache(s.model, s.kv).kv_bytes_per_sequence(s.input_tokens))
    prompt_s = here.prompt_s(steps)
    lanes = s.tp * s.pp
    yield Figure("kv_transfer_bytes", size, "bytes", "prefill/decode split: KV cache of one prompt, to be sent")
    yield Figure(
        "kv_transfer_network_s",
        float(send_s(wires.between, size / lanes)),
        "s",
        f"prefill/decode split: to send it {_network(situation)}",
    )
    if wires.inside is not None:
        yield Figure(
            "kv_transfer_link_s",
            float(send_s(wires.inside, size / lanes)),
            "s",
            "prefill/decode split: to send it inside a machine",
        )
    if not prompt_s or not here.connected:
        return
    tpot_s, stall_s = here.tpot_s(steps), here.stall_s(steps)
    decode_s = s.output_tokens * (tpot_s - stall_s) / here.resident
    ratio = prompt_s / decode_s
    whole = ceil(1 + max(ratio, 1 / ratio))
    yield Figure("stall_share_of_tpot", stall_s / tpot_s, "share", "prefill/decode split: part of TPOT that it removes")
    yield Figure("split_tpot_s", tpot_s - stall_s, "s", "prefill/decode split: TPOT with it")
    yield Figure(
        "prefill_per_decode_gpu", ratio, "ratio", "prefill/decode split: devices for prefill over those for decode"
    )
    yield Figure("replicas_for_split", whole, "replicas", "prefill/decode split: groups needed to divide them so")


def _network(situation: Situation) -> str:
    wire = wires_here(situation).between
    said = "--network" if situation.load.links.network_bytes_per_s else "assumed; --network"
    return f"at {wire.bytes_per_s / 1e9:.0f} GB/s ({said})"


def _placed(situation: Situation, groups: int, tp: int, pp: int, dp: int = 1, ep: int = 1) -> Placed | None:
    """A placement, None where no engine runs it, or nothing is known that joins its devices."""
    try:
        found = placed(situation, groups, tp, pp, dp, ep)
        found.scenario.check()
    except InfoptError:
        return None
    return found if found.connected else None


def _turn(lead: Callable[[float], float], low: float, high: float, whole: bool = False) -> float | None:
    """Where `lead` turns positive, to a thousandth or a whole number; None where it does not between the ends."""
    if lead(low) > 0 or lead(high) <= 0:
        return None
    while high - low > (1.0 if whole else 1e-3 * high):
        middle = float((low + high) // 2) if whole else (low * high) ** 0.5
        if lead(middle) > 0:
            high = middle
        else:
            low = middle
    return high
