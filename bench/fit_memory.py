"""Fit the activation constants of vLLM from start-up logs, and show the error with each model family left out.

    python bench/fit_memory.py [TRUTH.csv]

The peak is  c (S V 4) + M H b + workspace + base  (ledgers/activation.py); c and base are fitted by least squares
on the rows of the bundled truth that print an activation peak on the last (or only) pipeline stage. With each
family (the word before the first digit of a model's name) left out, the pool of its rows is predicted from the
others' constants. Prints the constants that stand in profiles/data/engines/vllm and the errors.
"""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from infopt.errors import InfoptError
from infopt.ledgers.activation import logits_bytes, profile_tokens
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.studies import memory_checks, truth, truth_scenarios

GIB = 2**30


@dataclass
class Row:
    family: str
    mixture: bool
    scenario: Scenario
    activation_bytes: float
    pool_bytes: float
    logits: float
    rest: float


def family(model: str) -> str:
    return re.split(r"[\d.-]", model.split("/")[-1].lower().replace("meta-", ""))[0]


def rows(path: Path, until: str) -> list[Row]:
    """Rows of one range of versions, named by the last version its constants hold for."""
    words = truth.terms()
    found = []
    for case in truth.read_cases(path):
        printed = {"activation_peak", "available_kv_memory"} <= case.metrics.keys()
        if not case.independent or case.engine != "vllm" or truth.case_version(case) is None or not printed:
            continue
        try:
            s, device = truth_scenarios.case_scenario(case, words)
            memory_checks.check_identity(case, "available_kv_memory", s)
        except InfoptError as error:
            print(f"  left out {case.id}: {error}", file=sys.stderr)
            continue
        if device is None or s.engine.until != until:
            continue
        logits = logits_bytes(s)
        element = s.weight_bits["small"] / 8
        term = next(t for t in memory_ledger(s).terms if t.name == "activation")
        modelled = s.engine.logits_copies.value * logits + profile_tokens(s) * s.model.hidden * element
        workspace = term.value - max(modelled, 0) - s.engine.activation_base_bytes.value
        found.append(
            Row(
                family(case.model),
                any(g.feed_forward.experts for g in s.model.groups),
                s,
                case.metrics["activation_peak"] * GIB,
                case.metrics["available_kv_memory"] * GIB,
                logits,
                profile_tokens(s) * s.model.hidden * element + max(workspace, 0.0),
            )
        )
    return found


def fit(sample: list[Row]) -> tuple[float, float]:
    """c and base by least squares on dense rows."""
    dense = [row for row in sample if not row.mixture] or sample
    a = np.array([[row.logits, 1.0] for row in dense])
    y = np.array([row.activation_bytes - row.rest for row in dense])
    (copies, base), *_ = np.linalg.lstsq(a, y, rcond=None)
    return float(copies), float(base)


def pool_error(row: Row, copies: float, base: float) -> float:
    engine = row.scenario.engine
    changed = engine.model_copy(
        update={
            "logits_copies": engine.logits_copies.model_copy(update={"value": copies}),
            "activation_base_bytes": engine.activation_base_bytes.model_copy(update={"value": base}),
        }
    )
    ledger = memory_ledger(replace(row.scenario, engine=changed))
    return abs(ledger.kv_pool_bytes_per_gpu - row.pool_bytes) / row.pool_bytes


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else truth.BUNDLED_MEMORY
    for until in ("0.16.0", "0.19.1"):
        sample = rows(path, until)
        copies, base = fit(sample)
        print(f"vllm up to {until}: {len(sample)} rows, logits copies {copies:.2f}, base {base / GIB:+.3f} GiB")
        for mixture in (False, True):
            errors = left_out_errors(sample, mixture)
            if errors:
                kind = "mixture" if mixture else "dense"
                figures = f"n {len(errors)}, mean {np.mean(errors):.2%}, worst {max(errors):.2%}"
                print(f"  pool with the family left out, {kind}: {figures}")


def left_out_errors(sample: list[Row], mixture: bool) -> list[float]:
    """Pool errors of each family, predicted with constants fitted on the others."""
    errors = []
    for left_out in sorted({row.family for row in sample if row.mixture == mixture}):
        constants = fit([row for row in sample if row.family != left_out])
        errors += [pool_error(row, *constants) for row in sample if row.family == left_out and row.mixture == mixture]
    return errors


if __name__ == "__main__":
    main()
