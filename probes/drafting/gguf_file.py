"""A model from a GGUF file or its splits, dequantized by `gguf`.

The header is read by `profiles.gguf_header`, which checks every length against the file (a vocabulary takes gguf's own
reader seconds); `gguf.quants` turns blocks into numbers. llama.cpp stores the rows of llama's queries and keys so that
neighbours rotate together; the decoder rotates halves, so the rows go back:
    [heads, d/2, 2, columns] -> [heads, 2, d/2, columns]   (undoes LlamaModel.permute of convert_hf_to_gguf.py)
"""

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.probes.decoder import Shape, shape_of
from infopt.profiles.gguf_header import TensorInfo, read_gguf_header
from infopt.profiles.gguf_keys import Keys
from infopt.profiles.gguf_model import profile_from_headers, split_files

ARCHITECTURES = ("llama", "qwen2", "qwen3")
ROPE_THETA = 10_000.0  # llama.cpp's where the file names none (llama_hparams.rope_freq_base_train)
ALIGNMENT = 32  # where general.alignment is absent (docs/gguf.md)


class GgufTensors:
    """Tensors of a file and its splits."""

    def __init__(self, path: str, torch: Any, device: Any, dtype: Any) -> None:
        self.where, self.torch, self.device, self.dtype = path, torch, device, dtype
        self.shards = split_files(path)
        self.headers = [read_gguf_header(shard) for shard in self.shards]
        if any(header.big_endian for header in self.headers):
            raise InfoptError(f"{path}: big-endian; convert it with gguf-convert-endian")
        self.keys = Keys(path, self.headers[0].metadata)
        if self.keys.arch not in ARCHITECTURES:
            raise InfoptError(
                f"{path}: architecture {self.keys.arch}; draft probes run GGUF of {', '.join(ARCHITECTURES)}"
            )
        self._places = {
            info.name: (shard, self._data_start(header), info)
            for shard, header in zip(self.shards, self.headers, strict=True)
            for info in header.tensors
        }

    @staticmethod
    def _data_start(header: Any) -> int:
        alignment = header.metadata.get("general.alignment", ALIGNMENT)
        return int(-(-header.header_bytes // alignment) * alignment)

    @property
    def names(self) -> Collection[str]:
        return self._places.keys()

    def shape(self) -> Shape:
        """Sizes of the model, from the header. Errors: InfoptError for what the decoder does not compute."""
        shape = shape_of(profile_from_headers(self.headers, id="model", source=self.where))
        rotated = self.keys.count("rope.dimension_count", default=shape.head_dim)
        if rotated != shape.head_dim:
            raise self.keys.error(f"{rotated} of {shape.head_dim} dimensions rotated; draft probes rotate whole heads")
        return replace(
            shape,
            tied="output.weight" not in self._places,
            qk_norm="blk.0.attn_q_norm.weight" in self._places,
            qkv_bias="blk.0.attn_q.bias" in self._places,
            rope_theta=float(self.keys.get("rope.freq_base") or ROPE_THETA),
            rope_factors=self._rope_factors(shape.head_dim),
            eps=self._eps(),
        )

    def _eps(self) -> float:
        value = self.keys.get("attention.layer_norm_rms_epsilon")
        if not isinstance(value, float) or not 0 < value < 1:
            raise self.keys.error("attention.layer_norm_rms_epsilon is missing")
        return value

    def _rope_factors(self, head_dim: int) -> tuple[float, ...] | None:
        if "rope_freqs.weight" in self._places:
            return tuple(self.numbers("rope_freqs.weight").tolist())
        kind = self.keys.get("rope.scaling.type") or "none"
        factor = self.keys.get("rope.scaling.factor")
        if kind == "none" or not factor:
            return None
        if kind != "linear":
            raise self.keys.error(f"rope scaling {str(kind)[:40]}; draft probes compute none, linear and rope_freqs")
        return (float(factor),) * (head_dim // 2)

    def read(self, name: str) -> Any:
        """One tensor, [out, in], its rows in the order the decoder rotates."""
        numbers = self.numbers(name)
        if self.keys.arch == "llama" and name.endswith((".attn_q.weight", ".attn_k.weight")):
            key = "attention.head_count" if "attn_q" in name else "attention.head_count_kv"
            heads = self.keys.count(key, int(name.split(".")[1]), default=self.keys.count("attention.head_count"))
            numbers = halves(numbers, heads)
        # A file mapped into memory cannot be written to, which torch warns of.
        return self.torch.from_numpy(numbers if numbers.flags.writeable else numbers.copy()).to(self.device, self.dtype)

    def numbers(self, name: str) -> Any:
        """One tensor as float32, in the file's order.

        Errors: InfoptError for a format that gguf does not dequantize.
        """
        import numpy

        shard, start, info = self._places[name]
        raw = numpy.memmap(shard, numpy.uint8, "r", start + info.offset, (info.stored_bytes,))
        return dequantized(raw, info, self.where)


def dequantized(raw: Any, info: TensorInfo, where: str) -> Any:
    """Blocks of a tensor as float32 numbers, [.., in]."""
    gguf = need_gguf()
    sizes = tuple(reversed(info.shape))
    rows = math.prod(sizes[:-1])
    try:
        kind = gguf.GGMLQuantizationType[info.type.upper()]
        numbers = gguf.quants.dequantize(raw.reshape(rows, -1), kind)
    except (KeyError, NotImplementedError) as error:
        raise InfoptError(
            f"{where}: {info.name} is {info.type}, which gguf does not dequantize; take another format"
        ) from error
    return numbers.reshape(sizes)


def halves(rows: Any, heads: int) -> Any:
    """Rows of neighbours that rotate together as rows of halves, [heads * d, columns]."""
    count, columns = rows.shape
    return rows.reshape(heads, count // heads // 2, 2, columns).swapaxes(1, 2).reshape(count, columns)


def need_gguf() -> Any:
    """The gguf module, or how to get it."""
    try:
        import gguf
    except ImportError as error:
        raise InfoptError("a GGUF file needs gguf: pip install 'infopt[probe]'") from error
    return gguf
