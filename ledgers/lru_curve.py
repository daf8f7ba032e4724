"""Hit share of an LRU cache at every capacity at once, counted in one pass over a trace.

    depth(b)   = 1 + blocks touched after block b was                a cache of C blocks holds b where depth(b) <= C
    room(i)    = max(depth of blocks 1 to i of a prompt)             the least capacity at which block i is found
    hits(C)    = blocks asked for whose room <= C
Blocks are found, kept and dropped as in `prefix_cache.lru_hit_share`: one is found while all before it are, every
block of a request is refreshed, the longest unused are dropped when the request ends. Depths are those before the
request. LRU keeps the top of one and the same stack whatever its size (Mattson, Gecsei, Slutz, Traiger 1970,
doi:10.1147/sj.92.0078), so one pass serves all capacities; a Fenwick tree over the times of last use counts the blocks
above another in O(log blocks) (Bennett, Kruskal 1975, doi:10.1147/rd.194.0353; Olken 1981).
Memory grows with the distinct blocks, not with the trace: uses that a later one replaced are dropped when they are half
of the tree. Ignored: blocks that running requests hold fast, and engines that evict leaves first.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from infopt.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Below so many places the tree is not worth packing.
SMALL = 1024


@dataclass(frozen=True, slots=True)
class LruCurve:
    """What was counted.

    requests, asked_blocks, distinct_blocks  of the trace
    room_blocks  capacities at which a block more is found, rising
    found_blocks  blocks found at each of them
    """

    requests: int
    asked_blocks: int
    distinct_blocks: int
    room_blocks: "NDArray[np.int64]"
    found_blocks: "NDArray[np.int64]"

    def hits_blocks(self, capacity_blocks: float) -> int:
        """Blocks found in a cache of so many."""
        import numpy as np

        below = int(np.searchsorted(self.room_blocks, capacity_blocks, side="right"))
        return int(self.found_blocks[below - 1]) if below else 0

    def hit_share(self, capacity_blocks: float) -> float:
        """Blocks found over blocks asked for."""
        return self.hits_blocks(capacity_blocks) / self.asked_blocks if self.asked_blocks else 0.0

    def needed_blocks(self, part_ratio: float) -> int:
        """The least capacity that finds this part of what an unbounded one does; 0 where that finds nothing."""
        import numpy as np

        if not len(self.found_blocks):
            return 0
        wanted = part_ratio * int(self.found_blocks[-1])
        return int(self.room_blocks[np.searchsorted(self.found_blocks, wanted)])


class LruStack:
    """Blocks by their last use: the state of LRU caches of all sizes."""

    def __init__(self) -> None:
        # Place of every block by its last use; in order of places, for a block that is used goes to the end.
        self.places: dict[Hashable, int] = {}
        # Fenwick tree over places: tree[i] counts the blocks whose place is in (i - lowest bit of i, i].
        self.tree = [0]

    def request(self, blocks: Sequence[Hashable]) -> list[int]:
        """Room that each of the first blocks of a request needs to be found, up to one that was never used before."""
        rooms, most = self._rooms(blocks), 0
        for i, depth in enumerate(rooms):
            most = rooms[i] = max(most, depth)
        for block in blocks:
            self._touch(block)
        if len(self.tree) > SMALL + 2 * len(self.places):
            self._pack()
        return rooms

    def _rooms(self, blocks: Sequence[Hashable]) -> list[int]:
        tree, places, held, depths = self.tree, self.places, len(self.places), []
        for block in blocks:
            place = places.get(block)
            if place is None:
                break
            before = place - 1
            above = held
            while before:
                above -= tree[before]
                before &= before - 1
            depths.append(above)
        return depths

    def _touch(self, block: Hashable) -> None:
        """The block goes to the top."""
        tree = self.tree
        place = self.places.pop(block, 0)
        size = len(tree)
        while 0 < place < size:
            tree[place] -= 1
            place += place & -place
        # A new place counts itself and what the smaller nodes that it covers count.
        counted, child, bottom = 1, size - 1, size & (size - 1)
        while child > bottom:
            counted += tree[child]
            child &= child - 1
        tree.append(counted)
        self.places[block] = size

    def _pack(self) -> None:
        """Places without holes: every node counts as many as it covers."""
        self.places = {block: place for place, block in enumerate(self.places, 1)}
        self.tree = [0, *(place & -place for place in range(1, len(self.places) + 1))]


def lru_curve(requests: Iterable[Sequence[Hashable]]) -> LruCurve:
    """The curve of a trace, each request the blocks of its prompt in order; read once, one by one."""
    counter = CurveCounter()
    for blocks in requests:
        counter.request(blocks)
    return counter.curve()


class CurveCounter:
    """Counts a curve request by request, over as many caches as there are replicas."""

    def __init__(self, replicas: int = 1) -> None:
        self.stacks = [LruStack() for _ in range(replicas)]
        self.found: Counter[int] = Counter()
        self.requests = self.asked = 0

    def request(self, blocks: Sequence[Hashable], cache_index: int = 0) -> list[int]:
        """Rooms of the request's first blocks, counted."""
        rooms = self.stacks[cache_index].request(blocks)
        self.found.update(rooms)
        self.requests += 1
        self.asked += len(blocks)
        return rooms

    def curve(self) -> LruCurve:
        """What was counted up to here; blocks that two replicas hold are two."""
        import numpy as np

        rooms = np.array(sorted(self.found), dtype=np.int64)
        times = np.fromiter((self.found[int(room)] for room in rooms), dtype=np.int64, count=len(rooms))
        distinct = sum(len(stack.places) for stack in self.stacks)
        return LruCurve(self.requests, self.asked, distinct, rooms, np.cumsum(times))
