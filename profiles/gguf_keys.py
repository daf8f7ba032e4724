"""Metadata of a GGUF file under its architecture's prefix, and the conventions llama.cpp adds to it."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from infopt.errors import InfoptError, UndeterminedError
from infopt.profiles.gguf_header import DATA
from infopt.records import read_yaml

_POOLING_NONE = 0
_MAX_COUNT = 1 << 40


class Keys:
    """Metadata under the architecture's prefix, with sizes checked."""

    def __init__(self, source: str, metadata: Mapping[str, Any]) -> None:
        self.source, self.metadata = source, metadata
        self.arch = metadata.get("general.architecture")
        if not isinstance(self.arch, str) or not re.fullmatch(r"[\w.-]{1,64}", self.arch):
            raise InfoptError(f"{source}: general.architecture is {str(self.arch)[:60]!r}: not a model file")

    @property
    def where(self) -> str:
        return f"{self.source}: architecture {self.arch}"

    def get(self, key: str) -> Any:
        return self.metadata.get(f"{self.arch}.{key}")

    def count(self, key: str, layer: int = 0, default: int | None = None) -> int:
        """A count: a scalar, or this layer's element of an array."""
        value = self.get(key)
        if isinstance(value, tuple):
            if layer >= len(value):
                raise self.error(f"{key} has {len(value)} entries, layer {layer} needs one")
            value = value[layer]
        if value is None and default is None:
            raise UndeterminedError(f"{self.where}: {self.arch}.{key} is missing and nothing else tells it")
        if value is None:
            return default or 0
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_COUNT:
            raise self.error(f"{key} is {str(value)[:40]!r}, not a count")
        return value

    def error(self, text: str) -> InfoptError:
        return InfoptError(f"{self.where}: {text}")


def refuse_other_models(keys: Keys) -> None:
    """Refuse what is GGUF but no decoder: projectors, adapters, encoders, embedding and ranking models."""
    kind = keys.metadata.get("general.type", "model")
    reason = conventions()["refused"].get(keys.arch)
    if reason is None and kind != "model":
        reason = f"a file of type {str(kind)[:40]!r}"
    pools = keys.get("pooling_type") not in (None, _POOLING_NONE)
    if reason is None and (pools or keys.get("attention.causal") is False):
        reason = "an embedding or ranking model (it pools its output, or attends both ways)"
    if reason is not None:
        raise InfoptError(f"{keys.where}: {reason}, not a text decoder")


def layer_windows(keys: Keys, layers: int) -> list[int | None]:
    """Window of each layer, None where it attends to everything."""
    convention = conventions()["windows"].get(keys.arch, {})
    size = keys.count("attention.sliding_window", default=convention.get("window_tokens", 0))
    if not size:
        return [None] * layers
    pattern = keys.get("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        if len(pattern) < layers:
            raise keys.error(f"sliding_window_pattern has {len(pattern)} entries for {layers} layers")
        return [size if pattern[layer] else None for layer in range(layers)]
    if pattern is None and "period" not in convention:
        if keys.arch in conventions()["window_ignored"]:
            return [None] * layers
        raise UndeterminedError(f"{keys.where}: a sliding window of {size} tokens but no sliding_window_pattern: which "
                                "layers it covers is not known")  # fmt: skip
    period = keys.count("attention.sliding_window_pattern", default=convention.get("period"))
    if period == 0:  # every layer windowed
        return [size] * layers
    full = 0 if convention.get("full_first") else period - 1
    return [None if layer % period == full else size for layer in range(layers)]


@cache
def conventions() -> dict[str, Any]:
    """What an architecture means beyond its file (`data/gguf/architectures.yaml`)."""
    table: dict[str, Any] = read_yaml(DATA / "architectures.yaml")
    return table
