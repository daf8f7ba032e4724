"""Encoders of other modalities: counted where the tower is a known kind, else named as not counted.

A tower's record lists its parameters as expressions over its own config: some per layer, some once. It is looked
up by the wrapper's model_type (then it includes the projector), else by the encoder's own.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from infopt.profiles.families import Variant, changed_fields, says
from infopt.profiles.hf_keys import Keys
from infopt.records import Record, read_yaml, validate_record

FOLDER = Path(__file__).resolve().parent / "data" / "towers"
_WRAPPERS = ("thinker_config",)


class Tower(Record):
    """What one encoder is made of.

    per_layer, once   parameters, as expressions over the quantities below
    lengths           quantities that are the length of a list in the config
    keys, defaults, fixed, variants   as in a family record
    """

    source: str
    like: str | None = None
    per_layer: list[str | int]
    once: list[str | int] = Field([])
    lengths: dict[str, str] = Field({})
    defaults: dict[str, Any] = Field({})
    keys: dict[str, list[str]] = Field({})
    fixed: dict[str, Any] = Field({})
    variants: list[Variant] = Field([])


def other_modalities(config: Mapping[str, Any], keys: Keys) -> tuple[dict[str, int], tuple[str, ...]]:
    """Parameters of encoders and projectors by part, and notes on what is not counted."""
    params, notes = 0, []
    for wrapper in _levels(config):
        vision = wrapper.get("vision_config")
        if isinstance(vision, Mapping):
            counted, remarks = _vision(wrapper, vision, keys)
            params += counted
            notes += remarks
        if isinstance(wrapper.get("audio_config"), Mapping):
            notes.append("the audio encoder is not counted")
    return {"vision": params} if params else {}, tuple(notes)


def _levels(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield config
    for name in _WRAPPERS:
        if isinstance(config.get(name), Mapping):
            yield config[name]


def _vision(wrapper: Mapping[str, Any], vision: Mapping[str, Any], keys: Keys) -> tuple[int, list[str]]:
    names = [name for name in (wrapper.get("model_type"), vision.get("model_type")) if _is_known(name)]
    if not names:
        return 0, ["the vision encoder is not of a known kind and not counted"]
    name = str(names[0])
    notes = [] if name == wrapper.get("model_type") else ["the vision projector is not counted"]
    return _count(_tower(name), wrapper, vision, keys), notes


def _is_known(name: object) -> bool:
    return isinstance(name, str) and name.replace("-", "_").isidentifier() and (FOLDER / f"{name}.yaml").is_file()


def _count(tower: Tower, wrapper: Mapping[str, Any], vision: Mapping[str, Any], keys: Keys) -> int:
    for variant in tower.variants:
        if all(says(vision, tower.defaults, key, wanted) for key, wanted in variant.when.items()):
            merged = changed_fields(tower, variant.then)
            tower = validate_record(Tower, merged, f"tower record ({tower.source})")
    known = {
        **vision,
        **{name: _length(vision.get(key), key, keys) for name, key in tower.lengths.items()},
        "outer": wrapper,
        "decoder_hidden_size": keys.count("hidden"),
    }
    inside = Keys(known, tower, f"{keys.where} vision_config")
    known["patches"] = _patches(inside)
    per_layer = sum(inside.evaluate(term) for term in tower.per_layer)
    return inside.count("layers", 0) * per_layer + sum(inside.evaluate(term) for term in tower.once)


def _patches(inside: Keys) -> int | None:
    """Image patches: (size // patch) squared."""
    size, patch = inside.maybe("image_size"), inside.maybe("patch_size")
    return (size // patch) ** 2 if size and patch else None


def _length(value: Any, key: str, keys: Keys) -> int:
    if value is not None and not isinstance(value, list):
        raise keys.error(f"vision_config.{key} is not a list")
    return len(value or ())


def _tower(name: str) -> Tower:
    own: dict[str, Any] = read_yaml(FOLDER / f"{name}.yaml")
    base = own.get("like")
    merged = own if base is None else changed_fields(_tower(base), own)
    return validate_record(Tower, merged, f"profiles/data/towers/{name}.yaml")
