"""A search as a page, Markdown, CSV, and the JSON contract's object (DESIGN section 4)."""

from collections.abc import Iterator
from typing import Any

from infopt.reports import search_tails as tails
from infopt.reports import search_words as words
from infopt.reports.json_report import plan_dict
from infopt.studies.search import Deployment, Search, Targets, plan_of, row_of
from infopt.studies.search_neighbours import neighbours

SCHEMA = "infopt/search/1"
DROPPED_FIRST = ("tok/J", "$/h", "seqs", "spare", "tok/s/GPU", "cache", "#")
LEGEND = (
    ("deployment", "replicas x accelerator:devices of one replica; cache: format of the KV cache"),
    ("seqs", "concurrent sequences of one replica at the load; times are at that load"),
    ("tok/s/GPU", "output tokens per second and device at the load; tok/J at TDP"),
    ("spare", "how much more load it takes until a target is missed"),
)


def as_dict(result: Search) -> dict[str, Any]:
    """Plain numbers in base units; each row of the front is the plan of one replica, and what surrounds it."""
    b = result.binding
    return {
        "schema": SCHEMA,
        "model": result.model.id,
        "targets": _targets(result.targets),
        "looked_at": result.space.looked_at,
        "placements": len(result.space.replicas),
        "accelerators": result.space.accelerators,
        "no_estimate": list(result.space.no_estimate),
        "no_estimate_formats": list(result.space.no_estimate_formats),
        "feasible": result.feasible,
        "simulated": tails.summary_dict(result),
        "binding": b.text if b else None,
        "binding_constraint": b.constraint if b else None,
        "binding_needed": b.needed if b else None,
        "other_relaxations": list(b.others) if b else [],
        "front": [row(result, number, d) for number, d in enumerate(result.front, start=1)],
    }


def _targets(t: Targets) -> dict[str, Any]:
    return {
        "ttft_s": t.ttft_s,
        "tpot_s": t.tpot_s,
        "rate_per_s": t.rate_per_s,
        "usd_per_hour": t.usd_per_hour,
        "max_gpus": t.max_gpus,
    }


def row(result: Search, number: int, d: Deployment, explain: bool = False) -> dict[str, Any]:
    """One row of the front; `explain` adds every term of its plan."""
    plan = plan_of(d)
    command = words.command_of(plan)
    return {
        **plan_dict(plan, explain),
        "rank": number,
        "replicas": d.replicas,
        "gpus": d.gpus,
        "sequences_limit": d.limit,
        "rate_per_s": d.rate_per_s,
        "capacity_per_s": d.capacity_per_s,
        "headroom_share": d.headroom_share,
        "e2e_s": d.e2e_s,
        "usd_per_hour": d.usd_per_hour,
        "usd_per_million_output_tokens": d.usd_per_million_output_tokens,
        "output_tokens_per_s_per_gpu": d.output_tokens_per_s_per_gpu,
        "tokens_per_joule": d.tokens_per_joule,
        "command": command.text,
        "command_notes": list(command.notes),
        "notes": words.notes(d, plan),
        "simulated": tails.row_dict(result.tails[number - 1]) if result.tails else None,
        "neighbours": [{"change": n.change, "verdict": n.verdict} for n in neighbours(result, d)],
    }


def rows(result: Search) -> list[dict[str, Any]]:
    """The front as flat rows, for CSV."""
    plain = [flat_row(number, d) for number, d in enumerate(result.front, start=1)]
    return (
        [{**one, **more} for one, more in zip(plain, tails.flat(result.tails), strict=True)] if result.tails else plain
    )


def flat_row(number: int, d: Deployment) -> dict[str, Any]:
    """One row of the front as CSV has it."""
    s, plan = d.replica.scenario, plan_of(d)
    e = plan_dict(plan)["estimate"]
    return {
        "rank": number,
        "hardware": s.accelerator.id,
        "replicas": d.replicas,
        "gpus_per_replica": s.gpus,
        "gpus": d.gpus,
        "tp": s.tp,
        "pp": s.pp,
        "dp": s.dp,
        "ep": s.ep,
        "weights": s.weight_format,
        "kv": s.kv_format,
        "sequences": d.sequences,
        "sequences_limit": d.limit,
        "ttft_s": d.ttft_s,
        "ttft_low_s": e["ttft_low_s"],
        "ttft_high_s": e["ttft_high_s"],
        "tpot_s": d.tpot_s,
        "tpot_low_s": e["tpot_low_s"],
        "tpot_high_s": e["tpot_high_s"],
        "e2e_s": d.e2e_s,
        "rate_per_s": d.rate_per_s,
        "capacity_per_s": d.capacity_per_s,
        "headroom_share": d.headroom_share,
        "usd_per_hour": d.usd_per_hour,
        "usd_per_million_output_tokens": d.usd_per_million_output_tokens,
        "output_tokens_per_s_per_gpu": d.output_tokens_per_s_per_gpu,
        "tokens_per_joule": d.tokens_per_joule,
        "command": words.command_of(plan).text,
    }


def page(result: Search, curves: bool = False) -> str:
    """The terminal form."""
    from infopt.reports.search_page import search_page

    return search_page(result, curves)


def markdown(result: Search) -> str:
    """The front, the chosen deployment and its neighbours as Markdown."""
    return "\n".join(_markdown_lines(result))


def _markdown_lines(result: Search) -> Iterator[str]:
    from infopt.reports.markdown import escape, table

    yield f"### Deployments of {escape(result.model.id)}"
    yield ""
    yield f"{words.load_words(result)}. {words.target_words(result.targets)}."
    yield ""
    yield f"Looked at {words.space_words(result)}."
    if result.binding:
        yield ""
        yield f"**Nothing meets the targets.** {escape(result.binding.text)}"
        yield from (f"- or {escape(text)}" for text in result.binding.others)
        return
    for weights, group in words.by_format(result):
        yield ""
        yield f"**{weights}** weights, {words.format_note(result, group[0][1])}"
        yield ""
        kept = (words.cells(number, d) for number, d in words.shown(group, words.SHOWN_FIRST))
        yield from table(words.COLUMNS, kept, words.ALIGNMENT)
    if result.tails:
        yield ""
        yield f"**Simulated**, {tails.heading_words(result)}; {tails.verdict_words(result)}."
        yield ""
        yield from table(tails.COLUMNS, words.tail_rows(result), tails.ALIGNMENT)
    yield ""
    yield from _row_lines(result, result.chosen_number)


def row_markdown(result: Search, number: int) -> str:
    """One row with its command line and neighbours as Markdown."""
    return "\n".join(_row_lines(result, number))


def _row_lines(result: Search, number: int) -> Iterator[str]:
    from infopt.reports.markdown import escape, table

    d = row_of(result, number)
    plan = plan_of(d)
    command = words.command_of(plan)
    yield f"**Row {number}**"
    yield ""
    yield from (f"- {name}: {escape(text)}" for name, text in words.deployment_facts(d, plan))
    if result.tails:
        yield f"- simulated: {escape(tails.row_words(d, result.tails[number - 1], result.targets))}"
    yield from (f"- note: {escape(text)}" for text in words.notes(d, plan))
    yield ""
    yield "```sh"
    yield command.text
    yield "```"
    yield from (f"- {escape(text)}" for text in command.notes)
    yield ""
    found = neighbours(result, d)
    yield from table(("neighbour", f"against row {number}"), [(n.change, n.verdict) for n in found], "ll")
