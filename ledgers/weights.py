"""Weight bytes: as stored, and as one rank holds them.

    stored = sum over parts of N_part b_part / 8
    rank   = what a stage's layers, split over tp, leave on one device
N parameters, b bits per weight with scales. Matrices are split over tp; K and V projections follow their
heads and are replicated beyond h_kv; norms, biases and routers stay whole; routed
experts are split over the expert shards; embeddings by vocabulary, padded to 64 rows.
Expert matrices grow to whole kernel tiles where the engine's record says so.
Sources: weight figures in engine logs (docs/accuracy.md).
"""

from collections.abc import Mapping, Sequence

from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import FeedForward, LayerRun, ModelProfile

VOCAB_PADDING = 64


def stored_weights_bytes(model: ModelProfile, bits: Mapping[str, float], as_stored: bool) -> float:
    """Checkpoint bytes: exact where a file header was read and the stored format is asked for."""
    if as_stored and model.stored_bytes:
        return float(sum(model.stored_bytes.values()))
    return sum(count * bits[part] / 8 for part, count in model.params_by_part.items())


def padded_vocab(vocab: int, tp: int) -> int:
    """Vocabulary rows after padding to a multiple of 64 that tp divides."""
    step = VOCAB_PADDING * tp
    return -(-vocab // step) * step


def layer_rank_bytes(run: LayerRun, s: Scenario) -> float:
    """Weights of one layer on one rank."""
    bits, mixer, ff = s.weight_bits, run.mixer, run.feed_forward
    kv_share = 1 / s.tp
    if mixer.kv_heads and s.tp > mixer.kv_heads:
        kv_share = 1 / mixer.kv_heads
    split = mixer.linear_params - mixer.kv_linear_params
    attention = split / s.tp + mixer.kv_linear_params * kv_share
    small = mixer.small_params + run.norm_params + ff.small_params
    experts = ff.experts / s.expert_shards
    weights = (
        attention * bits["attention"]
        + mixer.indexer_params * bits["indexer"]
        + ff.mlp_params / s.tp * bits["mlp"]
        + experts * ff.expert_params * expert_padding_ratio(ff, s) * bits["expert"]
        + experts * ff.expert_small_params * bits["small"]
        + ff.shared_params / s.tp * bits["shared_expert"]
        + ff.router_params * bits["router"]
        + small * bits["small"]
    )
    return weights / 8


def expert_padding_ratio(ff: FeedForward, s: Scenario) -> float:
    """Growth of expert matrices that kernels of this engine pad to whole tiles (1 where they do not)."""
    tiles = s.engine.expert_padding.get(s.weight_format)
    if not tiles or not ff.intermediate:
        return 1.0
    hidden_tile, width_tile = tiles
    width = ff.intermediate // (1 if s.ep > 1 else s.tp)
    hidden = s.model.hidden
    return -(-hidden // hidden_tile) * hidden_tile / hidden * (-(-width // width_tile) * width_tile / width)


def embedding_rank_bytes(s: Scenario) -> float:
    """Input embedding on one rank of the first stage."""
    pad = padded_vocab(s.model.vocab, s.tp) / s.model.vocab
    return s.model.embed_params * pad / s.tp * s.weight_bits["embedding"] / 8


def head_rank_bytes(s: Scenario) -> float:
    """Output head on one rank of the last stage; a tied head is the embedding, copied when stages differ."""
    pad = padded_vocab(s.model.vocab, s.tp) / s.model.vocab
    if s.model.tied:
        return embedding_rank_bytes(s) if s.pp > 1 else 0.0
    return s.model.head_params * pad / s.tp * s.weight_bits["head"] / 8


def rope_table_bytes(s: Scenario) -> float:
    """Rotary position table engines keep: max positions x rotary dims in the compute type (0 without rotation)."""
    dims = max((g.mixer.qk_dim for g in s.model.groups if g.mixer.kind != "recurrent"), default=0)
    return (s.model.max_position_tokens or 0) * dims * s.weight_bits["small"] / 8


def stage_rank_bytes(stage: Sequence[LayerRun], s: Scenario, first: bool, last: bool) -> float:
    """Weights of one pipeline stage on one rank, with what only the first and the last stage hold."""
    total = sum(run.layers * layer_rank_bytes(run, s) for run in stage)
    bits = s.weight_bits
    if first:
        total += embedding_rank_bytes(s)
        vision = 0 if s.text_only else s.model.extra_params.get("vision", 0)
        total += vision / s.tp * bits["vision"] / 8
    if last:
        total += head_rank_bytes(s) + s.model.small_params * bits["small"] / 8
        if s.mtp_loaded:
            total += s.model.extra_params.get("mtp", 0) / s.tp * bits["mtp"] / 8
    return total + rope_table_bytes(s)
