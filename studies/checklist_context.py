"""What a check of the checklist sees: the deployment, its plan, what its techniques are judged to be, observations."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

from infopt.boundaries.load import Load
from infopt.boundaries.registry import judge, techniques
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Curve
from infopt.boundaries.technique import Judgement, Technique
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import FULL_PRECISION_BITS
from infopt.ledgers.terms import Caveat
from infopt.observing.observation import Observation
from infopt.profiles.checklists import Feature
from infopt.profiles.formats import load_weight_format
from infopt.profiles.geometry import ModelProfile
from infopt.studies.boundary import named, with_techniques
from infopt.studies.observed import with_observed
from infopt.studies.planning import Plan, own_constants, plan_built
from infopt.studies.scenarios import Built, Request, build

Status = Literal["pass", "fail", "needs-measurement"]
# Features that are a technique of the boundaries in use.
TECHNIQUE_OF: dict[Feature, str] = {
    "kv-quantization": "kv-quantization",
    "weight-quantization": "weight-quantization",
    "speculation": "speculative",
    "adapters": "lora",
    "offload": "kv-offload",
    "parallelism": "parallelism",
}
NOT_JUDGED = "not judged by this version of infopt"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a check found.

    value    the number that decides, base units, None where it is not known
    reason   one line
    settle   what would settle it, where that is not the item's own command
    """

    status: Status
    value: float | None
    unit: str
    reason: str
    settle: str = ""


def needs(reason: str, value: float | None = None, unit: str = "", settle: str = "") -> Answer:
    """An answer that waits for a measurement or a person."""
    return Answer("needs-measurement", value, unit, reason, settle)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is checked.

    applied   techniques in use, as `--with` names them
    offloads  a tier for cached tokens was named, be it the default one
    """

    model: ModelProfile
    hardware: HardwareChoice
    request: Request
    load: Load
    curve: Curve = ()
    applied: tuple[str, ...] = ()
    observed: Observation | None = None
    offloads: bool = False


class Context:
    """A deployment with what the ledgers and the techniques say of it, each computed when first asked for."""

    def __init__(self, deployment: Deployment) -> None:
        self.assumed: list[Caveat] = []
        self._judged: dict[tuple[str, int | None], Judgement | None] = {}
        self.deployment = self._with_observed(deployment)
        self._with_rate()

    def _with_observed(self, d: Deployment) -> Deployment:
        """What was observed stands for what was not given."""
        filled = with_observed(d.observed, d.model, d.hardware, d.request, d.load, d.curve)
        self.assumed += filled.assumed
        return replace(d, request=filled.request, load=filled.load)

    def _with_rate(self) -> None:
        """Where no batch was given or observed, the one that Little's law gives at the rate."""
        rate, request = self.load.traffic.rate_per_s, self.deployment.request
        if rate is None or request.batch != 1:
            return
        expected = math.ceil(self.expected_batch or 0.0)
        if expected > 1:
            self._assume("batch", f"batch {expected}: what {rate:.3g} requests/s keep in flight, by Little's law")
            self.deployment = replace(self.deployment, request=replace(request, batch=expected))
            for name in ("plan", "situation"):
                self.__dict__.pop(name, None)
            self._judged.clear()

    def _assume(self, id: str, text: str) -> None:
        self.assumed.append(Caveat(id, text))

    @property
    def load(self) -> Load:
        return self.deployment.load

    @property
    def observed(self) -> Observation | None:
        return self.deployment.observed

    @property
    def scenario(self) -> Scenario:
        return self.plan.scenario

    @cached_property
    def plan(self) -> Plan:
        """The plan with what techniques in use take of memory (drafts, adapters) and their formats."""
        d = self.deployment
        built = build(d.model, d.hardware, d.request)
        used = Built(self.situation.scenario, built.assumptions)
        return plan_built(used, d.hardware, d.request, explain_fit=False)

    @cached_property
    def situation(self) -> Situation:
        """The deployment with the techniques it uses."""
        return self._situation(self.deployment.request, self.load, self.deployment.applied)

    def _situation(self, request: Request, load: Load, applied: Sequence[str], without: str = "") -> Situation:
        """With the techniques named, and those that the load describes: what they take and gain is there for all."""
        d = self.deployment
        scenario = build(d.model, d.hardware, request).scenario
        situation = with_techniques(Situation(scenario, load, own_constants(scenario, request), d.curve), applied)
        for id in self._described(load):
            if id in situation.used or id == without:
                continue
            try:
                situation = with_techniques(situation, [id])
            except InfoptError:
                # What is not known of it, or why it cannot run, is for its own item to say.
                continue
        return situation

    def _described(self, load: Load) -> list[str]:
        prefix, known = load.prefix, {t.id for t in techniques() if t.apply is not None}
        has = {
            "prefix-caching": prefix.hit_share is not None or prefix.shared_tokens is not None,
            "speculative": _speculates(self),
            "kv-offload": _offloads(self),
            "lora": _adapts(self),
        }
        return [id for id, there in has.items() if there and id in known]

    def before(self, technique: str, batch: int | None = None) -> Situation:
        """The deployment without one of its techniques, which is what that technique is judged in.

        batch  another batch than the deployment's
        """
        d, load = self.deployment, self.load
        request = d.request
        applied = [text for text in d.applied if named(text)[0].id != technique]
        s = self.scenario
        if technique == "kv-quantization" and self.uses("kv-quantization"):
            request, load = replace(request, kv=None), replace(load, kv_format=self.situation.scenario.kv_format)
        if technique == "weight-quantization" and self.uses("weight-quantization"):
            plain = d.model.compute_dtype
            request = replace(request, weights=plain, kv=request.kv or s.kv_format)
            load = replace(load, weight_format=self.situation.scenario.weight_format)
        found = self._situation(request, load, applied, without=technique)
        return found if batch is None else found.changed(batch=batch)

    def judgement(self, technique: str, batch: int | None = None) -> Judgement | None:
        """The answer of a technique in the deployment without it, at another batch where one is given.

        None where this version has no such technique.
        """
        key = (technique, batch)
        if key not in self._judged:
            found = _technique(technique)
            self._judged[key] = None if found is None else judge(found, self.before(technique, batch))
        return self._judged[key]

    def figure(self, technique: str, name: str) -> float | None:
        """A figure of a technique, None where it has none."""
        answer = self.judgement(technique)
        figures = answer.figures if answer is not None else ()
        return next((f.value for f in figures if f.name == name), None)

    @property
    def expected_batch(self) -> float | None:
        """Sequences at once in the whole deployment at the rate, None where no rate is given."""
        if self.load.traffic.rate_per_s is None:
            return None
        s, together = self.scenario, self.figure("continuous-batching", "effective_batch")
        return None if together is None else together * s.dp / s.sharing_replicas

    def uses(self, feature: Feature) -> bool:
        """Whether the deployment, as its options describe it, has a feature."""
        return FEATURES[feature](self)

    @property
    def applied_ids(self) -> frozenset[str]:
        """Techniques named as in use."""
        return frozenset(named(text)[0].id for text in self.deployment.applied)

    @property
    def techniques_in_use(self) -> tuple[str, ...]:
        """Ids of the techniques the deployment uses, those of `--with` included."""
        from_features = [id for feature, id in TECHNIQUE_OF.items() if self.uses(feature)]
        return tuple(dict.fromkeys([*from_features, *sorted(self.applied_ids)]))

    @property
    def most_sequences(self) -> int:
        """The most sequences at once: the engine's limit or what memory holds, of the whole deployment."""
        s, held = self.scenario, self.plan.memory.max_sequences
        return max(s.batch, min(s.max_num_seqs, held) * s.dp) if held else s.batch


def _technique(id: str) -> Technique | None:
    return next((t for t in techniques() if t.id == id), None)


def _offloads(context: Context) -> bool:
    offload = context.load.offload
    told = (offload.bytes_per_s, offload.capacity_bytes, offload.reuse_share, offload.endurance_bytes)
    named_one = context.deployment.offloads or "kv-offload" in context.applied_ids
    return named_one or offload.tier != "dram" or any(value is not None for value in told)


def _speculates(context: Context) -> bool:
    draft = context.load.draft
    told = (draft.method, draft.accepted, draft.acceptance, draft.drafted_tokens, draft.scenario)
    return "speculative" in context.applied_ids or any(value is not None for value in told)


def _adapts(context: Context) -> bool:
    return "lora" in context.applied_ids or context.load.adapters.slots is not None


def _quantized_kv(context: Context) -> bool:
    return "kv-quantization" in context.applied_ids or context.scenario.kv.bits_per_element < FULL_PRECISION_BITS


def _quantized_weights(context: Context) -> bool:
    whole = load_weight_format(context.scenario.weight_format).covers_everything
    return "weight-quantization" in context.applied_ids or not whole


# Whether a deployment has a feature.
FEATURES: Mapping[Feature, Callable[[Context], bool]] = {
    "kv-quantization": _quantized_kv,
    "weight-quantization": _quantized_weights,
    "speculation": _speculates,
    "adapters": _adapts,
    "offload": _offloads,
    "persistent-offload": lambda c: _offloads(c) and c.load.offload.tier != "dram",
    "parallelism": lambda c: c.scenario.gpus > 1,
    "tensor-parallel": lambda c: c.scenario.tp > 1,
    "replicas": lambda c: c.scenario.dp > 1,
    "experts": lambda c: c.scenario.model.experts > 0,
}
# How to say that it has one, or none.
FEATURE_WORDS: Mapping[Feature, str] = {
    "kv-quantization": "quantized cache",
    "weight-quantization": "quantized weights",
    "speculation": "speculation",
    "adapters": "adapters",
    "offload": "cache offload",
    "persistent-offload": "cache on a disk or remote store",
    "parallelism": "parallelism",
    "tensor-parallel": "tensor parallelism",
    "replicas": "replicas",
    "experts": "experts",
}
