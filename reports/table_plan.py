"""A plan as a page for the terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infopt.reports import words
from infopt.reports.estimate_words import estimate_rows
from infopt.reports.month_words import month_rows
from infopt.reports.screen import terminal_width
from infopt.reports.terminal import STYLES, bar, facts, heading, listed, to_text
from infopt.studies.cost import Month, NoMonth
from infopt.studies.planning import Plan
from infopt.units import (
    format_bytes,
    format_flop,
    format_gib,
    format_seconds,
    format_share,
    format_whole,
)

if TYPE_CHECKING:  # most pages have no curves
    from infopt.studies.plan_curves import PlanCurves

LABEL, NUMBER = 13, 8
COLOURS = {"weights": "blue", "kv": "magenta", "margin": "bright_black", "free": "green", "missing": "red"}
OTHER_COLOUR = "yellow"


def plan_page(
    plan: Plan,
    explain: bool = False,
    month: Month | NoMonth | None = None,
    curves: "PlanCurves | None" = None,
) -> str:
    """The page: what was asked, the verdict, three ledgers, and what the reader must know."""
    return to_text(_parts(plan, explain, month, curves))


def _parts(
    plan: Plan, explain: bool, month: Month | NoMonth | None, curves: "PlanCurves | None"
) -> Iterator[RenderableType]:
    yield Text(words.title(plan), style="bold")
    yield facts(
        [
            ("model", words.model_words(plan)),
            ("devices", words.device_words(plan)),
            ("engine", words.engine_words(plan)),
            ("load", words.load_words(plan)),
        ]
    )
    yield ""
    yield Text().append(words.verdict_word(plan), style=STYLES[plan.fits]).append(f": {words.verdict_words(plan)}")
    yield from _remedies(plan)
    yield ""
    yield from _memory(plan)
    yield ""
    yield from _bandwidth(plan)
    yield ""
    yield from _compute(plan)
    yield ""
    yield heading("ESTIMATE", "what to expect, with the interval of nine in ten measurements")
    yield facts(estimate_rows(plan))
    yield ""
    if month is not None:
        yield heading("MONTH", "of this load on deployments like this one")
        yield facts(month_rows(plan, month))
        yield ""
    yield from _ending(plan)
    if curves is not None:
        from infopt.reports.plan_curves import drawn

        yield ""
        yield from drawn(curves)
    if explain:
        from infopt.reports.explain import explanation_parts

        yield ""
        yield from explanation_parts(plan)


def _remedies(plan: Plan) -> Iterator[RenderableType]:
    if plan.fits is True or not plan.remedies:
        return
    yield ""
    yield heading("WOULD FIT WITH ANY ONE OF" if plan.fits is False else "WOULD SURELY FIT WITH ANY ONE OF")
    for remedy in plan.remedies:
        yield Padding(f"- {remedy.text}", (0, 0, 0, 2))


def _memory(plan: Plan) -> Iterator[RenderableType]:
    m = plan.memory
    device = plan.scenario.accelerator
    whole = max(m.capacity_bytes_per_gpu, m.used_bytes_per_gpu)
    yield heading("MEMORY", _whose_memory(plan))
    cells = terminal_width() - 2 - LABEL - 2 - NUMBER - 2
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=LABEL, no_wrap=True, style="cyan")
    table.add_column(width=NUMBER, justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for piece in m.pieces:
        style, shade = COLOURS.get(piece.name, OTHER_COLOUR), "light" if piece.name == "free" else "full"
        drawn = bar(piece.start_bytes, piece.end_bytes, whole, cells, style, shade)
        table.add_row(words.term_name(piece.name), _gib(piece.size_bytes), drawn)
    yield Padding(table, (0, 0, 0, 2))
    usable = f"{format_gib(m.capacity_bytes_per_gpu)} ({words.kind_of(device, 'usable_memory_bytes')})"
    if device.driver_memory_bytes:
        usable += f"; the driver lists {format_gib(device.driver_memory_bytes)}"
    logical, reserved = words.kv_words(plan)
    yield facts(
        [("usable", usable), ("KV pool", words.pool_words(plan)), ("KV, logical", logical), ("KV, reserved", reserved)]
    )


def _whose_memory(plan: Plan) -> str:
    s = plan.scenario
    stage = f" of stage {plan.memory.stage + 1} of {s.pp}, which decides" if s.pp > 1 else ""
    return f"of one device{stage}, GiB" if s.gpus > 1 else "GiB"


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.2f}"


def _bandwidth(plan: Plan) -> Iterator[RenderableType]:
    s, b = plan.scenario, plan.bandwidth
    share = b.kv_share_of_step
    yield heading("BANDWIDTH", f"of one decode step at {format_whole(round(s.decode_context_tokens))} tokens")
    rows = [("weights read", f"{format_bytes(b.weight_bytes_per_step)}, {format_share(1 - share)} of the step")]
    if b.weight_bytes_per_step_expected > b.weight_bytes_per_step * 1.001:
        expected = format_bytes(b.weight_bytes_per_step_expected)
        rows.append(("", f"{expected} expected: a batch of {s.batch} hits more experts than one token does"))
    rows += [
        ("KV read", f"{format_bytes(b.kv_bytes_per_step)}, {format_share(share)}"),
        ("step", f"at least {format_seconds(b.step_floor_s)} = {words.step_equation(plan)}"),
        ("TPOT", words.rate_words(plan)),
        (
            "amortized",
            f"at least {format_seconds(b.amortized_s_per_token)} per token: the step over its batch of {s.batch}",
        ),
    ]
    yield facts(rows)


def _compute(plan: Plan) -> Iterator[RenderableType]:
    s, c = plan.scenario, plan.compute
    yield heading("COMPUTE", "at dense peak")
    rows = [("prefill", f"{format_flop(c.prefill_flop)} for {format_whole(s.input_tokens)} tokens")]
    if c.ttft_floor_s is not None:
        rows.append(("TTFT", f"at least {format_seconds(c.ttft_floor_s)} = {words.ttft_equation(plan)}"))
    rows += [("decode", f"{format_flop(c.decode_flop_per_token)} per token"), ("ridge batch", words.ridge_words(plan))]
    yield facts(rows)


def _ending(plan: Plan) -> Iterator[RenderableType]:
    rows = [("floor set by", words.bound_words(plan))]
    rows += words.money_rows(plan)
    rows += listed("assumed", words.assumptions(plan))
    rows += listed("note", words.page_caveats(plan))
    yield facts(rows)
