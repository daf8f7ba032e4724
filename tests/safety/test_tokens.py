"""Tokens and keys go to the host they are for, and into no output: servers here keep what reached them."""

import contextlib
import json
import os
import shutil
import ssl
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import reader
from metric_servers import Handler, Replay, serving, text_of
from sealed_runs import MARK

from infopt import plan
from infopt.cli import run
from infopt.errors import InfoptError, without_credentials
from infopt.profiles.hub import Hub, fetch_model
from infopt.profiles.model_names import HubName

TOKEN = f"hf_{MARK}"
CONFIG = "/org/name/resolve/main/config.json"
Capture = pytest.CaptureFixture[str]
Ask = Callable[[str], object]


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("INFOPT_API_KEY", TOKEN)


def look_up(url: str) -> None:
    """As --online does; what it answers is no model."""
    with contextlib.suppress(InfoptError):
        Hub({"HF_ENDPOINT": url, "HF_TOKEN": TOKEN}).json(CONFIG.lstrip("/"), 10_000_000)


def observe(url: str) -> None:
    assert run(["observe", url, "--duration", "0s"]) in (0, 2)


ASKED: dict[str, tuple[Ask, str]] = {"--online": (look_up, CONFIG), "observe": (observe, "/metrics")}


@pytest.fixture(params=ASKED)
def asked(request: pytest.FixtureRequest) -> tuple[Ask, str]:
    """What asks, and the path it asks for."""
    return ASKED[request.param]


@contextlib.contextmanager
def secure(replay: Replay, folder: Path) -> Iterator[str]:
    """As `serving`, under TLS with a certificate that is trusted here."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    if not certificate.exists():
        made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
        names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
        subprocess.run([*made.split(), names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("One", (Handler,), {"replay": replay}))
    server.daemon_threads, server.block_on_close = True, False
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def away(path: str, to: str) -> Replay:
    return Replay({path: lambda handler: handler.say(b"", 302, Location=to)})


# The host.


@pytest.mark.parametrize("spelled", ["127.0.0.1", "localhost", "me@127.0.0.1", "127.1"])
def test_another_host_gets_no_token(spelled: str, asked: tuple[Ask, str]) -> None:
    """Another port is another host, and so is another spelling of the same one."""
    ask, path = asked
    other = Replay({"/there": [b"{}"]})
    with serving(other) as there:
        first = away(path, f"{there.replace('127.0.0.1', spelled)}/there")
        with serving(first) as here:
            ask(here)
    assert first.keys[0] == f"Bearer {TOKEN}"
    assert set(other.keys) <= {None}
    if ask is observe:
        assert other.asked == []


def test_the_same_host_gets_it_again(asked: tuple[Ask, str]) -> None:
    ask, path = asked
    replay = Replay({path: lambda handler: handler.say(b"", 302, Location="/there"), "/there": [b"{}"]})
    with serving(replay) as here:
        ask(here)
    assert replay.keys[:2] == [f"Bearer {TOKEN}"] * 2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
@pytest.mark.parametrize("down", [True, False], ids=["https to http", "http to https"])
def test_another_scheme_gets_no_token(
    down: bool, asked: tuple[Ask, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down to http nothing is asked at all, whatever the host."""
    ask, path = asked
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    other = Replay({"/there": [b"{}"]})
    with serving(other) if down else secure(other, tmp_path) as there:
        first = away(path, f"{there}/there")
        with secure(first, tmp_path) if down else serving(first) as here:
            ask(here)
    assert first.keys[0] == f"Bearer {TOKEN}"
    assert set(other.keys) <= {None}
    if down or ask is observe:
        assert other.asked == []


def test_what_a_proxy_wants_to_know_goes_to_no_host(asked: tuple[Ask, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect from behind a proxy to a host that needs none: its password stays with the proxy."""
    ask, path = asked
    seen: list[tuple[str | None, str | None]] = []

    def there(handler: Handler) -> None:
        seen.append((handler.headers["Proxy-Authorization"], handler.headers["Authorization"]))
        handler.say(b"{}")

    with serving(Replay({"/there": there})) as direct:
        proxied = Replay(
            {f"http://host.invalid{path}": lambda handler: handler.say(b"", 302, Location=f"{direct}/there")}
        )
        with serving(proxied) as proxy:
            monkeypatch.setenv("http_proxy", proxy.replace("://", f"://me:{MARK}@"))
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            ask("http://host.invalid")
    assert proxied.asked
    assert seen == ([(None, None)] if ask is look_up else [])


def test_passwords_of_netrc_are_not_used(
    asked: tuple[Ask, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, _ = asked
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login me password {MARK}\n", encoding="utf-8")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.delenv("INFOPT_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    replay = Replay({})
    with serving(replay) as here:
        if ask is look_up:
            monkeypatch.setenv("HF_ENDPOINT", here)
            with pytest.raises(InfoptError):
                fetch_model(HubName("org/name"))
        else:
            ask(here)
    assert set(replay.keys) == {None}


# Outputs.


def shown(capsys: Capture, *arguments: str) -> str:
    run(arguments)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.out + printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("observe", "http://me:{mark}@127.0.0.1:9"),
        ("observe", "ftp://me:{mark}@127.0.0.1:9"),
        ("observe", "http://127.0.0.1:9/metrics?api_key={mark}"),
        ("observe", "https://{mark}@127.0.0.1:9/"),
        ("probe", "draft", "--endpoint", "http://me:{mark}@127.0.0.1:9"),
        ("probe", "draft", "--endpoint", "http://127.0.0.1:9/v1?key={mark}"),
        ("plan", "--hw", "h100", "--ctx", "8k", "--model", "https://me:{mark}@huggingface.co/org/name"),
        ("plan", "--hw", "h100", "--ctx", "8k", "--model", "https://huggingface.co/org/name?token={mark}"),
        ("plan", "--hw", "h100", "--ctx", "8k", "--model", "https://me:{mark}@elsewhere.example/org/name", "--online"),
        ("models", "show", "https://me:{mark}@huggingface.co/org/name/tree/main"),
        ("models", "import", "https://me:{mark}@huggingface.co/org/name"),
        ("gate", "https://me:{mark}@github.com/org/deploy.yaml"),
        ("sweep", "--cases", "https://me:{mark}@host.example/cases.csv"),
        ("plan", "--model", "8b", "--hw", "https://me:{mark}@host.example", "--ctx", "8k"),
        ("plan", "--model", "8b", "--hw", "h100", "--calibration", "https://me:{mark}@host.example/c.yaml"),
        ("https://me:{mark}@host.example",),
        ("plan", "https://me:{mark}@host.example"),
        (
            *("simulate", "--model", "8b", "--hw", "h100", "--isl", "9", "--osl", "9", "--rate", "1/s"),
            *("--vary", "chunk=512,2k", "--scheduler", "http://me:{mark}@127.0.0.1:9"),
        ),
    ],
    ids=lambda given: " ".join(given),
)  # fmt: skip
def test_credentials_in_an_address_are_not_repeated(arguments: tuple[str, ...], capsys: Capture) -> None:
    said = shown(capsys, *(one.format(mark=MARK) for one in arguments))
    assert said
    assert MARK not in said


def test_credentials_of_the_endpoint_are_not_repeated(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"https://me:{MARK}@hub.example")
    said = shown(capsys, "plan", "--model", "org/name", "--hw", "h100", "--ctx", "8k", "--online")
    assert "HF_ENDPOINT" in said
    assert MARK not in said


@pytest.mark.parametrize("status", [200, 401, 403, 404, 429, 500])
def test_a_hub_that_says_the_token_back_is_not_believed(
    status: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a name of a model, an architecture, a commit or a reason."""

    def echo(handler: Handler) -> None:
        token = (handler.headers["Authorization"] or "").removeprefix("Bearer ")
        config = json.loads(reader.CONFIG) | {"model_type": token, "architectures": [token], token: token}
        handler.say(json.dumps(config).encode(), status, X_Repo_Commit=token)

    replay = Replay({CONFIG: echo, "/api/models/org/name/revision/main": echo})
    with serving(replay) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        for form in ("table", "json", "md"):
            said = shown(
                capsys, "plan", "--model", "org/name", "--hw", "h100", "--ctx", "8k", "--online", "--format", form
            )
            assert said
            assert MARK not in said
    assert replay.keys[0] == f"Bearer {TOKEN}"


def test_a_commit_of_the_hub_is_one_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    config: Callable[[Handler], None] = lambda handler: handler.say(  # noqa: E731
        reader.CONFIG.encode(), X_Repo_Commit=f"{MARK}<script>"
    )
    with serving(Replay({CONFIG: config})) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        assert fetch_model(HubName("org/name")).source == f"{url}/org/name/tree/main"


def test_an_exception_of_the_package_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do those it comes from: somebody's log has them all."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for given in (
        {"model": "org/name", "online": True},
        {"model": f"https://me:{MARK}@huggingface.co/org/name"},
        {"model": f"https://127.0.0.1:9/org/name?token={MARK}", "online": True},
    ):
        with pytest.raises(InfoptError) as raised:
            plan(hw="h100", ctx="8k", **given)
        assert MARK not in "".join(traceback.format_exception(raised.value, chain=True))


def test_what_observe_keeps_holds_no_key(tmp_path: Path, capsys: Capture) -> None:
    """The saved text, the record, the page of a server that says the key back."""
    said = text_of("vllm_0.32_before").replace(b"example-8b", TOKEN.encode())
    files = [str(tmp_path / name) for name in ("text.txt", "record.json")]
    with serving(Replay({"/metrics": [said]})) as url:
        shown(capsys, "observe", url, "--duration", "0s", "--save", files[0], "--out", files[1])
    kept = [Path(file).read_text(encoding="utf-8") for file in files if os.path.exists(file)]
    assert len(kept) == 2
    assert MARK not in "".join(kept)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://me:pw@host/x", "http://***@host/x"),
        ("https://pw@host: no", "https://***@host: no"),
        ("'ftp://me:pw@host'", "'ftp://***@host'"),
        ("http://host/a?b=c&d=e: no answer", "http://host/a?***: no answer"),
        ("http://me:pw@host/?q=1 x", "http://***@host/?*** x"),
        ("http://a:b@c and http://d:e@f", "http://***@c and http://***@f"),
        ("http://hf.co/org/name@main: is it there? yes", "http://hf.co/org/name@main: is it there? yes"),
        ("C:/me@home/file and https:/me:pw@host/file", "C:/me@home/file and https:/***@host/file"),
        ("a@b.example, no address", "a@b.example, no address"),
    ],
)  # fmt: skip
def test_what_an_error_repeats_of_an_address(text: str, expected: str) -> None:
    assert without_credentials(text) == expected == str(InfoptError(text))
