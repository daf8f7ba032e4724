"""Scenarios that differ only in load: compiled once, evaluated as arrays through the formulas of `plan`.

A group is everything but context, input, output and concurrency. `studies.scenarios` builds its scenario, the ledgers
compile its stages, traffic and clock; then loads run through them as arrays of any length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.bandwidth import step_bytes
from infopt.ledgers.estimate import Clock, NoEstimate, clock, expected_times
from infopt.ledgers.memory import unknown_terms
from infopt.ledgers.pool import StageMemory, room, stage_memory
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.start_checks import standing_refusals
from infopt.ledgers.traffic import StageTraffic, traffic
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build, default_context_tokens, filled_lengths, lengths
from infopt.studies.sweep_values import COUNT_COLUMNS, KEY_COLUMNS
from infopt.units import format_gib, parse_count, parse_share

TIME_COLUMNS = ("tpot_s", "ttft_s", "output_tokens_per_s")
# An unknown value is NaN, and this in columns of whole numbers (fits: 1 yes, 0 no).
UNKNOWN = -1
WHOLE_COLUMNS = ("kv_pool_tokens", "max_sequences", "fits")
RESULT_COLUMNS = (
    "weights_bytes_per_gpu", "kv_bytes_per_token_per_gpu", *WHOLE_COLUMNS, "step_floor_s", *TIME_COLUMNS,
)  # fmt: skip
# Names and groups kept at once: a file with more of them reads some again.
MAX_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Load:
    """What varies inside a group: arrays of int64, None for a length that is not given."""

    context_tokens: Any
    input_tokens: Any
    output_tokens: Any
    batch: Any

    def at(self, rows: Any) -> "Load":
        """Some of the rows."""
        given = (self.context_tokens, self.input_tokens, self.output_tokens)
        ctx, isl, osl = (None if length is None else length[rows] for length in given)
        return Load(ctx, isl, osl, self.batch[rows])


@dataclass(frozen=True, slots=True)
class Results:
    """Result columns by name, arrays or one number for all rows; rows that have an error, with its text."""

    columns: Mapping[str, Any]
    errors: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Group:
    """A compiled placement.

    parts   pipeline stages that differ in memory
    clock   constants of the step time; None where nothing was measured
    """

    scenario: Scenario
    parts: tuple[StageMemory, ...]
    stages: tuple[StageTraffic, ...]
    clock: Clock | None

    def results(self, load: Load) -> Results:
        """Every row of a load; impossible ones get an error and no values."""
        errors = self._impossible(load)
        if not errors:
            columns = self.columns(load)
        else:
            possible = np.ones(len(load.batch), dtype=bool)
            possible[list(errors)] = False
            columns = {name: unknown(name, len(possible)) for name in RESULT_COLUMNS}
            if possible.any():
                for name, values in self.columns(load.at(possible)).items():
                    columns[name][possible] = values
        nothing = np.flatnonzero((columns["fits"] == 0) & (columns["max_sequences"] == 0))
        return Results(columns, errors | dict.fromkeys(nothing.tolist(), self._nothing_fits()))

    def columns(self, load: Load) -> dict[str, Any]:
        """Result columns of loads that are possible."""
        ctx, isl, osl, decode = self._lengths(load)
        s = replace(
            self.scenario,
            context_tokens=ctx,
            input_tokens=isl,
            output_tokens=osl,
            decode_context_tokens=decode,
            batch=load.batch,
        )
        memory = self._memory(s)
        weights, kv = step_bytes(self.stages, s.batch_per_replica, decode)
        floor_s = (weights + kv) / s.accelerator.bandwidth_bytes_per_s
        times = self._times(s, floor_s, memory["max_sequences"] >= s.batch_per_replica)
        return {**memory, "step_floor_s": floor_s, **times}

    def _memory(self, s: Scenario) -> dict[str, Any]:
        """Columns of the rank that decides: the fewest sequences, then the smallest pool."""
        chosen = _held(s, self.parts[0])
        for part in self.parts[1:]:
            other = _held(s, part)
            tokens, sequences = (np.asarray(other[name]) for name in ("kv_pool_tokens", "max_sequences"))
            fewer, equal = sequences < chosen["max_sequences"], sequences == chosen["max_sequences"]
            smaller = fewer | (equal & (tokens < chosen["kv_pool_tokens"]))
            chosen = {name: np.where(smaller, other[name], chosen[name]) for name in chosen}
        if unknown_terms(s):
            chosen["fits"] = np.where(chosen["fits"] == 1, UNKNOWN, chosen["fits"])
        return chosen

    def _times(self, s: Scenario, step_floor_s: Any, runs: Any) -> dict[str, Any]:
        """Expected times where there are measurements and the batch runs at once."""
        if self.clock is None:
            return dict.fromkeys(TIME_COLUMNS, np.nan)
        times = expected_times(s, self.clock, step_floor_s)
        found = dict(zip(TIME_COLUMNS, (times.tpot_s, times.ttft_s, times.output_tokens_per_s), strict=True))
        if np.all(runs):
            return found
        return {name: np.where(runs, values, np.nan) for name, values in found.items()}

    def _lengths(self, load: Load) -> tuple[Any, Any, Any, Any]:
        """Context, input, output and decode context, what was not given filled in."""
        ctx, isl, osl = load.context_tokens, load.input_tokens, load.output_tokens
        if ctx is None and isl is None:
            ctx = np.full(len(load.batch), default_context_tokens(self.scenario.model))
        return filled_lengths(ctx, isl, osl)

    def _impossible(self, load: Load) -> dict[int, str]:
        """Rows whose lengths contradict each other, with what `plan` says of them."""
        given = (load.context_tokens, load.input_tokens, load.output_tokens)
        if given[1] is None and given[2] is None:
            return {}
        ctx, isl, osl, _ = self._lengths(load)
        bad = (isl < 1) | (osl < 1) | (isl + osl > ctx)
        if given[0] is None and given[1] is None:
            bad = np.ones(len(load.batch), dtype=bool)
        rows = np.flatnonzero(bad).tolist()
        said = lru_cache(MAX_KEPT)(self._refusal)
        return {row: said(*(None if length is None else int(length[row]) for length in given)) for row in rows}

    def _refusal(self, ctx: int | None, isl: int | None, osl: int | None) -> str:
        try:
            lengths(Request(context_tokens=ctx, input_tokens=isl, output_tokens=osl), self.scenario.model)
        except InfoptError as error:
            return str(error)
        raise AssertionError(f"context {ctx}, input {isl}, output {osl} are possible")

    def _nothing_fits(self) -> str:
        weights = max(part.term("weights").value for part in self.parts)
        usable = format_gib(self.scenario.accelerator.usable_memory_bytes)
        return f"not one sequence fits: a device holds {format_gib(weights)} of weights in {usable}"


def unknown(column: str, rows: int) -> Any:
    """A result column without values."""
    return np.full(rows, UNKNOWN, dtype=np.int64) if column in WHOLE_COLUMNS else np.full(rows, np.nan)


def _held(s: Scenario, part: StageMemory) -> dict[str, Any]:
    held, starts = room(s, part), not any(standing_refusals(s))
    return {
        "weights_bytes_per_gpu": part.term("weights").value,
        "kv_bytes_per_token_per_gpu": part.cache.full_bytes_per_token,
        "kv_pool_tokens": held.tokens,
        "max_sequences": held.sequences,
        "fits": np.where(starts & held.unsure, UNKNOWN, starts & held.holds),
    }


class Groups:
    """Groups by their key cells, compiled when first asked for."""

    def __init__(self, online: bool = False, calibration: str | None = None) -> None:
        self._online, self._calibration = online, calibration
        self._notes: dict[str, None] = {}
        self._compiled: dict[tuple[str, ...], Group | str] = {}
        self._model = lru_cache(MAX_KEPT)(self._resolved_model)
        self._hardware = lru_cache(MAX_KEPT)(self._resolved_hardware)

    def group(self, key: tuple[str, ...]) -> Group | str:
        """The group of cells in the order of KEY_COLUMNS, or why there is none."""
        found = self._compiled.get(key)
        if found is None:
            if len(self._compiled) >= MAX_KEPT:
                self._compiled.clear()
            try:
                found = compile_group(self.model(key[0]), self.hardware(key[1]), key)
            except InfoptError as error:
                found = str(error)
            self._compiled[key] = found
        return found

    def model(self, name: str) -> ModelProfile:
        """The model of a cell; raises InfoptError for an unknown one."""
        if not name:
            raise InfoptError("no model is given; name one, such as 70b")
        return self._model(name)

    def hardware(self, name: str) -> HardwareChoice:
        """The hardware of a cell; raises InfoptError for an unknown one."""
        if not name:
            raise InfoptError("no hw is given; name one, such as h100")
        return self._hardware(name)

    def _resolved_hardware(self, name: str) -> HardwareChoice:
        if self._calibration is None:
            return resolve_hardware(name)
        from infopt.hardware.calibrate import resolve_calibrated

        choice = resolve_calibrated(name, self._calibration)
        self._notes |= dict.fromkeys(choice.accelerator.calibration_notes)
        return choice

    def calibration_notes(self) -> Sequence[str]:
        """Which figures of the hardware so far were measured."""
        return tuple(self._notes)

    def _resolved_model(self, name: str) -> ModelProfile:
        return resolve_model(name, online=self._online)


def compile_group(model: ModelProfile, hardware: HardwareChoice, key: Sequence[str]) -> Group:
    """Build and compile the placement of key cells; raises InfoptError for one that no engine runs."""
    s = build(model, hardware, _request(dict(zip(KEY_COLUMNS, key, strict=True)))).scenario
    s.check()
    parts: list[StageMemory] = []
    for index, stage in enumerate(stages(s.model, s.pp)):
        part = stage_memory(s, stage, index)
        if part not in parts:
            parts.append(part)
    timed = clock(s)
    return Group(s, tuple(parts), traffic(s), None if isinstance(timed, NoEstimate) else timed)


def _request(cells: Mapping[str, str]) -> Request:
    """The request of key cells; blank ones take the defaults of `plan`. The load is put in later."""
    texts = {name: cells[name] for name in ("weights", "kv", "engine", "engine_version") if cells[name]}
    counts = {name: parse_count(cells[name], name) for name in COUNT_COLUMNS if cells[name]}
    share = parse_share(cells["util"], "util") if cells["util"] else None
    return Request(context_tokens=2, utilization=share, **texts, **counts)  # type: ignore[arg-type]
