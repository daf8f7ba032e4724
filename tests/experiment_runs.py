"""Saved runs for tests: small, made by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from infopt.studies.experiment_variables import Scalar
from infopt.studies.saved_run import Hardware, Quality, Repetition, Repetitions, Requests, SavedRun, Traffic

CONFIGURATION: dict[str, Scalar] = {
    "model": "meta-llama/Llama-3.1-8B",
    "weights": "bf16",
    "engine": "vllm",
    "engine_version": "0.19.1",
    "gpus": 1,
    "tp": 1,
    "pp": 1,
    "dp": 1,
    "max_num_seqs": 256,
    "prefix_caching": True,
}


def run_with(
    metrics: Mapping[str, Sequence[float]],
    configuration: Mapping[str, Scalar] | None = None,
    quality: Sequence[Quality] = (),
    kind: str = "simulated",
    **changed: Any,
) -> SavedRun:
    """A run whose metrics are these, one value for each repetition (seeds of a simulation, files of a measurement)."""
    count = max(map(len, metrics.values()), default=0)
    runs = [
        Repetition(key=f"seed-{n}", requests=100, metrics={name: values[n] for name, values in metrics.items()})
        for n in range(count)
    ]
    how: Any = "seeds" if kind == "simulated" else "files"
    made: dict[str, Any] = {
        "schema": "infopt/run/1",
        "tool": "infopt test",
        "kind": kind,
        "seed": 0 if kind == "simulated" else None,
        "saturated": False if kind == "simulated" else None,
        "configuration": CONFIGURATION | dict(configuration or {}),
        "traffic": Traffic(description={"rate_per_s": 5.0, "process": "poisson"}),
        "requests": Requests(count=100 * count),
        "metrics": {name: sum(values) / len(values) for name, values in metrics.items()},
        "repetitions": Repetitions(kind=how, runs=runs) if count > 1 else None,
        "quality": list(quality),
        "hardware": Hardware(device="h100-sxm-80gb"),
    }
    return SavedRun(**(made | changed))
