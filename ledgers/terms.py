"""What a ledger returns: named terms that sum to a total, and caveats as values."""

from infopt.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One line of a ledger.

    value, low, high  best value and interval, in the unit
    formula           the equation with its numbers, for --explain
    kind              vendor, measured, assumed, exact (counted from geometry), source_code, user
    inside_budget     False for memory that lies on the card but outside the engine's own budget
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    formula: str
    source: str
    kind: str
    inside_budget: bool = True


@dataclass(frozen=True, slots=True)
class Caveat:
    """Something the reader must know before trusting a figure."""

    id: str
    text: str
