"""A model from a local Hugging Face folder: config.json and safetensors, one file or the shards an index lists."""

import os
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.probes.decoder import Shape, shape_of
from infopt.probes.drafting.rotary import rotary_factors
from infopt.profiles.files import read_json_file
from infopt.profiles.hf_config import profile_from_config
from infopt.profiles.safetensors_header import INDEX_ENDING, read_indexed, read_safetensors_header, shards_of
from infopt.profiles.safetensors_model import folder_name, weight_file

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
# What these classes of transformers 5 assume where config.json is silent (configuration_llama.py and its siblings).
ROPE_THETA, EPS = 10_000.0, 1e-6
PLAIN = ("F32", "F16", "BF16")
MAX_INDEX_BYTES, MAX_INDEX_ITEMS = 50_000_000, 1_000_000


def folder_shape(folder: str, longest_tokens: int) -> Shape:
    """Sizes of the model in a folder.

    longest_tokens  of any sequence: a window at least as wide changes nothing
    Errors: InfoptError for another architecture, packed weights, or parts the decoder lacks.
    """
    path = os.path.join(folder, "config.json")
    config = read_json_file(path)
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "none"
    if name not in ARCHITECTURES:
        raise InfoptError(f"{path}: architecture {name[:60]}; draft probes run {', '.join(ARCHITECTURES)}, and GGUF")
    if config.get("quantization_config"):
        raise InfoptError(f"{path}: packed weights are not unpacked here; give the unpacked model, or its GGUF")
    if config.get("hidden_act", "silu") != "silu":
        raise InfoptError(
            f"{path}: hidden_act {str(config['hidden_act'])[:40]!r}; the decoder of this probe computes silu"
        )
    _refuse_window(config, longest_tokens, path)
    # A window that is null is none; where the key is absent, Mistral's class assumes one.
    plain = {key: value for key, value in config.items() if key != "layer_types"}
    plain |= {"sliding_window": None, "use_sliding_window": False}
    shape = shape_of(profile_from_config(plain, id=folder_name(folder), source=path, source_kind="file"))
    theta, factors = rotary_factors(config, shape.head_dim, ROPE_THETA, path)
    return replace(
        shape,
        qk_norm=name == "Qwen3ForCausalLM",
        qkv_bias=name == "Qwen2ForCausalLM",
        rope_theta=theta,
        rope_factors=factors,
        eps=_eps(config, path),
    )


def _eps(config: Mapping[str, Any], path: str) -> float:
    """What is added under the root of a norm."""
    eps = config.get("rms_norm_eps", EPS)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 <= eps < 1:
        raise InfoptError(f"{path}: rms_norm_eps is {str(eps)[:40]!r}, not a number of 0 to 1")
    return float(eps)


def _refuse_window(config: Mapping[str, Any], longest_tokens: int, path: str) -> None:
    window = config.get("sliding_window")
    if window is not None and (isinstance(window, bool) or not isinstance(window, int)):
        raise InfoptError(f"{path}: sliding_window is {str(window)[:40]!r}, not a number of tokens")
    if window is None or config.get("use_sliding_window") is False or window >= longest_tokens:
        return
    raise InfoptError(
        f"{path}: a window of {window} tokens; draft probes see all of up to {longest_tokens}, which is another model"
    )


class FolderTensors:
    """Tensors of a folder through `safetensors`; every header is checked whole before anything is read."""

    def __init__(self, folder: str, device: Any, dtype: Any) -> None:
        self.where, self.device, self.dtype = folder, device, dtype
        path = weight_file(folder)
        if path is None:
            raise InfoptError(f"{folder}: no safetensors file; a draft probe reads safetensors or GGUF")
        self._files = _files(path)
        self._open = ExitStack()
        self._handles: dict[str, Any] = {}

    @property
    def names(self) -> Collection[str]:
        return self._files.keys()

    def read(self, name: str) -> Any:
        """One tensor."""
        path = self._files[name]
        if path not in self._handles:
            self._handles[path] = self._open.enter_context(safe_open()(path, framework="pt"))
        return self._handles[path].get_tensor(name).to(self.device, self.dtype)

    def close(self) -> None:
        self._open.close()


def _files(path: str) -> dict[str, str]:
    """Tensor -> file it is in. Errors: InfoptError for missing shards, cut files, packed types."""
    folder = os.path.dirname(path)
    if path.endswith(INDEX_ENDING):
        stored = list(read_indexed(path))
        shards = shards_of(read_json_file(path, MAX_INDEX_BYTES, MAX_INDEX_ITEMS), path)
        files = {name: os.path.join(folder, shard) for shard, names in shards.items() for name in names}
    else:
        stored = read_safetensors_header(path)
        files = {tensor.name: path for tensor in stored}
    for tensor in stored:
        if tensor.dtype not in PLAIN:
            raise InfoptError(f"{path}: {tensor.name} is {tensor.dtype}; draft probes read {', '.join(PLAIN)}")
    return files


def safe_open() -> Any:
    """`safetensors.safe_open`, or how to get it."""
    try:
        from safetensors import safe_open as opened
    except ImportError as error:
        raise InfoptError("a Hugging Face folder needs safetensors: pip install 'infopt[probe]'") from error
    return opened
