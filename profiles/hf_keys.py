"""Read numbers, flags and lists from a Hugging Face `config.json`, whatever they are called there.

`Keys` looks a quantity up under every spelling seen in public configs, checks that it is a number of a
sane size, and falls back only to what the family record states (a class default of the implementation
named in that record). Anything else that is missing is an error naming the key and the file.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from infopt.errors import InfoptError
from infopt.units import whole_of

# One quantity, many names: the first spelling present wins.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "embed_dim", "model_dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "q_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_head_kv", "num_attention_groups"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "intermediate": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "max_position": (
        "max_position_embeddings",
        "n_positions",
        "n_ctx",
        "max_seq_len",
        "max_sequence_length",
        "seq_length",
        "max_seq_length",
        "model_max_length",
    ),
    "experts": (
        "num_experts",
        "num_local_experts",
        "n_routed_experts",
        "moe_num_experts",
        "num_routed_experts",
    ),
    "experts_per_token": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "moe_topk",
        "moe_top_k",
        "moe_k",
        "top_k_experts",
        "num_selected_experts",
    ),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "expert_intermediate": (
        "moe_intermediate_size",
        "expert_intermediate_size",
        "expert_ffn_hidden_size",
        "moe_ffn_hidden_size",
    ),
    "shared_intermediate": (
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
    ),
    "first_dense": ("first_k_dense_replace", "num_dense_layers", "moe_first_k_dense_replace"),
    "mtp_layers": (
        "num_nextn_predict_layers",
        "mtp_num_hidden_layers",
        "num_mtp_layers",
        "mtp_num_layers",
        "num_mtp_modules",
    ),
    "state_dim": ("mamba_d_state", "ssm_state_size", "state_size", "d_state"),
    "conv_kernel": ("mamba_d_conv", "conv_kernel", "d_conv", "linear_conv_kernel_dim"),
    "ssm_expand": ("mamba_expand", "expand"),
    "ssm_heads": ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads"),
    "ssm_head_dim": ("mamba_d_head", "mamba_head_dim", "mamba_headdim"),
    "ssm_groups": ("mamba_n_groups", "n_groups", "mamba_ngroups"),
    "ssm_inner": ("mamba_d_ssm", "mamba_intermediate_size"),
    "dt_rank": ("mamba_dt_rank", "time_step_rank"),
    "state_dtype": ("mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
    "dtype": ("torch_dtype", "dtype"),
}

# Above these a number is a damaged or hostile file, not a model.
LIMITS = {"layers": 10_000, "hidden": 10_000_000, "vocab": 100_000_000, "q_heads": 100_000, "experts": 100_000}
LIMIT = 1_000_000_000

_SHOWN = 40


class KeyRules(Protocol):
    """What a family record says about keys."""

    @property
    def defaults(self) -> Mapping[str, Any]: ...
    @property
    def fixed(self) -> Mapping[str, Any]: ...
    @property
    def keys(self) -> Mapping[str, Sequence[str]]: ...


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class Keys:
    """One config's quantities by canonical name.

    config    the decoder's own part of the file (the `text_config` of a multimodal one)
    rules     what the family record says: `defaults` for absent keys, `fixed` for quantities no key
              carries, `keys` for spellings that come before the general ones. A value may be a number, a
              flag, or an expression over other quantities: `4*hidden`, `hidden/q_heads`, `max_position+2`
    where     file and model type, for messages
    """

    def __init__(self, config: Mapping[str, Any], rules: KeyRules, where: str) -> None:
        self.config = config
        self.rules = rules
        self.where = where
        self.layer: int | None = None  # which entry of a per-layer list is meant
        self.per_layer = False  # whether any value that differs by layer was read
        self.overrides = _layer_overrides(config)
        self._evaluating: list[str] = []

    def under(self, rules: KeyRules) -> "Keys":
        """The same config read under other rules (layers of one kind may spell some quantities differently)."""
        other = copy.copy(self)
        other.rules, other._evaluating = rules, []
        return other

    def error(self, text: str) -> InfoptError:
        return InfoptError(f"{self.where}: {text}")

    def spellings(self, name: str) -> tuple[str, ...]:
        own = tuple(self.rules.keys.get(name, ()))
        return own + tuple(s for s in SPELLINGS.get(name, (name,)) if s not in own)

    def find(self, name: str) -> tuple[str, Any]:
        """The first spelling present with a value that is not null, and that value; else ('', None)."""
        if name in self.rules.fixed:
            return name, self.rules.fixed[name]
        own = (self.overrides.get(self.layer) if self.layer is not None else None) or {}
        for key in self.spellings(name):
            if key.removeprefix("layer.") in own:
                self.per_layer = True
                return key, own[key.removeprefix("layer.")]
            value: Any = self.config
            for step in key.split("."):
                value = value.get(step) if isinstance(value, Mapping) else None
            if value is not None:
                return key, value
        return "", None

    def has(self, name: str) -> bool:
        """Whether the config itself gives the quantity."""
        return self.find(name)[0] != ""

    def is_null(self, name: str) -> bool:
        """Whether the config says null, which is different from saying nothing."""
        return not self.has(name) and any(key in self.config for key in self.spellings(name))

    def count(self, name: str, least: int = 1) -> int:
        """A required whole number of at least `least`."""
        value = self.maybe(name, least, null_is_answer=False)
        if value is None:
            raise self.missing(name)
        return value

    def maybe(self, name: str, least: int = 0, null_is_answer: bool = True) -> int | None:
        """A whole number, or None when the config says null or neither it nor the family gives one."""
        key, value = self.find(name)
        if value is None:
            if null_is_answer and self.is_null(name):
                return None
            return self._default(name, least)
        if isinstance(value, list):
            value = self._entry(key, value)
            if value is None:
                return None if null_is_answer else self._default(name, least)
        if name in self.rules.fixed and isinstance(value, str):
            return self._checked(name, name, self.evaluate(value), least)
        return self._checked(name, key, value, least)

    def flag(self, name: str) -> bool:
        """A required yes or no."""
        key, value = self.find(name)
        if value is None:
            if name not in self.rules.defaults:
                raise self.missing(name)
            value = self.rules.defaults[name]
        if isinstance(value, int) and value in (0, 1):  # 1 and 0 stand for yes and no in some exports
            value = bool(value)
        if not isinstance(value, bool):
            raise self.error(f"{key or name} is {_shown(value)}, expected true or false")
        return value

    def switch(self, rule: bool | str) -> bool:
        """A family rule: a plain yes or no, or the flag that decides (`!key` where the flag means no)."""
        if isinstance(rule, bool):
            return rule
        return not self.flag(rule[1:]) if rule.startswith("!") else self.flag(rule)

    def real(self, name: str) -> float:
        """A required finite positive number."""
        key, value = self.find(name)
        value = self.rules.defaults.get(name) if value is None else value
        if value is None:
            raise self.missing(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LIMIT:
            raise self.error(f"{key or name} is {_shown(value)}, expected a positive number")
        return float(value)

    def text(self, name: str) -> str | None:
        """A word, or None when absent."""
        key, value = self.find(name)
        value = self.rules.defaults.get(name) if value is None else value
        if value is not None and not isinstance(value, str):
            raise self.error(f"{key or name} is {_shown(value)}, expected a word")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list, or None when absent."""
        key, value = self.find(name)
        if value is not None and not isinstance(value, list):
            raise self.error(f"{key} is {_shown(value)}, expected a list")
        return value

    def numbers(self, name: str) -> frozenset[int] | None:
        """A list of layer numbers, or None when absent."""
        values = self.items(name)
        if values is None:
            return None
        if not all(type(value) is int and 0 <= value <= LIMITS["layers"] for value in values):
            raise self.error(f"{self.spellings(name)[0]} is not a list of layer numbers")
        return frozenset(values)

    def missing(self, name: str) -> InfoptError:
        names = self.spellings(name)
        other = f" (or {', '.join(names[1:4])})" if len(names) > 1 else ""
        return self.error(f"{names[0]}{other} is missing and this family has no default for it; add it to the config")

    def _entry(self, key: str, values: list[Any]) -> Any:
        """The value for the current layer of a list; a list of equal values needs no layer."""
        if values and all(value == values[0] for value in values):
            return values[0]
        if self.layer is None or self.layer >= len(values):
            raise self.error(f"{key} is a list of {len(values)} values where one number is expected")
        self.per_layer = True
        return values[self.layer]

    def _checked(self, name: str, key: str, value: Any, least: int) -> int:
        if isinstance(value, float) and value.is_integer() and abs(value) < LIMIT:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"{key} is {_shown(value)}, expected a whole number")
        limit = LIMITS.get(name, LIMIT)
        if not least <= value <= limit:
            raise self.error(f"{key} is {_shown(value)}, expected {least} to {limit}")
        return value

    def _default(self, name: str, least: int) -> int | None:
        rule = self.rules.defaults.get(name)
        if rule is None:
            return None
        value = self.evaluate(rule) if isinstance(rule, str) else rule
        return self._checked(name, name, value, least)

    def evaluate(self, expression: str | int) -> int:
        """A sum of products over quantities: `2*hidden*laurel_rank-4`; `/` must divide exactly."""
        text = str(expression)
        if text in self._evaluating or len(self._evaluating) > 8:
            raise self.error(f"the family's rule {text!r} refers to itself")
        self._evaluating.append(text)
        total = 0
        for term in text.replace("-", "+-").split("+"):
            total += -self._product(term[1:]) if term.startswith("-") else self._product(term)
        self._evaluating.pop()
        return total

    def _product(self, term: str) -> int:
        above, *below = term.strip().split("/")
        value = 1
        for factor in above.split("*"):
            value *= self._atom(factor)
        for factor in below:
            by = self._atom(factor)
            if by == 0 or value % by:
                raise self.error(f"{above} is {value}, not a multiple of {factor} {by}")
            value //= by
        return value

    def _atom(self, text: str) -> int:
        number = whole_of(text)
        return self.count(text.strip(), 0) if number is None else number


def _layer_overrides(config: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Values that hold for one layer only (`per_layer_config`, keyed by layer number as text)."""
    given = config.get("per_layer_config")
    if not isinstance(given, Mapping):
        return {}
    numbered = ((whole_of(str(key)), value) for key, value in given.items())
    return {layer: value for layer, value in numbered if layer is not None and isinstance(value, Mapping)}
