"""Tensor parallelism over devices that only PCIe connects: every layer waits for it twice."""

from collections.abc import Iterator

from infopt.boundaries.parallelism import choose
from infopt.boundaries.placement_links import wires_here
from infopt.boundaries.placements import present
from infopt.boundaries.situation import Situation
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.rules import tp_not_needed
from infopt.gate.situations import lengths_known, load_known, running_of
from infopt.ledgers.links import layer_sums_s, machine_devices
from infopt.units import format_seconds


def check(case: Case) -> Iterator[Hit]:
    """The link's part of a prompt is above the parameter."""
    situation = running_of(case)
    if situation is None or case.plan is None or case.plan.fits is False:
        return
    s, wires = situation.scenario, wires_here(situation)
    if s.tp < 2 or s.accelerator.link is not None or wires.inside is None or s.tp > machine_devices(s.accelerator):
        return
    tokens = s.input_tokens if lengths_known(case) else min(s.input_tokens, 1024)
    sums_s, work_s = float(layer_sums_s(wires, s.model, s.tp, tokens)), situation.steps.prompt_s(tokens)
    share = sums_s / (sums_s + work_s)
    if not work_s or share < case.parameter(RULE.id, "least_share"):
        return
    if next(tp_not_needed.check(case), None) is not None:
        return  # which says more
    step_s = float(layer_sums_s(wires, s.model, s.tp, situation.batch))
    alone = case.plan.memory.weights_bytes_per_gpu * s.tp * s.pp < s.utilization * s.accelerator.usable_memory_bytes
    better = _better(situation) if lengths_known(case) and load_known(case) else ""
    holds = "; one device holds the weights" if alone else ""
    yield Hit(
        f"tp {s.tp} over PCIe: sums take {format_seconds(sums_s)} of a prompt of {tokens:,} tokens ({share:.0%} of its "
        f"time) and {format_seconds(step_s)} of each step{holds}",
        at=case.deployment.said_at("tp"),
        detail=f"{present(situation).name} of {s.accelerator.name or s.accelerator.id}, "
        f"{wires.inside.bytes_per_s / 1e9:.0f} GB/s each way by its slot, unless a bridge joins them",
        remedy=better,
        severity="warning" if better or alone else "note",
        confidence="possible",
    )


def _better(situation: Situation) -> str:
    """A narrower placement of the same devices that is sure to give more."""
    choice = choose(situation)
    if choice.verdict != "use" or choice.best is None or choice.gain is None:
        return ""
    if choice.best.scenario.tp >= situation.scenario.tp:
        return ""
    return f"{choice.best.name}: {choice.gain.value:.2f}x in {choice.gain.metric} at batch {situation.scenario.batch}"


RULE = Rule(
    id="tp-over-pcie",
    summary="tensor parallelism over devices without a link of their own",
    severity="warning",
    why="Two sums a layer cross PCIe for every token: prompts can take longer than on one device.",
    remedy="Replicas where one device holds the model, a pipeline where it does not, or devices with a link.",
    check=check,
    parameters={"least_share": 0.15},
    source="turboderp-org/exllamav2 issue 734",
)
