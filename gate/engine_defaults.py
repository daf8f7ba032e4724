"""What engines and runtimes do where a file says nothing: data, each with its source (data/engine_defaults.yaml)."""

from functools import cache
from typing import Any

from infopt.frozen import dataclass
from infopt.gate.engines import DATA
from infopt.records import read_yaml


@dataclass(frozen=True, slots=True)
class StandIn:
    """The engine record by which another engine is planned, and the share of free memory that one takes."""

    engine: str
    version: str
    share: float


@cache
def _records() -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = read_yaml(DATA / "engine_defaults.yaml")
    return data


def default_of(name: str, key: str = "value") -> int:
    """A default by its name."""
    return int(_records()[name][key])


def versions_of(name: str) -> tuple[str, str]:
    """The versions a default holds for: from, and before."""
    row = _records()[name]
    return str(row["since"]), str(row["until"])


def lora_slots_of(engine: str) -> int | None:
    """Adapters an engine holds at once where nothing is said, None where that is not known."""
    found = _records()["lora_slots"].get(engine)
    return int(found) if isinstance(found, int) else None


@cache
def stand_in(engine: str) -> StandIn | None:
    """The record that stands in for an engine without one."""
    row = _records()["stand_ins"].get(engine)
    return None if row is None else StandIn(row["engine"], row["version"], float(row["share"]))
