"""Where models already on this machine are: the Hugging Face hub cache, and Ollama's store."""

import os
import re
from collections.abc import Mapping
from typing import Any

from infopt.errors import InfoptError
from infopt.profiles.files import LocalFile, read_json_file, shown

_REVISION = re.compile(r"[\w.-]+(/[\w.-]+)*")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_OLLAMA_HOST, _OLLAMA_SPACE = "registry.ollama.ai", "library"
_MODEL_LAYER = "application/vnd.ollama.image.model"
_PROJECTOR_LAYER = "application/vnd.ollama.image.projector"


def huggingface_home(environment: Mapping[str, str] = os.environ) -> str:
    """HF_HOME, else XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface."""
    base = environment.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return os.path.expanduser(environment.get("HF_HOME") or os.path.join(base, "huggingface"))


def hub_cache(environment: Mapping[str, str] = os.environ) -> str:
    """Folder of downloaded repositories: HF_HUB_CACHE (or its old name), else `hub` in HF_HOME."""
    named = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    return os.path.expanduser(named) if named else os.path.join(huggingface_home(environment), "hub")


def cached_snapshot(repo: str, revision: str) -> str | None:
    """Folder of a downloaded revision of `org/name`, None where it was never downloaded.

    A revision is a branch or tag the cache has a reference for, or a commit (whole, or a prefix of one snapshot).
    """
    root = os.path.join(hub_cache(), "models--" + repo.replace("/", "--"))
    snapshots = os.path.join(root, "snapshots")
    if not os.path.isdir(snapshots) or not _REVISION.fullmatch(revision) or ".." in revision:
        return None
    commit = _reference(os.path.join(root, "refs", revision)) or revision
    try:
        present = sorted(os.listdir(snapshots))
    except OSError as error:
        raise InfoptError(f"{snapshots}: cannot be read: {(error.strerror or 'unreadable').lower()}") from error
    if commit not in present and re.fullmatch(r"[0-9a-f]{6,40}", commit):
        present = [snapshot for snapshot in present if snapshot.startswith(commit)]
        commit = present[0] if len(present) == 1 else commit
    if commit not in present and revision == "main" and len(present) == 1:
        commit = present[0]  # downloaded by commit: the only one there is
    folder = os.path.join(snapshots, commit)
    return folder if os.path.isdir(folder) else None


def _reference(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    with LocalFile(path) as file:
        commit = file.read_at(0, 200).decode("ascii", "replace").strip()
    return commit if re.fullmatch(r"[\w.-]{1,100}", commit) and ".." not in commit else None


def ollama_store(environment: Mapping[str, str] = os.environ) -> str:
    """OLLAMA_MODELS, else ~/.ollama/models, else where Ollama's service on Linux keeps them."""
    own = os.path.expanduser(environment.get("OLLAMA_MODELS") or os.path.join("~", ".ollama", "models"))
    service = os.path.join(os.sep, "usr", "share", "ollama", ".ollama", "models")
    return service if not os.path.isdir(own) and os.path.isdir(service) else own


def ollama_blobs(name: str, tag: str) -> tuple[str, int] | None:
    """(model blob, bytes of its projector) of a model pulled by Ollama; None where it was not pulled.

    name  [[host/]namespace/]model
    """
    parts = name.split("/")
    if len(parts) > 3 or not all(_NAME.fullmatch(part) for part in [*parts, tag]):
        return None
    place = [_OLLAMA_HOST, _OLLAMA_SPACE][: 3 - len(parts)] + parts
    path = os.path.join(ollama_store(), "manifests", *place, tag)
    if not os.path.isfile(path):
        return None
    layers = read_json_file(path).get("layers")
    kinds: dict[str, dict[str, Any]] = {}
    for layer in layers if isinstance(layers, list) else []:
        if isinstance(layer, dict) and isinstance(layer.get("mediaType"), str):
            kinds.setdefault(layer["mediaType"], layer)
    model, projector = kinds.get(_MODEL_LAYER), kinds.get(_PROJECTOR_LAYER)
    digest = model.get("digest") if model else None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InfoptError(f"{path}: names no model layer: not a manifest infopt reads")
    blob = os.path.join(ollama_store(), "blobs", digest.replace(":", "-"))
    size = projector.get("size") if projector else 0
    return blob, size if isinstance(size, int) and size >= 0 else 0


def gguf_names(folder: str) -> list[str]:
    """GGUF files of a folder and of the folders in it, as relative names."""
    found: list[str] = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".gguf"):
            found.append(entry.name)
        elif entry.is_dir():
            inside = os.listdir(entry.path)
            found += [f"{entry.name}/{name}" for name in inside if name.endswith(".gguf")]
    return sorted(found)


def choose_gguf(names: list[str], quant: str | None, where: str, remedy: str = "name one as user/repo:QUANT") -> str:
    """The one of a repository's GGUF files that `quant` names (its first shard); Q4_K_M where none is named.

    The default is llama.cpp's own. Errors: InfoptError listing the files where none or several fit.
    """
    models = [name for name in names if "mmproj" not in name.lower() and not re.search(r"-0*[2-9]\d*-of-\d+\.gguf$|"
              r"-0*1\d+-of-\d+\.gguf$", name)]  # fmt: skip
    wanted = re.compile(rf"(^|[-._/]){re.escape(quant or 'Q4_K_M')}([-._/]|$)", re.IGNORECASE)
    fitting = [name for name in models if wanted.search(name)]
    if len(fitting) == 1 or (quant is None and len(models) == 1):
        return (fitting or models)[0]
    there = ", ".join(map(shown, (fitting or models)[:8])) or "none at all"
    problem = f"several GGUF files fit {quant}" if fitting else f"no GGUF file of {quant or 'Q4_K_M'}"
    raise InfoptError(f"{where}: {problem}; there: {there}; {remedy}")
