"""Combinations that an engine, a version or a device does not run: data, and they block a verdict.

A row of data/conflicts.yaml holds where everything it names is so: the technique asked about, one already in use
(`with`), the engine, its versions from `since` on and before `until`, a compute capability below `capability_below`,
formats, a parallel degree above one.
"""

from collections.abc import Iterator
from functools import cache
from typing import Literal

from pydantic import Field

from infopt.boundaries.deciding import DATA
from infopt.boundaries.situation import Situation
from infopt.profiles.engines import in_versions
from infopt.records import Record, read_yaml


class Conflict(Record):
    """One combination that does not run.

    technique       whose verdict it blocks
    used            a technique already in use
    method          a draft method
    engine, since, until  where and in which versions
    capability_below      devices of an older compute capability
    weights, kv     formats of the scenario
    parallel        a degree that is above one
    mixture         whether the model has experts
    text, source    what does not go together, and who says so
    """

    technique: str
    used: str | None = None
    method: str | None = None
    engine: str | None = None
    since: str | None = None
    until: str | None = None
    capability_below: float | None = None
    weights: list[str] = Field([])
    kv: list[str] = Field([])
    parallel: Literal["tp", "pp", "dp", "ep"] | None = None
    mixture: bool | None = None
    text: str
    source: str

    def holds(self, situation: Situation) -> bool:
        """Whether everything the row names is so."""
        s = situation.scenario
        capability = s.accelerator.cuda_capability
        old = self.capability_below is None or (capability is not None and capability < self.capability_below)
        return (
            (self.used is None or self.used in situation.used)
            and (self.method is None or self.method == situation.load.draft.method)
            and (self.engine is None or self.engine == s.engine.engine)
            and in_versions(s.engine_version, self.since, self.until)
            and old
            and (not self.weights or s.weight_format in self.weights)
            and (not self.kv or s.kv_format in self.kv)
            and (self.parallel is None or getattr(s, self.parallel) > 1)
            and (self.mixture is None or self.mixture == (s.model.experts > 0))
        )


def conflicts(technique: str, situation: Situation) -> Iterator[Conflict]:
    """What keeps a technique from running here."""
    return (row for row in _conflicts() if row.technique == technique and row.holds(situation))


@cache
def _conflicts() -> tuple[Conflict, ...]:
    rows = read_yaml(DATA / "conflicts.yaml") or []
    return tuple(Conflict.model_validate(row) for row in rows)
