"""From what a user wrote to a model: a path that exists, a catalogue name, a local copy, or - when asked - the hub.

Readers of files and of the hub are imported where they are used: a catalogue name needs none of them.
"""

import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

from infopt.errors import InfoptError, unknown_name
from infopt.profiles.catalogue import aliases, catalogue_names, find_in_catalogue, load_catalogue_model
from infopt.profiles.geometry import ModelProfile, Quantization
from infopt.profiles.model_names import HubName, OllamaName, check_text, looks_like_path, parse_model_name
from infopt.records import read_yaml

_OLLAMA_DEFAULT = "q4_k_m"
_SIZE = re.compile(r"e?\d+(?:\.\d+)?[bm]|\d+x\d+b")
_TAG_FORMAT = re.compile(r"i?q\d\w*|b?f16|fp16|fp8|mxfp4|nvfp4|qat")
_SAME_SHAPE = frozenset({"instruct", "it", "chat"})
_SIZE_TOLERANCE = 0.06  # names round down: 14.7 billion is sold as 14b
_BILLIONS = {"b": 1e9, "m": 1e6}


def resolve_model(text: str, *, online: bool = False) -> ModelProfile:
    """The model that `text` means.

    In this order: a path that exists (folder, config.json, safetensors file or index, GGUF file), the catalogue, the
    local hub cache or Ollama store, and with `online` the hub. A pinned revision or a named GGUF quantization is never
    answered by the catalogue as if it were that file: the note says what was assumed.

    Raises InfoptError (one line, with the nearest names) for what cannot be found or read.
    """
    text = text.strip()
    check_text(text)
    path = os.path.expanduser(text)
    if os.path.lexists(path):
        return profile_from_path(path)
    if looks_like_path(text):
        raise InfoptError(f"{text}: no such file or folder")
    name = parse_model_name(text)
    if isinstance(name, OllamaName):
        return _ollama(name, text)
    if isinstance(name, HubName):
        return _hub(name, text, online=online)
    found = find_in_catalogue(text)
    if found is None:
        raise _unknown(text, online=online)
    return load_catalogue_model(found)


def profile_from_path(path: str) -> ModelProfile:
    """The model in an existing file or folder."""
    lowered = path.lower()
    if os.path.isdir(path):
        return _from_folder(path)
    if lowered.endswith((".safetensors", ".safetensors.index.json")):
        from infopt.profiles.safetensors_model import profile_from_weights

        return profile_from_weights(path)
    if lowered.endswith(".json"):
        from infopt.profiles.safetensors_model import folder_name, profile_from_files

        stem = os.path.basename(path)[: -len(".json")]
        return profile_from_files(path, None, id=folder_name(os.path.dirname(path)) if stem == "config" else stem)
    from infopt.profiles.files import LocalFile

    if not lowered.endswith(".gguf"):
        with LocalFile(path) as file:
            if file.read_at(0, 4) != b"GGUF":
                raise InfoptError(
                    f"{path}: not a model file infopt reads (config.json, .safetensors or its index, GGUF)"
                )
    from infopt.profiles.gguf_model import profile_from_gguf

    return profile_from_gguf(path)


def _from_folder(folder: str, *, id: str | None = None, quant: str | None = None) -> ModelProfile:
    """A folder: its config.json with the safetensors beside it, else the GGUF file it holds, else config.json alone.

    id  the repository's name, for a folder of the hub cache
    """
    from infopt.profiles.local_cache import choose_gguf, gguf_names
    from infopt.profiles.safetensors_model import profile_from_folder

    try:
        entries = os.listdir(folder)
        weights = any(entry.endswith((".safetensors", ".safetensors.index.json")) for entry in entries)
        names = [] if quant is None and weights and "config.json" in entries else gguf_names(folder)
    except OSError as error:
        raise InfoptError(f"{folder}: cannot be read: {(error.strerror or 'unreadable').lower()}") from error
    if not names:
        return profile_from_folder(folder, id=id, partial=id is not None)
    from infopt.profiles.gguf_model import profile_from_gguf

    file = choose_gguf(names, quant, id or folder, "name one as user/repo:QUANT" if id else "give the file's path")
    return profile_from_gguf(os.path.join(folder, file), id=f"{id}:{quant}" if id and quant else id)


def _hub(name: HubName, text: str, *, online: bool) -> ModelProfile:
    gguf = name.quant is not None or (name.file or "").lower().endswith(".gguf")
    if not gguf and not name.pinned:
        found = find_in_catalogue(name.repo)
        if found is not None:
            return load_catalogue_model(found)
    from infopt.profiles.local_cache import cached_snapshot, gguf_names

    folder = cached_snapshot(name.repo, name.revision or "main")
    if folder is not None and gguf and name.file and os.path.exists(os.path.join(folder, name.file)):
        return profile_from_path(os.path.join(folder, name.file))
    if folder is not None and (not gguf or (name.quant and gguf_names(folder))):
        return _from_folder(folder, id=name.repo, quant=name.quant)
    if online:
        from infopt.profiles.hub import fetch_model

        return fetch_model(name)
    if gguf:
        return _assumed_gguf(name, text)
    if name.pinned:
        raise InfoptError(f"{text}: the catalogue answers only for unpinned names, and revision {name.revision} is not "
                          "in the local hub cache; add --online to ask the hub")  # fmt: skip
    raise _unknown(name.repo, online=online)


def _assumed_gguf(name: HubName, text: str) -> ModelProfile:
    """A GGUF repository nobody downloaded, as the catalogue model its name says, in the quantization named."""
    own = re.sub(r"[-_.]gguf$", "", name.repo.split("/")[1], flags=re.IGNORECASE)
    found = find_in_catalogue(own) or find_in_catalogue(own.partition("_")[2] or own)
    quant = name.quant or _format_in(name.file or "")
    if found is None or quant is None:
        raise InfoptError(f"{text}: is not in the local hub cache, and its name is no catalogue model; add --online to "
                          "ask the hub")  # fmt: skip
    note = f"{text}: assumed to be {found} in {quant}; the file was not read (add --online to read its header)"
    return _in_format(load_catalogue_model(found), quant, note)


def _format_in(file: str) -> str | None:
    match = re.search(r"[-._](i?q\d\w*|b?f16|mxfp4\w*)(?:-\d+-of-\d+)?\.gguf$", file, re.IGNORECASE)
    return match.group(1) if match else None


def _ollama(name: OllamaName, text: str) -> ModelProfile:
    """A model pulled by Ollama, else the catalogue model of that family and size in the tag's format."""
    from infopt.profiles.local_cache import ollama_blobs

    pulled = ollama_blobs(name.name, name.tag or "latest")
    if pulled is not None:
        from infopt.profiles.gguf_model import profile_from_gguf

        blob, projector_bytes = pulled
        profile = profile_from_gguf(blob, id=f"{name.name}:{name.tag or 'latest'}")
        if projector_bytes:
            stored = {**profile.stored_bytes, "vision": projector_bytes + profile.stored_bytes.get("vision", 0)}
            profile = replace(profile, stored_bytes=stored)
        return profile
    family, tag = name.name.rpartition("/")[2], (name.tag or "").lower()
    words = tag.split("-")
    if not any(_SIZE.fullmatch(word) for word in words):
        words = [_ollama_names()["default_tags"].get(family, ""), *words]
    size = next((word for word in words if _SIZE.fullmatch(word)), None)
    named = next((word for word in words if _TAG_FORMAT.fullmatch(word)), None)
    rest = [word for word in words if word not in (size, named, "text", "latest", "")]
    # Without a size the name must be whole by itself: llama-3.1-70b:q4_k_m.
    listed = _ollama_names()["models"].get(f"{family}:{size}") if set(rest) <= _SAME_SHAPE else None
    found = listed or _of_size(family, size, rest) if size else find_in_catalogue(name.name) if named else None
    if found is None:
        missing = "" if size else ": give the size as a tag, such as llama3.1:8b"
        raise InfoptError(f"{text}: not pulled by Ollama here, and no catalogue model of that family and size{missing}")
    profile = load_catalogue_model(found)
    if named is None and profile.quantization is not None and profile.quantization.format == "mxfp4":
        return replace(profile, notes=(*profile.notes, f"{text}: assumed to be {found} as published"))
    quant = {"qat": "q4_0"}.get(named or "", named or _OLLAMA_DEFAULT)
    how = "in" if named else "in Ollama's default quantization"
    note = f"{text}: assumed to be {found} {how} {quant}; it is not pulled here, so no file was read"
    return _in_format(profile, quant, note)


@cache
def _ollama_names() -> dict[str, dict[str, str]]:
    """Default tags and names of Ollama's library that say another model than their words do."""
    data = read_yaml(Path(__file__).resolve().parent / "data" / "ollama.yaml")
    return {kind: dict(data[kind]) for kind in ("default_tags", "models")}


def _of_size(family: str, size: str, rest: list[str]) -> str | None:
    """Catalogue id of a family and size, None where the name or the parameter count does not say so."""
    found = find_in_catalogue("-".join([family, size, *rest]))
    if found is not None:
        return found
    try:
        found = find_in_catalogue("-".join([family, *rest]))
    except InfoptError:  # the family has several sizes and none is this one
        return None
    if found is None or not re.fullmatch(r"\d+(?:\.\d+)?[bm]", size):
        return None
    said = float(size[:-1]) * _BILLIONS[size[-1]]
    return found if abs(load_catalogue_model(found).params_total - said) <= _SIZE_TOLERANCE * said else None


def _in_format(profile: ModelProfile, quant: str, note: str) -> ModelProfile:
    """`profile` stored in a GGUF format that was named but not read."""
    from infopt.profiles.formats import format_name, load_weight_format

    name = format_name(quant, "weights")
    covered = frozenset(load_weight_format(name).parts)
    plain = name in ("fp16", "bf16", "fp32")
    return replace(
        profile,
        compute_dtype=name if plain else "fp16",
        quantization=None if plain else Quantization(name, covered),
        notes=(*profile.notes, note),
    )


def _unknown(text: str, *, online: bool) -> InfoptError:
    remedy = "give org/name to ask the hub" if online else "add --online to ask the hub, or give a path"
    ids = catalogue_names()
    known = ids if "/" in text else [*(id.rpartition("/")[2] for id in ids), *aliases()]
    return unknown_name("model", text, known, remedy)
