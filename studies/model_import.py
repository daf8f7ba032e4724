"""A catalogue record from a model's own files: the decisive fields of its config and nothing else."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from infopt.errors import InfoptError
from infopt.profiles.catalogue import ModelEntry
from infopt.profiles.files import read_json_file
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.hf_config import profile_from_config
from infopt.profiles.resolve import profile_from_path
from infopt.records import validate_record

TORCH_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
# Families without options of their own, which a file's geometry is tried against.
PLAIN_FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen3_moe", "qwen2_moe", "olmoe")


def import_model(path: str, id: str | None = None) -> dict[str, Any]:
    """The record of the model at `path`: config.json, its folder, safetensors beside it, or a GGUF file.

    Headers are read and must agree with the config; fields that change nothing in the counted model are left out.
    A GGUF file has no config: one is written that counts to the same layers, where a plain family can express them.

    Errors: InfoptError for what cannot be read, and for a GGUF file of another family.
    """
    path = os.path.expanduser(path)
    profile = profile_from_path(path)
    config_path = _config_path(path)
    record: dict[str, Any] = {"id": id or profile.id, "source": config_path or path, "source_quality": "file"}
    if config_path is not None:
        record["config"] = decisive(read_json_file(config_path))
    else:
        record["config"] = decisive(config_of(profile))
        record["note"] = "config written from the tensors of a GGUF file: its geometry, not its quantization"
    validate_record(ModelEntry, record, path)
    return record


def _config_path(path: str) -> str | None:
    """The config.json that belongs to `path`, None where there is none."""
    if path.lower().endswith(".json") and not path.lower().endswith(".index.json"):
        return path
    beside = os.path.join(path if os.path.isdir(path) else os.path.dirname(path), "config.json")
    return beside if os.path.isfile(beside) and not path.lower().endswith(".gguf") else None


def config_of(profile: ModelProfile) -> dict[str, Any]:
    """A config that counts to the layers and embeddings of `profile`.

    Raises InfoptError where no plain family can express them.
    """
    for config in _candidates(profile):
        try:
            counted = _counted(config)
        except InfoptError:
            continue
        if _same_shape(counted, profile):
            return config
    raise InfoptError(
        f"{profile.source}: {profile.architecture} is not of a family whose config can be written from tensors; "
        f"import its config.json, or plan from the file itself: infopt plan --model {profile.source}"
    )


def _candidates(profile: ModelProfile) -> Iterator[dict[str, Any]]:
    """Configs of the plain families with the profile's numbers."""
    first = profile.runs[0]
    mixer, ff = first.mixer, first.feed_forward
    config: dict[str, Any] = {
        "hidden_size": profile.hidden,
        "num_hidden_layers": profile.layers,
        "num_attention_heads": mixer.q_heads,
        "num_key_value_heads": mixer.kv_heads,
        "head_dim": mixer.qk_dim,
        "vocab_size": profile.vocab,
        "max_position_embeddings": profile.max_position_tokens,
        "tie_word_embeddings": profile.tied,
        "torch_dtype": TORCH_DTYPES[profile.compute_dtype],
        "intermediate_size": ff.intermediate,
        "sliding_window": mixer.window_tokens,
    }
    if ff.experts:
        config |= {"num_experts": ff.experts, "num_experts_per_tok": ff.experts_per_token}
        config |= {"num_local_experts": ff.experts, "moe_intermediate_size": ff.intermediate}
    for family in PLAIN_FAMILIES:
        yield {"model_type": family, **config}


def _same_shape(one: ModelProfile, other: ModelProfile) -> bool:
    """Equal layers and embeddings; what is stored beside them may differ (rotary tables)."""
    return (one.runs, one.embed_params, one.head_params) == (other.runs, other.embed_params, other.head_params)


def decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config without which the counted model would be another, nested ones included."""
    kept = dict(config)
    return _without_idle(kept, kept, _counted(config))


def _without_idle(part: dict[str, Any], whole: dict[str, Any], wanted: ModelProfile) -> dict[str, Any]:
    """`part` of `whole` with every key removed that can go without changing the profile."""
    for key in sorted(part):
        value = part.pop(key)
        if _unchanged(whole, wanted):
            continue
        part[key] = value
        if isinstance(value, dict):
            part[key] = dict(value)
            part[key] = _without_idle(part[key], whole, wanted)
    return dict(sorted(part.items()))


def _unchanged(config: Mapping[str, Any], wanted: ModelProfile) -> bool:
    try:
        return _counted(config) == wanted
    except InfoptError:
        return False


def _counted(config: Mapping[str, Any]) -> ModelProfile:
    return profile_from_config(config, id="", source="", source_kind="")
