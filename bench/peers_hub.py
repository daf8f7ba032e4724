"""A stand-in for the hub on loopback: what a peer asks of huggingface.co is answered by files made of our own geometry.

Peers are run as they are. HTTPS_PROXY leads them here, SSL_CERT_FILE makes them believe the certificate that openssl
signs for one run; any other host is refused, so that no peer reaches a network. Weights do not exist: only the headers
of the shards do, with names, types and shapes, and files are said to be as long as their tensors.

    with Hub(folder, config, "meta-llama/Llama-3.1-70B") as hub:
        subprocess.run(command, env={**os.environ, **hub.environment})
"""

import json
import re
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

HOST = "huggingface.co"
SHARDS = 30  # as many as the real repository has
BF16_BYTES = 2
SHA = "0" * 40
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def llama_tensors(config: dict[str, Any]) -> dict[str, list[int]]:
    """Names and shapes of a Llama of this config; anything else is refused."""
    if config["architectures"] != ["LlamaForCausalLM"] or config["tie_word_embeddings"]:
        raise ValueError(f"{config['architectures']}: only Llamas with a head of their own are made here")
    width, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv_width = width // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = {
        "input_layernorm": [width],
        "mlp.down_proj": [width, inner],
        "mlp.gate_proj": [inner, width],
        "mlp.up_proj": [inner, width],
        "post_attention_layernorm": [width],
        "self_attn.k_proj": [kv_width, width],
        "self_attn.o_proj": [width, width],
        "self_attn.q_proj": [width, width],
        "self_attn.v_proj": [kv_width, width],
    }
    tensors = {"model.embed_tokens.weight": [vocab, width]}
    for number in range(config["num_hidden_layers"]):
        tensors |= {f"model.layers.{number}.{name}.weight": shape for name, shape in layer.items()}
    return tensors | {"model.norm.weight": [width], "lm_head.weight": [vocab, width]}


def elements(shape: list[int]) -> int:
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def shard(tensors: dict[str, list[int]]) -> tuple[bytes, int]:
    """The header of a safetensors file that holds these in 16 bits, and the length of the file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        start, end = end, end + elements(shape) * BF16_BYTES
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text, 8 + len(text) + end


class Repository:
    """The files of one model: their first bytes (all of them where the file is small) and their lengths."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        tensors = llama_tensors(config)
        self.name, self.params = name, sum(map(elements, tensors.values()))
        self.files: dict[str, tuple[bytes, int]] = {}
        names, placed = list(tensors), {}
        for number in range(SHARDS):
            file = f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
            held = names[len(names) * number // SHARDS : len(names) * (number + 1) // SHARDS]
            placed |= dict.fromkeys(held, file)
            self.files[file] = shard({tensor: tensors[tensor] for tensor in held})
        index = {"metadata": {"total_size": self.params * BF16_BYTES}, "weight_map": placed}
        for file, content in (("config.json", config), ("model.safetensors.index.json", index)):
            text = json.dumps(content).encode()
            self.files[file] = text, len(text)

    def tree(self) -> list[dict[str, Any]]:
        """What /api/models/NAME/tree/main lists."""
        return [{"type": "file", "path": file, "size": length} for file, (_, length) in self.files.items()]

    def summary(self) -> dict[str, Any]:
        """What /api/models/NAME says."""
        return {
            "id": self.name,
            "modelId": self.name,
            "sha": SHA,
            "private": False,
            "gated": False,
            "tags": ["transformers", "safetensors", "text-generation"],
            "pipeline_tag": "text-generation",
            "library_name": "transformers",
            "siblings": [{"rfilename": file, "size": length} for file, (_, length) in self.files.items()],
            "safetensors": {"parameters": {"BF16": self.params}, "total": self.params},
        }


class Answers(BaseHTTPRequestHandler):
    """CONNECT to the hub turns the connection into TLS; what comes through it is answered from the repository."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_CONNECT(self) -> None:
        if self.path != f"{HOST}:443":
            self.send_error(403, "no network here")
            return
        self.send_response(200)
        self.end_headers()
        self.connection = self.request = self.server.context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def finish(self) -> None:
        """The TLS socket as well: the server closes only the one that it accepted."""
        super().finish()
        self.connection.close()

    def do_GET(self) -> None:
        repository, path = self.server.repository, self.path.split("?")[0]
        if path == f"/api/models/{repository.name}/tree/main":
            self.say(json.dumps(repository.tree()).encode())
        elif path in (f"/api/models/{repository.name}", f"/api/models/{repository.name}/revision/main"):
            self.say(json.dumps(repository.summary()).encode())
        elif path.startswith(f"/{repository.name}/resolve/") and path.rsplit("/", 1)[1] in repository.files:
            self.say(*repository.files[path.rsplit("/", 1)[1]])
        else:
            self.say(b'{"error": "not found"}', status=404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def say(self, text: bytes, length: int | None = None, status: int = 200) -> None:
        """The whole file or the range that was asked for; a range beyond what exists of a shard is cut there."""
        length = len(text) if length is None else length
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if asked:
            first, last = int(asked[1]), min(int(asked[2] or length - 1), length - 1)
            text, status = text[first : last + 1].ljust(last + 1 - first, b"\0"), 206
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length if self.command == "HEAD" and not asked else len(text)))
        self.send_header("ETag", f'"{SHA}"')
        self.send_header("X-Repo-Commit", SHA)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{length}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet: peers say themselves what they could not get."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    repository: Repository
    context: ssl.SSLContext

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer may leave in the middle of a connection."""


class Hub:
    """The server while it is needed; `environment` leads a peer to it."""

    def __init__(self, folder: Path, config: dict[str, Any], name: str) -> None:
        certificate, key = folder / "hub.pem", folder / "hub.key"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
                *("-days", "2", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"),
                *("-keyout", str(key), "-out", str(certificate)),
            ],
            check=True,
            capture_output=True,
        )
        self.server = Server(("127.0.0.1", 0), Answers)
        self.server.repository = Repository(name, config)
        self.server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.context.load_cert_chain(certificate, key)
        proxy = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.environment = {
            **dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), proxy),
            **dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), str(certificate)),
        }

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
