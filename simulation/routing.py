"""Which replica gets a request.

round-robin    one after the other
random         any, with equal chance
least-loaded   the one with the fewest requests
affinity       the home of the prompt's first block, by its number; least loaded for prompts without a prefix
scored         the one that computes fewest prompt tokens before the first token: those that wait there, and of the
               request's own those that are not in the cache there; then the least loaded
A replica that has failed gets none; the home of a prefix is then the next one.
Ignored: what a router does not know in time (it is taken to know queues and caches exactly).
"""

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Ordered

from infopt.simulation.replica import Replica
from infopt.simulation.sequence import Sequence
from infopt.simulation.setup import Routing

Router = Callable[[Sequence], Replica | None]
# Spreads prefix numbers over replicas: they are often counted up.
FIBONACCI = 11400714819323198485


def router(routing: Routing, replicas: Ordered[Replica], seed: int) -> Router:
    """A router; it answers None while no replica is alive."""
    turns = iter(range(2**63))
    choices = _random_choices(seed) if routing == "random" else iter(())

    def route(one: Sequence) -> Replica | None:
        alive = [replica for replica in replicas if replica.alive]
        if len(alive) < 2:
            return alive[0] if alive else None
        if routing == "round-robin":
            return alive[next(turns) % len(alive)]
        if routing == "random":
            return alive[int(next(choices) * len(alive))]
        if routing == "affinity" and one.prefix:
            return _home(one.prefix[0], replicas)
        if routing == "scored":
            return min(alive, key=lambda replica: (_work_tokens(replica, one), replica.load, replica.number))
        return min(alive, key=lambda replica: (replica.load, replica.number))

    return route


def _random_choices(seed: int) -> Iterator[float]:
    """Even numbers between 0 and 1."""
    import numpy as np

    numbers = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 1])))
    while True:
        yield from numbers.random(1024).tolist()


def _home(name: int, replicas: Ordered[Replica]) -> Replica:
    """The replica a prefix lives on, or the next one that is alive."""
    first = (name * FIBONACCI % 2**64) * len(replicas) // 2**64
    turned = [*replicas[first:], *replicas[:first]]
    return next(replica for replica in turned if replica.alive)


def _work_tokens(replica: Replica, one: Sequence) -> int:
    batch = replica.batch
    running = sum(other.target_tokens - other.computed_tokens for other in batch.prefilling)
    found = batch.pool.found(one.prefix) * batch.entry_tokens
    return replica.queue.tokens + running + max(1, one.target_tokens - found)
