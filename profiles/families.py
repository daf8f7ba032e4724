"""Conventions of a model family that its `config.json` does not carry.

One YAML record per `model_type` in `data/families`. A record picks named strategies (how layers alternate,
which attention, which feed-forward) and states the class defaults of keys that configs leave out, with the
implementation they were read from. A record may build on another (`like`) and states only what differs.
"""

from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from infopt.errors import InfoptError, unknown_name
from infopt.records import Record, names_in, read_yaml, validate_record

FOLDER = Path(__file__).resolve().parent / "data" / "families"
_DEEPEST = 4  # records built on records

Switch = bool | str  # a plain yes or no, or the config key that decides (`!key`: where that key means no)


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
    kind_keys       spellings for layers of one kind (`full`, `window`, ...)
    layer_kinds     rules that name each layer's mixer, tried in order
    feed_forwards   rules that name each layer's feed-forward, tried in order
    norm            rms (a weight), layer (weight and bias), none (no parameters)
    """

    source: str
    like: str | None = None
    refused: str | None = None
    text_type: str | None = None
    notes: list[str] = Field(default_factory=list)

    tied: bool = False
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"
    defaults: dict[str, Any] = Field(default_factory=dict)
    keys: dict[str, list[str]] = Field(default_factory=dict)
    kind_keys: dict[str, dict[str, list[str]]] = Field(default_factory=dict)

    # whole model
    norm: Literal["rms", "layer", "none"] = "rms"
    norm_bias: Switch = True
    norms_per_layer: int = 2
    final_norms: int = 1
    embedding_norm: bool = False
    head_bias: bool = False
    position_rows: str | None = None
    extra_small: list[str] = Field(default_factory=list)

    # token mixing
    layer_kinds: list[str] = Field(default_factory=lambda: ["full"])
    kind_names: dict[str, str] = Field(default_factory=dict)
    attention: Literal["grouped", "latent", "indexed"] = "grouped"
    recurrent: str | None = None
    state_dtype: str | None = None
    qkv_bias: Switch = False
    o_bias: Switch = False
    qk_norm: Literal["none", "head", "heads"] = "none"
    qk_norm_when: Switch = True
    qk_norm_bias: bool = False
    output_gate: Literal["none", "elementwise", "per_head"] = "none"
    output_gate_when: Switch = True
    sinks: Switch = False
    shared_kv_value: Switch = False

    # per token
    feed_forwards: list[str] = Field(default_factory=lambda: ["dense"])
    feed_forward_names: dict[str, str] = Field(default_factory=dict)
    gated: bool = True
    mlp_bias: Switch = False
    expert_gated: bool = True
    expert_bias: Switch = False
    router_bias: Switch = False
    router_extra: int = 0
    shared: Literal["none", "count", "width", "count_width"] = "none"
    shared_gate: bool = False
    dense_beside_experts: bool = False

    # multi-token prediction
    mtp: Literal["none", "deepseek", "qwen"] = "none"
    mtp_copies: int = 0


def known_families() -> tuple[str, ...]:
    """Every model_type with a record."""
    return names_in(FOLDER)


@cache
def family(model_type: str, where: str) -> Family:
    """The record for `model_type`; an unknown one is an error listing the nearest (`where`: file, for the message)."""
    if not (FOLDER / f"{model_type}.yaml").is_file() or not model_type.replace("-", "_").isidentifier():
        remedy = "a family needs a record in profiles/data/families before its models can be counted"
        raise InfoptError(f"{where}: {unknown_name('model_type', model_type[:60], known_families(), remedy)}")
    return validate_record(Family, _merged(model_type, _DEEPEST), f"profiles/data/families/{model_type}.yaml")


def _merged(model_type: str, depth: int) -> dict[str, Any]:
    """The record's fields over those of the record it builds on; mappings merge key by key."""
    own: dict[str, Any] = read_yaml(FOLDER / f"{model_type}.yaml")
    base_name = own.get("like")
    if base_name is None:
        return own
    if depth == 0:
        raise InfoptError(f"profiles/data/families/{model_type}.yaml: records build on each other too deeply")
    merged = _merged(base_name, depth - 1)
    for name, value in own.items():
        before = merged.get(name)
        merged[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return merged
