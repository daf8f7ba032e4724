"""Where each figure comes from, written out: `--explain`, and the derivations of `models show`.

A derivation is the equation with its numbers, as one would check it by hand.
"""

from dataclasses import dataclass

from infopt.ledgers.cache import cache_sizes, layer_bytes_per_token, layer_state_bytes, model_cache, state_element_bytes
from infopt.ledgers.compute import attention_flop_per_token, attention_prefill_flop
from infopt.ledgers.scenario import stages
from infopt.profiles.formats import KvFormat
from infopt.profiles.geometry import LayerRun, Mixer, ModelProfile
from infopt.studies.planning import Plan
from infopt.units import (
    format_bytes,
    format_bytes_per_s,
    format_count,
    format_flop,
    format_flop_per_s,
    format_seconds,
    format_whole,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One figure with its derivation.

    ledger     memory, kv, bandwidth, compute or hardware
    value      in the unit, with its interval where one is known
    kind       vendor, measured, assumed, exact, source_code, user or derived
    """

    ledger: str
    name: str
    value: float | None
    unit: str
    formula: str
    source: str
    kind: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class CachePart:
    """What one group of layers keeps for a sequence.

    text              "2 x 80 layers x 8 heads x 128 x 2 B"
    bytes_per_token   0 for recurrent state
    window_tokens     cap of the tokens kept, None where all are
    state_bytes       fixed bytes per sequence
    """

    kind: str
    text: str
    bytes_per_token: float
    window_tokens: int | None
    state_bytes: float


def cache_parts(model: ModelProfile, kv: KvFormat) -> list[CachePart]:
    """The cache of the whole model by kind of layer, each with its product written out.

    A layer that both attends and keeps a state makes two parts.
    """
    layers: dict[Mixer, int] = {}
    for group in model.groups:
        layers[group.mixer] = layers.get(group.mixer, 0) + group.layers
    parts = []
    for mixer, count in layers.items():
        if per_token := layer_bytes_per_token(mixer, kv):
            window = mixer.window_tokens if mixer.kind in ("window", "chunked") else None
            parts.append(CachePart(mixer.kind, _product(mixer, count, kv), count * per_token, window, 0.0))
        if mixer.state:
            state = count * layer_state_bytes(mixer, model.compute_dtype)
            text = _state_product(mixer, count, model.compute_dtype)
            parts.append(CachePart(mixer.variant or mixer.kind, text, 0.0, None, state))
    return parts


def _state_product(mixer: Mixer, layers: int, dtype: str) -> str:
    """Bytes of recurrent state of `layers` layers as a product."""
    tensors = (
        f"{t.name} {format_whole(t.elements)} x {state_element_bytes(t.dtype or dtype):g} B" for t in mixer.state
    )
    return f"{layers} layers x ({' + '.join(tensors)})"


def _product(mixer: Mixer, layers: int, kv: KvFormat) -> str:
    """Bytes per token of `layers` attention layers as a product."""
    each = f"{kv.bits_per_element / 8:g} B"
    if mixer.kind in ("latent", "indexed"):
        rope = mixer.latent_dim - mixer.latent_rank
        latent = f"({mixer.latent_rank} latent + {rope} rope) x {each}" if rope else f"{mixer.latent_dim} x {each}"
        if kv.latent_bytes_per_token:
            latent = f"{kv.latent_bytes_per_token} B"
        index = f" + {mixer.index_dim} index x {each}" if mixer.index_dim else ""
        if mixer.index_dim and kv.index_bytes_per_token:
            index = f" + {kv.index_bytes_per_token} B index"
        return f"{layers} layers x ({latent}{index})" if index else f"{layers} layers x {latent}"
    scales = f" + {2 * kv.bytes_per_vector} B of scales" if kv.bytes_per_vector else ""
    if mixer.qk_dim == mixer.v_dim and not scales:
        return f"2 x {layers} layers x {mixer.kv_heads} heads x {mixer.qk_dim} x {each}"
    return f"{layers} layers x {mixer.kv_heads} heads x (({mixer.qk_dim} K + {mixer.v_dim} V) x {each}{scales})"


def active_params_by_part(model: ModelProfile) -> dict[str, int]:
    """Parameters a decode step reads for one token, by part: k experts in place of all, no embedding gather.

    A tied head is the embedding matrix, and is named head here.
    """
    count = {part: n for part, n in model.params_by_part.items() if part not in ("embedding", "vision", "mtp")}
    if model.tied:
        count["head"] = model.embed_params
    if "expert" in count:
        runs = [(run.layers, run.feed_forward) for run in model.runs]
        count["expert"] = sum(n * ff.experts_per_token * ff.expert_params for n, ff in runs)
        idle = sum(n * (ff.experts - ff.experts_per_token) * ff.expert_small_params for n, ff in runs)
        count["small"] = count.get("small", 0) - idle
    return {part: n for part, n in count.items() if n}


def explain(plan: Plan) -> list[Line]:
    """Every figure of the plan with formula, numbers and source."""
    return [*_memory(plan), *_cache(plan), *_bandwidth(plan), *_compute(plan), *_hardware(plan)]


def _memory(plan: Plan) -> list[Line]:
    return [
        Line("memory", t.name, t.value, t.unit, t.formula, t.source, t.kind, t.low, t.high) for t in plan.memory.terms
    ]


def _cache(plan: Plan) -> list[Line]:
    s = plan.scenario
    lines = []
    for part in cache_parts(s.model, s.kv):
        if part.state_bytes:
            lines.append(
                Line("kv", f"{part.kind} state", part.state_bytes, "bytes", part.text, s.model.source, "exact")
            )
            continue
        kept = f", at most {format_whole(part.window_tokens)} tokens" if part.window_tokens else ""
        lines.append(
            Line(
                "kv",
                f"{part.kind} attention",
                part.bytes_per_token,
                "bytes_per_token",
                part.text + kept,
                s.model.source,
                "exact",
            )
        )
    return lines


def _bandwidth(plan: Plan) -> list[Line]:
    s, b = plan.scenario, plan.bandwidth
    device = s.accelerator
    rate = f"{s.tp} x {format_bytes_per_s(device.bandwidth_bytes_per_s)}"
    kind, source = _datum(plan, "bandwidth_bytes_per_s")
    weights = _weights_formula(plan)
    moved = b.weight_bytes_per_step + b.kv_bytes_per_step
    return [
        Line("bandwidth", "weights read", b.weight_bytes_per_step, "bytes", weights, s.model.source, "exact"),
        Line("bandwidth", "KV read", b.kv_bytes_per_step, "bytes", _cache_read_formula(plan), s.kv.source, "exact"),
        Line(
            "bandwidth", "step floor", b.step_floor_s, "s",
            f"{format_bytes(moved)} / ({rate}, {kind}) = {format_seconds(b.step_floor_s)}", source, kind,
        ),
        Line("bandwidth", "TPOT floor", b.tpot_floor_s, "s", "step floor / 1 token per step", "", "derived"),
        Line(
            "bandwidth", "amortized", b.amortized_s_per_token, "s",
            f"step floor / batch {s.batch}: time of the deployment per token, not what a user waits", "", "derived",
        ),
    ]  # fmt: skip


def _weights_formula(plan: Plan) -> str:
    """Weights read in a step by part, and what the ranks hold more than once."""
    s = plan.scenario
    parts = active_params_by_part(s.model).items()
    once = sum(n * s.weight_bits[part] / 8 for part, n in parts)
    copies = plan.bandwidth.weight_bytes_per_step - once
    text = " + ".join(
        f"{part.replace('_', ' ')} {format_count(n)} x {s.weight_bits[part]:.4g} bit" for part, n in parts
    )
    if copies > 0.0005 * once:
        text += f" = {format_bytes(once)}, and {format_bytes(copies)} that several ranks each read or pad"
    return text


def _cache_read_formula(plan: Plan) -> str:
    """KV read in a step: sequences, the cache of each, and how often the ranks hold it."""
    s = plan.scenario
    cache = model_cache(s.model, s.kv)
    each = float(cache.kv_bytes_per_sequence(s.decode_context_tokens)) + 2 * cache.state_bytes
    length = f"{format_whole(round(s.decode_context_tokens))} tokens"
    text = f"{s.batch_per_replica} x {format_bytes(each)}, the cache of {length}"
    if cache.state_bytes:
        text += " and the recurrent state, read and written"
    whole = s.batch_per_replica * each
    copies = plan.bandwidth.kv_bytes_per_step / whole if whole else 1.0
    if copies > 1.001:
        return f"{text}; copies on several ranks make it {copies:.3g} times that"
    return f"{text}; the selected tokens only, {copies:.1%} of it" if copies < 0.999 else text


def _compute(plan: Plan) -> list[Line]:
    s, c = plan.scenario, plan.compute
    model, n = s.model, s.input_tokens
    head = model.head_params or model.embed_params
    attention = float(sum(g.layers * attention_prefill_flop(g.mixer, n) for g in model.groups))
    decode = float(sum(g.layers * attention_flop_per_token(g.mixer, s.decode_context_tokens) for g in model.groups))
    prefill = (
        f"2 x {format_count(model.params_active - head)} x {format_whole(n)} tokens + 2 x {format_count(head)} head "
        f"+ {format_flop(attention)} attention"
    )
    per_token = f"2 x {format_count(model.params_active)} active + {format_flop(decode)} attention"
    lines = [
        Line("compute", "prefill", c.prefill_flop, "flop", prefill, model.source, "exact"),
        Line("compute", "decode", c.decode_flop_per_token, "flop_per_token", per_token, model.source, "exact"),
    ]
    if c.peak_flop_per_s and c.ttft_floor_s is not None:
        kind, source = _datum(plan, f"peak_flop_per_s.{c.peak_format}")
        peak = f"{s.tp * s.pp} x {format_flop_per_s(c.peak_flop_per_s)} {c.peak_format} dense, {kind}"
        text = f"{format_flop(c.prefill_flop)} / ({peak}) = {format_seconds(c.ttft_floor_s)}"
        lines.append(Line("compute", "TTFT floor", c.ttft_floor_s, "s", text, source, kind))
    ridge = "weights' time / (a token's compute time - a sequence's cache time)"
    if c.ridge_batch is None:
        ridge += ": the difference is not positive, so there is none"
    lines.append(Line("compute", "ridge batch", c.ridge_batch, "sequences", ridge, "", "derived"))
    return lines


def _hardware(plan: Plan) -> list[Line]:
    """The figures of the device that the ledgers rest on."""
    device = plan.scenario.accelerator
    figures: list[tuple[str, str, float | None, str]] = [
        ("usable memory", "usable_memory_bytes", device.usable_memory_bytes, "bytes"),
        ("driver's memory", "driver_memory_bytes", device.driver_memory_bytes, "bytes"),
        ("price", "usd_per_hour", device.usd_per_hour, "usd_per_hour"),
    ]
    lines = []
    for name, field, value, unit in figures:
        if value is not None:
            kind, source = _datum(plan, field)
            lines.append(Line("hardware", name, value, unit, "", source, kind))
    return lines


def _datum(plan: Plan, field: str) -> tuple[str, str]:
    datum = plan.scenario.accelerator.data.get(field)
    return (datum.kind, datum.source) if datum else ("assumed", "no source on record")


def rank_bytes_per_sequence(plan: Plan) -> float:
    """Logical cache and state of one sequence on the device that decides, to compare with what is reserved there."""
    s = plan.scenario
    sizes = cache_sizes(stages(s.model, s.pp)[plan.memory.stage], s.kv, s.model.compute_dtype, s.tp)
    return float(sizes.kv_bytes_per_sequence(s.context_tokens)) + sizes.state_bytes


def layer_group_words(run: LayerRun) -> str:
    """One group of layers in words: its attention and its feed-forward."""
    return f"{_mixer_words(run.mixer)}; {_feed_forward_words(run)}"


def _mixer_words(mixer: Mixer) -> str:
    if mixer.kind == "recurrent":
        return f"{(mixer.variant or 'recurrent').replace('_', ' ')} state"
    if mixer.kind in ("latent", "indexed"):
        return _latent_words(mixer)
    if mixer.kind == "none":
        return "no attention"
    heads = f"{mixer.q_heads} query and {mixer.kv_heads} KV heads of {mixer.qk_dim}"
    if mixer.v_dim != mixer.qk_dim:
        heads += f" ({mixer.v_dim} V)"
    names = {"full": "full attention", "window": "sliding window", "chunked": "chunks", "shared": "shared cache"}
    span = f" of {format_whole(mixer.window_tokens)}" if mixer.window_tokens else ""
    beside = f" beside a {(mixer.variant or 'recurrent').replace('_', ' ')} state" if mixer.state else ""
    return f"{names[mixer.kind]}{span}, {heads}{beside}"


def _latent_words(mixer: Mixer) -> str:
    rope = mixer.latent_dim - mixer.latent_rank
    kept = f"{mixer.latent_rank} + {rope}" if rope else f"{mixer.latent_dim} elements a token"
    index = f", top {format_whole(mixer.index_topk)} by an index of {mixer.index_dim}" if mixer.index_dim else ""
    window = " over a window of recent tokens" if mixer.state else ""
    return f"latent attention{window}, {mixer.q_heads} heads{f', {kept}' if mixer.latent_dim else ''}{index}"


def _feed_forward_words(run: LayerRun) -> str:
    ff = run.feed_forward
    if ff.kind == "none":
        return "no feed-forward"
    if not ff.experts:
        return f"dense feed-forward of {format_whole(ff.intermediate)}"
    shared = ", shared expert" if ff.shared_params else ""
    return f"{ff.experts_per_token} of {ff.experts} experts of {format_whole(ff.intermediate)}{shared}"
