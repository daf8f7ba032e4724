"""Conventions of a model family that its `config.json` does not carry.

One YAML record per `model_type` in `data/families`. A record picks named strategies (how layers alternate,
which attention, which feed-forward) and states the class defaults of keys that configs leave out, with the
implementation they were read from. A record may build on another (`like`) and states only what differs.
"""

import os.path
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from infopt.errors import InfoptError, unknown_name
from infopt.records import Record, names_in, read_yaml, validate_record

FOLDER = Path(__file__).resolve().parent / "data" / "families"
_DEEPEST = 4  # records built on records

Switch = bool | str  # a plain yes or no, or the config key that decides (`!key`: where that key means no)
Recurrent = Literal["mamba1", "mamba2", "gated_delta", "kda", "lightning", "short_conv"]


class Variant(Record):
    """A change of the record for configs that say something (null: say nothing; several values: any of them)."""

    when: dict[str, Any]
    then: dict[str, Any]


class Family(Record):
    """What one `model_type` means.

    source          implementation the conventions were read from
    like            the record this one builds on
    refused         why this type is not a decoder infopt can count (then nothing else matters)
    text_type       model_type of the nested text config, where the file leaves it out
    tied            whether the head shares the embedding when `tie_word_embeddings` is absent
    dtype           compute type when the config names none
    defaults        class defaults of absent keys (canonical names of `hf_keys`, else the key itself)
    keys            spellings this family uses before the general ones
    fixed           quantities the config does not carry, or carries wrongly
    variants        changes of this record where the config says so: `when` {key: value}, `then` {field: value}
    kinds           changes of this record for layers of one kind (`full`, `window`, `moe`, `dense`, ...)
    sublayers       decoder layers per layer the config counts
    model_small, layer_small, router_small, layer_linear  further parameters, as expressions
    per_layer_embedding  embeddings gathered per layer beside the token embedding
    modules         module names by part, for lists of what a checkpoint leaves unconverted
    beside          a recurrent mixer that runs beside the attention of the same layer
    layer_kinds     rules that name each layer's mixer, tried in order
    feed_forwards   rules that name each layer's feed-forward, tried in order
    norm            rms (a weight), layer (weight and bias), none (no parameters)
    """

    source: str
    like: str | None = None
    refused: str | None = None
    text_type: str | None = None
    notes: list[str] = Field([])
    unknown: list[str] = Field([])

    tied: bool = False
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"
    defaults: dict[str, Any] = Field({})
    keys: dict[str, list[str]] = Field({})
    fixed: dict[str, Any] = Field({})
    variants: list[Variant] = Field([])
    kinds: dict[str, dict[str, Any]] = Field({})

    # whole model
    norm: Literal["rms", "layer", "none"] = "rms"
    norm_bias: Switch = True
    norms_per_layer: int = 2
    final_norms: int = 1
    embedding_norm: bool = False
    head_bias: Switch = False
    sublayers: int = 1
    model_small: list[str | int] = Field([])
    per_layer_embedding: str | None = None
    layer_linear: list[str | int] = Field([])
    layer_small: list[str | int] = Field([])

    # token mixing
    layer_kinds: list[str] = Field(["full"])
    last_full: bool = False
    shared_cache: bool = False
    wide_when_shared: Switch | None = None
    attention: Literal["grouped", "latent", "indexed", "compressed"] = "grouped"
    recurrent: Recurrent | None = None
    beside: Recurrent | None = None
    full_rank_decay: Switch = False
    full_rank_gate: Switch = False
    state_dtype: str | None = None
    qkv_bias: Switch = False
    o_bias: Switch = False
    qk_norm: Literal["none", "head", "heads"] = "none"
    qk_norm_when: Switch = True
    qk_norm_bias: bool = False
    output_gate: Literal["none", "elementwise", "per_head"] = "none"
    output_gate_when: Switch = True
    gate_bias: Switch = False
    sinks: Switch = False
    shared_kv_value: Switch = False
    own_index: Switch = True
    grouped_index: bool = False
    attention_small: list[str | int] = Field([])

    # per token
    feed_forwards: list[str] = Field(["dense"])
    gated: bool = True
    mlp_bias: Switch = False
    mlp_small: list[str | int] = Field([])
    dense_width: Literal["plain", "two_thirds"] = "plain"
    expert_gated: bool = True
    expert_bias: Switch = False
    router_bias: Switch = False
    router_small: list[str | int] = Field([])
    shared: Literal["none", "count", "width"] = "none"
    shared_gate: bool = False
    shared_bias: Switch = False
    dense_beside_experts: bool = False

    # names of modules in checkpoints, where the usual ones would mislead
    modules: dict[str, list[str]] = Field({})

    # multi-token prediction
    mtp: Literal["none", "deepseek", "qwen", "blocks"] = "none"
    mtp_copies: int = 0


def known_families() -> tuple[str, ...]:
    """Every model_type with a record."""
    return names_in(FOLDER)


def family(model_type: str, config: Mapping[str, Any], where: str) -> Family:
    """The record for `model_type` as it applies to `config` (`where`: the file, for messages).

    An unknown model_type is an error listing the nearest known ones.
    """
    if not model_type.replace("-", "_").replace(".", "_").isidentifier() or not os.path.isfile(_path(model_type)):
        remedy = "a family needs a record in profiles/data/families before its models can be counted"
        raise InfoptError(f"{where}: {unknown_name('model_type', model_type[:60], known_families(), remedy)}")
    record = _record(model_type)
    for variant in record.variants:
        if all(says(config, record.defaults, key, wanted) for key, wanted in variant.when.items()):
            record = changed(record, variant.then)
    return record


def changed(record: Family, changes: Mapping[str, Any]) -> Family:
    """The record with some fields replaced; mappings merge key by key."""
    return validate_record(Family, changed_fields(record, changes), f"family record ({record.source})")


def changed_fields(record: Record, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields a record states, under `changes`."""
    return _over({name: getattr(record, name) for name in record.model_fields_set}, changes)


def says(config: Mapping[str, Any], defaults: Mapping[str, Any], key: str, wanted: Any) -> bool:
    """Whether the config (or the record's default) gives `key` the value wanted; `"*"` is any value."""
    value: Any = config
    for step in key.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is None:
        value = defaults.get(key)
    if wanted == "*":
        return value is not None
    return value in wanted if isinstance(wanted, list) else type(value) is type(wanted) and bool(value == wanted)


def _path(model_type: str) -> Path:
    return FOLDER / f"{model_type}.yaml"


@cache
def _record(model_type: str) -> Family:
    return validate_record(Family, _merged(model_type, _DEEPEST), f"profiles/data/families/{model_type}.yaml")


def _over(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(fields)
    for name, value in changes.items():
        before = merged.get(name)
        merged[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def _merged(model_type: str, depth: int) -> dict[str, Any]:
    """The record's fields over those of the record it builds on."""
    own: dict[str, Any] = read_yaml(_path(model_type))
    base = own.get("like")
    if base is None:
        return own
    if depth == 0 or not _path(base).is_file():
        raise InfoptError(f"profiles/data/families/{model_type}.yaml: the record it builds on, {base}, is not usable")
    return _over(_merged(base, depth - 1), own)
