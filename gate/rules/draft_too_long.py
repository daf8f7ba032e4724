"""More drafted tokens than pay: the later ones are seldom accepted, and each costs a pass."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.deciding import threshold
from infopt.boundaries.speculation_case import Case as DraftCase
from infopt.gate.case import Case
from infopt.gate.drafts import draft_of, drafting_case, drafts, said_at
from infopt.gate.finding import Hit, Rule
from infopt.gate.rules.speculative_at_concurrency import acceptance
from infopt.gate.situations import running_of
from infopt.ledgers.speculation import best_drafted_tokens, tokens_per_cycle_at_rate


def check(case: Case) -> Iterator[Hit]:
    """A shorter draft is worth more by more than a tenth, at the generous acceptance of speculative-at-concurrency."""
    situation = running_of(case) if drafts(case) else None
    draft = draft_of(case) if situation is not None else None
    if situation is None or draft is None or draft.drafted_tokens is None:
        return
    made = drafting_case(situation.changed(load=replace(situation.load, draft=draft)))
    if made is None or made.basis == "floor":
        return
    length, usual = draft.drafted_tokens, acceptance(case, made.drafting.method)
    best = best_drafted_tokens(lambda g: _speedup(made, g, usual), length)
    here, there = _speedup(made, length, usual), _speedup(made, best, usual)
    if there < threshold("worth_ratio") * here:
        return
    rate = made.acceptance_for(length, there)
    pays = f"; {length} are as good from {rate:.0%} accepted a token" if rate is not None else ""
    yield Hit(
        f"{length} drafted tokens: {here:.2f}x at batch {situation.scenario.batch} where {usual:.0%} are accepted, "
        f"{best} give {there:.2f}x{pays}",
        at=said_at(case),
        remedy=f"{best} drafted tokens",
        severity="warning" if here < 1 else "note",
        confidence="likely",
    )


def _speedup(made: DraftCase, length: int, acceptance: float) -> float:
    return made.speedup(length, tokens_per_cycle_at_rate(acceptance, length))


RULE = Rule(
    id="draft-too-long",
    summary="more drafted tokens than pay",
    severity="warning",
    why="A token is kept only where all before it were: long drafts are mostly thrown away, and all are paid for.",
    remedy="Two to five drafted tokens; measure the acceptance of each position.",
    check=check,
    source="vllm-project/vllm pull 24343: 1.32x with one drafted token, 0.66x with 32",
)
