"""Prompts share a prefix, and the cache that would reuse it is off."""

from collections.abc import Iterator

from infopt.boundaries.prefix_caching import judge
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import caches_prefixes, lengths_known, situation_of


def check(case: Case) -> Iterator[Hit]:
    """Off by an option or by the version's default, with a gain worth having."""
    shared = case.policy.workload.shared_prefix_tokens
    if not shared or caches_prefixes(case) is not False:
        return
    situation = situation_of(case)
    if situation is None or not lengths_known(case):
        return
    found = judge(situation)
    if found.verdict not in ("use", "limited") or found.gain is None:
        return
    option = case.deployment.said_at("no_prefix_caching") or case.deployment.said_at("prefix_caching")
    off = "off" if option is not None else f"off by default in {case.deployment.engine} {case.deployment.version}"
    yield Hit(
        f"prefix caching is {off}, {shared:,} of {situation.scenario.input_tokens:,} prompt tokens are shared: "
        f"{found.reason}",
        at=option,
        severity="warning" if found.verdict == "use" else "note",
        confidence="likely",
    )


RULE = Rule(
    id="prefix-caching-off",
    summary="prompts share a prefix and prefix caching is off",
    severity="warning",
    why="The shared part of every prompt is computed again for each request.",
    remedy="Switch prefix caching on (vLLM --enable-prefix-caching; leave out --disable-radix-cache in SGLang).",
    check=check,
    source="vllm-project/vllm pull 1983",
)
