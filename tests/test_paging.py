"""The allocator of vLLM: blocks, groups, padding; published and measured figures are the oracle."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import scenarios as make
from hypothesis import given
from hypothesis import strategies as st

from infopt.ledgers.paging import layout
from infopt.profiles.geometry import LayerRun

TABLE = Path(__file__).with_name("data").joinpath("vllm_cpu_runs.csv")
RUNS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
GIB = 2**30


@pytest.mark.parametrize("run", RUNS)
def test_a_real_server(run):
    """vllm-cpu 0.32.0 on this kind of machine (block 128): tokens exact, concurrency as printed."""
    mixer = make.attention(
        kv_heads=int(run["kv_heads"]), head_dim=int(run["head_dim"]), q_heads=int(run["kv_heads"]) * 3
    )
    model = make.model([LayerRun(int(run["layers"]), mixer, make.DENSE)])
    tp = int(run["tp"])
    s = make.scenario(
        model,
        context_tokens=int(run["context_tokens"]),
        kv=run["kv_format"],
        engine_version="0.32.0",
        block_tokens=128,
        tp=tp,
        gpus=tp,
    )
    page = layout(model.runs, s)
    pool = float(run["pool_bytes"])
    assert page.tokens(pool, s.context_tokens, s.engine.token_line) == int(run["tokens"])
    assert page.concurrency(pool, s.context_tokens) == pytest.approx(float(run["concurrency"]), abs=0.00501)


def test_the_null_block_is_not_offered():
    """100 MB hold 33 blocks of 128; the server offered 4096 tokens, not 4224."""
    model = make.model([LayerRun(30, make.attention(kv_heads=3, head_dim=64, q_heads=9), make.DENSE)])
    s = make.scenario(model, context_tokens=8192, engine_version="0.32.0", block_tokens=128)
    page = layout(model.runs, s)
    assert page.blocks(100e6) == 33
    assert page.longest_context_tokens(100e6, 8192) == 4096


def test_preempted_requests_can_be_counted():
    """32 usable blocks, requests that grow to 400 tokens: 8 fit (8 of 16 were preempted by the real server)."""
    model = make.model([LayerRun(30, make.attention(kv_heads=3, head_dim=64, q_heads=9), make.DENSE)])
    s = make.scenario(model, context_tokens=400, engine_version="0.32.0", block_tokens=128)
    assert layout(model.runs, s).sequences(100e6, 400) == 8


def windowed(full: int, window: int) -> list[LayerRun]:
    """Gemma-3-27B's shape: 16 KV heads of 128."""
    return [
        LayerRun(full, make.attention(kv_heads=16, q_heads=32), make.DENSE),
        LayerRun(window, make.attention(kv_heads=16, q_heads=32, window=1024), make.DENSE),
    ]


def test_groups_of_a_sliding_window_model():
    """10 full and 52 window layers: groups of 10, 7 of them, 8 padding layers (vLLM 0.19: 36,560 tokens, 4.46x)."""
    model = make.model(windowed(10, 52))
    s = make.scenario(model, context_tokens=8192)
    page = layout(model.runs, s)
    assert (page.group_layers, page.groups, page.padding_layers) == (10, 7, 8)
    assert page.tokens(19.53 * GIB, 8192, "blocks") == pytest.approx(36560, abs=32)
    assert page.concurrency(19.53 * GIB, 8192) == pytest.approx(4.46, abs=0.01)


def test_close_counts_are_padded_to_the_larger():
    """12 window and 13 full layers make two groups of 13, not one of 12 and two half-empty ones."""
    page = layout(make.model(windowed(13, 12)).runs, make.scenario(make.model(windowed(13, 12))))
    assert (page.group_layers, page.groups) == (13, 2)


def test_state_raises_the_attention_block():
    """Gated-delta state 3,207,168 B against 4,096 B a token: blocks of 784 tokens (public vLLM log)."""
    state = replace(make.recurrent(), state=(make.StateTensor("all", 3_207_168 // 4, "fp32"),))
    mixer = make.attention(kv_heads=4, head_dim=256, q_heads=24)
    model = make.model([LayerRun(3, state, make.DENSE), LayerRun(1, mixer, make.DENSE)] * 16)
    s = make.scenario(model, context_tokens=16384)
    page = layout(model.runs, s)
    assert page.block_tokens == 784
    assert page.group_layers == 16
    assert page.groups == 4


@given(st.integers(1, 40), st.integers(1, 40), st.floats(1e9, 1e11), st.integers(1, 100_000))
def test_longest_context_is_the_edge(full, window, pool, limit):
    model = make.model(windowed(full, window))
    page = layout(model.runs, make.scenario(model))
    longest = page.longest_context_tokens(pool, limit)
    usable = page.blocks(pool) - page.null_blocks
    assert longest == 0 or page.request_blocks(longest) <= usable
    assert longest == limit or page.request_blocks(longest + 1) > usable


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 50_000))
def test_blocks_cover_the_sequence(full, window, context):
    model = make.model([run for run in windowed(full, window) if run.layers])
    page = layout(model.runs, make.scenario(model, context_tokens=max(context, 4)))
    assert page.request_bytes(context) >= context * full * 16 * 256 * 2


def test_llama_cpp_keeps_windows_in_cells():
    """gpt-oss-120b in llama.cpp, n_ubatch 1024: 18 window layers of 1,280 cells, 45 MiB a sequence (public log)."""
    runs = [
        LayerRun(18, make.attention(kv_heads=8, head_dim=64, q_heads=64), make.DENSE),
        LayerRun(18, make.attention(kv_heads=8, head_dim=64, q_heads=64, window=128), make.DENSE),
    ]
    s = make.scenario(
        make.model(runs), engine="llama.cpp", context_tokens=131072, max_num_batched_tokens=1024, kv="fp16"
    )
    page = layout(runs, s)
    assert page.separate
    assert page.request_bytes(131072) == (4608 + 45) * 2**20


def test_an_engine_that_may_cap_windows_is_undetermined_between_the_two():
    """SGLang's window pools are not modelled: a no needs even the capped cache not to fit."""
    from infopt.ledgers.memory import memory_ledger

    runs = windowed(10, 52)
    between = make.scenario(make.model(runs), make.device(40.0), engine="sglang", context_tokens=40_000)
    assert memory_ledger(between).fits is None
    never = make.scenario(make.model(runs), make.device(40.0), engine="sglang", context_tokens=131_072, batch=8)
    assert memory_ledger(never).fits is False
