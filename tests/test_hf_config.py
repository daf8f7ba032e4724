"""The config reader against what transformers itself builds, and against hostile or incomplete configs.

`tests/data/hf_counts.csv` holds configs with the number of stored elements, and where the model was run the cache
and state it kept (`tools/hf_oracle.py` wrote it with transformers 5.24.0). `small`: random sizes, every key;
`sparse`: the same with only the keys that were chosen, so that class defaults must be known or refused; `real`:
published geometries at full size; `vision`: encoders and projectors.
"""

import csv
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.profiles.hf_config import profile_from_config

TABLE = Path(__file__).with_name("data") / "hf_counts.csv"


def _rows() -> list[dict[str, str]]:
    """Configs are long cells; the limit is the whole process's, so it is put back."""
    before = csv.field_size_limit(10_000_000)
    try:
        return list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
    finally:
        csv.field_size_limit(before)


ROWS = _rows()
KINDS = ("small", "sparse", "real", "vision")

# Types of the oracle that have no record: refused by name.
UNKNOWN = {
    "axk2", "doge", "dory", "dots3_note_text", "hrm_text", "hy_v4", "inkling2_loop_text", "inkling2_text",
    "inkling_text", "jetmoe", "recurrent_gemma", "rwkv",
}  # fmt: skip
# What transformers allocates and checkpoints do not hold: LongCat's 256 experts that do nothing, in one fused tensor.
EXPLAINED = {"meituan-longcat/LongCat-Flash-Chat": 28 * 256 * 2 * 2048 * 6144}
KERNELS = ("linear_attn_config.short_conv_kernel_size", "short_conv_kernel_size", "conv_kernel", "mamba_d_conv",
           "linear_conv_kernel_dim", "conv_L_cache")  # fmt: skip

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 129280, "max_position_embeddings": 163840, "num_nextn_predict_layers": 1, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}  # fmt: skip


def read(config, **changes):
    return profile_from_config({**config, **changes}, id="m", source="config.json", source_kind="file")


def read_row(row):
    return profile_from_config(json.loads(row["config"]), id=row["id"], source=row["id"], source_kind="oracle")


def rows(kind):
    return [row for row in ROWS if row["kind"] == kind and json.loads(row["config"])["model_type"] not in UNKNOWN]


def test_oracle_covers_every_kind():
    assert {kind: len(rows(kind)) > 10 for kind in KINDS} == dict.fromkeys(KINDS, True)


def test_parameters_equal_transformers_on_random_configs():
    wrong, refused = {}, {}
    for row in rows("small"):
        try:
            difference = read_row(row).params_total - int(row["params"])
        except InfoptError as error:
            refused[row["id"]] = str(error)
            continue
        if difference:
            wrong[row["id"]] = difference
    assert wrong == {}
    # The class doubles the key-value heads of windowed layers past the number of query heads.
    assert all("not a multiple of" in text for text in refused.values())
    assert len(refused) < 4


def test_absent_keys_are_filled_as_the_class_does_or_refused():
    wrong, refused = {}, {}
    for row in rows("sparse"):
        try:
            difference = read_row(row).params_total - int(row["params"])
        except InfoptError as error:
            refused[row["id"]] = str(error)
            continue
        if difference:
            wrong[row["id"]] = difference
    assert wrong == {}
    assert all("missing" in text for text in refused.values()), refused
    assert len(refused) < 15


def test_published_geometries_equal_transformers():
    wrong = {row["id"]: int(row["params"]) - read_row(row).params_total for row in rows("real")}
    assert {name: difference for name, difference in wrong.items() if difference} == EXPLAINED


def test_encoders_equal_transformers():
    wrong = {row["id"]: read_row(row).extra_params.get("vision") for row in rows("vision")}
    assert wrong == {row["id"]: int(row["vision"]) for row in rows("vision")}


def test_cache_of_a_run_equals_ours():
    """Elements per token of attention layers (latent ones excepted: transformers caches them expanded)."""
    wrong = {}
    for row in rows("small"):
        if row["kv_elements_per_token"]:
            model = read_row(row)
            if not any(run.mixer.kind in ("latent", "indexed") for run in model.runs):
                ours = sum(run.layers * run.mixer.cache_elements_per_token for run in model.runs)
                if ours != int(row["kv_elements_per_token"]):
                    wrong[row["id"]] = (ours, row["kv_elements_per_token"])
    assert wrong == {}


def test_states_of_a_run_equal_ours():
    """Recurrent state as transformers keeps it: its convolution keeps `kernel` steps, engines `kernel - 1`."""
    checked, wrong = 0, {}
    for row in rows("small"):
        if not row["state_elements"] or row["state_elements"] == "0":
            continue
        config = json.loads(row["config"])
        kernel = next((config[key] for key in KERNELS if key in config), 4)
        model = read_row(row)
        tensors = [(run.layers, tensor) for run in model.runs for tensor in run.mixer.state]
        ssm = sum(layers * tensor.elements for layers, tensor in tensors if tensor.name == "ssm")
        conv = sum(layers * tensor.elements for layers, tensor in tensors if tensor.name == "conv")
        checked += 1
        if ssm + conv * kernel // (kernel - 1) != int(row["state_elements"]):
            wrong[row["id"]] = (ssm, conv, row["state_elements"])
    assert wrong == {}
    assert checked > 20


def test_mtp_is_stored_beside_the_headline_count():
    model = read(DEEPSEEK)
    assert model.params_total == 671_026_419_200
    # One layer with experts, two norms, the joint projection, a final norm, and copies of embedding and head.
    assert model.extra_params == {"mtp": 11_610_068_224 + 2 * 129280 * 7168}
    assert (model.mtp_layers, model.mtp_cache_elements_per_token) == (1, 576)


def test_latent_layers_are_whole_on_every_rank():
    mixer = read(DEEPSEEK).runs[0].mixer
    assert (mixer.kind, mixer.latent_dim, mixer.kv_heads, mixer.q_heads) == ("latent", 576, 1, 128)
    assert mixer.kv_linear_params == 7168 * (1536 + 576)


def test_mistral_window_null_is_not_absent():
    mistral = {**LLAMA, "model_type": "mistral"}
    assert read(mistral, sliding_window=None).runs[0].mixer.kind == "full"
    assert read(mistral).runs[0].mixer.window_tokens == 4096


def test_wrapper_and_nest():
    inner = {key: value for key, value in LLAMA.items() if key not in ("architectures", "torch_dtype")}
    outer = {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "dtype": "float16"}
    for nest in ("text_config", "llm_config", "language_config"):
        model = read(outer, **{nest: inner})
        assert (model.params_total, model.compute_dtype) == (8_030_261_248, "fp16")
    typed = {**inner, "torch_dtype": "float32"}
    assert read(outer, text_config=typed).compute_dtype == "fp16"  # as vLLM asks: the wrapper first
    assert read(outer, thinker_config={"text_config": inner}).params_total == 8_030_261_248


def test_the_window_applies_to_the_layers_the_rules_name():
    gemma = {"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
             "num_hidden_layers": 34, "sliding_window": 1024, "model_type": "gemma3_text"}}  # fmt: skip
    kinds = [run.mixer.kind for run in read(gemma).runs for _ in range(run.layers)]
    assert [i for i, kind in enumerate(kinds) if kind == "full"] == [5, 11, 17, 23, 29]


def test_families_whose_code_comes_with_the_checkpoint():
    """No oracle builds these: totals of the published geometries, from the layer shapes of their own code."""
    mha = {"hidden_size": 4096, "num_attention_heads": 32, "tie_word_embeddings": False, "torch_dtype": "float16"}
    chatglm = {**mha, "model_type": "chatglm", "architectures": ["ChatGLMModel"], "num_layers": 28, "kv_channels": 128,
               "ffn_hidden_size": 13696, "multi_query_attention": True, "multi_query_group_num": 2, "seq_length": 8192,
               "padded_vocab_size": 65024, "add_qkv_bias": True, "add_bias_linear": False}  # fmt: skip
    qwen = {**mha, "model_type": "qwen", "num_hidden_layers": 32, "intermediate_size": 22016, "kv_channels": 128,
            "vocab_size": 151936, "seq_length": 8192}  # fmt: skip
    baichuan = {**mha, "model_type": "baichuan", "num_hidden_layers": 32, "intermediate_size": 11008,
                "vocab_size": 125696, "model_max_length": 4096}  # fmt: skip
    dbrx = {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768,
            "vocab_size": 100352, "tie_word_embeddings": False, "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}}  # fmt: skip
    blocks = [{"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}},
              {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}}]  # fmt: skip
    nas = {"model_type": "nemotron-nas", "hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 2,
           "vocab_size": 128256, "block_configs": blocks, "tie_word_embeddings": False}  # fmt: skip
    assert read(chatglm).params_total == 6_243_584_000
    assert read(qwen).params_total == 7_721_324_544
    assert read(baichuan).params_total == 7_505_973_248
    assert read(dbrx).params_total == 131_596_523_520
    first, second = read(nas).runs
    assert (first.mixer.kv_heads, first.feed_forward.intermediate) == (8, 28672)
    assert (second.mixer.kind, second.feed_forward.intermediate) == ("none", 5632)


def test_models_without_a_head_are_not_decoders():
    for name in ("MistralModel", "Qwen2Model", "Gemma3TextModel", "XLMRobertaModel"):
        with pytest.raises(InfoptError, match="not a decoder"):
            read(LLAMA, architectures=[name])


def test_hostile_sizes_cost_no_time():
    many = {"num_hidden_layers": 10_000, "intermediate_size": list(range(1, 10_001))}
    listed = [f"model.layers.{i % 10_000}.mlp.up_proj{i}" for i in range(50_000)]
    general = [f"re:.*a.*b.*z{i}" for i in range(64)]
    start = time.process_time()
    read(LLAMA, **many, quantization_config={"quant_method": "fp8", "ignore": listed})
    with pytest.raises(InfoptError, match="more than infopt reads"):
        read(LLAMA, **many, quantization_config={"quant_method": "fp8", "ignore": general})
    assert time.process_time() - start < 5  # 0.9 s on one quiet core


@pytest.mark.parametrize(
    ("declared", "format", "parts", "kv"),
    [
        ({"quant_method": "fp8"}, "fp8", {"attention", "mlp"}, None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", {"attention", "mlp"}, None),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["self_attn", "lm_head"]}, "fp8", {"mlp"}, None),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4_gptq", {"attention", "mlp"}, None),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", {"attention", "mlp"}, None),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4_awq", {"attention", "mlp"}, None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4", {"attention", "mlp"}, None),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", {"attention", "mlp"}, None),
        (
            {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
            "fp8", {"attention", "mlp"}, "fp8",
        ),
        (
            {"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None,
             "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]}},
            "nvfp4", {"mlp"}, None,
        ),
        (
            {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
             "kv_cache_scheme": {"num_bits": 8, "type": "float"},
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}}},
            "fp8", {"attention", "mlp"}, "fp8",
        ),
        (
            {"quant_method": "compressed-tensors", "format": "int-quantized",
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}}}},
            "int8", {"attention", "mlp", "head"}, None,
        ),
        (
            {"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*", "lm_head"],
             "config_groups": {"group_0": {"targets": ["Linear"],
                                           "weights": {"num_bits": 4, "type": "int", "group_size": 128}}}},
            "int4", {"mlp"}, None,
        ),
    ],
)  # fmt: skip
def test_checkpoint_formats(declared, format, parts, kv):
    stored = read(LLAMA, quantization_config=declared).quantization
    assert (stored.format, stored.parts, stored.kv_format) == (format, parts, kv)


def test_two_formats_and_layers_left_alone():
    declared = {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            **{f"model.layers.{i}.self_attn.{p}_proj": {"quant_algo": "FP8"} for i in range(32) for p in "qkvo"},
            **{f"model.layers.{i}.mlp.{p}_proj": {"quant_algo": "NVFP4"} for i in range(8, 32) for p in ("up", "gate")},
        },
    }  # fmt: skip
    stored = read(LLAMA, quantization_config=declared).quantization
    assert stored.format == "nvfp4"
    assert stored.part_bits == {"attention": 8.0, "mlp": pytest.approx((8 * 16 + 24 * 4.5) / 32)}


def test_a_family_names_its_own_modules():
    """Gemma 4 keeps a dense `mlp` beside `experts`: leaving `mlp*` alone leaves the experts to be converted."""
    gemma = {
        "model_type": "gemma4_text", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32, "vocab_size": 512,
        "enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 32,
        "hidden_size_per_layer_input": 0, "sliding_window": 16,
        "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": [
            f"model.language_model.layers.{i}.{m}*" for i in range(2) for m in ("mlp", "self_attn", "router")]},
    }  # fmt: skip
    assert read(gemma).quantization.parts == {"expert"}


def test_only_the_experts_of_gpt_oss_are_packed():
    config = {
        "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 128,
        "num_experts_per_tok": 4, "vocab_size": 201088, "sliding_window": 128,
        "quantization_config": {"quant_method": "mxfp4"},
    }  # fmt: skip
    model = read(config)
    assert model.quantization.parts == {"expert"}
    assert (model.params_total, model.params_active) == (116_829_156_672, 5_132_849_472)
    assert any("no dtype" in note for note in model.notes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"vocab_size": None}, "vocab_size"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"hidden_size": "4096"}, "'4096', expected a whole number"),
        ({"hidden_size": float("nan")}, "nan"),
        ({"hidden_size": float("inf")}, "inf"),
        ({"hidden_size": 4096.5}, "4096.5"),
        ({"hidden_size": True}, "True"),
        ({"hidden_size": [4096, 4097]}, "list of 2 values"),
        ({"hidden_size": {"a": 1}}, "expected a whole number"),
        ({"num_hidden_layers": -1}, "expected 1 to 10000"),
        ({"num_hidden_layers": 0}, "expected 1 to 10000"),
        ({"num_hidden_layers": 10_001}, "expected 1 to 10000"),
        ({"num_hidden_layers": 2**63}, "expected 1 to 10000"),
        ({"hidden_size": 10**8}, "expected 1 to 10000000"),
        ({"num_key_value_heads": 7}, "not a multiple of 7"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"attention_bias": "yes"}, "expected true or false"),
        ({"tie_word_embeddings": 3}, "expected true or false"),
        ({"torch_dtype": "int9"}, "int9"),
        ({"torch_dtype": 5}, "expected a word"),
        ({"model_type": "lama"}, "nearest: llama"),
        ({"model_type": None}, "model_type is missing"),
        ({"model_type": "../../etc/passwd"}, "unknown model_type"),
        ({"architectures": ["BertForSequenceClassification"]}, "not a decoder"),
        ({"model_type": "bert"}, "not a decoder"),
        ({"model_type": "t5"}, "not a decoder"),
        ({"model_type": "whisper"}, "not a decoder"),
        ({"is_encoder_decoder": True}, "not a decoder"),
        ({"model_type": "zamba2"}, "cannot count"),
        ({"quantization_config": {"quant_method": "quip"}}, "'quip' is not known"),
        ({"quantization_config": "fp8"}, "not an object"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 5}}, "expected one of 2, 3, 4, 8"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP3"}}, "FP3"),
        ({"quantization_config": {"quant_method": "fp8", "ignore": ["re:(a+)+$"]}}, "more complicated"),
        ({"quantization_config": {"quant_method": "fp8", "ignore": ["re:(" ]}}, "not readable"),
        ({"quantization_config": {"quant_method": "fp8", "ignore": [1]}}, "not a module name"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 128]}}, "weight_block_size"),
    ],
)  # fmt: skip
def test_a_bad_config_is_refused_in_one_line_naming_the_file(changes, says):
    with pytest.raises(InfoptError) as caught:
        read({key: value for key, value in {**LLAMA, **changes}.items() if value is not None})
    assert says in str(caught.value)
    assert "config.json" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_not_an_object():
    with pytest.raises(InfoptError, match="JSON object"):
        profile_from_config([], id="m", source="config.json", source_kind="file")


def test_a_missing_list_is_not_guessed():
    config = {**LLAMA, "model_type": "kimi_linear", "kv_lora_rank": 512}
    with pytest.raises(InfoptError, match="a list is missing"):
        read(config)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    base=st.sampled_from([row["config"] for row in ROWS if row["kind"] == "small"]),
    index=st.integers(0, 60),
    value=anything,
)
def test_any_value_under_any_key_is_read_or_refused(base, index, value):
    config = json.loads(base)
    config[sorted(config)[index % len(config)]] = value
    try:
        model = read(config)
    except InfoptError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    assert model.params_total > 0
    assert model.layers <= 20_000


@given(layers=st.integers(1, 60), wider=st.integers(1, 4))
def test_more_layers_and_width_never_need_less(layers, wider):
    one = read(LLAMA, num_hidden_layers=layers)
    more = read(LLAMA, num_hidden_layers=layers + 1, intermediate_size=14336 * wider)
    assert more.params_total > one.params_total
    assert sum(more.params_by_part.values()) == more.params_total
