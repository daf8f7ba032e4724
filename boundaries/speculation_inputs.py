"""What is told of a draft: checked, turned into tokens, and refused where no engine runs it."""

from dataclasses import replace
from typing import get_args

from infopt.boundaries.conflicts import conflicts
from infopt.boundaries.deciding import named_engine
from infopt.boundaries.drafting import largest_vocabulary_difference, method_of
from infopt.boundaries.load import Draft, DraftMethod
from infopt.boundaries.situation import Situation
from infopt.errors import InfoptError, unknown_name
from infopt.ledgers.speculation import acceptance_for_tokens, tokens_per_cycle, tokens_per_cycle_at_rate

TECHNIQUE_ID = "speculative"


def checked(draft: Draft) -> Draft:
    """The draft itself; InfoptError names the option of what cannot be."""
    if draft.drafted_tokens is not None and draft.drafted_tokens < 1:
        raise InfoptError(f"--drafted must be at least 1, got {draft.drafted_tokens}")
    _share("--drafting-share", draft.drafting_share)
    if draft.cycle_ratio is not None and not draft.cycle_ratio > 0:
        raise InfoptError(f"--cycle-ratio must be above 0, got {draft.cycle_ratio:g}")
    if draft.acceptance is not None:
        _share("--alpha", draft.acceptance)
    if draft.accepted is not None:
        _falling(draft.accepted, draft.drafted_tokens)
    return draft


def _share(option: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InfoptError(f"{option} {value:g} is not a share between 0 and 1")


def _falling(accepted: tuple[float, ...], drafted: int | None) -> None:
    """Shares of drafts that accept at least 1, 2, ... tokens: no later one is above an earlier."""
    if not accepted:
        raise InfoptError("--alpha needs at least one share")
    for share in accepted:
        _share("--alpha", share)
    for position in range(1, len(accepted)):
        if accepted[position] > accepted[position - 1]:
            raise InfoptError(
                f"--alpha {accepted[position]:g} at position {position + 1} is above {accepted[position - 1]:g} before "
                "it: give the shares of drafts that accept at least 1, 2, ... tokens"
            )
    if drafted is not None and drafted > len(accepted):
        raise InfoptError(f"--alpha has {len(accepted)} positions, --drafted {drafted} needs {drafted}")


def positions(draft: Draft) -> int | None:
    """How many positions have an acceptance of their own; None where there is one rate, or none."""
    return len(draft.accepted) if draft.accepted is not None else None


def tokens_of(draft: Draft, drafted: int) -> float:
    """Tokens a step yields with `drafted` tokens a draft."""
    if draft.accepted is not None:
        return tokens_per_cycle(draft.accepted[:drafted], draft.drafting_share)
    assert draft.acceptance is not None
    return tokens_per_cycle_at_rate(draft.acceptance, drafted, draft.drafting_share)


def rate_of(draft: Draft) -> float | None:
    """The acceptance as one rate: as given, or the rate that yields the tokens of the positions given."""
    if draft.accepted is None or not draft.accepted:
        return draft.acceptance
    drafted = min(draft.drafted_tokens or len(draft.accepted), len(draft.accepted))
    return acceptance_for_tokens(1 + sum(draft.accepted[:drafted]), drafted)


def with_rate(situation: Situation, rate: float) -> Situation:
    """The situation with one rate in place of what was given, at the same draft length."""
    draft = situation.load.draft
    changed = replace(draft, acceptance=rate, accepted=None, drafted_tokens=draft.drafted_tokens or positions(draft))
    return situation.changed(load=replace(situation.load, draft=changed))


def method_named(text: str) -> DraftMethod:
    """A method by its name; EAGLE and MTP have versions that draft alike."""
    name = text.strip().lower().replace("_", "").replace("-", "")
    known: tuple[DraftMethod, ...] = get_args(DraftMethod)
    for method in known:
        if method.replace("-", "") in (name, name.rstrip("0123456789")):
            return method
    raise unknown_name("draft method", text, list(known), f"choose one of {', '.join(known)}")


def refusal(situation: Situation) -> str | None:
    """Why no engine drafts so here, None where one does."""
    draft, s, method = situation.load.draft, situation.scenario, method_of(situation)
    told = situation.changed(load=replace(situation.load, draft=replace(draft, method=method)))
    for conflict in conflicts(TECHNIQUE_ID, told):
        return conflict.text
    if method == "mtp" and not s.model.mtp_layers:
        return f"{s.model.id} has no prediction layers"
    if method == "draft-model" and draft.scenario is not None:
        difference = abs(draft.scenario.model.vocab - s.model.vocab)
        allowed = largest_vocabulary_difference(s.engine.engine)
        if allowed is not None and difference > allowed:
            sizes = f"the draft has {draft.scenario.model.vocab:,} tokens, the model {s.model.vocab:,}"
            return f"{named_engine(s)} needs one vocabulary: {sizes}"
    return None
