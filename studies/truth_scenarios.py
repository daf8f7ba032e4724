"""A published run as a scenario: what its row states, and a refusal where that is not enough."""

from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import LayerRun, ModelProfile
from infopt.studies.scenarios import Request, build
from infopt.studies.truth import (
    Case,
    case_device,
    case_engine,
    case_kv,
    case_model,
    case_version,
    case_weights,
    sized_device,
)

# Geometry checks need no device; where none is named this one is large enough for anything.
ROOMY_BYTES = 10_000 * 2**30


def case_scenario(case: Case, words: dict[str, Any]) -> tuple[Scenario, Accelerator | None]:
    """The scenario of a case, on its device or (geometry checks need none) on a roomy stand-in."""
    engine = case_engine(case, words)
    model = _as_cached(case, case_model(case, words))
    if case.gpus is not None and case.gpus > case.tp * case.pp:
        raise InfoptError("tp and pp not stated")
    drafted = _drafted_tokens(case, model)
    device = case_device(case)
    stand_in = device or sized_device(ROOMY_BYTES, None, case.source)
    request = Request(
        context_tokens=case.context_tokens or model.max_position_tokens or 4096,
        gpus=case.tp * case.pp,
        tp=case.tp,
        pp=case.pp,
        engine=engine,
        engine_version=case_version(case) if engine in ("vllm",) else None,
        # A checkpoint that is stored quantized is loaded as stored, whatever short word the row has for it.
        weights=None if model.quantization else case_weights(case, words),
        kv=case_kv(case),
        utilization=case.utilization,
        max_num_seqs=case.flag_number("max-num-seqs"),
        max_num_batched_tokens=case.flag_number("max-num-batched-tokens"),
        block_tokens=_block_tokens(case),
        text_only="language-model-only" in case.flags,
        mtp_tokens=drafted,
        prefix_caching=prefix_caching(case),
        extra_cache_layers=_draft_layers(case, drafted),
    )
    return build(model, HardwareChoice(stand_in, None, case.gpu), request).scenario, device


def _drafted_tokens(case: Case, model: ModelProfile) -> int:
    """Tokens drafted per step: recurrent models keep one state more for each, so the number must be stated."""
    if "MTP" not in case.flags + case.model or "no MTP" in case.flags:
        return 0
    stated = case.flag_number("MTP-") or case.flag_number("MTP")
    if stated is None and any(group.mixer.state for group in model.groups):
        raise InfoptError("number of drafted tokens not stated")
    return stated or 1


def _draft_layers(case: Case, drafted: int) -> int:
    """Layers a draft head caches: one, unless it reads the target's cache."""
    has_head = drafted > 0 or "EAGLE" in case.flags + case.model
    return 1 if has_head and "reuses target KV" not in case.flags else 0


def prefix_caching(case: Case) -> bool | None:
    """As stated; None follows the engine version."""
    if "prefix caching off" in case.flags:
        return False
    return True if "prefix caching" in case.flags else None


def _block_tokens(case: Case) -> int | None:
    return case.flag_number("block-size") or case.flag_number("tokens_per_block")


def _as_cached(case: Case, model: ModelProfile) -> ModelProfile:
    """Engines without a latent cache keep every head's keys and values: the case says so."""
    if "no MLA cache" not in case.flags + case.model:
        return model

    def expanded(run: LayerRun) -> LayerRun:
        if run.mixer.kind not in ("latent", "indexed"):
            return run
        return replace(run, mixer=replace(run.mixer, kind="full", kv_heads=run.mixer.q_heads))

    return replace(model, runs=tuple(expanded(run) for run in model.runs))
