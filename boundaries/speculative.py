"""Speculative decoding: several tokens of a sequence in one step, where the step has room for them.

    speedup = TPOT / ((t_verify(B, 1 + d g) + drafting) / tokens + stall)     tokens = 1 + d sum of acceptance
B sequences verify B (1 + d g) tokens at once: free while the step waits for weights, dear when products or further
experts take over, so the verdict turns with the batch at one and the same acceptance. Keys and values are read once a
sequence. The rule is document 1's: below a gain of 10% leave it out; there is no `limited` here.
"""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.deciding import measured_by, threshold, unsure
from infopt.boundaries.drafting import drafting, method_of, with_draft
from infopt.boundaries.load import DraftMethod
from infopt.boundaries.quantities import BATCH, CONTEXT, Quantity
from infopt.boundaries.situation import Situation
from infopt.boundaries.speculation_case import BEST, LOW, Case
from infopt.boundaries.speculation_inputs import (
    TECHNIQUE_ID,
    checked,
    method_named,
    positions,
    rate_of,
    refusal,
    tokens_of,
    with_rate,
)
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.ledgers.speculation import best_drafted_tokens, printed_speedup_ratio, tokens_per_cycle_at_rate

MOST_DRAFTED = 16
SHOWN_BATCHES = (1, 4, 16, 64)
SHOWN_DRAFTED = (1, 2, 3, 4, 5)
SETTLE = (
    "--alpha RATE, or --alpha A1,A2,... by position (accepted over drafted tokens, a server counts both): "
    "`infopt probe draft` measures it, with your model or at --endpoint URL"
)


def judge(situation: Situation) -> Judgement:
    """Drafts beside plain decoding."""
    draft = checked(situation.load.draft)
    refused = refusal(situation)
    if refused is not None:
        return Judgement("impossible", None, refused)
    if method_of(situation) == "draft-model" and draft.scenario is None and draft.cycle_ratio is None:
        return Judgement("measure", None, "the draft model is not known", settle="--draft MODEL, or --cycle-ratio")
    plain = situation.changed(cycle=None) if situation.cycle is not None else situation
    case = Case(plain, draft, drafting(plain))
    known = draft.acceptance is not None or draft.accepted is not None
    drafted = drafted_tokens(case) if known else longest_that_may_pay(case)
    in_use = TECHNIQUE_ID in situation.used
    after = plain if in_use else plain.changed(scenario=with_draft(plain, case.drafting.method, drafted))
    memory = tuple(_memory_figures(plain, after))
    if not after.fits:
        return Judgement(
            "impossible", None, _unfit(plain, after), memory, _costs(case), _rule(case, drafted, "impossible")
        )
    if not known:
        return _without_acceptance(case, drafted, memory)
    tokens = tokens_of(draft, drafted)
    gain = case.gain(drafted, tokens)
    verdict, reason = _verdict(case, gain, drafted, tokens)
    figures = (*_figures(case, drafted, tokens), *memory)
    settle = measured_by([situation.scenario], by_curve=True) if verdict == "measure" else ""
    return Judgement(verdict, gain, reason, figures, _costs(case), _rule(case, drafted, verdict), settle)


def _unfit(plain: Situation, after: Situation) -> str:
    wanted, held = plain.scenario.batch_per_replica, after.memory.max_sequences
    if held == plain.memory.max_sequences:
        return f"{held:,} sequences fit, with a draft or without, not {wanted:,}"
    return f"{held:,} sequences fit with the draft and {plain.memory.max_sequences:,} without it, not {wanted:,}"


def drafted_tokens(case: Case) -> int:
    """g as given, all positions whose acceptance is given, or the best."""
    if case.draft.drafted_tokens is not None:
        return case.draft.drafted_tokens
    return positions(case.draft) or best(case)


def best(case: Case) -> int:
    """The draft length of the highest speedup among those whose acceptance is known."""
    most = positions(case.draft) or MOST_DRAFTED
    return best_drafted_tokens(lambda g: case.speedup(g, tokens_of(case.draft, g)), most)


def worth(ratio: float) -> Verdict:
    """use or skip."""
    return "use" if ratio >= threshold("worth_ratio") else "skip"


def longest_that_may_pay(case: Case) -> int:
    """The draft length at which drafts that are always right gain most; as given, where it is."""
    if case.draft.drafted_tokens is not None:
        return case.draft.drafted_tokens
    return best_drafted_tokens(lambda g: case.speedup(g, _always(case, g), end=LOW), MOST_DRAFTED)


def _always(case: Case, drafted: int) -> float:
    return tokens_per_cycle_at_rate(1.0, drafted, case.draft.drafting_share)


def _verdict(case: Case, gain: Gain, drafted: int, tokens: float) -> tuple[Verdict, str]:
    verdict, steps, batch = worth(gain.value), case.situation.steps, case.situation.batch
    cycle = case.cycle_s(drafted, steps, batch) / case.step_s(steps, batch)
    yields = "yields" if drafted == 1 else "yield"
    made = f"{_counted(drafted)} drafted by {_name(case)} {yields} {tokens:.2f} in {cycle:.2f} steps"
    if case.basis == "floor" and verdict == "use":
        return "measure", f"{made}; {gain.value:.2f}x {unsure(gain, case.basis)}"
    if case.basis == "assumed" and worth(gain.low) != worth(gain.high):
        return "measure", f"{made}; {unsure(gain, case.basis)}"
    now_ms = case.plain_s(steps, batch) * 1e3
    return verdict, f"TPOT {now_ms:.1f} ms, {now_ms / gain.value:.1f} with drafts ({gain.value:.2f}x): {made}"


def _without_acceptance(case: Case, longest: int, memory: tuple[Figure, ...]) -> Judgement:
    """What can be said before anything was accepted: the acceptance that would pay, or that none can."""
    limit, given = threshold("worth_ratio"), case.draft.drafted_tokens
    most = case.gain(longest, _always(case, longest)).high
    asked = {g: case.acceptance_for(g, limit) for g in ((given,) if given is not None else SHOWN_DRAFTED)}
    figures = (
        Figure("most_speedup_ratio", most, "ratio", f"speedup of drafts of {_counted(longest)} that are always right"),
        *(
            Figure(f"break_even_acceptance_{g}", rate, "share", _break_even_text(g, limit, rate))
            for g, rate in asked.items()
        ),
        *memory,
    )
    rule = Rule(1, "leave it out when it gains less than 10%", None)
    if most < limit:
        reason = f"even drafts of {_counted(longest)} that are always right gain {most:.2f}x at most"
        return Judgement("skip", None, reason, figures, _costs(case), rule)
    known = [(rate, g) for g, rate in asked.items() if rate is not None]
    reason = f"acceptance is not known; drafts always right would gain up to {most:.2f}x"
    if known:
        rate, g = min(known)
        reason = f"acceptance is not known: {_counted(g)} drafted by {_name(case)} pay from {rate:.0%} acceptance on"
    return Judgement("measure", None, reason, figures, _costs(case), rule, SETTLE)


def _figures(case: Case, drafted: int, tokens: float) -> Iterator[Figure]:
    steps, batch, given = case.situation.steps, case.situation.batch, case.draft.cycle_ratio is not None
    step_s, limit = case.step_s(steps, batch), threshold("worth_ratio")
    verify = case.verify_s(drafted, steps, batch) / step_s
    yield Figure("drafted_tokens", drafted, "tokens", "drafted in a cycle")
    yield Figure("drafting_share", case.draft.drafting_share, "share", "of steps have a draft")
    yield Figure("tokens_per_cycle", tokens, "tokens", "yielded by a step, those without a draft included")
    yield Figure(
        "cycle_ratio",
        case.cycle_s(drafted, steps, batch) / step_s,
        "ratio",
        "length of a cycle over a step without drafts",
    )
    yield Figure("verify_ratio", verify, "ratio", "length of verification over a step without drafts")
    yield Figure("draft_s", case.draft_s(steps, batch), "s", "to draft one token of every sequence")
    yield Figure("overhead_s", case.drafting.cycle_s[BEST], "s", "of a cycle for sampling and scheduling")
    for shown in SHOWN_BATCHES:
        ratio = None if given else case.speedup(drafted, tokens, shown)
        yield Figure(f"speedup_ratio_batch_{shown}", ratio, "ratio", f"batch {shown}: speedup")
    if not given:
        chosen = case.draft.drafted_tokens is None and positions(case.draft) is None
        longest = drafted if chosen else best(case)
        yield Figure("best_drafted_tokens", longest, "tokens", "draft length of the highest speedup")
        highest = case.speedup(longest, tokens_of(case.draft, longest))
        yield Figure("best_speedup_ratio", highest, "ratio", f"speedup of drafts of {_counted(longest)}")
    pays, even = case.acceptance_for(drafted, limit), case.acceptance_for(drafted, 1.0)
    yield Figure("break_even_acceptance", pays, "share", _break_even_text(drafted, limit, pays))
    text = f"acceptance below which drafting {_counted(drafted)} loses" + _if_none(even)
    yield Figure("loss_acceptance", even, "share", text)
    printed = _printed(case, drafted)
    yield Figure("printed_speedup_ratio", printed, "ratio", "speedup by document 1's formula, which has no acceptance")


def _counted(tokens: int) -> str:
    return f"{tokens} token" if tokens == 1 else f"{tokens} tokens"


def _break_even_text(drafted: int, ratio: float, acceptance: float | None) -> str:
    return f"acceptance at which drafting {_counted(drafted)} gains {ratio - 1:.0%}" + _if_none(acceptance)


def _if_none(value: float | None) -> str:
    return ": none does" if value is None else ""


def _memory_figures(before: Situation, after: Situation) -> Iterator[Figure]:
    s = after.scenario
    mtp = s.model.extra_params.get("mtp", 0) / s.tp * s.weight_bits["mtp"] / 8
    own = mtp if s.mtp_loaded and not before.scenario.mtp_loaded else 0.0
    weights = own + s.extra_bytes_per_gpu - before.scenario.extra_bytes_per_gpu
    lost = before.memory.max_sequences - after.memory.max_sequences
    yield Figure("draft_weights_bytes", weights, "bytes", "weights of the draft on one device")
    yield Figure("max_sequences_after", after.memory.max_sequences, "sequences", "sequences that fit beside the draft")
    yield Figure("sequences_lost", lost, "sequences", "sequences lost to the draft's weights and cache")


def _printed(case: Case, drafted: int) -> float:
    steps, batch = case.situation.steps, case.situation.batch
    times_s = (case.draft_s(steps, batch), case.step_s(steps, batch), case.verify_s(drafted, steps, batch))
    return printed_speedup_ratio(*times_s, drafted)


def _rule(case: Case, drafted: int, verdict: Verdict) -> Rule:
    says = worth(_printed(case, drafted))
    why = "its formula has no acceptance in it: it gives the same for a draft always right and one always wrong"
    return Rule(1, "by its formula, leave it out below a gain of 10%", says, "" if says == verdict else why)


def _costs(case: Case) -> tuple[str, ...]:
    told = ["decide it for low and high concurrency apart: the verdict turns with the batch"]
    if case.drafting.lost:
        told.append(case.drafting.lost)
    if case.drafting.method == "ngram" and case.draft.drafting_share == 1.0:
        told.append("every step is taken to find a draft; with fewer give --drafting-share")
    return tuple(told)


def _name(case: Case) -> str:
    names: dict[DraftMethod, str] = {"ngram": "n-grams", "mtp": "the prediction layer", "eagle": "an EAGLE head"}
    if case.drafting.method == "draft-model" and case.drafting.steps is not None:
        return case.drafting.steps.scenario.model.id.rpartition("/")[2]
    return names.get(case.drafting.method, "Medusa heads" if case.drafting.method == "medusa" else "a draft model")


def apply(situation: Situation, argument: str) -> Situation:
    """Speculation in use, by the method named or that of the load: others see shorter tokens and less memory."""
    load = situation.load
    if argument:
        load = replace(load, draft=replace(load.draft, method=method_named(argument)))
    asked = situation.changed(load=load)
    draft = checked(load.draft)
    if draft.acceptance is None and draft.accepted is None:
        raise InfoptError("--with speculative needs the acceptance: give --alpha")
    refused = refusal(asked)
    if refused is not None:
        raise InfoptError(f"--with speculative: {refused}")
    case = Case(asked, draft, drafting(asked))
    drafted = drafted_tokens(case)
    per_sequence = 1.0 if draft.cycle_ratio is not None else 1 + draft.drafting_share * drafted
    context = situation.scenario.decode_context_tokens
    verify_s = asked.steps.step_s(asked.batch, context, per_sequence)
    rest_s = case.cycle_s(drafted, asked.steps, asked.batch) - verify_s
    return asked.changed(
        scenario=with_draft(asked, case.drafting.method, drafted),
        cycle=(tokens_of(draft, drafted), per_sequence, rest_s),
        used=(*situation.used, TECHNIQUE_ID),
    )


def _drafted_high(situation: Situation) -> float:
    return float(positions(situation.load.draft) or MOST_DRAFTED)


def _drafted_here(situation: Situation) -> float | None:
    """g as given or as judged, None where nothing is known of the draft."""
    draft = situation.load.draft
    if draft.drafted_tokens is not None or draft.accepted is not None:
        return float(draft.drafted_tokens or len(draft.accepted or ()))
    if draft.acceptance is None or refusal(situation) is not None:
        return None
    plain = situation.changed(cycle=None)
    return float(drafted_tokens(Case(plain, checked(draft), drafting(plain))))


def _with_drafted(situation: Situation, value: float) -> Situation:
    load = situation.load
    return situation.changed(load=replace(load, draft=replace(load.draft, drafted_tokens=int(value))))


ACCEPTANCE = Quantity(
    name="acceptance",
    unit="share",
    whole=False,
    low=0.0,
    high=lambda _: 1.0,
    get=lambda situation: rate_of(situation.load.draft),
    set=with_rate,
    share=True,
)
DRAFTED = Quantity(
    name="drafted",
    unit="tokens",
    whole=True,
    low=1,
    high=_drafted_high,
    get=_drafted_here,
    set=_with_drafted,
)
TECHNIQUE = Technique(
    id=TECHNIQUE_ID,
    name="Speculative decoding",
    ledger="decode latency",
    order=3,
    judge=judge,
    quantities=(BATCH, ACCEPTANCE, DRAFTED, CONTEXT),
    plane=(BATCH, ACCEPTANCE),
    apply=apply,
    aliases=("speculation", "spec"),
)
