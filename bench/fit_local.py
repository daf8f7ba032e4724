"""Fit the step-time constants of local engines on published single-stream rates, models and GPU types left out.

    python bench/fit_local.py TRUTH.csv [--write]

Rows: tpot_ms or tg_tok_s of one sequence, not flagged, not faster than their bytes. Engines whose kernels are alike are
fitted together: what belongs to the device (efficiency, bytes per cycle, links) is shared, the cost of a kernel and of
attention is each release's own. Least absolute relative error, coefficients not negative, the traffic ratio at least 1;
the one constant that is not linear is searched on a grid, again for every fit. Prints the coefficients and the error in
sample, with each model left out and with each GPU type left out.
First tokens: pp_tok_s (tokens of the prompt over its time) of the same engines, fitted after the step; the interval is
the one of at most `RANGE` between its ends that holds most rows with the model or the GPU left out.
--write stores profiles/data/step_time (then read them).
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from fit_speed import UNIT, measured_range
from least_error import best, left_out

from infopt.errors import InfoptError
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import StepShape, prompt_fill_ratio, prompt_parts_s, step_shape, step_terms_s
from infopt.profiles.step_constants import FOLDER, Band, FirstToken, Measured, StepConstants
from infopt.studies.speed_single import (
    cached_tokens,
    first_token_seconds,
    is_single_prefill,
    is_single_stream,
    single_scenario,
)
from infopt.studies.speed_truth import SpeedRow, read_speed_rows, seconds_per_token

RANGE = 3.0
CHUNK_TOKENS = 512
PREFILL_TERMS = ("kernel_s", "prefill_ratio", "attention_ratio")


@dataclass(frozen=True)
class Release:
    """One record to write: engines of one kind on devices of one kind.

    software   releases that share the cost of a kernel and of attention
    by_cycles  prompts are counted in multiprocessor cycles, not at dense peak
    attention  whether each query head reads its own keys and values (no flash attention)
    """

    record: str
    engines: tuple[str, ...]
    vendors: tuple[str, ...]
    memory_classes: tuple[str, ...]
    software: str = ""
    attention: bool = False
    by_cycles: bool = True


@dataclass(frozen=True)
class Family:
    """Releases fitted together, and the constant that is searched.

    links  False where every row is tensor parallel, so that collectives cannot be told from kernels
    """

    name: str
    releases: tuple[Release, ...]
    searched: str
    grid: tuple[float, ...]
    links: bool = True


ALL = ("hbm", "gddr", "lpddr")
# Servers of which only first tokens of single requests were published.
FIRST_TOKENS = Release(
    "local__tensorrt-llm-2023+lmdeploy",
    ("tensorrt-llm-2023", "lmdeploy"),
    ("nvidia",),
    ("hbm", "gddr"),
    by_cycles=False,
)
FAMILIES = (
    Family(
        "llama.cpp on CUDA",
        (
            Release("local__llama.cpp__cuda", ("llama.cpp",), ("nvidia",), ALL, "newest"),
            Release("local__llama.cpp-2024__hbm", ("llama.cpp-2024",), ("nvidia",), ("hbm",), "2024", attention=True),
            Release("local__llama.cpp-2024__gddr", ("llama.cpp-2024",), ("nvidia",), ("gddr",), "2024", attention=True),
        ),
        "bytes_per_cycle",
        (6.0, 6.3, 6.6, 6.9, 7.2, 7.5, 7.8),
    ),
    Family(
        "llama.cpp on Metal",
        (
            Release(
                "local__llama.cpp+llama.cpp-2024__metal",
                ("llama.cpp", "llama.cpp-2024"),
                ("apple",),
                ("lpddr",),
                attention=True,
            ),
        ),
        "flop_per_weight",
        (16, 20, 24, 28, 32),
    ),
    Family(
        "compiled kernels",
        (Release("local__gpt-fast+mlc-llm+exllama", ("gpt-fast", "mlc-llm", "exllama"), ("nvidia", "amd"), ALL),),
        "bytes_per_cycle",
        (9, 10, 11, 12, 13, 14, 16),
    ),
    Family(
        "llama.cpp of 2023",
        (Release("local__llama.cpp-2023", ("llama.cpp-2023",), ("nvidia",), ALL),),
        "bytes_per_cycle",
        (7.2, 1000),
    ),
    Family(
        "vLLM of 2023",
        (Release("local__vllm-2023", ("vllm-2023",), ("nvidia",), ALL),),
        "bytes_per_cycle",
        (12, 1000),
        links=False,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    row: SpeedRow
    scenario: Scenario
    release: Release
    step_s: float


def samples(path: Path, family: Family) -> Iterator[Sample]:
    for row in read_speed_rows(path):
        if row.flagged or not is_single_stream(row):
            continue
        try:
            s = single_scenario(row)
        except InfoptError:
            continue
        release = next((r for r in family.releases if belongs(s, r)), None)
        step_s = seconds_per_token(row)
        if release is not None and step_s >= bandwidth_ledger(s).tpot_floor_s:
            yield Sample(row, s, release, step_s)


def belongs(s: Scenario, release: Release) -> bool:
    device = s.accelerator
    return (
        s.engine.engine in release.engines
        and device.vendor in release.vendors
        and device.memory_class in release.memory_classes
    )


def unit_constants(family: Family, value: float) -> StepConstants:
    ones = dict.fromkeys(("head_bytes_per_cycle", "collective_s", "collective_pcie_s", "hop_s"), 1.0)
    return UNIT.model_copy(update={**ones, family.searched: float(value)})


def names_of(family: Family) -> list[tuple[str, str]]:
    """(software, coefficient); what belongs to the device is shared."""
    links = ("collective_s", "collective_pcie_s", "hop_s") if family.links else ()
    shared = [("shared", name) for name in ("traffic_ratio", *links)]
    own = [("kernel_s", "head" if release.attention else "kv_extra_ratio") for release in family.releases]
    return shared + list(
        dict.fromkeys((r.software, n) for r, two in zip(family.releases, own, strict=True) for n in two)
    )


def columns(sample: Sample, family: Family, value: float) -> list[float]:
    """The ledger's terms of one token at one unit of each coefficient."""
    s, unit = sample.scenario, unit_constants(family, value)
    shape = step_shape(s, unit)
    if shape is None:
        raise SystemExit(f"{s.accelerator.id}: no dense peak")
    terms = step_terms_s(shape, unit, 1, s.decode_context_tokens, s.input_tokens, s.output_tokens)
    over_link = s.accelerator.link is not None
    collectives = 2.0 * s.model.layers * (s.tp > 1)
    of = {
        "traffic_ratio": terms["weights"] + terms["kv"],
        "collective_s": collectives * over_link,
        "collective_pcie_s": collectives * (not over_link),
        "hop_s": s.pp - 1.0,
        "kernel_s": shape.kernels,
        "head": terms.get("attention", 0.0),
        "kv_extra_ratio": terms["kv"],
    }
    mine = ("shared", sample.release.software)
    return [float(of[name]) if software in mine else 0.0 for software, name in names_of(family)]


def report(path: Path, family: Family, write: bool) -> list[np.ndarray]:
    found = list(samples(path, family))
    names = names_of(family)
    y = np.array([sample.step_s for sample in found])
    low = np.array([1.0 if name == "traffic_ratio" else 0.0 for _, name in names])
    grid = [np.array([columns(sample, family, value) for sample in found]) for value in family.grid]
    at, x = best(grid, y, low, np.ones(len(y), dtype=bool))
    by_model = left_out(grid, y, low, [sample.scenario.model.id for sample in found])
    by_gpu = left_out(grid, y, low, [gpu_type(sample) for sample in found])
    errors = [np.abs(p - y) / y for p in (grid[at] @ x, by_model, by_gpu)]
    shown = ", ".join(
        f"{what} {np.nanmean(e):.1%} (n {np.sum(~np.isnan(e))})"
        for what, e in zip(("in sample", "model left out", "GPU left out"), errors, strict=True)
    )
    print(f"{family.name}: {shown}")
    print(f"  {family.searched:22} {family.grid[at]:g}")
    for (software, name), value in zip(names, x, strict=True):
        print(f"  {software:10} {name:18} {value:.4g}")
    for release in family.releases:
        mine = np.array([sample.release == release for sample in found])
        ratios = np.concatenate([(y / p)[mine] for p in (grid[at] @ x, by_model, by_gpu)])
        first = fit_first_token(path, release)
        if write:
            steps = [sample.scenario for sample in found if sample.release == release]
            measured = measured_range(steps, [s for _, _, s in prompts(path, release)])
            store(family, release, family.grid[at], x, ratios[~np.isnan(ratios)], errors, mine, first, measured)
    return errors


def fit_first_token(path: Path, release: Release) -> FirstToken | None:
    """Constants of one release; None where none of its prompts was timed."""
    found = list(prompts(path, release))
    if not found:
        return None
    y = np.array([first_token_seconds(row) for _, row, _ in found])
    terms = PREFILL_TERMS if release.by_cycles else PREFILL_TERMS[:2]
    a = np.array([prompt_columns(shape, row, release.by_cycles) for shape, row, _ in found])
    low = np.zeros(len(terms))
    _, x = best([a], y, low, np.ones(len(y), dtype=bool))
    labels = [[s.model.id for _, _, s in found], [s.accelerator.name for _, _, s in found]]
    unseen = [left_out([a], y, low, groups) for groups in labels]
    ratios = np.concatenate([y / p for p in unseen])
    begin, end = first_token_interval(ratios[~np.isnan(ratios)])
    inside = np.mean((y / (a @ x) >= begin) & (y / (a @ x) <= end))
    errors = ", ".join(f"{np.nanmean(np.abs(p - y) / y):.1%}" for p in (a @ x, *unseen))
    print(
        f"  first token of {release.record}: n {len(y)}, errors {errors}; {inside:.0%} within {begin:.2f} to {end:.2f}"
    )
    values = {name: float(value) for name, value in zip(terms, x, strict=True)}
    chunk = CHUNK_TOKENS if release.by_cycles else None
    zero = dict.fromkeys(("steps", "token_s", "queue_ratio", "queue_token_s"), 0.0)
    return FirstToken(**values, **zero, chunk_tokens=chunk, low=begin, high=end)


def prompts(path: Path, release: Release) -> Iterator[tuple[StepShape, SpeedRow, Scenario]]:
    unit = UNIT.model_copy(update={"prompt_by_cycles": release.by_cycles})
    for row in read_speed_rows(path):
        if row.flagged or not is_single_prefill(row):
            continue
        try:
            s = single_scenario(row)
        except InfoptError:
            continue
        shape = step_shape(s, unit) if belongs(s, release) else None
        if shape is not None:
            yield shape, row, s


def prompt_columns(shape: StepShape, row: SpeedRow, by_cycles: bool) -> list[float]:
    tokens = row.input_tokens or 1
    linear, attention = prompt_parts_s(shape, tokens, cached_tokens(row))
    if not by_cycles:
        return [float(shape.kernels), float(linear + attention)]
    fill = prompt_fill_ratio(shape, CHUNK_TOKENS, tokens)
    return [float(shape.kernels), float(fill * linear), float(fill * attention)]


def first_token_interval(ratios: np.ndarray) -> tuple[float, float]:
    """5th to 95th percentile, or where that is wider than `RANGE` the window of that width that holds most."""
    low, high = np.quantile(ratios, (0.05, 0.95))
    if high <= RANGE * low:
        return float(low), float(high)
    held = np.array([np.mean((ratios >= begin) & (ratios <= begin * RANGE)) for begin in ratios])
    begin = float(np.median(ratios[held >= held.max() - 1e-9]))
    return begin, begin * RANGE


def gpu_type(sample: Sample) -> str:
    """Memory sizes of one chip are one type."""
    return sample.scenario.accelerator.name


def store_first_tokens(path: Path, write: bool) -> None:
    """The record that has first tokens only: no step is measured."""
    first = fit_first_token(path, FIRST_TOKENS)
    zero = dict.fromkeys(("prefill_ratio", "decode_ratio", "expert_s", "request_s", "kernel_s"), 0.0)
    update = {
        **zero,
        "engines": list(FIRST_TOKENS.engines),
        "memory_classes": list(FIRST_TOKENS.memory_classes),
        "vendors": list(FIRST_TOKENS.vendors),
        "mixture": None,
        "most_sequences": 0,
        "bands": [],
        "first_token": first,
        "measured": measured_range([], [s for _, _, s in prompts(path, FIRST_TOKENS)]),
        "source": "bench/fit_local.py on first tokens of single requests, TensorRT-LLM 0.5 and LMDeploy 0.2",
    }
    if write:
        write_record(FIRST_TOKENS.record, UNIT.model_copy(update=update))


def fitted_constants(family: Family, release: Release, searched: float, x: np.ndarray) -> StepConstants:
    """The class a fit means, without its first token and its interval."""
    pairs = zip(names_of(family), x, strict=True)
    values = {name: float(v) for (of, name), v in pairs if of in ("shared", release.software)}
    head = values.pop("head", 0.0)
    zero = dict.fromkeys(("prefill_ratio", "decode_ratio", "expert_s", "request_s", "kernel_s"), 0.0)
    update = {
        **zero,
        **values,
        "engines": list(release.engines),
        "memory_classes": list(release.memory_classes),
        "vendors": list(release.vendors),
        "mixture": None,
        family.searched: float(searched),
        "head_bytes_per_cycle": 1 / head if head else None,
        "most_sequences": 1,
        "first_token": None,
        "bands": [Band(sequences=1, low=1.0, high=1.0)],
    }
    return UNIT.model_copy(update=update)


def store(
    family: Family,
    release: Release,
    searched: float,
    x: np.ndarray,
    ratios: np.ndarray,
    errors: list[np.ndarray],
    mine: np.ndarray,
    first: FirstToken | None,
    measured: Measured,
) -> None:
    low, high = np.quantile(ratios, (0.05, 0.95))
    shown = [f"{np.nanmean(e[mine]):.1%}" if np.any(~np.isnan(e[mine])) else "not testable" for e in errors]
    record = fitted_constants(family, release, searched, x).model_copy(
        update={
            "prompt_by_cycles": first is not None,
            "first_token": first,
            "measured": measured,
            "bands": [Band(sequences=1, low=float(low), high=float(high))],
            "source": f"bench/fit_local.py on {int(mine.sum())} single-stream rows ({family.name}, {release.record}); "
            f"error {shown[0]} in sample, {shown[1]} model left out, {shown[2]} GPU type left out",
        }
    )
    write_record(release.record, record)


def write_record(name: str, record: StepConstants) -> None:
    path = FOLDER / f"{name}.yaml"
    data = record.model_dump(exclude_defaults=True, exclude_none=True) | {"mixture": None}
    text = yaml.safe_dump(rounded(data), sort_keys=False, width=120)
    beside = path.with_suffix(".tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def rounded(value: object) -> object:
    """Four digits are more than the fit is worth."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    errors = [report(given.truth, family, given.write) for family in FAMILIES]
    store_first_tokens(given.truth, given.write)
    for i, what in enumerate(("in sample", "model left out", "GPU type left out")):
        together = np.concatenate([e[i] for e in errors])
        print(f"all: {what} {np.nanmean(together):.1%} of {np.sum(~np.isnan(together))} rows, "
              f"{np.sum(np.isnan(together))} with nothing else measured")  # fmt: skip


if __name__ == "__main__":
    main()
