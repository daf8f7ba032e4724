"""A finding, and the interface of a rule."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from infopt.frozen import dataclass
from infopt.gate.deployment import Confidence, Severity
from infopt.gate.found import Argument

if TYPE_CHECKING:
    from infopt.gate.case import Case


@dataclass(frozen=True, slots=True)
class Hit:
    """What a rule says of a case.

    message   one line with the number that decides
    at        the argument it is about; None for the deployment as a whole
    detail    the arithmetic, where there is some
    remedy    what would cure it here, with its number; the rule's own where empty
    severity  in place of the rule's
    """

    message: str
    at: Argument | None = None
    detail: str = ""
    remedy: str = ""
    severity: Severity | None = None
    confidence: Confidence = "certain"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    id          its name, as suppressions and policies call it
    summary     what it finds, in a line
    why         what happens where it is ignored
    remedy      what to do
    parameters  numbers a policy can set, with their defaults
    check       the hits of a case
    good, bad   names of the fixtures that pass and fail it (docs/rules)
    """

    id: str
    summary: str
    severity: Severity
    why: str
    remedy: str
    check: "Callable[[Case], Iterator[Hit]]"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A hit in its place; `suppressed` is the reason where somebody accepted it."""

    rule: str
    severity: Severity
    confidence: Confidence
    file: str
    line: int
    column: int
    path: str
    deployment: str
    message: str
    detail: str
    remedy: str
    cause: str = ""
    suppressed: str | None = None
