"""Files that say what a model is: configs, headers, indexes, tokenizers, the stores of other programs."""

import contextlib
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from fuzz.target import Target, file_of, scratch, text_of

from infopt import api
from infopt.errors import InfoptError

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
    "max_position_embeddings": 4096, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
MOST_DATA_BYTES = 2**40


def targets() -> Iterator[Target]:
    yield Target("model-config", "json", config)
    yield Target("model-safetensors", "headed", safetensors)
    yield Target("model-index", "json", index)
    yield Target("model-gguf", "binary", gguf)
    yield Target("model-name", "lines", name)
    yield Target("model-ollama", "json", ollama)
    yield Target("model-hub", "json", hub)
    yield Target("draft-config", "json", draft_config)
    yield Target("draft-tokenizer", "json", draft_tokenizer)
    yield Target("draft-prompts", "json", draft_prompts)


def planned(path: Path) -> None:
    """The model as the commands use it: a plan with its page, and the record that `models import` writes."""
    from infopt.studies.model_import import import_model

    import_model(str(path))
    api.plan(model=str(path), hw="h100", ctx="4k", explain=True).text()


def config(data: bytes) -> None:
    planned(file_of("config/config.json", data).parent)


def safetensors(data: bytes) -> None:
    """A header, with as much absent data behind it as it says."""
    file_of("weights/config.json", json.dumps(CONFIG).encode())
    path = file_of("weights/model.safetensors", data)
    os.truncate(path, max(len(data), min(MOST_DATA_BYTES, len(data) + _ends(data[8:]))))
    planned(path.parent)
    planned(path)


def _ends(header: bytes) -> int:
    """Where the last tensor ends, as far as the header is readable at all."""
    try:
        entries = json.loads(header).values()
        return max(int(entry["data_offsets"][1]) for entry in entries if "data_offsets" in entry)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError):
        return 0


def index(data: bytes) -> None:
    """An index beside the one shard that its seed names."""
    shard = json.dumps({"model.embed_tokens.weight": {"dtype": "BF16", "shape": [256, 64], "data_offsets": [0, 32768]}})
    path = file_of("indexed/a.safetensors", struct.pack("<Q", len(shard)) + shard.encode())
    os.truncate(path, 8 + len(shard) + 32768)
    file_of("indexed/config.json", json.dumps(CONFIG).encode())
    planned(file_of("indexed/model.safetensors.index.json", data).parent)


def gguf(data: bytes) -> None:
    """A header behind which 1 TB of data is absent."""
    from infopt.probes.drafting.gguf_strings import read_strings

    path = file_of("model.gguf", data)
    os.truncate(path, MOST_DATA_BYTES)
    read_strings(str(path), {"tokenizer.ggml.tokens", "tokenizer.ggml.merges", "general.architecture"})
    planned(path)


def name(data: bytes) -> str:
    from infopt.profiles.resolve import resolve_model

    return resolve_model(text_of(data)).id


def ollama(data: bytes) -> None:
    """A manifest in Ollama's store."""
    os.environ["OLLAMA_MODELS"] = str(scratch() / "ollama")
    file_of("ollama/manifests/registry.ollama.ai/library/fuzzed/latest", data)
    api.plan(model="ollama:fuzzed:latest", hw="h100")


def hub(data: bytes) -> None:
    """What the hub answers: the config, and with each answer a change of what it lists."""
    from infopt.profiles.hub import Answer, Hub, fetch_model
    from infopt.profiles.model_names import HubName, parse_model_name

    class Fake(Hub):
        def get(self, path: str, limit: int, byte_range: tuple[int, int] | None = None) -> Answer:
            end = None if byte_range is None else byte_range[1] + 1
            span = {} if byte_range is None else {"content-range": f"bytes {byte_range[0]}-{end}/{len(data)}"}
            return Answer(200 if byte_range is None else 206, data[byte_range[0] if byte_range else 0 : end], span)

    found = parse_model_name("acme/fuzzed")
    assert isinstance(found, HubName)
    with mock.patch("infopt.profiles.hub.Hub", Fake):
        fetch_model(found)


def draft_config(data: bytes) -> None:
    from infopt.probes.drafting.folder import folder_shape

    folder_shape(str(file_of("draft/config.json", data).parent), 4096)


def draft_tokenizer(data: bytes) -> None:
    """The settings beside a tokenizer, and the template among them, used on a prompt."""
    from infopt.probes.drafting.text import folder_text

    tokenizer = {"model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"}}
    file_of("tokenizer/tokenizer.json", json.dumps({"version": "1.0", **tokenizer}).encode())
    file_of("tokenizer/generation_config.json", data)
    folder_text(str(file_of("tokenizer/tokenizer_config.json", data).parent))


def draft_prompts(data: bytes) -> None:
    from infopt.probes.drafting.prompts import read_prompts

    with contextlib.suppress(InfoptError):  # the other form of the same file is read next
        read_prompts(file_of("prompts.txt", data))
    read_prompts(file_of("prompts.jsonl", data))
