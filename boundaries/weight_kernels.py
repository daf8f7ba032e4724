"""What becomes of a weight format on an engine and a device: whether it runs, and what unpacking costs.

A format is native where the device has a dense peak for the type it computes in; elsewhere its weights are unpacked to
16 bit before every product: memory is saved, computation is not. Constants: data/weight_kernels.yaml.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from infopt.errors import InfoptError
from infopt.ledgers.compute import compute_format
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.shards import group_tensor_parallel, uncut
from infopt.ledgers.step_time import FULL_PRECISION_BITS, StepShape
from infopt.profiles.engines import in_versions
from infopt.profiles.formats import load_weight_format
from infopt.records import Record, read_yaml, validate_record

_FILE = Path(__file__).resolve().parent / "data" / "weight_kernels.yaml"
# Places of the three figures of `unpacking`.
BEST, EXPECTED, WORST = 0, 1, 2


class Groups(Record):
    """Weights that share a scale, by format."""

    weights: dict[str, int]
    blocks: list[str]
    engines: list[str]
    source: str


class Runs(Record):
    """Formats an engine runs: on these vendors' devices, from a compute capability and in these versions."""

    engines: list[str]
    formats: list[str]
    vendors: list[str]
    capability_from: float | None = None
    since: str | None = None
    until: str | None = None
    source: str

    def in_version(self, version: str) -> bool:
        """Whether the row holds for this version."""
        return in_versions(version, self.since, self.until)


class Unpacking(Record):
    """Weights of fewer bits that are unpacked: [best, expected, worst] against 16-bit weights."""

    engines: list[str]
    bits_below: float
    traffic_ratio: list[float]
    compute_share: list[float]
    source: str


class OwnUnits(Record):
    """Formats a device multiplies in: [best, expected, worst] measured gain over the predicted one."""

    engines: list[str]
    formats: list[str]
    mixture: bool | None = None
    gain_share: list[float]
    source: str


class Kernels(Record):
    """data/weight_kernels.yaml."""

    candidates: dict[str, list[str]]
    groups: Groups
    vendors_read: list[str]
    runs: list[Runs]
    unlisted: list[Runs]
    unpacking: list[Unpacking]
    own_units: list[OwnUnits]


@cache
def kernels() -> Kernels:
    """The data."""
    return validate_record(Kernels, read_yaml(_FILE), str(_FILE))


def native(s: Scenario) -> bool:
    """Whether the device multiplies in the format itself."""
    return compute_format(s) == s.weight_compute


def storage_only(s: Scenario) -> bool:
    """Whether weights are unpacked to 16 bit before they are multiplied."""
    bits = load_weight_format(s.weight_format).bits_per_weight
    return bits < FULL_PRECISION_BITS and (not native(s) or s.weight_compute in ("bf16", "fp16"))


def unread(s: Scenario) -> bool:
    """Whether nothing was read of this engine's kernels on devices of this vendor."""
    engines = {engine for row in kernels().runs for engine in row.engines}
    return s.engine.engine in engines and s.accelerator.vendor not in kernels().vendors_read


def obstacle(s: Scenario) -> str:
    """Why this format does not run here; empty where nothing is known against it."""
    return next(_obstacles(s), "")


def _obstacles(s: Scenario) -> Iterator[str]:
    name, engine, device = s.weight_format, s.engine.engine, s.accelerator
    rows = [row for row in kernels().runs if engine in row.engines and name in row.formats]
    own = [row for row in rows if row.in_version(s.engine_version) and device.vendor in row.vendors]
    if rows and not own and device.vendor in kernels().vendors_read:
        yield f"{engine} {s.engine_version} has no kernels for {name} weights on {device.vendor} devices"
    capability = device.cuda_capability
    needed = [row.capability_from for row in own if row.capability_from is not None]
    if needed and capability is not None and capability < min(needed):
        yield f"{name} weights need compute capability {min(needed):g} on {engine}, {device.id} has {capability:g}"
    groups = kernels().groups
    group, columns = groups.weights.get(name), name in groups.blocks
    if group is None or engine not in groups.engines:
        return
    bad = uncut(s, group, columns=columns)
    if bad is not None:
        allowed = ", ".join(str(tp) for tp in group_tensor_parallel(s, group, columns) if tp <= 2 * s.tp) or "none"
        yield f"tp {s.tp} leaves {bad[1]:g} of the {bad[0]}, no multiple of {name}'s {group}; tp may be {allowed}"


def unpacking(s: Scenario) -> Unpacking | None:
    """What unpacking costs here; None where nothing is unpacked or the engine's own constants hold it."""
    if not storage_only(s):
        return None
    bits = load_weight_format(s.weight_format).bits_per_weight
    rows = sorted(kernels().unpacking, key=lambda row: row.bits_below)
    return next((row for row in rows if s.engine.engine in row.engines and bits < row.bits_below), None)


def gain_share(s: Scenario, place: int = EXPECTED) -> float:
    """Measured over predicted gain of a format the device multiplies in; 1 where none was measured."""
    if storage_only(s):
        return 1.0
    mixture = s.model.experts > 0
    for row in kernels().own_units:
        if s.engine.engine in row.engines and s.weight_format in row.formats and row.mixture in (None, mixture):
            return row.gain_share[place]
    return 1.0


def unpacked_shape(s: Scenario, shape: StepShape, place: int = EXPECTED) -> StepShape:
    """The shape with weights read and multiplied as slowly as unpacking makes it."""
    row = unpacking(s)
    if row is None:
        return shape
    traffic, share = row.traffic_ratio[place], row.compute_share[place]
    return replace(shape, weight_ratio=shape.weight_ratio * traffic, flop_per_s=shape.flop_per_s * share)


def candidates(engine: str) -> list[str]:
    """Formats asked about on an engine."""
    known = kernels().candidates
    if engine not in known:
        raise InfoptError(f"no weight formats are listed for {engine} (boundaries/data/weight_kernels.yaml)")
    return known[engine]
