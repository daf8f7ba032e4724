"""A trace through a prefix cache, as a section of a page, as Markdown and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType

from infopt.boundaries.deciding import named_engine
from infopt.boundaries.prefix_reuse import keeping
from infopt.ledgers.terms import Caveat
from infopt.reports.markdown import escape, rows_markdown
from infopt.studies.prefix_trace import NEARLY_ALL, Enough, PrefixTrace, Room
from infopt.units import format_bytes, format_flop, format_seconds, format_share

FINDS = ("capacity", "blocks", "memory", "sequences", "kept", "hits", "shuffled")
SAVES = ("capacity", "tokens", "FLOP", "of all", "machine", "of all", "TTFT")
FINDS_NOTE = "blocks an LRU cache finds; shuffled: if requests were independent"
SAVES_NOTE = "on average, each request with its own length and hits"


def section(trace: PrefixTrace, assumptions: Sequence[Caveat]) -> list[RenderableType]:
    """Parts of a page, with what was filled in of it and of the rest."""
    from infopt.reports.terminal import columns_table, facts, heading, listed

    parts: list[RenderableType] = ["", heading(f"Trace {trace.hits.name}", _requests(trace)), facts(fact_rows(trace))]
    finds, saves = finds_rows(trace), saves_rows(trace)
    parts += ["", heading("Finds", FINDS_NOTE)]
    parts.append(columns_table(FINDS, finds, "capacity", ("sequences", "kept", "memory"), 2))
    parts += ["", heading("Saves", SAVES_NOTE)]
    parts.append(columns_table(SAVES, saves, "capacity", ("tokens",), 2))
    assumed = listed("assumed", [caveat.text for caveat in assumptions])
    return [*parts, "", facts([*note_rows(trace), *assumed])]


def markdown(trace: PrefixTrace, assumptions: Sequence[Caveat]) -> str:
    """The same as Markdown."""
    lines = [f"## Trace {escape(trace.hits.name)}", "", _requests(trace), ""]
    lines += [f"- {label}: {escape(text)}" for label, text in fact_rows(trace)]
    for title, columns, rows in (("Finds", FINDS, finds_rows(trace)), ("Saves", SAVES, saves_rows(trace))):
        names = [name if columns.index(name) == i else f"{name} " for i, name in enumerate(columns)]
        lines += ["", f"### {title}", "", rows_markdown([dict(zip(names, row, strict=True)) for row in rows])]
    notes = [*note_rows(trace), *(("assumed", caveat.text) for caveat in assumptions)]
    return "\n".join([*lines, "", *(f"- {label}: {escape(text)}" for label, text in notes)])


def _requests(trace: PrefixTrace) -> str:
    hits = trace.hits
    return (
        f"{hits.curve.requests:,} requests, {hits.mean_input_tokens:,.0f} in and "
        f"{hits.mean_output_tokens:,.0f} out on average"
    )


def fact_rows(trace: PrefixTrace) -> list[tuple[str, str]]:
    """What the trace is, and how this situation sees it."""
    hits, s = trace.hits, trace.situation.scenario
    curve = hits.curve
    rows = [
        (
            "blocks",
            f"{curve.asked_blocks:,} of {hits.block_tokens} tokens asked for, {curve.distinct_blocks:,} distinct; "
            f"one takes {format_bytes(trace.block_bytes)} of a device",
        )
    ]
    if hits.left_out:
        limit = s.model.max_position_tokens or 0
        rows.append(("left out", f"{hits.left_out:,} requests, longer than the model's {limit:,} tokens"))
    if hits.caches > 1:
        rows.append(("replicas", f"{hits.caches}, each with its own cache; requests go to one by chance"))
    elif s.dp > 1:
        rows.append(("replicas", f"{s.dp}, whose caches are taken as one: requests go where their prefix is"))
    row = keeping(s.engine.engine, s.engine_version)
    if row.keeps == "slots":
        rows.append(("engine", f"{named_engine(s)} keeps the last prompt of each slot, not blocks: it finds less"))
    return rows


def finds_rows(trace: PrefixTrace) -> list[list[str]]:
    """What caches find, as cells."""
    return [
        [
            room.name,
            f"{room.blocks:,}",
            format_bytes(room.device_bytes),
            f"{room.sequences:,.0f}" if room.sequences >= 10 else f"{room.sequences:.1f}",
            "-" if room.kept_s is None else format_seconds(room.kept_s),
            format_share(room.hit_share),
            format_share(room.shuffled_hit_share),
        ]
        for room in trace.rooms
    ]


def saves_rows(trace: PrefixTrace) -> list[list[str]]:
    """What that saves, as cells."""
    return [
        [
            room.name,
            format_share(room.hit_tokens_share),
            format_flop(room.saved_flop),
            format_share(room.saved_flop_share),
            _seconds(room.saved_machine_s),
            "-" if room.saved_machine_share is None else format_share(room.saved_machine_share),
            _seconds(room.saved_ttft_s),
        ]
        for room in trace.rooms
    ]


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else format_seconds(seconds)


def note_rows(trace: PrefixTrace) -> list[tuple[str, str]]:
    """What follows."""
    room = trace.beside
    rows = []
    if room.ttft_s is None:
        rows.append(("times", "how long a prompt takes here is not known: FLOP only"))
    elif room.saved_ttft_s is not None:
        rows.append(("TTFT", f"{format_seconds(room.ttft_s)} without the cache, no queue before it"))
    rows += [("more memory", text) for text in _more_memory(trace)]
    rows.append(("shuffled", order_text(trace)))
    return rows


def _more_memory(trace: PrefixTrace) -> Iterator[str]:
    enough = trace.enough
    if enough is None:
        yield "no block ever comes back: no memory finds anything"
        return
    most = format_share(trace.rooms[-1].hit_share)
    if enough.in_pool:
        yield f"the pool holds the {enough.room.blocks:,} blocks that find {NEARLY_ALL:.0%} of all there is ({most})"
        return
    pool = trace.situation.memory.kv_pool_bytes_per_gpu
    yield (
        f"{NEARLY_ALL:.0%} of all there is to find ({most}) takes {enough.room.blocks:,} blocks, "
        f"{enough.room.device_bytes / pool:.3g} times the pool; beyond that memory hardly pays"
    )
    yield from _offload(enough, trace.hits.name)


def _offload(enough: Enough, name: str) -> Iterator[str]:
    if enough.host_bytes is None:
        return
    yield (
        f"as offload: {format_bytes(enough.stored_bytes)} for all devices ({format_bytes(enough.host_bytes)} of host "
        f"memory is assumed), which adds {format_share(enough.reuse_share)} of prompt tokens to what the pool finds: "
        f"infopt boundary kv-offload --trace {name} --reuse-share {enough.reuse_share:.3f} "
        f"--offload-capacity {enough.stored_bytes / 1e9:.0f}GB"
    )


def order_text(trace: PrefixTrace) -> str:
    """Whether Che's approximation holds here, and why not."""
    room, soon, order = trace.farthest, trace.hits.gaps.soonness_ratio, trace.order
    if soon is None:
        return "no block comes back, in any order"
    pace = _pace(soon, trace.hits.is_random_order)
    if order == "independent":
        off = abs(room.hit_share - room.shuffled_hit_share)
        return f"Che's approximation is within {100 * off:.1f} points of what is counted here; blocks come back {pace}"
    each = " in each replica" if trace.situation.scenario.dp > 1 else ""
    why = {"few": ", but the cache holds too few requests for it", "sessions": ": sessions, not independent requests"}
    return (
        f"with room for {room.blocks:,} blocks{each} Che's approximation finds {room.shuffled_hit_share:.2f}, "
        f"counted {room.hit_share:.2f}: blocks come back {pace}{why.get(order, ': not independent requests')}"
    )


def _pace(soon: float, is_random: bool) -> str:
    if is_random:
        return "about as soon as in random order"
    times, how = (1 / soon, "soon") if soon < 1 else (soon, "late")
    return f"{times:.1f} times as {how} as in random order"


def as_dict(trace: PrefixTrace) -> dict[str, Any]:
    """The contract's object."""
    hits, enough = trace.hits, trace.enough
    return {
        "trace": hits.name,
        "requests": hits.curve.requests,
        "left_out_requests": hits.left_out,
        "rate_per_s": hits.rate_per_s,
        "input_tokens_mean": hits.mean_input_tokens,
        "output_tokens_mean": hits.mean_output_tokens,
        "block_tokens": hits.block_tokens,
        "asked_blocks": hits.curve.asked_blocks,
        "distinct_blocks": hits.curve.distinct_blocks,
        "soonness_ratio": hits.gaps.soonness_ratio,
        "caches": hits.caches,
        "block_bytes_per_gpu": trace.block_bytes,
        "engine_block_tokens": trace.engine_block_tokens,
        "running_sequences": trace.running,
        "capacities": [_room(room) for room in trace.rooms],
        "enough": None
        if enough is None
        else {
            "blocks": enough.room.blocks,
            "bytes_per_gpu": enough.room.device_bytes,
            "stored_bytes": enough.stored_bytes,
            "host_bytes": enough.host_bytes,
            "reuse_share": enough.reuse_share,
            "in_pool": enough.in_pool,
        },
        "independence": order_text(trace),
    }


def _room(room: Room) -> dict[str, Any]:
    return {
        "name": room.name,
        "blocks": room.blocks,
        "bytes_per_gpu": room.device_bytes,
        "sequences": room.sequences,
        "kept_requests": room.kept_requests,
        "kept_s": room.kept_s,
        "hit_share": room.hit_share,
        "shuffled_hit_share": room.shuffled_hit_share,
        "steady_hit_share": room.steady_hit_share,
        "hit_tokens_share": room.hit_tokens_share,
        "cached_tokens": room.cached_tokens,
        "saved_flop": room.saved_flop,
        "saved_flop_share": room.saved_flop_share,
        "saved_machine_s": room.saved_machine_s,
        "saved_machine_share": room.saved_machine_share,
        "ttft_s": room.ttft_s,
        "saved_ttft_s": room.saved_ttft_s,
    }
