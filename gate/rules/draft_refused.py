"""A way of drafting that this engine, version or placement does not run."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.speculation_inputs import refusal
from infopt.gate.case import Case
from infopt.gate.drafts import draft_of, drafts, said_at
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import own_engine, situation_of
from infopt.profiles.engines import in_versions

# Between these versions of vLLM sizes that differ by padding may have passed: what was compared changed.
PADS = ("0.5.1", "0.14")


def check(case: Case) -> Iterator[Hit]:
    """What the boundary refuses; that a model has no prediction layers only its own config knows for sure."""
    if not drafts(case) or not own_engine(case):
        return
    situation, draft = situation_of(case), draft_of(case)
    if situation is None or draft is None or (draft.method == "mtp" and not situation.scenario.model.mtp_layers):
        return
    why = refusal(situation.changed(load=replace(situation.load, draft=draft)))
    if why is None:
        return
    version = case.deployment.version
    padded = in_versions(version, *PADS) if version is not None and "one vocabulary" in why else False
    known = version is not None and not padded
    yield Hit(
        why,
        at=said_at(case),
        severity=None if known else "warning",
        confidence="certain" if known else "possible",
    )


RULE = Rule(
    id="draft-refused",
    summary="this engine does not draft this way here",
    severity="error",
    why="The engine stops while it reads its options, or when it loads the draft.",
    remedy="Another way to draft, a draft of the model's own family, or no speculation.",
    check=check,
    source="boundaries/data/conflicts.yaml and draft_methods.yaml, row by row; vllm-project/vllm issues 14117, 5203",
)
