"""The hub client against a local server that behaves well, badly, and with intent."""

import http.server
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infopt.errors import InfoptError
from infopt.profiles import hub
from infopt.profiles.hub import fetch_model
from infopt.profiles.model_names import HubName
from infopt.profiles.resolve import resolve_model

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
    "max_position_embeddings": 4096, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
Handler = http.server.BaseHTTPRequestHandler
Reply = bytes | Callable[[Handler], None]


class Server:
    """A web server of fixed files, which remembers what it was asked and with which token."""

    def __init__(self, files: dict[str, Reply]) -> None:
        self.files = files
        self.asked: list[tuple[str, str | None]] = []
        server = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:  # noqa: N802
                server.asked.append((self.path, self.headers.get("Authorization")))
                reply = server.files.get(self.path)
                if callable(reply):
                    reply(self)
                elif reply is None:
                    answer(self, 404)
                else:
                    ranged(self, reply)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


def answer(to: Handler, status: int, body: bytes = b"", **headers: str) -> None:
    to.send_response(status)
    for name, value in headers.items():
        to.send_header(name.replace("_", "-"), value)
    to.send_header("Content-Length", str(len(body)))
    to.end_headers()
    to.wfile.write(body)


def ranged(to: Handler, body: bytes) -> None:
    """A file served as the hub does, by ranges where asked."""
    asked = to.headers.get("Range")
    if asked is None:
        return answer(to, 200, body, X_Repo_Commit="c0ffee")
    first, last = (int(part) for part in asked.removeprefix("bytes=").split("-"))
    piece = body[first : last + 1]
    where = f"bytes {first}-{first + len(piece) - 1}/{len(body)}"
    return answer(to, 206, piece, Content_Range=where)


def redirect(url: str) -> Callable[[Handler], None]:
    return lambda to: answer(to, 302, Location=url)


def status(code: int) -> Callable[[Handler], None]:
    return lambda to: answer(to, code, b"{}")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[dict[str, Reply]], Server]]:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "HF_TOKEN_PATH", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    started: list[Server] = []

    def start(files: dict[str, Reply]) -> Server:
        server = Server(files)
        started.append(server)
        monkeypatch.setenv("HF_ENDPOINT", started[0].url)
        return server

    yield start
    for server in started:
        server.http.shutdown()
        server.http.server_close()


def safetensors(entries: dict[str, tuple[int, ...]]) -> bytes:
    table: dict[str, Any] = {}
    end = 0
    for name, shape in entries.items():
        size = 2
        for side in shape:
            size *= side
        table[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(table).encode()
    return len(raw).to_bytes(8, "little") + raw + b"\0" * end


LAYER = "model.layers.0."
TENSORS: dict[str, tuple[int, ...]] = {
    "model.embed_tokens.weight": (256, 64), "model.norm.weight": (64,), f"{LAYER}input_layernorm.weight": (64,),
    f"{LAYER}post_attention_layernorm.weight": (64,), f"{LAYER}self_attn.q_proj.weight": (64, 64),
    f"{LAYER}self_attn.k_proj.weight": (32, 64), f"{LAYER}self_attn.v_proj.weight": (32, 64),
    f"{LAYER}self_attn.o_proj.weight": (64, 64), f"{LAYER}mlp.gate_proj.weight": (96, 64),
    f"{LAYER}mlp.up_proj.weight": (96, 64), f"{LAYER}mlp.down_proj.weight": (64, 96),
}  # fmt: skip
ROOT = "/org/name/resolve/main"
CONFIG = {f"{ROOT}/config.json": json.dumps(LLAMA).encode()}
REPO = HubName("org/name")


def message(name: HubName = REPO) -> str:
    with pytest.raises(InfoptError) as caught:
        fetch_model(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_config_and_one_file(serve: Callable[[dict[str, Reply]], Server]) -> None:
    server = serve(CONFIG | {f"{ROOT}/model.safetensors": safetensors(TENSORS)})
    got = resolve_model("org/name", online=True)
    assert dict(got.stored_bytes) == {part: 2 * params for part, params in got.params_by_part.items()}
    assert (got.id, got.source, got.source_kind) == ("org/name", f"{server.url}/org/name/tree/c0ffee", "hub")
    assert got.notes == ()


def test_shards_by_the_index_at_a_revision(serve: Callable[[dict[str, Reply]], Server]) -> None:
    names = list(TENSORS)
    shards = {"model-00001-of-00002.safetensors": names[:5], "model-00002-of-00002.safetensors": names[5:]}
    index = {"weight_map": {name: shard for shard, held in shards.items() for name in held}}
    root = "/org/name/resolve/v2"
    files: dict[str, Reply] = {
        f"{root}/config.json": json.dumps(LLAMA).encode(),
        f"{root}/model.safetensors.index.json": json.dumps(index).encode(),
    }
    files |= {f"{root}/{shard}": safetensors({n: TENSORS[n] for n in held}) for shard, held in shards.items()}
    serve(files)
    got = resolve_model("org/name@v2", online=True)
    assert got.id == "org/name@v2"
    assert sum(got.stored_bytes.values()) == 2 * got.params_total


def test_only_headers_are_fetched(serve: Callable[[dict[str, Reply]], Server]) -> None:
    """A file of 64 MB costs one range."""
    big = TENSORS | {"lm_head.weight": (1 << 19, 64)}
    sent: list[str] = []
    body = safetensors(big)

    def watched(to: Handler) -> None:
        sent.append(to.headers["Range"])
        ranged(to, body)

    serve(CONFIG | {f"{ROOT}/model.safetensors": watched})
    assert fetch_model(REPO).stored_bytes["head"] == 1 << 26
    assert sent == ["bytes=0-7", "bytes=0-131071"]


def test_header_names_may_be_lower_case(serve: Callable[[dict[str, Reply]], Server]) -> None:
    body = safetensors(TENSORS)
    where = f"bytes 0-{len(body) - 1}/{len(body)}"
    config = json.dumps(LLAMA).encode()
    serve({
        f"{ROOT}/config.json": lambda to: answer(to, 200, config, **{"x-repo-commit": "feed"}),
        f"{ROOT}/model.safetensors": lambda to: answer(
            to, 206, body[:8] if to.headers["Range"] == "bytes=0-7" else body, **{"content-range": where}),
    })  # fmt: skip
    got = fetch_model(REPO)
    assert got.source.endswith("/tree/feed")
    assert sum(got.stored_bytes.values()) == 2 * got.params_total


def test_no_weights_is_said(serve: Callable[[dict[str, Reply]], Server]) -> None:
    serve(dict(CONFIG))
    assert "no safetensors files" in fetch_model(REPO).notes[-1]


@pytest.mark.parametrize("siblings", [5, "x", [1, None, {"rfilename": 7}, {}], {"a": 1}, None])
def test_a_listing_of_nonsense(serve: Callable[[dict[str, Reply]], Server], siblings: Any) -> None:
    serve({"/api/models/org/name/revision/main": json.dumps({"siblings": siblings}).encode()})
    assert "has neither a config.json nor a GGUF file" in message()


def test_a_gguf_beside_a_config(serve: Callable[[dict[str, Reply]], Server]) -> None:
    listing = {"siblings": [{"rfilename": "m-Q2_K.gguf"}]}
    serve(CONFIG | {"/api/models/org/name/revision/main": json.dumps(listing).encode(), f"{ROOT}/m-Q2_K.gguf": gguf()})
    assert fetch_model(REPO).source_kind == "gguf"


def test_a_gguf_by_its_quantization(serve: Callable[[dict[str, Reply]], Server]) -> None:
    listing = {"siblings": [{"rfilename": "m-Q4_K_M.gguf"}, {"rfilename": "m-Q8_0.gguf"}, {"rfilename": "README.md"}]}
    serve(
        {
            "/api/models/org/name/revision/main": json.dumps(listing).encode(),
            f"{ROOT}/m-Q8_0.gguf": b"GGML" + b"\0" * 64,
        }
    )
    assert "m-Q8_0.gguf: is not a GGUF file" in message(HubName("org/name", quant="Q8_0"))
    assert "m-Q4_K_M.gguf: there is no such file" in message(HubName("org/name"))
    assert "no GGUF file of Q2_K; there: m-Q4_K_M.gguf, m-Q8_0.gguf" in message(HubName("org/name", quant="Q2_K"))


def gguf() -> bytes:
    """A one-layer model, written by hand."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    numbers = {"block_count": 1, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}
    shapes = {"token_embd": (64, 256), "output_norm": (64,), "blk.0.attn_norm": (64,), "blk.0.attn_q": (64, 64),
              "blk.0.attn_k": (64, 32), "blk.0.attn_v": (64, 32), "blk.0.attn_output": (64, 64),
              "blk.0.ffn_norm": (64,), "blk.0.ffn_up": (64, 96), "blk.0.ffn_down": (96, 64)}  # fmt: skip
    body = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for key, value in numbers.items():
        body += text(f"llama.{key}") + struct.pack("<II", 4, value)
    offset = 0
    for name, shape in shapes.items():
        body += text(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 1, offset)
        offset += 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), 1 + len(numbers)) + body
    return head + b"\0" * (-len(head) % 32) + b"\0" * offset


@pytest.mark.parametrize("name", ["hf:org/name:Q4_K_M", "org/name", "FILE"])
def test_a_gguf_header_by_ranges(serve: Callable[[dict[str, Reply]], Server], name: str) -> None:
    listing = {"siblings": [{"rfilename": "sub/m-Q4_K_M.gguf"}, {"rfilename": "sub/mmproj-f16.gguf"}]}
    files: dict[str, Reply] = {"/api/models/org/name/revision/main": json.dumps(listing).encode()}
    server = serve(files | {f"{ROOT}/sub/m-Q4_K_M.gguf": gguf()})
    address = f"{server.url}/org/name/blob/main/sub/m-Q4_K_M.gguf"
    got = resolve_model(address if name == "FILE" else name, online=True)
    assert (got.architecture, got.runs[0].mixer.kv_heads, got.source) == ("llama", 2, address)
    assert sum(got.stored_bytes.values()) == 2 * got.params_total


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [401, 403])
def test_gated_models(serve: Callable[[dict[str, Reply]], Server], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    serve({f"{ROOT}/config.json": status(code)})
    assert "gated, private or does not exist" in message()
    assert "set HF_TOKEN" in message()
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    assert "HF_TOKEN is not allowed to read it" in message()


def test_a_model_that_is_not_there(serve: Callable[[dict[str, Reply]], Server]) -> None:
    serve({})
    assert "there is no such model, or no revision main" in message()


@pytest.mark.parametrize(("code", "words"), [(429, "too many requests"), (500, "answered 500"), (418, "answered 418")])
def test_other_statuses(serve: Callable[[dict[str, Reply]], Server], code: int, words: str) -> None:
    serve({f"{ROOT}/config.json": status(code)})
    assert words in message()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<!doctype html><html>log in</html>", "a web page, not JSON"),
        (b"{", "not readable as JSON"),
        (b"[1]", "expected an object"),
        (b'{"a":' * 50_000, "nested too deeply"),
        (b"\xff\xfe", "not readable as JSON"),
        (b"{}", "model_type is missing"),
    ],
)
def test_answers_that_are_no_config(serve: Callable[[dict[str, Reply]], Server], body: bytes, words: str) -> None:
    serve({f"{ROOT}/config.json": body})
    assert words in message()


def test_a_server_that_hangs(serve: Callable[[dict[str, Reply]], Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "TIMEOUT_S", 0.2)
    serve({f"{ROOT}/config.json": lambda to: time.sleep(1)})
    begin = time.perf_counter()
    assert "nothing for 0.2 s" in message()
    assert time.perf_counter() - begin < 1


def test_a_server_that_drips(serve: Callable[[dict[str, Reply]], Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "DEADLINE_S", 0.2)

    def drip(to: Handler) -> None:
        to.send_response(200)
        to.send_header("Content-Length", "1000")
        to.end_headers()
        try:
            for _ in range(20):
                to.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:
            return

    serve({f"{ROOT}/config.json": drip})
    assert "takes longer than 0.2 s" in message()


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_too_large(
    serve: Callable[[dict[str, Reply]], Server], monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    monkeypatch.setattr(hub, "MAX_CONFIG_BYTES", 1000)

    def endless(to: Handler) -> None:
        to.send_response(200)
        to.send_header(*(("Content-Length", str(1 << 40)) if announced else ("Connection", "close")))
        to.end_headers()
        try:
            while True:
                to.wfile.write(b" " * 65536)
        except OSError:
            return

    serve({f"{ROOT}/config.json": endless})
    assert "larger than the 1000 bytes" in message()


def test_a_server_without_ranges(serve: Callable[[dict[str, Reply]], Server]) -> None:
    body = safetensors({"a": (2, 2)})
    serve(CONFIG | {f"{ROOT}/model.safetensors": lambda to: answer(to, 200, body)})
    assert "larger than" in message() or "byte ranges" in message()


def test_a_file_cut_short(serve: Callable[[dict[str, Reply]], Server]) -> None:
    serve(CONFIG | {f"{ROOT}/model.safetensors": safetensors(TENSORS)[:-10]})
    assert "cut short" in message()


def test_a_broken_connection(serve: Callable[[dict[str, Reply]], Server]) -> None:
    def broken(to: Handler) -> None:
        to.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        to.close_connection = True

    serve({f"{ROOT}/config.json": broken})
    assert "ends after 1 of 100 bytes" in message()
    serve({})


def test_nothing_listens(monkeypatch: pytest.MonkeyPatch, serve: Callable[[dict[str, Reply]], Server]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
        assert "no answer" in message()


# --- the token -------------------------------------------------------------------------------------------


def test_the_token_goes_to_the_endpoint(serve: Callable[[dict[str, Reply]], Server], tmp_path: Path) -> None:
    server = serve(dict(CONFIG))
    (tmp_path / "token").write_text("hf_secret\n")
    fetch_model(REPO)
    assert {token for _, token in server.asked} == {"Bearer hf_secret"}


def test_the_environment_comes_before_the_file(
    serve: Callable[[dict[str, Reply]], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(dict(CONFIG))
    (tmp_path / "token").write_text("hf_file")
    monkeypatch.setenv("HF_TOKEN", "hf_environment")
    fetch_model(REPO)
    assert server.asked[0][1] == "Bearer hf_environment"


def test_the_token_never_follows_to_another_host(
    serve: Callable[[dict[str, Reply]], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor to another port or spelling of the same machine; a redirect on the same host keeps it."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    first = serve({})
    other = serve({"/config": json.dumps(LLAMA).encode(), "/weights": safetensors(TENSORS)})
    first.files |= {
        f"{ROOT}/config.json": redirect(f"{first.url}/moved/config.json"),
        "/moved/config.json": redirect(f"{other.url}/config"),
        f"{ROOT}/model.safetensors": redirect(f"{other.url}/weights"),
    }
    assert sum(fetch_model(REPO).stored_bytes.values()) > 0
    assert {token for _, token in first.asked} == {"Bearer hf_secret"}
    assert [path for path, _ in other.asked] == ["/config", "/weights", "/weights"]
    assert {token for _, token in other.asked} == {None}


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirects_out_of_the_web_are_refused(serve: Callable[[dict[str, Reply]], Server], target: str) -> None:
    serve({f"{ROOT}/config.json": redirect(target)})
    message()


def test_redirects_in_a_circle_end(serve: Callable[[dict[str, Reply]], Server]) -> None:
    server = serve({})
    server.files[f"{ROOT}/config.json"] = redirect(f"{ROOT}/config.json")
    assert "a redirect that is not followed" in message()
    assert len(server.asked) == 6


def test_a_token_that_would_break_a_header(
    serve: Callable[[dict[str, Reply]], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(dict(CONFIG))
    monkeypatch.setenv("HF_TOKEN", "hf_a\r\nX-Evil: 1")
    assert "characters no token has" in message()
    assert server.asked == []


# --- the environment ------------------------------------------------------------------------------------


def test_offline_is_honoured(serve: Callable[[dict[str, Reply]], Server], monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(dict(CONFIG))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set" in message()
    assert server.asked == []


@pytest.mark.parametrize("endpoint", ["not an address", "file:///etc", "https://", "https://[::1", "javascript:1"])
def test_an_endpoint_that_is_none(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert "HF_ENDPOINT" in message()
