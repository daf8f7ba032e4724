"""How a deployment drafts, in the terms of the boundaries: the method, the length, the draft model."""

from infopt.boundaries.drafting import drafting, method_of
from infopt.boundaries.load import Draft, DraftMethod
from infopt.boundaries.situation import Situation
from infopt.boundaries.speculation_case import Case as DraftCase
from infopt.boundaries.speculation_inputs import refusal
from infopt.errors import InfoptError
from infopt.gate.beside import draft_model, draft_said
from infopt.gate.case import Case
from infopt.gate.found import Argument
from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import ModelProfile
from infopt.studies.boundary import draft_scenario
from infopt.studies.scenarios import Request

# How engines call methods (dashes and underscores left out); what is not here drafts in a way the ledgers do not know.
METHODS: dict[str, DraftMethod] = {
    "ngram": "ngram",
    "[ngram]": "ngram",
    "eagle": "eagle",
    "eagle3": "eagle",
    "medusa": "medusa",
    "mtp": "mtp",
    "nextn": "mtp",
    "draftmodel": "draft-model",
    "standalone": "draft-model",
    "drafttarget": "draft-model",
}


def said_at(case: Case) -> Argument | None:
    """Where the file asks for speculation."""
    names = ("speculative", "drafted", "speculative_method", "draft_model")
    return next((at for name in names if (at := case.deployment.said_at(name)) is not None), None)


def drafts(case: Case) -> bool:
    """Whether the deployment speculates, in whatever way."""
    return draft_said(case.deployment) is not None or bool(case.value("drafted"))


def draft_of(case: Case) -> Draft | None:
    """The draft; None where there is none, or method, length or model are not known."""
    said = draft_said(case.deployment)
    if said is None or said.tokens < 1:
        return None
    method = _method(said.method, said.name or "")
    if method != "draft-model":
        return None if method is None else Draft(method=method, drafted_tokens=said.tokens)
    named = draft_model(said)
    beside = None if named is None else _beside(case, named.model)
    return None if beside is None else Draft(method=method, drafted_tokens=said.tokens, scenario=beside)


def drafting_case(situation: Situation) -> DraftCase | None:
    """The arithmetic of the situation's draft; None where no engine runs it (another rule's business)."""
    if refusal(situation) is not None or method_of(situation) != situation.load.draft.method:
        return None
    return DraftCase(situation, situation.load.draft, drafting(situation))


def _method(named: str, model: str) -> DraftMethod | None:
    key = named.lower().replace("_", "").replace("-", "")
    if key:
        # Names that carry a model ("deepseek_mtp", "qwen3_next_mtp") say what drafts at their end.
        return METHODS.get(key) or ("mtp" if key.endswith("mtp") else None)
    return next((METHODS[word] for word in ("eagle", "medusa") if word in model.lower()), "draft-model")


def _beside(case: Case, model: ModelProfile) -> Scenario | None:
    """The draft model on the same devices, None where no engine runs it so."""
    if case.plan is None or case.device is None:
        return None
    s = case.plan.scenario
    request = Request(
        context_tokens=s.context_tokens,
        gpus=s.gpus,
        tp=s.tp,
        pp=s.pp,
        dp=s.dp,
        engine=s.engine.engine,
        engine_version=s.engine_version,
    )
    try:
        return draft_scenario(model, case.device, request)
    except InfoptError:
        return None
