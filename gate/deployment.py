"""A deployment as its engine understands it: what is served, with which settings, on what; and what is not known."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from infopt.frozen import dataclass
from infopt.gate.found import Argument, Found

Severity = Literal["error", "warning", "note"]
Confidence = Literal["certain", "likely", "possible"]


# Settings without which nobody can say what fits, and what the fact is called.
DECISIVE = {
    "tp": "tensor parallel",
    "pp": "pipeline parallel",
    "dp": "data parallel",
    "ep": "expert parallel",
    "context_tokens": "length limit",
    "utilization": "utilization",
    "quantization": "weight format",
    "kv": "KV cache format",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the engine by our name for it ("tp", "context_tokens", ...) in base units.

    flag      the engine's canonical name for it
    argument  where it is set; None for a default of the engine
    """

    value: Any
    flag: str
    argument: Argument | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """An argument that this engine at this version does not take as written.

    kind     unknown, removed, not-yet, ambiguous, bad-value, form, undetermined, unresolved
    setting  our name of what an unresolved value would have set
    """

    kind: str
    message: str
    argument: Argument
    remedy: str = ""
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact the files do not hold, and what would settle it."""

    fact: str
    settle: str


@dataclass(frozen=True, slots=True)
class Deployment:
    """One serving deployment.

    version      of the engine, None where nothing says it; `version_said` is where it was read
    model        what is served, None where nothing says it
    settings     by our names; only what is said or has a known default
    unknown      facts that are missing
    given        facts said beside the file, which win over it: fact -> (value, where)
    """

    file: str
    found: Found
    engine: str
    version: str | None
    version_said: str
    model: str | None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    given: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def value(self, name: str, default: Any = None) -> Any:
        """The value of a setting."""
        setting = self.settings.get(name)
        return default if setting is None else setting.value

    def said_at(self, name: str) -> Argument | None:
        """Where a setting is made, None where it is a default or not known."""
        setting = self.settings.get(name)
        return None if setting is None else setting.argument
