"""The figures of a plan's page: label, path in `--json`, unit, what it is. What-if fills the same places."""

from collections.abc import Iterable, Mapping
from typing import Any

from infopt.frozen import dataclass
from infopt.reports.pages.blocks import Html, facts
from infopt.reports.pages.charts import WRITTEN, Unit
from infopt.reports.pages.figures import joined, shown


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table: `further` are figures behind the first, with the words before each."""

    label: str
    key: str
    unit: Unit
    words: str = ""
    further: tuple[tuple[str, str], ...] = ()


MEMORY = (
    Figure("in use", "memory.used_bytes_per_gpu", "bytes", "of", (("memory.capacity_bytes_per_gpu", "usable"),)),
    Figure("weights", "memory.weights_bytes_per_gpu", "bytes"),
    Figure("KV cache", "memory.kv_bytes_per_gpu", "bytes", "reserved for the batch"),
    Figure(
        "KV pool",
        "memory.kv_pool_bytes_per_gpu",
        "bytes",
        "left for the cache, between",
        (("memory.kv_pool_low_bytes", "and"), ("memory.kv_pool_high_bytes", "")),
    ),
    Figure("pool tokens", "memory.kv_pool_tokens", "tokens", "as the engine prints them"),
    Figure("sequences", "memory.max_sequences", "tokens", "fit at once in a replica"),
    Figure("longest", "memory.max_context_tokens", "tokens", "tokens of a single sequence"),
    Figure("KV share", "memory.kv_share", "share", "of a device's memory is the cache of this batch"),
    Figure("per token", "memory.kv_bytes_per_token", "decimal bytes", "of cache, all devices, at long context"),
    Figure("per sequence", "memory.kv_bytes_per_sequence", "decimal bytes", "of cache, all devices"),
)
STEP = (
    Figure("weights read", "bandwidth.weight_bytes_per_step", "decimal bytes", "in a step, of a replica"),
    Figure("KV read", "bandwidth.kv_bytes_per_step", "decimal bytes", "in a step, of a replica"),
    Figure("KV share", "bandwidth.kv_share_of_step", "share", "of a step's bytes"),
    Figure("TPOT", "bandwidth.tpot_floor_s", "s", "at least, for each user"),
    Figure("amortized", "bandwidth.amortized_s_per_token", "s", "at least, per token: the step over its batch"),
    Figure("prefill", "compute.prefill_flop", "flop", "for a prompt"),
    Figure("TTFT", "compute.ttft_floor_s", "s", "at least"),
    Figure("decode", "compute.decode_flop_per_token", "flop", "per token"),
    Figure("ridge batch", "compute.ridge_batch", "tokens", "sequences, from which on products set the pace"),
)
EXPECTED = (
    Figure(
        "TPOT",
        "estimate.tpot_s",
        "s",
        "expected, nine in ten measurements between",
        (("estimate.tpot_low_s", "and"), ("estimate.tpot_high_s", "")),
    ),
    Figure(
        "TTFT",
        "estimate.ttft_s",
        "s",
        "expected, nine in ten measurements between",
        (("estimate.ttft_low_s", "and"), ("estimate.ttft_high_s", "")),
    ),
    Figure("throughput", "estimate.output_tokens_per_s", "tokens/s", "of all devices"),
    Figure("per device", "estimate.output_tokens_per_s_per_gpu", "tokens/s"),
)
COST = (
    Figure("price", "cost.usd_per_hour", "usd", "per hour, all devices"),
    Figure("output", "cost.usd_per_million_output_tokens", "usd", "per million output tokens, expected"),
    Figure("at the floor", "cost.usd_per_million_output_tokens_at_floor", "usd", "per million output tokens, at least"),
    Figure("prompts", "cost.usd_per_million_input_tokens_attributed", "usd", "per million input tokens, their part"),
    Figure("answers", "cost.usd_per_million_output_tokens_attributed", "usd", "per million output tokens, their part"),
    Figure("prompts take", "cost.prefill_share", "share", "of a request's machine time"),
)
# Of a mixture of experts: more of them are hit by a batch than by one token.
EXPERTS = Figure(
    "experts hit", "bandwidth.weight_bytes_per_step_expected", "decimal bytes", "of weights, expected at this batch"
)
FIGURES = (EXPERTS, *MEMORY, *STEP, *EXPECTED, *COST)


def units() -> dict[str, Unit]:
    """The unit of every figure by its path; those behind a first have its unit."""
    return {key: one.unit for one in FIGURES for key in (one.key, *(key for key, _ in one.further))}


def figure_facts(result: Mapping[str, Any], figures: Iterable[Figure]) -> Html:
    """Figures as labelled lines; those that are not known are not shown."""
    return Html(f'<div class="known">{facts([(one.label, _line(result, one)) for one in figures])}</div>')


def _line(result: Mapping[str, Any], one: Figure) -> Html:
    write = WRITTEN[one.unit]
    more = [part for key, said in one.further for part in (shown(result, key, write), said)]
    return joined(shown(result, one.key, write), one.words, *more)
