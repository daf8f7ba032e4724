"""Per-layer widths of `block_configs` (DeciLM): each layer its own key-value heads and feed-forward width."""

from collections.abc import Mapping
from typing import Any

from infopt.profiles.hf_keys import LIMIT, Keys

_ROUNDED_TO = 256  # DeciLM rounds a feed-forward's width up to this


def block_overrides(keys: Keys) -> dict[int, Mapping[str, Any]]:
    """What each block says, in the usual keys: `n_heads_in_group` query heads share a key-value head; the width is
    2/3 of `ffn_mult` x H rounded up.
    """
    blocks = keys.items("block_configs")
    if not blocks:
        return {}
    q, hidden = keys.count("q_heads"), keys.count("hidden")
    return {i: _override(keys, block, q, hidden) for i, block in enumerate(blocks)}


def _override(keys: Keys, block: Any, q: int, hidden: int) -> Mapping[str, Any]:
    attention = block.get("attention") if isinstance(block, Mapping) else None
    ffn = block.get("ffn") if isinstance(block, Mapping) else None
    if not isinstance(attention, Mapping) or not isinstance(ffn, Mapping):
        raise keys.error("block_configs has an entry without attention and ffn")
    if attention.get("window_length") is not None:
        raise keys.error("block_configs has a windowed layer, which infopt does not read yet")
    own: dict[str, Any] = {}
    group, mult = attention.get("n_heads_in_group"), ffn.get("ffn_mult")
    if group is not None:
        if type(group) is not int or group < 1 or q % group:
            raise keys.error(f"block_configs: n_heads_in_group {str(group)[:20]} does not divide {q} heads")
        own["num_key_value_heads"] = q // group
    if mult is not None:
        if isinstance(mult, bool) or not isinstance(mult, int | float) or not 0 < mult * hidden < LIMIT:
            raise keys.error(f"block_configs: ffn_mult is {str(mult)[:20]}, expected a positive number")
        width = int(2 * mult * hidden / 3)
        own["intermediate_size"] = -(-width // _ROUNDED_TO) * _ROUNDED_TO
    return own
