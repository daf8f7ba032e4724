"""A start-up log beside the ledger: page, Markdown and the JSON under `start_log` of `infopt observe --json`."""

from collections.abc import Iterator, Sequence
from typing import Any

from infopt.reports.markdown import escape, table
from infopt.studies.start_log import LogRow, StartLogPage
from infopt.units import format_gib, format_seconds, format_whole

COLUMNS = ("of one rank", "engine", "ledger", "differs", "interval", "")
KINDS = {
    "kv_too_small": "one request needs more cache than there is",
    "no_kv": "nothing is left for the cache",
    "free_below_utilization": "less memory is free than the share it is to take",
    "out_of_memory": "out of memory",
    "block_size": "no kernel takes blocks of this size",
    "numa": "fewer memory nodes than workers",
    "other": "an error",
}


def start_log_lines(page: StartLogPage) -> str:
    """The page for a terminal."""
    from infopt.reports.terminal import columns_table, facts, heading, listed, to_text

    parts: list[Any] = [heading(title(page)), facts(list(fact_rows(page)))]
    if page.rows:
        parts += ["", columns_table(COLUMNS, cells(page), COLUMNS[0], ("interval", "", "differs"), indent=2)]
    said = [*listed("refused", _refusal_words(page)), *listed("note", page.notes)]
    if said:
        parts += ["", facts(said)]
    return to_text(parts)


def start_log_markdown(page: StartLogPage) -> str:
    """The same as Markdown."""
    lines = [f"### {escape(title(page))}", "", *table(("", ""), list(fact_rows(page)), "ll")]
    if page.rows:
        lines += ["", *table(COLUMNS, cells(page), "lrrrrl")]
    said = [f"- **refused**: {escape(text)}" for text in _refusal_words(page)]
    said += [f"- {escape(note)}" for note in page.notes]
    return "\n".join([*lines, *([""] if said else []), *said])


def start_log_json(page: StartLogPage) -> dict[str, Any]:
    """What stands under `start_log`: the log as read, figures of both, and the verdict."""
    return {
        **page.log.plain(),
        "terms": [
            {
                "name": row.name,
                "unit": row.unit,
                "logged": row.logged,
                "expected": row.expected,
                "low": row.low,
                "high": row.high,
                "difference": row.difference,
                "inside": row.inside,
            }
            for row in page.rows
        ],
        "refusal_predicted": None if page.verdict is None else page.verdict.predicted,
        "refusal_by": None if page.verdict is None else page.verdict.text,
        "notes": list(page.notes),
    }


def title(page: StartLogPage) -> str:
    """Whose start, and how it ended."""
    log = page.log
    ended = "refused to start" if log.refusal else "started" if log.started else "start"
    return f"{log.engine} {log.engine_version or '(version not in the log)'}: {ended}"


def fact_rows(page: StartLogPage) -> Iterator[tuple[str, str]]:
    """What the log says of its configuration."""
    log = page.log
    yield "log", log.source
    if log.model or page.scenario:
        planned = page.scenario.model.id if page.scenario else None
        yield "model", " as ".join(filter(None, dict.fromkeys((log.model, planned))))
    sizes = [f"{name} {value}" for name in ("tp", "pp", "dp") if (value := getattr(log, name))]
    if sizes:
        yield "devices", ", ".join(sizes)
    limits = (
        ("context", log.context_tokens),
        ("sequences", log.max_num_seqs),
        ("batched tokens", log.max_num_batched_tokens),
        ("block", log.block_tokens),
    )
    shown = [f"{name} {format_whole(value)}" for name, value in limits if value]
    shown += [f"utilization {log.utilization_share:g}"] if log.utilization_share is not None else []
    if shown:
        yield "limits", ", ".join(shown)
    settings = [f"{name} {value}" for name, value in (("weights", log.dtype), ("KV", log.kv_format)) if value]
    settings += [log.quantization] if log.quantization else []
    settings += ["eager"] if log.eager else []
    if log.prefix_caching is not None:
        settings.append(f"prefix caching {'on' if log.prefix_caching else 'off'}")
    if log.speculation:
        settings.append(f"speculation {log.speculation} {log.speculative_tokens or ''}".strip())
    if settings:
        yield "settings", ", ".join(settings)
    times = [("weights", log.worst("load_s")), ("profile and warm-up", log.init_s)]
    if any(value is not None for _, value in times):
        yield "took", ", ".join(f"{name} {format_seconds(value)}" for name, value in times if value is not None)
    if not page.rows:
        yield from _logged_only(page)


def _logged_only(page: StartLogPage) -> Iterator[tuple[str, str]]:
    """The log's own figures, where no ledger stands beside them."""
    log = page.log
    names = ("total", "weights", "non_torch", "consumed", "activation", "graphs_estimated", "graphs_taken", "kv_pool")
    for name in names:
        value = log.worst(f"{name}_bytes")
        if value is not None:
            yield name.replace("_", " ").replace("kv", "KV"), format_gib(value)
    if log.kv_pool_tokens is not None:
        yield "KV tokens", format_whole(log.kv_pool_tokens)
    elif log.kv_blocks is not None:
        yield "KV blocks", format_whole(log.kv_blocks)
    if log.max_concurrency is not None:
        yield "concurrency", f"{log.max_concurrency:g}"


def cells(page: StartLogPage) -> list[Sequence[str]]:
    """The figures of both, as text."""
    return [
        (
            row.name,
            _figure(row.logged, row),
            "-" if row.expected is None else _figure(row.expected, row),
            "" if row.difference is None else f"{100 * row.difference:+.2f} %",
            "" if row.low is None or row.high is None else f"{_bare(row.low, row)} .. {_bare(row.high, row)}",
            {None: "", True: "inside", False: "outside"}[row.inside],
        )
        for row in page.rows
    ]


def _figure(value: float, row: LogRow) -> str:
    if row.unit == "bytes":
        return format_gib(value)
    return format_whole(round(value)) if row.unit == "tokens" else f"{value:.2f}"


def _bare(value: float, row: LogRow) -> str:
    return _figure(value, row).removesuffix(" GiB")


def _refusal_words(page: StartLogPage) -> list[str]:
    """What the engine said, and what the ledger would have."""
    refusal = page.log.refusal
    if refusal is None:
        return []
    said = [f"{KINDS[refusal.kind]}: {refusal.text}"]
    if page.verdict is not None:
        word = {
            True: "the ledger says so too",
            False: "the ledger would not have said so",
            None: "the ledger cannot tell",
        }
        said.append(f"{word[page.verdict.predicted]}: {page.verdict.text}")
    return said
