"""Time of what devices say to each other: latency, and bytes over the part of a link's bandwidth that is reached.

    all-reduce   l + d (p - 1) + min((p - 1) m / (u BW),  x + 2 (p - 1)/p m / (v BW))       one pass, or two in a ring
    all-gather   l + d (p - 1) + (p - 1)/p M / (v BW)                                       M what each holds at the end
    all-to-all   l + b / (v BW)                          b what each device sends, to all others at once
    message      l + b / (v BW)
p devices; m bytes of the summed tensor; BW one direction of one device (AMD: at most p - 1 links to single peers);
l, d, x, u, v by kind of link (hardware/data/links). Between machines a sum is taken inside each first, then
m / (devices of a machine) across: the times add. Ignored: overlap with arithmetic, congestion, shared links.
Sources: bench/fit_links.py; the all-to-all of experts over a network is within 10 % of what DeepEP's README
gives for 32 to 256 ranks (for 16, half of which NVLink joins, a third too long).
"""

import math
from typing import Any

from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator
from infopt.hardware.links import LinkKind, link_kind, load_link_kind
from infopt.ledgers.arrays import larger, smaller
from infopt.profiles.geometry import ModelProfile

NODE_DEVICES = 8  # of one machine, where a record does not say
COLLECTIVES_PER_LAYER = 2  # behind attention and behind the feed-forward
BYTES_PER_UNIT = 2  # hidden states travel in 16 bit
NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Wire:
    """A link as a collective sees it.

    bytes_per_s       one direction of one device
    peer_bytes_per_s  to a single peer, where links are point to point
    """

    kind: LinkKind
    bytes_per_s: float
    peer_bytes_per_s: float | None = None

    def reached_bytes_per_s(self, devices: int) -> float:
        """Of a group of devices: every peer adds its own link where links are point to point."""
        if self.peer_bytes_per_s is None:
            return self.bytes_per_s
        return min(self.bytes_per_s, self.peer_bytes_per_s * max(1, devices - 1))


@dataclass(frozen=True, slots=True)
class Wires:
    """What connects the devices of a deployment.

    inside    devices of one machine; None where nothing does (a single device, or nothing known)
    between   machines
    machine_devices  devices of one machine, or of one link domain where that is larger
    """

    inside: Wire | None
    between: Wire
    machine_devices: int


def machine_devices(device: Accelerator) -> int:
    """Devices of one machine, or of one link domain where that is larger."""
    return max(device.devices_per_node or NODE_DEVICES, device.link_domain_devices or 0)


def wires_of(
    device: Accelerator, link_bytes_per_s: float | None = None, network_bytes_per_s: float | None = None
) -> Wires:
    """The link between devices, PCIe where there is none, and the network; what is given replaces what records say."""
    link = device.link or device.pcie
    inside = None if link is None else Wire(link_kind(link.type), link.bytes_per_s, link.peer_bytes_per_s)
    if link_bytes_per_s is not None:
        inside = with_bandwidth(inside, link_bytes_per_s)
    network = load_link_kind(NETWORK)
    between = Wire(network, network_bytes_per_s or network.bytes_per_s or 0.0)
    return Wires(inside, between, machine_devices(device))


def with_bandwidth(wire: Wire | None, bytes_per_s: float) -> Wire:
    """The same kind of link with another bandwidth; PCIe's kind where there was none."""
    return Wire(link_kind("pcie") if wire is None else wire.kind, bytes_per_s)


def all_reduce_s(wire: Wire, devices: int, message_bytes: Any) -> Any:
    """One sum of a tensor over the devices of a machine."""
    if devices <= 1:
        return 0.0 * message_bytes
    kind, bandwidth = wire.kind, wire.reached_bytes_per_s(devices)
    direct = (devices - 1) * message_bytes / (kind.direct_share * bandwidth)
    ring = kind.exchange_s + ring_all_reduce_s(devices, message_bytes, kind.ring_share * bandwidth)
    return _latency_s(wire, devices) + smaller(direct, ring)


def ring_all_reduce_s(devices: int, message_bytes: Any, bytes_per_s: float) -> Any:
    """2 (p - 1)/p m / BW: the bytes of a ring alone, no latency.

    >>> ring_all_reduce_s(2, 100.0, 50.0)
    2.0
    """
    return 2 * (devices - 1) / devices * message_bytes / bytes_per_s


def all_gather_s(wire: Wire, devices: int, whole_bytes: Any) -> Any:
    """Every device ends with all `whole_bytes`."""
    if devices <= 1:
        return 0.0 * whole_bytes
    share = wire.kind.ring_share * wire.reached_bytes_per_s(devices)
    return _latency_s(wire, devices) + (devices - 1) / devices * whole_bytes / share


def all_to_all_s(wire: Wire, devices: int, sent_bytes: Any) -> Any:
    """Every device sends `sent_bytes` in all, some to each other one."""
    if devices <= 1:
        return 0.0 * sent_bytes
    return wire.kind.latency_s + sent_bytes / (wire.kind.ring_share * wire.reached_bytes_per_s(devices))


def send_s(wire: Wire, message_bytes: Any) -> Any:
    """One message from a device to another: a hop of a pipeline, or the cache of a prompt."""
    return wire.kind.latency_s + message_bytes / (wire.kind.ring_share * wire.reached_bytes_per_s(2))


def _latency_s(wire: Wire, devices: int) -> float:
    """l + d (p - 1), the first other device being in l."""
    return wire.kind.latency_s + wire.kind.device_s * (devices - 1)


def group_all_reduce_s(wires: Wires, devices: int, message_bytes: Any) -> Any:
    """The same for a group that may reach over machines; infinite where nothing connects its devices."""
    if devices <= 1:
        return 0.0 * message_bytes
    within = min(devices, wires.machine_devices)
    machines = -(-devices // wires.machine_devices)
    if within > 1 and wires.inside is None:
        return float("inf") + 0.0 * message_bytes
    inside = all_reduce_s(wires.inside, within, message_bytes) if wires.inside is not None else 0.0
    return inside + (all_reduce_s(wires.between, machines, message_bytes / within) if machines > 1 else 0.0)


def group_wire(wires: Wires, devices: int) -> Wire | None:
    """The slowest link inside a group: the network where it reaches over machines."""
    return wires.between if devices > wires.machine_devices else wires.inside


def layer_sums_s(wires: Wires, model: ModelProfile, devices: int, tokens: Any) -> Any:
    """All sums of one forward pass under tensor parallelism: two a layer, tokens x hidden units in 16 bit."""
    one = group_all_reduce_s(wires, devices, tokens * (model.hidden * BYTES_PER_UNIT))
    return COLLECTIVES_PER_LAYER * model.layers * one


def sums_bytes_per_token(model: ModelProfile) -> float:
    """Bytes that are summed for one token in a forward pass."""
    return float(COLLECTIVES_PER_LAYER * model.layers * model.hidden * BYTES_PER_UNIT)


def sums_s_per_token(model: ModelProfile, devices: int, bytes_per_s: float) -> float:
    """Seconds per token of those sums at the full bandwidth of one direction: a floor without latency."""
    return float(ring_all_reduce_s(devices, sums_bytes_per_token(model), bytes_per_s))


def batch_for_replicas(step_s: float, devices: int, sums_s: float) -> float:
    """Total batch at which sums (`sums_s` a token) cost what reading the weights in every replica costs.

    W/(p BW) + B c = W/BW  ->  B = t (1 - 1/p) / c,  t = W/BW of one device
    """
    return step_s * (1 - 1 / devices) / sums_s


def expert_exchange_s(
    wire: Wire, ranks: int, tokens: Any, hidden: int, experts_per_token: int, dispatch_bytes: float
) -> Any:
    """Tokens of one rank go to the ranks of their experts and come back, in one mixture layer.

        reached = (R - 1) (1 - (1 - 1/R)^k)     other ranks a token reaches, k experts drawn evenly
    dispatch_bytes a unit on the way out (1 for 8 bit), 16 bit on the way back.
    """
    reached = (ranks - 1) * (1 - (1 - 1 / ranks) ** experts_per_token)
    out, back = (tokens * reached * hidden * unit for unit in (dispatch_bytes, BYTES_PER_UNIT))
    return all_to_all_s(wire, ranks, out) + all_to_all_s(wire, ranks, back)


def expert_imbalance(experts: int, experts_per_token: int, tokens: Any, ranks: int) -> Any:
    """Experts the busiest rank reads over the mean of all ranks, even routing.

        q = 1 - (1 - k/E)^n,  mean = (E/R) q,  max = min(E/R, mean + sqrt(2 ln R) sqrt((E/R) q (1 - q)))
    The mean plus sqrt(2 ln R) deviations is about the largest of R normal variables. Real routers are less even: this
    is the least there is. Checked against a count of random draws in tests/test_links.py.
    """
    if ranks <= 1 or not experts:
        return 1.0 + 0.0 * tokens
    hit = 1 - (1 - experts_per_token / experts) ** tokens
    held = experts / ranks
    most = held * hit + (2 * math.log(ranks)) ** 0.5 * (held * hit * (1 - hit)) ** 0.5
    return larger(1.0, smaller(held, most) / (held * hit))
