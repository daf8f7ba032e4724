"""The time to the first token that users were promised."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.latency import late
from infopt.gate.situations import lengths_known, load_known, running_of, ttft_seconds


def check(case: Case) -> Iterator[Hit]:
    """At the policy's load, waiting in a queue left out; of one user where no load is given."""
    target_s, situation = case.policy.targets.ttft_s, running_of(case)
    if target_s is None or situation is None or not lengths_known(case) or case.deployment.found.role == "decode":
        return
    load = f"at batch {situation.scenario.batch}" if load_known(case) else "of one user alone"
    prompt = f"{load}, prompts of {situation.scenario.input_tokens:,} tokens"
    if situation.cached_tokens:
        prompt += f" with {situation.cached_tokens:,.0f} cached"
    yield from late(case, "TTFT", prompt, ttft_seconds(situation), situation.load.targets.ttft_s or target_s)


RULE = Rule(
    id="ttft-target",
    summary="the time to the first token misses the policy's target",
    severity="error",
    why="Users wait for the first word.",
    remedy="More compute, shared prefixes that are cached, shorter prompts, or fewer requests for each replica.",
    check=check,
)
