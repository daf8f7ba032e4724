"""Models in the terminal: the list, and one model with its geometry written out."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infopt.reports.terminal import columns_table, facts, heading, listed, to_text
from infopt.studies.derivations import layer_group_words
from infopt.studies.model_view import ModelView
from infopt.units import format_bytes, format_count, format_gib, format_share, format_tokens, format_whole

SUMMARY = ("total", "active", "format", "KV B/token", "limit", "model")
# Columns that go on a narrow screen, the first to go first.
NARROW = ("KV B/token", "limit", "active", "format")


def names_page(ids: Sequence[str], short: Mapping[str, Sequence[str]]) -> str:
    """One id a line, with the short names that mean it."""
    return "\n".join(f"{id}  ({', '.join(short[id])})" if id in short else id for id in ids)


def summary_page(views: Sequence[ModelView]) -> str:
    """The list with sizes; the name is never cut."""
    return to_text([columns_table(SUMMARY, [_summary(view) for view in views], "model", NARROW)])


def _summary(view: ModelView) -> list[str]:
    model = view.model
    limit = format_tokens(model.max_position_tokens) if model.max_position_tokens else "-"
    per_token = format_whole(round(view.cache.full_bytes_per_token))
    sizes = [format_count(model.params_total), format_count(model.params_active)]
    return [*sizes, view.weight_format, per_token, limit, model.id]


def model_page(view: ModelView) -> str:
    """One model: layers, parameters, active parameters, cache, source."""
    return to_text(_parts(view))


def _parts(view: ModelView) -> Iterator[RenderableType]:
    model = view.model
    yield Text(model.id, style="bold")
    limit = f", at most {format_tokens(model.max_position_tokens)} tokens" if model.max_position_tokens else ""
    yield facts(
        [
            ("architecture", f"{model.architecture}, {model.layers} layers, hidden {format_whole(model.hidden)}, "
             f"vocabulary {format_whole(model.vocab)}{limit}"),
            ("stored", f"{format_bytes(view.stored_weights_bytes)} ({format_gib(view.stored_weights_bytes)}) "
             f"as {view.weight_format}; computed in {model.compute_dtype}"),
        ]
    )  # fmt: skip
    yield ""
    yield heading("LAYERS")
    yield facts(((f"{group.layers} x", layer_group_words(group)) for group in model.groups), label_width=6)
    yield ""
    yield heading("PARAMETERS", format_whole(model.params_total))
    yield _parameters(view)
    yield ""
    yield heading("ACTIVE PER TOKEN")
    yield facts(_active(view), label_width=16)
    yield ""
    yield heading("CACHE", f"{view.kv_format}, the model's own type")
    yield facts(cache_rows(view), label_width=16)
    yield ""
    yield facts(_origin(view), label_width=16)


def _parameters(view: ModelView) -> RenderableType:
    model = view.model
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=13, no_wrap=True, style="cyan")
    for width in (len(format_whole(model.params_total)), len("beside")):
        table.add_column(justify="right", no_wrap=True, min_width=width)
    table.add_column(overflow="fold")
    for part, count in model.params_by_part.items():
        outside = part in ("vision", "mtp")
        share = "beside" if outside else format_share(count / model.params_total)
        table.add_row(part.replace("_", " "), format_whole(count), share, _part_words(view, part))
    return Padding(table, (0, 0, 0, 2))


def _part_words(view: ModelView, part: str) -> str:
    tied = "input embedding, and the output head with it" if view.model.tied else "input embedding"
    return {
        "embedding": tied,
        "head": "output projection",
        "small": "norms, biases, gates, tables",
        "mtp": "multi-token prediction, outside the headline count",
        "vision": "encoders of other modalities, outside the headline count",
    }.get(part, "")


def _active(view: ModelView) -> list[tuple[str, str]]:
    model = view.model
    figures = (
        ("all that is used", model.params_active_with_embeddings, "both embeddings counted whole"),
        ("read in a step", model.params_active, "without the input embedding, of which one row is read; used here"),
        ("layers alone", model.params_active_without_embeddings, "without embedding and head"),
    )
    return [(name, f"{format_whole(count)} ({format_count(count)}): {what}") for name, count, what in figures]


def cache_rows(view: ModelView) -> list[tuple[str, str]]:
    """The derivation by kind of layer, the sum per token and per sequence, and what an engine reserves."""
    rows = []
    for part in view.parts:
        if part.state_bytes:
            rows.append(
                (part.kind.replace("_", " "), f"{part.text} = {format_whole(round(part.state_bytes))} B a sequence")
            )
            continue
        window = f", at most {format_whole(part.window_tokens)} tokens" if part.window_tokens else ""
        rows.append((part.kind, f"{part.text} = {format_whole(round(part.bytes_per_token))} B/token{window}"))
    size = view.kv_bytes_per_sequence
    sequence = f"{format_bytes(size)} ({format_gib(size)})"
    if view.cache.state_bytes:
        sequence += f", and {format_bytes(view.cache.state_bytes)} of state"
    rows.append((f"at {format_tokens(view.context_tokens)}", f"{sequence} a sequence, logically"))
    if view.reserved:
        r = view.reserved
        groups = f" in {r.groups} groups" if r.groups > 1 else ""
        reserved = f"{format_bytes(r.bytes_per_sequence)} ({format_gib(r.bytes_per_sequence)})"
        blocks = f"{format_whole(r.blocks)} blocks of {r.block_tokens} tokens{groups}"
        rows.append(("engine reserves", f"{reserved}: {r.engine}, one device, {blocks}"))
    return rows


def _origin(view: ModelView) -> list[tuple[str, str]]:
    model = view.model
    rows = [("source", f"{model.source or 'not given'} ({model.source_kind or 'unknown'})")]
    published = view.published
    if published and published.params_total:
        basis = published.basis.replace("_", " ")
        rows.append(("published", f"{format_whole(published.params_total)} ({basis}): {published.source}"))
    return [*rows, *listed("note", model.notes)]
