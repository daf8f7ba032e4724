"""What versions of an engine do not do with a model: the records of data/model_support.yaml."""

from functools import cache
from typing import Literal

from pydantic import Field

from infopt.gate.case import Case
from infopt.gate.engines import DATA
from infopt.profiles.engines import in_versions
from infopt.records import Record, read_yaml, validate_record


class Refused(Record):
    """A refusal; it holds where everything named is so."""

    engine: str
    architectures: list[str] = Field([])
    formats: list[str] = Field([])
    since: str | None = None
    until: str | None = None
    capability_below: float | None = None
    parallel: Literal["tp", "pp"] | None = None
    mixture: bool | None = None
    unless: dict[str, str] = Field({})
    text: str
    remedy: str
    source: str

    def holds(self, case: Case) -> bool:
        """Whether the case is one of the row."""
        model, version = case.model, case.deployment.version
        if model is None or case.deployment.engine != self.engine:
            return False
        if (self.since or self.until) and (version is None or not in_versions(version, self.since, self.until)):
            return False
        stored = model.quantization.format if model.quantization is not None else weights_of(case)
        return (
            (not self.architectures or model.architecture in self.architectures)
            and (not self.formats or stored in self.formats)
            and (self.parallel is None or getattr(case.placed, self.parallel) > 1)
            and (self.mixture is None or self.mixture == (model.experts > 0))
            and self._old(case)
            and not any(case.deployment.found.environment.get(name) == said for name, said in self.unless.items())
        )

    def _old(self, case: Case) -> bool:
        if self.capability_below is None:
            return True
        capability = None if case.device is None else case.device.accelerator.cuda_capability
        return capability is not None and capability < self.capability_below


def weights_of(case: Case) -> str | None:
    """The format unquantized weights are loaded in, None where no plan says it."""
    return None if case.plan is None else case.plan.scenario.weight_format


class WholeImages(Record):
    """Models whose images a step takes whole.

    tokens       of the largest image
    where        keys of the text config that must be so
    raised_from  version from which the default of a step is raised to it
    """

    architectures: list[str]
    tokens: int
    where: dict[str, str] = Field({})
    raised_from: str
    source: str


class Support(Record):
    """The file."""

    refused: list[Refused]
    whole_images: list[WholeImages]


@cache
def support() -> Support:
    """All records."""
    return validate_record(Support, read_yaml(DATA / "model_support.yaml"), "model_support.yaml")
