"""How a deployment drafts, from its engine's options: the method, the length, the draft model."""

from typing import Any

from infopt.boundaries.drafting import drafting, method_of
from infopt.boundaries.load import Draft, DraftMethod
from infopt.boundaries.situation import Situation
from infopt.boundaries.speculation_case import Case as DraftCase
from infopt.boundaries.speculation_inputs import refusal
from infopt.errors import InfoptError
from infopt.gate.case import Case
from infopt.gate.found import Argument
from infopt.ledgers.scenario import Scenario
from infopt.profiles.catalogue import find_in_catalogue, load_catalogue_model
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


def drafts(case: Case) -> bool:
    """Whether the deployment speculates, in whatever way."""
    return any(case.value(name) for name in ("speculative", "speculative_method", "draft_model", "drafted"))


def said_at(case: Case) -> Argument | None:
    """Where the file says so."""
    names = ("speculative", "drafted", "speculative_method", "draft_model")
    return next((at for name in names if (at := case.deployment.said_at(name)) is not None), None)


def draft_of(case: Case) -> Draft | None:
    """The draft; None where there is none, or method or length are not known."""
    said: Any = case.value("speculative") or {}
    said = said if isinstance(said, dict) else {}
    model = said.get("model") or case.value("draft_model")
    length = _count(said.get("num_speculative_tokens") or case.value("drafted"))
    method = _method(str(said.get("method") or case.value("speculative_method") or ""), str(model or ""))
    if method is None or length is None or length < 1:
        return None
    if method != "draft-model":
        return Draft(method=method, drafted_tokens=length)
    beside = _beside(case, str(model))
    return None if beside is None else Draft(method=method, drafted_tokens=length, scenario=beside)


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
    if model.lower() in METHODS:
        return METHODS[model.lower()]
    if "eagle" in model.lower() or "medusa" in model.lower():
        return "eagle" if "eagle" in model.lower() else "medusa"
    return "draft-model" if model else None


def _count(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _beside(case: Case, model: str) -> Scenario | None:
    """The draft model on the same devices, None where it is not known."""
    # By its name alone: no path of a deployment is opened.
    known = find_in_catalogue(model)
    if known is None or case.plan is None or case.device is None:
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
        return draft_scenario(load_catalogue_model(known), case.device, request)
    except InfoptError:
        return None
