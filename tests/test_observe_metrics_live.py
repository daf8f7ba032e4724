"""What a real vLLM 0.32.0 wrote while a client measured it: the server's own figures are the client's.

The texts are in ../shared and stay there; tests/test_observe_metrics.py has ours.
"""

import csv
from pathlib import Path
from typing import Any

import pytest

from infopt.observing.observation import Observation
from infopt.observing.snapshots import Snapshot, observation_of
from infopt.probes.metrics_text import parse_metrics

LIVE = Path(__file__).resolve().parents[2] / "shared" / "live"
pytestmark = [pytest.mark.shared, pytest.mark.skipif(not LIVE.is_dir(), reason="../shared/live is not there")]


def client(name: str, kind: str, concurrency: int) -> dict[str, float]:
    """What the client measured in one run."""
    with (LIVE / "runs.tsv.txt").open() as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file, delimiter="\t"))
    row = next(r for r in rows if (r["name"], r["kind"], int(r["conc"])) == (name, kind, concurrency))
    return {key: float(value) for key, value in row.items() if key not in ("name", "kind") and value}


def between(first: str, last: str, seconds: float) -> Observation:
    texts = [parse_metrics((LIVE / f"metrics_{name}.txt").read_bytes(), name) for name in (first, last)]
    return observation_of([Snapshot(text, 10.0 + i * seconds) for i, text in enumerate(texts)], "live")


def tokens_per_step(run: dict[str, float]) -> float:
    """As the client sees them: tokens after the first of each answer, over chunks after the first."""
    return (run["out_tok"] - run["n"]) / (run["chunks"] - run["n"])


WINDOWS = [
    ("ngram4_code_c1", "ngram4_code_c4", "spec4", "code", 4),
    ("ngram4_code_c4", "ngram4_code_c8", "spec4", "code", 8),
    ("prefix_shared_c1", "prefix_shared_c4", "prefixwarm", "rand", 4),
    ("prefix_shared_c4", "prefix_shared_c8", "prefixwarm", "rand", 8),
]


@pytest.mark.parametrize(("first", "last", "name", "kind", "concurrency"), WINDOWS)
def test_server_and_client_agree(first: str, last: str, name: str, kind: str, concurrency: int) -> None:
    run = client(name, kind, concurrency)
    found = between(first, last, run["wall"])
    assert found.version_guess == "0.20 to 0.33"
    assert found.unknown_names == ()
    assert (found.requests, found.output_tokens) == (run["n"], run["out_tok"])
    assert found.mean_s("tpot_s") == pytest.approx(run["tpot_ms"] / 1e3, rel=0.02)
    assert found.mean_s("itl_s") == pytest.approx(run["itl_mean"] / 1e3, rel=0.02)
    assert found.tokens_per_step == pytest.approx(tokens_per_step(run), rel=0.03)
    assert found.steps == run["iters"]
    assert found.preemptions == run["preempt"] == 0
    # Not all requests start and end together: the mean batch is below the concurrency, and near it.
    assert found.effective_batch is not None
    assert 0.8 * concurrency <= found.effective_batch <= concurrency
    assert found.effective_batch_by_littles_law is not None
    assert found.effective_batch_by_littles_law <= concurrency


def test_speculation_by_position() -> None:
    run = client("spec4", "code", 8)
    found = between("ngram4_code_c4", "ngram4_code_c8", run["wall"])
    expected = tuple(run[f"acc_pos{i}"] / run["drafts"] for i in range(4))
    assert found.acceptance_per_position == pytest.approx(expected)
    assert found.drafted_tokens == pytest.approx(run["drafted"] / run["drafts"])
    assert found.draft_share == pytest.approx(run["drafts"] / (run["chunks"] - run["n"]), rel=0.001)
    # The trap: steps without a draft are not counted among the drafts.
    assert found.tokens_per_step is not None
    assert 1 + run["acc"] / run["drafts"] > 1.4 * found.tokens_per_step
    assert found.read_bytes_per_s == pytest.approx(run["rd"] / run["wall"], rel=1e-6)
    assert found.flop_per_s == pytest.approx(run["flops"] / run["wall"], rel=1e-6)


@pytest.mark.parametrize(("concurrency", "first"), [(4, "c1"), (8, "c4")])
def test_prefixes_that_were_found(concurrency: int, first: str) -> None:
    run = client("prefixwarm", "rand", concurrency)
    found = between(f"prefix_shared_{first}", f"prefix_shared_c{concurrency}", run["wall"])
    assert found.prefix_caching is True
    assert found.prefix_hit_share == run["ph"] / run["pq"] == 1024 / 1088
    assert found.draft_share is None
    assert found.tokens_per_step == 1.0


def test_preemptions_and_a_pool_of_33_blocks() -> None:
    """A scrape of all since the start: a warm-up request is in it."""
    text = parse_metrics((LIVE / "metrics_preempt_c16.txt").read_bytes(), "preempt")
    found = observation_of([Snapshot(text)], "live")
    assert found.kind == "totals"
    assert found.preemptions == client("preempt", "rand", 16)["preempt"] == 8
    assert (found.prefix_caching, found.prefix_hit_share) == (False, None)
    assert (found.blocks, found.block_tokens, found.kv_pool_tokens) == (33, 128, 4224)
    assert (found.kv_pool_bytes, found.max_concurrency) == (100_000_000, 2.0625)
    assert found.mean_s("tpot_s") == pytest.approx(client("preempt", "rand", 16)["tpot_ms"] / 1e3, rel=0.04)


def test_every_live_text_is_read() -> None:
    texts = sorted(LIVE.glob("metrics_*.txt"))
    assert len(texts) >= 8
    for path in texts:
        found = observation_of([Snapshot(parse_metrics(path.read_bytes(), path.name))], path.name)
        assert (found.engine, found.model, found.unknown_names) == ("vllm", "smol", ())
