"""Sentences that every readable form of a plan shares: what was asked, the verdict, what binds."""

from collections.abc import Callable

from infopt.hardware.accelerator import Accelerator
from infopt.ledgers.memory import MemoryLedger
from infopt.studies.derivations import Line, rank_bytes_per_sequence
from infopt.studies.planning import Plan
from infopt.units import (
    format_bytes,
    format_bytes_per_s,
    format_count,
    format_flop,
    format_flop_per_s,
    format_gib,
    format_seconds,
    format_share,
    format_tokens,
    format_usd,
    format_whole,
)

TERM_NAMES = {"kv": "KV cache", "graphs": "CUDA graphs"}
QUANTITIES: dict[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "gib": format_gib,
    "bytes_per_token": lambda value: f"{format_whole(round(value))} B/token",
    "s": format_seconds,
    "flop": format_flop,
    "flop_per_token": lambda value: f"{format_flop(value)}/token",
    "sequences": lambda value: format_whole(round(value)),
    "usd_per_hour": lambda value: f"{format_usd(value)}/h",
}
UNLIMITED_SEQUENCES = 10**9


def term_name(name: str) -> str:
    """The name of a memory term as people say it."""
    return TERM_NAMES.get(name, name)


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 sequence`, `13 sequences`."""
    return f"{format_whole(number)} {one if number == 1 else many or one + 's'}"


def device_name(device: Accelerator) -> str:
    return device.name or device.id


def title(plan: Plan) -> str:
    """Model and hardware in one line."""
    s = plan.scenario
    return f"{s.model.id} on {s.gpus} x {device_name(s.accelerator)}"


def model_words(plan: Plan) -> str:
    s, m = plan.scenario, plan.memory
    active = (
        ""
        if s.model.params_active_with_embeddings == s.model.params_total
        else (f" ({format_count(s.model.params_active)} active)")
    )
    return (
        f"{format_count(s.model.params_total)} parameters{active}, "
        f"{s.weight_format} weights {format_bytes(m.stored_weights_bytes)}, {s.kv_format} KV cache"
    )


def placement_words(plan: Plan) -> str:
    """Degrees of parallelism that are not 1 (tp always)."""
    s = plan.scenario
    degrees = [("tp", s.tp), *((name, n) for name, n in (("pp", s.pp), ("dp", s.dp), ("ep", s.ep)) if n > 1)]
    return ", ".join(f"{name} {n}" for name, n in degrees)


def device_words(plan: Plan) -> str:
    """Placement, and the two figures of a device that the ledgers rest on."""
    device = plan.scenario.accelerator
    return (
        f"{placement_words(plan)}; each {format_gib(device.usable_memory_bytes)} usable "
        f"({kind_of(device, 'usable_memory_bytes')}), {format_bytes_per_s(device.bandwidth_bytes_per_s)} "
        f"({kind_of(device, 'bandwidth_bytes_per_s')})"
    )


def kind_of(device: Accelerator, field: str) -> str:
    """What kind of knowledge a figure of the device is."""
    datum = device.data.get(field)
    return datum.kind if datum else "assumed"


def engine_words(plan: Plan) -> str:
    s = plan.scenario
    told = f"utilization {s.utilization:g}" if s.kv_pool_bytes is None else f"KV pool {format_gib(s.kv_pool_bytes)}"
    return f"{s.engine.engine} {s.engine_version}, {told}"


def load_words(plan: Plan) -> str:
    s = plan.scenario
    return (
        f"{counted(s.batch, 'sequence')} of {format_tokens(s.context_tokens)} tokens "
        f"({format_whole(s.input_tokens)} in, {format_whole(s.output_tokens)} out)"
    )


def verdict_word(plan: Plan) -> str:
    return {True: "FITS", False: "DOES NOT FIT", None: "UNDETERMINED"}[plan.fits]


def verdict_words(plan: Plan) -> str:
    """The verdict with its number."""
    if plan.fits is None:
        return _undetermined_words(plan)
    return _room_words(plan) if plan.fits else _short_words(plan)


def _room_words(plan: Plan) -> str:
    s, m = plan.scenario, plan.memory
    if m.max_sequences >= UNLIMITED_SEQUENCES:
        return "the model caches nothing per token: sequences are not limited by memory"
    room = f"{counted(m.max_sequences * s.dp, 'sequence')} of {format_tokens(s.context_tokens)} tokens"
    if m.kv_bytes_per_sequence == 0:
        return f"{counted(m.max_sequences * s.dp, 'sequence')}, whatever their length: only a fixed state is kept"
    limit = s.model.max_position_tokens
    why = ", the model's limit" if m.max_context_tokens == limit else ""
    return f"{room}; the longest single one {format_whole(m.max_context_tokens)} tokens{why}"


def _short_words(plan: Plan) -> str:
    m = plan.memory
    if m.refusals:
        return "; ".join(m.refusals)
    if m.is_pool_too_large:
        room = format_gib(max(0.0, m.kv_room_bytes))
        return f"the KV pool of {format_gib(m.kv_pool_bytes_per_gpu)} is more than the {room} beside the rest"
    short = m.used_bytes_per_gpu - m.capacity_bytes_per_gpu
    if short > 0:
        return f"{format_gib(short)} short{_where(plan)}"
    return f"the KV pool of {format_gib(m.kv_pool_bytes_per_gpu)} is too small for {format_gib(m.kv_bytes_per_gpu)}"


def _undetermined_words(plan: Plan) -> str:
    if plan.memory.unknown:
        return f"{'; '.join(plan.memory.unknown)}; leaving that out, {_room_words(plan)}"
    return "what is needed lies within the error of constants that are not known for this engine version"


def bound_words(plan: Plan) -> str:
    """What sets the pace of a decode step, in one plain sentence."""
    share = plan.bandwidth.kv_share_of_step
    if plan.bound == "compute":
        return (
            "compute: the products of a step take longer than its memory traffic; more batch adds time, not throughput"
        )
    if plan.bound == "kv":
        return (
            f"KV reads: {format_share(share)} of a step's bytes are caches, read anew for every sequence; "
            "a smaller cache pays, a larger batch hardly"
        )
    return f"weights: {format_share(1 - share)} of a step's bytes, read once for the whole batch; a larger batch pays"


def ridge_words(plan: Plan) -> str:
    """Where decode turns compute-bound."""
    ridge, peak = plan.compute.ridge_batch, plan.compute.peak_flop_per_s
    if peak is None:
        return "not known: the device has no dense peak on record"
    if ridge is None:
        return "never: reading a sequence's cache takes longer than computing its token"
    return f"{format_whole(round(ridge))} sequences: from there on a step is bound by compute"


def step_equation(plan: Plan) -> str:
    """The step floor with its numbers."""
    s, b = plan.scenario, plan.bandwidth
    moved = format_bytes(b.weight_bytes_per_step + b.kv_bytes_per_step)
    rate = format_bytes_per_s(s.accelerator.bandwidth_bytes_per_s)
    return f"{moved} / ({s.tp} x {rate})" if s.tp > 1 else f"{moved} / {rate}"


def ttft_equation(plan: Plan) -> str:
    """The prefill floor with its numbers."""
    s, c = plan.scenario, plan.compute
    peak = f"{format_flop_per_s(c.peak_flop_per_s or 0)} {c.peak_format}"
    devices = s.tp * s.pp
    return (
        f"{format_flop(c.prefill_flop)} / ({devices} x {peak})"
        if devices > 1
        else f"{format_flop(c.prefill_flop)} / {peak}"
    )


def cost_words(plan: Plan) -> str | None:
    """Price per hour, and of a million output tokens: expected, and the least."""
    cost = plan.cost
    if cost is None:
        return None
    least = f"at least {format_usd(cost.usd_per_million_output_tokens_at_floor)}"
    expected = cost.usd_per_million_output_tokens
    if expected is None:
        per_million = f"{least} per million output tokens, were every step as short as its floor"
    else:
        per_million = f"{format_usd(expected)} per million output tokens expected, {least} at the floor"
    return f"{format_usd(cost.usd_per_hour)} per hour; {per_million}"


def attribution_words(plan: Plan) -> str | None:
    """What prompts and answers cost, where a throughput is expected."""
    c = plan.cost
    if c is None or c.prefill_share is None or c.usd_per_million_input_tokens_attributed is None:
        return None
    outputs = c.usd_per_million_output_tokens_attributed
    assert outputs is not None
    return (
        f"prompts take {format_share(c.prefill_share)} of the machine's time: "
        f"{format_usd(c.usd_per_million_input_tokens_attributed)} per million input tokens; "
        f"answers the rest: {format_usd(outputs)} per million output tokens"
    )


def energy_words(plan: Plan) -> str | None:
    """Energy of an output token, with what its power rests on."""
    e = plan.energy
    if e is None or e.joules_per_output_token is None or e.output_tokens_per_joule is None:
        return None
    return (
        f"{e.joules_per_output_token:.3g} J per output token ({e.output_tokens_per_joule:.3g} tokens per "
        f"joule) at {e.watts:,.0f} W: {e.source}"
    )


def money_rows(plan: Plan) -> list[tuple[str, str]]:
    """Lines on cost and energy."""
    rows = [("cost", cost_words(plan)), ("", attribution_words(plan)), ("energy", energy_words(plan))]
    return [(label, text) for label, text in rows if text]


def kv_words(plan: Plan) -> list[str]:
    """The cache in logical bytes, and what the engine reserves for the same sequence."""
    m = plan.memory
    state = m.state_bytes_per_sequence
    logical = (
        f"{format_whole(round(m.kv_bytes_per_token))} B per token; "
        f"{format_bytes(m.kv_bytes_per_sequence)} ({format_gib(m.kv_bytes_per_sequence)}) per sequence"
    )
    if state:
        logical += f", and {format_bytes(state)} of recurrent state"
    return [logical, reserved_words(plan)]


def reserved_words(plan: Plan) -> str:
    """What the engine's allocator takes for one sequence, beside the logical bytes one device holds."""
    s, page = plan.scenario, plan.memory.layout
    if not page.kinds:
        return "the engine reserves no blocks: nothing is cached per token"
    reserved, used = page.request_bytes(s.context_tokens), rank_bytes_per_sequence(plan)
    of_it = "" if abs(reserved - used) < 0.005 * used else f", of which {format_gib(used)} are used"
    if page.separate:
        each = f"{s.engine.engine} reserves {format_gib(reserved)} per sequence{_where(plan)}{of_it}"
        return f"{each}, a pool for each kind of layer"
    groups = f" in {page.groups} groups of {page.group_layers} layers" if page.groups > 1 else ""
    of = f" of {page.block_tokens} tokens" if page.block_tokens > 1 else " of one token"
    blocks = f"{counted(page.request_blocks(s.context_tokens), 'block')}{of}{groups}"
    return f"{s.engine.engine} reserves {format_gib(reserved)} per sequence{_where(plan)}{of_it}: {blocks}"


def _where(plan: Plan) -> str:
    return " on each device" if plan.scenario.gpus > 1 else ""


def pool_words(plan: Plan) -> str:
    m = plan.memory
    if not m.kv_pool_high_bytes:
        return "none: what is loaded leaves nothing for the cache"
    return (
        f"{format_gib(m.kv_pool_bytes_per_gpu)}{_where(plan)} "
        f"({_pool_interval_words(m)}): {plan.scenario.engine.engine} prints {format_whole(m.kv_pool_tokens)} tokens"
        f"{_concurrency_words(plan)}"
    )


def _pool_interval_words(m: MemoryLedger) -> str:
    if m.kv_pool_low_bytes == m.kv_pool_high_bytes:
        return "given"
    return f"{format_gib(m.kv_pool_low_bytes)} to {format_gib(m.kv_pool_high_bytes)}"


def _concurrency_words(plan: Plan) -> str:
    """Sequences in a pool that is known to the byte, in the engine's own words."""
    m = plan.memory
    if m.kv_pool_concurrency is None or m.kv_pool_low_bytes != m.kv_pool_high_bytes:
        return ""
    return f", {m.kv_pool_concurrency:.2f}x {format_whole(plan.scenario.context_tokens)} tokens"


def rate_words(plan: Plan) -> str:
    """TPOT floor as a user feels it."""
    tpot = plan.bandwidth.tpot_floor_s
    return f"at least {format_seconds(tpot)} for each user: at most {1 / tpot:.4g} tokens/s"


def quantity(value: float | None, unit: str) -> str:
    """A figure in the unit its ledger compares it in: memory in GiB, traffic in GB."""
    if value is None:
        return "-"
    if unit not in QUANTITIES:
        return f"{value:g} {unit}"
    return QUANTITIES[unit](value)


def line_quantity(line: Line) -> str:
    """The value of a derivation; what lies in memory is told in GiB, as drivers and engines do."""
    return quantity(line.value, _line_unit(line))


def line_interval(line: Line) -> str | None:
    """Low to high of a derivation, None where it is exact."""
    if line.low is None or line.high is None or line.low == line.high:
        return None
    unit = _line_unit(line)
    return f"{quantity(line.low, unit)} to {quantity(line.high, unit)}"


def _line_unit(line: Line) -> str:
    return "gib" if line.unit == "bytes" and line.ledger in ("memory", "hardware") else line.unit


def choice_cells(rank: int, plan: Plan) -> list[str]:
    """One choice of hardware: rank, --hw, tp, pp, math, TPOT floor, sequences, longest, price."""
    s, m = plan.scenario, plan.memory
    return [
        str(rank),
        f"{s.accelerator.id}:{s.gpus}",
        str(s.tp),
        str(s.pp),
        plan.compute.peak_format,
        format_seconds(plan.bandwidth.tpot_floor_s),
        format_whole(m.max_sequences * s.dp),
        format_whole(m.max_context_tokens),
        format_usd(plan.cost.usd_per_hour) if plan.cost else "-",
    ]


def assumptions(plan: Plan) -> list[str]:
    """Everything that was filled in, the reading of the hardware's name first where it left a choice."""
    named = plan.resolved_as.split(" x ", 1)[-1]
    chosen = [] if named == device_name(plan.scenario.accelerator) else [f"hardware: {plan.resolved_as}"]
    return [*chosen, *(assumption.text for assumption in plan.assumptions)]


def default_mark(plan: Plan, *ids: str) -> str:
    """A mark for a line that holds defaults."""
    return " (defaults)" if any(assumption.id in ids for assumption in plan.assumptions) else ""


def page_caveats(plan: Plan) -> list[str]:
    """What the reader must know; the verdict has refusals, --explain the notes on where a device's figures disagree."""
    return [caveat.text for caveat in plan.caveats if caveat.id not in ("hardware", "refused")]
