"""What was measured on one device, as a file that every command believes: `--calibration FILE|auto`.

A record is YAML: the device, its state at the time, the software, and what each probe measured. It is written whole or
not at all, carries a checksum over everything else, and says by which version of the method it was taken, so that an
edited, foreign or outdated file is refused by name (docs/calibration.md).
"""

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from infopt.errors import InfoptError
from infopt.records import Record, read_yaml, validate_record

SCHEMA = "infopt/calibration/1"
# Version of how figures are taken: raised when a change makes older figures incomparable.
METHOD = 1
MEASURED = Path(__file__).resolve().parent / "data" / "measured"

READS = ("read", "sum", "gemv")  # of `probe bandwidth`
# No device comes near either end: a picosecond, 1e24 bytes or FLOP a second.
LEAST_FIGURE, MOST_FIGURE = 1e-12, 1e24
# What a step has at least one of.
STEP_COUNTS = ("batch", "tokens", "tp", "kernels", "layers", "layers_run", "hidden", "weight_bytes", "flop", "median_s")

Probe = Literal["bandwidth", "compute", "transfer", "links", "power", "latency", "verify", "draft"]
Value = str | int | float | bool | None


class Device(Record):
    """What was measured.

    accelerator  id in the catalogue, None where it is not listed (a CPU, mostly)
    uuid_hash    first 16 hex digits of the SHA-256 of the driver's UUID (of the machine id and processor name for a
                 CPU): tells two devices apart and names neither
    """

    kind: Literal["cpu", "cuda"]
    name: str
    accelerator: str | None
    uuid_hash: str | None
    memory_bytes: int
    compute_capability: str | None = None
    last_cache_bytes: int | None = None
    threads: int = 1
    driver: str | None = None


class State(Record):
    """How the device was while it was measured.

    load_before, load_after  1-minute load of the host
    throttle                 reasons the driver named, by name
    clock_mhz, memory_clock_mhz  medians while busy
    notes                    what else a reader should know ("two other processes on the GPU")
    """

    load_before: float | None = None
    load_after: float | None = None
    throttle: list[str] = Field([])
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    ecc: bool | None = None
    mig: bool | None = None
    other_processes: int | None = None
    notes: list[str] = Field([])


class Measurement(Record):
    """One figure: `value` in `unit` is the median's; p10 and p90 are percentiles of the same quantity.

    moved          bytes or FLOP (or tokens) one run moves, as the probe declares
    share_of_peak  of the catalogue's figure, None where there is none
    format         number type
    conditions     sizes, threads, modes: what must be equal for two figures to be compared
    taken          when, UTC
    """

    probe: Probe
    name: str
    format: str | None
    unit: Literal["bytes/s", "flop/s", "s", "W", "J/token", "tokens/s"]
    value: float
    p10: float
    p90: float
    n: int
    n_clean: int
    contended: bool
    taken: str
    moved: float | None = None
    moved_unit: Literal["bytes", "flop", "tokens"] | None = None
    share_of_peak: float | None = None
    conditions: dict[str, Value] = Field({})


class Step(Record):
    """Time of one forward pass of a decoder on this device: a decode step, a verification, a prompt.

    engine              who ran it: torch (our own decoder), vllm, ...
    eager               launched kernel by kernel, not as a captured graph
    weights, kv         formats
    batch               sequences;  tokens  of each sequence in this pass (1: decoding)
    context_tokens      cached before the pass
    weight_bytes, kv_bytes, flop  of one pass, by the ledger's rules: what the time is explained with
    kernels             by the counting of profiles/data/kernels.yaml
    layers, layers_run  of the model, and how many of them were run: fewer are extrapolated in `median_s`
    tp                  devices that shared it
    """

    engine: str
    engine_version: str
    eager: bool
    model: str
    weights: str
    kv: str
    batch: int
    tokens: int
    context_tokens: int
    tp: int
    weight_bytes: float
    kv_bytes: float
    flop: float
    kernels: int
    layers: int
    layers_run: int
    hidden: int
    median_s: float
    p10_s: float
    p90_s: float
    n: int
    n_clean: int
    contended: bool
    taken: str


class Acceptance(Record):
    """What a draft did on one kind of text.

    drafted                  tokens proposed at most in a cycle, None where a server does not say
    per_position             share of cycles whose i-th draft was accepted, of those that proposed one; empty where a
                             server does not say
    share_with_draft         of cycles that proposed one, None where a server does not say
    tokens_per_step          emitted by a cycle, bonus token included
    step_s, verify_s, draft_s  one plain step, one verification, all drafting of a cycle
    speedup_measured, speedup_predicted, speedup_printed  wall clock; E t / (g t_draft + t_verify); document 1's formula
    """

    target: str
    draft: str
    text: str
    sampling: Literal["greedy", "sampled"]
    temperature: float
    drafted: int | None
    per_position: list[float]
    share_with_draft: float | None
    tokens_per_step: float
    tokens_per_step_low: float
    tokens_per_step_high: float
    tokens: int
    step_s: float | None = None
    verify_s: float | None = None
    draft_s: float | None = None
    speedup_measured: float | None = None
    speedup_predicted: float | None = None
    speedup_printed: float | None = None
    contended: bool = False
    taken: str
    source: str


class MemoryTerm(Record):
    """What an engine needs beside the weights on one device, by its own start-up log.

    name            total: of the device, as the engine multiplies it; non_torch; activation; graphs: taken from the
                    budget; rest: everything in the budget but weights and cache, where the log has no parts
    value_bytes     of one rank, the worst of several;  rounding_bytes  how far the printed figures may be off
    shipped_bytes   what the constants of that infopt said of it: their ratio is carried to other models
    weights_bytes   weights of that rank as the engine printed them, None where it did not
    model, weights  it holds for this model in this format, on this placement (total: for any)
    context_tokens  longest context, max_num_seqs, max_num_batched_tokens  limits of that start; None: engine's defaults
    source          the log it was read from
    """

    engine: str
    engine_version: str
    name: Literal["total", "non_torch", "activation", "graphs", "rest"]
    value_bytes: float
    rounding_bytes: float
    shipped_bytes: float | None = None
    weights_bytes: float | None = None
    model: str
    weights: str
    tp: int
    pp: int
    eager: bool
    speculative_tokens: int = 0
    context_tokens: int
    max_num_seqs: int
    max_num_batched_tokens: int
    utilization: float
    source: str
    taken: str


class Calibration(Record):
    """Everything measured on one device; a further run of `probe` replaces what it measured anew and keeps the rest.

    created   when it was last written, UTC;  state  of the run that wrote it last
    complete  False where that run was interrupted: what is there is whole, the rest was not measured
    """

    schema_: Literal["infopt/calibration/1"] = Field(alias="schema")
    method: int
    created: str
    infopt: str
    complete: bool
    device: Device
    state: State
    software: dict[str, str]
    measurements: list[Measurement] = Field([])
    steps: list[Step] = Field([])
    acceptance: list[Acceptance] = Field([])
    memory: list[MemoryTerm] = Field([])
    checksum: str | None = None

    @property
    def reads(self) -> tuple[Measurement, ...]:
        """Figures of memory that was only read: a copy or a triad also writes."""
        return tuple(m for m in self.measurements if m.probe == "bandwidth" and m.name in READS)

    @property
    def best_read(self) -> Measurement | None:
        """The fastest read without contention: a floor from a slower one would be no floor."""
        return max((m for m in self.reads if m.value > 0 and not m.contended), key=lambda m: m.value, default=None)

    @property
    def figures(self) -> tuple[Measurement | Step | Acceptance, ...]:
        """Everything measured."""
        return (*self.measurements, *self.steps, *self.acceptance)

    def plain(self) -> dict[str, Any]:
        """As it is written and printed, without the checksum; `memory` only where there is some, as older records."""
        return self.model_dump(by_alias=True, exclude={"checksum"} if self.memory else {"checksum", "memory"})


def checksum(plain: dict[str, Any]) -> str:
    """SHA-256 of a record without its checksum, as canonical JSON."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def calibration_text(record: Calibration) -> str:
    """The record as YAML, checksum first."""
    plain = record.plain()
    return yaml.safe_dump({"checksum": checksum(plain), **plain}, sort_keys=False, allow_unicode=True, width=120)


def _checksum_of(record: Calibration) -> str | None:
    """The checksum a record should have; None where a figure is no number, which no probe writes."""
    try:
        return checksum(record.plain())
    except ValueError:
        return None


def load_calibration(path: Path) -> Calibration:
    """A record from a file.

    Errors: InfoptError where it cannot be read, is not a calibration, was edited (checksum), was taken by another
    version of the method, or holds what no probe writes.
    """
    data = read_yaml(path)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise InfoptError(f"{path}: not a calibration (schema {SCHEMA}); `infopt probe --out {path.name}` writes one")
    record = validate_record(Calibration, data, str(path))
    if record.method != METHOD:
        raise InfoptError(
            f"{path}: taken by method {record.method}, this infopt reads method {METHOD}; measure again: infopt probe"
        )
    if record.checksum is None or record.checksum != _checksum_of(record):
        raise InfoptError(
            f"{path}: the checksum does not match: it was edited or cut short; measure again: infopt probe"
        )
    for wrong in _impossible(record):
        raise InfoptError(f"{path}: {wrong}, which no probe writes; measure again: infopt probe")
    return record


def _impossible(record: Calibration) -> Iterator[str]:
    """What is in a record that nobody measured: its checksum can be computed by anyone."""
    if record.device.memory_bytes <= 0:
        yield f"device.memory_bytes is {record.device.memory_bytes}"
    for group in ("measurements", "steps", "acceptance", "memory"):
        for i, figure in enumerate(getattr(record, group)):
            for name, value in figure:
                numbers = value if isinstance(value, list) else [value]
                none = 0 in numbers and isinstance(figure, Step) and name in STEP_COUNTS
                if none or any(isinstance(n, int | float) and not _possible(n) for n in numbers):
                    yield f"{group}.{i}.{name} is {value}"
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for text in _texts(record.plain()) for c in text):
        yield "it holds control characters"


def _possible(number: float) -> bool:
    return number == 0 or LEAST_FIGURE <= number <= MOST_FIGURE


def _texts(node: Any) -> Iterator[str]:
    """Every text in a record, line ends and tabs taken for spaces."""
    if isinstance(node, str):
        yield " ".join(node.split())
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from _texts(value)


def calibration_folder() -> Path:
    """Where records are kept: $INFOPT_DATA, else the user's data folder."""
    given = os.environ.get("INFOPT_DATA")
    if given:
        return Path(given) / "calibrations"
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "infopt" / "calibrations"


def stored_calibrations() -> Iterator[Path]:
    """Files of the user's folder, newest first, then those that came with the package."""
    for folder in (calibration_folder(), MEASURED):
        with suppress(OSError):
            yield from sorted((p for p in folder.iterdir() if p.suffix == ".yaml"), key=_age, reverse=True)


def _age(path: Path) -> tuple[float, str]:
    return path.lstat().st_mtime, path.name  # of a link itself: where it leads may be gone
