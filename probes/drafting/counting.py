"""What cycles say about a draft: acceptance by position, tokens a step, and how sure that is.

    acceptance at i = cycles that kept at least i / cycles that drafted at least i
    tokens per step = cycles' tokens / cycles,  a cycle yields kept + 1
The interval is a bootstrap in two stages: texts first, cycles of each then, for texts differ more than cycles do. Where
all cycles yielded the same, resampling finds nothing else; then it is sampling.nothing_else_seen.
"""

from collections import Counter
from collections.abc import Sequence

from infopt.probes.drafting.decoding import Cycle
from infopt.probes.sampling import nothing_else_seen, percentile

RESAMPLED = 1_000
INTERVAL = (0.025, 0.975)

Texts = Sequence[Sequence[Cycle]]


def per_position(cycles: Sequence[Cycle], most_drafted: int) -> list[float]:
    """Acceptance at each position that was ever drafted.

    >>> per_position([Cycle(2, 2), Cycle(2, 0), Cycle(1, 1), Cycle(0, 0)], 3)
    [0.6666666666666666, 0.5]
    """
    shares = []
    for i in range(1, most_drafted + 1):
        drafted = sum(cycle.drafted >= i for cycle in cycles)
        if not drafted:
            break
        shares.append(sum(cycle.kept >= i for cycle in cycles) / drafted)
    return shares


def share_with_draft(cycles: Sequence[Cycle]) -> float:
    """Cycles that had a draft, of all.

    >>> share_with_draft([Cycle(2, 2), Cycle(0, 0)])
    0.5
    """
    return sum(cycle.drafted > 0 for cycle in cycles) / len(cycles)


def tokens_per_step(cycles: Sequence[Cycle]) -> float:
    """Tokens a cycle yields.

    >>> tokens_per_step([Cycle(2, 2), Cycle(2, 0), Cycle(0, 0)])
    1.6666666666666667
    """
    return 1.0 + sum(cycle.kept for cycle in cycles) / len(cycles)


def tokens_interval(texts: Texts, seed: int = 0) -> tuple[float, float]:
    """The middle 95 % of tokens per step over resampled texts and cycles.

    texts  cycles of each
    """
    import numpy

    whole = [cycle for cycles in texts for cycle in cycles]
    if len({cycle.kept for cycle in whole}) == 1:
        low, high = nothing_else_seen(whole[0].kept, max(cycle.drafted for cycle in whole), len(whole))
        return 1.0 + low, 1.0 + high
    draw = numpy.random.default_rng(seed)
    chosen = draw.integers(0, len(texts), (RESAMPLED, len(texts)))
    kept, count = numpy.empty(chosen.shape), numpy.empty(chosen.shape)
    for number, cycles in enumerate(texts):
        here = chosen == number
        picked = draw.choice([cycle.kept for cycle in cycles], (int(here.sum()), len(cycles)))
        kept[here], count[here] = picked.sum(-1), len(cycles)
    means = sorted((1.0 + kept.sum(1) / count.sum(1)).tolist())
    return percentile(means, INTERVAL[0]), percentile(means, INTERVAL[1])


def shapes(cycles: Sequence[Cycle]) -> Counter[tuple[int, int]]:
    """How often a cycle had how many unread and drafted tokens: what its time depends on."""
    return Counter((cycle.unread, cycle.drafted) for cycle in cycles)
