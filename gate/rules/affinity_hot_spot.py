"""A router that keeps a prefix on one replica, and prefixes so few or so uneven that one replica gets the load."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.ledgers.prefix_cache import hot_spot_ratio, zipf


def check(case: Case) -> Iterator[Hit]:
    """Load of the fullest replica over the mean, at the best a router of this kind can do."""
    load = case.policy.workload
    replicas = case.deployment.found.hardware.replicas * int(case.value("dp", 1) or 1)
    if load.routing != "affinity" or load.prefixes is None or replicas < 2:
        return
    skew = load.prefix_skew or 0.0
    ratio = hot_spot_ratio(zipf(load.prefixes, skew), replicas)
    if ratio < case.parameter(RULE.id, "load_ratio"):
        return
    spare = (replicas - replicas / ratio) / replicas
    yield Hit(
        f"{load.prefixes:,} prefixes of skew {skew:g} over {replicas} replicas: with affinity the fullest gets "
        f"{ratio:.2f} times the mean load, {spare:.0%} of the capacity is out of reach",
        detail="each prefix has one home, given out as evenly as can be; a router that hashes does worse",
        remedy="Let the router weigh load against hits, or copy the most popular prefixes to several replicas.",
        confidence="likely",
    )


RULE = Rule(
    id="affinity-hot-spot",
    summary="cache affinity sends too much to one replica",
    severity="warning",
    why="The replica that is home to popular prefixes saturates while the others wait for work.",
    remedy="A router that weighs load against hits.",
    check=check,
    parameters={"load_ratio": 1.5},
    source="ledgers/prefix_cache.py; document 2, sections 5 and 17; the ratio is assumed",
)
