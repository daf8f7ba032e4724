"""vLLM on a processor: what real start-ups of 0.32.0 printed and refused, predicted by a plan."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware import host
from infopt.hardware.accelerator import HardwareChoice, MemoryNode
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.memory import memory_ledger
from infopt.profiles.engines import load_engine_on_processor
from infopt.profiles.resolve import resolve_model
from infopt.reports.words import verdict_words
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Request
from tests import scenarios as make

TABLE = Path(__file__).with_name("data").joinpath("vllm_cpu_runs.csv")
RUNS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
MODELS = {"30": "HuggingFaceTB/SmolLM2-135M", "24": "Qwen/Qwen2.5-0.5B-Instruct", "22": "tinyllama"}
GIB = 2**30
MACHINE = "custom:24GB:20GB/s:cpu"


def choice(node: MemoryNode | None = None, gpus: int | None = None) -> HardwareChoice:
    found = resolve_hardware(MACHINE)
    return replace(found, gpus=gpus, accelerator=replace(found.accelerator, node=node))


def planned(model: str = MODELS["30"], hardware: HardwareChoice | None = None, **request: Any) -> Plan:
    request.setdefault("engine_version", "0.32.0")
    request.setdefault("context_tokens", 2048)
    return plan(resolve_model(model), hardware or choice(), Request(**request))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(run.values()))
def test_the_line_of_a_start_up_is_exact(run: dict[str, str]) -> None:
    tp = int(run["tp"])
    node = MemoryNode(23_045_000_000, 21_150_000_000, 1)  # TP ran on one processor of one memory node
    found = planned(
        MODELS[run["layers"]],
        choice(node, gpus=1),
        weights="fp32" if run["kv_format"] == "fp32" else None,
        kv=run["kv_format"],
        tp=tp if tp > 1 else None,
        kv_pool_bytes=int(run["pool_bytes"]),
        context_tokens=int(run["context_tokens"]),
    )
    m = found.memory
    assert m.kv_pool_tokens == int(run["tokens"])
    assert f"{m.kv_pool_concurrency:.2f}" == run["concurrency"]
    assert m.kv_pool_low_bytes == m.kv_pool_high_bytes == int(run["pool_bytes"])
    assert found.fits is True
    assert found.scenario.block_tokens == 128


def test_limits_are_of_each_rank() -> None:
    node = MemoryNode(24 * GIB, 23 * GIB, 2)
    one, two = (planned("tinyllama", choice(node, gpus=1), tp=tp, kv_pool_bytes=GIB).scenario for tp in (None, 2))
    assert (one.max_num_seqs, one.max_num_batched_tokens) == (128, 2048)
    assert (two.max_num_seqs, two.max_num_batched_tokens) == (256, 4096)
    assert (two.gpus, two.accelerator.usable_memory_bytes) == (2, 24 * GIB)  # a node for each


def test_a_context_too_long_is_refused_in_the_engines_numbers() -> None:
    """8192 tokens in 100 MB: vLLM says 0.18 GiB are needed, 0.09 available, the estimated maximum length is 4096."""
    found = planned(kv_pool_bytes=100_000_000, context_tokens=8192)
    assert found.fits is False
    assert found.memory.max_context_tokens == 4096
    assert found.memory.max_sequences == 0
    (text,) = found.memory.refusals
    assert all(figure in text for figure in ("0.18 GiB", "0.09 GiB", "4096"))
    assert planned(kv_pool_bytes=100_000_000, context_tokens=4096).fits is True
    assert planned(kv_pool_bytes=100_000_000, context_tokens=4097).fits is False


def test_memory_that_is_not_free_is_refused() -> None:
    """0.92 of 21.46 GiB is 19.75 GiB, 19.7 were free; with a size of the cache only the cache must be free."""
    node = MemoryNode(round(21.46 * GIB), round(19.70 * GIB), 1)
    found = planned(hardware=choice(node, gpus=1))
    assert found.fits is False
    (text,) = found.memory.refusals
    assert all(figure in text for figure in ("19.70 GiB", "21.46 GiB", "19.74 GiB", "--util 0.91"))
    assert planned(hardware=choice(node, gpus=1), utilization=0.91).memory.refusals == ()
    assert planned(hardware=choice(node, gpus=1), kv_pool_bytes=GIB).memory.refusals == ()


def test_ranks_on_one_node_take_their_share_each() -> None:
    node = MemoryNode(24 * GIB, 23 * GIB, 1)
    found = planned("tinyllama", choice(node, gpus=1), tp=2)
    assert "2 ranks on one memory node" in found.memory.refusals[0]
    assert planned("tinyllama", choice(node, gpus=1), tp=2, utilization=0.45).memory.refusals == ()


def test_ranks_on_one_node_are_told_how_to_be_bound() -> None:
    """vLLM 0.32: "Not enough allowed NUMA nodes to bind threads of 2 local CPUWorkers" unless bound by hand."""
    one, two = (MemoryNode(24 * GIB, 23 * GIB, nodes) for nodes in (1, 2))
    said, silent = (
        [caveat.text for caveat in planned("tinyllama", choice(node, 1), tp=2, kv_pool_bytes=GIB).caveats]
        for node in (one, two)
    )
    assert any("VLLM_CPU_OMP_THREADS_BIND" in text for text in said)
    assert not any("VLLM_CPU_OMP_THREADS_BIND" in text for text in silent)


def test_a_refused_plan_says_why_and_what_would_start() -> None:
    found = planned(kv_pool_bytes=100_000_000, context_tokens=8192)
    assert verdict_words(found) == found.memory.refusals[0]
    assert {remedy.id: remedy.text for remedy in found.remedies}.items() >= {
        "context": "context of at most 4096 tokens",
        "kv-pool": "a KV pool of at least 183 MiB a device",
    }.items()
    assert planned(kv_pool_bytes=191_692_800, context_tokens=8192).fits is True  # 65 blocks
    assert planned(kv_pool_bytes=191_692_799, context_tokens=8192).fits is False
    large = planned(kv_pool_bytes=22 * GIB)
    assert "more than the" in verdict_words(large)
    assert [remedy.id for remedy in large.remedies if remedy.id == "kv-pool"] == ["kv-pool"]


def test_a_block_that_has_no_kernel_is_refused() -> None:
    found = planned(kv_pool_bytes=GIB, block_tokens=16)
    assert found.fits is False
    assert "multiple of 32" in found.memory.refusals[0]
    assert planned(kv_pool_bytes=GIB, block_tokens=64).fits is True


def test_a_pool_larger_than_what_is_left_does_not_fit() -> None:
    found = planned(kv_pool_bytes=22 * GIB)
    assert found.fits is False
    assert found.memory.max_sequences == 0
    assert planned(kv_pool_bytes=19 * GIB).fits is True


@given(st.integers(min_value=1, max_value=40 * GIB))
def test_a_pool_fits_where_everything_does(pool_bytes: int) -> None:
    """pool + terms <= usable, whatever the pool; and a batch that fits has its blocks."""
    s = make.scenario(kv_pool_bytes=pool_bytes, batch=1)
    m = memory_ledger(s)
    beside = sum(term.value for term in m.terms if term.name not in ("kv", "margin"))
    room = beside + pool_bytes <= s.accelerator.usable_memory_bytes
    assert (m.max_sequences >= 1) == (room and pool_bytes >= 1024 * 2**20)  # 8192 tokens of 128 KiB
    assert (m.kv_pool_low_bytes, m.kv_pool_high_bytes) == (pool_bytes, pool_bytes)


def test_utilization_has_no_part_in_a_pool_that_is_given() -> None:
    pools = {planned(kv_pool_bytes=GIB, utilization=u).memory.kv_pool_tokens for u in (0.3, 0.9)}
    assert pools == {46592}
    assert not any("utilization" in said.text for said in planned(kv_pool_bytes=GIB).assumptions)


def test_the_budget_of_a_processor_is_a_share_of_all_its_memory() -> None:
    found = planned()
    worker = found.memory.kv_pool_bytes_per_gpu + found.memory.weights_bytes_per_gpu
    assert found.scenario.accelerator.usable_memory_bytes == 24_000_000_000
    assert worker == pytest.approx(0.92 * 24e9 - 0.86e9, rel=0.01)
    assert found.memory.graph_bytes == 0


def test_older_versions_get_the_oldest_rules_as_not_known() -> None:
    engine, version = load_engine_on_processor("vllm", "0.19.1") or pytest.fail("vLLM has rules of its own")
    assert (engine.known, version) == (False, "0.19.1")
    assert load_engine_on_processor("vllm", "0.32.0")[0].known  # type: ignore[index]
    assert load_engine_on_processor("llama.cpp") is None
    assert any("oldest rules" in said.text for said in planned(engine_version="0.19.1").assumptions)


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(InfoptError, match="--kv-pool 0"):
        planned(kv_pool_bytes=0)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host, "NODES", tmp_path)
    monkeypatch.setattr(host, "_group_number", lambda name: None)
    return tmp_path


def node_file(folder: Path, number: int, processors: str, total_kib: int) -> None:
    here = folder / f"node{number}"
    here.mkdir()
    (here / "cpulist").write_text(processors + "\n")
    lines = {"MemTotal": total_kib, "MemFree": 100, "Active(file)": 20, "Inactive(file)": 3, "SReclaimable": 4}
    (here / "meminfo").write_text("".join(f"Node {number} {name}: {kib} kB\n" for name, kib in lines.items()))


def test_the_node_of_the_first_processor_counts(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node_file(nodes, 0, "0-1,4", 1000)
    node_file(nodes, 1, "2-3", 2000)
    monkeypatch.setattr(host, "_first_processor", lambda: 3)
    assert host.memory_node() == MemoryNode(2000 * 1024, 127 * 1024, 2)


def test_without_nodes_all_memory_counts(nodes: Path) -> None:
    free, total = host.host_memory_bytes()
    found = host.memory_node()
    assert (found.total_bytes, found.nodes) == (total, 1)
    assert abs(found.free_bytes - free) < GIB


def test_a_sweep_refuses_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {free: MemoryNode(24 * GIB, free * GIB, 1) for free in (23, 20)}
    for gib, node in free.items():
        monkeypatch.setattr(host, "memory_node", lambda node=node: node)
        out = tmp_path / f"{gib}.csv"
        words = ["sweep", "--model", MODELS["30"], "--hw", "cpu:20GB/s", "--ctx", "2k", "--out", str(out)]
        assert run(words) == 0
        (row,) = csv.DictReader(out.read_text(encoding="utf-8").splitlines())
        fits = planned(hardware=resolve_hardware("cpu:20GB/s"), engine_version=None).fits
        assert (row["fits"], fits) == (("true", True) if gib == 23 else ("false", False))


def test_this_machines_processor_at_a_bandwidth() -> None:
    found = resolve_hardware("cpu:20GB/s")
    assert found.gpus == 1
    assert found.accelerator.bandwidth_bytes_per_s == 20e9
    assert found.accelerator.node is not None
    assert found.accelerator.node.free_bytes <= found.accelerator.node.total_bytes
    with pytest.raises(InfoptError, match="--hw cpu"):
        resolve_hardware("cpu:20")


def test_custom_processors() -> None:
    assert resolve_hardware(MACHINE).accelerator.processor
    assert resolve_hardware("custom:24GB:20GB/s:1TFLOP/s:cpu").accelerator.peak_flop_per_s["bf16"] == 1e12
    assert resolve_hardware("2x custom:24GB:20GB/s:cpu").gpus == 2
    assert not resolve_hardware("custom:24GB:20GB/s").accelerator.processor
