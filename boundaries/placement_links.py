"""Link time of a placement beyond what its step-time constants already hold.

    links(n) = sums(n) + exchange(n) + hops(n)          n tokens of one pass through the model
    sums     = 2 L (all-reduce over its link - all-reduce the constants were measured with)
    exchange = L_m (experts over dp x tp ranks: out and back), less the same over the reference link
    hops     = (stages - 1) messages of n hidden states, where the constants hold none
The served constants were fitted on placements over NVLink, so what they hold is subtracted (data/parallelism.yaml);
constants of engines measured on one device hold nothing, those with terms for collectives hold their own link.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from infopt.boundaries.deciding import checked_yaml
from infopt.boundaries.situation import Situation
from infopt.hardware.links import link_kind
from infopt.ledgers.links import (
    BYTES_PER_UNIT,
    Wire,
    Wires,
    all_gather_s,
    expert_exchange_s,
    group_wire,
    layer_sums_s,
    machine_devices,
    send_s,
    wires_of,
)
from infopt.ledgers.scenario import Scenario
from infopt.profiles.step_constants import StepConstants


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = checked_yaml("parallelism")
    return data


def placement_data(name: str) -> dict[str, Any]:
    """A record of data/parallelism.yaml."""
    found: dict[str, Any] = _data()[name]
    return found


def wires_here(situation: Situation) -> Wires:
    """What connects the devices, as the load or the hardware records say."""
    asked = situation.load.links
    return wires_of(situation.scenario.accelerator, asked.link_bytes_per_s, asked.network_bytes_per_s)


def slowed(wires: Wires) -> Wires:
    """The links inside a machine with the latency that sums of the vendor's library have outside CUDA graphs."""
    if wires.inside is None:
        return wires
    kind, ratio = wires.inside.kind, float(placement_data("slow_sums_ratio")["value"])
    slow = kind.model_copy(update={"latency_s": ratio * kind.latency_s, "device_s": ratio * kind.device_s})
    return replace(wires, inside=replace(wires.inside, kind=slow))


class PlacementLinks:
    """Time of one group on these wires."""

    def __init__(self, situation: Situation, constants: StepConstants | None, wires: Wires) -> None:
        self.scenario = situation.scenario
        self.constants = constants
        self.wires = wires
        self.held = _held(situation.scenario, constants)

    def pass_s(self, tokens: float) -> float:
        """Seconds that `tokens` of one pass wait for links."""
        return self.sums_s(tokens) + self.exchange_s(tokens) + self.hops_s(tokens)

    def sums_s(self, tokens: float) -> float:
        """Tensor parallelism: two sums a layer, less what the constants hold of them."""
        s = self.scenario
        own_s = float(layer_sums_s(self.wires, s.model, s.tp, tokens / s.dp))
        if self.held is None:
            return own_s
        width = int(placement_data("held_tensor_parallel")["mixture"]) if s.model.experts else s.tp
        return own_s - float(layer_sums_s(self.held, s.model, width, tokens / s.dp))

    def exchange_s(self, tokens: float) -> float:
        """Replicas that share experts: tokens travel to them and back, less what the constants hold of it."""
        s = self.scenario
        if s.sharing_replicas <= 1:
            return 0.0
        ranks, layers = s.expert_shards, sum(run.layers for run in s.model.groups if run.feed_forward.experts)
        own = group_wire(self.wires, ranks)
        if own is None:
            return 0.0
        # What was measured stayed inside a machine.
        held, within = self.held.inside if self.held is not None else None, min(ranks, self.wires.machine_devices)
        known_s = self.one_exchange_s(held, within, tokens) if held is not None else 0.0
        return layers * (self.one_exchange_s(own, ranks, tokens) - known_s)

    def one_exchange_s(self, wire: Wire, ranks: int, tokens: float) -> float:
        """One mixture layer's exchange over this link."""
        s = self.scenario
        if s.ep <= 1:
            return 2 * float(all_gather_s(wire, ranks, tokens * s.model.hidden * BYTES_PER_UNIT))
        first = next(run.feed_forward for run in s.model.groups if run.feed_forward.experts)
        unit = float(placement_data("dispatch_bytes_per_unit")["value"])
        each = tokens / s.dp / s.tp
        return float(expert_exchange_s(wire, ranks, each, s.model.hidden, first.experts_per_token, unit))

    def hops_s(self, tokens: float) -> float:
        """From stage to stage: over the network where stages lie in several machines."""
        s = self.scenario
        if s.pp <= 1:
            return 0.0
        size = tokens * s.model.hidden * BYTES_PER_UNIT
        across = -(-s.tp * s.pp // self.wires.machine_devices) - 1
        inside = 0.0
        if self.wires.inside is not None and not (self.constants is not None and self.constants.hop_s):
            inside = float(send_s(self.wires.inside, size))
        return (s.pp - 1 - across) * inside + across * float(send_s(self.wires.between, size))


def _held(s: Scenario, c: StepConstants | None) -> Wires | None:
    """The links whose time the step constants already hold; None where they hold none."""
    if c is None or c.measured.devices[1] <= 1:
        return None
    own = wires_of(s.accelerator)
    if c.measured.pcie:
        return own
    reference = placement_data("reference_link")
    nvlink = link_kind(str(reference["type"]))
    if own.inside is not None and own.inside.kind is nvlink:
        return own
    inside = Wire(nvlink, float(reference["bytes_per_s"]))
    return Wires(inside, own.between, machine_devices(s.accelerator))
