"""The model catalogue: one YAML record per model in `data/models`, found by name, read one at a time.

A file is called `<org>__<name>.yaml`, so names are matched on the directory listing alone and only the record
asked for is parsed (with its `base`, where it is a re-hosted checkpoint of another).
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from infopt.errors import InfoptError, unknown_name
from infopt.profiles.geometry import ModelProfile
from infopt.records import Record, load_record, names_in, read_yaml

FOLDER = Path(__file__).resolve().parent / "data" / "models"
ALIASES = Path(__file__).resolve().parent / "data" / "aliases.yaml"

Basis = Literal["independent_exact_count", "vendor_text", "model_name_rounded", "hub_file_size", "none"]
Tokens = tuple[str, ...]

_TOKEN = re.compile(r"\d+(?:\.\d+)*|[a-z]+")
_OPTIONAL = frozenset({"instruct", "it", "chat", "hf", "base", "pt"})  # same geometry with and without
_MAKERS = frozenset({"meta", "nvidia", "meituan"})  # a maker's name before the model's
_RELEASE = re.compile(r"\d{4}")  # 2503, 0414, 1124: a release stamp, never a size
_SHOWN = 12


class Published(Record):
    """What somebody else published about the size.

    params_total, params_active  counts
    basis   how it came about; `model_name_rounded` is the figure in the model's name
    digits  significant digits printed, None where the count is exact
    source  who published it
    """

    params_total: int | None = None
    params_active: int | None = None
    basis: Basis
    digits: int | None = None
    source: str


class ModelEntry(Record):
    """One model of the catalogue.

    config     decisive fields of the public `config.json`, under the names they have there
    base       id whose geometry this re-hosted checkpoint shares; then only what differs is given
    quantization_config  how a re-hosted checkpoint is stored
    source, source_quality  where the config was read, and what kind of place that is: a copy of the hub's file
            (hf_config_copy, reduced_copy), constants under other names (renamed_constants, vendor_constants,
            vendor_constants_renamed), class defaults of transformers (transformers_defaults), a table or a card
            (vendor_table, third_party_table, vendor_text), another release (same_geometry), a count (stored_count)
    published  a total published elsewhere, None where none was seen
    explained  published minus counted total, by the parts that make the difference
    note       what was completed or corrected, and why
    """

    id: str
    source: str
    source_quality: str
    config: dict[str, Any] = Field({})
    base: str | None = None
    quantization_config: dict[str, Any] | None = None
    published: Published | None = None
    explained: dict[str, int] = Field({})
    note: str | None = None


def catalogue_names() -> tuple[str, ...]:
    """Ids of every model in the catalogue, sorted, without reading any record."""
    return tuple(stem.replace("__", "/", 1) for stem in names_in(FOLDER))


def tokens_of(text: str) -> Tokens:
    """Words and numbers of a model name: case, spaces, hyphens and underscores are spelling; `3.1` is one number.

    >>> tokens_of("Llama_3.3 70B")
    ('llama', '3.3', '70', 'b')
    """
    return tuple(_TOKEN.findall(text.lower()))


def _exact(tokens: Tokens) -> Tokens:
    return tokens


def _core(tokens: Tokens) -> Tokens:
    """The name without words that do not change the geometry."""
    return tuple(token for token in tokens if token not in _OPTIONAL)


def _stem(tokens: Tokens) -> Tokens:
    """The core without a maker in front and without release stamps."""
    core = tuple(token for token in _core(tokens) if not _RELEASE.fullmatch(token))
    return core[1:] if core[:1] and core[0] in _MAKERS and len(core) > 1 else core


def _loose(tokens: Tokens) -> Tokens:
    """The stem with `3.1` read as `3-1`, as names of resources write it, which may hold no dots."""
    return tuple(part for token in _stem(tokens) for part in token.split("."))


@cache
def _name_tokens() -> tuple[tuple[str, Tokens, Tokens], ...]:
    """(id, tokens of the organisation, tokens of the name) of every model."""
    split = ((model_id, *model_id.split("/", 1)) for model_id in catalogue_names())
    return tuple((model_id, tokens_of(org), tokens_of(name)) for model_id, org, name in split)


@cache
def aliases() -> dict[str, str]:
    """The curated short names, as they are written in the file."""
    table = read_yaml(ALIASES)
    return {str(alias): str(model_id) for alias, model_id in table.items()}


def find_in_catalogue(text: str) -> str | None:
    """The id that `text` names, None where nothing matches.

    In this order: the exact id or name, a curated alias, the name without words such as -Instruct, the same without
    the record's release stamp, the same with dots as hyphens, the beginning of one name in whole words. Numbers match
    whole, so a size, a version or a release never matches another. Several models at the first level that matches
    are an error listing them.
    """
    org, _, name = text.rpartition("/")
    org_wanted, wanted = tokens_of(org), tokens_of(name)
    if not wanted:
        return None
    match = _matching(text, org_wanted, wanted, _exact) or _alias(tokens_of(text))
    for level in (_core, _stem, _loose):
        match = match or _matching(text, org_wanted, wanted, level)
    if match or org:
        return match
    return _only(text, [model_id for model_id, _, tokens in _name_tokens() if _begins(tokens, _core(wanted))])


def _alias(wanted: Tokens) -> str | None:
    return next((model_id for alias, model_id in aliases().items() if tokens_of(alias) == wanted), None)


def _matching(text: str, org_wanted: Tokens, wanted: Tokens, level: Callable[[Tokens], Tokens]) -> str | None:
    releases = {token for token in wanted if _RELEASE.fullmatch(token)}
    found = [
        model_id
        for model_id, org, name in _name_tokens()
        if level(name) == level(wanted) and releases <= set(name) and (not org_wanted or org == org_wanted)
    ]
    return _only(text, found)


def _begins(tokens: Tokens, part: Tokens) -> bool:
    return bool(part) and part in (tokens[: len(part)], _core(tokens)[: len(part)], _stem(tokens)[: len(part)])


def _only(text: str, found: list[str]) -> str | None:
    if len(found) < 2:
        return found[0] if found else None
    shown = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    raise InfoptError(f"model name {text!r} fits several: {shown}; give the full id")


def catalogue_entry(model_id: str) -> ModelEntry:
    """The record of `model_id` (an id as `catalogue_names` lists it); an unknown one lists the nearest."""
    stem = model_id.replace("/", "__", 1)
    if stem not in names_in(FOLDER):
        raise unknown_name("model", model_id, catalogue_names(), "`infopt models list` names them all")
    return load_record(ModelEntry, FOLDER, stem, "model", "see `infopt models list`")


def catalogue_config(model_id: str) -> dict[str, Any]:
    """The config of `model_id`, that of its base with its own fields over it for a re-hosted checkpoint."""
    entry = catalogue_entry(model_id)
    config = {**(catalogue_config(entry.base) if entry.base else {}), **entry.config}
    if entry.quantization_config is not None:
        if isinstance(config.get("text_config"), dict):  # a wrapper may carry its base's scheme inside
            config["text_config"] = {k: v for k, v in config["text_config"].items() if k != "quantization_config"}
        config["quantization_config"] = entry.quantization_config
    return config


def load_catalogue_model(model_id: str) -> ModelProfile:
    """The counted geometry of `model_id`, with the record's source and note.

    Raises InfoptError for an unknown id or a family that cannot be counted.
    """
    from infopt.profiles.hf_config import profile_from_config

    entry = catalogue_entry(model_id)
    profile = profile_from_config(
        catalogue_config(model_id), id=entry.id, source=entry.source, source_kind=entry.source_quality
    )
    encoders = sum(entry.explained.get(part, 0) for part in ("vision", "audio"))
    if encoders and "vision" not in profile.extra_params:  # a tower no reader counts, known from the published total
        profile = replace(profile, extra_params={**profile.extra_params, "vision": encoders})
    return replace(profile, notes=(*profile.notes, entry.note)) if entry.note else profile
