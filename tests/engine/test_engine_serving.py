"""Servers that are timed: their pools, prefixes they find, and what `observe` reads off them."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.figures import Figures
from tests.engine.fleet import Fleet
from tests.engine.planned import Infopt, check_pool, figure_of, planned
from tests.engine.setups import CONFIGS, POOLS, SECOND_WAVE
from tests.engine.traffic import PREFIX_OUTPUT, PREFIXES, Run, wave

Observe = Callable[..., dict[str, Any]]
# A window around a load: `observe` has looked once when the load begins, and looks again when it is over.
WINDOW_S, BEGINS_S = 10, 4.0
LIVE, LIVE_OUTPUT = 4, 40


@pytest.mark.parametrize("name", [name for name in POOLS if name in SECOND_WAVE])
def test_pool_of_a_server(name: str, serving: Fleet, infopt: Infopt, models: dict[str, Path], figures: Figures) -> None:
    check_pool(name, serving, infopt, models, figures)


@pytest.mark.parametrize("name", ["real", "half"])
def test_pool_that_observe_reads(
    name: str, serving: Fleet, infopt: Infopt, models: dict[str, Path], figures: Figures
) -> None:
    """One look at a live server: pool, blocks and concurrency are the planned ones."""
    with serving[name].running() as server:
        seen = infopt("observe", server.url, "--duration", "0s", status=None)  # 3 where nothing was served yet
    memory = planned(infopt, name, models)["memory"]
    assert (seen["engine"], seen["kv_pool_bytes"]) == ("vllm", CONFIGS[name].pool_bytes)
    assert seen["kv_pool_tokens"] == seen["blocks"] * seen["block_tokens"] == memory["kv_pool_tokens"]
    assert seen["max_concurrency"] == pytest.approx(memory["kv_pool_concurrency"], rel=1e-6)
    assert seen["prefix_caching"] is CONFIGS[name].prefix_caching
    figures.add("observe", name, "kv_pool_tokens", seen["kv_pool_tokens"], memory["kv_pool_tokens"])


def test_log_that_observe_reads(serving: Fleet, infopt: Infopt, models: dict[str, Path]) -> None:
    """`observe --log`: what the engine said of its memory beside the ledger."""
    given = ("observe", "--log", serving["real"].log_file)
    page = planned(infopt, "real", models, command=given)["start_log"]
    assert (page["engine"], page["engine_version"], page["started"]) == ("vllm", "0.32.0", True)
    terms = {term["name"]: term for term in page["terms"]}
    for name in ("KV tokens in it", "concurrency in it"):
        assert terms[name]["inside"] is True
        assert terms[name]["logged"] == pytest.approx(terms[name]["expected"], rel=1e-3)


def test_observe_while_a_server_works(
    serving: Fleet, infopt: Infopt, models: dict[str, Path], figures: Figures
) -> None:
    """A window over a whole load, with the plan beside it: requests, tokens and batch are the client's."""
    runs: list[Run] = []
    with serving["real"].running() as server:

        def load() -> None:
            time.sleep(BEGINS_S)
            runs.append(wave(server, LIVE, 32, LIVE_OUTPUT, seed=7))

        sender = threading.Thread(target=load)
        sender.start()
        window = ("observe", server.url, "--interval", "1s", "--duration", f"{WINDOW_S}s", "--advise")
        seen = planned(infopt, "real", models, command=window)
        sender.join()
    (run,) = runs
    assert (seen["kind"], seen["requests"], seen["output_tokens"]) == ("window", LIVE, LIVE * LIVE_OUTPUT)
    assert seen["tokens_per_step"] == pytest.approx(1.0)
    assert LIVE * 0.8 < seen["effective_batch"] <= LIVE
    assert seen["window_s"] == pytest.approx(WINDOW_S, abs=2)
    assert seen["beside"] is not None
    assert {"short", "changes", "verdicts"} <= seen["advice"].keys()
    figures.add("live", f"{LIVE} at once", "tpot_s", run.load.tpot_s(), seen["tpot_s"]["mean"])
    figures.add("live", f"{LIVE} at once", "effective_batch", LIVE, seen["effective_batch"])


@pytest.mark.parametrize("prefix", PREFIXES, ids=lambda prefix: f"{prefix[0]}+{prefix[1]}")
def test_tokens_a_prompt_finds(
    prefix: tuple[int, int],
    prefixes: dict[tuple[int, int], tuple[Run, Run]],
    infopt: Infopt,
    observed: Observe,
    models: dict[str, Path],
    figures: Figures,
) -> None:
    """Whole blocks of what is shared, and never the last token: as the boundary of prefix caching counts them."""
    shared, own = prefix
    cold, warm = (observed(run) for run in prefixes[prefix])
    length = shared + own
    load = ["--isl", length, "--osl", PREFIX_OUTPUT, "--shared-prefix", shared, "--prefixes", 1, "--allow-undetermined"]
    asked = planned(infopt, "real", models, command=("boundary", "prefix"), more=load)
    predicted = figure_of(asked, "cached_tokens") or 0  # where no block is full there is no such figure
    found = round(warm["prefix_hit_share"] * length)
    figures.add("prefix", f"{shared}+{own}", "cached_tokens", found, predicted)
    assert cold["prefix_hit_share"] == 0
    assert found == predicted
