"""The per-token half of one layer, counted from a config: dense, or routed experts with shared ones."""

from infopt.profiles.families import Family
from infopt.profiles.geometry import FeedForward
from infopt.profiles.hf_keys import Keys

NO_FEED_FORWARD = FeedForward("none")


def dense(keys: Keys, family: Family, times: int = 1) -> FeedForward:
    """3 H I gated, 2 H I plain; biases I (twice when gated) + H; `times` as wide."""
    hidden, wide = keys.count("hidden"), times * dense_width(keys, family)
    matrices = 3 if family.gated else 2
    small = (matrices - 1) * wide + hidden if keys.switch(family.mlp_bias) else 0
    small += sum(keys.evaluate(term) for term in family.mlp_small)
    return FeedForward("dense", mlp_params=matrices * hidden * wide, small_params=small, intermediate=wide)


def dense_width(keys: Keys, family: Family) -> int:
    """The width, or what the family makes of it.

    two_thirds: w = ceil(multiplier x floor(2 I / 3) to a multiple of m), where the config asks for it.
    """
    wide = keys.count("intermediate")
    if family.dense_width == "two_thirds" and keys.flag("block_auto_adjust_ff_dim"):
        wide = 2 * wide // 3
        wide = int(keys.real("block_ffn_dim_multiplier") * wide) if keys.has("block_ffn_dim_multiplier") else wide
        step = keys.count("block_multiple_of")
        wide = -(-wide // step) * step
    return wide


def shared_width(keys: Keys, family: Family, expert_width: int) -> int:
    """Width of all shared experts together."""
    if family.shared == "none":
        return 0
    if family.shared == "width":
        return keys.count("shared_intermediate", 0)
    return keys.count("shared_experts", 0) * expert_width


def mixture(keys: Keys, family: Family, times: int = 1) -> FeedForward:
    """E experts of 3 H Im (2 H Im plain), a router of H E, shared experts beside them.

    A dense MLP beside the experts may be `times` as wide. A latent expert works in `moe_latent_size`, with one
    projection down and one up per layer.
    """
    hidden, number, chosen = keys.count("hidden"), keys.count("experts"), keys.count("experts_per_token")
    wide = keys.count("expert_intermediate")
    if chosen > number:
        raise keys.error(f"{chosen} experts per token of only {number}")
    matrices = 3 if family.expert_gated else 2
    inner = keys.maybe("moe_latent_size") or hidden
    shared = shared_width(keys, family, wide)
    ways = number + (keys.maybe("zero_experts") or 0)  # experts that do nothing are routed to as well
    router = hidden * ways + sum(keys.evaluate(term) for term in family.router_small)
    router += ways if keys.switch(family.router_bias) else 0
    shared_params = matrices * hidden * shared + (hidden if shared and family.shared_gate else 0)
    shared_params += 2 * hidden * inner if inner != hidden else 0
    shared_bias = (matrices - 1) * shared + hidden if shared and keys.switch(family.shared_bias) else 0
    beside = dense(keys, family, times) if family.dense_beside_experts else NO_FEED_FORWARD
    return FeedForward(
        "mixture",
        mlp_params=beside.mlp_params,
        experts=number,
        experts_per_token=chosen,
        expert_params=matrices * inner * wide,
        expert_small_params=(matrices - 1) * wide + inner if keys.switch(family.expert_bias) else 0,
        shared_params=shared_params,
        router_params=router,
        small_params=beside.small_params + shared_bias,
        intermediate=wide,
    )


def feed_forward(keys: Keys, family: Family, kind: str) -> FeedForward:
    """The feed-forward of a layer of `kind`: `dense`, `wide` (twice as wide), `moe...`, or `linear` (one matrix)."""
    if kind.startswith("moe"):
        return mixture(keys, family, 2 if kind == "moe_wide" else 1)
    if kind == "wide":
        return dense(keys, family, 2)
    if kind == "linear":
        return FeedForward("dense", mlp_params=keys.count("hidden") ** 2)
    return dense(keys, family)
