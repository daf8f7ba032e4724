"""Which mixer and which feed-forward each layer has: a few rules that families name in their records.

A rule answers for all layers, or None where the config lacks what it reads; a family lists the rules it uses
in order, and the first answer counts.
"""

from collections.abc import Callable

from infopt.profiles.families import Family
from infopt.profiles.hf_keys import Keys

Plan = list[str] | None

# What lists in configs call a layer, in our words.
KIND_NAMES = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "global_attention": "full",
    "sliding_attention": "window",
    "sliding_window_attention": "window",
    "chunked_attention": "chunked",
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "conv": "recurrent",
    "local": "window",
}
FEED_FORWARD_NAMES = {"dense": "dense", "sparse": "moe", "moe": "moe"}


def named(keys: Keys, names: dict[str, str], values: list[object], key: str) -> list[str]:
    """`values` in our words; an unknown one is an error."""
    for value in values:
        if not isinstance(value, str | int) or str(value) not in names:
            raise keys.error(f"{key} holds {str(value)[:40]!r}; known: {', '.join(sorted(names))}")
    return [names[str(value)] for value in values]


def layer_list(keys: Keys, name: str, names: dict[str, str], layers: int) -> Plan:
    """A list in the config with one entry a layer (a longer one may describe extra MTP layers)."""
    values = keys.items(name)
    if not values:
        return None
    if len(values) < layers:
        raise keys.error(f"{name} has {len(values)} entries for {layers} layers")
    return named(keys, names, values[:layers], name)


def every_nth(layers: int, period: int, others: str, nth: str = "full") -> list[str]:
    """`nth` on layers period, 2 period, ... (counted from 1), `others` elsewhere."""
    return [others if (i + 1) % period else nth for i in range(layers)]


def _layer_types(keys: Keys, family: Family, layers: int) -> Plan:
    return layer_list(keys, "layer_types", {**KIND_NAMES, **family.kind_names}, layers)


def _window_if_set(keys: Keys, family: Family, layers: int) -> Plan:
    """All layers windowed when a window is given."""
    return ["window" if keys.maybe("sliding_window") else "full"] * layers


def _upper_windows(keys: Keys, family: Family, layers: int) -> Plan:
    """Windowed from `max_window_layers` on, where `use_sliding_window` says so."""
    if not keys.flag("use_sliding_window") or keys.maybe("sliding_window") is None:
        return ["full"] * layers
    first = keys.count("max_window_layers", 0)
    return ["window" if i >= first else "full" for i in range(layers)]


def _window_period(keys: Keys, family: Family, layers: int) -> Plan:
    """Every `sliding_window_pattern`-th layer full, the others windowed (no window: all full)."""
    if keys.maybe("sliding_window") is None:
        return ["full"] * layers
    return every_nth(layers, keys.count("sliding_window_pattern"), "window")


def _recurrent_period(keys: Keys, family: Family, layers: int) -> Plan:
    """Every `full_attention_interval`-th layer full, the others recurrent."""
    return every_nth(layers, keys.count("full_attention_interval"), "recurrent")


def _attention_period(keys: Keys, family: Family, layers: int) -> Plan:
    """Attention where i mod period = offset, recurrent elsewhere."""
    period, offset = keys.count("attn_layer_period"), keys.count("attn_layer_offset", 0)
    return ["full" if i % period == offset else "recurrent" for i in range(layers)]


LAYER_RULES: dict[str, Callable[[Keys, Family, int], Plan]] = {
    "full": lambda keys, family, layers: ["full"] * layers,
    "recurrent": lambda keys, family, layers: ["recurrent"] * layers,
    "layer_types": _layer_types,
    "window_if_set": _window_if_set,
    "upper_windows": _upper_windows,
    "window_period": _window_period,
    "recurrent_period": _recurrent_period,
    "attention_period": _attention_period,
}


def _first_dense(keys: Keys, family: Family, layers: int) -> Plan:
    """The first k dense; then experts on every `moe_layer_freq`-th."""
    first = keys.count("first_dense", 0)
    step = keys.maybe("moe_layer_freq") or 1
    return ["moe" if i >= first and i % step == 0 else "dense" for i in range(layers)]


def _sparse_step(keys: Keys, family: Family, layers: int) -> Plan:
    """Experts on every `decoder_sparse_step`-th layer except the listed dense ones; none without experts."""
    if keys.count("experts", 0) == 0:
        return ["dense"] * layers
    only_dense = set(keys.items("mlp_only_layers") or ())
    step = keys.count("decoder_sparse_step")
    return ["moe" if i not in only_dense and (i + 1) % step == 0 else "dense" for i in range(layers)]


def _expert_period(keys: Keys, family: Family, layers: int) -> Plan:
    """Experts where i mod period = offset (none when there is one expert)."""
    if keys.count("experts") == 1:
        return ["dense"] * layers
    period, offset = keys.count("expert_layer_period"), keys.count("expert_layer_offset", 0)
    return ["moe" if i % period == offset else "dense" for i in range(layers)]


def _mlp_layer_types(keys: Keys, family: Family, layers: int) -> Plan:
    return layer_list(keys, "mlp_layer_types", FEED_FORWARD_NAMES, layers)


FEED_FORWARD_RULES: dict[str, Callable[[Keys, Family, int], Plan]] = {
    "dense": lambda keys, family, layers: ["dense"] * layers,
    "moe": lambda keys, family, layers: ["moe"] * layers,
    "first_dense": _first_dense,
    "sparse_step": _sparse_step,
    "expert_period": _expert_period,
    "mlp_layer_types": _mlp_layer_types,
}


def plan(keys: Keys, family: Family, layers: int) -> list[tuple[str, str]]:
    """(mixer kind, feed-forward kind) of every layer."""
    mixers = _first_answer(keys, family, layers, family.layer_kinds, LAYER_RULES)
    feed_forwards = _first_answer(keys, family, layers, family.feed_forwards, FEED_FORWARD_RULES)
    return list(zip(mixers, feed_forwards, strict=True))


def _first_answer(
    keys: Keys,
    family: Family,
    layers: int,
    rules: list[str],
    known: dict[str, Callable[[Keys, Family, int], Plan]],
) -> list[str]:
    for rule in rules:
        if rule not in known:
            raise keys.error(f"the family record names the rule {rule!r}, which does not exist")
        answer = known[rule](keys, family, layers)
        if answer is not None:
            return answer
    raise keys.error(f"no rule of this family ({', '.join(rules)}) can tell the layers apart; a list is missing")
