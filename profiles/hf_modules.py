"""Which matrices a checkpoint's patterns name: module names a config lists, matched against the layers we counted.

Families name their modules differently, so a layer's matrices are tried under every usual name, and what comes
before the layer number (`model.`, `model.language_model.`, ...) is dropped on both sides.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate

from infopt.frozen import dataclass
from infopt.profiles.geometry import LayerRun, Mixer
from infopt.profiles.hf_keys import Keys

MAX_PATTERNS = 200_000
MAX_GENERAL_PATTERNS = 64
MAX_TRIES = 10_000  # general patterns times layers
MAX_REPEATS = 4  # of * and + in one expression: what bounds the time a match can take
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)(?=$|[.*])")
_WRAPPERS = ("model.language_model.", "language_model.model.", "language_model.", "model.", "backbone.", "")

_INPUTS = (
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.qkv_proj", "self_attn.q_a_proj",
    "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj", "attn.wq_b", "mixer.q_proj",
    "mixer.k_proj", "attention.query_key_value",
)  # fmt: skip
_OUTPUTS = ("self_attn.o_proj", "attn.wo_b", "mixer.o_proj", "attention.dense")
_RECURRENT_INPUTS = (
    "linear_attn.in_proj_qkvz", "linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "mixer.in_proj", "mamba.in_proj",
    "self_attn.q_proj", "conv.in_proj",
)  # fmt: skip
_RECURRENT_OUTPUTS = (
    "linear_attn.out_proj",
    "mixer.out_proj",
    "mamba.out_proj",
    "self_attn.o_proj",
    "conv.out_proj",
)
_DENSE = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "feed_forward.up_proj", "mixer.up_proj", "ffn.w1")
_EXPERTS = (
    "mlp.experts.0.gate_proj", "mlp.experts", "block_sparse_moe.experts.0.w1", "block_sparse_moe.experts",
    "mixer.experts.0.up_proj", "mixer.experts", "feed_forward.experts", "ffn.experts", "experts",
)  # fmt: skip
_SHARED = (
    "mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj", "mixer.shared_experts.up_proj",
    "feed_forward.shared_expert.gate_proj", "block_sparse_moe.shared_experts.gate_proj", "shared_mlp.input_linear",
    "ffn.shared_experts.w1",
)  # fmt: skip
_INDEXER = ("self_attn.indexer.wq_b",)


@dataclass(frozen=True, slots=True)
class Unit:
    """Matrices that patterns keep or convert together: their part, size, and the names they may have."""

    part: str
    params: int
    names: tuple[str, ...]


def layer_units(
    runs: tuple[LayerRun, ...], hidden: int, lists: Sequence["Patterns"], named: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, tuple[Unit, ...]]]:
    """(how many layers, their groups of matrices): layers that no list tells apart come together.

    named  a family's own module names by part, which replace the usual ones
    """
    first = 0
    for run in runs:
        groups = [(part, params, tuple(named.get(part, usual))) for part, params, usual in _layer_groups(run, hidden)]
        numbers = range(first, first + run.layers)
        apart = sorted(n for n in numbers if any(patterns.tells_apart(n) for patterns in lists))
        alike = run.layers - len(apart)
        if alike:
            told = set(apart)
            yield alike, _numbered(groups, next(n for n in numbers if n not in told))
        for number in apart:
            yield 1, _numbered(groups, number)
        first += run.layers


def _numbered(groups: list[tuple[str, int, tuple[str, ...]]], number: int) -> tuple[Unit, ...]:
    return tuple(
        Unit(part, params, tuple(f"layers.{number}.{name}" for name in names)) for part, params, names in groups
    )


def other_units(layers: int, head_params: int, mtp_params: int) -> tuple[Unit, ...]:
    """Matrices outside the layers: the head, and what multi-token prediction adds."""
    head = Unit("head", head_params, ("lm_head", "head", "output_layer"))
    mtp = Unit("mtp", mtp_params, ("mtp.layers.0.mlp", f"layers.{layers}.mlp.experts", "mtp_layers.0.mlp"))
    return tuple(unit for unit in (head, mtp) if unit.params)


def _layer_groups(run: LayerRun, hidden: int) -> list[tuple[str, int, tuple[str, ...]]]:
    ff, mixer = run.feed_forward, run.mixer
    out = min(output_params(mixer, hidden), mixer.linear_params)
    recurrent = mixer.kind == "recurrent"
    groups = [
        ("attention", mixer.linear_params - out, _RECURRENT_INPUTS if recurrent else _INPUTS),
        ("attention", out, _RECURRENT_OUTPUTS if recurrent else _OUTPUTS),
        ("indexer", mixer.indexer_params, _INDEXER),
        ("mlp", ff.mlp_params, _DENSE),
        ("expert", ff.experts * ff.expert_params, _EXPERTS),
        ("shared_expert", ff.shared_params, _SHARED),
    ]
    return [group for group in groups if group[1]]


def output_params(mixer: Mixer, hidden: int) -> int:
    """The output projection, as far as the head shape tells."""
    return mixer.q_heads * mixer.v_dim * hidden


class Patterns:
    """A list of module patterns, ready to be asked about names.

    Plain names and names ending in `*` are looked up; regular expressions (`re:`) and other globs are few, and
    bounded, so that no list can cost more than its length.
    """

    def __init__(self, patterns: Iterable[object], keys: Keys) -> None:
        self._keys = keys
        self._exact: set[str] = set()
        self._stems: dict[str, list[str]] = {}
        self._words: set[str] = set()
        self._general: list[re.Pattern[str]] = []
        self._numbers: set[int] = set()  # layers that a pattern names
        self._every_layer = False  # a pattern that may name any of them
        for count, pattern in enumerate(patterns):
            if not isinstance(pattern, str) or len(pattern) > 300 or count > MAX_PATTERNS:
                raise keys.error("quantization_config lists something that is not a module name")
            self._add(pattern)

    def __bool__(self) -> bool:
        return bool(self._exact or self._stems or self._words or self._general)

    def _add(self, pattern: str) -> None:
        if pattern.startswith("re:"):
            self._add_general(pattern[3:])
            return
        name, star = pattern.rstrip("*").rstrip("."), pattern.endswith("*")
        if "*" in name or "[" in name or "?" in name:
            self._add_general(translate(pattern))
            return
        name = bare(name)
        self._note_layer(name, star)
        if "." not in name and not star:
            self._words.add(name)
        elif star and not pattern.rstrip("*").endswith("."):
            parent, _, last = name.rpartition(".")
            self._stems.setdefault(parent, []).append(last)
        else:
            self._exact.add(name)

    def _note_layer(self, name: str, star: bool) -> None:
        parts = name.split(".")
        if parts[0] == "layers":
            partial = star and len(parts) == 2  # `layers.1*` is layer 10 as well
            self._every_layer |= partial
            self._numbers.add(int(parts[1]))

    def tells_apart(self, number: int) -> bool:
        """Whether the list may treat a layer differently from its neighbours."""
        return self._every_layer or number in self._numbers

    def refuse_costly(self, layers: int) -> None:
        """Expressions that may tell every layer apart are tried on each: too many are refused."""
        if len(self._general) * layers > MAX_TRIES:
            raise self._keys.error(
                f"{len(self._general)} module patterns for {layers} layers are more than infopt reads"
            )

    def _add_general(self, expression: str) -> None:
        repeats = sum(expression.count(sign) for sign in "*+{")
        if len(self._general) >= MAX_GENERAL_PATTERNS or repeats > MAX_REPEATS or re.search(r"\)[*+{]", expression):
            raise self._keys.error(f"module pattern {expression[:60]!r} is more complicated than infopt reads")
        self._every_layer |= bool(re.search(r"\d", expression.replace("(?s:", "").replace("\\Z", "")))
        try:
            self._general.append(re.compile(expression))
        except re.error as error:
            raise self._keys.error(f"module pattern {expression[:60]!r} is not readable: {error}") from error

    def match(self, unit: Unit) -> bool:
        """Whether any pattern names any of the unit's matrices."""
        return any(self._names(name) for name in unit.names)

    def _names(self, name: str) -> bool:
        parts = name.split(".")
        if not self._words.isdisjoint(parts):
            return True
        for depth, last in enumerate(parts):
            parent = ".".join(parts[:depth])
            path = f"{parent}.{last}" if parent else last
            if path in self._exact or any(last.startswith(stem) for stem in self._stems.get(parent, ())):
                return True
        return any(p.match(wrapper + name) for p in self._general for wrapper in _WRAPPERS)


def bare(name: str) -> str:
    """The name without what families put before the layer number or the module."""
    layer = _LAYER.search(name)
    if layer and not name.startswith("mtp"):
        return f"layers.{layer.group(1)}{name[layer.end(1) :]}"
    for wrapper in _WRAPPERS:
        if wrapper and name.startswith(wrapper):
            return name[len(wrapper) :]
    return name
