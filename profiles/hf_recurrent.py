"""Recurrent mixers of one layer: Mamba-1, Mamba-2, gated delta, lightning, KDA, short convolution.

What a sequence keeps is fixed: a state matrix per head, and the last `kernel - 1` inputs of each convolution. Shapes
as vLLM allocates them (vllm-project/vllm@02d7108 `mamba_utils.MambaStateShapeCalculator`; speculation adds steps to
the convolution's). The tail of the convolution is in the compute type; the state in the type the config names
(`mamba_ssm_cache_dtype`), else the one the family record states, else the compute type, as vLLM's `auto` has it.
"""

from collections.abc import Callable

from infopt.profiles.families import Family
from infopt.profiles.geometry import Mixer, StateTensor
from infopt.profiles.hf_keys import Keys

DTYPES = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16", "float": "fp32",
    "bf16": "bf16", "fp16": "fp16", "fp32": "fp32",
}  # fmt: skip


def dtype_name(keys: Keys, text: str) -> str:
    """Our name of a torch type."""
    name = DTYPES.get(text.removeprefix("torch."))
    if name is None:
        raise keys.error(f"dtype {text[:40]!r} is not one of {', '.join(sorted(set(DTYPES.values())))}")
    return name


def compute_dtype(keys: Keys, family: Family) -> str:
    """Type weights are computed in: the config's, else the family's."""
    text = keys.text("dtype")
    return dtype_name(keys, text) if text else family.dtype


def _states(keys: Keys, family: Family, state: int, conv_rows: int) -> tuple[StateTensor, ...]:
    compute = compute_dtype(keys, family)
    text = keys.text("state_dtype")
    state_dtype = dtype_name(keys, text) if text and text != "auto" else family.state_dtype or compute
    kept = [StateTensor("ssm", state, state_dtype)] if state else []
    tail = conv_rows * (keys.count("conv_kernel") - 1) if conv_rows else 0
    return (*kept, StateTensor("conv", tail, compute)) if tail else tuple(kept)


def mamba1(keys: Keys, family: Family) -> Mixer:
    """2HD in, D(r + 2s) to parameters, rD time step, DH out; D = expand x H."""
    hidden = keys.count("hidden")
    inner = keys.maybe("ssm_inner") or keys.count("ssm_expand") * hidden
    state, kernel = keys.count("state_dim"), keys.count("conv_kernel")
    rank = -(-hidden // 16) if keys.find("dt_rank")[1] in (None, "auto") else keys.count("dt_rank")
    linear = 2 * hidden * inner + inner * (rank + 2 * state) + rank * inner + inner * hidden
    small = inner * kernel + inner * state + 2 * inner  # convolution, A, D, time-step bias
    small += inner if keys.flag("conv_bias") else 0
    small += 2 * inner + hidden if keys.flag("proj_bias") else 0
    small += rank + 2 * state if keys.flag("inner_norms") else 0
    return Mixer(
        "recurrent",
        linear,
        small,
        q_heads=inner,
        kv_heads=1,
        qk_dim=state,
        v_dim=1,
        state=_states(keys, family, inner * state, inner),
        variant="mamba1",
    )


def mamba2(keys: Keys, family: Family) -> Mixer:
    """H(2D + 2gs + n) in, convolution over D + 2gs, per-head A, D and time step, a gated norm, DH out."""
    hidden, state, kernel = keys.count("hidden"), keys.count("state_dim"), keys.count("conv_kernel")
    heads, groups = keys.count("ssm_heads"), keys.count("ssm_groups")
    inner = keys.maybe("ssm_inner") or heads * keys.count("ssm_head_dim")
    if inner % heads:
        raise keys.error(f"inner size {inner} is not a multiple of {heads} state-space heads")
    mixed = inner + 2 * groups * state
    small = mixed * kernel + 3 * heads
    small += inner if keys.flag("inner_norm") else 0
    small += mixed if keys.flag("conv_bias") else 0
    small += inner + mixed + heads + hidden if keys.flag("proj_bias") else 0
    return Mixer(
        "recurrent",
        hidden * (inner + mixed + heads) + inner * hidden,
        small,
        q_heads=heads,
        kv_heads=groups,
        qk_dim=state,
        v_dim=inner // heads,
        state=_states(keys, family, inner * state, mixed),
        variant="mamba2",
    )


def gated_delta(keys: Keys, family: Family) -> Mixer:
    """Q, K, V and gate, two numbers per value head (decay, step), convolution over q, k, v, per-head norm."""
    hidden, kernel = keys.count("hidden"), keys.count("conv_kernel")
    k_heads, v_heads = keys.count("linear_num_key_heads"), keys.count("linear_num_value_heads")
    dk, dv = keys.count("linear_key_head_dim"), keys.count("linear_value_head_dim")
    key, value = k_heads * dk, v_heads * dv
    mixed = 2 * key + value
    return Mixer(
        "recurrent",
        hidden * (mixed + value) + hidden * 2 * v_heads + value * hidden,
        mixed * kernel + 2 * v_heads + dv,
        q_heads=v_heads,
        kv_heads=k_heads,
        qk_dim=dk,
        v_dim=dv,
        state=_states(keys, family, v_heads * dk * dv, mixed),
        variant="gated_delta",
    )


def delta_attention(keys: Keys, family: Family) -> Mixer:
    """KDA: Q, K, V of n heads of d, a step per head, decay and output gates of rank d (or full), o_norm, output."""
    hidden, kernel = keys.count("hidden"), keys.count("conv_kernel")
    heads, d = keys.count("linear_heads"), keys.count("linear_head_dim")
    wide = heads * d
    low_rank, full_rank = hidden * d + d * wide, hidden * wide
    decay = full_rank if keys.switch(family.full_rank_decay) else low_rank
    gate = full_rank if keys.switch(family.full_rank_gate) else low_rank
    return Mixer(
        "recurrent",
        3 * full_rank + decay + gate + hidden * heads + wide * hidden,
        3 * wide * kernel + wide + heads + d,
        q_heads=heads,
        kv_heads=heads,
        qk_dim=d,
        v_dim=d,
        state=_states(keys, family, heads * d * d, 3 * wide),
        variant="kda",
    )


def lightning(keys: Keys, family: Family) -> Mixer:
    """Q, K, V, an output gate and a norm over all heads; one d x d state per head."""
    hidden, heads, d = keys.count("hidden"), keys.count("q_heads"), keys.count("head_dim")
    wide = heads * d
    return Mixer(
        "recurrent",
        5 * hidden * wide,
        wide,
        q_heads=heads,
        kv_heads=heads,
        qk_dim=d,
        v_dim=d,
        state=_states(keys, family, heads * d * d, 0),
        variant="lightning",
    )


def short_conv(keys: Keys, family: Family) -> Mixer:
    """3 H H in, a convolution over H, H H out: no state but the convolution's tail."""
    hidden, kernel = keys.count("hidden"), keys.count("conv_kernel")
    small = hidden * kernel + (hidden + 4 * hidden if keys.flag("conv_bias") else 0)
    return Mixer(
        "recurrent",
        4 * hidden * hidden,
        small,
        q_heads=1,
        kv_heads=1,
        qk_dim=hidden,
        v_dim=hidden,
        state=_states(keys, family, 0, hidden),
        variant="short_conv",
    )


RECURRENT: dict[str, Callable[[Keys, Family], Mixer]] = {
    "mamba1": mamba1,
    "mamba2": mamba2,
    "gated_delta": gated_delta,
    "kda": delta_attention,
    "lightning": lightning,
    "short_conv": short_conv,
}


def recurrent(keys: Keys, family: Family) -> Mixer:
    """The recurrent mixer the family names."""
    if family.recurrent is None:
        raise keys.error("this family has no recurrent layers")
    return RECURRENT[family.recurrent](keys, family)
