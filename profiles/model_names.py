"""What a model's name means: a hub repository, a file in it, an Ollama model, or a catalogue name. Text only."""

import os
import re

from infopt.errors import InfoptError
from infopt.frozen import dataclass

_SEGMENT = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}")
_QUANT = re.compile(r"(?:UD-)?(?:I?Q[1-8]\w*|TQ[12]_0|B?F16|F32|FP16|MXFP4\w*|NVFP4)(?:-\w+)?", re.IGNORECASE)
_HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_PATH_ENDINGS = (".gguf", ".json", ".safetensors")
_MAX_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class HubName:
    """`org/name` with, where said, a revision, a file in it, or a GGUF quantization."""

    repo: str
    revision: str | None = None
    file: str | None = None
    quant: str | None = None

    @property
    def pinned(self) -> bool:
        return self.revision not in (None, "main")


@dataclass(frozen=True, slots=True)
class OllamaName:
    """`[host/][namespace/]model:tag`."""

    name: str
    tag: str | None


def check_text(text: str) -> None:
    """Refuse what is no name at all."""
    if not text or len(text) > _MAX_LENGTH or not text.isprintable():
        what = "is empty" if not text else f"of {len(text)} characters" if len(text) > _MAX_LENGTH else repr(text[:60])
        raise InfoptError(f"model name {what}: expected a name, a path or a hub address")


def looks_like_path(text: str) -> bool:
    """Whether a text that names no existing file was meant as one."""
    if text.startswith((".", os.sep, "~")) or (text.lower().endswith(_PATH_ENDINGS) and "://" not in text):
        return True
    named = "://" in text or text.startswith(("hf:", "ollama:", *_hub_prefixes())) or ":" in text
    return text.count("/") > 1 and not named and "@" not in text


def parse_model_name(text: str) -> HubName | OllamaName | None:
    """A hub or Ollama name taken apart; None for a plain name (which the catalogue may know)."""
    if re.match(r"[a-z][a-z0-9+.]*://", text, re.IGNORECASE):
        return _from_url(text)
    if text.startswith("ollama:"):
        return _ollama(text.removeprefix("ollama:"), text)
    prefix = next((known for known in ("hf:", *_hub_prefixes()) if text.startswith(known)), None)
    if prefix is not None:
        return _hub(text.removeprefix(prefix), text)
    rest, _, tag = text.partition(":")
    if tag and (rest.count("/") != 1 or not _QUANT.fullmatch(tag)):
        return _ollama(text, text)
    return _hub(text, text) if "/" in text else None


def _hub_prefixes() -> tuple[str, ...]:
    return tuple(f"{host}/" for host in _HUB_HOSTS)


def _hub(rest: str, text: str) -> HubName:
    """`org/name[@revision][:QUANT]`."""
    rest, _, quant = rest.partition(":")
    repo, _, revision = rest.partition("@")
    _check_repo(repo, text)
    if revision and not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", revision):
        raise InfoptError(f"{text[:200]}: {revision[:60]!r} is no revision (a branch, a tag or a commit)")
    if quant and not re.fullmatch(r"[\w.-]{1,60}", quant):
        raise InfoptError(f"{text[:200]}: {quant[:60]!r} is no quantization (write user/repo:Q4_K_M)")
    return HubName(repo, revision or None, None, quant or None)


def _from_url(text: str) -> HubName:
    """`https://huggingface.co/org/name[/tree/revision | /blob/revision/file]`; also at HF_ENDPOINT."""
    from urllib.parse import unquote, urlsplit

    try:
        parts, endpoint = urlsplit(text), urlsplit(os.environ.get("HF_ENDPOINT", "")).netloc
    except ValueError as error:
        raise InfoptError(f"{text[:200]}: no address: {error}") from error
    if parts.scheme not in ("http", "https") or parts.netloc not in (*_HUB_HOSTS, endpoint):
        raise InfoptError(f"{text[:200]}: not an address of the model hub (https://huggingface.co/org/name)")
    segments = [unquote(segment) for segment in parts.path.split("/") if segment]
    if len(segments) < 2 or segments[0] in ("datasets", "spaces", "api", "models"):
        raise InfoptError(f"{text[:200]}: not the address of a model (https://huggingface.co/org/name)")
    repo, kind, place = "/".join(segments[:2]), segments[2:3], segments[3:]
    _check_repo(repo, text)
    if not kind:
        return HubName(repo)
    if kind[0] not in ("tree", "blob", "resolve", "raw", "commit") or not place:
        raise InfoptError(f"{text[:200]}: not a model, a revision (/tree/REVISION) or a file (/blob/REVISION/FILE)")
    length = 3 if place[0] == "refs" and len(place) > 2 else 1
    revision, file = "/".join(place[:length]), "/".join(place[length:])
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", revision) or ".." in f"{revision}/{file}".split("/"):
        raise InfoptError(f"{text[:200]}: {revision[:60]!r} is no revision")
    return HubName(repo, revision, file or None if kind[0] != "tree" else None)


def _check_repo(repo: str, text: str) -> None:
    segments = repo.split("/")
    if len(segments) != 2 or not all(_SEGMENT.fullmatch(segment) and ".." not in segment for segment in segments):
        raise InfoptError(f"{text[:200]}: {repo[:100]!r} is no model name: expected org/name")


def _ollama(rest: str, text: str) -> OllamaName:
    name, _, tag = rest.partition(":")
    segments = [*name.split("/"), *([tag] if tag else [])]
    if name.count("/") > 2 or not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise InfoptError(f"{text[:200]}: no Ollama name: expected model:tag, such as llama3.1:70b")
    return OllamaName(name, tag or None)
