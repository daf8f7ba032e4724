"""A Hugging Face `config.json` as a `ModelProfile`.

The decoder is found inside whatever nest it sits in, its `model_type` picks a family record, and the record's
rules count every layer. Nothing depends on a model's name.
"""

from collections.abc import Mapping
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.profiles.families import Family, family
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.hf_blocks import block_overrides
from infopt.profiles.hf_keys import Keys
from infopt.profiles.hf_layers import norm_width
from infopt.profiles.hf_mtp import mtp, mtp_note
from infopt.profiles.hf_quantization import Counted, quantization
from infopt.profiles.hf_recurrent import compute_dtype
from infopt.profiles.hf_runs import layer_runs
from infopt.profiles.hf_vision import other_modalities

NESTS = ("text_config", "language_config", "llm_config", "thinker_config", "language_model", "decoder")
_DEEPEST_NEST = 3
_DTYPE_KEYS = ("torch_dtype", "dtype")
# Class-name endings of models that are not generating decoders.
NOT_DECODERS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMaskedLM",
    "ForSeq2SeqLM",
    "ForRewardModel",
    "RewardModel",
    "EmbeddingModel",
)

# Names that end in Model all the same and generate; a bare `...Model` has no head and serves embeddings.
WITH_HEAD = ("LMHeadModel", "ChatModel", "ChatGLMModel", "LMModel", "BloomModel")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a config came from."""

    id: str
    source: str
    source_kind: str
    model_type: str


def profile_from_config(config: Mapping[str, Any], *, id: str, source: str, source_kind: str) -> ModelProfile:
    """The decoder described by `config`, counted.

    config       a parsed `config.json`
    id           what to call the model
    source, source_kind  where the config came from, for the report and for messages

    Raises InfoptError naming the key and the file for a missing decisive key, an impossible value, an unknown
    model_type, or a model that is not a decoder.
    """
    where = source or id
    if not isinstance(config, Mapping):
        raise InfoptError(f"{where}: a config is a JSON object, this is a {type(config).__name__}")
    refuse_other_architectures(config, where)
    text, model_type = decoder_part(config, where)
    record = family(model_type, text, where)
    if record.refused:
        raise InfoptError(f"{where}: {record.refused}")
    keys = Keys(text, record, f"{where} ({model_type})")
    keys.overrides.update(block_overrides(keys))
    return _assemble(keys, record, config, Source(id, source, source_kind, model_type))


def refuse_other_architectures(config: Mapping[str, Any], where: str) -> None:
    """Encoders, classifiers and sequence-to-sequence models are not decoders."""
    names = config.get("architectures") or []
    names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    headless = [name for name in names if name.endswith("Model") and not name.endswith(WITH_HEAD)]
    wrong = [name for name in names if name.endswith(NOT_DECODERS)] + headless
    if wrong or config.get("is_encoder_decoder") is True:
        what = wrong[0] if wrong else "an encoder-decoder"
        raise InfoptError(f"{where}: not a decoder ({what}); infopt prices generating decoders only")


def decoder_part(config: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], str]:
    """The text decoder's own config and its model_type, out of a multimodal wrapper where there is one.

    `tie_word_embeddings` and `vocab_size` of the wrapper apply where the nest is silent, its dtype always.
    """
    part, outer_type = config, _model_type(config)
    for _ in range(_DEEPEST_NEST):
        nest = next((part[name] for name in NESTS if isinstance(part.get(name), Mapping)), None)
        if nest is None:
            break
        shared = {name: part[name] for name in ("tie_word_embeddings", "vocab_size") if part.get(name) is not None}
        dtype = next((part[name] for name in _DTYPE_KEYS if part.get(name) is not None), None)
        own_type = _model_type(nest)
        if own_type is None and outer_type is not None:
            own_type = family(outer_type, part, where).text_type
        part, outer_type = {**shared, **nest}, own_type
        if dtype is not None:  # engines ask the wrapper first
            part = {**{name: value for name, value in part.items() if name not in _DTYPE_KEYS}, "dtype": dtype}
    if outer_type is None:
        raise InfoptError(f"{where}: model_type is missing; it names the architecture, add it to the config")
    return part, outer_type


def _model_type(config: Mapping[str, Any]) -> str | None:
    value = config.get("model_type")
    return value if isinstance(value, str) and value else None


def _assemble(keys: Keys, record: Family, config: Mapping[str, Any], origin: Source) -> ModelProfile:
    hidden, vocab = keys.count("hidden"), keys.count("vocab")
    runs = layer_runs(keys, record)
    tied = keys.flag("tie_word_embeddings") if keys.has("tie_word_embeddings") else record.tied
    embed = vocab * hidden
    gathered = keys.evaluate(record.per_layer_embedding) if record.per_layer_embedding else 0
    head = 0 if tied else embed + (vocab if keys.switch(record.head_bias) else 0)
    extra, mtp_layers, mtp_cache = mtp(keys, record, runs)
    dtype = compute_dtype(keys, record)
    vision, notes = other_modalities(config, keys)
    architectures = config.get("architectures")
    return ModelProfile(
        id=origin.id,
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else origin.model_type,
        hidden=hidden,
        vocab=vocab,
        max_position_tokens=keys.maybe("max_position"),
        runs=runs,
        embed_params=embed,
        gathered_params=gathered,
        head_params=head,
        small_params=_model_small_params(keys, record, vocab, tied),
        extra_params={**extra, **vision},
        mtp_layers=mtp_layers,
        mtp_cache_elements_per_token=mtp_cache,
        compute_dtype=dtype,
        quantization=quantization(config, keys, Counted(record, runs, head, extra.get("mtp", 0), dtype)),
        source=origin.source,
        source_kind=origin.source_kind,
        notes=(*record.notes, *notes, *mtp_note(keys, record), *_dtype_note(keys, record)),
        unknown=(*record.unknown, *(note for note in notes if "not counted" in note)),
    )


def _model_small_params(keys: Keys, record: Family, vocab: int, tied: bool) -> int:
    small = norm_width(keys, record) * (record.final_norms + (1 if record.embedding_norm else 0))
    small += vocab if tied and keys.switch(record.head_bias) else 0
    return small + sum(keys.evaluate(term) for term in record.model_small)


def _dtype_note(keys: Keys, record: Family) -> tuple[str, ...]:
    return () if keys.has("dtype") else (f"the config names no dtype: {record.dtype} assumed",)
