"""The KV cache and recurrent state in logical bytes: what the sequences need, before any allocator rounds.

    full attention    c = h_kv (d_qk + d_v) b            bytes per token and layer
    window            the same, for min(n, w) tokens
    latent            c = (rank + rope) b                 one vector per token, whatever the head count
    sparse            one index key per token beside the cache it selects from
    recurrent         fixed state per sequence
    h_kv KV heads, d head dims, b bytes per element (with scales), n tokens, w window
Sources: facts of each architecture in its family record; agreement with engine logs in docs/accuracy.md.
"""

from collections.abc import Iterable
from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import smaller
from infopt.profiles.formats import KvFormat, load_kv_format
from infopt.profiles.geometry import LayerRun, Mixer, ModelProfile

_STATE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """Cache of a set of layers for one sequence.

    full_bytes_per_token   layers that keep every token
    windows                (window_tokens, bytes_per_token) of layers that keep at most a window
    state_bytes            recurrent state
    """

    full_bytes_per_token: float
    windows: tuple[tuple[int, float], ...]
    state_bytes: float

    @property
    def window_bytes_per_token(self) -> float:
        return sum(per_token for _, per_token in self.windows)

    @property
    def window_tokens(self) -> int | None:
        return max((window for window, _ in self.windows), default=None)

    def kv_bytes_per_sequence(self, context_tokens: Any) -> Any:
        """KV bytes of one sequence: c_full n + sum over windows of c_w min(n, w). Scalar or array."""
        total = self.full_bytes_per_token * (context_tokens * 1.0)
        for window, per_token in self.windows:
            total = total + per_token * smaller(context_tokens * 1.0, window)
        return total


def layer_bytes_per_token(mixer: Mixer, kv: KvFormat, tp: int = 1) -> float:
    """Bytes one cached token takes in one layer on one of `tp` ranks.

    KV heads per rank = max(1, h_kv // tp): beyond h_kv the cache is replicated. A latent is never split.
    """
    bytes_per_element = kv.bits_per_element / 8
    index = (kv.index_bytes_per_token or mixer.index_dim * bytes_per_element) if mixer.index_dim else 0.0
    if mixer.kind in ("latent", "indexed"):
        return (kv.latent_bytes_per_token or mixer.latent_dim * bytes_per_element + kv.bytes_per_vector) + index
    if mixer.kind in ("full", "window", "chunked"):
        heads = max(1, mixer.kv_heads // tp)
        return heads * ((mixer.qk_dim + mixer.v_dim) * bytes_per_element + 2 * kv.bytes_per_vector) + index
    return 0.0


def layer_state_bytes(mixer: Mixer, default_dtype: str, tp: int = 1) -> float:
    """Recurrent state of one layer for one sequence on one rank; heads are split over tp."""
    return sum(tensor.elements / tp * state_element_bytes(tensor.dtype or default_dtype) for tensor in mixer.state)


def state_element_bytes(dtype: str) -> float:
    """Bytes of one state element; formats outside the common ones are read from their record."""
    known = _STATE_BYTES.get(dtype)
    return known if known is not None else load_kv_format(dtype).bits_per_element / 8


def cache_sizes(layers: Iterable[LayerRun], kv: KvFormat, state_dtype: str, tp: int = 1) -> CacheSizes:
    """Sum of the caches of `layers` (runs count their length) on one of `tp` ranks."""
    full = state = 0.0
    windows: dict[int, float] = {}
    # Runs share their mixers: what alternates in dozens of runs is computed once a kind.
    known: dict[int, tuple[float, float]] = {}
    for run in layers:
        mixer = run.mixer
        if id(mixer) not in known:
            known[id(mixer)] = layer_bytes_per_token(mixer, kv, tp), layer_state_bytes(mixer, state_dtype, tp)
        token_bytes, state_bytes = known[id(mixer)]
        per_token = run.layers * token_bytes
        if mixer.kind in ("window", "chunked") and mixer.window_tokens:
            windows[mixer.window_tokens] = windows.get(mixer.window_tokens, 0.0) + per_token
        else:
            full += per_token
        state += run.layers * state_bytes
    return CacheSizes(full, tuple(sorted(windows.items())), state)


def model_cache(model: ModelProfile, kv: KvFormat) -> CacheSizes:
    """The whole model's cache, no parallelism."""
    return cache_sizes(model.runs, kv, model.compute_dtype)
