"""The per-token half of one layer, counted from a config: dense, or routed experts with shared ones."""

from infopt.profiles.families import Family
from infopt.profiles.geometry import FeedForward
from infopt.profiles.hf_keys import Keys

NO_FEED_FORWARD = FeedForward("none")


def dense(keys: Keys, family: Family) -> FeedForward:
    """3 H I gated, 2 H I plain; biases I (twice when gated) + H."""
    hidden, wide = keys.count("hidden"), keys.count("intermediate")
    matrices = 3 if family.gated else 2
    biases = (matrices - 1) * wide + hidden if keys.switch(family.mlp_bias) else 0
    return FeedForward("dense", mlp_params=matrices * hidden * wide, small_params=biases, intermediate=wide)


def shared_width(keys: Keys, family: Family, expert_width: int) -> int:
    """Width of all shared experts together."""
    if family.shared == "none":
        return 0
    if family.shared == "width":
        return keys.count("shared_intermediate", 0)
    number = keys.count("shared_experts", 0)
    if family.shared == "count_width" and number:
        return number * keys.count("shared_intermediate")
    return number * expert_width


def mixture(keys: Keys, family: Family) -> FeedForward:
    """E experts of 3 H Im (2 H Im plain), a router of H E, shared experts beside them.

    A latent expert works in `moe_latent_size`, with one projection down and one up per layer.
    """
    hidden, number, chosen = keys.count("hidden"), keys.count("experts"), keys.count("experts_per_token")
    wide = keys.count("expert_intermediate")
    if chosen > number:
        raise keys.error(f"{chosen} experts per token of only {number}")
    matrices = 3 if family.expert_gated else 2
    inner = keys.maybe("moe_latent_size") or hidden
    shared = shared_width(keys, family, wide)
    router = hidden * number + family.router_extra
    router += number if keys.switch(family.router_bias) else 0
    shared_params = matrices * hidden * shared + (hidden if shared and family.shared_gate else 0)
    shared_params += 2 * hidden * inner if inner != hidden else 0
    beside = dense(keys, family) if family.dense_beside_experts else NO_FEED_FORWARD
    return FeedForward(
        "mixture",
        mlp_params=beside.mlp_params,
        experts=number,
        experts_per_token=chosen,
        expert_params=matrices * inner * wide,
        expert_small_params=(matrices - 1) * wide + inner if keys.switch(family.expert_bias) else 0,
        shared_params=shared_params,
        router_params=router,
        small_params=beside.small_params,
        intermediate=wide,
    )


def feed_forward(keys: Keys, family: Family, kind: str) -> FeedForward:
    """The feed-forward of a layer of `kind`: `dense`, `moe` or `none`."""
    if kind == "none":
        return NO_FEED_FORWARD
    renames = family.kind_keys.get(kind, {})
    keys = keys.for_kind(renames) if renames else keys
    return mixture(keys, family) if kind == "moe" else dense(keys, family)
