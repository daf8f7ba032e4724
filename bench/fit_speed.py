"""Fit the step-time constants on published served measurements, with the model and the GPU type left out.

    python bench/fit_speed.py TRUTH.csv [--write]

Rows: tpot_ms of prefix `aic` (served deployments), not flagged, at most 8 devices, not past the KV capacity the ledger
predicts. Least absolute relative error, coefficients not negative, the traffic ratio at least 1. Prints the
coefficients, the error in sample, with each model left out and with each GPU type left out, and the quantiles of
measured over predicted by concurrency. --write stores the records of profiles/data/step_time (then read them).
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml
from least_error import left_out, solve

from infopt.errors import InfoptError
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import StepShape, first_token_s, prompt_at_peak_s, step_shape, step_terms_s
from infopt.profiles.step_constants import FOLDER, Band, FirstToken, Measured, StepConstants
from infopt.studies.speed_truth import SpeedRow, read_speed_rows, served_scenario

BANDS = (4, 16, 64, 10**9)
# One unit of each coefficient, so that the ledger's own terms are the columns of the fit.
UNIT = StepConstants(
    engines=[], memory_classes=[], vendors=[], mixture=False, min_compute_capability=0.0, kind="measured",
    traffic_ratio=1.0, kv_extra_ratio=0.0, kernel_s=1.0, kernel_before_cc10_s=0.0, kernel_fp8_cc10_s=0.0,
    prefill_ratio=1.0, decode_ratio=1.0, expert_s=1.0, prefill_token_s=0.0, request_s=1.0, bands=[],
    first_token=FirstToken(
        steps=0.0, kernel_s=0.0, prefill_ratio=0.0, token_s=0.0, queue_ratio=0.0, queue_token_s=0.0, low=1.0, high=1.0
    ),
    measured=Measured(sequences=[1, 1], devices=[1, 1], stages=[1, 1], pcie=False),
    source="",
)  # fmt: skip
MIXTURE = ("traffic_ratio", "kv_extra_ratio", "kernel_s", "kernel_before_cc10_s", "kernel_fp8_cc10_s", "prefill_ratio",
           "decode_ratio", "expert_s")  # fmt: skip
DENSE = ("traffic_ratio", "kernel_s", "prefill_ratio", "prefill_token_s", "request_s")
FIRST = ("steps", "kernel_s", "prefill_ratio", "token_s", "queue_ratio", "queue_token_s")


@dataclass
class Sample:
    row: SpeedRow
    scenario: Scenario
    shape: StepShape
    columns: dict[str, float]
    tpot_s: float
    ttft_s: float | None

    @property
    def family(self) -> str:
        """Models that differ only in their weights are one."""
        return f"{self.shape.model.architecture}-{self.shape.model.layers}-{self.shape.model.hidden}"


def samples(path: Path) -> Iterator[Sample]:
    rows = [row for row in read_speed_rows(path) if row.prefix == "aic" and not row.flagged]
    first = {row.run: row.value / 1e3 for row in rows if row.metric == "ttft_ms"}
    for row in rows:
        if row.metric != "tpot_ms":
            continue
        try:
            s = served_scenario(row)
        except InfoptError:
            continue
        if past_capacity(s):
            continue
        shape = step_shape(s, UNIT)
        if shape is not None:
            yield Sample(row, s, shape, columns(shape, s), row.value / 1e3, first.get(row.run))


def past_capacity(s: Scenario) -> bool:
    """Whether the ledger's pool holds fewer sequences than the clients: they queue, and TPOT is not a step time."""
    from infopt.ledgers.memory import memory_ledger

    return memory_ledger(s).max_sequences < s.batch_per_replica


def columns(shape: StepShape, s: Scenario) -> dict[str, float]:
    """The ledger's terms at one unit of each coefficient."""

    def terms(constants: StepConstants, shape: StepShape) -> dict[str, float]:
        batch = s.sharing_batch
        return step_terms_s(shape, constants, batch, s.decode_context_tokens, s.input_tokens, s.output_tokens)

    shape = replace(shape, kernel_s=1.0)
    unit = terms(UNIT, shape)
    token = terms(UNIT.model_copy(update={"prefill_ratio": 0.0, "prefill_token_s": 1.0}), shape)
    newest = float(s.accelerator.compute_capability or 0) >= 10
    return {
        "traffic_ratio": unit["weights"] + unit["kv"],
        "kv_extra_ratio": unit["kv"],
        "kernel_s": unit["kernels"],
        "kernel_before_cc10_s": 0.0 if newest else unit["kernels"],
        "kernel_fp8_cc10_s": unit["kernels"] if newest and s.weight_format in ("fp8", "fp8_block") else 0.0,
        "prefill_ratio": unit["prefill stall"],
        "decode_ratio": unit["compute"],
        "expert_s": unit.get("experts", 0.0),
        "prefill_token_s": token["prefill stall"],
        "request_s": unit["requests"],
    }


def report(name: str, found: list[Sample], terms: tuple[str, ...], write: bool) -> None:
    a = np.array([[sample.columns[term] for term in terms] for sample in found])
    y = np.array([sample.tpot_s for sample in found])
    low = np.array([1.0 if term == "traffic_ratio" else 0.0 for term in terms])
    fitted = solve(a, y, low)
    by_model = left_out([a], y, low, [sample.family for sample in found])
    by_gpu = left_out([a], y, low, [sample.row.gpu for sample in found])
    error = {
        k: float(np.mean(np.abs(p - y) / y)) for k, p in (("in", a @ fitted), ("model", by_model), ("gpu", by_gpu))
    }
    print(
        f"{name}: n {len(y)}, in sample {error['in']:.1%}, model left out {error['model']:.1%}, GPU {error['gpu']:.1%}"
    )
    coefficients = {term: float(value) for term, value in zip(terms, fitted, strict=True)}
    for term, value in coefficients.items():
        print(f"  {term:22} {value:.4g}")
    bands = list(concurrency_bands(found, y / by_model))
    for band in bands:
        print(f"  up to {band.sequences} sequences: measured / predicted {band.low:.2f} to {band.high:.2f}")
    first, ttft_error = fit_first_token(found, coefficients)
    print(f"  first token: in sample {ttft_error:.1%}, {first}")
    model = whole_request_errors(found, terms, [sample.family for sample in found])
    gpu = whole_request_errors(found, terms, [sample.row.gpu for sample in found])
    print(f"  whole request: model left out {model:.1%}, GPU {gpu:.1%}")
    if write:
        store(name, coefficients, bands, first, error, found)


def concurrency_bands(found: list[Sample], ratio: np.ndarray) -> Iterator[Band]:
    clients = np.array([sample.row.concurrency or 1 for sample in found])
    below = 0
    for top in BANDS:
        inside = (clients > below) & (clients <= top)
        below = top
        if inside.sum() >= 20:
            low, high = np.quantile(ratio[inside], (0.05, 0.95))
            yield Band(sequences=top, low=round(float(low), 3), high=round(float(high), 3))


def fit_first_token(found: list[Sample], coefficients: dict[str, float]) -> tuple[FirstToken, float]:
    constants = UNIT.model_copy(update={**dict.fromkeys(DENSE + MIXTURE, 0.0), **coefficients})
    known = [sample for sample in found if sample.ttft_s]
    a, y = first_token_columns(known, coefficients), np.array([sample.ttft_s for sample in known])
    x = solve(a, y, np.zeros(len(FIRST)))
    ratio = y / (a @ x)
    low, high = np.quantile(ratio, (0.05, 0.95))
    values = {name: float(value) for name, value in zip(FIRST, x, strict=True)}
    first = FirstToken(**values, low=round(float(low), 3), high=round(float(high), 3))
    check = first_token_s(known[0].shape, constants.model_copy(update={"first_token": first}), a[0][0], 1, 1)
    if not np.isfinite(check):
        raise SystemExit("the first-token formula is not finite")
    return first, float(np.mean(np.abs(a @ x - y) / y))


def first_token_columns(known: list[Sample], coefficients: dict[str, float]) -> np.ndarray:
    """The parts of a first token at one unit of each coefficient, in the order of FIRST."""
    rows = []
    for sample in known:
        s = sample.scenario
        tpot = sum(sample.columns[term] * value for term, value in coefficients.items())
        prompt = float(prompt_at_peak_s(sample.shape, s.input_tokens))
        work = float(s.input_tokens * s.model.layers * s.model.hidden)
        others = s.sharing_batch - 1
        rows.append([tpot, sample.shape.kernels, prompt, work, others * prompt, others * work])
    return np.array(rows, dtype=float)


def whole_request_errors(found: list[Sample], terms: tuple[str, ...], groups: list[str]) -> float:
    """Mean error of TTFT + OSL x TPOT, both fitted without the group that is predicted."""
    known = [(sample, group) for sample, group in zip(found, groups, strict=True) if sample.ttft_s]
    low = np.array([1.0 if term == "traffic_ratio" else 0.0 for term in terms])
    errors = []
    for label in sorted({group for _, group in known}):
        fit, test = [s for s, g in known if g != label], [s for s, g in known if g == label]
        a = np.array([[sample.columns[term] for term in terms] for sample in fit])
        steps = dict(zip(terms, solve(a, np.array([sample.tpot_s for sample in fit]), low), strict=True))
        first = solve(first_token_columns(fit, steps), np.array([s.ttft_s for s in fit]), np.zeros(len(FIRST)))
        for sample, ttft_s in zip(test, first_token_columns(test, steps) @ first, strict=True):
            osl = sample.scenario.output_tokens
            tpot_s = sum(sample.columns[term] * value for term, value in steps.items())
            measured_s = float(sample.ttft_s or 0) + osl * sample.tpot_s
            errors.append(abs(ttft_s + osl * tpot_s - measured_s) / measured_s)
    return float(np.mean(errors))


def measured_formats(found: list[Sample], newest: bool) -> list[str]:
    """Weight formats of the rows on either side of compute capability 10, and plain 16-bit weights on both."""
    seen = {s.scenario.weight_format for s in found if newest == ((s.scenario.accelerator.cuda_capability or 0) >= 10)}
    return sorted(seen | {"bf16", "fp16"})


def measured_range(steps: Sequence[Scenario], prompts: Sequence[Scenario]) -> Measured:
    """What the rows of a fit had: `steps` with times per token, `prompts` with first tokens."""

    def span(values: list[float]) -> list[int]:
        return [round(min(values)), round(max(values))]

    every = [*steps, *prompts]
    return Measured(
        sequences=span([s.sharing_batch for s in every]),
        devices=span([s.tp * s.pp * s.sharing_replicas for s in every]),
        stages=span([s.pp for s in every]),
        prompt_tokens=span([s.input_tokens for s in prompts]) if prompts else None,
        context_tokens=span([s.decode_context_tokens for s in steps]) if steps else None,
        pcie=any(s.tp > 1 and s.accelerator.link is None for s in every),
    )


def store(
    name: str,
    coefficients: dict[str, float],
    bands: list[Band],
    first: FirstToken,
    error: dict[str, float],
    found: list[Sample],
) -> None:
    zero = {term: 0.0 for term in (*DENSE, *MIXTURE) if term not in coefficients}
    source = (
        f"bench/fit_speed.py on {len(found)} served rows of aiconfigurator silicon_sample.csv@095f58a5 (H100 to B300); "
        f"error {error['in']:.1%} in sample, {error['model']:.1%} model left out, {error['gpu']:.1%} GPU type left out"
    )
    record = {
        "engines": ["vllm", "sglang", "tensorrt-llm"],
        "memory_classes": ["hbm"],
        "vendors": ["nvidia"],
        "mixture": name == "served-mixture",
        "min_compute_capability": 9.0,
        "kind": "measured",
        "formats_before_cc10": measured_formats(found, newest=False),
        "formats_from_cc10": measured_formats(found, newest=True),
        **{term: float(f"{value:.4g}") for term, value in {**coefficients, **zero}.items()},
        "bands": [band.model_dump() for band in bands],
        "first_token": {k: float(f"{v:.4g}") for k, v in first.model_dump(exclude_none=True).items()},
        "measured": measured_range(
            [sample.scenario for sample in found], [sample.scenario for sample in found if sample.ttft_s]
        ).model_dump(),
        "source": source,
    }
    StepConstants.model_validate(record)
    path = FOLDER / f"{name}.yaml"
    beside = path.with_suffix(".tmp")
    beside.write_text(yaml.safe_dump(record, sort_keys=False, width=120), encoding="utf-8")
    beside.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = list(samples(given.truth))
    report("served-dense", [s for s in found if not s.shape.experts], DENSE, given.write)
    report("served-mixture", [s for s in found if s.shape.experts], MIXTURE, given.write)


if __name__ == "__main__":
    main()
