"""Slices of a device (MIG) that one model is split over."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule

ENGINES = frozenset({"vllm", "sglang", "tgi", "tensorrt-llm"})


def check(case: Case) -> Iterator[Hit]:
    """Ranks that would have to reach each other within a pod."""
    if case.device is None or case.deployment.engine not in ENGINES or case.deployment.found.hardware.pods > 1:
        return
    device, ranks = case.device.accelerator, case.placed.tp * case.placed.pp
    if "mig" not in f"{device.id} {device.name}".lower() or ranks == 1:
        return
    names = ("tp", "pp")
    known = case.deployment.version is not None
    yield Hit(
        f"{ranks} ranks over slices of one device: a process sees one MIG slice only, however many it is given",
        at=next((said for name in names if (said := case.deployment.said_at(name)) is not None), None),
        remedy="one slice that holds the model, or whole devices",
        severity="error" if known else "warning",
        confidence="certain" if known else "likely",
    )


RULE = Rule(
    id="joined-slices",
    summary="a model is split over MIG slices",
    severity="error",
    why="CUDA shows a process one slice: the engine finds fewer devices than ranks and stops.",
    remedy="One slice that holds the model, or whole devices.",
    check=check,
    source="NVIDIA MIG user guide, CUDA_VISIBLE_DEVICES (a single instance is enumerated); vllm-project/vllm issues "
    "7211, 6551; pytorch/pytorch issue 130181; NVIDIA/nccl issue 1716 (May 2025: no MIG)",
)
