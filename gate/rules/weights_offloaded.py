"""Weights kept in the host: every step brings them over PCIe."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.kv_offload import link_bytes_per_s
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import running_of
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.offload import weights_step_s
from infopt.units import format_seconds

GIB = 2**30


def check(case: Case) -> Iterator[Hit]:
    """What that adds to a step at least; and whether the model fits without."""
    gib = case.value("weight_offload_gib")
    if not isinstance(gib, int | float) or gib <= 0 or case.plan is None:
        return
    s, at = case.plan.scenario, case.deployment.said_at("weight_offload_gib")
    whole = memory_ledger(replace(s, extra_bytes_per_gpu=s.extra_bytes_per_gpu + gib * GIB))
    offloaded = min(gib * GIB, whole.weights_bytes_per_gpu)
    situation = running_of(case)
    ledger = situation.bandwidth if situation is not None else case.plan.bandwidth
    # Of a mixture only the experts that are hit are read.
    whole_bytes = whole.weights_bytes_per_gpu * s.tp * s.pp
    read = min(1.0, ledger.weight_bytes_per_step_expected / whole_bytes) if s.model.experts else 1.0
    link = link_bytes_per_s(s)
    least_s, floor_s = read * weights_step_s(offloaded, link), ledger.step_floor_s
    fits = whole.fits is True
    way = "the host's link" if s.accelerator.measured.get("host_copy_bytes_per_s") else "PCIe"
    yield Hit(
        f"{offloaded / GIB:.1f} GiB of weights stay in the host: {format_seconds(least_s)} over {way} in each step; "
        f"with all on the device its bytes take {format_seconds(floor_s)}"
        + ("; the model fits without" if fits else ""),
        at=at,
        detail=f"{read:.0%} of them a step over {link / 1e9:.0f} GB/s"
        + (f"; {whole.max_sequences:,} full-length requests fit without offload" if fits else ""),
        remedy="leave the offload out" if fits else "",
        confidence="certain" if read == 1 else "likely",
    )


RULE = Rule(
    id="weights-offloaded",
    summary="weights in host memory are read over the link in every step",
    severity="warning",
    why="A device reads its own memory 50 times as fast as the host's: every step waits for the link.",
    remedy="More devices, or smaller weights.",
    check=check,
    source="vllm-project/vllm issue 22692: 6.4 instead of 43 tokens/s",
)
