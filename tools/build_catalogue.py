r"""Write the model catalogue from public configurations: a maintainer's tool, not needed at run time.

    python tools/build_catalogue.py --out profiles/data/models --published tests/data/published_params.csv \
        --configs FOLDER --records FILE.jsonl --records tools/catalogue_records.jsonl \
        --overlay tools/catalogue_overlay.yaml

--records  one JSON object a line: id, source, source_quality, config, published_* (see `from_record`)
--configs  a folder of copies `<org>--<name>_config.json` (+ `_hf_quant_config.json`), preferred over a reduced config
--overlay  decisions by id: drop, rename, set, unset, note, explained, published, base

A record's figure marked `recalled_not_seen` is dropped: it is nobody's published number.
"""

import argparse
import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

# Keys of a config.json that say nothing about size, cache or stored format.
NOISE = re.compile(
    r"^(_.*|.*_token_id|.*_token_index|.*token_ids?|auto_map|attention_dropout|hidden_dropout|.*_dropout|initializer_.*|use_cache|transformers_version|"
    r"bos_.*|eos_.*|pad_.*|.*_eps|.*epsilon|rope_theta|.*_rope_theta|rope_interleave|id2label|label2id|output_(attentions|hidden_states|router_logits|scores)|"
    r"return_dict.*|router_aux_loss_coef|aux_loss_alpha|seq_aux|pretraining_tp|ep_size|time_step_(floor|limit|max|min)|pruned_heads|temperature|top_p|top_k|"
    r"typical_p|do_sample|early_stopping|diversity_penalty|.*_length|.*_penalty|no_repeat_ngram_size|encoder_no_repeat_ngram_size|num_beams|num_beam_groups|"
    r"num_return_sequences|remove_invalid_values|torchscript|use_bfloat16|chunk_size_feed_forward|tf_legacy_loss|tie_encoder_decoder|is_(de|en)co.*|"
    r"cross_attention_.*|add_cross_attention|problem_type|tokenizer_class|prefix|finetuning_task|task_specific_params|.*suppress_tokens|bad_words_ids|"
    r"num_logits_to_keep|rescale_prenorm_residual|residual_in_fp32|use_mamba_kernels|.*_placeholder|router_jitter_noise|.*logit_softcapping|swiglu_.*|"
    r"routed_scaling_factor|norm_topk_prob|scoring_func|topk_method|indexer_rope_interleave|num_reward_heads|ignore_index|hc_(eps|sinkhorn_iters)|"
    r"image_grid_pinpoints|max_window_layers|compress_rope_theta|activation_situ.*|gate_lower_bound|moe_router_dtype|.*_attn_implementation|"
    r"layer_norm_epsilon|rescale_.*|moe_shared_expert_overlap|use_unified_vision_chunk|video_attn_type|language_model_only)$"
)  # fmt: skip
NULL_MEANS = {
    "q_lora_rank",
    "sliding_window",
    "head_dim",
    "num_key_value_heads",
    "intermediate_size",
}  # null is an answer
SHARED_MEANING = {"rope_scaling", "rope_parameters"}


def trim(config: dict[str, Any], layers: "Layers | None" = None) -> dict[str, Any]:
    """The decisive fields of a config, in the order of their names, nested configs included."""
    layers = layers or Layers.of(config)
    kept: dict[str, Any] = {}
    for key, value in sorted(config.items()):
        if key == "quantization_config" and isinstance(value, dict):
            kept[key] = trim_quantization(value, layers)
        elif key in ("text_config", "vision_config", "audio_config", "linear_attn_config", "sparse_attention_config"):
            if isinstance(value, dict):
                kept[key] = trim(value, layers)
        elif key == "block_configs":
            kept[key] = [trim_block(block) for block in value]
        elif key in SHARED_MEANING:
            short = trim_rope(value)
            if short:
                kept[key] = short
        elif (value is not None or key in NULL_MEANS) and not NOISE.match(key):
            kept[key] = value
    return kept


@dataclass(frozen=True)
class Layers:
    """How many layers a config has, and which carry the mixer of a given module name."""

    count: int
    kinds: tuple[str, ...]
    first_dense: int
    indexers: tuple[str, ...]

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Layers":
        text = config.get("text_config") or config
        kinds, indexers = tuple(text.get("layer_types") or ()), tuple(text.get("indexer_types") or ())
        return cls(text.get("num_hidden_layers") or 0, kinds, text.get("first_k_dense_replace") or 0, indexers)

    def having(self, module: str) -> set[int]:
        """The layers that have `module`: all, or those with a mixture, an indexer, or that kind of attention."""
        linear = {n for n, kind in enumerate(self.kinds) if kind == "linear_attention"}
        everywhere = set(range(self.count))
        if "indexer" in module and self.indexers:
            return {n for n, kind in enumerate(self.indexers) if kind == "full"}
        if re.search(r"\.(gate|experts|shared_experts)\b", module):
            return everywhere - set(range(self.first_dense))
        if linear and "linear_attn" in module:
            return linear
        return everywhere - linear if linear and "self_attn" in module else everywhere


def trim_rope(rope: Any) -> dict[str, Any]:
    """Only what changes the usable context: kind, factor and the length it starts from."""
    if not isinstance(rope, dict):
        return {}
    names = ("rope_type", "type", "factor", "original_max_position_embeddings")
    return {name: rope[name] for name in names if name in rope and rope[name] != "default"}


CALIBRATION = {
    "producer", "quantization_status", "observer", "observer_kwargs", "actorder", "block_structure", "dynamic",
    "input_activations", "output_activations",
}  # fmt: skip


def trim_quantization(quantization: dict[str, Any], layers: Layers) -> dict[str, Any]:
    """The storage format and what it skips; activations and calibration details left out."""
    skipped = CALIBRATION | ({"config_groups"} if "quantized_layers" in quantization else set())  # not the same twice
    clean: dict[str, Any] = {}
    for key, value in quantization.items():
        if key in skipped or value is None or value == {}:
            continue
        if key == "quantized_layers":
            clean[key] = fold_quantized(value, layers)
        elif isinstance(value, dict):
            clean[key] = trim_quantization(value, layers)
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            clean[key] = fold_layers(value, layers)
        else:
            clean[key] = value
    return clean


def fold_quantized(modules: dict[str, dict[str, Any]], layers: Layers) -> dict[str, Any]:
    """`quantized_layers` by folded name, module by module where one name would mean two formats."""
    folded: dict[str, Any] = {}
    for name in fold_layers(list(modules), layers):
        before, star, after = name.partition("*")
        formats = [v for k, v in modules.items() if k.startswith(before) and k.endswith(after)] if star else []
        if star and any(given != formats[0] for given in formats):
            return {module: OneLine(given) for module, given in modules.items()}
        folded[name] = OneLine(formats[0] if star else modules[name])
    return folded


def fold_layers(patterns: list[str], layers: Layers) -> list[str]:
    """`layers.0.mlp`, `layers.1.mlp`, ... as `layers.*.mlp` where every layer that has the module is named."""
    whole = {int(m[1]) for m in (re.fullmatch(r".*layers\.(\d+)\.?\*", p) for p in patterns) if m}
    numbered = [re.fullmatch(r"(.*layers\.)(\d+)(\..+)", pattern) for pattern in patterns]
    named: dict[tuple[str, str], set[int]] = {}
    for match in numbered:
        if match and match[3] not in (".*",):
            named.setdefault((match[1], match[3]), set()).add(int(match[2]))
    folded: list[str] = []
    for pattern, match in zip(patterns, numbered, strict=True):
        stem = (match[1], match[3]) if match else None
        if stem in named and layers.having(stem[1]) <= named[stem] | whole:
            pattern = f"{stem[0]}*{stem[1]}"
        if pattern not in folded:
            folded.append(pattern)
    return folded


class OneLine(dict[str, Any]):
    """A mapping written on one line."""


def trim_block(block: dict[str, Any]) -> dict[str, Any]:
    """One layer of a `block_configs` list: its heads and widths, on one line, without what is switched off."""
    return OneLine({half: {k: v for k, v in given.items() if v not in (None, False)} for half, given in block.items()})


class Dumper(yaml.SafeDumper):
    """Mappings in block style, short lists on one line, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _list(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    flat = not any(isinstance(item, dict) for item in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flat)


def _one_line(dumper: yaml.SafeDumper, data: OneLine) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True)


Dumper.add_representer(list, _list)
Dumper.add_representer(OneLine, _one_line)


def published_of(record: dict[str, Any]) -> dict[str, Any] | None:
    """The record's published total, None where nobody was seen to publish it."""
    basis, total = record.get("published_basis"), record.get("published_total_params")
    if basis == "model_name_rounded":
        return {"basis": basis, **name_figure(record["id"])}
    if basis in (None, "none", "recalled_not_seen") or not total:
        return None
    figure = {"params_total": int(total), "basis": basis, "source": record.get("published_source") or ""}
    if record.get("digits"):
        figure["digits"] = record["digits"]
    return figure


def name_figure(model_id: str) -> dict[str, Any]:
    """`-32B-` in a model's name as a count and its printed digits."""
    found = re.search(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([BbMm])(?![A-Za-z0-9])", model_id.split("/")[-1])
    if not found:
        return {}
    scale = 10**9 if found[2] in "Bb" else 10**6
    total = round(float(found[1]) * scale)
    return {"params_total": total, "digits": len(found[1].replace(".", "")), "source": "the model's name"}


def from_record(record: dict[str, Any], configs: Path | None) -> dict[str, Any]:
    """One catalogue entry from a research record, with the full public config where a copy is at hand."""
    config = dict(record["config"])
    copy = copied_config(record["source"], configs)
    if copy is not None:
        config = copy
    elif "_wrapper" in config:
        wrapper = config.pop("_wrapper")
        wrapper.pop("has_vision", None)
        config = {**wrapper, "text_config": config, "tie_word_embeddings": config.get("tie_word_embeddings")}
    entry: dict[str, Any] = {
        "id": record["id"],
        "source": record["source"].strip(),
        "source_quality": record["source_quality"],
    }
    entry["published"] = published_of(record)
    entry["config"] = trim(config)
    notes = [record["note"]] if record.get("note") else []
    if notes:
        entry["note"] = notes[0]
    return entry


def copied_config(source: str, configs: Path | None) -> dict[str, Any] | None:
    """The config file a source names, read from the folder of copies; modelopt's side file merged in."""
    name = source.split("/")[-1].split("[")[0]
    if configs is None or not name.endswith("_config.json") or not (configs / name).is_file():
        return None
    config = json.loads((configs / name).read_text())
    side = configs / name.replace("_config.json", "_hf_quant_config.json")
    if side.is_file() and not (config.get("quantization_config") or {}).get("quant_method"):
        config["quantization_config"] = {"quant_method": "modelopt", **json.loads(side.read_text())["quantization"]}
    return dict(config)


def apply_overlay(entry: dict[str, Any], decision: dict[str, Any]) -> None:
    """Decisions of the maintainer on one entry."""
    for path, value in decision.get("set", {}).items():
        target = entry["config"]
        *parents, last = path.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = value
    for key in decision.get("unset", []):
        entry["config"].pop(key, None)
    for key in ("published", "explained", "note", "source", "source_quality", "base", "quantization_config", "config"):
        if key in decision:
            entry[key] = decision[key]
    if entry.get("published") == "name":
        entry["published"] = {"basis": "model_name_rounded", **name_figure(entry["id"])}
    if "digits" in decision:  # a vendor's figure as printed
        entry["published"] = {**entry["published"], "params_total": decision["total"], "digits": decision["digits"]}


ORDER = (
    "id", "base", "source", "source_quality", "published", "explained", "note", "config", "quantization_config",
)  # fmt: skip


def write_entry(entry: dict[str, Any], out: Path) -> None:
    """One YAML file a model, fields in reading order, empty ones left out."""
    ordered = {key: entry[key] for key in ORDER if entry.get(key) not in (None, {}, "")}
    text = yaml.dump(ordered, Dumper=Dumper, sort_keys=False, width=118, allow_unicode=True)
    (out / f"{entry['id'].replace('/', '__')}.yaml").write_text(text, encoding="utf-8")


def write_published(entries: list[dict[str, Any]], path: Path) -> None:
    """The published totals as test data."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["id", "published", "basis", "digits", "source"])
        for entry in entries:
            figure = entry.get("published")
            if figure:
                row = [entry["id"], figure["params_total"], figure["basis"], figure.get("digits", ""), figure["source"]]
                rows.writerow(row)


def build(records: list[Path], configs: Path | None, overlay: dict[str, Any]) -> list[dict[str, Any]]:
    """Every entry, sorted by id."""
    entries: dict[str, dict[str, Any]] = {}
    for path in records:
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            decision = overlay.get(record["id"], {})
            if decision.get("drop"):
                continue
            record["id"] = decision.get("rename", record["id"])
            entry = from_record(record, configs)
            apply_overlay(entry, decision)
            entries[entry["id"]] = entry
    for model_id, decision in overlay.items():
        if "base" in decision and not decision.get("drop"):
            entry = {"id": model_id, "source_quality": "hf_config_copy", "config": {}}
            apply_overlay(entry, decision)
            copy = copied_config(entry["source"], configs)
            if copy is not None:
                declared = trim(copy)
                entry["quantization_config"] = declared.get("quantization_config")
            entries[model_id] = entry
    return [entries[model_id] for model_id in sorted(entries, key=str.lower)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, action="append", required=True)
    parser.add_argument("--configs", type=Path)
    parser.add_argument("--overlay", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--published", type=Path, required=True)
    given = parser.parse_args()
    overlay = yaml.safe_load(given.overlay.read_text(encoding="utf-8")) or {}
    entries = build(given.records, given.configs, overlay)
    known = {f"{entry['id'].replace('/', '__')}.yaml" for entry in entries}
    for path in given.out.glob("*.yaml"):
        if path.name not in known:
            print(f"not among the records given, left as it is: {path.name}")
    for entry in entries:
        write_entry(entry, given.out)
    write_published(entries, given.published)
    print(f"{len(entries)} entries, {sum(bool(e.get('published')) for e in entries)} with a published total")


if __name__ == "__main__":
    main()
