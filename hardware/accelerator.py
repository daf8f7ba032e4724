"""One accelerator: what it holds, how fast it reads, what it computes, and where each figure came from."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

from infopt.frozen import dataclass

if TYPE_CHECKING:  # most plans have no calibration, and its records cost start-up time
    from infopt.hardware.calibration import MemoryTerm, Step

Kind = Literal["vendor", "measured", "assumed", "user"]
MemoryClass = Literal["hbm", "gddr", "lpddr", "ddr"]


@dataclass(frozen=True, slots=True)
class Datum:
    """Where one figure came from, and what kind of knowledge it is.

    vendor    published by the vendor (a price: by the provider), mostly read in public copies that cite it
    measured  read off a device by somebody
    assumed   derived, taken from a sibling, or recalled (then the source says so)
    user      given by the user
    """

    kind: Kind
    source: str


@dataclass(frozen=True, slots=True)
class Link:
    """A connection between devices of one node.

    bytes_per_s       one direction, per device, all links together
    peer_bytes_per_s  one direction to a single peer, where links are point to point (AMD), else None
    """

    type: str
    bytes_per_s: float
    peer_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryNode:
    """The memory node that this machine's processor runs on, as the kernel counts it.

    total_bytes, free_bytes  of the node; free is what a process may take: unused, or cached files
    nodes                    memory nodes of the machine
    ranks                    of one deployment that share the node
    """

    total_bytes: int
    free_bytes: int
    nodes: int
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device (for `gpus` of them see the scenario).

    memory_bytes          marketing figure (GB = 1e9, or GiB for parts sold that way)
    driver_memory_bytes   total the driver lists (nvidia-smi), None where never seen
    usable_memory_bytes   total CUDA and the engines see and multiply by their fraction
    bandwidth_bytes_per_s memory bandwidth: rated, or measured where a calibration has it
    peak_flop_per_s       dense peak by format: fp32, tf32, fp16, bf16, fp8, int8, fp4
    usd_per_hour          list price, None where no dated source exists
    data                  kind and source by field name ("bandwidth_bytes_per_s", "peak_flop_per_s.bf16")
    name                  the name people know it by
    measured              what somebody measured on it: stream_bytes_per_s, matmul_bf16_flop_per_s, ...
    link_domain_devices   devices one link reaches where that is more than a node (NVL72)
    processor             a CPU: its memory is what the host has fitted
    measured_memory       memory of an engine by its own start-up log, of the same record
    measured_steps        decode steps, verifications and prompts of a calibration record of this device
    calibration           file of that record, None where there is none; what it changed is in `calibration_notes`
    rated_bandwidth_bytes_per_s  what a measured bandwidth replaced, None where nothing was replaced
    node                  memory node of this machine's own processor, None for any other
    """

    id: str
    vendor: str
    memory_class: MemoryClass
    memory_bytes: int
    driver_memory_bytes: int | None
    usable_memory_bytes: int
    bandwidth_bytes_per_s: float
    peak_flop_per_s: Mapping[str, float]
    link: Link | None = None
    pcie: Link | None = None
    tdp_watts: float | None = None
    compute_capability: str | None = None
    devices_per_node: int | None = None
    usd_per_hour: float | None = None
    price_date: str | None = None
    data: Mapping[str, Datum] = field(default_factory=dict)
    calibration: str | None = None
    notes: tuple[str, ...] = ()
    name: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)
    link_domain_devices: int | None = None
    processor: bool = False
    measured_steps: "tuple[Step, ...]" = ()
    measured_memory: "tuple[MemoryTerm, ...]" = ()
    calibration_notes: tuple[str, ...] = ()
    rated_bandwidth_bytes_per_s: float | None = None
    node: MemoryNode | None = None

    @property
    def fitted_bandwidth_bytes_per_s(self) -> float:
        """What shipped constants multiply: they were fitted to rated figures, so a measured one would count twice."""
        return self.rated_bandwidth_bytes_per_s or self.bandwidth_bytes_per_s

    def at_bandwidth(self, bytes_per_s: float) -> "Accelerator":
        """The same device with another bandwidth, its rated one changed in proportion."""
        rated = self.rated_bandwidth_bytes_per_s
        if rated is not None:
            rated *= bytes_per_s / self.bandwidth_bytes_per_s
        return replace(self, bandwidth_bytes_per_s=bytes_per_s, rated_bandwidth_bytes_per_s=rated)

    @property
    def whole_memory_bytes(self) -> int:
        """What an engine on a processor multiplies: all memory, of its node where known, shared by its ranks."""
        return self.memory_bytes if self.node is None else self.node.total_bytes // self.node.ranks

    def shared_by(self, ranks: int) -> "Accelerator":
        """This machine's processor as one of `ranks` that share its memory has it."""
        assert self.node is not None
        return replace(
            self,
            memory_bytes=self.memory_bytes // ranks,
            usable_memory_bytes=self.usable_memory_bytes // ranks,
            node=replace(self.node, ranks=-(-ranks // self.node.nodes)),
        )

    @property
    def cuda_capability(self) -> float | None:
        """Compute capability as a number; None for devices that have none (other vendors name their chips there)."""
        text = self.compute_capability or ""
        return float(text) if text.replace(".", "", 1).isdigit() else None


@dataclass(frozen=True, slots=True)
class HardwareChoice:
    """What `--hw` named: an accelerator and, where the text said so, how many.

    resolved_as  how the text was read, for the report ("p5.48xlarge = 8 x H100-SXM5-80GB")
    others       ids of the others the text may mean; the accelerator is the smallest of them
    units        what tells the devices of this machine from others of their kind, where the text meant this machine
    """

    accelerator: Accelerator
    gpus: int | None
    resolved_as: str
    usd_per_hour: float | None = None  # of the whole instance, where an instance type was named
    others: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
