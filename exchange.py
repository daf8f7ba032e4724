"""One HTTP exchange that ends: every wait of it, from the look-up of a name to the last byte, is within one limit.

A socket's timeout is for each piece, which who sends a byte a second renews, and a look-up has none at all. What is
opened here speaks http and https and nothing else, through the proxies of the environment.
"""

import contextlib
import http.client
import queue
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

MOST_REDIRECTS = 5
Addresses = list[tuple[Any, ...]]
Origin = tuple[str, str]


class Deadline:
    """The end of an exchange: connections that it watches are cut when it has passed."""

    def __init__(self) -> None:
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()
        self._until = time.monotonic()
        self.passed = False

    @contextlib.contextmanager
    def within(self, limit_s: float) -> Iterator[None]:
        """Run until the limit, and close the handles."""
        self._until = time.monotonic() + limit_s
        timer = threading.Timer(limit_s, self._pass)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                for end in self._ends:
                    end.close()
                self._ends.clear()

    def connection(
        self, address: tuple[str, int], timeout_s: float, source: tuple[str, int] | None = None
    ) -> socket.socket:
        """As socket.create_connection: to the first of a name's addresses that answers; all of them share the limit."""
        problem = OSError(f"{address[0]} has no address")
        for family, kind, protocol, _, place in self._looked_up(*address):
            end = socket.socket(family, kind, protocol)
            try:
                end.settimeout(min(timeout_s, self._left_s()))
                if source is not None:
                    end.bind(source)
                end.connect(place)
                end.settimeout(timeout_s)
            except OSError as error:
                end.close()
                problem = error
                continue
            self._watch(end)
            return end
        raise problem

    def _looked_up(self, host: str, port: int) -> Addresses:
        """Addresses of a name; asked in a thread, since nothing ends a look-up."""
        answers: queue.SimpleQueue[Addresses | OSError] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
            except (OSError, UnicodeError) as error:
                answers.put(error if isinstance(error, OSError) else OSError(f"{host!r} is no name of a host"))

        threading.Thread(target=look_up, daemon=True).start()
        try:
            found = answers.get(timeout=self._left_s())
        except queue.Empty as error:
            raise TimeoutError("the name is not found in time") from error
        if isinstance(found, OSError):
            raise found
        return found

    def _left_s(self) -> float:
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the time is up")
        return left_s

    def _watch(self, end: socket.socket) -> None:
        """Cut this connection too; by a second handle, since TLS takes the first one away."""
        with self._lock:
            self._ends.append(end.dup())
            if self.passed:
                self._cut()

    def _pass(self) -> None:
        with self._lock:
            self.passed = True
            self._cut()

    def _cut(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):  # the other side has closed it
                end.shutdown(socket.SHUT_RDWR)


def opener(deadline: Deadline, redirects: urllib.request.HTTPRedirectHandler) -> urllib.request.OpenerDirector:
    """What opens http and https addresses by the deadline; build_opener's would know file:, ftp: and data: as well."""
    made = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        redirects,
        _Http(deadline),
        _Https(deadline),
    ):
        made.add_handler(handler)
    return made


def _cut_by(deadline: Deadline, kind: type[http.client.HTTPConnection]) -> Callable[..., http.client.HTTPConnection]:
    """What makes connections that end at the deadline, from the look-up on: before a proxy is asked, and before TLS."""

    def connection(host: str, **options: Any) -> http.client.HTTPConnection:
        made = kind(host, **options)
        made._create_connection = deadline.connection  # type: ignore[attr-defined]
        return made

    return connection


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_cut_by(self._deadline, http.client.HTTPConnection), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_cut_by(self._deadline, http.client.HTTPSConnection), req)


class Redirects(urllib.request.HTTPRedirectHandler):
    """A few redirects of a GET, where `follows(before, after)` allows; one that is not followed is itself the answer.

    The token goes on to the same scheme, host and port, and nowhere else; what a proxy wants to know goes to no host.
    """

    max_repeats = max_redirections = 2 * MOST_REDIRECTS  # the limit that counts is below

    def __init__(self, follows: Callable[[Origin, Origin], bool]) -> None:
        self._follows = follows

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        before, after = origin(req.full_url), origin(newurl)
        hops = sum(getattr(req, "redirect_dict", {}).values())  # urllib's count of those so far
        if req.get_method() != "GET" or hops >= MOST_REDIRECTS or not self._follows(before, after):
            return None
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is None:
            return None
        fp.close()  # urllib would read a redirect's body to its end, and it may have none
        following.remove_header("Proxy-authorization")
        token = req.unredirected_hdrs.get("Authorization")
        if token and before == after:
            following.add_unredirected_header("Authorization", token)
        return following


def origin(url: str) -> Origin:
    """Scheme, and host with port as they are written: another spelling is another host."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
