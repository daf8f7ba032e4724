"""The time per output token that users were promised."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.drafts import draft_of, drafts
from infopt.gate.finding import Hit, Rule
from infopt.gate.latency import late
from infopt.gate.situations import lengths_known, load_known, running_of, tpot_seconds


def check(case: Case) -> Iterator[Hit]:
    """At the policy's load; of one user where no load is given, which is the least there is."""
    target_s, situation = case.policy.targets.tpot_s, running_of(case)
    if target_s is None or situation is None or not lengths_known(case) or case.deployment.found.role == "prefill":
        return
    seconds = tpot_seconds(situation)
    if drafts(case):
        # Accepted drafts shorten it by what nobody can know here; at best all of them are.
        draft = draft_of(case)
        most = 1 + (draft.drafted_tokens or 0) if draft is not None else None
        if most is None or seconds.low <= target_s * most:
            return
        seconds = seconds.divided(most)
    load = f"at batch {situation.scenario.batch}" if load_known(case) else "of one user alone"
    yield from late(case, "TPOT", load, seconds, situation.load.targets.tpot_s or target_s)


RULE = Rule(
    id="tpot-target",
    summary="the time per output token misses the policy's target",
    severity="error",
    why="Users were promised answers at this speed.",
    remedy="More bandwidth (tensor parallelism, a faster device), smaller weights, or a smaller batch.",
    check=check,
)
