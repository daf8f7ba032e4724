"""What arrives and what is asked for: everything beside the scenario that an optimization's gain depends on.

None means "not known": a technique that needs it answers `measure` and names the option that gives it.
"""

from typing import Literal

from infopt.frozen import dataclass
from infopt.ledgers.scenario import Scenario

DraftMethod = Literal["draft-model", "eagle", "mtp", "ngram", "medusa"]
Routing = Literal["random", "least-loaded", "affinity"]
OffloadTier = Literal["dram", "nvme", "remote"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests over time.

    rate_per_s     requests a second of the whole deployment
    output_spread  coefficient of variation of output lengths (0 all equal, 1 exponential)
    """

    rate_per_s: float | None = None
    output_spread: float | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Prompts that begin alike.

    shared_tokens  tokens of a prompt that others begin with too
    prefixes       distinct shared prefixes in circulation
    skew           Zipf exponent of their popularity (0 all alike)
    hit_share      measured share of prompt tokens found in the cache; replaces what is computed
    routing        how requests find a replica
    """

    shared_tokens: int | None = None
    prefixes: int | None = None
    skew: float | None = None
    hit_share: float | None = None
    routing: Routing = "random"


@dataclass(frozen=True, slots=True)
class Draft:
    """A way of drafting.

    drafted_tokens  g, None for the best
    accepted        share of cycles that accept at least 1, 2, ... drafted tokens (unconditional, falling)
    acceptance      one rate for every position, where only that is known
    drafting_share  part of the steps that have a draft at all (n-gram finds none in some)
    scenario        the draft model on the same devices
    cycle_ratio     measured duration of a cycle in plain steps, in place of what the step model says
    """

    method: DraftMethod | None = None
    drafted_tokens: int | None = None
    accepted: tuple[float, ...] | None = None
    acceptance: float | None = None
    drafting_share: float = 1.0
    scenario: Scenario | None = None
    cycle_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Offload:
    """A second home for cached tokens.

    bytes_per_s      what one device reads from it, None for the tier's default
    capacity_bytes   of the whole host or store
    reuse_share      part of prompt tokens that were computed before and have left the device's pool
    endurance_bytes  an NVMe drive may be written in its life
    """

    tier: OffloadTier = "dram"
    bytes_per_s: float | None = None
    capacity_bytes: float | None = None
    reuse_share: float | None = None
    endurance_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Adapters:
    """LoRA adapters on one base model: how many at once, their rank, how many in all."""

    slots: int | None = None
    rank: int | None = None
    models: int | None = None


@dataclass(frozen=True, slots=True)
class Targets:
    """What users were promised.

    start_s  a new replica must serve this soon after it is asked for
    """

    tpot_s: float | None = None
    ttft_s: float | None = None
    start_s: float | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """Connections between devices, in place of what the hardware records say.

    link_bytes_per_s     of one device of a machine, one direction (NVLink or PCIe)
    network_bytes_per_s  of one device to other machines; None for the assumed default
    """

    link_bytes_per_s: float | None = None
    network_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """All of it.

    semantic_hit_share  requests answered from a cache of whole answers
    image_tokens        of a prompt that come from images
    weight_format, kv_format  what quantization is asked about; None for the engine's usual ones
    eager               kernels are launched one by one, without CUDA graphs
    chunk_tokens        of prefill in one step; None for the engine's batch budget
    storage_bytes_per_s  at which weights are read at a start; None for an assumed default
    """

    traffic: Traffic = Traffic()
    prefix: Prefix = Prefix()
    draft: Draft = Draft()
    offload: Offload = Offload()
    adapters: Adapters = Adapters()
    targets: Targets = Targets()
    links: Links = Links()
    semantic_hit_share: float | None = None
    image_tokens: int = 0
    weight_format: str | None = None
    kv_format: str | None = None
    eager: bool = False
    chunk_tokens: int | None = None
    storage_bytes_per_s: float | None = None
