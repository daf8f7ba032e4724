"""The rules, each a file of its own; a new one is a file and a line here."""

from functools import cache
from importlib import import_module
from typing import cast

from infopt.errors import unknown_name
from infopt.gate.finding import Rule

MODULES = (
    "does_not_fit",
    "no_full_request",
    "tight",
    "placement",
    "heads_divide",
    "kv_heads_divide",
    "kv_heads_replicated",
    "attention_replicas",
    "context_parallel",
    "group_divides",
    "pipeline_uneven",
    "engine_refuses",
    "model_refused",
    "engine_accepts",
    "spills_to_cpu",
    "context_above_model",
    "batch_budget",
    "image_budget",
    "dtype_capability",
    "weights_capability",
    "awq_dtype",
    "cache_type",
    "cache_capped",
    "block_size",
    "utilization_high",
    "warmup_logits",
    "graphs_outside_budget",
    "state_blocks",
    "free_memory",
    "host_memory",
    "shm_size",
    "lora_rank",
    "lora_limits",
    "lora_memory",
    "draft_memory",
    "draft_refused",
    "expert_copies",
    "latent_replicated",
    "encoder_memory",
    "quantization_mismatch",
    "gpus_granted",
    "joined_slices",
    "flags",
    "choices",
    "json_values",
    "unpinned_image",
    "tp_over_pcie",
    "tp_over_nodes",
    "tp_not_needed",
    "pipeline_in_machine",
    "idle_devices",
    "context_above_workload",
    "context_below_workload",
    "prefix_caching_off",
    "affinity_hot_spot",
    "prefix_caching_useless",
    "prefix_block_too_long",
    "kv_quantization_small",
    "kv_quantization_slow",
    "weight_quantization_slow",
    "speculative_at_concurrency",
    "draft_too_long",
    "draft_scheduling",
    "weights_offloaded",
    "kv_offload_slow",
    "eager_cost",
    "chunked_prefill_off",
    "batch_budget_large",
    "batch_budget_small",
    "max_num_seqs_above_memory",
    "max_num_seqs_below_memory",
    "concurrency_above_memory",
    "idle_replicas",
    "tpot_target",
    "ttft_target",
    "cost_target",
    "rate_above_saturation",
    "goodput_target",
    "cold_start",
)


@cache
def rules() -> tuple[Rule, ...]:
    """All of them."""
    return tuple(cast(Rule, import_module(f"infopt.gate.rules.{module}").RULE) for module in MODULES)


@cache
def catalogue() -> tuple[Rule, ...]:
    """All of them, and those about suppressions and programs, which look at files and not at deployments."""
    of_files = ("infopt.gate.suppression", "infopt.gate.programs")
    return (*rules(), *(rule for module in of_files for rule in cast(tuple[Rule, ...], import_module(module).RULES)))


@cache
def by_id() -> dict[str, Rule]:
    """The catalogue by id."""
    return {rule.id: rule for rule in catalogue()}


def rule(id: str) -> Rule:
    """The rule of an id; an unknown one lists the nearest."""
    known = by_id()
    if id not in known:
        raise unknown_name("rule", id, list(known), "infopt rules lists them")
    return known[id]
