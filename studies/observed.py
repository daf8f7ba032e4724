"""What was read off a running server, as `observe --json` prints it: a file that takes the place of guesses.

Keys of the contract (DESIGN section 4) are read strictly; keys that are not known here are kept by name only, since
the contract may grow. A time is a number or an object of mean, p50, p90, p99.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, FiniteFloat, model_validator

from infopt.profiles.files import read_json_file
from infopt.records import Record, validate_record

Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Amount = Annotated[FiniteFloat, Field(ge=0)]


class Spread(Record):
    """A time over many requests, seconds."""

    mean: Amount | None = None
    p50: Amount | None = None
    p90: Amount | None = None
    p99: Amount | None = None


class Observed(Record):
    """One observation.

    effective_batch          mean sequences in a step of one server
    tokens_per_step          a sequence emits (1 without speculation)
    acceptance_per_position  share of cycles that accept at least 1, 2, ... drafted tokens
    bandwidth_utilization    bytes a step needs over what the device could have read in its time
    ignored                  keys of the file that are not known here
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    engine: str | None = None
    version_guess: str | None = None
    effective_batch: Amount | None = None
    tpot_s: Amount | Spread | None = None
    itl_s: Amount | Spread | None = None
    ttft_s: Amount | Spread | None = None
    tokens_per_step: Amount | None = None
    prefix_hit_share: Share | None = None
    preemptions: Amount | None = None
    acceptance_per_position: tuple[Share, ...] | None = None
    bandwidth_utilization: Amount | None = None
    ignored: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _falls(self) -> "Observed":
        rates = self.acceptance_per_position or ()
        if any(later > earlier for earlier, later in itertools.pairwise(rates)):
            raise ValueError("acceptance_per_position rises: it is the share of cycles that accept at least 1, 2, ..")
        return self

    def mean_s(self, name: str) -> float | None:
        """The mean of a time, its median where only that is there."""
        value = getattr(self, name)
        if isinstance(value, Spread):
            return value.mean if value.mean is not None else value.p50
        return None if value is None else float(value)

    def tail_s(self, name: str) -> float | None:
        """The 99th percentile of a time, the 90th where only that is there."""
        value = getattr(self, name)
        if not isinstance(value, Spread):
            return None
        return value.p99 if value.p99 is not None else value.p90


# What the contract has beside figures.
SAID = ("schema", "unknown_names")


def read_observed(path: Path) -> Observed:
    """An observation from a JSON file.

    Errors: InfoptError for what is no JSON object, a value of the wrong kind, a share above 1.
    """
    data = read_json_file(path)
    known = {name: _listed(value) for name, value in data.items() if name in Observed.model_fields}
    known.pop("ignored", None)
    strange = tuple(str(name)[:60] for name in data if name not in known and name not in SAID)
    return validate_record(Observed, {**known, "ignored": strange}, str(path))


def _listed(value: Any) -> Any:
    """JSON's lists as the tuples of a frozen record, its null percentiles left out."""
    if isinstance(value, Mapping):
        return {str(name): item for name, item in value.items() if item is not None}
    return tuple(value) if isinstance(value, list) else value
