"""Memory that must be free at start: no file shows what else runs on the device."""

from collections.abc import Iterator

from infopt.gate.budget import VENDORS
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule

GIB = 2**30


def check(case: Case) -> Iterator[Hit]:
    """utilization x total, which vLLM asks to be free."""
    if case.plan is None or case.deployment.engine != "vllm" or case.plan.scenario.accelerator.vendor not in VENDORS:
        return
    s = case.plan.scenario
    total = s.accelerator.usable_memory_bytes / GIB
    yield Hit(
        f"at least {s.utilization * total:.2f} of {total:.2f} GiB must be free on each device at start",
        at=case.deployment.said_at("utilization"),
        detail=f"{s.utilization:g} x {total:.2f} GiB: other processes may hold at most "
        f"{(1 - s.utilization) * total:.2f} GiB",
    )


RULE = Rule(
    id="free-memory",
    summary="how much of a device must be free at start",
    severity="note",
    why="The engine refuses to start where another process holds more; a file cannot show that.",
    remedy="Look before starting (nvidia-smi), or `infopt probe`.",
    check=check,
    source="vllm v1/worker/gpu_worker.py; vllm-project/vllm issue 20305",
)
