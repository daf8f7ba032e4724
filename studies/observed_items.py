"""Checklist items that an observation answers: settled by it, or answered otherwise than without it."""

from collections.abc import Sequence
from dataclasses import replace

from infopt.frozen import dataclass
from infopt.profiles.checklists import shipped
from infopt.studies.checklist import Entry, Typed, checklist
from infopt.studies.checklist_context import Deployment, Status

# Commands are not shown here, so nothing that was typed is needed.
OTHER_CONTEXT_TOKENS = 1024  # far from what is assumed where no length is given
_TYPED = Typed("", "", "", "")


@dataclass(frozen=True, slots=True)
class Answered:
    """One item: its status with the observation, and the one without where that differs."""

    id: str
    text: str
    status: Status
    before: Status
    reason: str


def answered(deployment: Deployment) -> tuple[Answered, ...]:
    """Items of the shipped lists in their order, answered by the deployment's observation.

    Errors: InfoptError for a placement no engine runs and for an engine that serves nobody.
    """
    entries = _entries(deployment)
    without = {entry.item.id: entry for entry in _entries(replace(deployment, observed=None))}
    unsure = _of_lengths(deployment, entries)
    pairs = [(entry, without[entry.item.id]) for entry in entries if entry.item.id not in unsure]
    return tuple(
        Answered(one.item.id, one.item.text, one.status, other.status, one.answer.reason)
        for one, other in pairs
        if one.applies and one.item.check is not None and _tells_more(one, other)
    )


def _entries(deployment: Deployment) -> tuple[Entry, ...]:
    return checklist(deployment, shipped(), {}, _TYPED).entries


def _of_lengths(deployment: Deployment, entries: Sequence[Entry]) -> set[str]:
    """Items that other lengths would answer otherwise, where lengths were neither observed nor given."""
    o, request = deployment.observed, deployment.request
    given = (request.context_tokens, request.input_tokens, request.output_tokens) != (None, None, None)
    if given or o is None or o.input_tokens_mean is not None:
        return set()
    shorter = replace(deployment, request=replace(request, context_tokens=OTHER_CONTEXT_TOKENS))
    others = {entry.item.id: entry.answer for entry in _entries(shorter)}
    return {
        one.item.id
        for one in entries
        if (one.answer.status, one.answer.reason) != (others[one.item.id].status, others[one.item.id].reason)
    }


def _tells_more(one: Entry, other: Entry) -> bool:
    """Another status, an item that did not apply, or another figure behind a failure."""
    if one.status != other.status or not other.applies:
        return True
    changed = (one.answer.value, one.answer.reason) != (other.answer.value, other.answer.reason)
    return changed and one.status == "fail"
