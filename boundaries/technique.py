"""The one interface of all techniques, and what they answer."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from infopt.frozen import dataclass

if TYPE_CHECKING:
    from infopt.boundaries.quantities import Quantity
    from infopt.boundaries.situation import Situation

Verdict = Literal["use", "limited", "skip", "measure", "impossible"]
# Best first, in tables.
VERDICTS: tuple[Verdict, ...] = ("use", "limited", "measure", "skip", "impossible")
Metric = Literal["tpot", "itl", "ttft", "throughput", "sequences", "memory", "cost", "start"]


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better `metric` gets: before over after for times, after over before for rates and counts.

    low, high  the ratio where the step model is off to either side (situation.gain)
    """

    value: float
    low: float
    high: float
    metric: Metric


@dataclass(frozen=True, slots=True)
class Figure:
    """A number the verdict rests on or the reader wants beside it; base units.

    value  None where it is not known
    text   what it is, in a few words
    """

    name: str
    value: float | None
    unit: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What a source document says of the technique, answered here.

    text    its rule in our words
    says    the verdict it gives in this situation, None where it gives none
    why     where it differs from ours: why ours does not rest on it
    """

    document: int
    text: str
    says: Verdict | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer of a technique in one situation.

    reason    one line with the number that decides
    costs     what it takes in return (memory, quality, latency, operation)
    settle    for `measure`: the command or option that would settle it
    """

    verdict: Verdict
    gain: Gain | None
    reason: str
    figures: tuple[Figure, ...] = ()
    costs: tuple[str, ...] = ()
    rule: Rule | None = None
    settle: str = ""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """A value at which the verdict flips, everything else as it is.

    value    None: no flip between low and high
    current  the quantity here, None where it is not given
    below, above  verdicts on either side; of a whole number, `value` is the first with the verdict `above`
    """

    quantity: str
    value: float | None
    unit: str
    current: float | None
    below: Verdict
    above: Verdict
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Technique:
    """One optimization.

    id          its name on the command line
    ledger      what it saves
    order       place in document 3's order of trying (its steps are 1 to 6), None where it names none
    judge       the answer in a situation
    quantities  those along which the verdict may flip, the most telling first
    apply       the situation with the technique in use (`--with`), given its argument ("fp8", "" for the default);
                None where it changes no ledger
    quick       the verdict of `judge` alone, where the figures beside it are dear: break-evens ask for it often
    plane       the two quantities across which a map of verdicts tells most; None where there is only one
    """

    id: str
    name: str
    ledger: str
    order: int | None
    judge: "Callable[[Situation], Judgement]"
    quantities: "Sequence[Quantity]"
    apply: "Callable[[Situation, str], Situation] | None" = None
    aliases: Sequence[str] = ()
    quick: "Callable[[Situation], Verdict] | None" = None
    plane: "tuple[Quantity, Quantity] | None" = None


@dataclass(frozen=True, slots=True)
class Boundary:
    """A technique answered: what `infopt boundary` prints of it."""

    technique: Technique
    judgement: Judgement
    break_evens: tuple[BreakEven, ...]
