"""Memory beside the model: adapter slots, a draft model, and weights that are left in host memory.

slots    slots x rank x width x 2 bytes on every rank              (ledgers/lora.py)
draft    its weights on a rank and its cache of one full request
offload  GiB of weights in host memory, of every rank: less on the device
"""

from typing import Any

from infopt.boundaries.lora import BYTES_PER_ELEMENT
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.gate.deployment import Deployment
from infopt.gate.engine_defaults import default_of, lora_slots_of
from infopt.gate.models import Named, model_named
from infopt.gate.placing import whole_number
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.lora import rank_width, slots_bytes
from infopt.ledgers.paging import layout
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.weights import stage_rank_bytes
from infopt.studies.scenarios import Request, build

GIB = 2**30
NO_MODEL = frozenset({"ngram", "[ngram]", "suffix", "ngram_gpu", "medusa"})
OWN_LAYERS = frozenset({"mtp", "nextn", "deepseek_mtp"})


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft beside the model.

    method        as the file calls it, "" where only a model is named
    name          of the draft model, None where the method has none
    tp            ranks it is split over
    tokens        drafted in a step
    """

    method: str
    name: str | None
    tp: int | None
    tokens: int

    @property
    def own_layers(self) -> bool:
        """Whether layers of the model itself draft."""
        return self.method.lower() in OWN_LAYERS or self.method.lower().endswith("mtp")

    @property
    def head(self) -> bool:
        """Whether a small head drafts rather than a model of its own."""
        return "eagle" in f"{self.method} {self.name or ''}".lower()


@dataclass(frozen=True, slots=True)
class DraftBytes:
    """What a draft model takes on a rank: weights, and cache of one full request."""

    weights: float
    request: float


def draft_said(deployment: Deployment) -> Draft | None:
    """The draft a file asks for."""
    said: Any = deployment.value("speculative")
    said = said if isinstance(said, dict) else {}
    name = said.get("model") or deployment.value("draft_model")
    method = str(said.get("method") or deployment.value("speculative_method") or "")
    if not name and not method and deployment.engine == "vllm" and deployment.value("drafted"):
        method = "mtp"  # vLLM before 0.8: tokens to draft and no model is the model's own layers
    if not name and not method:
        return None
    if method.lower() in NO_MODEL or str(name).lower() in NO_MODEL:
        name, method = None, method or str(name)
    tp = said.get("draft_tensor_parallel_size") or deployment.value("draft_tp")
    tokens = said.get("num_speculative_tokens") or deployment.value("drafted") or 0
    return Draft(method, str(name) if name else None, whole_number(tp), whole_number(tokens) or 0)


def draft_model(draft: Draft) -> Named | None:
    """The draft's model, None where it has none or the catalogue does not know it."""
    if draft.name is None or draft.own_layers:
        return None
    try:
        return model_named(draft.name)
    except InfoptError:
        return None


def draft_bytes(draft: Draft, s: Scenario, device: HardwareChoice) -> DraftBytes | None:
    """Weights and cache of a draft model beside a scenario; None where the model is not known."""
    named = draft_model(draft)
    if named is None:
        return None
    tp = draft.tp or s.tp
    request = Request(
        context_tokens=s.context_tokens, gpus=tp, tp=tp, engine=s.engine.engine, engine_version=s.engine_version
    )
    try:
        own = build(named.model, device, request).scenario
        own.check()
    except InfoptError:
        return None
    return DraftBytes(
        stage_rank_bytes(own.model.runs, own, True, True),
        float(layout(own.model.runs, own).request_bytes(s.context_tokens)),
    )


def adapter_bytes(deployment: Deployment, s: Scenario) -> tuple[float, int, int]:
    """Adapter slots on a rank in bytes, number, rank; 0 without adapters or where the rank is unknown."""
    if not deployment.value("lora"):
        return 0.0, 0, 0
    slots = int(deployment.value("lora_slots") or lora_slots_of(deployment.engine) or 1)
    rank = int(deployment.value("lora_rank") or (default_of("lora_rank") if deployment.engine == "vllm" else 0))
    return slots_bytes(rank_width(s, experts=False), slots, rank, BYTES_PER_ELEMENT), slots, rank


def beside_bytes(deployment: Deployment, s: Scenario, device: HardwareChoice, assumed: list[str]) -> float:
    """Sum of all of it on a rank; below zero where weights are left in host memory."""
    total, slots, rank = adapter_bytes(deployment, s)
    if total:
        assumed.append(f"{slots} adapter slots of rank {rank}: {total / GIB:.2f} GiB on each device")
    draft = draft_said(deployment)
    inside = draft is not None and s.engine.budget != "static_share"
    taken = draft_bytes(draft, s, device) if draft is not None and inside else None
    if draft is not None and taken is not None:
        total += taken.weights + taken.request
        assumed.append(
            f"draft {draft.name}: {taken.weights / GIB:.2f} GiB of weights and {taken.request / GIB:.2f} GiB of cache "
            "for a full request on each device"
        )
    offload = float(deployment.value("weight_offload_gib") or 0.0) * GIB
    if offload:
        assumed.append(f"{offload / GIB:g} GiB of weights of each device are left in host memory")
    return total - offload
