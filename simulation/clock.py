"""Clocks of a replica: the project's own estimate, compiled to plain numbers; and a fixed one.

    decode(B, c) = max(r (a + b c), max(1, r) (a' + b' c))      a, b of the step and a', b' of its floor, for every B
    chunk(n, m)  = r max(0, k + u n + v n (m + n / 2))            a prompt token attends to m + n / 2 others on average
    delay        = max(0, q first token alone - r own steps)
r, q  ratios of times to the expected ones, 1 but at the ends of an interval
Where a cache or a prompt does not follow these forms (windows, attention to chosen tokens), the ledger is asked, and
what it says of prompts is kept. Equations and sources: ledgers/mixed_step.py.
"""

from collections.abc import Callable
from functools import lru_cache, partial

from infopt.frozen import dataclass
from infopt.ledgers.mixed_step import (
    MixedStep,
    decode_parts_s,
    first_token_alone_s,
    own_steps_s,
    piece_s,
    prompt_step_s,
)

# Context at which, beside none, a line is taken: as exact as its ends in between.
FAR_TOKENS = 2**20
# Prompt pieces (new, cached) at which a form is fitted and must hold; of it no more than rounding may be missing.
SHORT, LONG, BEHIND = (2**5, 0), (2**15, 0), (2**10, 2**17)
PLACES = ((1, 0), (3, 7), (64, 1024), (1000, 0), (300, 5000), (8192, 0), (2048, 131_072))
SAME_RATIO = 1e-9

OfPrompt = Callable[[int, int], float]


@dataclass(frozen=True, slots=True)
class FixedClock:
    """Every step takes as long: a request of n output tokens takes n steps where nobody else waits."""

    step_s: float

    @property
    def linear(self) -> bool:
        return True

    def decode_s(self, sequences: int, context_tokens: float) -> float:
        return self.step_s

    def chunk_s(self, new_tokens: int, cached_tokens: int) -> float:
        return 0.0

    def prompt_step_s(self, prompts: int) -> float:
        return self.step_s

    def first_token_delay_s(self, input_tokens: int, cached_tokens: int) -> float:
        return 0.0


class EstimateClock:
    """The estimate of a placement.

    step_ratio   of every step to what is expected
    first_ratio  of the first token of a prompt alone to what is expected
    """

    __slots__ = ("_cache_is_line", "_decoding", "_delays", "_piece", "first_ratio", "linear", "mixed", "step_ratio")

    def __init__(self, mixed: MixedStep, step_ratio: float = 1.0, first_ratio: float = 1.0) -> None:
        self.mixed = mixed
        self.step_ratio = step_ratio
        self.first_ratio = first_ratio
        stages = mixed.clock.shape.stages
        self._cache_is_line = not any(stage.cache.windows or stage.sparse for stage in stages)
        self._decoding: dict[int, tuple[float, float, float, float]] = {}
        self._delays: dict[tuple[int, int], float] = {}
        self._piece = _form_of(partial(_piece_s, mixed)) or _kept(partial(_piece_s, mixed))
        self.linear = self._is_linear()

    def __reduce__(self) -> tuple[type["EstimateClock"], tuple[MixedStep, float, float]]:
        return EstimateClock, (self.mixed, self.step_ratio, self.first_ratio)

    def _is_linear(self) -> bool:
        """Whether the cache is a line, and no line of the floor crosses that of the step."""
        curve = self.mixed.clock.constants.weight_curve or [[1.0, 1.0]]
        counts = {1, *(int(tokens) for tokens, _ in curve), 2 * int(curve[-1][0]) + 1}
        return self._cache_is_line and all(self._is_one_line(count) for count in counts)

    def _is_one_line(self, sequences: int) -> bool:
        at, per_token, floor, floor_per_token = self._line(sequences)
        return (at - floor) * (per_token - floor_per_token) >= 0

    def decode_s(self, sequences: int, context_tokens: float) -> float:
        if not self._cache_is_line:
            step_s, floor_s = decode_parts_s(self.mixed, sequences, context_tokens)
            return max(self.step_ratio * float(step_s), max(1.0, self.step_ratio) * float(floor_s))
        line = self._decoding.get(sequences) or self._line(sequences)
        step_s = line[0] + line[1] * context_tokens
        floor_s = line[2] + line[3] * context_tokens
        return step_s if step_s > floor_s else floor_s

    def _line(self, sequences: int) -> tuple[float, float, float, float]:
        """Seconds at no context and for each token of it, of the step and of its floor."""
        near, far = (decode_parts_s(self.mixed, sequences, context) for context in (0, FAR_TOKENS))
        ratios = (self.step_ratio, max(1.0, self.step_ratio))
        (at, per), (floor, floor_per) = (
            (ratio * float(low), ratio * float(high - low) / FAR_TOKENS)
            for ratio, low, high in zip(ratios, near, far, strict=True)
        )
        self._decoding[sequences] = at, per, floor, floor_per
        return at, per, floor, floor_per

    def chunk_s(self, new_tokens: int, cached_tokens: int) -> float:
        piece_s = self.step_ratio * self._piece(new_tokens, cached_tokens)
        return piece_s if piece_s > 0.0 else 0.0

    def prompt_step_s(self, prompts: int) -> float:
        return self.step_ratio * float(prompt_step_s(self.mixed, prompts))

    def first_token_delay_s(self, input_tokens: int, cached_tokens: int) -> float:
        key = input_tokens, cached_tokens
        if key not in self._delays:
            alone_s = self.first_ratio * first_token_alone_s(self.mixed, *key)
            self._delays[key] = max(0.0, alone_s - self.step_ratio * own_steps_s(self.mixed, *key))
        return self._delays[key]


def _piece_s(mixed: MixedStep, new_tokens: int, cached_tokens: int) -> float:
    return float(piece_s(mixed, new_tokens, cached_tokens))


def _form_of(piece: OfPrompt) -> OfPrompt | None:
    """k + u n + v n (m + n / 2) where that is what it is, else None."""
    (new, cached) = BEHIND
    per_pair = (piece(new, cached) - piece(new, 0)) / new / cached
    short, long = (piece(n, 0) - per_pair * n * n / 2 for n, _ in (SHORT, LONG))
    per_token = (long - short) / (LONG[0] - SHORT[0])
    fixed = short - per_token * SHORT[0]
    form = partial(_form_s, fixed, per_token, per_pair)
    scale = [piece(n, m) for n, m in PLACES]
    same = all(
        abs(form(n, m) - one) <= SAME_RATIO * (abs(one) + abs(fixed)) for (n, m), one in zip(PLACES, scale, strict=True)
    )
    return form if same else None


def _form_s(fixed_s: float, token_s: float, pair_s: float, new_tokens: int, cached_tokens: int) -> float:
    return fixed_s + new_tokens * (token_s + pair_s * (cached_tokens + new_tokens / 2))


def _kept(piece: OfPrompt) -> OfPrompt:
    """The same, each answer kept."""
    return lru_cache(maxsize=None)(piece)
