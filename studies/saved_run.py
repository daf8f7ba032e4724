"""A saved run: configuration, traffic, requests, metrics, quality and hardware of one experiment, in one file.

Document 2 (section 14) asks for these at each step of a tuning ladder; `infopt experiment compare` reads two of them.
A run is simulated (`simulate --save`) or measured (`experiment save --observed`). Metrics are flat numbers named by
quantity, statistic and unit (data/experiment/metrics.yaml). Repetitions say how far chance moves them:
    parts  of one run, by time of sending: batch means            files  the same thing measured several times
    seeds  the same description of traffic, drawn anew
A file holds no date and no path of this machine unless it is given, so the same run gives the same bytes.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date as day
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, FiniteFloat, model_validator

from infopt import __version__
from infopt.errors import InfoptError
from infopt.files import write_text
from infopt.profiles.files import LocalFile, read_json_file
from infopt.records import Record, read_yaml, validate_record
from infopt.studies.experiment_variables import DATA, Scalar, knob, number
from infopt.units import whole_of

if TYPE_CHECKING:
    from infopt.studies.simulate import Simulation

SCHEMA = "infopt/run/1"
Kind = Literal["simulated", "measured"]
Metrics = dict[str, FiniteFloat | None]
JSON_ENDING = ".json"


class Metric(Record):
    """One figure of a run; see data/experiment/metrics.yaml."""

    id: str
    name: str
    unit: str
    what: str
    better: Literal["higher", "lower"] | None = None


class Noise(Record):
    """How much chance moves a figure."""

    confidence: float
    least_repetitions: int
    parts: int
    least_requests: dict[str, int]
    same_traffic_ratio: float
    t_95: dict[int, float]
    source: str


class MetricData(Record):
    """The file."""

    source: str
    least_gain_share: float
    metrics: list[Metric]
    noise: Noise


def metric(name: str) -> Metric:
    """The metric of an id."""
    return next(one for one in metric_data().metrics if one.id == name)


@cache
def metric_data() -> MetricData:
    """The metrics and what chance does to them, read once."""
    path = DATA / "metrics.yaml"
    return validate_record(MetricData, read_yaml(path), str(path))


class Quality(Record):
    """A result of answers, not of time: a benchmark's score, a share of valid calls.

    value  of n samples;  higher_is_better  as in most scores;  source  the harness and its version
    """

    name: str = Field(min_length=1)
    value: FiniteFloat
    unit: str = ""
    higher_is_better: bool = True
    n: int | None = Field(None, ge=1)
    source: str = ""

    @model_validator(mode="after")
    def _shares(self) -> "Quality":
        if self.unit == "share" and not 0 <= self.value <= 1:
            raise ValueError(f"{self.value:g} is no share from 0 to 1")
        return self


class Traffic(Record):
    """What arrived: its description, a trace's name, and what tells the requests themselves (sha256).

    left_out  requests that the engine would have refused as too long
    """

    description: dict[str, Scalar] = Field({})
    trace: str | None = None
    sha256: str | None = None
    left_out: int = 0


class Requests(Record):
    """Every request: how many, and where they are kept beside the run."""

    count: int = Field(ge=0)
    file: str | None = None
    sha256: str | None = None


class Hardware(Record):
    """What it ran on, or was computed for.

    device       the accelerator's id;  driver, calibration  where they are known
    step_times   what the clock of a simulation rests on;  points  the user's, that calibrated it
    """

    device: str
    name: str = ""
    driver: str | None = None
    calibration: str | None = None
    step_times: str | None = None
    points: list[str] = Field([])


class Repetition(Record):
    """The same once more; `key` says which requests it had."""

    key: str
    requests: int = Field(ge=0)
    metrics: Metrics


class Repetitions(Record):
    """Several, of one kind."""

    kind: Literal["parts", "seeds", "files"]
    runs: list[Repetition]


class SavedRun(Record):
    """One run; `defaulted` are knobs that nobody set, so that they are the engine's own."""

    schema_: Literal["infopt/run/1"] = Field(alias="schema")
    tool: str
    kind: Kind
    name: str = ""
    date: str | None = None
    seed: int | None = None
    saturated: bool | None = None
    configuration: dict[str, Scalar]
    defaulted: list[str] = Field([])
    traffic: Traffic
    requests: Requests
    metrics: Metrics
    targets: Metrics = Field({})
    repetitions: Repetitions | None = None
    quality: list[Quality] = Field([])
    hardware: Hardware
    notes: list[str] = Field([])

    @model_validator(mode="after")
    def _known_names(self) -> "SavedRun":
        try:
            for name in (*self.configuration, *self.defaulted):
                knob(name)
        except InfoptError as error:
            raise ValueError(str(error)) from error
        known = {metric.id for metric in metric_data().metrics}
        several = self.repetitions.runs if self.repetitions else []
        for metrics in (self.metrics, *(one.metrics for one in several)):
            strange = sorted(set(metrics) - known)
            if strange:
                raise ValueError(f"{strange[0]} is no metric that is known ({', '.join(sorted(known))})")
        names = [one.name for one in self.quality]
        if len(set(names)) < len(names):
            raise ValueError("a quality result stands twice")
        return self

    def plain(self) -> dict[str, Any]:
        """As it is written."""
        return self.model_dump(mode="json", by_alias=True)


def save_run(
    path: Path,
    simulation: "Simulation",
    quality: Sequence[Quality] = (),
    *,
    name: str = "",
    date: str | None = None,
    keep_rows: bool = False,
) -> SavedRun:
    """Write what was simulated; with keep_rows every request as CSV beside it (`<stem>.requests.csv`).

    Parts need the rows of the simulation (Choices.keep_rows). Errors: InfoptError where it cannot be written.
    """
    from infopt.studies.saved_simulation import rows_csv, run_of

    run = run_of(simulation, quality, name=name, date=checked_date(date))
    if keep_rows:
        text = rows_csv(simulation)
        beside = path.with_name(f"{path.stem}.requests.csv")
        kept = run.requests.model_copy(update={"file": beside.name, "sha256": sha256_of(text.encode())})
        run = run.model_copy(update={"requests": kept})
        write_text(beside, text)
    write_run(path, run)
    return run


def write_run(path: Path, run: SavedRun) -> None:
    """Write a run whole or not at all: JSON where the file is named so, else YAML."""
    write_text(path, run_text(run, path.suffix.lower() == JSON_ENDING))


def run_text(run: SavedRun, as_json: bool) -> str:
    """A run as it is written."""
    if as_json:
        return json.dumps(run.plain(), indent=2, ensure_ascii=False) + "\n"
    import yaml

    return str(yaml.safe_dump(run.plain(), sort_keys=False, allow_unicode=True, width=120))


def read_run(path: Path) -> SavedRun:
    """The run of a file. Errors: InfoptError for what is no saved run, or one of another version."""
    data = read_json_file(path) if path.suffix.lower() == JSON_ENDING else read_yaml(path)
    if not isinstance(data, Mapping):
        raise InfoptError(f"{path}: is no saved run; `infopt simulate --save FILE` and `experiment save` write one")
    found = data.get("schema")
    if found != SCHEMA:
        what = f"is {str(found)[:60]}, not {SCHEMA}" if found else "is no saved run (it has no schema)"
        raise InfoptError(f"{path}: {what}; `infopt simulate --save FILE` and `experiment save` write one")
    return validate_record(SavedRun, data, str(path))


def parse_quality(name: str, text: str) -> Quality:
    """A quality result as it was typed: a value, samples, and `lower` where less is better.

    >>> parse_quality("mmlu", "71.2%:14042").n
    14042
    """
    value, *rest = (piece.strip() for piece in text.split(":"))
    is_lower, count = False, None
    for piece in rest:
        if piece == "lower":
            is_lower = True
        elif whole_of(piece) and count is None:
            count = whole_of(piece)
        else:
            raise InfoptError(f"--quality {name}={text}: {piece!r} is neither a number of samples nor `lower`")
    percent = value.endswith("%")
    score = number(f"--quality {name}", value.removesuffix("%").strip())
    is_share = percent or (count is not None and 0 <= score <= 1)
    made = {
        "name": name,
        "value": float(Decimal(str(score)) / 100) if percent else score,
        "unit": "share" if is_share else "",
        "higher_is_better": not is_lower,
        "n": count,
    }
    return validate_record(Quality, made, f"--quality {name}={text}")


def with_quality(run: SavedRun, quality: Sequence[Quality]) -> SavedRun:
    """The run with quality results, in the place of those of the same names."""
    named = {one.name: one for one in (*run.quality, *quality)}
    return run.model_copy(update={"quality": list(named.values())})


def tool_name() -> str:
    """Who wrote a run."""
    return f"infopt {__version__}"


def checked_date(text: str | None) -> str | None:
    """A date as it is written down. Errors: InfoptError for what is none."""
    if text is None:
        return None
    try:
        return day.fromisoformat(text).isoformat()
    except ValueError as error:
        raise InfoptError(f"--date {text}: a day as 2026-11-30 is expected") from error


def sha256_of(data: bytes) -> str:
    """The fingerprint of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """The fingerprint of a file, read in pieces. Errors: InfoptError where it cannot be read."""
    found, at, piece = hashlib.sha256(), 0, 1 << 20
    with LocalFile(path) as file:
        while data := file.read_at(at, piece):
            found.update(data)
            at += len(data)
    return found.hexdigest()


def mean_metrics(several: Iterable[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Means over repetitions; None where one of them does not have it."""
    columns: dict[str, list[float | None]] = {}
    rows = list(several)
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    found: dict[str, float | None] = {}
    for name, values in columns.items():
        known = [value for value in values if value is not None]
        found[name] = sum(known) / len(known) if len(known) == len(rows) else None
    return found
