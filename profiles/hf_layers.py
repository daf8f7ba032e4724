"""Which mixer and which feed-forward each layer has: a few rules that families name in their records.

A rule answers for all layers, or None where the config lacks what it reads; a family lists the rules it uses
in order, and the first answer counts.
"""

from collections.abc import Callable, Mapping

from infopt.profiles.families import Family
from infopt.profiles.hf_keys import LIMITS, Keys
from infopt.units import whole_of

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
    "indexed_attention": "full",
    "minimax_m3_sparse": "sparse",
    "compressed_sparse_attention": "compressed_sparse",
    "heavily_compressed_attention": "compressed_heavy",
}
FEED_FORWARD_NAMES = {"dense": "dense", "sparse": "moe", "moe": "moe"}
# Layers that are one block each: its mixer and its feed-forward.
BLOCKS = {
    "mamba": ("recurrent", "none"),
    "linear_attention": ("recurrent", "none"),
    "attention": ("full", "none"),
    "full_attention": ("full", "none"),
    "mlp": ("none", "dense"),
    "moe": ("none", "moe"),
    "M": ("recurrent", "none"),
    "*": ("full", "none"),
    "-": ("none", "dense"),
    "E": ("none", "moe"),
}


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
    return layer_list(keys, "layer_types", KIND_NAMES, layers)


def _window_if_set(keys: Keys, family: Family, layers: int) -> Plan:
    """All layers windowed when a window is given that is shorter than the longest sequence."""
    window, limit = keys.maybe("sliding_window"), keys.maybe("max_position")
    cuts = window and not (limit and window >= limit)
    return ["window" if cuts else "full"] * layers


def _window_if_used(keys: Keys, family: Family, layers: int) -> Plan:
    """All layers windowed when a window is given and `use_sliding_window` turns it on."""
    return _window_if_set(keys, family, layers) if keys.flag("use_sliding_window") else ["full"] * layers


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


def _blocks(keys: Keys, which: int, layers: int) -> Plan:
    """One block a layer, from `layers_block_type` or the letters of `hybrid_override_pattern`."""
    values: list[object] = list(keys.items("layers_block_type") or keys.text("hybrid_override_pattern") or ())
    if not values:
        return None
    if len(values) != layers:
        raise keys.error(f"the block pattern has {len(values)} entries for {layers} layers")
    kinds = {name: pair[which] for name, pair in BLOCKS.items()}
    return named(keys, kinds, values, "the block pattern")


def _no_rope(keys: Keys, family: Family, layers: int) -> Plan:
    """Chunked where rotary positions are used, full on every n-th layer."""
    if keys.maybe("attention_chunk_size") is None:
        return ["full"] * layers
    if keys.items("no_rope_layers"):
        return layer_list(keys, "no_rope_layers", {"1": "chunked", "0": "full"}, layers)
    return every_nth(layers, keys.count("no_rope_layer_interval"), "chunked")


def _flags(keys: Keys, name: str, zero: str, one: str, layers: int) -> Plan:
    return layer_list(keys, name, {"0": zero, "1": one}, layers)


def _delta_lists(keys: Keys, family: Family, layers: int) -> Plan:
    """Full layers by number, counted from 1; the others recurrent."""
    numbers = keys.numbers("linear_attn_config.full_attn_layers")
    if numbers is None:
        return None
    return ["full" if i + 1 in numbers else "recurrent" for i in range(layers)]


def _attention_indices(keys: Keys, family: Family, layers: int) -> Plan:
    """Attention on the listed layers (counted from 0), recurrent elsewhere."""
    listed = keys.numbers("attn_layer_indices") or keys.numbers("full_attn_idxs") or frozenset()
    return ["full" if i in listed else "recurrent" for i in range(layers)]


def _attention_types(keys: Keys, family: Family, layers: int) -> Plan:
    """`attention_types`: [[kinds, repeats], ...]."""
    names: list[object] = []
    for entry in keys.items("attention_types") or ():
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], list)):
            raise keys.error("attention_types is not a list of [kinds, repeats]")
        if type(entry[1]) is not int or not 0 < entry[1] * len(entry[0]) <= layers:
            raise keys.error(f"attention_types repeats {str(entry[1])[:20]} times for {layers} layers")
        names += entry[0] * entry[1]
    if len(names) != layers:
        raise keys.error(f"attention_types names {len(names)} layers of {layers}")
    return named(keys, KIND_NAMES, names, "attention_types")


def _index_types(keys: Keys, family: Family, layers: int) -> Plan:
    """Layers with an index of their own (`full`), and layers that use an earlier layer's."""
    return layer_list(keys, "indexer_types", {"full": "full", "shared": "borrowed_index"}, layers)


def _compress_ratios(keys: Keys, family: Family, layers: int) -> Plan:
    """`compress_ratios`: 0 for a window only, else the tokens per cached vector."""
    names = {
        "0": "window",
        str(keys.count("csa_rate")): "compressed_sparse",
        str(keys.count("hca_rate")): "compressed_heavy",
    }
    return layer_list(keys, "compress_ratios", names, layers)


def _block_configs(keys: Keys, layers: int, part: str, kind: str) -> Plan:
    """`block_configs`: each layer's attention and feed-forward as is, replaced by one matrix, or left out."""
    blocks = keys.items("block_configs")
    if not blocks or len(blocks) != layers:
        raise keys.error(f"block_configs has {len(blocks or ())} entries for {layers} layers")
    plan = []
    for block in blocks:
        half = block.get(part) if isinstance(block, Mapping) else None
        if not isinstance(half, Mapping):
            raise keys.error(f"block_configs has an entry without {part}")
        plan.append("none" if half.get("no_op") else "linear" if half.get("replace_with_linear") else kind)
    return plan


LAYER_RULES: dict[str, Callable[[Keys, Family, int], Plan]] = {
    "full": lambda keys, family, layers: ["full"] * layers,
    "recurrent": lambda keys, family, layers: ["recurrent"] * layers,
    "layer_types": _layer_types,
    "window_if_set": _window_if_set,
    "window_if_used": _window_if_used,
    "upper_windows": _upper_windows,
    "window_period": _window_period,
    "recurrent_period": _recurrent_period,
    "attention_period": _attention_period,
    "blocks": lambda keys, family, layers: _blocks(keys, 0, layers),
    "no_rope": _no_rope,
    "lightning_flags": lambda keys, family, layers: _flags(keys, "attn_type_list", "recurrent", "full", layers),
    "window_flags": lambda keys, family, layers: _flags(keys, "hybrid_layer_pattern", "full", "window", layers),
    "sparse_flags": lambda keys, family, layers: _flags(
        keys, "sparse_attention_config.sparse_attention_freq", "full", "sparse", layers
    ),
    "delta_lists": _delta_lists,
    "attention_indices": _attention_indices,
    "attention_types": _attention_types,
    "index_types": _index_types,
    "compress_ratios": _compress_ratios,
    "block_list": lambda keys, family, layers: layer_list(keys, "layers_block_type", KIND_NAMES, layers),
    "alternate_full_first": lambda keys, family, layers: every_nth(layers, 2, "full", "recurrent"),
    "block_configs": lambda keys, family, layers: _block_configs(keys, layers, "attention", "full"),
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
    only_dense = keys.numbers("mlp_only_layers") or frozenset()
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


def _moe_flags(keys: Keys, family: Family, layers: int) -> Plan:
    """`moe_layer_freq` as a list of 0 and 1."""
    if not isinstance(keys.find("moe_layer_freq")[1], list):
        return None
    return _flags(keys, "moe_layer_freq", "dense", "moe", layers)


def _interleaved(keys: Keys, family: Family, layers: int) -> Plan:
    """Experts on the listed layers, else on every `interleave_moe_layer_step`-th."""
    listed = keys.numbers("moe_layers")
    if listed is not None:
        return ["moe" if i in listed else "dense" for i in range(layers)]
    step = keys.count("interleave_moe_layer_step", 0)
    return every_nth(layers, step, "dense", "moe") if step else ["dense"] * layers


def _moe_span(keys: Keys, family: Family, layers: int) -> Plan:
    """Experts on every n-th layer from a first to a last one."""
    first, step = keys.count("moe_layer_start_index", 0), keys.count("moe_layer_interval")
    _, value = keys.find("moe_layer_end_index")
    last = layers - 1 if value in (None, -1) else keys.count("moe_layer_end_index", 0)
    return ["moe" if first <= i <= last and (i + 1) % step == 0 else "dense" for i in range(layers)]


def _hash_layers(keys: Keys, family: Family, layers: int) -> Plan:
    """Experts everywhere; the first layers choose them by a table over the vocabulary."""
    first = keys.count("num_hash_layers", 0)
    return ["moe_hash" if i < first else "moe" for i in range(layers)]


def _moe_listed(keys: Keys, family: Family, layers: int) -> Plan:
    """`moe_layers_enum`: layer numbers as text, separated by commas; without it all but the first."""
    text = keys.text("moe_layers_enum")
    if text is None:
        return None
    listed = {whole_of(part) for part in text.split(",")}
    return ["moe" if i in listed else "dense" for i in range(layers)]


FEED_FORWARD_RULES: dict[str, Callable[[Keys, Family, int], Plan]] = {
    "dense": lambda keys, family, layers: ["dense"] * layers,
    "moe": lambda keys, family, layers: ["moe"] * layers,
    "first_dense": _first_dense,
    "sparse_step": _sparse_step,
    "expert_period": _expert_period,
    "mlp_layer_types": _mlp_layer_types,
    "blocks": lambda keys, family, layers: _blocks(keys, 1, layers),
    "moe_flags": _moe_flags,
    "interleaved": _interleaved,
    "moe_span": _moe_span,
    "moe_listed": _moe_listed,
    "hash_layers": _hash_layers,
    "moe_every_second": lambda keys, family, layers: [("dense" if i % 2 else "moe") for i in range(layers)],
    "none": lambda keys, family, layers: ["none"] * layers,
    "block_configs": lambda keys, family, layers: _block_configs(keys, layers, "ffn", "dense"),
}


def layer_count(keys: Keys, family: Family) -> int:
    """Decoder layers: the config's number, or the length of the list that names them."""
    number = keys.maybe("layers", least=1)
    if number is None:
        listed = keys.items("layers_block_type") or keys.items("layer_types") or keys.items("block_configs")
        pattern = keys.text("hybrid_override_pattern")
        number = len(listed or pattern or ()) or None
    if number is None:
        raise keys.missing("layers")
    if number > LIMITS["layers"]:
        raise keys.error(f"{number} layers, expected at most {LIMITS['layers']}")
    return number * family.sublayers


def layer_plan(keys: Keys, family: Family, layers: int) -> list[tuple[str, str]]:
    """(mixer kind, feed-forward kind) of every layer."""
    mixers = _first_answer(keys, family, layers, family.layer_kinds, LAYER_RULES)
    feed_forwards = _first_answer(keys, family, layers, family.feed_forwards, FEED_FORWARD_RULES)
    if family.last_full:
        mixers[-1] = "full"
    if family.shared_cache:
        mixers = _share_cache(keys, mixers)
    if family.wide_when_shared is not None and keys.switch(family.wide_when_shared):
        shared = [kind.startswith("shared") for kind in mixers]
        wide = {"dense": "wide", "moe": "moe_wide"}
        feed_forwards = [wide[kind] if own else kind for own, kind in zip(shared, feed_forwards, strict=True)]
    return list(zip(mixers, feed_forwards, strict=True))


def _share_cache(keys: Keys, mixers: list[str]) -> list[str]:
    """The last `num_kv_shared_layers` layers read the cache of an earlier layer of their kind."""
    first = len(mixers) - keys.count("num_kv_shared_layers", 0)
    names = {"full": "shared", "window": "shared_window"}
    return [names.get(kind, kind) if i >= first else kind for i, kind in enumerate(mixers)]


def norm_width(keys: Keys, record: Family) -> int:
    """Parameters of one norm: a weight, and a bias where the family has one."""
    hidden = keys.count("hidden")
    if record.norm == "none":
        return 0
    return 2 * hidden if record.norm == "layer" and keys.switch(record.norm_bias) else hidden


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
