"""Encoders of other modalities: counted where the tower is a known kind, else named as not counted.

A tower's record lists its parameters as expressions over its own config: some per layer, some once. It is looked
up by the wrapper's model_type and the encoder's together, then by the wrapper's (both include the projector), else
by the encoder's own.
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
_PARTS = {"vision_config": "vision", "audio_config": "audio"}


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
    """Parameters of encoders and projectors (all under "vision"), and notes on what is not counted."""
    params, notes = 0, []
    for wrapper in _levels(config):
        for part, what in _PARTS.items():
            encoder = wrapper.get(part)
            if isinstance(encoder, Mapping):
                counted, remarks = _encoder(wrapper, encoder, what, keys)
                params += counted
                notes += remarks
    return {"vision": params} if params else {}, tuple(notes)


def _levels(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield config
    for name in _WRAPPERS:
        if isinstance(config.get(name), Mapping):
            yield config[name]


def _encoder(wrapper: Mapping[str, Any], encoder: Mapping[str, Any], what: str, keys: Keys) -> tuple[int, list[str]]:
    outer, own = wrapper.get("model_type"), encoder.get("model_type")
    with_projector = [f"{outer}-{own}", outer] if what == "vision" else [f"{outer}-audio"]
    names = [name for name in (*with_projector, own) if _is_known(name)]
    if not names:
        return 0, [f"the {what} encoder is not of a known kind and not counted"]
    notes = [] if names[0] in with_projector else [f"the {what} projector is not counted"]
    return _count(_tower(str(names[0])), wrapper, encoder, keys), notes


def _is_known(name: object) -> bool:
    return isinstance(name, str) and name.replace("-", "_").isidentifier() and (FOLDER / f"{name}.yaml").is_file()


def _count(tower: Tower, wrapper: Mapping[str, Any], encoder: Mapping[str, Any], keys: Keys) -> int:
    for variant in tower.variants:
        if all(says(encoder, tower.defaults, key, wanted) for key, wanted in variant.when.items()):
            merged = changed_fields(tower, variant.then)
            tower = validate_record(Tower, merged, f"tower record ({tower.source})")
    known = {
        **encoder,
        **{name: _length(encoder.get(key), key, keys) for name, key in tower.lengths.items()},
        "outer": wrapper,
        "decoder_hidden_size": keys.count("hidden"),
    }
    inside = Keys(known, tower, f"{keys.where} encoder")
    known["patches"] = _patches(inside)
    per_layer = sum(inside.evaluate(term) for term in tower.per_layer)
    return inside.count("layers", 0) * per_layer + sum(inside.evaluate(term) for term in tower.once)


def _patches(inside: Keys) -> int | None:
    """Image patches: (size // patch) squared."""
    size, patch = inside.maybe("image_size"), inside.maybe("patch_size")
    return (size // patch) ** 2 if size and patch else None


def _length(value: Any, key: str, keys: Keys) -> int:
    if value is not None and not isinstance(value, list):
        raise keys.error(f"{key} of an encoder is not a list")
    return len(value or ())


def _tower(name: str) -> Tower:
    own: dict[str, Any] = read_yaml(FOLDER / f"{name}.yaml")
    base = own.get("like")
    merged = own if base is None else changed_fields(_tower(base), own)
    return validate_record(Tower, merged, f"profiles/data/towers/{name}.yaml")
