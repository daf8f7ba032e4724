"""A draft model's weights and cache, and the ranks it is split over."""

from collections.abc import Iterator

from infopt.gate.beside import Draft, draft_bytes, draft_model, draft_said
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument
from infopt.profiles.engines import version_key
from infopt.units import format_gib

# SGLang: draft weights and cache lie outside the static share before this (sgl-project/sglang pull 23862, April 2026).
COUNTED_FROM = "0.5.11"


def check(case: Case) -> Iterator[Hit]:
    """Ranks; then memory, by the engine's own rule."""
    draft = draft_said(case.deployment)
    if draft is None:
        return
    at = case.deployment.said_at("speculative") or case.deployment.said_at("draft_model")
    if case.deployment.engine == "vllm" and draft.tp is not None and draft.tp not in (1, case.placed.tp):
        text = f"the draft's tensor parallel degree {draft.tp} is neither 1 nor the target's {case.placed.tp}"
        yield Hit(text, at=at, remedy=f"draft_tensor_parallel_size 1 or {case.placed.tp}")
    if draft.name is not None and not draft.own_layers and draft_model(draft) is None:
        text = f"what the draft {draft.name} takes is not counted: it is not in the catalogue"
        yield Hit(text, at=at, severity="note")
    if case.deployment.engine == "sglang":
        yield from _outside_share(case, draft, at)
    elif case.plan is not None and case.plan.fits is False:
        yield from _takes_the_rest(case, draft, at)


def _takes_the_rest(case: Case, draft: Draft, at: Argument | None) -> Iterator[Hit]:
    """The plan has the draft: without it a full request would fit."""
    plan = case.plan
    if plan is None or case.device is None:
        return
    s, memory = plan.scenario, plan.memory
    taken = draft_bytes(draft, s, case.device)
    if taken is None:
        return
    both = taken.weights + taken.request
    need = s.batch_per_replica * memory.layout.request_bytes(s.context_tokens)
    if memory.kv_pool_bytes_per_gpu + both >= need:
        yield Hit(
            f"the draft takes {format_gib(taken.weights)} of weights and {format_gib(taken.request)} of cache on each "
            f"device; {format_gib(memory.kv_pool_bytes_per_gpu)} are left for a request of {format_gib(need)}",
            at=at,
            remedy="a smaller draft, or a smaller length limit",
        )


def _outside_share(case: Case, draft: Draft, at: Argument | None) -> Iterator[Hit]:
    """SGLang before the draft was counted: target's pool by the share, then weights and as many tokens of the draft."""
    version, plan = case.deployment.version, case.plan
    if plan is None or case.device is None or (version and version_key(version) >= version_key(COUNTED_FROM)):
        return
    s, memory = plan.scenario, plan.memory
    taken = draft_bytes(draft, s, case.device)
    if taken is None or memory.kv_pool_bytes_per_gpu <= 0:
        return
    own = memory.layout.request_bytes(s.context_tokens)
    cache = memory.kv_pool_bytes_per_gpu / own * taken.request
    terms = {term.name: term.value for term in memory.terms}
    used = sum(terms.get(n, 0.0) for n in ("weights", "activation", "communication", "graphs", "engine"))
    total = used + memory.kv_pool_bytes_per_gpu + taken.weights + cache
    capacity = memory.capacity_bytes_per_gpu
    if total <= capacity:
        return
    room = (capacity - used - taken.weights) / (1 + taken.request / own)
    share = max(0.0, (terms["weights"] + max(0.0, room)) / capacity)
    named = f"sglang {version}" if version else f"sglang before {COUNTED_FROM}"
    yield Hit(
        f"the draft needs {format_gib(taken.weights)} of weights and {format_gib(cache)} of cache on each "
        "device beside "
        f"a static share of {s.utilization:g}: {format_gib(total)} of {format_gib(capacity)}",
        at=at,
        detail=f"{named} does not count the draft in --mem-fraction-static: as many tokens are kept for it as "
        "for the target",
        remedy=f"--mem-fraction-static {int(share * 100) / 100:.2f}"
        if room > 0
        else "a smaller draft, or more devices",
        confidence="likely",
    )


RULE = Rule(
    id="draft-memory",
    summary="the draft model does not fit beside the target, or is split over the wrong ranks",
    severity="error",
    why="A draft has weights and a cache of its own, for as many tokens as the target's.",
    remedy="A smaller draft or share of memory.",
    check=check,
    source="sgl-project/sglang issue 6875, pull 23862; vllm config/speculative.py",
)
