"""Speculation at a concurrency where verifying drafts costs more than they bring."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.deciding import threshold
from infopt.boundaries.situation import Situation
from infopt.boundaries.speculation_case import Case as DraftCase
from infopt.gate.case import Case
from infopt.gate.drafts import draft_of, drafting_case, drafts, said_at
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import load_known, running_of
from infopt.ledgers.queueing import largest_batch
from infopt.ledgers.speculation import tokens_per_cycle_at_rate


def check(case: Case) -> Iterator[Hit]:
    """The acceptance that pays at the batch is above the usual one, on the best that is known of the steps."""
    situation, batch, told = _situation(case)
    if situation is None or batch < 2:
        return
    made = drafting_case(situation)
    length = situation.load.draft.drafted_tokens
    if made is None or length is None or made.basis == "floor":
        return
    usual, limit = acceptance(case, made.drafting.method), threshold("worth_ratio")
    tokens = tokens_per_cycle_at_rate(usual, length)
    gain = made.gain(length, tokens)
    if gain.value >= 1 or (made.basis == "assumed" and gain.high >= 1):
        return
    needed = made.acceptance_for(length, limit)
    pays = "no acceptance pays" if needed is None else f"it pays from {needed:.0%} accepted a token"
    end = _turn(made, length, tokens, batch, limit)
    yield Hit(
        f"speculation at {told}: {length} drafted tokens make answers {1 / gain.value:.2f}x as long even where "
        f"{usual:.0%} are accepted; {pays}, or at {usual:.0%} up to {end:,} sequences",
        at=said_at(case),
        detail=f"speedup {gain.low:.2f}x to {gain.high:.2f}x",
        confidence="likely" if load_known(case) else "possible",
        severity="warning" if load_known(case) else "note",
    )


def acceptance(case: Case, method: str) -> float:
    """A generous share of drafted tokens that are accepted: nobody can know it from a file."""
    return float(case.parameter(RULE.id, "acceptance_ngram" if method == "ngram" else "acceptance"))


def _situation(case: Case) -> tuple[Situation | None, int, str]:
    """Under the policy's load, else as many sequences as the file lets run."""
    if not drafts(case):
        return None, 0, ""
    situation, draft = running_of(case), draft_of(case)
    if situation is None or draft is None:
        return None, 0, ""
    told = f"batch {situation.scenario.batch} (infopt.yaml)"
    if not load_known(case):
        limit = case.value("max_num_seqs")
        if not isinstance(limit, int) or case.deployment.said_at("max_num_seqs") is None:
            return None, 0, ""
        batch = situation.scenario.dp * max(1, min(limit, situation.memory.max_sequences))
        situation, told = situation.changed(batch=batch), f"batch {batch} (--max-num-seqs)"
    situation = situation.changed(load=replace(situation.load, draft=draft))
    return situation, situation.scenario.batch, told


def _turn(made: DraftCase, length: int, tokens: float, batch: int, limit: float) -> int:
    """Most sequences at which drafts gain what is worth it."""
    return largest_batch(lambda size: 1 / made.speedup(length, tokens, size), 1 / limit, batch)


RULE = Rule(
    id="speculative-at-concurrency",
    summary="speculative decoding loses at this concurrency",
    severity="warning",
    why="Verifying drafts is free only while a step waits for weights; at high concurrency it is work of its own.",
    remedy="No speculation at high load, fewer drafted tokens, or a limit of the batch up to which it drafts.",
    check=check,
    parameters={"acceptance": 0.7, "acceptance_ngram": 0.5},
    source="vllm-project/vllm issues 8439, 15025; EAGLE accepted 0.57 to 0.63 a token in pulls 16035 and 24343",
)
