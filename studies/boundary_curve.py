"""A technique along one quantity: gain and verdict at each value, with the flips among them."""

from collections.abc import Callable

from infopt.boundaries.quantities import Quantity
from infopt.boundaries.registry import judge
from infopt.boundaries.roots import grid
from infopt.boundaries.technique import BreakEven, Gain, Technique, Verdict
from infopt.errors import InfoptError, unknown_name
from infopt.frozen import dataclass
from infopt.studies.boundary import Boundaries
from infopt.units import parse_bytes_per_s, parse_count, parse_rate_per_s, parse_seconds, parse_share, parse_tokens

WHOLE_AT_MOST = 1024
# Values of a curve that is drawn.
DRAWN = 60
READERS: dict[str, Callable[[str, str], float]] = {
    "share": parse_share,
    "tokens": parse_tokens,
    "requests/s": parse_rate_per_s,
    "bytes/s": parse_bytes_per_s,
    "s": parse_seconds,
}


@dataclass(frozen=True, slots=True)
class Point:
    """One value; gain None where there is none."""

    value: float
    verdict: Verdict
    gain: Gain | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A technique along a quantity, everything else as it is."""

    technique: Technique
    quantity: Quantity
    current: float | None
    points: tuple[Point, ...]
    flips: tuple[BreakEven, ...]


def varied(found: Boundaries, text: str) -> Curve:
    """`batch=1:256`: the curve between two values, every whole number where they are few."""
    name, equals, span = text.partition("=")
    low_text, colon, high_text = span.partition(":")
    if not equals or not colon:
        raise InfoptError(f"--vary {text}: write it like batch=1:256")
    quantity = quantity_of(found, name.strip())
    low, high = read(quantity, low_text), read(quantity, high_text)
    if not quantity.low <= low < high:
        raise InfoptError(f"--vary {text}: the first value must be at least {quantity.low:g} and below the second")
    if quantity.share and high > 1:
        raise InfoptError(f"--vary {text}: {quantity.name} is a share between 0 and 1")
    if quantity.whole and high - low < WHOLE_AT_MOST:
        places = [float(value) for value in range(int(low), int(high) + 1)]
    else:
        places = grid(quantity, low, high, quantity.get(found.situation))
    return curve(found, quantity, places)


def read(quantity: Quantity, text: str) -> float:
    """A value of a quantity as people write it: 32k tokens, 5/s, 50GB/s, 70%."""
    reader = READERS.get("share" if quantity.share else quantity.unit, parse_count)
    return float(reader(text.strip(), "--vary"))


def quantity_of(found: Boundaries, name: str) -> Quantity:
    """The quantity of the technique that is asked about."""
    known = {q.name: q for q in found.techniques[0].technique.quantities}
    if name not in known:
        of = found.techniques[0].technique.id
        raise unknown_name("quantity", name, list(known), f"{of} varies with {', '.join(known)}")
    return known[name]


def curves(found: Boundaries) -> tuple[Curve, ...]:
    """The technique along each of its quantities, over the range searched for flips."""
    of = found.techniques[0].technique
    situation = found.situation
    return tuple(
        curve(found, q, grid(q, q.low, max(q.low, q.high(situation)), q.get(situation), DRAWN)) for q in of.quantities
    )


def curve(found: Boundaries, quantity: Quantity, places: list[float]) -> Curve:
    """The technique at given values of a quantity."""
    boundary, situation = found.techniques[0], found.situation
    points = tuple(_point(found, quantity, place) for place in places)
    flips = tuple(f for f in boundary.break_evens if f.quantity == quantity.name and f.value is not None)
    return Curve(boundary.technique, quantity, quantity.get(situation), points, flips)


def _point(found: Boundaries, quantity: Quantity, value: float) -> Point:
    try:
        answer = judge(found.techniques[0].technique, quantity.set(found.situation, value))
    except InfoptError:
        return Point(value, "impossible", None)
    return Point(value, answer.verdict, answer.gain)
