"""Safetensors headers: what is stored, by part, with packing undone; and every way a header can lie."""

import json
import os
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.profiles.catalogue import catalogue_config, load_catalogue_model
from infopt.profiles.files import MemoryFile
from infopt.profiles.safetensors_header import StoredTensor, dtype_bits, parse_safetensors_header
from infopt.profiles.safetensors_model import (
    packed_format,
    part_of,
    profile_from_folder,
    profile_from_weights,
    read_checkpoint,
    with_checkpoint,
)

Entry = tuple[str, str, Sequence[int]]  # name, dtype, shape


def count(shape: Sequence[int]) -> int:
    total = 1
    for side in shape:
        total *= side
    return total


def header(entries: Sequence[Entry]) -> tuple[bytes, int]:
    """Length and JSON of a header, and the bytes of data it needs."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dtype, shape in entries:
        size = count(shape) * dtype_bits()[dtype] // 8
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(table).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw, end


def write(path: Path, entries: Sequence[Entry]) -> Path:
    head, data = header(entries)
    path.write_bytes(head)
    os.truncate(path, len(head) + data)
    return path


def stored(entries: Sequence[Entry]) -> list[StoredTensor]:
    return [StoredTensor(n, d, tuple(s), count(s) * dtype_bits()[d] // 8) for n, d, s in entries]


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
    "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MATRICES = {
    "self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64), "mlp.gate_proj": (96, 64), "mlp.up_proj": (96, 64), "mlp.down_proj": (64, 96),
}  # fmt: skip


def llama(layers: int = 2) -> list[Entry]:
    made: list[Entry] = [("model.embed_tokens.weight", "BF16", (256, 64))]
    for n in range(layers):
        made += [(f"model.layers.{n}.{name}.weight", "BF16", shape) for name, shape in MATRICES.items()]
        made += [(f"model.layers.{n}.{norm}.weight", "BF16", (64,)) for norm in
                 ("input_layernorm", "post_attention_layernorm")]  # fmt: skip
    return [*made, ("model.norm.weight", "BF16", (64,)), ("lm_head.weight", "BF16", (256, 64))]


def folder(path: Path, entries: Sequence[Entry], config: Mapping[str, Any] = LLAMA, shards: int = 1) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    if shards == 1:
        write(path / "model.safetensors", entries)
        return path
    weight_map = {}
    for number in range(shards):
        name = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        write(path / name, entries[number::shards])
        weight_map |= dict.fromkeys((entry[0] for entry in entries[number::shards]), name)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path


# --- a folder --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
def test_a_folder_gives_geometry_and_exact_bytes(tmp_path: Path, shards: int) -> None:
    got = profile_from_folder(str(folder(tmp_path / "tiny", llama(), shards=shards)))
    assert got.id == "tiny"
    assert got.params_total == sum(count(shape) for _, _, shape in llama())
    assert dict(got.stored_bytes) == {part: 2 * params for part, params in got.params_by_part.items()}
    assert got.quantization is None
    assert got.notes == ()


def test_the_index_or_the_file_may_be_given_itself(tmp_path: Path) -> None:
    whole = profile_from_folder(str(folder(tmp_path / "a", llama(), shards=2)))
    again = profile_from_weights(str(tmp_path / "a" / "model.safetensors.index.json"))
    assert (again.runs, again.stored_bytes) == (whole.runs, whole.stored_bytes)
    folder(tmp_path / "b", llama())
    one = profile_from_weights(str(tmp_path / "b" / "model.safetensors"))
    assert one.stored_bytes == whole.stored_bytes


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    place = folder(tmp_path / "m", llama(), shards=3)
    (place / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(InfoptError, match=r"1 of 3 shards .* model-00002-of-00003\.safetensors"):
        profile_from_folder(str(place))


def test_a_shard_without_what_the_index_places_there(tmp_path: Path) -> None:
    place = folder(tmp_path / "m", llama(), shards=2)
    write(place / "model-00001-of-00002.safetensors", llama()[:1])
    with pytest.raises(InfoptError, match="which the index places there"):
        profile_from_folder(str(place))


def test_weights_alone_are_not_enough(tmp_path: Path) -> None:
    path = write(tmp_path / "model.safetensors", llama())
    with pytest.raises(InfoptError, match=r"needs the model's config\.json beside it"):
        profile_from_weights(str(path))


def test_config_without_weights_is_counted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert profile_from_folder(str(tmp_path)).stored_bytes == {}


@pytest.mark.parametrize("files", [[], ["adapter_config.json"], ["pytorch_model.bin"]])
def test_a_folder_without_config(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    expected = "LoRA adapter" if "adapter_config.json" in files else r"neither a config\.json nor a GGUF"
    with pytest.raises(InfoptError, match=expected):
        profile_from_folder(str(tmp_path))


def test_several_files_and_no_index(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    write(tmp_path / "a.safetensors", llama())
    write(tmp_path / "b.safetensors", llama())
    with pytest.raises(InfoptError, match=r"a\.safetensors, b\.safetensors"):
        profile_from_folder(str(tmp_path))


def test_a_config_that_disagrees_with_its_files_is_noted(tmp_path: Path) -> None:
    got = profile_from_folder(str(folder(tmp_path / "m", llama(), {**LLAMA, "intermediate_size": 128})))
    assert any("config.json makes" in note for note in got.notes)


def test_layers_behind_the_last_are_predictors(tmp_path: Path) -> None:
    got = profile_from_folder(str(folder(tmp_path / "m", llama(layers=3))))
    layer = sum(count(shape) for shape in MATRICES.values()) + 2 * 64
    assert got.extra_params == {"mtp": layer}
    assert got.stored_bytes["mtp"] == 2 * layer


def test_a_tied_head_that_is_stored_again(tmp_path: Path) -> None:
    got = profile_from_folder(str(folder(tmp_path / "m", llama(), {**LLAMA, "tie_word_embeddings": True})))
    assert got.stored_bytes["head"] == 2 * 256 * 64
    assert got.notes == ("the files repeat the tied head; engines load it once",)


# --- packed formats: (config entry, tensors of one 64 x 256 matrix, format, exact bits per weight) -------------


def packed(owner: str, rows: int, columns: int, kind: str) -> list[Entry]:
    """One matrix of `rows` outputs and `columns` inputs in a packed format, as its makers store it."""
    groups = columns // 32
    forms: dict[str, list[tuple[str, str, Sequence[int]]]] = {
        "fp8_block": [(".weight", "F8_E4M3", (rows, columns)),
                      (".weight_scale_inv", "F32", (rows // 16, columns // 16))],
        "fp8": [(".weight", "F8_E4M3", (rows, columns)), (".weight_scale", "BF16", (rows, 1)),
                (".input_scale", "BF16", ())],
        "int8": [(".weight", "I8", (rows, columns)), (".weight_scale", "F32", (rows, 1))],
        "nvfp4": [(".weight", "U8", (rows, columns // 2)), (".weight_scale", "F8_E4M3", (rows, columns // 16)),
                  (".weight_scale_2", "F32", ()), (".input_scale", "F32", ())],
        "mxfp4": [("_blocks", "U8", (rows, groups, 16)), ("_scales", "U8", (rows, groups))],
        "int4_awq": [(".qweight", "I32", (columns, rows // 8)), (".qzeros", "I32", (groups, rows // 8)),
                     (".scales", "F16", (groups, rows))],
        "int4_gptq": [(".qweight", "I32", (columns // 8, rows)), (".qzeros", "I32", (groups, rows // 8)),
                      (".scales", "F16", (groups, rows)), (".g_idx", "I32", (columns,))],
        "int4": [(".weight_packed", "I32", (rows, columns // 8)), (".weight_scale", "BF16", (rows, groups)),
                 (".weight_shape", "I64", (2,))],
        "nf4": [(".weight", "U8", (rows * columns // 2, 1)), (".weight.absmax", "U8", (rows * columns // 64,)),
                (".weight.quant_map", "F32", (16,)), (".weight.quant_state.bitsandbytes__nf4", "U8", (80,))],
    }  # fmt: skip
    return [(owner + ending, dtype, shape) for ending, dtype, shape in forms[kind]]


FORMATS = ["fp8_block", "fp8", "int8", "nvfp4", "mxfp4", "int4_awq", "int4_gptq", "int4", "nf4"]


@pytest.mark.parametrize("kind", FORMATS)
def test_packing_is_undone_and_named(kind: str) -> None:
    entries = packed("model.layers.0.mlp.up_proj", 64, 256, kind)
    config = {"quantization_config": {"config_groups": {"group_0": {"weights": {"num_bits": 4}}}}}
    held = read_checkpoint(stored(entries), 1, config)
    assert held.params == {"mlp": 64 * 256}
    assert held.stored_bytes == {"mlp": sum(tensor.stored_bytes for tensor in stored(entries))}
    assert held.quantization is not None
    assert (held.quantization.format, held.quantization.parts) == (kind, {"mlp"})
    assert held.quantization.bits_per_weight == pytest.approx(8 * held.stored_bytes["mlp"] / (64 * 256))


@pytest.mark.parametrize(("zeros", "bits"), [(2, 1), (4, 2), (6, 3), (8, 4), (16, 8)])
def test_bits_of_integer_packing_follow_from_the_zero_points(zeros: int, bits: int) -> None:
    rows, columns = 64, 256
    pieces = {
        "qweight": StoredTensor("a", "I32", (columns * bits // 32, rows), 0),
        "qzeros": StoredTensor("b", "I32", (8, zeros), 0),
        "scales": StoredTensor("c", "F16", (8, rows), 0),
    }
    got = packed_format(pieces, None)
    assert got is not None
    assert got[1] == rows * columns


def test_a_packed_checkpoint_counts_as_its_config_says(tmp_path: Path) -> None:
    entries = [e for e in llama() if not any(name in e[0] for name in MATRICES)]
    entries += [
        piece
        for n in range(2)
        for name, (rows, columns) in MATRICES.items()
        for piece in packed(f"model.layers.{n}.{name}", rows, columns, "int4_awq")
    ]
    config = {**LLAMA, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32}}
    got = profile_from_folder(str(folder(tmp_path / "m", entries, config)))
    assert got.params_total == sum(count(shape) for _, _, shape in llama())
    assert got.quantization is not None
    assert (got.quantization.format, got.quantization.parts) == ("int4_awq", {"attention", "mlp"})
    covered = got.stored_bytes["attention"] + got.stored_bytes["mlp"]
    weights = got.params_by_part["attention"] + got.params_by_part["mlp"]
    assert got.quantization.bits_per_weight == pytest.approx(8 * covered / weights)
    assert got.notes == ()


def test_a_packing_nobody_can_undo_keeps_the_config(tmp_path: Path) -> None:
    entries = [e for e in llama() if "up_proj" not in e[0]]
    entries += [(f"model.layers.{n}.mlp.up_proj.weight_packed", "I32", (96, 8)) for n in range(2)]
    got = profile_from_folder(str(folder(tmp_path / "m", entries)))
    assert got.params_total == sum(count(shape) for _, _, shape in llama())
    assert any("does not unpack" in note for note in got.notes)
    assert sum(got.stored_bytes.values()) == sum(tensor.stored_bytes for tensor in stored(entries))


def gpt_oss_120b() -> list[Entry]:
    """Names, types and shapes of openai/gpt-oss-120b."""
    h, e, wide = 2880, 128, 2880
    made: list[Entry] = [("model.embed_tokens.weight", "BF16", (201088, h)), ("model.norm.weight", "BF16", (h,)),
                         ("lm_head.weight", "BF16", (201088, h))]  # fmt: skip
    for layer in range(36):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in (("q", 4096, h), ("k", 512, h), ("v", 512, h), ("o", h, 4096)):
            made.append((f"{prefix}self_attn.{name}_proj.weight", "BF16", (rows, columns)))
            made.append((f"{prefix}self_attn.{name}_proj.bias", "BF16", (rows,)))
        made += [(f"{prefix}{name}", "BF16", shape) for name, shape in (
            ("self_attn.sinks", (64,)), ("input_layernorm.weight", (h,)), ("post_attention_layernorm.weight", (h,)),
            ("mlp.router.weight", (e, h)), ("mlp.router.bias", (e,)), ("mlp.experts.gate_up_proj_bias", (e, 2 * wide)),
            ("mlp.experts.down_proj_bias", (e, h)))]  # fmt: skip
        for name, rows in (("gate_up", 2 * wide), ("down", h)):
            made.append((f"{prefix}mlp.experts.{name}_proj_blocks", "U8", (e, rows, 90, 16)))
            made.append((f"{prefix}mlp.experts.{name}_proj_scales", "U8", (e, rows, 90)))
    return made


def deepseek_v3() -> Iterator[Entry]:
    """Names, types and shapes of deepseek-ai/DeepSeek-V3: FP8 in blocks of 128, one predicting layer and copies."""
    h = 7168

    def matrix(name: str, rows: int, columns: int) -> Iterator[Entry]:
        yield f"{name}.weight", "F8_E4M3", (rows, columns)
        yield f"{name}.weight_scale_inv", "F32", (-(-rows // 128), -(-columns // 128))

    def gated(name: str, wide: int) -> Iterator[Entry]:
        yield from matrix(f"{name}gate_proj", wide, h)
        yield from matrix(f"{name}up_proj", wide, h)
        yield from matrix(f"{name}down_proj", h, wide)

    yield "model.embed_tokens.weight", "BF16", (129280, h)
    yield "model.norm.weight", "BF16", (h,)
    yield "lm_head.weight", "BF16", (129280, h)
    for layer in range(62):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in (("q_a", 1536, h), ("q_b", 128 * 192, 1536), ("kv_b", 128 * 256, 512),
                                    ("o", h, 128 * 128)):  # fmt: skip
            yield from matrix(f"{prefix}self_attn.{name}_proj", rows, columns)
        yield from matrix(f"{prefix}self_attn.kv_a_proj_with_mqa", 576, h)
        for name, width in (("self_attn.q_a_layernorm", 1536), ("self_attn.kv_a_layernorm", 512),
                            ("input_layernorm", h), ("post_attention_layernorm", h)):  # fmt: skip
            yield f"{prefix}{name}.weight", "BF16", (width,)
        if layer < 3:
            yield from gated(f"{prefix}mlp.", 18432)
            continue
        yield f"{prefix}mlp.gate.weight", "BF16", (256, h)
        yield f"{prefix}mlp.gate.e_score_correction_bias", "F32", (256,)
        yield from gated(f"{prefix}mlp.shared_experts.", 2048)
        for expert in range(256):
            yield from gated(f"{prefix}mlp.experts.{expert}.", 2048)
    prefix = "model.layers.61."
    for name in ("embed_tokens", "shared_head.head"):
        yield f"{prefix}{name}.weight", "BF16", (129280, h)
    for name in ("shared_head.norm", "enorm", "hnorm"):
        yield f"{prefix}{name}.weight", "BF16", (h,)
    yield f"{prefix}eh_proj.weight", "BF16", (h, 2 * h)


# Total bytes of the weight files: gpt-oss `metadata.total_size` of its index; DeepSeek-V3 688.57 GB (91,991 tensors).
@pytest.mark.parametrize(
    ("model", "entries", "total", "packing", "covered"),
    [
        ("openai/gpt-oss-120b", gpt_oss_120b, 65_248_815_744, "mxfp4", {"expert"}),
        ("deepseek-ai/DeepSeek-V3", deepseek_v3, 688_574_839_360, "fp8_block",
         {"attention", "mlp", "expert", "shared_expert", "mtp"}),
    ],
)  # fmt: skip
def test_native_checkpoints_agree_with_their_config(
    model: str, entries: Callable[[], Iterable[Entry]], total: int, packing: str, covered: set[str]
) -> None:
    profile = load_catalogue_model(model)
    held = read_checkpoint(stored(list(entries())), profile.layers, catalogue_config(model))
    assert sum(held.stored_bytes.values()) == total
    assert held.params == profile.params_by_part
    assert held.quantization is not None
    assert (held.quantization.format, held.quantization.parts) == (packing, covered)
    assert with_checkpoint(profile, held).params_by_part == profile.params_by_part


# Names as they are in public checkpoints (DeepSeek-V3, gpt-oss, Qwen3-Next, Gemma-3, Jamba, Nemotron-H, Mistral's own).
NAMES = {
    "model.layers.3.mlp.experts.17.gate_proj": "expert",
    "model.layers.3.mlp.experts.gate_up_proj": "expert",
    "model.layers.3.block_sparse_moe.experts.0.w1": "expert",
    "model.layers.3.mlp.gate": "router",
    "model.layers.3.mlp.gate.e_score_correction_bias": "router",
    "model.layers.3.mlp.router.bias": "router",
    "model.layers.3.feed_forward.router": "router",
    "model.layers.3.mlp.shared_experts.up_proj": "shared_expert",
    "model.layers.3.mlp.shared_expert_gate": "shared_expert",
    "model.layers.3.mlp.gate_proj": "mlp",
    "model.layers.3.self_attn.kv_a_proj_with_mqa": "attention",
    "model.layers.3.self_attn.kv_a_layernorm": "small",
    "model.layers.3.self_attn.indexer.wq_b": "indexer",
    "model.layers.3.self_attn.sinks": "small",
    "model.layers.3.self_attn.q_proj.bias": "small",
    "model.layers.3.mlp.experts.gate_up_proj_bias": "small",
    "model.layers.3.linear_attn.in_proj_qkvz": "attention",
    "model.layers.3.linear_attn.conv1d": "small",
    "model.layers.3.linear_attn.A_log": "small",
    "model.layers.3.linear_attn.norm": "small",
    "model.layers.3.mamba.x_proj": "attention",
    "model.layers.3.mamba.D": "small",
    "model.layers.3.conv.in_proj": "attention",
    "model.layers.3.conv.conv": "small",
    "backbone.layers.3.mixer.up_proj": "mlp",
    "backbone.layers.3.mixer.in_proj": "attention",
    "backbone.layers.3.mixer.gate": "router",
    "backbone.layers.3.norm": "small",
    "backbone.embeddings": "embedding",
    "transformer.h.3.attn.c_attn": "attention",
    "transformer.h.3.self_attention.query_key_value": "attention",
    "transformer.h.3.mlp.dense_h_to_4h": "mlp",
    "transformer.blocks.3.norm_attn_norm.attn.Wqkv": "attention",
    "transformer.wte": "embedding",
    "transformer.ln_f": "small",
    "layers.3.attention.wq": "attention",
    "layers.3.feed_forward.w1": "mlp",
    "tok_embeddings": "embedding",
    "output": "head",
    "lm_head": "head",
    "model.language_model.embed_tokens_per_layer": "embedding",
    "vision_tower.vision_model.encoder.layers.3.mlp.fc1": "vision",
    "model.visual.blocks.30.attn.qkv": "vision",
    "multi_modal_projector.mm_input_projection_weight": "vision",
    "mtp.layers.0.mlp.gate_proj": "mtp",
    "model.layers.61.eh_proj": "mtp",
    "model.layers.62.self_attn.o_proj": "mtp",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_public_checkpoints(name: str) -> None:
    assert part_of(name, layers=61) == NAMES[name]


# --- headers that lie ------------------------------------------------------------------------------


def entry(**changes: Any) -> bytes:
    table = {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} | changes}
    raw = json.dumps(table).encode()
    return struct.pack("<Q", len(raw)) + raw + b"\0" * 16


def raw_json(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode() + b"\0" * 16


HOSTILE = {
    "empty": b"",
    "seven bytes": b"\1" * 7,
    "a header of 4 GB": struct.pack("<Q", 4 << 30) + b"{}" + b" " * 64,
    "a header of 2^63": struct.pack("<Q", 1 << 63) + b"{}" + b" " * 64,
    "no length": struct.pack("<Q", 0) + b"{}" * 64,
    "no object": raw_json("[1]"),
    "no JSON": raw_json('{"a":'),
    "not UTF-8": struct.pack("<Q", 4) + b'{"\xff}' + b"\0" * 16,
    "nested 100,000 deep": raw_json('{"a":' * 100_000),
    "lists 100,000 deep": raw_json('{"a":' + "[" * 100_000),
    "the same name twice": raw_json('{"a":1,"a":2}'),
    "an integer of 10,000 digits": raw_json('{"a":' + "9" * 10_000 + "}"),
    "no dtype": raw_json('{"a":{"shape":[4],"data_offsets":[0,16]}}'),
    "a number for a tensor": raw_json('{"a":7}'),
    "a million lists": raw_json('{"a":[' + "[]," * 1_000_000 + "[]]}"),
    "an unknown dtype": entry(dtype="F31"),
    "a list as dtype": entry(dtype=["F32"]),
    "petabytes": entry(shape=[1 << 50], data_offsets=[0, 1 << 52]),
    "sides of 2^62": entry(shape=[1 << 62] * 8),
    "a side below zero": entry(shape=[-4]),
    "a fraction": entry(shape=[4.0]),
    "true as a side": entry(shape=[True]),
    "thousands of axes": entry(shape=[1] * 5000),
    "an offset outside": entry(data_offsets=[1 << 40, (1 << 40) + 16]),
    "offsets turned round": entry(data_offsets=[16, 0]),
    "three offsets": entry(data_offsets=[0, 8, 16]),
    "a size that is not its shape's": entry(shape=[5]),
    "a NUL in a name": raw_json('{"a\\u0000b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'),
    "a line break in a name": raw_json('{"a\\nb":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'),
    "data missing": entry()[:-1],
    "data left over": entry() + b"\0",
}


@pytest.mark.parametrize("sparse_bytes", [0, 1 << 42])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_headers_are_refused_fast_and_small(what: str, sparse_bytes: int, tmp_path: Path) -> None:
    """Also as the start of a sparse file of four terabytes, where no length looks too large."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    path = tmp_path / "model.safetensors"
    path.write_bytes(HOSTILE[what])
    if sparse_bytes:
        os.truncate(path, sparse_bytes)
    tracemalloc.start()
    begin = time.process_time()
    with pytest.raises(InfoptError) as caught:
        profile_from_weights(str(path))
    elapsed, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert "model.safetensors" in str(caught.value)
    assert elapsed < 1
    assert peak < 200_000_000


@pytest.mark.parametrize(
    "weight_map",
    [None, [], {}, {"a": 1}, {"a": "../secret.safetensors"}, {"a": "/etc/passwd"}, {"a": "sub/x.safetensors"},
     {"a": ""}, {"a": ".."}, {"a": "b\nc.safetensors"}],
)  # fmt: skip
def test_an_index_names_plain_files_beside_it(tmp_path: Path, weight_map: Any) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(InfoptError, match=r"weight_map|no plain name"):
        profile_from_weights(str(path))


WHOLE, DATA_BYTES = header(llama())


def test_truncation_anywhere_is_an_error() -> None:
    for length in range(len(WHOLE)):
        source = MemoryFile("model.safetensors", WHOLE[:length])
        with pytest.raises(InfoptError):
            parse_safetensors_header(source)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_give_tensors_or_one_line(changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    source = MemoryFile("model.safetensors", bytes(data))
    source.size = len(WHOLE) + DATA_BYTES
    message = ""
    try:
        read_checkpoint(parse_safetensors_header(source), 2, {})
    except InfoptError as error:
        message = str(error)
    assert "\n" not in message
