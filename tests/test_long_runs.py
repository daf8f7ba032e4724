"""Memory of long runs, at lengths that a test can take; `make long-runs` makes them ten million rows long."""

from pathlib import Path

import pytest
from scripts import script

long_runs = script("trust/long_runs.py")
RUNS = {run.name: run for run in long_runs.RUNS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "small", "large"),
    [("sweep to CSV", 200_000, 400_000), ("observe --log", 200_000, 400_000)],
)
def test_a_stream_takes_no_more_memory_where_it_is_longer(tmp_path: Path, name: str, small: int, large: int) -> None:
    run = RUNS[name]
    before, after = run.peak(small, tmp_path), run.peak(large, tmp_path)
    assert after <= run.most_bytes
    assert after <= (1 + run.most_growth) * before


@pytest.mark.slow
def test_a_simulation_keeps_little_of_each_request(tmp_path: Path) -> None:
    run = RUNS["simulate"]
    grown = run.peak(25_000, tmp_path) - run.peak(5_000, tmp_path)
    assert grown <= 20_000_000, "rows of 61 bytes, and the flood of which the saturation is taken"


def test_a_run_that_fails_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="unknown model"):
        long_runs.peak_bytes(("plan", "--model", "nope"))
