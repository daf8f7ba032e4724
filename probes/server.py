"""A running inference server over HTTP: bounded in time and size, and careful with the user's key.

The standard library is enough. The key (INFOPT_API_KEY, else OPENAI_API_KEY) goes to the address the user gave and
nowhere else, and is taken out of whatever the server says before it is shown.
"""

import http.client
import json
import operator
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from infopt.errors import InfoptError
from infopt.exchange import Deadline, Redirects, opener
from infopt.frozen import dataclass
from infopt.profiles.files import parse_json

MAX_BYTES = 20_000_000
METRICS_S = 10.0  # for one answer of /metrics or /v1/models
ANSWER_S = 600.0  # for one completion
KEYS = ("INFOPT_API_KEY", "OPENAI_API_KEY")
_LEAST_KEY = 6  # characters of a key that is looked for in answers
_GRACE_RATIO = 1.1  # of a limit: then the connection is cut, where the limits of its single waits did not end it
_PORT, _LAST_PORT = re.compile(r"[^/]:(\d{1,5})(?:/|$)"), 65535
_RUNNING = "is the server running there?"
_ADDRESS = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?(?:/[\w.~/-]*)?")


@dataclass(frozen=True, slots=True)
class Reply:
    """Status and body of an answer."""

    status: int
    body: bytes


class Server:
    """One server, by the address of its API with or without a final /v1.

    named  what the user gave the address as, for errors
    Errors: InfoptError where the address is none, holds a password, or the key holds characters no key has.
    """

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ, named: str = "--endpoint") -> None:
        if "@" in url:
            raise InfoptError(f"{named}: no password in the address; set {KEYS[0]} to the key")
        if not _ADDRESS.fullmatch(url) or _port(url) > _LAST_PORT:
            raise InfoptError(f"{named} {url[:80]!r}: expected http://HOST:PORT or https://HOST")
        self.base = url.rstrip("/").removesuffix("/v1")
        self._key = _key(environment)

    def get(self, path: str, limit_s: float = METRICS_S) -> Reply:
        """Whatever it answers to a GET."""
        return self._ask(urllib.request.Request(self.base + path), limit_s)

    def post(self, path: str, body: Mapping[str, Any], limit_s: float = ANSWER_S) -> Reply:
        """Whatever it answers to a JSON object."""
        data = json.dumps(dict(body)).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method="POST")
        return self._ask(request, limit_s)

    def object(self, path: str, reply: Reply) -> dict[str, Any]:
        """A reply as a JSON object; InfoptError with what the server says where it is none."""
        where = self.base + path
        if reply.status != 200:
            raise InfoptError(f"{where}: the server answered {self.meaning(reply)}")
        if reply.body.lstrip()[:1] == b"<":
            raise InfoptError(f"{where}: answered with a web page, not JSON (a login page or a proxy?)")
        value = parse_json(reply.body, where)
        if not isinstance(value, dict):
            raise InfoptError(f"{where}: holds a JSON {type(value).__name__}, expected an object")
        return value

    def meaning(self, reply: Reply) -> str:
        """A status other than 200 in words, with the start of what was said, without the key."""
        if 300 <= reply.status < 400:
            return f"{reply.status}, a redirect to another address, which is not followed"
        if reply.status in (401, 403):
            return f"{reply.status}: {'the key is not allowed' if self._key else f'set {KEYS[0]} to its key'}"
        return f"{reply.status}{self._said(reply.body)}"

    def _said(self, body: bytes) -> str:
        text = body[:2000].decode("utf-8", "replace")
        words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return f": {words[:160]}" if words and not words.startswith("<") else ""

    def _without_key(self, body: bytes) -> bytes:
        """A body in which the server says our key back to us, without it; a shorter text is a word of any answer."""
        if self._key is None or len(self._key) < _LEAST_KEY:
            return body
        return body.replace(self._key.encode(), b"***")

    def _ask(self, request: urllib.request.Request, limit_s: float) -> Reply:
        request.add_header("User-Agent", "infopt")
        if self._key:
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        until = time.monotonic() + limit_s
        url = request.full_url
        deadline = Deadline()
        with deadline.within(_GRACE_RATIO * limit_s):
            try:
                with opener(deadline, Redirects(operator.eq)).open(request, timeout=limit_s) as response:
                    return Reply(response.status, self._without_key(_bounded(response, until, limit_s, url)))
            except urllib.error.HTTPError as error:
                return Reply(error.code, self._without_key(_start(error)))
            except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
                if deadline.passed:
                    raise _late(url, limit_s) from error
                raise InfoptError(f"{url}: no answer: {_why(error, limit_s)}") from error


def _port(url: str) -> int:
    found = _PORT.search(url)
    return int(found.group(1)) if found else 0


def _late(url: str, limit_s: float) -> InfoptError:
    return InfoptError(f"{url}: the answer took more than {limit_s:g} s")


def _start(error: urllib.error.HTTPError) -> bytes:
    """The first words of a refusal; none where the line broke."""
    try:
        with error:
            return error.read(2000)
    except (http.client.HTTPException, OSError):
        return b""


def _bounded(response: Any, until: float, limit_s: float, url: str) -> bytes:
    """The body, up to the limits; read piece by piece, since a server may send a byte a second.

    Errors: InfoptError beyond a limit, where it breaks off, and where it is compressed, which was not asked for.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise InfoptError(
            f"{url}: the answer is compressed ({encoding[:20]!r}), which was not asked for; is it a proxy?"
        )
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise InfoptError(f"{url}: more than {MAX_BYTES} bytes of answer")
        if time.monotonic() > until:
            raise _late(url, limit_s)
    if time.monotonic() > until:
        raise _late(url, limit_s)
    if response.length:
        raise InfoptError(f"{url}: the answer broke off {response.length} bytes before its end")
    return b"".join(pieces)


def _key(environment: Mapping[str, str]) -> str | None:
    for name in KEYS:
        text = environment.get(name, "").strip()
        if text:
            if not re.fullmatch(r"[!-~]+", text):
                raise InfoptError(f"{name} holds characters no key has")
            return text
    return None


def _why(error: Exception, limit_s: float) -> str:
    """Why nothing answers, and what to do."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({reason.verify_message}); SSL_CERT_FILE names a file of those that are"
    if isinstance(reason, ssl.SSLError) and reason.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "it does not speak TLS there; try http://"
    if isinstance(reason, TimeoutError):
        return f"nothing for {limit_s:g} s; {_RUNNING}"
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return f"{str(said).splitlines()[0][:120]}; {_RUNNING}"
