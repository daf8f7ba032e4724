"""So many prompt tokens in one step that tokens of others come too late."""

from collections.abc import Iterator

from infopt.boundaries.chunked_prefill import default_tokens, itl_s, resident, split
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps, variants
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, running_of
from infopt.units import format_seconds


def check(case: Case) -> Iterator[Hit]:
    """A budget asked for in the file whose fullest step misses the time per token, even where steps are short."""
    at, situation = case.deployment.said_at("max_num_batched_tokens"), running_of(case)
    if at is None or situation is None or case.deployment.found.role == "prefill":
        return
    target_s = situation.load.targets.tpot_s
    if target_s is None or not (lengths_known(case) and load_known(case)) or resident(situation) < 2:
        return
    if situation.steps.basis != "estimate":
        return
    here = split(situation, situation.steps)
    longest_s = _fullest_s(situation.steps, situation)
    quickest_s = min(_fullest_s(steps, situation) for steps in variants(situation.steps))
    if not here.most_tokens or quickest_s <= target_s:
        return
    s = situation.scenario
    budget = here.most_tokens + s.batch_per_replica
    yield Hit(
        f"a budget of {s.max_num_batched_tokens:,} tokens makes the longest step {format_seconds(longest_s)}; the "
        f"target of {format_seconds(target_s)} a token allows {here.most_tokens:,} prompt tokens in it",
        at=at,
        detail="the mean time per token is the same: this is the longest gap between two tokens",
        remedy=f"a budget of {budget:,} tokens" if here.most_tokens >= here.needed_tokens else "",
        confidence="likely",
    )


def _fullest_s(steps: Steps, situation: Situation) -> float:
    """The longest step with the engine's budget full."""
    return itl_s(situation, steps, default_tokens(situation))


RULE = Rule(
    id="batch-budget-large",
    summary="the batch budget makes the longest step miss the time per token",
    severity="note",
    why="A step with many prompt tokens holds up everybody who decodes.",
    remedy="A smaller budget: prompts take a little longer, answers flow evenly.",
    check=check,
)
