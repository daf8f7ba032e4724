"""Step-time constants made to fit measured points: two solve slope and overhead, one only shifts the overhead.

    t_i = fixed_i + a slope_i + b overhead_i
overhead  kernels and links: seconds that neither bytes nor load change
slope     points of several models or formats: all the rest;  points of one placement under several loads: what grows
          with the load (KV, attention, requests, products, other requests' prompts), the weights being fixed
a, b      what multiplies the class's constants; a is 1 with one point, and never so small that bytes would be read
          faster than the memory delivers them; b is never negative. With more points: least relative squares.
Device and engine of all points are the same.
Errors: InfoptError for no point or a time that is not positive.
"""

from collections.abc import Sequence

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.step_time import StepShape, step_terms_s
from infopt.profiles.step_constants import Band, StepConstants

OVERHEAD = frozenset({"kernels", "links"})
# Constants of the overhead, of what grows with the load, and of every byte.
OVERHEAD_FIELDS = (
    "kernel_s",
    "kernel_before_cc10_s",
    "kernel_fp8_cc10_s",
    "collective_s",
    "collective_pcie_s",
    "hop_s",
)
LOAD_FIELDS = ("prefill_ratio", "decode_ratio", "expert_s", "prefill_token_s", "request_s")
# Measured over predicted once calibrated, 5th to 95th percentile: bench/calibration.py.
CALIBRATED = {1: (0.87, 1.19), 2: (0.84, 1.12)}


@dataclass(frozen=True, slots=True)
class Point:
    """One measured step: the placement it was measured on, its load, and the time of an output token.

    cached_tokens  of every prompt, found in a prefix cache: no sequence waits for them
    """

    shape: StepShape
    batch: int
    context_tokens: float
    input_tokens: int
    output_tokens: int
    tpot_s: float
    cached_tokens: float = 0.0


def calibrate(constants: StepConstants, points: Sequence[Point]) -> StepConstants:
    """The constants of a class, scaled to fit `points`; shapes must be compiled again with them."""
    if not points:
        raise InfoptError("no measured point to calibrate with")
    if any(point.tpot_s <= 0 for point in points):
        raise InfoptError("a measured time per token must be above 0")
    one_placement = len(points) > 1 and all(point.shape == points[0].shape for point in points)
    of_bytes = constants.traffic_ratio + (constants.kv_extra_ratio if one_placement else 0.0)
    parts = [_parts_s(constants, point, one_placement) for point in points]
    slope, overhead = _solve(parts, 1 / of_bytes) if len(points) > 1 else _shift(parts[0], 1 / of_bytes)
    weights = 1.0 if one_placement else slope
    kv = slope * (constants.traffic_ratio + constants.kv_extra_ratio)
    changed: dict[str, object] = {name: slope * getattr(constants, name) for name in LOAD_FIELDS}
    changed |= {name: overhead * getattr(constants, name) for name in OVERHEAD_FIELDS}
    changed["traffic_ratio"] = weights * constants.traffic_ratio
    changed["kv_extra_ratio"] = kv - weights * constants.traffic_ratio
    if constants.head_bytes_per_cycle is not None:
        changed["head_bytes_per_cycle"] = constants.head_bytes_per_cycle / slope
    low, high = CALIBRATED[min(len(points), 2)]
    changed["bands"] = [Band(sequences=constants.bands[-1].sequences, low=low, high=high)]
    changed["source"] = f"{len(points)} measured point(s): slope x {slope:.3g}, overhead x {overhead:.3g}"
    return constants.model_copy(update=changed)


Parts = tuple[float, float, float]  # slope, overhead, and the measured time that is left for them


def _parts_s(constants: StepConstants, p: Point, one_placement: bool) -> Parts:
    lengths = (p.context_tokens, p.input_tokens, p.output_tokens)
    terms = step_terms_s(p.shape, constants, p.batch, *lengths, p.cached_tokens)
    overhead = sum(float(value) for name, value in terms.items() if name in OVERHEAD)
    fixed = float(terms["weights"]) if one_placement else 0.0
    return sum(float(value) for value in terms.values()) - overhead - fixed, overhead, p.tpot_s - fixed


def _shift(parts: Parts, least_ratio: float) -> tuple[float, float]:
    """One point: what is left after the slope is overhead; a step below that has none."""
    slope_s, overhead_s, left_s = parts
    if left_s >= slope_s and overhead_s > 0:
        return 1.0, (left_s - slope_s) / overhead_s
    return max(least_ratio, left_s / slope_s if slope_s > 0 else 1.0), 0.0


def _solve(parts: Sequence[Parts], least_ratio: float) -> tuple[float, float]:
    """Least relative squares of two unknowns within their bounds."""
    rows = [(slope / left, overhead / left) for slope, overhead, left in parts if left > 0]
    if len(rows) < 2:
        return _shift(parts[0], least_ratio)
    aa, ab, bb = (sum(x[i] * x[j] for x in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a1, b1 = sum(x[0] for x in rows), sum(x[1] for x in rows)
    determinant = aa * bb - ab * ab
    if determinant <= 1e-9 * aa * bb:
        return _shift(parts[0], least_ratio)  # points of one load say nothing about the slope
    slope, overhead = (a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant
    if overhead < 0:
        return max(least_ratio, a1 / aa), 0.0
    if slope < least_ratio:
        return least_ratio, max(0.0, (b1 - least_ratio * ab) / bb)
    return slope, overhead
