"""Write `tests/data/hf_counts.csv`: what transformers itself builds from a config, for the reader's tests.

Run with an interpreter that has transformers and torch (CPU is enough); nothing here is imported by infopt:

    python tools/hf_oracle.py tests/data/hf_counts.csv [models.jsonl]

For every decoder type transformers knows, small random configs are instantiated on the meta device and their
stored elements counted (parameters and persistent buffers that checkpoints hold). Where the model also runs on
the CPU, one short prompt is fed and its cache counted: elements kept per token, and elements of fixed states.
With a file of real configs (`config` and `id` per line), those are counted at full size, without running.
"""

import csv
import json
import logging
import random
import sys
import warnings

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

COLUMNS = ("id", "kind", "config", "params", "vision", "kv_elements_per_token", "state_elements", "transformers")
PROMPT = 7
LARGEST_RUN = 30_000_000  # parameters of a model that is run on the CPU
# Not decoders, or models this project does not claim to read.
SKIPPED_WORDS = (
    "bart beam bert bert-generation big_bird bigbird_pegasus blenderbot blenderbot-small camembert data2vec-text "
    "electra ernie marian mbart megatron-bert mvp pegasus plbart prophetnet reformer rembert roberta "
    "roberta-prelayernorm roc_bert roformer trocr whisper xlm xlm-roberta xlm-roberta-xl xlnet xmod musicgen "
    "musicgen_melody git moshi got_ocr2 fuyu moss_transcribe_diarize mllama xlstm gemma4_assistant "
    "gemma4_unified_assistant gemma3 gemma3n gemma4 gemma4_unified phi4_multimodal llama4 cohere_compass_text "
    "modernbert-decoder emu3 blt cpmant ctrl dots3_note qwen4_exp qwen4_exp_text zamba zamba2 zaya qwen3_5 "
    "qwen3_5_moe "
)
SKIPPED = set(SKIPPED_WORDS.split())
# Classes that keep a head of their own whatever `tie_word_embeddings` says; no checkpoint asks them to tie.
NEVER_TIED = {"dbrx", "kimi_linear", "bailing_hybrid", "nemotron_h", "minimax"}
# Computed from other settings and stored with them, but no weights.
NOT_WEIGHTS = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")
# Keys every config object carries that say nothing about its size.
BOILERPLATE_WORDS = (
    "transformers_version architectures bos_token_id eos_token_id pad_token_id sep_token_id use_cache "
    "output_attentions return_dict id2label label2id problem_type initializer_range _name_or_path "
    "chunk_size_feed_forward dtype output_hidden_states rope_parameters rms_norm_eps layer_norm_eps "
    "layer_norm_epsilon norm_eps attention_dropout is_encoder_decoder router_aux_loss_coef "
    "output_router_logits norm_topk_prob time_step_limit rope_theta resid_pdrop embd_pdrop attn_pdrop "
    "hidden_dropout router_jitter_noise activation_sparsity_pattern swiglu_limits layer_rope_theta "
    "summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout "
)
BOILERPLATE = set(BOILERPLATE_WORDS.split())
VISION = (
    "gemma3 qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe mistral3 llama4 kimi_k25 llava internvl "
    "glm4v llava_next llava_onevision cohere2_vision idefics3 smolvlm lfm2_vl minimax_m3_vl step3p7 paligemma "
    "qwen2_audio voxtral qwen2_5_omni_thinker"
)


def small(config: object, rng: random.Random) -> dict[str, object]:
    """Random small values for the sizes `config` has, consistent with one another."""
    kv, group, d = rng.choice([1, 2, 4]), rng.choice([1, 2, 3]), rng.choice([16, 32])
    heads = kv * group
    layers = rng.choice([4, 6, 8])
    hidden = heads * d if rng.random() < 0.5 else heads * d * 2
    values = {
        "vocab_size": 32 * rng.randint(8, 20), "hidden_size": hidden, "n_embd": hidden, "d_model": hidden,
        "num_hidden_layers": layers, "n_layer": layers, "n_layers": layers, "num_layers": layers,
        "num_attention_heads": heads, "n_head": heads, "n_heads": heads, "num_heads": heads, "attention_heads": heads,
        "num_key_value_heads": kv, "num_kv_heads": kv, "head_dim": d, "intermediate_size": 16 * rng.randint(4, 12),
        "ffn_dim": 16 * rng.randint(4, 12), "ffn_hidden_size": 16 * rng.randint(4, 12), "max_position_embeddings": 128,
        "n_positions": 128, "max_seq_len": 128, "num_experts": 6, "num_local_experts": 6, "n_routed_experts": 6,
        "moe_num_experts": 6, "num_experts_per_tok": 2, "num_experts_per_token": 2, "moe_k": 2, "moe_topk": 2,
        "top_k_experts": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48,
        "shared_intermediate_size": 48, "dense_intermediate_size": 80, "intermediate_size_mlp": 112,
        "expert_ffn_hidden_size": 32, "moe_shared_expert_intermediate_size": 48, "share_expert_dim": 48,
        "n_shared_experts": rng.choice([1, 2]), "num_shared_experts": rng.choice([1, 2]),
        "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24,
        "index_n_heads": 2, "index_head_dim": 16, "index_topk": 4, "n_group": 1, "topk_group": 1, "num_expert_group": 1,
        "sliding_window": 16, "attention_chunk_size": 16, "tie_word_embeddings": rng.random() < 0.5,
        "attention_bias": rng.random() < 0.5, "mlp_bias": rng.random() < 0.5, "use_qk_norm": rng.random() < 0.5,
        "qk_layernorm": rng.random() < 0.5, "use_bias": rng.random() < 0.5, "bias": rng.random() < 0.5,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 24,
        "mamba_n_heads": 8, "mamba_d_head": hidden // 4, "mamba_num_heads": 4, "mamba_head_dim": 16,
        "mamba_d_state": 16,
        "ssm_state_size": 16, "state_size": 16, "n_groups": 2, "mamba_n_groups": 2, "mamba_dt_rank": 12,
        "mamba_d_ssm": 2 * hidden, "vocab_size_per_layer_input": 128, "hidden_size_per_layer_input": 8,
        "laurel_rank": 8, "first_k_dense_replace": 1, "num_dense_layers": 1, "num_kv_shared_layers": 2,
        "zero_expert_num": 0, "o_groups": 2, "o_lora_rank": 16, "linear_head_dim": 16, "linear_num_heads": heads,
        "moe_layer_start_index": 1, "moe_layer_end_index": layers - 1, "swa_num_attention_heads": heads,
        "layers_block_type": ["mamba", "moe", "attention", "mlp"][: layers], "multi_query": rng.random() < 0.5,
        "new_decoder_architecture": rng.random() < 0.5, "parallel_attn": rng.random() < 0.5,
        "use_parallel_residual": rng.random() < 0.5, "attention_k_eq_v": rng.random() < 0.5,
        "use_double_wide_mlp": rng.random() < 0.5, "enable_moe_block": rng.random() < 0.5,
        "enable_bias": rng.random() < 0.5,
        "do_layer_norm_before": rng.random() < 0.5, "num_mem_blocks": 1, "decoder_sparse_step": rng.choice([1, 2]),
        "attn_layer_indices": [1, 3], "full_attn_idxs": [1, 3],
    }  # fmt: skip
    if hasattr(config, "qk_rope_head_dim"):
        del values["head_dim"]  # some classes read it as the rotary part
    if config.model_type in NEVER_TIED:
        values["tie_word_embeddings"] = False
    values["num_shared_experts"] = values["n_shared_experts"]
    if config.model_type != "nemotron_h":
        del values["layers_block_type"]
    known = {"mamba2": {"num_heads": 8, "head_dim": hidden // 4}}
    if config.model_type in ("lfm2_moe", "lfm3"):
        values["layer_types"] = [rng.choice(["conv", "full_attention"]) for _ in range(layers)]
    values["attention_types"] = [[["global", "local"], layers // 2]]
    known_names = set(config.to_dict()) | set(type(config).attribute_map)
    chosen = {name: value for name, value in values.items() if name in known_names}
    chosen.update(known.get(config.model_type, {}))
    return chosen


def build(model_type: str, rng: random.Random) -> object:
    """A small random config of a type, or the nearest to it that the class accepts."""
    default = CONFIG_MAPPING[model_type]()
    chosen = small(default, rng)
    if "word_embed_proj_dim" in default.to_dict():
        chosen["word_embed_proj_dim"] = chosen["hidden_size"]
    return CONFIG_MAPPING[model_type](**chosen, pad_token_id=0), chosen


def stored_elements(model: torch.nn.Module, keep=lambda name: True) -> int:
    """Parameters, tied ones once, and persistent buffers that are weights."""
    persistent = set(model.state_dict())
    buffers = [
        b for n, b in model.named_buffers() if n in persistent and not n.endswith(NOT_WEIGHTS) and keep(n)
    ]  # fmt: skip
    return sum(p.numel() for n, p in model.named_parameters() if keep(n)) + sum(b.numel() for b in buffers)


def plain(config: object) -> dict[str, object]:
    """The config as JSON would hold it, without what says nothing about size."""
    text = json.loads(json.dumps(config.to_dict(), default=str))
    return {k: v for k, v in text.items() if (v if k == "mlp_only_layers" else k not in BOILERPLATE and v is not None)}


def cache_elements(config: object) -> tuple[int | str, int | str]:
    """(elements per token of growing caches, elements of fixed states) after a short prompt; blanks where it fails."""
    try:
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        with torch.no_grad():
            out = model(input_ids=torch.arange(PROMPT)[None] % config.vocab_size, use_cache=True)
        layers = getattr(out.past_key_values, "layers", None)
        if layers is None:
            return "", ""
        kv = state = 0
        for layer in layers:
            for name in ("keys", "values"):
                tensor = getattr(layer, name, None)
                if isinstance(tensor, torch.Tensor) and tensor.numel():
                    kv += tensor.numel()
            for name in ("conv_states", "recurrent_states"):
                held = getattr(layer, name, None)
                tensors = held.values() if isinstance(held, dict) else [held]
                state += sum(t.numel() for t in tensors if isinstance(t, torch.Tensor))
        return (kv // PROMPT if kv % PROMPT == 0 else ""), state
    except Exception as error:
        logging.info("%s: no cache: %s", config.model_type, error)
        return "", ""


def small_rows(version: str) -> list[dict[str, object]]:
    rows = []
    for model_type in CAUSAL:
        if model_type in SKIPPED:
            continue
        done, problem = 0, ""
        for seed in range(12):
            rng = random.Random(f"{model_type} {seed}")
            try:
                config, chosen = build(model_type, rng)
                with torch.device("meta"):
                    count = stored_elements(AutoModelForCausalLM.from_config(config))
            except Exception as error:
                problem = f"{type(error).__name__}: {str(error)[:200]}"
                continue
            kv, state = cache_elements(config) if count < LARGEST_RUN else ("", "")
            base = {"params": count, "kv_elements_per_token": kv, "state_elements": state, "transformers": version}
            name = f"{model_type}-{seed}"
            rows.append({"id": name, "kind": "small", "config": json.dumps(plain(config)), **base})
            if done == 0:  # the same, with only the keys that were chosen: class defaults must be known
                sparse = {"model_type": model_type, **chosen}
                rows.append({"id": f"{name}-sparse", "kind": "sparse", "config": json.dumps(sparse), **base})
            done += 1
            if done == 3:
                break
        if not done:
            print("not built:", model_type, problem, file=sys.stderr)
    return rows


def with_encoders(config: object) -> torch.nn.Module:
    """The generating model of a multimodal config, on the meta device."""
    for loader in ("ImageTextToText", "Seq2SeqLM", "SpeechSeq2Seq", "TextToWaveform"):
        try:
            with torch.device("meta"):
                return getattr(transformers, f"AutoModelFor{loader}").from_config(config)
        except ValueError as error:
            problem = error
    raise problem


def is_of_an_encoder(name: str) -> bool:
    text = ("language_model", "lm_head", "text_model", "model.layers", "model.embed_tokens", "model.norm")
    return not any(part in name for part in text[:3]) and not name.startswith(text[3:])


def vision_rows(version: str) -> list[dict[str, object]]:
    rows = []
    for model_type in VISION.split():
        config = CONFIG_MAPPING[model_type]()
        count = stored_elements(with_encoders(config), is_of_an_encoder)
        text = {k: v for k, v in json.loads(json.dumps(config.to_dict(), default=str)).items() if v is not None}
        for part in {"text_config", "vision_config", "audio_config"} & set(text):
            text[part] = {k: v for k, v in text[part].items() if k not in BOILERPLATE and v is not None}
        text = {k: v for k, v in text.items() if k not in BOILERPLATE}
        rows.append({"id": f"{model_type}-vision", "kind": "vision", "config": json.dumps(text), "vision": count,
                     "transformers": version})  # fmt: skip
    return rows


def real_rows(path: str, version: str) -> list[dict[str, object]]:
    rows = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            config = {k: v for k, v in entry["config"].items() if k not in ("_wrapper", "quantization_config")}
            model_type = config.get("model_type")
            if model_type not in CAUSAL or model_type in SKIPPED:
                continue
            arguments = {k: v for k, v in config.items() if k not in ("model_type", "architectures", "rope_scaling")}
            try:
                built = CONFIG_MAPPING[model_type](**arguments)
                with torch.device("meta"):
                    count = stored_elements(AutoModelForCausalLM.from_config(built))
            except Exception as error:
                print("not built:", entry["id"], error, file=sys.stderr)
                continue
            rows.append({"id": entry["id"], "kind": "real", "config": json.dumps(config), "params": count,
                         "transformers": version})  # fmt: skip
    return rows


def main(target: str, real: str | None) -> None:
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    version = transformers.__version__
    rows = small_rows(version) + vision_rows(version) + (real_rows(real, version) if real else [])
    with open(target, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(len(rows), "rows")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
