"""Tiny models on disk, and a forward pass of them written again from the published equations, in float64."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, HEADS, KV_HEADS, HEAD, WIDE, LAYERS, VOCAB = 32, 4, 2, 8, 64, 2, 24
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def config(architecture: str, **changed: Any) -> dict[str, Any]:
    """A config.json."""
    return {
        "architectures": [architecture],
        "model_type": architecture.removesuffix("ForCausalLM").lower(),
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "intermediate_size": WIDE,
        "num_hidden_layers": LAYERS,
        "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "max_position_embeddings": 128,
        "eos_token_id": 1,
    } | changed


def tensors(given: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Random weights under Hugging Face's names."""
    draw = np.random.default_rng(seed)
    name = given["architectures"][0]
    made = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
    if not given["tie_word_embeddings"]:
        made["lm_head.weight"] = (VOCAB, HIDDEN)
    for i in range(LAYERS):
        at = f"model.layers.{i}"
        for part, rows in (("q", HEADS * HEAD), ("k", KV_HEADS * HEAD), ("v", KV_HEADS * HEAD)):
            made[f"{at}.self_attn.{part}_proj.weight"] = (rows, HIDDEN)
            if name.startswith("Qwen2"):
                made[f"{at}.self_attn.{part}_proj.bias"] = (rows,)
        if name.startswith("Qwen3"):
            made |= {f"{at}.self_attn.{part}_norm.weight": (HEAD,) for part in "qk"}
        made[f"{at}.self_attn.o_proj.weight"] = (HIDDEN, HEADS * HEAD)
        made |= {f"{at}.mlp.{part}_proj.weight": (WIDE, HIDDEN) for part in ("gate", "up")}
        made[f"{at}.mlp.down_proj.weight"] = (HIDDEN, WIDE)
        made |= {f"{at}.{part}_layernorm.weight": (HIDDEN,) for part in ("input", "post_attention")}
    return {
        name: (draw.normal(size=size) * (0.4 if len(size) > 1 else 0.2) + (1.0 if "norm" in name else 0.0)).astype("f4")
        for name, size in made.items()
    }


def write_folder(folder: Path, given: dict[str, Any], held: dict[str, Any], shards: int = 1, dtype: str = "f4") -> Path:
    """A Hugging Face folder: config, tokenizer, one file or shards with their index."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(given))
    write_tokenizer(folder)
    names = sorted(held)
    pieces = [names[i::shards] for i in range(shards)]
    files = ["model.safetensors"] if shards == 1 else [f"model-{i + 1}-of-{shards}.safetensors" for i in range(shards)]
    for piece, file in zip(pieces, files, strict=True):
        save_file({name: held[name].astype(dtype) for name in piece}, folder / file)
    if shards > 1:
        table = {name: file for piece, file in zip(pieces, files, strict=True) for name in piece}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))
    return folder


def write_tokenizer(folder: Path, first: str = "a", count: int = VOCAB) -> None:
    """One token a letter."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = {chr(ord(first) + i): i for i in range(count)}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token=first))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.save(str(folder / "tokenizer.json"))


def write_vocabulary(path: Path, pre: str, kind: str = "gpt2") -> Path:
    """A GGUF file with a byte-level vocabulary and one small tensor: bytes, three merges, a word no merge makes."""
    import gguf
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*letters, "12", "123", "he", "hello", "<|end|>"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_merges(["1 2", "12 3", "h e"])
    writer.add_token_types([1] * (len(tokens) - 1) + [3])
    writer.add_bos_token_id(len(tokens) - 1)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_add_bos_token(True)
    writer.add_chat_template("{% for m in messages %}{{ bos_token }}{{ m['content'] }}{% endfor %}")
    writer.add_tensor("output_norm.weight", np.ones(32, "f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """Name of a tensor in a GGUF file."""
    if name in GGUF_NAMES:
        return GGUF_NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    part, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{GGUF_NAMES[part]}.{kind}"


def interleaved(rows: Any, heads: int) -> Any:
    """Rows of halves as llama.cpp's converter orders them: what rotates together stands together."""
    count = rows.shape[0] // heads
    order = [
        head * count + half * count // 2 + i for head in range(heads) for i in range(count // 2) for half in (0, 1)
    ]
    return rows[order]


def write_gguf(
    path: Path, given: dict[str, Any], held: dict[str, Any], *, architecture: str, quantize: str = "F32"
) -> Path:
    """A GGUF file with the vocabulary beside it as tokenizer.json."""
    import gguf

    path.parent.mkdir(parents=True, exist_ok=True)
    write_tokenizer(path.parent)
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_block_count(given["num_hidden_layers"])
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(WIDE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_freq_base(given["rope_theta"])
    writer.add_layer_norm_rms_eps(given["rms_norm_eps"])
    writer.add_eos_token_id(1)
    kind = gguf.GGMLQuantizationType[quantize]
    for name, tensor in held.items():
        for part, heads in (("q_proj.weight", HEADS), ("k_proj.weight", KV_HEADS)):
            if architecture == "llama" and name.endswith(part):
                tensor = interleaved(tensor, heads)
        if tensor.ndim > 1 and quantize != "F32":
            packed = gguf.quants.quantize(tensor, kind)
            writer.add_tensor(gguf_name(name), packed, raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def reference_logits(given: dict[str, Any], held: dict[str, Any], ids: list[int]) -> Any:
    """Logits [N, vocab], head by head and token by token, in float64."""
    weight = {name: tensor.astype("f8") for name, tensor in held.items()}
    x = weight["model.embed_tokens.weight"][ids]
    for i in range(LAYERS):
        at = f"model.layers.{i}"
        x = x + _attention(given, weight, at, _norm(x, weight[f"{at}.input_layernorm.weight"]))
        n = _norm(x, weight[f"{at}.post_attention_layernorm.weight"])
        gate = n @ weight[f"{at}.mlp.gate_proj.weight"].T
        up = n @ weight[f"{at}.mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weight[f"{at}.mlp.down_proj.weight"].T
    head = weight["model.embed_tokens.weight" if given["tie_word_embeddings"] else "lm_head.weight"]
    return _norm(x, weight["model.norm.weight"]) @ head.T


def _norm(x: Any, weight: Any) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def _attention(given: dict[str, Any], weight: dict[str, Any], at: str, x: Any) -> Any:
    def projected(part: str, heads: int) -> Any:
        y = x @ weight[f"{at}.self_attn.{part}_proj.weight"].T + weight.get(f"{at}.self_attn.{part}_proj.bias", 0.0)
        y = y.reshape(len(x), heads, HEAD)
        norm = weight.get(f"{at}.self_attn.{part}_norm.weight")
        return y if norm is None else _norm(y, norm)

    q, k, v = projected("q", HEADS), projected("k", KV_HEADS), projected("v", KV_HEADS)
    mixed = np.zeros((len(x), HEADS, HEAD))
    for head in range(HEADS):
        group = head // (HEADS // KV_HEADS)
        for i in range(len(x)):
            query = _turned(given, q[i, head], i)
            scores = np.array([query @ _turned(given, k[j, group], j) for j in range(i + 1)]) / math.sqrt(HEAD)
            shares = np.exp(scores - scores.max())
            mixed[i, head] = shares / shares.sum() @ v[: i + 1, group]
    return mixed.reshape(len(x), -1) @ weight[f"{at}.self_attn.o_proj.weight"].T


def _turned(given: dict[str, Any], x: Any, position: int) -> Any:
    """Each pair (i, i + d/2) as a complex number, turned."""
    pairs = x[: HEAD // 2] + 1j * x[HEAD // 2 :]
    rates = np.array([_rate(given, given["rope_theta"] ** (-2 * i / HEAD)) for i in range(HEAD // 2)])
    pairs = pairs * np.exp(1j * position * rates)
    return np.concatenate((pairs.real, pairs.imag))


def _rate(given: dict[str, Any], rate: float) -> float:
    scaling = given.get("rope_scaling")
    if scaling is None:
        return rate
    if scaling["rope_type"] == "linear":
        return rate / scaling["factor"]
    wave, original = 2 * math.pi / rate, scaling["original_max_position_embeddings"]
    if wave < original / scaling["high_freq_factor"]:
        return rate
    if wave > original / scaling["low_freq_factor"]:
        return rate / scaling["factor"]
    smooth = (original / wave - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
    return (1 - smooth) * rate / scaling["factor"] + smooth * rate
