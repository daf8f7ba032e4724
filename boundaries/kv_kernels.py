"""What becomes of a smaller cache on an engine and a device: which formats it takes, where they lose or are refused.

That a device has no units of a format does not forbid to store in it: only what an engine refuses is refused here.
Constants: data/kv_kernels.yaml.
"""

from functools import cache
from pathlib import Path

from pydantic import Field

from infopt.ledgers.scenario import Scenario
from infopt.profiles.engines import in_versions
from infopt.records import Record, read_yaml, validate_record

_FILE = Path(__file__).resolve().parent / "data" / "kv_kernels.yaml"


class Row(Record):
    """Where something holds: engines, versions from `since` on and before `until`, compute capabilities.

    worst_ratio, best_ratio  lowest and highest throughput measured with the format over that without, None where none
                             was
    """

    engines: list[str]
    formats: list[str] = Field([])
    mixers: list[str] = Field([])
    since: str | None = None
    until: str | None = None
    capability_from: float | None = None
    capability_below: float | None = None
    processor: bool = False
    refused: bool = False
    worst_ratio: float | None = None
    best_ratio: float | None = None
    text: str = ""
    source: str

    @property
    def loses(self) -> bool:
        """Whether the format was slower wherever it was measured."""
        return self.best_ratio is not None and self.best_ratio < 1

    def holds(self, s: Scenario) -> bool:
        """Whether engine, version and device are those of the row."""
        device = s.accelerator
        capability = device.cuda_capability
        low, high = self.capability_from, self.capability_below
        return (
            s.engine.engine in self.engines
            and in_versions(s.engine_version, self.since, self.until)
            and (low is None or (capability is not None and capability >= low))
            and (high is None or (capability is not None and capability < high))
            and (not self.processor or device.processor)
        )


class Kernels(Record):
    """data/kv_kernels.yaml."""

    takes: list[Row]
    losses: list[Row]
    notes: list[Row]


@cache
def kernels() -> Kernels:
    """The data."""
    return validate_record(Kernels, read_yaml(_FILE), str(_FILE))


def kinds(s: Scenario) -> set[str]:
    """Kinds of the layers that keep a cache."""
    return {run.mixer.kind for run in s.model.runs if run.mixer.cache_elements_per_token}


def read_of(s: Scenario) -> bool:
    """Whether anything was read of this engine's smaller caches for such a mix of layers, in whatever version."""
    return any(s.engine.engine in row.engines and kinds(s) <= set(row.mixers) for row in kernels().takes)


def formats(s: Scenario) -> list[str]:
    """Cache formats this engine takes for the layers of this model."""
    rows = [row for row in kernels().takes if row.holds(s) and kinds(s) <= set(row.mixers)]
    return list(dict.fromkeys(name for row in rows for name in row.formats))


def loss(s: Scenario, kv_format: str) -> Row | None:
    """What is known against a format on this engine and device."""
    return next((row for row in kernels().losses if kv_format in row.formats and row.holds(s)), None)


def notes(s: Scenario) -> tuple[str, ...]:
    """What else must be said."""
    return tuple(row.text for row in kernels().notes if row.holds(s))
