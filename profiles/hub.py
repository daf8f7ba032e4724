"""Read a model's description from the hub: config.json, and headers of weight files by byte ranges. Never weights.

The standard library is enough: five kinds of request, no cache, no upload; `huggingface_hub` would bring its own client
stack to do the same. Rules: the token goes to the configured endpoint and nowhere else, not even across a
redirect; every answer has a time limit and a size limit; every failure is one line.
Environment: HF_ENDPOINT, HF_TOKEN (or the token file of HF_HOME), HF_HUB_OFFLINE.
"""

import http.client
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from infopt.errors import InfoptError
from infopt.exchange import Deadline, Origin, Redirects, opener
from infopt.profiles.files import LocalFile, parse_json
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.local_cache import choose_gguf, huggingface_home
from infopt.profiles.model_names import HubName
from infopt.units import whole_of

TIMEOUT_S = 10.0  # of one silence on the line
DEADLINE_S = 30.0  # of one whole answer
MAX_CONFIG_BYTES = 10_000_000
MAX_INDEX_BYTES = 50_000_000
MAX_HEADERS_BYTES = 128_000_000  # fetched from one file
MAX_ITEMS = 1_000_000
MAX_SHARDS = 1_000
_SHARD_CHUNK, _GGUF_CHUNK = 1 << 17, 1 << 21
_CONNECTIONS = 8
_LEAST_TOKEN = 6  # characters of a token that is looked for in answers
_COMMIT = re.compile(r"[0-9a-f]{4,64}")
_YES = frozenset({"1", "true", "yes", "on"})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """One response: its status, its body, and its headers by lower-case name."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def _followed(before: Origin, after: Origin) -> bool:
    """Over http(s), to any host, never from https down to http."""
    return after[0] in ("http", "https") and (before[0], after[0]) != ("https", "http")


class Hub:
    """One endpoint, with the user's token for it.

    Errors: InfoptError when HF_HUB_OFFLINE is set or HF_ENDPOINT is no http address, or holds a password.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        if environment.get("HF_HUB_OFFLINE", "").lower() in _YES:
            raise InfoptError("HF_HUB_OFFLINE is set: unset it to use --online, or give a local path")
        self.endpoint = (environment.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        if not re.fullmatch(r"https?://([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?(/[\w./-]*)?", self.endpoint):
            raise InfoptError(f"HF_ENDPOINT is {self.endpoint[:80]!r}: expected an http(s) address without a password")
        self._token = _token(environment)

    def get(self, path: str, limit: int, byte_range: tuple[int, int] | None = None) -> Answer:
        """GET a path of the endpoint; a status of 404 comes back, every other failure is raised."""
        url = f"{self.endpoint}/{quote(path)}"
        request = urllib.request.Request(url, headers={"User-Agent": "infopt"})
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        if byte_range:
            request.add_header("Range", f"bytes={byte_range[0]}-{byte_range[1]}")
        deadline = Deadline()
        with deadline.within(DEADLINE_S):
            try:
                with opener(deadline, Redirects(_followed)).open(request, timeout=TIMEOUT_S) as response:
                    headers = {name.lower(): value for name, value in response.headers.items()}
                    return Answer(
                        response.status, self._without_token(_bounded(response, limit, url, deadline)), headers
                    )
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return Answer(404, b"", {})
                raise InfoptError(f"{url}: {self._meaning(error.code)}") from error
            except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
                if deadline.passed:
                    raise _late(url) from error
                raise InfoptError(
                    f"{url}: no answer: {_why(error)}; check the network, or work without --online"
                ) from error

    def _without_token(self, body: bytes) -> bytes:
        """A body in which the hub says our token back to us, without it; as many bytes as before, as ranges need."""
        if self._token is None or len(self._token) < _LEAST_TOKEN:
            return body
        return body.replace(self._token.encode(), b"*" * len(self._token))

    def _meaning(self, status: int) -> str:
        if status in (401, 403):
            known = "HF_TOKEN is not allowed to read it" if self._token else "set HF_TOKEN"
            return f"{status}: the model is gated, private or does not exist; accept its terms on the hub and {known}"
        more = {429: " (too many requests: wait)", 302: " (a redirect that is not followed)"}
        return f"the hub answered {status}{more.get(302 if 300 <= status < 400 else status, '')}"

    def json(self, path: str, limit: int) -> tuple[dict[str, Any] | None, Mapping[str, str]]:
        """A JSON object and the answer's headers; None where there is no such file."""
        answer = self.get(path, limit)
        if answer.status == 404:
            return None, answer.headers
        where = f"{self.endpoint}/{path}"
        if answer.body.lstrip()[:1] == b"<":
            raise InfoptError(f"{where}: answered with a web page, not JSON (a login page or a proxy?)")
        value = parse_json(answer.body, where, MAX_ITEMS)
        if not isinstance(value, dict):
            raise InfoptError(f"{where}: holds a JSON {type(value).__name__}, expected an object")
        return value, answer.headers


class RemoteFile:
    """A file on the hub as a ByteSource: reads fetch ranges of at least `chunk` bytes."""

    def __init__(self, hub: Hub, path: str, chunk: int) -> None:
        self.name, self._hub, self._path, self._chunk = f"{hub.endpoint}/{path}", hub, path, chunk
        self._fetched = 0
        self.size = 0
        self._start, self._window = 0, b""
        self._fetch(0, chunk)

    def read_at(self, offset: int, count: int) -> bytes:
        count = min(count, self.size - offset)
        if not self._start <= offset <= offset + count <= self._start + len(self._window):
            self._fetch(offset, max(count, self._chunk))
        return self._window[offset - self._start : offset - self._start + count]

    def _fetch(self, offset: int, count: int) -> None:
        self._fetched += count
        if self._fetched > MAX_HEADERS_BYTES:
            raise InfoptError(f"{self.name}: its header is more than the {MAX_HEADERS_BYTES} bytes fetched")
        answer = self._hub.get(self._path, count, (offset, offset + count - 1))
        if answer.status == 404:
            raise InfoptError(f"{self.name}: there is no such file")
        total = re.fullmatch(rf"bytes {offset}-\d+/(\d+)", answer.headers.get("content-range", ""))
        if answer.status != 206 or total is None:
            raise InfoptError(f"{self.name}: the server does not answer byte ranges; download the file instead")
        self.size, self._start, self._window = int(total.group(1)), offset, answer.body


def fetch_model(name: HubName) -> ModelProfile:
    """The model of a hub repository (or of one GGUF file in it), from its config and headers.

    Errors: InfoptError, one line, for anything the hub refuses, does not have, or answers badly.
    """
    hub = Hub()
    revision = name.revision or "main"
    label = name.repo + (f"@{name.revision}" if name.pinned else "")
    if name.quant is not None or (name.file or "").lower().endswith(".gguf"):
        return _fetch_gguf(hub, name, revision, label)
    root = f"{name.repo}/resolve/{revision}"
    config, headers = hub.json(f"{root}/config.json", MAX_CONFIG_BYTES)
    if config is None:
        return _fetch_gguf(hub, name, revision, label)
    from infopt.profiles.hf_config import profile_from_config
    from infopt.profiles.safetensors_model import read_checkpoint, with_checkpoint

    commit = headers.get("x-repo-commit", "")
    source = f"{hub.endpoint}/{name.repo}/tree/{commit if _COMMIT.fullmatch(commit) else revision}"
    profile = profile_from_config(config, id=label, source=source, source_kind="hub")
    tensors = _fetch_tensors(hub, root)
    if tensors is not None:
        return with_checkpoint(profile, read_checkpoint(tensors, profile.layers, config))
    if _gguf_files(hub, name.repo, revision):
        return _fetch_gguf(hub, name, revision, label)
    note = "no safetensors files in the repository: bytes are counted from config.json"
    return replace(profile, notes=(*profile.notes, note))


def _fetch_tensors(hub: Hub, root: str) -> Sequence[Any] | None:
    """Tensors of every shard of a repository, None where it has no safetensors."""
    from infopt.profiles.safetensors_header import listed_tensors, parse_safetensors_header, shards_of

    where = f"{hub.endpoint}/{root}/model.safetensors.index.json"
    index, _ = hub.json(f"{root}/model.safetensors.index.json", MAX_INDEX_BYTES)
    if index is None:
        if hub.get(f"{root}/model.safetensors", 16, (0, 7)).status == 404:
            return None
        return parse_safetensors_header(RemoteFile(hub, f"{root}/model.safetensors", _SHARD_CHUNK))
    shards = shards_of(index, where)
    if len(shards) > MAX_SHARDS:
        raise InfoptError(f"{where}: {len(shards)} shards is more than the {MAX_SHARDS} fetched")

    def one(shard: str) -> list[Any]:
        header = parse_safetensors_header(RemoteFile(hub, f"{root}/{shard}", _SHARD_CHUNK))
        return listed_tensors(shard, header, shards[shard])

    return [tensor for tensors in _together(one, list(shards)) for tensor in tensors]


def _fetch_gguf(hub: Hub, name: HubName, revision: str, label: str) -> ModelProfile:
    from infopt.profiles.gguf_header import parse_gguf_header
    from infopt.profiles.gguf_model import profile_from_headers, split_names

    where = f"{hub.endpoint}/{name.repo}"
    file = name.file
    if file is None:
        ggufs = _gguf_files(hub, name.repo, revision)
        if ggufs is None:
            raise InfoptError(f"{where}: there is no such model, or no revision {revision}")
        if not ggufs:
            raise InfoptError(f"{where}: has neither a config.json nor a GGUF file")
        file = choose_gguf(ggufs, name.quant, where)
    root = f"{name.repo}/resolve/{revision}"
    shards = split_names(file)
    headers = _together(lambda shard: parse_gguf_header(RemoteFile(hub, f"{root}/{shard}", _GGUF_CHUNK)), shards)
    return profile_from_headers(headers, id=f"{label}:{name.quant or file}", source=f"{where}/blob/{revision}/{file}")


def _gguf_files(hub: Hub, repo: str, revision: str) -> list[str] | None:
    """GGUF files a repository lists, None where there is no such repository or revision."""
    listing, _ = hub.json(f"api/models/{repo}/revision/{revision}", MAX_CONFIG_BYTES)
    siblings = listing.get("siblings") if listing is not None else None
    entries = siblings if isinstance(siblings, list) else []
    names = [entry.get("rfilename") for entry in entries if isinstance(entry, dict)]
    return None if listing is None else [name for name in names if isinstance(name, str) and name.endswith(".gguf")]


def _together(work: Callable[[str], T], items: list[str]) -> list[T]:
    """Results of `work` in order, a few at a time; the first error is raised."""
    if len(items) == 1:
        return [work(items[0])]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        return list(pool.map(work, items))


def _late(url: str) -> InfoptError:
    return InfoptError(f"{url}: the answer takes longer than {DEADLINE_S:g} s")


def _bounded(response: Any, limit: int, url: str, deadline: Deadline) -> bytes:
    """The whole body, within the size limit and the deadline."""
    announced = whole_of(response.headers.get("Content-Length", ""))
    body = bytearray()
    while True:
        if len(body) > limit or (announced is not None and announced > limit):
            raise InfoptError(f"{url}: the answer is larger than the {limit} bytes expected of it")
        piece = response.read1(min(1 << 16, limit + 1 - len(body)))
        if deadline.passed:  # a connection that was cut reads as one that ended
            raise _late(url)
        if not piece:
            break
        body += piece
    if announced is not None and len(body) < announced:
        raise InfoptError(f"{url}: the answer ends after {len(body)} of {announced} bytes")
    return bytes(body)


def _token(environment: Mapping[str, str]) -> str | None:
    """The user's token: HF_TOKEN, else the token file; None where there is none."""
    text = environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN")
    path = os.path.expanduser(environment.get("HF_TOKEN_PATH") or os.path.join(huggingface_home(environment), "token"))
    implicit = environment.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower() not in _YES
    if not text and implicit and os.path.isfile(path):
        with LocalFile(path) as file:
            text = file.read_at(0, 1024).decode("ascii", "replace")
    text = (text or "").strip()
    if text and not re.fullmatch(r"[!-~]+", text):
        raise InfoptError("the hub token (HF_TOKEN or the token file) holds characters no token has")
    return text or None


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return f"nothing for {TIMEOUT_S:g} s"
    return (str(reason) or type(reason).__name__).splitlines()[0][:120]
