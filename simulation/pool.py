"""The cache pool of a replica: units in use, units of ended requests that may be found again, and the free ones.

    available = free + idle
A request takes units as it grows. With prefix caching its blocks stay idle when it ends, the end of the request to be
given up before its beginning, and are given up in the order in which they were last used when others need room; blocks
without a name (answers, the rest of a prompt) stay as long and are never found. A block in use is shared, not copied.
Ignored: an answer that is part of a later prompt is not found; a preempted request finds again only named blocks; a
second copy of a block (two requests that computed it at once) has no name, and is not found when the first is gone.
Source: vLLM v1/core/kv_cache_manager.py, v1/core/block_pool.py (free queue in order of last use, tail blocks first).
"""

from collections import OrderedDict
from collections.abc import Sequence as Ordered


class Pool:
    """Units of one replica.

    unit_of_entry  units of one named block
    """

    def __init__(self, capacity: int, unit_of_entry: int, keeps: bool) -> None:
        self.capacity = capacity
        self.free = capacity
        self.idle_units = 0
        self.unit_of_entry = unit_of_entry
        self.keeps = keeps
        self._used: dict[int, int] = {}
        self._idle: OrderedDict[int, int] = OrderedDict()
        self._nameless = -1

    @property
    def available(self) -> int:
        """Units that a request may take."""
        return self.free + self.idle_units

    @property
    def used(self) -> int:
        """Units that running requests hold."""
        return self.capacity - self.free - self.idle_units

    def found(self, names: Ordered[int]) -> int:
        """How many of these blocks, from the first on, are there."""
        if not self.keeps:
            return 0
        used, idle = self._used, self._idle
        for count, name in enumerate(names):
            if name not in used and name not in idle:
                return count
        return len(names)

    def idle_of(self, names: Ordered[int]) -> int:
        """Units that are idle now and would be in use if these blocks were."""
        return sum(self.unit_of_entry for name in names if name in self._idle)

    def take(self, units: int) -> None:
        """Units that are known to be available, from the free ones first, then from those unused for longest."""
        self.free -= units
        idle = self._idle
        while self.free < 0 and idle:
            name, held = idle.popitem(last=False)
            if name < 0 and held > -self.free:  # nameless blocks are given up one by one
                idle[name] = held + self.free
                idle.move_to_end(name, last=False)
                held = -self.free
            self.idle_units -= held
            self.free += held

    def refer(self, names: Ordered[int]) -> None:
        """Blocks that were found come into use."""
        for name in names:
            users = self._used.get(name, 0)
            if not users:
                self.idle_units -= self._idle.pop(name)
            self._used[name] = users + 1

    def name(self, name: int) -> bool:
        """Give a block in use its name; False where another block already has it."""
        if not self.keeps or name in self._used or name in self._idle:
            return False
        self._used[name] = 1
        return True

    def release(self, names: Ordered[int], nameless_units: int) -> None:
        """A request gives up its blocks; the end of it becomes idle before its beginning."""
        if not self.keeps:
            self.free += nameless_units
            return
        if nameless_units > 0:
            self._idle[self._nameless] = nameless_units
            self._nameless -= 1
            self.idle_units += nameless_units
        for name in reversed(names):
            users = self._used[name] - 1
            if users:
                self._used[name] = users
                continue
            del self._used[name]
            self._idle[name] = self.unit_of_entry
            self.idle_units += self.unit_of_entry

    def clear(self) -> None:
        """Nothing is left: the replica has failed."""
        self._used.clear()
        self._idle.clear()
        self.free, self.idle_units = self.capacity, 0
