"""What was observed of a running engine, in the terminal, Markdown, CSV and JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.observing.observation import Observation, Spread
from infopt.units import (
    format_bytes,
    format_bytes_per_s,
    format_flop_per_s,
    format_seconds,
    format_share,
    format_whole,
)

SEVERAL_SCHEMA = "infopt/observations/1"
TIMES = {
    "tpot_s": "per output token",
    "itl_s": "between outputs",
    "ttft_s": "to the first token",
    "queue_s": "in the queue",
    "prefill_s": "prefill",
    "e2e_s": "whole request",
}
COLUMNS = ("time", "mean", "p50", "p90", "p99", "n")
ONE_TOKEN = 1.02  # a step: more are drafts
WINDOWS = {"window": "a window", "totals": "all since the server's start", "benchmark": "a benchmark's result"}
ROW_COLUMNS = ("row", "requests", "batch", "per token", "first token", "tokens/s", "source")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: label and text, or a table of times."""

    name: str
    note: str
    rows: tuple[tuple[str, str], ...]
    times: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Added:
    """What stands below an observation: sections of the page, and keys of the JSON."""

    sections: tuple[Section, ...] = ()
    data: Mapping[str, Any] = {}


NOTHING_ADDED = Added()


def as_dict(o: Observation, added: Added = NOTHING_ADDED) -> dict[str, Any]:
    """The record: the observation's own keys, and what was made of it."""
    return {**o.plain(), "beside": None, "advice": None, "measure_next": None, "checklist": None, **added.data}


def render_observation(o: Observation, form: str, added: Added = NOTHING_ADDED) -> str:
    """One observation in one form."""
    if form == "json":
        from infopt.reports.json_report import dumps

        return dumps(as_dict(o, added))
    if form == "csv":
        from infopt.reports.csv_report import rows_csv

        return rows_csv([_columns(o)])
    if form == "md":
        return "\n".join(_markdown(o, added))
    return _page(o, added)


def render_several(found: Sequence[Observation], form: str) -> str:
    """Results of one file, one row each."""
    if form in ("json", "csv"):
        from infopt.reports.csv_report import rows_csv
        from infopt.reports.json_report import dumps

        if form == "csv":
            return rows_csv([_columns(o) for o in found])
        return dumps({"schema": SEVERAL_SCHEMA, "observations": [o.plain() for o in found]})
    rows = [_row(number, o) for number, o in enumerate(found, start=1)]
    if form == "md":
        from infopt.reports.markdown import table

        return "\n".join(table(ROW_COLUMNS, rows, "rrrrrrl"))
    from rich.text import Text

    from infopt.reports.terminal import columns_table, facts, to_text

    title = Text(f"{len(found)} results", style="bold").append(f" of {found[0].engine or 'an engine not named'}")
    drop = ("source", "requests", "tokens/s")
    hint = facts([("-", "one of them in full: --row N; for --observed: --row N --out FILE")], label_width=1)
    return to_text([title, "", columns_table(ROW_COLUMNS, rows, "source", drop, indent=2), "", hint])


def _columns(o: Observation) -> dict[str, Any]:
    """A row of CSV."""
    from infopt.reports.csv_report import flattened

    return {name: printable(value) if isinstance(value, str) else value for name, value in flattened(o.plain())}


def _row(number: int, o: Observation) -> tuple[str, ...]:
    return (
        str(number),
        _number(o.requests),
        _number(o.effective_batch or o.effective_batch_by_littles_law),
        _seconds(o.mean_s("tpot_s")),
        _seconds(o.mean_s("ttft_s")),
        _number(o.output_tokens_per_s),
        printable(o.source or ""),
    )


def printable(text: str) -> str:
    """What a server says, without what would move the cursor or paint the screen."""
    return "".join(c if c.isprintable() else "?" for c in text)


def title(o: Observation) -> str:
    """Whose figures these are."""
    engine = " ".join(part for part in (o.engine or "an engine not named", o.version_guess) if part)
    return printable(f"{engine}, {o.model}" if o.model else engine)


def over(o: Observation) -> str:
    """What the figures are over, and where they are from."""
    what = WINDOWS.get(o.kind or "", "an observation")
    lasting = f" of {format_seconds(o.window_s)}" if o.window_s else ""
    taken = f", until {o.taken}" if o.taken else ""
    return printable(f"{what}{lasting}{taken}; {o.source}" if o.source else f"{what}{lasting}{taken}")


def sections(o: Observation) -> Iterator[Section]:
    """The page, part by part; a part that nothing is known of is left out."""
    parts = (
        Section("LOAD", "", tuple(_load(o))),
        Section("TIMES", _times_note(o), (), tuple(_times(o))),
        Section("SPECULATION", "", tuple(_speculation(o))),
        Section("CACHE", "", tuple(_cache(o))),
        Section("DEVICE", "", tuple(_device(o))),
    )
    yield from (part for part in parts if part.rows or part.times)


def remarks(o: Observation) -> Iterator[str]:
    """What a reader must know."""
    yield from (printable(note) for note in o.notes)
    if o.unknown_names:
        shown = printable(", ".join(o.unknown_names[:6]))
        more = f" and {len(o.unknown_names) - 6} more (--json lists them)" if len(o.unknown_names) > 6 else ""
        yield f"metrics that this version of infopt does not know: {shown}{more}"


def _load(o: Observation) -> Iterator[tuple[str, str]]:
    batch, by_law = o.effective_batch, o.effective_batch_by_littles_law
    if batch is not None or by_law is not None:
        said = [f"{_number(batch)} {'sequence' if batch == 1 else 'sequences'} in a step"] if batch is not None else []
        said += [f"{_number(by_law)} by Little's law"] if by_law is not None else []
        yield "batch", "; ".join(said)
    if o.waiting is not None:
        yield "waiting", f"{_number(o.waiting)} request{'' if o.waiting == 1 else 's'}"
    if o.requests is not None:
        rate = f" ({_number(o.requests_per_s)}/s)" if o.requests_per_s is not None else ""
        lengths = [
            f"{_number(mean)} tokens {way}"
            for mean, way in ((o.input_tokens_mean, "in"), (o.output_tokens_mean, "out"))
            if mean is not None
        ]
        yield "requests", f"{_number(o.requests)} finished{rate}" + (f", {', '.join(lengths)} each" if lengths else "")
    if o.output_tokens is not None:
        rate = f" ({_number(o.output_tokens_per_s)}/s)" if o.output_tokens_per_s is not None else ""
        steps = f" in {_number(o.steps)} steps" if o.steps is not None else ""
        yield "output", f"{_number(o.output_tokens)} tokens{rate}{steps}"


def _times(o: Observation) -> Iterator[tuple[str, ...]]:
    for name, words in TIMES.items():
        value = getattr(o, name)
        if value is None:
            continue
        spread = value if isinstance(value, Spread) else Spread(mean=value)
        yield (
            words,
            _seconds(spread.mean),
            *(_seconds(part) for part in (spread.p50, spread.p90, spread.p99)),
            _number(spread.count),
        )


def _times_note(o: Observation) -> str:
    found = [getattr(o, name) for name in TIMES]
    bucketed = any(isinstance(value, Spread) and value.is_bucket for value in found)
    return "percentiles are interpolated in the engine's buckets" if bucketed else ""


def _speculation(o: Observation) -> Iterator[tuple[str, str]]:
    drafts = o.draft_share is not None or o.acceptance_per_position is not None
    if o.tokens_per_step is not None and (drafts or o.tokens_per_step > ONE_TOKEN):
        yield "tokens/step", f"{o.tokens_per_step:.2f}, steps without a draft counted"
    if o.draft_share is not None:
        length = f", of {_number(o.drafted_tokens)} tokens" if o.drafted_tokens is not None else ""
        yield "drafts", f"in {format_share(o.draft_share)} of the steps{length}"
    elif o.drafted_tokens is not None:
        yield "drafts", f"of {_number(o.drafted_tokens)} tokens"
    if o.acceptance_per_position is not None:
        rates = " ".join(f"{rate:.2f}" for rate in o.acceptance_per_position)
        yield "accepted", f"{rates} (share of drafts with at least 1, 2, .. tokens accepted)"


def _cache(o: Observation) -> Iterator[tuple[str, str]]:
    pool = [f"{_number(o.kv_pool_tokens)} tokens"] if o.kv_pool_tokens is not None else []
    pool += [format_bytes(o.kv_pool_bytes)] if o.kv_pool_bytes is not None else []
    if o.blocks is not None and o.block_tokens is not None:
        pool.append(f"{_number(o.blocks)} blocks of {_number(o.block_tokens)} tokens")
    elif o.block_tokens is not None:
        pool.append(f"blocks of {_number(o.block_tokens)} tokens")
    pool += [f"{_number(o.max_concurrency)} sequences of the longest context"] if o.max_concurrency is not None else []
    if pool:
        yield "pool", ", ".join(pool)
    if o.kv_use_share is not None:
        peak = o.kv_use_peak_share
        most = f", at most {format_share(peak)}" if peak is not None and peak > o.kv_use_share else ""
        yield "in use", f"{format_share(o.kv_use_share)}{most}"
    if o.prefix_hit_share is not None:
        yield "prefix hits", f"{format_share(o.prefix_hit_share)} of prompt tokens"
    elif o.prefix_caching is not None:
        yield "prefix hits", "nothing was looked for" if o.prefix_caching else "the engine keeps no prefixes"
    if o.preemptions is not None:
        yield "preemptions", _number(o.preemptions)


def _device(o: Observation) -> Iterator[tuple[str, str]]:
    if o.read_bytes_per_s is not None:
        yield "reads", f"{format_bytes_per_s(o.read_bytes_per_s)} of one device, by the engine's account"
    if o.flop_per_s is not None:
        yield "computes", f"{format_flop_per_s(o.flop_per_s)} of one device, by the engine's account"
    if o.bandwidth_utilization is not None:
        yield "bandwidth", f"{format_share(o.bandwidth_utilization)} of what the device can read in its steps' time"


def _known_columns(rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Without the columns of which nothing is known."""
    kept = [i for i in range(len(COLUMNS)) if any(row[i] != "-" for row in rows)]
    return [COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _number(value: float | None) -> str:
    """A count: whole where it is large, else three digits; a dash where it is not known."""
    if value is None:
        return "-"
    return format_whole(round(value)) if value >= 1000 or value == round(value) else f"{value:.3g}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_seconds(value)


def _page(o: Observation, added: Added) -> str:
    from rich.text import Text

    from infopt.reports.terminal import columns_table, facts, heading, to_text

    parts: list[Any] = [Text(title(o), style="bold"), Text(over(o))]
    for section in (*sections(o), *added.sections):
        parts += ["", heading(section.name, section.note)]
        if section.times:
            columns, rows = _known_columns(section.times)
            drop = [name for name in ("n", "p50", "p90") if name in columns]
            parts.append(columns_table(columns, rows, "time", drop, indent=2))
        if section.rows:
            parts.append(facts(section.rows))
    notes = list(remarks(o))
    if notes:
        parts += ["", heading("NOTES"), facts((("-", note) for note in notes), label_width=1)]
    return to_text(parts)


def _markdown(o: Observation, added: Added) -> Iterator[str]:
    from infopt.reports.markdown import escape, table

    yield f"### {escape(title(o))}"
    yield ""
    yield escape(over(o))
    for section in (*sections(o), *added.sections):
        yield ""
        yield f"**{section.name.capitalize()}**{f' ({section.note})' if section.note else ''}"
        yield ""
        if section.times:
            columns, rows = _known_columns(section.times)
            yield from table(columns, rows, "l" + "r" * (len(columns) - 1))
        else:
            yield from table(("", ""), section.rows, "ll")
    notes = list(remarks(o))
    if notes:
        yield ""
        yield from (f"- {escape(note)}" for note in notes)
