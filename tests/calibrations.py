"""Calibration records for tests: made up, whole, and written as `infopt probe` writes them."""

from pathlib import Path
from typing import Any

from infopt.hardware.calibration import (
    METHOD,
    SCHEMA,
    Acceptance,
    Calibration,
    Device,
    Measurement,
    State,
    Step,
    calibration_text,
)

TAKEN = "2026-11-29T10:00:00Z"


def device(**changes: Any) -> Device:
    """An H200 as its driver names it."""
    given = {
        "kind": "cuda",
        "name": "NVIDIA H200",
        "accelerator": "h200-sxm-141gb",
        "uuid_hash": "0123456789abcdef",
        "memory_bytes": 150_754_820_096,
        "compute_capability": "9.0",
        "last_cache_bytes": 60 * 2**20,
    }
    return Device(**(given | changes))


def measurement(name: str = "read", value: float = 4.2e12, **changes: Any) -> Measurement:
    """A figure of `probe bandwidth`, in a spread of 1 % either way."""
    given = {
        "probe": "bandwidth",
        "name": name,
        "format": "fp32",
        "unit": "bytes/s",
        "value": value,
        "p10": 0.99 * value,
        "p90": 1.01 * value,
        "n": 30,
        "n_clean": 30,
        "contended": False,
        "taken": TAKEN,
        "moved": 1e9,
        "moved_unit": "bytes",
        "conditions": {"size_bytes": 2**30},
    }
    return Measurement(**(given | changes))


def product(value: float = 7e14, **changes: Any) -> Measurement:
    """The best of `probe compute` in a format."""
    given = {"probe": "compute", "format": "bf16", "unit": "flop/s", "moved_unit": "flop", "conditions": {}}
    return measurement("matmul_best", value, **(given | changes))


def step(median_s: float = 0.005, **changes: Any) -> Step:
    """One decode step of an 8B in bf16."""
    given = {
        "engine": "torch",
        "engine_version": "2.13.0",
        "eager": False,
        "model": "meta-llama/Llama-3.1-8B",
        "weights": "bf16",
        "kv": "bf16",
        "batch": 1,
        "tokens": 1,
        "context_tokens": 1024,
        "tp": 1,
        "weight_bytes": 15.0e9,
        "kv_bytes": 1.3e8,
        "flop": 1.5e10,
        "kernels": 450,
        "layers": 32,
        "layers_run": 32,
        "hidden": 4096,
        "median_s": median_s,
        "p10_s": 0.99 * median_s,
        "p90_s": 1.01 * median_s,
        "n": 20,
        "n_clean": 20,
        "contended": False,
        "taken": TAKEN,
    }
    return Step(**(given | changes))


def acceptance(**changes: Any) -> Acceptance:
    """A draft on code."""
    given = {
        "target": "smollm2-135m",
        "draft": "ngram",
        "text": "code",
        "sampling": "greedy",
        "temperature": 0.0,
        "drafted": 4,
        "per_position": [0.6, 0.5, 0.4, 0.3],
        "share_with_draft": 0.8,
        "tokens_per_step": 2.0,
        "tokens_per_step_low": 1.8,
        "tokens_per_step_high": 2.2,
        "tokens": 200,
        "taken": TAKEN,
        "source": "tests",
    }
    return Acceptance(**(given | changes))


def calibration(*figures: Measurement | Step | Acceptance, **changes: Any) -> Calibration:
    """A record of these figures; of one read where none is given."""
    figures = figures or (measurement(),)
    given = {
        "schema": SCHEMA,
        "method": METHOD,
        "created": TAKEN,
        "infopt": "0.0.0",
        "complete": True,
        "device": device(),
        "state": State(),
        "software": {"torch": "2.13.0"},
        "measurements": [f for f in figures if isinstance(f, Measurement)],
        "steps": [f for f in figures if isinstance(f, Step)],
        "acceptance": [f for f in figures if isinstance(f, Acceptance)],
    }
    return Calibration(**(given | changes))


def written(path: Path, record: Calibration | None = None, **changes: Any) -> Path:
    """The record in a file, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(calibration_text(record or calibration(**changes)), encoding="utf-8")
    return path
