"""The cost ladder beside document 3's: page, Markdown, CSV, JSON."""

from collections.abc import Iterator
from typing import Any

from infopt.reports import words
from infopt.studies.ladder import Ladder, Step, document
from infopt.units import format_seconds, format_share, format_usd, format_whole

SCHEMA = "infopt/ladder/1"
COLUMNS = ("step", "at once", "tok/s", "$/1M", "gain", "doc tok/s", "doc $/1M", "doc gain")
TITLE = "Cost ladder of document 3 on our ledgers"


def as_dict(found: Ladder) -> dict[str, Any]:
    """What was taken for granted, and every step with the document's own figures."""
    s, knobs = found.plan.scenario, found.knobs
    return {
        "schema": SCHEMA,
        "model": s.model.id,
        "hardware": {"id": s.accelerator.id, "gpus": s.gpus, "tp": s.tp, "pp": s.pp, "dp": s.dp},
        "engine": {"name": s.engine.engine, "version": s.engine_version},
        "input_tokens": s.input_tokens,
        "output_tokens": s.output_tokens,
        "usd_per_hour": found.usd_per_hour,
        "tpot_target_s": knobs.tpot_s,
        "acceptance_ratio": knobs.acceptance_ratio,
        "drafted_tokens": knobs.drafted_tokens,
        "cached_share": knobs.cached_share,
        "gain_ratio": found.gain_ratio,
        "steps": rows(found),
    }


def rows(found: Ladder) -> list[dict[str, Any]]:
    """The steps as flat rows."""
    return [_flat(step) for step in found.steps]


def _flat(step: Step) -> dict[str, Any]:
    rung, now = step.rung, step.served
    return {
        "step": step.id,
        "weight_format": rung.scenario.weight_format if rung else None,
        "batch": rung.scenario.batch if rung else None,
        "output_tokens_per_s": now.tokens_per_s if now else None,
        "tpot_s": now.tpot_s if now else None,
        "ttft_s": now.ttft_s if now else None,
        "usd_per_million_output_tokens": step.usd_per_million_output_tokens,
        "gain_ratio": step.gain_ratio,
        "most_ratio": step.most_ratio,
        "document_tokens_per_s": step.theirs.tokens_per_s,
        "document_usd_per_million_tokens": step.theirs.usd_per_million_tokens,
        "document_gain_ratio": step.theirs.gain_ratio,
        "holds": step.holds,
        "note": step.note,
        "reason": step.reason,
    }


def cells(step: Step) -> list[str]:
    """One line of the table."""
    now, theirs = step.served, step.theirs
    return [
        step.name,
        format_whole(step.rung.scenario.batch) if step.rung else "-",
        _rate(now.tokens_per_s) if now else "-",
        _usd(step.usd_per_million_output_tokens),
        _gain(step.gain_ratio),
        _rate(theirs.tokens_per_s),
        _usd(theirs.usd_per_million_tokens),
        _gain(theirs.gain_ratio),
    ]


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _usd(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:.2f}" if usd >= 0.01 else format_usd(usd)


def _gain(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3g}x"


def sentences(found: Ladder) -> list[tuple[str, str]]:
    """Whether each step of the document holds here and why, and what the table rests on."""
    lines = [(step.name, _verdict(step)) for step in found.steps]
    lines.append(("in all", _total(found)))
    lines.append(("price", _price(found)))
    lines.append(("at this load", _assumed(found)))
    return lines


def _verdict(step: Step) -> str:
    said = {True: "holds", False: "does not hold here", None: ""}[step.holds]
    reason = "" if step.reason is None else f"no estimate: {step.reason}"
    return "; ".join(text for text in (said, reason, step.note) if text)


def _total(found: Ladder) -> str:
    theirs = [step.theirs.tokens_per_s for step in found.steps]
    whole = f"document 3 has {theirs[-1] / theirs[0]:.3g}x"
    if found.gain_ratio is None:
        return f"no estimate; {whole}"
    left_out = [step.name.removeprefix("+ ") for step in found.steps if step.served is None]
    without = f", without {' and '.join(left_out)}" if left_out else ""
    return f"{found.gain_ratio:.3g}x the throughput of one request at a time{without}; {whole}"


def _price(found: Ladder) -> str:
    """Ours, and the rent that the document's two columns imply."""
    rents = [step["usd_per_million"] * step["tokens_per_s"] * 3600 / 1e6 for step in document()["steps"]]
    implied = f"the document's figures imply {format_usd(min(rents))} to {format_usd(max(rents))} an hour"
    if found.usd_per_hour is None:
        device = found.plan.scenario.accelerator.id
        return f"none is known: --price {device}=USD adds the money; {implied}"
    return (
        f"{format_usd(found.usd_per_hour)} an hour for {words.counted(found.plan.scenario.gpus, 'device')}; {implied}"
    )


def _assumed(found: Ladder) -> str:
    s, knobs = found.plan.scenario, found.knobs
    hit, accepted = knobs.cached_share or 0.0, knobs.acceptance_ratio or 0.0
    target = "" if knobs.tpot_s is None else f", TPOT of at most {format_seconds(knobs.tpot_s)}"
    return (
        f"{format_whole(s.input_tokens)} tokens in and {format_whole(s.output_tokens)} out{target}; taken for granted: "
        f"{knobs.drafted_tokens} tokens drafted, {format_share(accepted)} of them accepted, "
        f"{format_share(hit)} of each prompt cached"
    )


def page(found: Ladder) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(found))


def _parts(found: Ladder) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import columns_table, facts, heading

    yield Text(f"{TITLE}: {words.title(found.plan)}", style="bold")
    yield ""
    table = [cells(step) for step in found.steps]
    yield columns_table(COLUMNS, table, "step", ("doc $/1M", "at once", "doc tok/s", "$/1M"))
    yield ""
    yield heading("WHAT HOLDS")
    yield facts(sentences(found), label_width=14)


def markdown(found: Ladder) -> str:
    """Two tables: figures, and what holds."""
    from infopt.reports.markdown import escape, table

    lines = [f"### {TITLE}: {escape(words.title(found.plan))}", ""]
    lines += table(COLUMNS, [cells(step) for step in found.steps], "lrrrrrrr")
    return "\n".join([*lines, "", *table(("step", "what holds"), sentences(found), "ll")])
