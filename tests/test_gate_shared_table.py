"""The table of public deployment files (../shared/facts/deployment_forms.md, section 1): every row, every fact of it.

The rows are data (tests/data/gate_shared_table.yaml). One test a fact, so that a failure names the file and the fact.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from infopt.gate.case import Case
from infopt.gate.check import Checked, Gate, gate
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides

GIB = 2**30
HERE = Path(__file__).resolve().parent
CONFIGS = HERE.parents[1] / "shared" / "configs"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not CONFIGS.is_dir(), reason="no ../shared/configs beside this checkout"),
]
Row = dict[str, Any]
ROWS: list[Row] = yaml.safe_load((HERE / "data" / "gate_shared_table.yaml").read_text(encoding="utf-8"))
FACTS = ("engine", "version", "model", "devices", "accelerator")
# What the table's words mean for us.
VERDICTS = {"OK": "pass", "WARN": "pass", "TIGHT": "pass", "FAIL": "fail", "UNK": "undetermined"}


def plan_of(case: Case) -> Any:
    assert case.plan is not None
    return case.plan


def spare_gib(case: Case) -> float:
    memory = plan_of(case).memory
    return (float(memory.kv_pool_bytes_per_gpu) - request_bytes(case)) / GIB


def weights_all(case: Case) -> float:
    """Weights of all ranks together; of stages the heaviest stands for all."""
    s = plan_of(case).scenario
    return float(plan_of(case).memory.weights_bytes_per_gpu * s.tp * s.pp)


def offload_bytes(case: Case) -> float:
    return float(case.value("kv_transfer")["kv_connector_extra_config"]["cpu_bytes_to_use"])


def request_bytes(case: Case) -> float:
    """One request of the full length on a rank."""
    return float(plan_of(case).memory.layout.request_bytes(plan_of(case).scenario.context_tokens))


def first_mixer(case: Case) -> Any:
    return plan_of(case).scenario.model.runs[0].mixer


NUMBERS: dict[str, Callable[[Case], float]] = {
    "weights_gib": lambda case: plan_of(case).memory.weights_bytes_per_gpu / GIB,
    "weights_gb_all": lambda case: weights_all(case) / 1e9,
    "activation_gib": lambda case: plan_of(case).memory.activation_bytes / GIB,
    "pool_gib": lambda case: plan_of(case).memory.kv_pool_bytes_per_gpu / GIB,
    "request_gib": lambda case: request_bytes(case) / GIB,
    "request_gib_all": lambda case: request_bytes(case) * plan_of(case).scenario.tp / GIB,
    "sequences": lambda case: plan_of(case).memory.max_sequences,
    "spare_gib": spare_gib,
    "capacity_gib": lambda case: plan_of(case).memory.capacity_bytes_per_gpu / GIB,
    "budget_gib": lambda case: plan_of(case).scenario.utilization * plan_of(case).memory.capacity_bytes_per_gpu / GIB,
    "context_tokens": lambda case: plan_of(case).scenario.context_tokens,
    "kv_bytes_per_token": lambda case: plan_of(case).memory.kv_bytes_per_token,
    "heads_over_tp": lambda case: first_mixer(case).q_heads / plan_of(case).scenario.tp,
    "needs_gib": lambda case: (case.needs_bytes_per_gpu or 0) / GIB,
    "offload_gib": lambda case: offload_bytes(case) / GIB,
    "offload_blocks_of_16": lambda case: offload_bytes(case) / (16 * plan_of(case).memory.kv_bytes_per_token),
}
OF_HARDWARE = {"pods", "replicas"}
OF_CASE = {"role", "needed", "shm_gib", "host_gib", "shares_ipc"}


def files_of(row: Row) -> tuple[str, ...]:
    if "own" in row:
        return (str(HERE / "gate" / "table" / row["own"]),)
    return tuple(str(next(CONFIGS.glob(f"{one}_*"))) for one in row["file"])


def label(row: Row) -> str:
    given = "+".join(str(value) for value in row.get("given", {}).values())
    return "-".join(filter(None, [*row.get("file", [row.get("own")]), row.get("name"), given]))


@cache
def looked_at(files: tuple[str, ...], given: tuple[tuple[str, str], ...]) -> Gate:
    return gate(list(files), Policy(), Overrides(**dict(given)))


def gated(row: Row) -> Gate:
    return looked_at(files_of(row), tuple(row.get("given", {}).items()))


def checked(row: Row) -> Checked:
    found = [one for one in gated(row).checked if one.case.deployment.found.name.endswith(row.get("name", ""))]
    assert found
    return found[0]


SERVING = [row for row in ROWS if "is" in row]


def cases(of: Callable[[Row], list[Any]]) -> Any:
    """One parameter for each fact of each row."""
    return [pytest.param(row, fact, id=f"{label(row)}:{fact}") for row in SERVING for fact in of(row)]


def test_no_file_is_left_out() -> None:
    here = {path.name.partition("_")[0] for path in CONFIGS.glob("C*")}
    assert here == {one for row in ROWS for one in row.get("file", [])}


@pytest.mark.parametrize(("row", "fact"), cases(lambda row: list(FACTS)))
def test_facts(row: Row, fact: str) -> None:
    case, said = checked(row).case, dict(zip(FACTS, row["is"], strict=True))
    d = case.deployment
    device = None if "gpu" in row.get("given", {}) or case.device is None else case.device.accelerator.id
    own = {"engine": d.engine, "version": d.version, "model": d.model, "devices": case.granted, "accelerator": device}
    assert own[fact] == said[fact]


@pytest.mark.parametrize(("row", "fact"), cases(lambda row: list(row.get("flags", {}))))
def test_flags(row: Row, fact: str) -> None:
    case = checked(row).case
    found, wanted = case.deployment.found, row["flags"][fact]
    own: dict[str, Any] = {"role": found.role, "needed": case.needed, "shares_ipc": found.host.shares_ipc}
    own["shm_gib"] = found.host.shm_bytes and found.host.shm_bytes / GIB
    own["host_gib"] = found.host.memory_bytes and found.host.memory_bytes / GIB
    if fact in OF_HARDWARE:
        assert getattr(found.hardware, fact) == wanted
    else:
        assert (own[fact] if fact in OF_CASE else case.value(fact)) == wanted


@pytest.mark.parametrize("row", SERVING, ids=label)
def test_verdict(row: Row) -> None:
    """The table's, or ours where a row says why it differs; only TIGHT and WARN may and must warn of memory."""
    one, expected = checked(row), row["expected"]
    wanted = row["differs"][0] if "differs" in row else VERDICTS[expected]
    assert one.verdict == wanted
    assert expected != "TIGHT" or any(f.rule == "tight" and "to spare" in f.message for f in one.findings)
    if wanted == "undetermined":
        assert one.case.unknown
    if wanted == "pass":
        assert plan_of(one.case).fits


@pytest.mark.parametrize(("row", "fact"), cases(lambda row: row.get("rules", [])))
def test_findings(row: Row, fact: str) -> None:
    messages = [finding.message for finding in checked(row).findings if finding.rule == fact]
    assert messages
    assert any(row.get("says", {}).get(fact, "") in message for message in messages)


@pytest.mark.parametrize(("row", "fact"), cases(lambda row: row.get("absent", [])))
def test_no_false_finding(row: Row, fact: str) -> None:
    assert fact not in {finding.rule for finding in checked(row).findings}


@pytest.mark.parametrize(("row", "fact"), cases(lambda row: row.get("missing", [])))
def test_missing_facts_are_named(row: Row, fact: str) -> None:
    (unknown,) = [one for one in checked(row).case.unknown if one.fact == fact]
    assert unknown.settle


@pytest.mark.parametrize(("row", "fact"), cases(lambda row: list(row.get("numbers", {}))))
def test_arithmetic(row: Row, fact: str) -> None:
    low, high = row["numbers"][fact]
    assert low <= NUMBERS[fact](checked(row).case) <= high


@pytest.mark.parametrize("row", [row for row in SERVING if "assumed" in row], ids=label)
def test_what_is_taken_for_granted_is_told(row: Row) -> None:
    assert any(row["assumed"] in text for text in checked(row).case.assumed)


@pytest.mark.parametrize("row", [row for row in ROWS if row["expected"] == "unreadable"], ids=label)
def test_unreadable_files_name_their_line(row: Row) -> None:
    found = gated(row)
    assert found.checked == ()
    (error,) = found.errors
    assert row["says"]["error"] in error


@pytest.mark.parametrize("row", [row for row in ROWS if row["expected"] == "none"], ids=label)
def test_programs_that_serve_with_no_engine(row: Row) -> None:
    found = gated(row)
    assert found.checked == ()
    assert {finding.rule for finding in found.findings} == set(row["rules"])
