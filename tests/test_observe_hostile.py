"""`infopt observe` against servers and files that mean no good, or are broken: one clear line, in bounded time."""

import gzip
import itertools
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_servers import Answer, Handler, Replay, connected, models, serving, text_of

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.observing.endpoints import whole_lines
from infopt.observing.reading import read_source
from infopt.observing.saved import saved_text, seconds_between, taken_of
from infopt.observing.windows import Snapshot
from infopt.probes import server as http_server
from infopt.probes.metrics_text import MAX_SERIES, Metrics

ONCE = ("--duration", "0s")
SOON = (*ONCE, "--timeout", "400ms")  # for servers that never answer
QUICK = ("--interval", "100ms", "--duration", "300ms")
KEY = "sk-not-to-be-seen-0123456789"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
TEXT = text_of("vllm_0.32_before")
LATER = text_of("vllm_0.32_after")

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, words: str, *arguments: str, within_s: float = 30.0, status: int = 2) -> str:
    """The one line that is said, in time, with nothing on stdout."""
    begun = time.monotonic()
    assert run(["observe", *arguments]) == status
    assert time.monotonic() - begun < within_s
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert re.search(words, printed.err), printed.err
    assert len(printed.err) < 600
    assert printed.err.isprintable() or printed.err[:-1].isprintable()
    return printed.err


def request_of(connection: socket.socket) -> bytes:
    """What the client asks."""
    asked = b""
    while b"\r\n\r\n" not in asked:
        piece = connection.recv(4096)
        if not piece:
            break
        asked += piece
    return asked


# Time.


def test_an_endpoint_that_hangs(capsys: Capture) -> None:
    def hang(connection: socket.socket, over: threading.Event) -> None:
        over.wait()

    with connected(hang) as url:
        refused(capsys, r"/metrics: no answer: nothing for 0.4 s", url, *SOON, within_s=10)


@pytest.mark.parametrize("first", [b"", HEAD + b"Content-Length: 1000\r\n\r\n"], ids=["its head", "its body"])
def test_an_endpoint_that_trickles(first: bytes, capsys: Capture) -> None:
    """Each byte comes before a socket's timeout, the answer never."""

    def trickle(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        connection.sendall(first)
        for byte in itertools.cycle(HEAD):
            connection.sendall(bytes([byte]))
            if over.wait(0.05):
                return

    with connected(trickle) as url:
        refused(capsys, r"/metrics: the answer took more than 0.4 s", url, *SOON, within_s=10)


def test_a_greeting_that_trickles(capsys: Capture) -> None:
    """Under TLS time counts from the first byte, too; who speaks no TLS is told apart."""

    def trickle(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"\x16\x03\x03\x3f\xff")  # the head of a record that never comes
        while not over.wait(0.05):
            connection.sendall(b"\x02")

    with connected(trickle) as url:
        late = r"/metrics: (the answer took more than|no answer: nothing for) 0.4 s"  # on a busy machine nothing at all
        refused(capsys, late, url.replace("http:", "https:"), *SOON, within_s=10)
    with serving(Replay({"/metrics": [TEXT]})) as url:
        refused(capsys, "no answer: it does not speak TLS there; try http://", url.replace("http:", "https:"), *ONCE)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_a_server_under_tls(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose certificate is trusted it is read; else it is refused."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*made.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def answer(connection: socket.socket, over: threading.Event) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            body = LATER if b"/metrics" in request_of(secure) else b"[]"
            secure.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    with connected(answer) as url:
        address = url.replace("http:", "https:")
        refused(
            capsys, r"no answer: its certificate is not trusted \(.*; SSL_CERT_FILE names", address, "--duration", "0s"
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert run(["observe", address, "--duration", "0s"]) == 0
        assert address in capsys.readouterr().out.replace("\n", "")


def test_a_refusal_that_trickles(capsys: Capture) -> None:
    def trickle(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        connection.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 2000\r\n\r\n")
        while not over.wait(0.05):
            connection.sendall(b"n")

    with connected(trickle) as url:
        refused(capsys, r"401: set INFOPT_API_KEY", url, *SOON, within_s=10)


def test_a_port_where_nothing_listens(capsys: Capture) -> None:
    refused(capsys, r"Connection refused; is the server running there\?", "http://127.0.0.1:9", *ONCE)


# Size.


def test_a_gigabyte(capsys: Capture) -> None:
    """With a length, in chunks and without an end: as much is read as is allowed."""
    line = b"vllm:something_total 1.0\n" * 4000
    sent = [0]

    def endless(head: bytes, chunked: bool) -> Callable[[socket.socket, threading.Event], None]:
        def send(connection: socket.socket, over: threading.Event) -> None:
            request_of(connection)
            connection.sendall(HEAD + head + b"\r\n")
            while not over.is_set():
                connection.sendall(b"%x\r\n%s\r\n" % (len(line), line) if chunked else line)
                sent[0] += len(line)

        return send

    for head, chunked in (
        (b"Content-Length: 1000000000\r\n", False),
        (b"Transfer-Encoding: chunked\r\n", True),
        (b"", False),
    ):
        sent[0] = 0
        with connected(endless(head, chunked)) as url:
            refused(capsys, r"more than 20000000 bytes of answer", url, "--duration", "0s", within_s=20)
        assert sent[0] < 2 * http_server.MAX_BYTES


def test_a_million_series(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(b'x{a="%d"} 1\n' % n for n in range(MAX_SERIES + 1))
    with serving(Replay({"/metrics": [text]})) as url:
        refused(capsys, rf"more than {MAX_SERIES} series", url, "--duration", "0s", within_s=30)


def test_a_compressed_answer(capsys: Capture) -> None:
    """A bomb is never unpacked: it was not asked for."""
    bomb = gzip.compress(b"0" * 50_000_000)
    with serving(Replay({"/metrics": lambda h: h.say(bomb, Content_Encoding="gzip")})) as url:
        refused(capsys, r"the answer is compressed \('gzip'\), which was not asked for", url, *ONCE)
    with serving(Replay({"/metrics": [bomb]})) as url:
        refused(capsys, r"holds no metrics", url, *ONCE)


# What is no text of metrics.


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<!DOCTYPE html>\n<title>Please log in</title>\n", r"a web page, not metrics \(a login page or a proxy\?\)"),
        (b'{"detail": "hello"}', r"answered with JSON, not with a Prometheus text"),
        (b"", r"an empty answer, no metrics"),
        (b"ok", r"holds no metrics"),
        (b"\x00\x01\x02\xff\n" * 99, r"holds no metrics"),
        (b"\xff\xfe\xfd 1.0\n", r"holds no metrics"),
        (b"node_cpu_seconds_total 1\ngo_goroutines 5\n", r"no metrics of an engine that is known .*go_\*, node_\*"),
    ],
)
def test_other_answers(body: bytes, words: str, capsys: Capture) -> None:
    with serving(Replay({"/metrics": [body]})) as url:
        refused(capsys, words, url, *ONCE)


def test_redirects(capsys: Capture) -> None:
    """Inside one host they are followed, never to another, and not for ever."""
    with serving(Replay({"/metrics": [TEXT]})) as other:
        away: Answer = lambda handler: handler.say(b"", 302, Location=f"{other}/metrics")  # noqa: E731
        with serving(Replay({"/metrics": away})) as url:
            refused(capsys, r"302, a redirect to another address, which is not followed", url, *ONCE)
    file: Answer = lambda handler: handler.say(b"", 302, Location="file:///etc/passwd")  # noqa: E731
    with serving(Replay({"/metrics": file})) as url:
        refused(capsys, r"302, a redirect", url, *ONCE)
    round_and_round: Answer = lambda handler: handler.say(b"", 302, Location="/metrics")  # noqa: E731
    with serving(Replay({"/metrics": round_and_round})) as url:
        refused(capsys, r"302, a redirect", url, *ONCE)
    slash: Answer = lambda handler: handler.say(b"", 307, Location="/metrics/")  # noqa: E731
    with serving(Replay({"/metrics": slash, "/metrics/": [TEXT]})) as url:
        assert run(["observe", url, *ONCE]) == 0


@pytest.mark.parametrize(("status", "words"), [(401, "the key is not allowed"), (500, r"500: wrong: \*\*\* it was")])
def test_a_key_is_never_shown(status: int, words: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFOPT_API_KEY", KEY)

    def echo(handler: Handler) -> None:
        handler.say(
            f"wrong: {(handler.headers['Authorization'] or '').removeprefix('Bearer ')} it was".encode(), status
        )

    replay = Replay({"/metrics": echo, "/prometheus/metrics": echo})
    with serving(replay) as url:
        assert KEY not in refused(capsys, words, url, *ONCE)
    assert replay.keys[0] == f"Bearer {KEY}"


def test_a_key_that_is_said_back_as_a_name(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label of a metric, or a model's name, that holds our key is shown without it."""
    monkeypatch.setenv("INFOPT_API_KEY", KEY)
    said = TEXT.replace(b"example-8b", KEY.encode()) + f"vllm:{KEY.replace('-', '_')} 1\n".encode()
    assert KEY.encode() in said
    with serving(Replay({"/metrics": [said]})) as url:
        assert run(["observe", url, *ONCE, "--json"]) == 0
    printed = capsys.readouterr()
    assert '"***"' in printed.out
    assert KEY not in printed.out + printed.err


def test_a_password_in_the_address(capsys: Capture) -> None:
    said = refused(capsys, r"SOURCE: no password in the address; set INFOPT_API_KEY", "http://me:secret@localhost:8000")
    assert "secret" not in said


def test_no_key_is_asked_for_by_name(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFOPT_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(Replay({"/metrics": lambda handler: handler.say(b"no", 403)})) as url:
        refused(capsys, r"403: set INFOPT_API_KEY to its key", url, *ONCE)


# Half a text.


def test_half_a_text(capsys: Capture) -> None:
    """A last line without an end is left out, since 12 may be the start of 1234; a broken-off answer is said."""
    assert whole_lines(b"a 1\nb 12") == b"a 1\n"
    cut = TEXT + b"vllm:generation_tokens_total 12"

    def without_length(connection: socket.socket, over: threading.Event) -> None:
        if b"/metrics" in request_of(connection):
            connection.sendall(HEAD + b"\r\n" + cut)

    with connected(without_length) as url:
        assert run(["observe", url, *ONCE, "--json"]) == 0
    whole = capsys.readouterr().out
    with serving(Replay({"/metrics": [TEXT]})) as url:
        assert run(["observe", url, *ONCE, "--json"]) == 0
    figures = re.compile(r'"(?:output_tokens|requests|steps)": .*')
    assert figures.findall(whole) == figures.findall(capsys.readouterr().out)

    def too_long(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (len(TEXT) + 5) + TEXT)

    with connected(too_long) as url:
        refused(capsys, r"/metrics: the answer broke off 5 bytes before its end", url, *ONCE)

    def half_a_chunk(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n" + TEXT[:100])

    with connected(half_a_chunk) as url:
        refused(capsys, r"/metrics: no answer: IncompleteRead", url, *ONCE)


def test_a_length_that_is_too_short(capsys: Capture) -> None:
    def too_short(handler: Handler) -> None:
        handler.say(TEXT + b"vllm:generation_tokens_total 99999999999", Content_Length=str(len(TEXT) + 33))

    with serving(Replay({"/metrics": too_short})) as url:
        assert run(["observe", url, *ONCE]) == 0


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_bytes_are_metrics_or_refused(noise: bytes, at: int) -> None:
    """A text with anything in it is read, or refused with one line."""
    from infopt.observing.snapshots import observation_of
    from infopt.probes.metrics_text import parse_metrics

    text = TEXT[:at] + noise + TEXT[at:]
    said = ""
    try:
        metrics = parse_metrics(whole_lines(text), "here")
        observation_of([Snapshot(metrics), Snapshot(metrics)], "here")
    except InfoptError as error:
        said = str(error)
    assert "\n" not in said


def test_numbers_that_are_none(capsys: Capture) -> None:
    """NaN and Inf leave their figure out, with a note, and nothing else."""
    text = re.sub(rb"(?m)^(vllm:(?:kv_cache_usage_perc|generation_tokens_total)\{[^}]*\}) .*$", rb"\1 NaN", LATER)
    text = re.sub(rb"(?m)^(vllm:prompt_tokens_total\{[^}]*\}) .*$", rb"\1 +Inf", text)
    assert text != LATER
    with serving(Replay({"/metrics": [TEXT, text]})) as url:
        status = run(["observe", url, *QUICK, "--json"])
    printed = capsys.readouterr()
    assert "NaN" not in printed.out
    assert "Infinity" not in printed.out
    assert status in (0, 3)


# What changes while it is watched.


def test_counters_that_reset(capsys: Capture) -> None:
    with serving(Replay({"/metrics": [LATER, TEXT, TEXT, LATER]})) as url:
        assert run(["observe", url, *QUICK, "--json"]) == 0
    assert "restarted" in capsys.readouterr().out


def test_a_look_that_fails_is_noted(capsys: Capture) -> None:
    """One that hangs, refuses or is cut off among others."""
    times = itertools.count()

    def now_and_then(handler: Handler) -> None:
        look = next(times)
        if look == 1:
            handler.say(b"busy", 503)
        else:
            handler.say(TEXT if look == 0 else LATER)

    with serving(Replay({"/metrics": now_and_then})) as url:
        assert run(["observe", url, *QUICK, "--json"]) == 0
    assert re.search(r"1 of \d looks failed, the last one", capsys.readouterr().out)


def test_a_server_that_dies(capsys: Capture) -> None:
    """Three looks in a row that fail end the watch; what was seen is printed, and the status says it."""
    times = itertools.count()

    def dying(handler: Handler) -> None:
        look = next(times)
        if look < 2:
            handler.say((TEXT, LATER)[look])
        else:
            handler.say(b"", 500)

    replay = Replay({"/metrics": dying})
    with serving(replay) as url:
        begun = time.monotonic()
        assert run(["observe", url, "--interval", "100ms", "--duration", "1min", "--json"]) == 4
    assert time.monotonic() - begun < 30
    assert replay.asked.count("/metrics") == 5
    printed = capsys.readouterr()
    assert '"kind": "window"' in printed.out
    assert "3 looks in a row failed" in printed.out


def test_another_engine_in_its_place(capsys: Capture) -> None:
    with serving(Replay({"/metrics": [TEXT, text_of("sglang_0.5.23_after")]})) as url:
        status = run(["observe", url, *QUICK])
    printed = capsys.readouterr()
    assert status in (0, 2, 3)
    assert "Traceback" not in printed.err


def test_clocks_that_jump() -> None:
    """Set back between two kept texts: nobody knows how long they are apart. A watch itself has another clock."""
    early, late = "2026-11-30T10:00:00Z", "2026-11-30T10:05:00Z"
    empty = Metrics({}, 0)
    assert seconds_between(Snapshot(empty, 0.0, early), Snapshot(empty, 0.0, late)) == 300
    assert seconds_between(Snapshot(empty, 0.0, late), Snapshot(empty, 0.0, early)) is None
    assert seconds_between(Snapshot(empty, 0.0, None), Snapshot(empty, 0.0, early)) is None
    assert taken_of(saved_text(b"a 1\n", early, "http://h").encode()) == early
    assert taken_of(b"# infopt saved 2026-13-30T10:00:00Z from x\n") is None


# Models.


@pytest.mark.parametrize(
    "listed",
    [
        b"<html>",
        b"[]",
        b'{"data": {}}',
        b'{"data": ["x"]}',
        b'{"data": [{"id": 5, "owned_by": null}]}',
        b'{"data": [{"id": "\\u001b[31mred", "owned_by": "\\n"}]}',
        b'{"data": [' * 5000,
        b'{"data": [{"id": "' + b"x" * 5000 + b'"}]}',
    ],
)
def test_a_list_of_models_that_is_none(listed: bytes, capsys: Capture) -> None:
    """Metrics are read all the same, and nothing of it is printed."""
    with serving(Replay({"/metrics": [LATER], "/v1/models": [listed]})) as url:
        assert run(["observe", url, *ONCE]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out
    assert "xxxx" not in printed.out


def test_labels_that_paint_the_terminal(capsys: Capture) -> None:
    text = LATER.replace(b'model_name="example-8b"', b'model_name="\x1b[31mred\x07\xe2\x80\xae"')
    for form in ("table", "md"):
        with serving(Replay({"/metrics": [text]})) as url:
            assert run(["observe", url, *ONCE, "--format", form]) == 0
        printed = capsys.readouterr().out
        assert "red" in printed
        assert not {"\x1b", "\x07", "\u202e"} & set(printed)


def test_ip_version_6(capsys: Capture) -> None:
    with serving(Replay({"/metrics": [LATER], "/v1/models": models()}), six=True) as url:
        assert run(["observe", url, *ONCE]) == 0
    assert url in capsys.readouterr().out


# Files.


def test_files_that_are_none_of_the_forms(capsys: Capture, tmp_path: Path) -> None:
    deep = b"[" * 100_000
    for data, words in (
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (gzip.compress(TEXT), r"is compressed \(gzip\): unpack it first"),
        (b"PK\x03\x04rest", r"is compressed \(zip\)"),
        (b"\x7fELF\x00\x00", "is not text"),
        (b"<html>log in</html>", "is a web page"),
        (b"INFO 11-30 engine started\nWARNING: nothing\n", "holds no metrics.* a start-up log goes to --log"),
        (b"vllm:generation_tokens_total 5", "holds no metrics"),
        (b"{", "not readable as JSON"),
        (deep, "not readable as JSON|more than"),
        (b'{"hello": 1}', "JSON of no benchmark that is known"),
        (b'{"schema": "infopt/observe/1", "tpot_s": "fast"}', "tpot_s"),
        (b'{"schema": "infopt/observe/1", "draft_share": 1.5}', "draft_share"),
        (b"go_goroutines 5\n", "no metrics of an engine that is known"),
    ):
        path = tmp_path / "source"
        path.write_bytes(data)
        refused(capsys, words, str(path))


def test_lines_that_are_left_out_are_said(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"what is this\n" + LATER + b"vllm:generation_tokens_total 12")
    assert run(["observe", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 line of the text could not be read" in printed
    assert "the last line of the text has no end and was left out" in printed
    with serving(Replay({"/metrics": [b"what is this\n" + LATER]})) as url:
        assert run(["observe", url, *ONCE]) == 0
    assert "1 line of the text could not be read" in " ".join(capsys.readouterr().out.split())


def test_files_that_are_no_files(capsys: Capture, tmp_path: Path) -> None:
    refused(capsys, "cannot be opened", str(tmp_path / "none.txt"))
    refused(capsys, "is a (folder|directory), not a regular file", str(tmp_path))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    refused(capsys, "not a regular file", str(fifo))
    big = tmp_path / "big.txt"
    with big.open("wb") as file:
        file.truncate(65_000_000)
    refused(capsys, "more than the 64000000", str(big))
    text = tmp_path / "text.txt"
    text.write_bytes(LATER)
    refused(capsys, "cannot be opened", str(text), "--since", str(tmp_path / "none.txt"))
    result = Path(__file__).resolve().parent / "data" / "benchmarks" / "vllm_serve.json"
    refused(capsys, "is a result of its own", str(result), "--since", str(text))


def test_a_file_of_several_results_is_no_one_source() -> None:
    path = Path(__file__).resolve().parent / "data" / "benchmarks" / "vllm_serve_append.jsonl"
    with pytest.raises(InfoptError, match="--row 1"):
        read_source(path)
