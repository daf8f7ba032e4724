"""Published measurements as cases: one scenario each, with what the engine printed.

A truth file has one metric a row (columns in `COLUMNS`); rows of one id belong together. Names, formats and
versions stand as published and are read tolerantly here; what cannot be read makes a case skipped with a
reason, never guessed.
"""

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, Datum
from infopt.profiles.catalogue import find_in_catalogue, load_catalogue_model
from infopt.profiles.geometry import ModelProfile
from infopt.records import read_yaml
from infopt.units import whole_of

DATA = Path(__file__).parent / "data"
BUNDLED_MEMORY = DATA / "memory_truth.csv"
COLUMNS = (
    "id", "source_url", "engine", "engine_version", "model", "gpu", "n_gpus", "tp", "pp", "weight_format",
    "kv_dtype", "gpu_mem_util", "max_model_len", "other_flags", "metric", "value", "unit", "note",
)  # fmt: skip
GIB = 2**30
INFERRED = "not an independent test"


@dataclass(frozen=True, slots=True)
class Case:
    """One published run.

    metrics  value by metric name, as published (unit in `units`)
    """

    id: str
    source: str
    engine: str
    engine_version: str
    model: str
    gpu: str
    gpus: int | None
    tp: int
    pp: int
    weight_format: str
    kv_dtype: str
    utilization: float | None
    context_tokens: int | None
    flags: str
    metrics: dict[str, float]
    units: dict[str, str]
    notes: dict[str, str]

    @property
    def independent(self) -> bool:
        return INFERRED not in self.flags

    def flag_number(self, name: str) -> int | None:
        """The number behind a flag named in the notes: `max-num-seqs 128`, `max_num_seqs 8`, `16K`."""
        pattern = re.escape(name).replace(r"\-", "[-_ ]") + r"\s*=?\s*([0-9]{1,18})\s*(k?)"
        found = re.search(pattern, self.flags, re.IGNORECASE)
        if not found:
            return None
        return int(found.group(1)) * (1024 if found.group(2) else 1)


def read_cases(path: Path) -> list[Case]:
    """Cases of a truth file, in order; a missing column or a bad number is an error with its line."""
    groups: dict[str, list[dict[str, str]]] = {}
    for _, row in _rows(path):
        groups.setdefault(row["id"], []).append(row)
    return [_case(rows) for rows in groups.values()]


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InfoptError(f"{path}: not a memory truth file, column {missing[0]!r} is missing")
            for number, row in enumerate(reader, start=2):
                if not _is_number(row["value"]):
                    raise InfoptError(f"{path}:{number}: value {str(row['value'])[:60]!r} is not a number")
                yield number, {key: (text or "").strip() for key, text in row.items() if key is not None}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InfoptError(f"{path}: cannot be read: {error}") from error


def _is_number(text: str | None) -> bool:
    try:
        return math.isfinite(float(text or ""))
    except ValueError:
        return False


def _case(rows: list[dict[str, str]]) -> Case:
    first = rows[0]
    return Case(
        id=first["id"],
        source=first["source_url"],
        engine=first["engine"],
        engine_version=first["engine_version"],
        model=first["model"],
        gpu=first["gpu"],
        gpus=whole_of(first["n_gpus"]),
        tp=whole_of(first["tp"]) or 1,
        pp=whole_of(first["pp"]) or 1,
        weight_format=first["weight_format"],
        kv_dtype=first["kv_dtype"],
        utilization=_last_share(first["gpu_mem_util"]),
        context_tokens=whole_of(first["max_model_len"]),
        flags=first["other_flags"],
        metrics={row["metric"]: float(row["value"]) for row in rows},
        units={row["metric"]: row["unit"] for row in rows},
        notes={row["metric"]: row["note"] for row in rows},
    )


def _last_share(text: str) -> float | None:
    found = re.findall(r"0?\.\d+|1\.0", text)
    return float(found[-1]) if found else None


def terms() -> dict[str, Any]:
    """Spellings of published measurements."""
    data: dict[str, Any] = read_yaml(DATA / "truth_terms.yaml")
    return data


def case_model(case: Case, words: dict[str, Any]) -> ModelProfile:
    """The model a case names; raises InfoptError where the catalogue does not hold it."""
    name = words["models"].get(case.model, case.model)
    found = _find(name) or _find(re.sub(r"\s*[(+].*$", "", name)) or _find(_bare(name, words))
    if found is None:
        raise InfoptError(f"model {case.model!r} is not in the catalogue")
    return load_catalogue_model(found)


def _find(name: str) -> str | None:
    try:
        return find_in_catalogue(name)
    except InfoptError:
        return None


def _bare(name: str, words: dict[str, Any]) -> str:
    """A re-hosted checkpoint's name without organisation and quantization suffixes."""
    bare = re.sub(r"\s*[(+].*$", "", name).split("/")[-1].lower()
    for suffix in words["checkpoint_suffixes"]:
        bare = re.sub(suffix, "", bare)
    return bare


def case_engine(case: Case, words: dict[str, Any]) -> str:
    """The engine record a published engine column means; a fork stands for the engine it forks."""
    first = case.engine.lower().split(" ")[0]
    known: dict[str, str] = words["engines"]
    if first not in known:
        raise InfoptError(f"engine {case.engine} has no record")
    return known[first]


def case_weights(case: Case, words: dict[str, Any]) -> str | None:
    """The weight format a case states in words, None where it states none."""
    text = case.weight_format.lower()
    for word, name in words["weights"]:
        if word in text:
            return str(name)
    return None


def case_kv(case: Case) -> str | None:
    """The cache format; None follows the model."""
    text = case.kv_dtype.lower().split(" ")[0].replace("-", "_")
    return None if text in ("", "auto") else text


def case_version(case: Case) -> str | None:
    """A version number inside the published text: `0.6.x (Nov 2024)` is 0.6, `(2026)` is none."""
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)", case.engine_version)
    if found and not found.group(1).startswith("0.1."):
        return found.group(1)
    return None


def case_device(case: Case) -> Accelerator | None:
    """The device of a case: the total the log itself printed, else the named accelerator."""
    from infopt.hardware.names import resolve_hardware

    total = case.metrics.get("total_gpu_memory")
    printed = re.search(r"\((\d+\.\d+) GiB", case.gpu)
    if total is None and printed:
        total = float(printed.group(1))
    name = re.sub(r"\s*\(.*$", "", case.gpu).strip()
    try:
        device = resolve_hardware(name).accelerator if name else None
    except InfoptError:
        device = None
    if total is None:
        return device
    return sized_device(total * GIB, device, case.source)


def sized_device(total_bytes: float, known: Accelerator | None, source: str) -> Accelerator:
    """A device with the total an engine printed; other figures from the named accelerator where there is one."""
    from dataclasses import replace

    datum = {"usable_memory_bytes": Datum("measured", source)}
    if known is not None:
        return replace(known, usable_memory_bytes=int(total_bytes), data={**known.data, **datum})
    return Accelerator(
        id="unnamed device",
        vendor="unknown",
        memory_class="hbm",
        memory_bytes=int(total_bytes),
        driver_memory_bytes=None,
        usable_memory_bytes=int(total_bytes),
        bandwidth_bytes_per_s=1.0,
        peak_flop_per_s={},
        data=datum,
    )
