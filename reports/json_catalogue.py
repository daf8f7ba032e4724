"""`models` and `hardware` as JSON (DESIGN section 4)."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from infopt.hardware.accelerator import HardwareChoice
from infopt.profiles.geometry import LayerRun
from infopt.reports.json_report import model_dict
from infopt.studies.hardware_view import Stored
from infopt.studies.model_view import ModelView

MODEL_SCHEMA, MODELS_SCHEMA = "infopt/model/1", "infopt/models/1"
ACCELERATOR_SCHEMA, HARDWARE_SCHEMA = "infopt/accelerator/1", "infopt/hardware/1"


def show_model(view: ModelView) -> dict[str, Any]:
    """One model: geometry, parameters by part, active parameters, cache in its native type."""
    model, cache = view.model, view.cache
    return {
        "schema": MODEL_SCHEMA,
        "model": model_dict(model, view.weight_format, view.kv_format),
        "params": model.params_by_part,
        "active": {
            "with_embeddings": model.params_active_with_embeddings,
            "without_input_embedding": model.params_active,
            "without_embeddings": model.params_active_without_embeddings,
        },
        "cache": {
            "full_bytes_per_token": cache.full_bytes_per_token,
            "window_bytes_per_token": cache.window_bytes_per_token,
            "window_tokens": cache.window_tokens,
            "state_bytes": cache.state_bytes,
            "context_tokens": view.context_tokens,
            "kv_bytes_per_sequence": view.kv_bytes_per_sequence,
            "reserved": asdict(view.reserved) if view.reserved else None,
            "derivation": [asdict(part) for part in view.parts],
        },
        "geometry": {
            "hidden": model.hidden,
            "vocab": model.vocab,
            "tied_embeddings": model.tied,
            "max_position_tokens": model.max_position_tokens,
            "compute_dtype": model.compute_dtype,
            "layer_groups": [_group(group) for group in model.groups],
        },
        "stored_weights_bytes": view.stored_weights_bytes,
        "published": view.published.model_dump() if view.published else None,
        "source": {"kind": model.source_kind, "text": model.source},
        "caveats": [{"id": "model", "text": note} for note in model.notes],
    }


def _group(group: LayerRun) -> dict[str, Any]:
    return {
        "layers": group.layers,
        "params_per_layer": group.params_per_layer,
        "mixer": asdict(group.mixer),
        "feed_forward": asdict(group.feed_forward),
    }


def list_models(ids: Sequence[str], views: Sequence[ModelView] | None = None) -> dict[str, Any]:
    """Names, or the contract's "model" of each where they were read."""
    if views is None:
        return {"schema": MODELS_SCHEMA, "models": [{"id": id} for id in ids]}
    return {
        "schema": MODELS_SCHEMA,
        "models": [model_dict(view.model, view.weight_format, view.kv_format) for view in views],
    }


def show_hardware(choice: HardwareChoice, calibrations: Sequence[Stored]) -> dict[str, Any]:
    """One accelerator with kind and source of every figure, and the calibration records stored of it."""
    device = asdict(replace(choice.accelerator, measured_steps=()))
    del device["measured_steps"]  # they are in the record's file, in full
    return {
        "schema": ACCELERATOR_SCHEMA,
        "gpus": choice.gpus,
        "resolved_as": choice.resolved_as,
        "accelerator": device,
        "calibrations": [asdict(one) for one in calibrations],
    }


def list_hardware(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The summaries as they are."""
    return {"schema": HARDWARE_SCHEMA, "accelerators": list(summaries)}
