"""How a token is chosen from logits: the largest, or drawn at a temperature."""

from collections.abc import Sequence
from typing import Any, Literal

from infopt.probes.drafting.rejection import keep_greedy, keep_sampled, pick


class Choice:
    """Greedy at temperature 0, else p = softmax(logits / temperature); one seed, one sequence of choices."""

    def __init__(self, torch: Any, temperature: float, seed: int = 0) -> None:
        self.torch, self.temperature = torch, temperature
        self._generator = torch.Generator().manual_seed(seed)

    @property
    def name(self) -> Literal["greedy", "sampled"]:
        return "sampled" if self.temperature else "greedy"

    def reseed(self, seed: int) -> None:
        """Begin another sequence of choices."""
        self._generator.manual_seed(seed)

    def probabilities(self, logits: Any) -> Any:
        """softmax over the last axis, float32."""
        return (logits.float() / self.temperature).softmax(-1)

    def one(self, logits: Any) -> tuple[int, Any]:
        """A token from logits [vocab], and the distribution it was drawn from (None: it was the largest)."""
        if not self.temperature:
            return int(logits.argmax()), None
        p = self.probabilities(logits)
        return pick(p, self._chances(1)[0]), p

    def keep(self, logits: Any, drafted: Sequence[int], q: Any) -> tuple[int, int]:
        """How many drafted tokens stay and the token behind them, from logits [n + 1, vocab]."""
        if not self.temperature:
            return keep_greedy(logits.argmax(-1).tolist(), drafted)
        return keep_sampled(self.probabilities(logits), drafted, q, self._chances(len(drafted) + 1))

    def _chances(self, count: int) -> list[float]:
        numbers: list[float] = self.torch.rand(count, generator=self._generator, dtype=self.torch.float64).tolist()
        return numbers
