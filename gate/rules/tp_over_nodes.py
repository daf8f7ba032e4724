"""Tensor parallelism across machines: its sums go over the network."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.placement_links import wires_here
from infopt.gate.case import Case
from infopt.gate.deployment import Confidence
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import running_of
from infopt.ledgers.links import layer_sums_s, machine_devices
from infopt.units import format_seconds


def check(case: Case) -> Iterator[Hit]:
    """The width is more than one pod's devices, or than a machine or link domain has."""
    tp, hardware = int(case.value("tp", 1) or 1), case.deployment.found.hardware
    machine = machine_devices(case.device.accelerator) if case.device is not None else None
    domain = case.device.accelerator.link_domain_devices if case.device is not None else None
    inside, confidence = _inside(tp, machine, hardware.count if hardware.pods > 1 else None, domain)
    if inside is None:
        return
    pods = f"{hardware.pods} pods of {hardware.count} devices" if hardware.pods > 1 else f"machines of {inside} devices"
    yield Hit(
        f"tp {tp} reaches over {pods}{_cost(case, tp, inside)}",
        at=case.deployment.said_at("tp"),
        remedy=f"tp {inside} x pp {tp // inside}: a pipeline sends one message a stage" if tp % inside == 0 else "",
        confidence=confidence,
    )


def _inside(tp: int, machine: int | None, pod: int | None, domain: int | None) -> tuple[int | None, Confidence]:
    """Devices that are surely together where tp needs more of them, and how sure that is."""
    if machine is not None and tp > machine:
        return machine, "certain"
    if not pod or tp <= pod or (domain is not None and tp <= domain):
        return None, "certain"
    # Small pods of one machine can still be placed together.
    return pod, "likely" if pod >= (machine or 8) else "possible"


def _cost(case: Case, tp: int, inside: int) -> str:
    """What the sums of one decode step take, over the network and inside."""
    situation = running_of(case)
    if situation is None or situation.scenario.tp != tp:
        return f": {2 * case.model.layers} sums a token cross the network" if case.model is not None else ""
    s = situation.scenario
    wires = replace(wires_here(situation), machine_devices=inside)
    across, within = (float(layer_sums_s(w, s.model, tp, situation.batch)) for w in (wires, wires_here(situation)))
    if across <= within:
        within = float(layer_sums_s(wires, s.model, inside, situation.batch))
    both = f"{format_seconds(across)} of a step at batch {s.batch}, {format_seconds(within)} inside one machine"
    return f": sums take {both}"


RULE = Rule(
    id="tp-over-nodes",
    summary="tensor parallelism reaches over machines",
    severity="warning",
    why="Two sums a layer wait for the network in every step; a pipeline waits once a stage.",
    remedy="tp up to the devices of one machine, pp across machines.",
    check=check,
)
