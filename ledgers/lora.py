"""Adapters on one base model: what a slot takes on a rank, what an adapter adds to a step.

    adapter(d_in -> d_out) = r d_in + d_out r             two matrices beside every adapted one
    column split (q, k, v, gate, up):  rank keeps r d_in + r d_out / tp        the first product is done whole
    row split (o, down):               rank keeps r d_in / tp + r d_out        so is the second
    slots = slots x r_max x width x bytes                 taken at the start, at the largest rank
width: elements of one rank per unit of r. Shapes follow from the geometry: q_heads, kv_heads and head lengths; of a
feed-forward its matrices over hidden x width; latent attention by its down and up projections; of a recurrent mixer
one matrix in and one out. Routed experts have a slot each where the engine adapts them at all.
Ignored: embeddings and head (of small vocabularies within 1 %), gates of attention, `fully sharded` slots.
Source: vllm-project/vllm vllm/lora/layers; Qwen3-30B-A3B at tp 4 with 16 slots of rank 32 loads 53.98 GiB a rank
(pull 28761), 53.9 by these formulas.
"""

from collections.abc import Iterable

from infopt.frozen import dataclass
from infopt.ledgers.scenario import Scenario, stages
from infopt.profiles.geometry import FeedForward, LayerRun, Mixer

GATED_MATRICES = 3


@dataclass(frozen=True, slots=True)
class Width:
    """Elements of adapter matrices per unit of rank: on one rank, and of the whole adapter."""

    rank_elements: float
    whole_elements: float

    def __add__(self, other: "Width") -> "Width":
        return Width(self.rank_elements + other.rank_elements, self.whole_elements + other.whole_elements)

    def times(self, count: float) -> "Width":
        return Width(self.rank_elements * count, self.whole_elements * count)


NOTHING = Width(0.0, 0.0)


def column(in_dim: float, out_dim: float, ranks: float) -> Width:
    """A matrix whose outputs are split.

    >>> column(4096, 4096, 4)
    Width(rank_elements=5120.0, whole_elements=8192)
    """
    return Width(in_dim + out_dim / ranks, in_dim + out_dim)


def row(in_dim: float, out_dim: float, ranks: float) -> Width:
    """A matrix whose inputs are split."""
    return Width(in_dim / ranks + out_dim, in_dim + out_dim)


def mixer_width(mixer: Mixer, hidden: int, tp: int) -> Width:
    """Adapted matrices of one mixer."""
    if mixer.kind in ("latent", "indexed"):
        return _latent_width(mixer, hidden, tp)
    if mixer.kind == "recurrent":
        inner = max(0.0, mixer.linear_params / hidden)
        return Width(2 * hidden + inner / tp, 2 * hidden + inner) if inner else NOTHING
    if not mixer.q_heads:
        return NOTHING
    heads = column(hidden, mixer.q_heads * mixer.qk_dim, tp) + row(mixer.q_heads * mixer.v_dim, hidden, tp)
    if mixer.kind == "shared" or not mixer.kv_heads:
        return heads
    split = min(tp, mixer.kv_heads)
    keys, values = mixer.kv_heads * mixer.qk_dim, mixer.kv_heads * mixer.v_dim
    return heads + column(hidden, keys, split) + column(hidden, values, split)


def _latent_width(mixer: Mixer, hidden: int, tp: int) -> Width:
    """Down projections lie whole on every rank, up projections are split by heads."""
    rope = mixer.latent_dim - mixer.latent_rank
    q_rank = mixer.kv_linear_params / hidden - mixer.latent_dim if hidden else 0.0
    up = column(mixer.latent_rank, mixer.q_heads * (mixer.qk_dim - rope + mixer.v_dim), tp)
    down, out = column(hidden, mixer.latent_dim, 1), row(mixer.q_heads * mixer.v_dim, hidden, tp)
    queries = mixer.q_heads * mixer.qk_dim
    if q_rank < 1:
        return column(hidden, queries, tp) + down + up + out
    return column(hidden, q_rank, 1) + column(q_rank, queries, tp) + down + up + out


def feed_forward_width(ff: FeedForward, hidden: int, tp: int, experts: bool) -> Width:
    """Adapted matrices of one feed-forward; `experts` counts the routed ones, each with its own adapter."""
    total = _matrices_width(ff.mlp_params, _matrices(ff.mlp_params, hidden, ff.intermediate), hidden, tp)
    total += _matrices_width(ff.shared_params, GATED_MATRICES, hidden, tp)
    if experts and ff.experts:
        one = _matrices_width(ff.expert_params, _matrices(ff.expert_params, hidden, ff.intermediate), hidden, tp)
        total += one.times(ff.experts)
    return total


def _matrices(params: int, hidden: int, width: int) -> int:
    """How many matrices hidden x width they are: 2, or 3 with a gate."""
    return max(2, round(params / (hidden * width))) if params and width else GATED_MATRICES


def _matrices_width(params: int, matrices: int, hidden: int, tp: int) -> Width:
    """All but one go up from hidden, the last comes down again."""
    if not params:
        return NOTHING
    inner = params / hidden / matrices
    return column(hidden, inner, tp).times(matrices - 1) + row(inner, hidden, tp)


def layers_width(runs: Iterable[LayerRun], hidden: int, tp: int, experts: bool) -> Width:
    """Sum over layers."""
    total = NOTHING
    for run in runs:
        one = mixer_width(run.mixer, hidden, tp) + feed_forward_width(run.feed_forward, hidden, tp, experts)
        total += one.times(run.layers)
    return total


def rank_width(s: Scenario, experts: bool) -> float:
    """Elements of a slot per unit of rank on the fullest rank."""
    return max(layers_width(stage, s.model.hidden, s.tp, experts).rank_elements for stage in stages(s.model, s.pp))


def adapter_width(s: Scenario, experts: bool) -> float:
    """The same of the whole adapter, on disk or in host memory."""
    return layers_width(s.model.groups, s.model.hidden, 1, experts).whole_elements


def slots_bytes(width: float, slots: int, rank: int, bytes_per_element: float = 2.0) -> float:
    """Memory of the slots of one rank.

    >>> slots_bytes(10, 4, 16)
    1280.0
    """
    return slots * rank * width * bytes_per_element


def largest_slots(width: float, rank: int, free_bytes: float, bytes_per_element: float = 2.0) -> int:
    """Slots that fit beside everything else."""
    one = slots_bytes(width, 1, rank, bytes_per_element)
    return int(max(0.0, free_bytes) // one) if one else 0
