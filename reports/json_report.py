"""The JSON contract (DESIGN section 4): plain numbers in base units, null where the ledger does not know."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from infopt.ledgers.estimate import Estimate
from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import Plan

if TYPE_CHECKING:
    from infopt.studies.choices import Choices
    from infopt.studies.cost import Month, NoMonth

PLAN_SCHEMA = "infopt/plan/1"
COST_KEYS = (
    "usd_per_hour",
    "usd_per_million_output_tokens",
    "usd_per_million_output_tokens_at_floor",
    "usd_per_million_input_tokens_attributed",
    "usd_per_million_output_tokens_attributed",
    "prefill_share",
)
ENERGY_KEYS = ("watts", "kind", "source", "joules_per_output_token", "output_tokens_per_joule")
CHOICES_SCHEMA = "infopt/choices/1"
ERROR_SCHEMA = "infopt/error/1"


def plan_dict(plan: Plan, explain: bool = False, month: "Month | NoMonth | None" = None) -> dict[str, Any]:
    """One plan as the contract's object; `explain` adds every term with its formula and source, `month` its load."""
    s = plan.scenario
    data = {
        "schema": PLAN_SCHEMA,
        "model": model_dict(s.model, s.weight_format, s.kv_format),
        "hardware": _hardware(plan),
        "workload": {
            "context_tokens": s.context_tokens,
            "input_tokens": s.input_tokens,
            "output_tokens": s.output_tokens,
            "decode_context_tokens": s.decode_context_tokens,
            "batch": s.batch,
        },
        "engine": {"name": s.engine.engine, "version": s.engine_version, "utilization": s.utilization},
        "memory": _memory(plan),
        "bandwidth": _bandwidth(plan),
        "compute": {
            "prefill_flop": plan.compute.prefill_flop,
            "decode_flop_per_token": plan.compute.decode_flop_per_token,
            "ttft_floor_s": plan.compute.ttft_floor_s,
            "ridge_batch": plan.compute.ridge_batch,
        },
        "estimate": _estimate(plan),
        "cost": _cost(plan),
        "energy": _energy(plan),
        "remedies": [{"id": r.id, "text": r.text} for r in plan.remedies],
        "assumptions": [{"id": c.id, "text": c.text} for c in plan.assumptions],
        "caveats": [{"id": c.id, "text": c.text} for c in plan.caveats],
        "sources": list(plan.sources),
    }
    if explain:
        from infopt.studies.derivations import explain as derivations

        data["terms"] = [asdict(line) for line in derivations(plan)]
    if month is not None:
        from infopt.reports.month_words import month_dict

        data["month"] = month_dict(month)
    return data


def placed_dict(s: Scenario) -> dict[str, Any]:
    """Devices and engine, where no more is told of them than what was asked for."""
    degrees = {"gpus": s.gpus, "tp": s.tp, "pp": s.pp, "dp": s.dp, "ep": s.ep}
    return {
        "hardware": {"id": s.accelerator.id, **degrees, "calibration": s.accelerator.calibration},
        "engine": {"name": s.engine.engine, "version": s.engine_version},
    }


def workload_dict(s: Scenario) -> dict[str, Any]:
    """Lengths of a request, and how many there are at once."""
    return {
        "context_tokens": s.context_tokens,
        "input_tokens": s.input_tokens,
        "output_tokens": s.output_tokens,
        "batch": s.batch,
    }


def model_dict(model: ModelProfile, weight_format: str, kv_format: str) -> dict[str, Any]:
    """The contract's "model", shared by `plan` and `models show`."""
    return {
        "id": model.id,
        "architecture": model.architecture,
        "layers": model.layers,
        "params_total": model.params_total,
        "params_active": model.params_active,
        "weight_format": weight_format,
        "kv_format": kv_format,
    }


def _hardware(plan: Plan) -> dict[str, Any]:
    s = plan.scenario
    return {
        "id": s.accelerator.id,
        "gpus": s.gpus,
        "tp": s.tp,
        "pp": s.pp,
        "dp": s.dp,
        "ep": s.ep,
        "memory_bytes": s.accelerator.usable_memory_bytes,
        "bandwidth_bytes_per_s": s.accelerator.bandwidth_bytes_per_s,
        "calibration": s.accelerator.calibration,
        "resolved_as": plan.resolved_as,
    }


def _memory(plan: Plan) -> dict[str, Any]:
    m = plan.memory
    return {
        "stored_weights_bytes": m.stored_weights_bytes,
        "weights_bytes_per_gpu": m.weights_bytes_per_gpu,
        "kv_bytes_per_token": m.kv_bytes_per_token,
        "kv_bytes_per_sequence": m.kv_bytes_per_sequence,
        "kv_bytes_per_gpu": m.kv_bytes_per_gpu,
        "state_bytes_per_sequence": m.state_bytes_per_sequence,
        "activation_bytes": m.activation_bytes,
        "communication_bytes": m.communication_bytes,
        "graph_bytes": m.graph_bytes,
        "engine_bytes": m.engine_bytes,
        "margin_bytes": m.margin_bytes,
        "used_bytes_per_gpu": m.used_bytes_per_gpu,
        "capacity_bytes_per_gpu": m.capacity_bytes_per_gpu,
        "kv_pool_bytes_per_gpu": m.kv_pool_bytes_per_gpu,
        "kv_pool_low_bytes": m.kv_pool_low_bytes,
        "kv_pool_high_bytes": m.kv_pool_high_bytes,
        "kv_pool_tokens": m.kv_pool_tokens,
        "kv_pool_concurrency": m.kv_pool_concurrency,
        "kv_share": m.kv_share,
        "max_sequences": m.max_sequences,
        "max_context_tokens": m.max_context_tokens,
        "fits": plan.fits,
        "unknown": list(m.unknown),
    }


def _bandwidth(plan: Plan) -> dict[str, Any]:
    b = plan.bandwidth
    return {
        "weight_bytes_per_step": b.weight_bytes_per_step,
        "weight_bytes_per_step_expected": b.weight_bytes_per_step_expected,
        "kv_bytes_per_step": b.kv_bytes_per_step,
        "kv_share_of_step": b.kv_share_of_step,
        "step_floor_s": b.step_floor_s,
        "tpot_floor_s": b.tpot_floor_s,
        "amortized_s_per_token": b.amortized_s_per_token,
    }


def _estimate(plan: Plan) -> dict[str, Any]:
    """Expected times with their intervals; null, with the reason, where no measurements cover the case."""
    e, keys = plan.estimate, ("tpot_s", "tpot_low_s", "tpot_high_s", "ttft_s", "ttft_low_s", "ttft_high_s")
    if not isinstance(e, Estimate):
        empty = dict.fromkeys((*keys, "output_tokens_per_s", "output_tokens_per_s_per_gpu"))
        return {**empty, "bound": plan.bound, "terms_s": {}, "extrapolated": [], "reason": e.reason}
    return {
        **{key: getattr(e, key) for key in keys},
        "output_tokens_per_s": e.output_tokens_per_s,
        "output_tokens_per_s_per_gpu": e.output_tokens_per_s / plan.scenario.gpus,
        "bound": e.bound,
        "terms_s": {term.name: term.value for term in e.terms},
        "extrapolated": list(e.extrapolated),
        "reason": None,
    }


def _cost(plan: Plan) -> dict[str, Any] | None:
    """Price per hour, and of a million tokens: at the expected throughput, at the floor, and by what took the time."""
    return None if plan.cost is None else {key: getattr(plan.cost, key) for key in COST_KEYS}


def _energy(plan: Plan) -> dict[str, Any] | None:
    """Power of all devices and energy of an output token; null where no power is known."""
    e = plan.energy
    if e is None:
        return None
    return {key: getattr(e, key) for key in ENERGY_KEYS}


def choices_dict(choices: "Choices") -> dict[str, Any]:
    """Plans in rank order, how they were ordered, and what was too small."""
    ranked = [{**plan_dict(plan), "rank": rank} for rank, plan in enumerate(choices.plans, start=1)]
    return {
        "schema": CHOICES_SCHEMA,
        "model": choices.model.id,
        "fits": choices.fits,
        "ranking": choices.ranking,
        "too_small": list(choices.refused),
        "choices": ranked,
    }


def error_dict(message: str, exit_status: int) -> dict[str, Any]:
    """What a command that failed prints where JSON was asked for."""
    return {"error": {"message": message, "exit_status": exit_status}}


def dumps(data: Any) -> str:
    """Stable JSON text: insertion order, ASCII whatever the terminal, no NaN."""
    return json.dumps(data, indent=2, allow_nan=False)
