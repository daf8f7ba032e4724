"""A calibration of two sizes and one batch curve against what it has not seen: models, batches, prompts, reuse.

Where others use the machine (`calibrated.contended`), that timing is not judged.
"""

from pathlib import Path

import pytest

from tests.engine.calibrated import GIVEN, HERE, OUTPUT, PROMPT, Loads, contended
from tests.engine.figures import Figures
from tests.engine.planned import Infopt, figure_of, planned
from tests.engine.traffic import Run

UNSEEN = tuple((name, batch) for name in ("half", "own") for batch in (1, 4, 16))
PREDICTED = (*UNSEEN, *(("real", batch) for batch in (1, 2, 4, 8, 16)))
STEP_ERROR, BATCH_ERROR = 0.10, 0.20
HALF_WIDTH, TTFT_RATIO = 0.30, 3.0
# Times shorter a first token is. Seconds are printed only: prompts are measured at 32 tokens and asked about at 576.
SAVED_ERROR = 0.30


def predicted(
    infopt: Infopt, models: dict[str, Path], record: Path, loads: Loads, name: str, batch: int
) -> dict[str, float]:
    """The estimate of a plan; the test is skipped where what should be calibrated was disturbed and is left out."""
    if not record.exists() or any(loads[point].contended for point in GIVEN if point[1] == 1):
        skip_contended(loads)
    hardware = ["--hw", HERE, "--calibration", record]
    load = ["--isl", PROMPT, "--osl", OUTPUT, "--batch", batch]
    found = planned(infopt, name, models, more=load, hardware=hardware)["estimate"]
    assert found["tpot_s"] is not None, found["reason"]
    return {key: value for key, value in found.items() if isinstance(value, float)}


@pytest.mark.parametrize(("name", "batch"), UNSEEN)
def test_models_that_were_not_measured(
    name: str, batch: int, loads: Loads, record: Path, infopt: Infopt, models: dict[str, Path], figures: Figures
) -> None:
    """With one batch curve: TPOT within 10 % at batch 1 and 20 % at others, beyond what equal loads differ by here
    (of what was predicted, and of what was calibrated with), and inside its interval."""
    held, said = loads[name, batch], predicted(infopt, models, record, loads, name, batch)
    low_s, high_s = said["tpot_low_s"], said["tpot_high_s"]
    note = held.contended or ""
    figures.add("one curve", f"{name} at {batch}", "tpot_s", held.tpot_s, said["tpot_s"], low_s, high_s, note)
    skip_contended(loads, (name, batch))
    given = max(loads[point].spread for point in GIVEN)
    may_be_off = (STEP_ERROR if batch == 1 else BATCH_ERROR) + held.spread + given
    assert said["tpot_s"] == pytest.approx(held.tpot_s, rel=may_be_off)
    assert low_s <= held.tpot_s <= high_s


@pytest.mark.parametrize(("name", "batch"), PREDICTED)
def test_intervals(
    name: str, batch: int, loads: Loads, curves_record: Path, infopt: Infopt, models: dict[str, Path], figures: Figures
) -> None:
    """With a batch curve at both ends of the sizes: TPOT and TTFT inside intervals no wider than they may be."""
    held, said = loads[name, batch], predicted(infopt, models, curves_record, loads, name, batch)
    ends = {quantity: (said[f"{quantity}_low_s"], said[f"{quantity}_high_s"]) for quantity in ("tpot", "ttft")}
    for quantity, value in (("tpot", held.tpot_s), ("ttft", held.ttft_s)):
        note, case = held.contended or "", f"{name} at {batch}"
        figures.add("two curves", case, f"{quantity}_s", value, said[f"{quantity}_s"], *ends[quantity], note)
    skip_contended(loads, (name, batch))
    low_s, high_s = ends["tpot"]
    assert low_s <= held.tpot_s <= high_s
    assert (high_s - low_s) / 2 <= HALF_WIDTH * said["tpot_s"]
    low_s, high_s = ends["ttft"]
    assert low_s <= held.ttft_s <= high_s
    assert high_s <= TTFT_RATIO * low_s


def skip_contended(loads: Loads, *also: tuple[str, int]) -> None:
    """What was measured while others used the machine is not judged."""
    why = contended(loads, *also)
    if why is not None:
        pytest.skip(why)


def test_first_token_of_a_prefix_that_is_kept(
    prefixes: dict[tuple[int, int], tuple[Run, Run]],
    loads: Loads,
    record: Path,
    infopt: Infopt,
    models: dict[str, Path],
    figures: Figures,
) -> None:
    """Time saved until the first token, and how many times shorter it is."""
    shared, own = 512, 64
    if not record.exists() or any(loads[point].contended for point in GIVEN if point[1] == 1):
        skip_contended(loads)
    cold_s, warm_s = (run.load.ttft_s() for run in prefixes[shared, own])
    load = ["--isl", shared + own, "--osl", OUTPUT, "--shared-prefix", shared, "--prefixes", 1, "--allow-undetermined"]
    hardware = ["--hw", HERE, "--calibration", record]
    asked = planned(infopt, "real", models, command=("boundary", "prefix"), more=load, hardware=hardware)
    before_s, after_s = (figure_of(asked, name) for name in ("ttft_s", "ttft_after_s"))
    assert before_s is not None
    assert after_s is not None
    figures.add("prefix", f"{shared}+{own}", "saved_ttft_s", cold_s - warm_s, before_s - after_s)
    figures.add("prefix", f"{shared}+{own}", "ttft_gain_ratio", cold_s / warm_s, before_s / after_s)
    skip_contended(loads)
    assert before_s / after_s == pytest.approx(cold_s / warm_s, rel=SAVED_ERROR)
