"""What a search looked at beside its front, for pictures: what others beat, and how near the rest comes.

beaten   deployments within the targets that are not on the front, each placement with its fewest replicas
fastest  where nothing is within the targets: every placement with one sequence, the fastest it can be
"""

from collections.abc import Iterator

from infopt.frozen import dataclass
from infopt.studies.search import Deployment, Search, deployments
from infopt.studies.search_space import Replica


@dataclass(frozen=True, slots=True)
class Fastest:
    """One placement with a single sequence in each attention replica."""

    replica: Replica
    ttft_s: float
    tpot_s: float


def beaten(result: Search) -> Iterator[Deployment]:
    """The smallest deployment of each device and formats that others beat."""
    kept = {(id(d.replica), d.replicas, d.sequences) for d in result.front}
    for replicas in result.space.by_kind.values():
        first = (d for replica in replicas if (d := next(deployments(replica, result.targets), None)) is not None)
        found = [d for d in first if (id(d.replica), d.replicas, d.sequences) not in kept]
        if found:
            yield min(found, key=lambda d: (d.gpus, d.e2e_s))


def fastest(result: Search) -> Iterator[Fastest]:
    """Every placement that fits, as fast as it can be."""
    for replica in result.space.replicas:
        if replica.times is not None:
            yield Fastest(replica, float(replica.times.ttft_s[0]), float(replica.times.tpot_s[0]))
