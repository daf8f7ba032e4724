"""Published speed measurements as scenarios: names and formats are read as they stand.

One metric a row (`COLUMNS`). Rows whose note starts with FLAG are known bad and never used.
"""

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.scenario import Scenario
from infopt.profiles.catalogue import find_in_catalogue, load_catalogue_model
from infopt.profiles.geometry import ModelProfile
from infopt.records import read_yaml
from infopt.studies.scenarios import Request, build
from infopt.studies.truth import DATA
from infopt.units import whole_of

BUNDLED_SPEED = DATA / "speed_truth.csv"
LEAST_VALUE, MOST_VALUE = 1e-12, 1e15  # whatever the unit: beyond them an error in percent is no number
COLUMNS = (
    "id", "source", "model", "gpu", "n_gpus", "tp", "pp", "ep", "weight_format", "kv_dtype", "engine", "isl", "osl",
    "batch_or_concurrency", "metric", "value", "unit", "note",
)  # fmt: skip
MOST_SERVED_GPUS = 8


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """One published figure, as published."""

    id: str
    source: str
    model: str
    gpu: str
    gpus: int | None
    tp: int | None
    pp: int | None
    ep: int | None
    weight_format: str
    engine: str
    input_tokens: int | None
    output_tokens: int | None
    concurrency: int | None
    load: str
    metric: str
    value: float
    note: str

    @property
    def prefix(self) -> str:
        """The source, as ids name it: `aic-0071` is aic, `spec-sb-0001` is spec-sb."""
        return self.id.rpartition("-")[0] or self.id

    @property
    def flagged(self) -> bool:
        return self.note.startswith("FLAG")

    @property
    def run(self) -> tuple[Any, ...]:
        """What the figures of one run share."""
        lengths = (self.input_tokens, self.output_tokens, self.concurrency)
        return (self.source, self.model, self.gpu, self.gpus, *lengths, self.note)


def served_engine(row: SpeedRow, words: dict[str, Any]) -> str:
    """Our name of a row's engine; InfoptError where the row names none that serves."""
    name = (row.engine.lower().split() or [""])[0]
    if name not in words["served_engines"]:
        raise InfoptError(f"engine {row.engine[:60]!r} is not one that serves")
    engine: str = words["served_engines"][name]
    return engine


def read_speed_rows(path: Path) -> Iterator[SpeedRow]:
    """Rows of a speed truth file; a missing column or a bad number is an error with its line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InfoptError(f"{path}: not a speed truth file, column {missing[0]!r} is missing")
            for number, row in enumerate(reader, start=2):
                yield _row(path, number, row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InfoptError(f"{path}: cannot be read: {error}") from error


def _row(path: Path, number: int, row: dict[str, str]) -> SpeedRow:
    try:
        value = float(row["value"])
    except (TypeError, ValueError):
        value = math.nan
    if not LEAST_VALUE <= value <= MOST_VALUE:
        what = f"value {str(row['value'])[:60]!r}"
        raise InfoptError(f"{path}:{number}: {what} is not a number above 0, or none that is ever measured")
    return SpeedRow(
        id=row["id"],
        source=row["source"],
        model=row["model"],
        gpu=row["gpu"],
        gpus=whole_of(row["n_gpus"] or ""),
        tp=whole_of(row["tp"] or ""),
        pp=whole_of(row["pp"] or ""),
        ep=whole_of(row["ep"] or ""),
        weight_format=row["weight_format"],
        engine=row["engine"],
        input_tokens=whole_of(row["isl"] or ""),
        output_tokens=whole_of(row["osl"] or ""),
        concurrency=whole_of(row["batch_or_concurrency"] or ""),
        load=row["batch_or_concurrency"],
        metric=row["metric"],
        value=value,
        note=row["note"] or "",
    )


@cache
def speed_terms() -> dict[str, Any]:
    """How speed measurements spell devices, models, formats and engines, and which rows only inform constants."""
    data: dict[str, Any] = read_yaml(DATA / "speed_terms.yaml")
    return data


@cache
def published_device(label: str) -> Accelerator:
    """The accelerator a GPU label means; raises InfoptError where the catalogue has none."""
    words = speed_terms()
    text = label.replace("\u2011", "-")
    if text in words["devices"]:
        return resolve_hardware(words["devices"][text]).accelerator
    for pattern, instead in words["device_spellings"]:
        text = re.sub(pattern, instead, text)
    return resolve_hardware(text).accelerator


@cache
def published_model(name: str) -> ModelProfile:
    """The catalogue model a published name means; raises InfoptError where there is none."""
    meant = speed_terms()["models"].get(name, name)
    found = find_in_catalogue(meant) or find_in_catalogue(meant.split("/")[-1])
    if found is None:
        raise InfoptError(f"model {name!r} is not in the catalogue")
    return load_catalogue_model(found)


def seconds_per_token(row: SpeedRow) -> float:
    """A decode rate or a time per token, in seconds."""
    return 1 / row.value if row.metric == "tg_tok_s" else row.value / 1e3


def served_scenario(row: SpeedRow) -> Scenario:
    """The scenario of a served row; raises InfoptError with the reason where the row does not suffice.

    `attn_dp=D` in the note: D attention replicas over devices that share the experts.
    """
    words = speed_terms()
    if not (row.gpus and row.concurrency and row.input_tokens and row.output_tokens):
        raise InfoptError("devices, concurrency or lengths not stated")
    if row.gpus > MOST_SERVED_GPUS:
        raise InfoptError("more than 8 devices")
    model, weights = served_model(row, words)
    replicas = _attention_replicas(row)
    if row.gpus % replicas or row.tp not in (None, row.gpus, row.gpus // replicas):
        raise InfoptError("tp and attention replicas do not match the devices")
    mixture = model.experts > 0
    engine = served_engine(row, words)
    request = Request(
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        batch=row.concurrency,
        gpus=row.gpus,
        tp=row.gpus // replicas,
        dp=replicas,
        ep=row.gpus if mixture and replicas > 1 else (row.ep or 1) if mixture and row.ep == row.gpus else 1,
        engine=engine,
        weights=weights,
        kv="fp8" if engine == "tensorrt-llm" and weights != "bf16" else None,
    )
    return build(model, HardwareChoice(published_device(row.gpu), None, row.gpu), request).scenario


def _attention_replicas(row: SpeedRow) -> int:
    found = re.search(r"attn_dp=(\d{1,6})", row.note)
    return int(found.group(1)) if found else 1


def served_model(row: SpeedRow, words: dict[str, Any]) -> tuple[ModelProfile, str]:
    """The catalogue model of a row and its weight format; a checkpoint stored in 4 bits keeps its own format."""
    model = published_model(row.model)
    text = row.weight_format.lower()
    weights = next((name for word, name in words["served_weights"] if word in text), None)
    if weights is None:
        raise InfoptError(f"weight format {row.weight_format!r} is not known")
    stored = model.quantization
    if stored is not None and stored.format == "mxfp4":
        return model, "mxfp4"
    if stored is not None and stored.format != weights:
        model = replace(model, quantization=None)
    return model, weights
