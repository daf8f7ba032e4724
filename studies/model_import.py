"""A catalogue record from a model's own files: the decisive fields of its config and nothing else."""

import os
from collections.abc import Mapping
from typing import Any

from infopt.errors import InfoptError
from infopt.profiles.catalogue import ModelEntry
from infopt.profiles.files import read_json_file
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.hf_config import profile_from_config
from infopt.profiles.resolve import profile_from_path
from infopt.records import validate_record


def import_model(path: str, id: str | None = None) -> dict[str, Any]:
    """The record of the model at `path` (config.json, folder, safetensors file or index beside its config.json).

    Headers are read and must agree with the config; fields that change nothing in the counted model are left out.

    Errors: InfoptError for what cannot be read, and for a GGUF file, which has no config.
    """
    profile = profile_from_path(os.path.expanduser(path))
    config_path = _config_path(os.path.expanduser(path))
    config = read_json_file(config_path)
    record = {
        "id": id or profile.id,
        "source": config_path,
        "source_quality": "file",
        "config": decisive(config),
    }
    validate_record(ModelEntry, record, path)
    return record


def _config_path(path: str) -> str:
    """The config.json that belongs to `path`."""
    if os.path.isdir(path):
        return os.path.join(path, "config.json")
    if path.lower().endswith(".json") and not path.lower().endswith(".index.json"):
        return path
    beside = os.path.join(os.path.dirname(path), "config.json")
    if path.lower().endswith(".gguf") or not os.path.isfile(beside):
        raise InfoptError(
            f"{path}: a catalogue record holds a config.json, and there is none beside it; "
            f"plan from the file itself: infopt plan --model {path}"
        )
    return beside


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
