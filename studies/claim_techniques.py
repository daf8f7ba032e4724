"""Figures for claims about techniques: paging, prefixes, parallelism.

Each is a short formula over the ledgers' floors; the docstring gives the equation.
"""

from infopt.errors import InfoptError
from infopt.ledgers import answer_cache, attention, links
from infopt.studies.claim_figures import (
    device_of,
    figure,
    model_of,
    plan_of,
    root,
    tpot_floor,
)

# --- paging ---------------------------------------------------------------------------------------------------------


@figure("ratio")
def paged_gain(model: str, hw: str, gpus: int, weights: str, kv: str, reserved: int, used: int) -> float:
    """Bytes of a buffer of `reserved` tokens over those of the blocks `used` tokens take."""
    page = plan_of(model, hw, gpus, weights, kv, reserved).memory.layout
    return float(page.request_bytes(reserved) / page.request_bytes(used))


# --- prefixes and caches --------------------------------------------------------------------------------------------


@figure("share")
def prefill_flop_share(model: str, hw: str, gpus: int, weights: str, kv: str, prompt: int, output: int) -> float:
    """Prefill FLOP over all FLOP of a request."""
    compute = plan_of(model, hw, gpus, weights, kv, prompt, 1, output).compute
    return compute.prefill_flop / (compute.prefill_flop + output * compute.decode_flop_per_token)


@figure("share")
def prefill_time_share(
    model: str, hw: str, gpus: int, weights: str, kv: str, prompt: int, output: int, batch: int
) -> float:
    """Machine time of a prefill over that of a request, at the floors: p / (p + output x step / batch)."""
    plan = plan_of(model, hw, gpus, weights, kv, prompt, batch, output)
    prefill_s = plan.compute.ttft_floor_s
    if prefill_s is None:
        raise InfoptError(f"claims: no peak is known for {hw}")
    return prefill_s / (prefill_s + output * plan.bandwidth.amortized_s_per_token)


@figure("share")
def duplicated_flop_share(
    model: str, hw: str, gpus: int, weights: str, kv: str, prompt: int, output: int, hit: float
) -> float:
    """FLOP a prefix cache saves over all FLOP: document 1's ceiling."""
    return hit * prefill_flop_share(model, hw, gpus, weights, kv, prompt, output)


@figure("share")
def duplicated_time_share(
    model: str, hw: str, gpus: int, weights: str, kv: str, prompt: int, output: int, batch: int, hit: float
) -> float:
    """Machine time a prefix cache saves over that of a request."""
    return hit * prefill_time_share(model, hw, gpus, weights, kv, prompt, output, batch)


@figure("ratio")
def prefix_gain(
    model: str, hw: str, gpus: int, weights: str, kv: str, prompt: int, output: int, batch: int, hit: float
) -> float:
    """Throughput with a prefix cache: 1 / (1 - saved share of machine time)."""
    return 1 / (1 - duplicated_time_share(model, hw, gpus, weights, kv, prompt, output, batch, hit))


@figure("ratio")
def hit_gain(hit: float) -> float:
    """Capacity if a hit costs nothing: 1 / (1 - hit)."""
    return 1 / (1 - hit)


@figure("share")
def api_saving(shared: float, reuses: float, read_price: float, write_price: float) -> float:
    """Saving on input tokens where a prefix is written once and read by the other uses, prices as shares of full."""
    return answer_cache.api_saved_share(shared, reuses, read_price, write_price)


@figure("reuses")
def reuses_for_saving(shared: float, saving: float, read_price: float, write_price: float) -> float:
    """Uses of a prefix at which the saving is reached; infinite where it never is."""
    return answer_cache.needed_uses(shared, saving, read_price, write_price)


# --- attention kernels ----------------------------------------------------------------------------------------------


@figure("ratio")
def fused_attention_gain(model: str, hw: str, passes: int) -> float:
    """Attention with its n x n matrices written and read in 16 bits, over attention that keeps them on the chip.

    Roofline of one head, no causal skipping in either: max(4 n^2 d / F, 2 passes n^2 / BW) / (4 n^2 d / F).
    """
    device = device_of(hw).accelerator
    dim = max(run.mixer.qk_dim for run in model_of(model).groups)
    return attention.unfused_ratio(2 * dim, device.peak_flop_per_s["bf16"], device.bandwidth_bytes_per_s, passes)


@figure("ratio")
def fused_prefill_gain(model: str, hw: str, passes: int, tokens: float) -> float:
    """The same over the whole prefill, whose matrices gain nothing: (linear + slow attention) / (linear + fast)."""
    profile, device = model_of(model), device_of(hw).accelerator
    peak, bandwidth = device.peak_flop_per_s["bf16"], device.bandwidth_bytes_per_s
    slow_s = attention.unfused_s(profile, tokens, peak, bandwidth, passes)
    linear_s, fast_s = attention.linear_flop(profile, tokens) / peak, attention.square_flop(profile, tokens) / peak
    return attention.prefill_gain_ratio(linear_s, slow_s, fast_s)


@figure("tokens")
def tokens_for_fused_gain(model: str, hw: str, passes: int, gain: float) -> float:
    """Prompt at which the whole prefill gains `gain`."""
    return root(lambda tokens: fused_prefill_gain(model, hw, passes, tokens) - gain, 1.0, 2.0**30)


# --- replicas against tensor parallelism ----------------------------------------------------------------------------


def _sums_s_per_token(model: str, hw: str, gpus: int) -> float:
    """Two ring all-reduces a layer over one direction of the link, no latency."""
    link = device_of(hw).accelerator.link
    if link is None:
        raise InfoptError(f"claims: no link is known for {hw}")
    return links.sums_s_per_token(model_of(model), gpus, link.bytes_per_s)


@figure("ratio")
def replicas_decode_gain(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """Throughput of `gpus` replicas over that of one tensor-parallel group at the same total batch, at the floors.

    The group reads the weights once and pays two all-reduces a layer (bandwidth of the link, no latency).
    """
    each = tpot_floor(model, hw, 1, weights, kv, tokens, max(1, batch // gpus))
    group = tpot_floor(model, hw, gpus, weights, kv, tokens, batch)
    return (group + batch * _sums_s_per_token(model, hw, gpus)) / each


@figure("sequences")
def batch_for_replicas(model: str, hw: str, gpus: int, weights: str, kv: str) -> float:
    """Total batch at which the all-reduces cost what reading the weights in every replica costs (short context)."""
    each = tpot_floor(model, hw, 1, weights, kv, 1, 1)
    return links.batch_for_replicas(each, gpus, _sums_s_per_token(model, hw, gpus))


@figure("ratio")
def replicas_prefill_gain(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int) -> float:
    """Prompt tokens per second of replicas over those of one group: 1 + all-reduce time / compute time."""
    compute_s = plan_of(model, hw, gpus, weights, kv, tokens, 1, 2).compute.ttft_floor_s
    if compute_s is None:
        raise InfoptError(f"claims: no peak is known for {hw}")
    return 1 + tokens * _sums_s_per_token(model, hw, gpus) / compute_s
