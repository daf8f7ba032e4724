"""Units that decoding sequences take as their answers grow, known for many steps ahead.

A sequence of L cached tokens takes a block in the step at which L is a multiple of the block. All decoding sequences
grow by one token a step, so which of them take one at step S depends on (S - L) modulo the block alone. Where every
block takes as many units (`Even`) it is enough to count them; elsewhere (`Uneven`: windows, several block sizes) each
sequence that crosses a block is asked.
"""

from collections.abc import Callable
from typing import Protocol

from infopt.simulation.sequence import Sequence
from infopt.simulation.setup import Cache


class Growth(Protocol):
    """Decoding sequences by the step at which they cross a block."""

    def add(self, one: Sequence, step: int) -> None: ...
    def remove(self, one: Sequence) -> None: ...
    def needed(self, step: int, steps: int) -> int:
        """Units that `steps` steps from `step` on take."""
        ...

    def most_steps(self, step: int, steps: int, available: int) -> int:
        """How many of those steps can be made with the units available."""
        ...


class Units:
    """Units by tokens, each number of blocks computed once."""

    def __init__(self, units: Callable[[int], int], block_tokens: int) -> None:
        self.units = units
        self.block_tokens = block_tokens
        self.table = [0]

    def __call__(self, tokens: int) -> int:
        blocks = -(-tokens // self.block_tokens)
        while len(self.table) <= blocks:
            self.table.append(self.units(len(self.table) * self.block_tokens))
        return self.table[blocks]


class Even:
    """Every block takes as many units."""

    def __init__(self, block_tokens: int, units: int) -> None:
        self.block_tokens = block_tokens
        self.units = units
        self.crossing = [0] * block_tokens
        self.count = 0

    def add(self, one: Sequence, step: int) -> None:
        self.crossing[(step - one.computed_tokens) % self.block_tokens] += 1
        self.count += 1

    def remove(self, one: Sequence) -> None:
        self.crossing[(one.joined_step - one.computed_tokens) % self.block_tokens] -= 1
        self.count -= 1

    def needed(self, step: int, steps: int) -> int:
        whole, rest = divmod(steps, self.block_tokens)
        first = step % self.block_tokens
        over = max(0, first + rest - self.block_tokens)
        crossing = sum(self.crossing[first : first + rest]) + sum(self.crossing[:over])
        return self.units * (whole * self.count + crossing)

    def most_steps(self, step: int, steps: int, available: int) -> int:
        block = self.block_tokens
        if self.units * self.count * (steps // block + 1) <= available:
            return steps
        if not self.count or not self.units:
            return steps
        left = available // self.units
        done = left // self.count * block
        left -= done // block * self.count
        while done < steps:
            left -= self.crossing[(step + done) % block]
            if left < 0:
                break
            done += 1
        return min(done, steps)


class Uneven:
    """What a block takes depends on how long the sequence is."""

    def __init__(self, units: Units) -> None:
        self.units = units
        self.block_tokens = units.block_tokens
        self.crossing: list[dict[Sequence, None]] = [{} for _ in range(self.block_tokens)]

    def add(self, one: Sequence, step: int) -> None:
        self.crossing[(step - one.computed_tokens) % self.block_tokens][one] = None

    def remove(self, one: Sequence) -> None:
        del self.crossing[(one.joined_step - one.computed_tokens) % self.block_tokens][one]

    def needed(self, step: int, steps: int) -> int:
        return sum(self._at(step + k) for k in range(steps))

    def most_steps(self, step: int, steps: int, available: int) -> int:
        for done in range(steps):
            available -= self._at(step + done)
            if available < 0:
                return done
        return steps

    def _at(self, step: int) -> int:
        taken = 0
        for one in self.crossing[step % self.block_tokens]:
            tokens = one.computed_tokens + step - one.joined_step
            taken += self.units(tokens + 1) - self.units(tokens)
        return taken


def growth_of(cache: Cache, units: Units) -> Growth:
    """How the sequences of a cache grow, given their units while they decode."""
    even = cache.even
    return Even(cache.block_tokens, even[1]) if even else Uneven(units)
