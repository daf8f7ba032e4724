"""Requests that wait at a replica: by priority where that counts, then in the order in which they came."""

import heapq

from infopt.simulation.sequence import Sequence


class Queue:
    """count  requests;  tokens  that they have to compute before they answer"""

    def __init__(self, by_priority: bool) -> None:
        self.by_priority = by_priority
        self.count = self.tokens = 0
        self._heap: list[tuple[int, int, Sequence]] = []

    def push(self, one: Sequence) -> None:
        # A preempted request came before all that wait, so its place is in front of them.
        heapq.heappush(self._heap, (one.arrival.priority if self.by_priority else 0, one.index, one))
        self.count += 1
        self.tokens += one.target_tokens

    def head(self) -> Sequence | None:
        """Who is next; those that left meanwhile are dropped."""
        heap = self._heap
        while heap and heap[0][2].gone:
            heapq.heappop(heap)
        return heap[0][2] if heap else None

    def pop(self) -> Sequence:
        one = heapq.heappop(self._heap)[2]
        self._less(one)
        return one

    def drop(self, one: Sequence) -> None:
        """A request that waits is given up."""
        one.gone = True
        self._less(one)

    def waiting(self) -> list[Sequence]:
        """All that wait, in order."""
        return [one for _, _, one in sorted(self._heap, key=lambda entry: entry[:2]) if not one.gone]

    def clear(self) -> None:
        """Nobody waits."""
        self._heap.clear()
        self.count = self.tokens = 0

    def _less(self, one: Sequence) -> None:
        self.count -= 1
        self.tokens -= one.target_tokens
