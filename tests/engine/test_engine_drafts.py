"""N-gram speculation by kind of text and concurrency: what `observe` counts beside what the client counts, and whether
the boundary says rightly where it pays.

A cell is measured three times within seconds: without drafts, with, and without again. Without drafts a step takes the
same time whatever the text is, so one load of random prompts stands for all three kinds. Where the two loads without
drafts differ by more than CONTENDED, or others used the processors, only what no clock has a part in is judged.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from infopt.boundaries.deciding import threshold
from tests.engine.figures import Figures
from tests.engine.fleet import Fleet
from tests.engine.planned import Infopt, planned
from tests.engine.setups import DRAFTED
from tests.engine.traffic import KINDS, Run, random_prompts, send, text_prompts, wave

OUTPUT, PROMPT = 48, 128
CONCURRENCIES = (1, 4, 8)
CELLS = tuple((kind, concurrency) for kind in KINDS for concurrency in CONCURRENCIES)
# Tokens of a step the curve is measured at: up to all sequences with all their drafts.
CURVE = (1, 2, 4, 8, 16, 24, 40)
CURVE_OUTPUT = 12
CONTENDED = 0.10
WORTH = threshold("worth_ratio")
# A gain nearer than this to what is worth using is on neither side: few requests, steps that hold different numbers of
# drafts.
MARGIN = {1: 0.10, 4: 0.06, 8: 0.06}
TPOT_ERROR, TOKENS_ERROR = 0.02, 0.03
Observe = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """A load with drafts between two without."""

    plain: tuple[Run, Run]
    drafted: Run

    @property
    def speedup(self) -> float:
        """Time per output token without drafts over that with, while no prompt is computed: a measured curve of steps,
        by which the boundary judges here, has no prompts in it."""
        return sum(run.load.calm_tpot_s() for run in self.plain) / 2 / self.drafted.load.calm_tpot_s()

    @property
    def speedup_with_prompts(self) -> float:
        """The same over whole answers."""
        return sum(run.load.tpot_s() for run in self.plain) / 2 / self.drafted.load.tpot_s()

    @property
    def apart(self) -> float:
        """How far apart the two loads without drafts are."""
        one, two = (run.load.calm_tpot_s() for run in self.plain)
        return max(one, two) / min(one, two) - 1

    @property
    def contended(self) -> str | None:
        """Why its times are not judged."""
        found = (run.load.disturbed for run in (*self.plain, self.drafted))
        apart = f"the same steps without drafts differ by {self.apart:.0%}" if self.apart > CONTENDED else None
        return next((why for why in found if why is not None), apart)


@pytest.fixture(scope="module")
def cells(request: pytest.FixtureRequest, serving: Fleet, models: dict[str, Path]) -> dict[tuple[str, int], Cell]:
    """Those that tests of this run ask for, requests of one cell at once."""
    serving.need("real", "ngram")
    asked = [item.callspec.params for item in request.session.items if item.path == request.path]

    def plain(concurrency: int) -> Run:
        with serving["real"].running() as server:
            count = max(2, concurrency)
            return send(server, random_prompts(count, PROMPT, concurrency), concurrency, OUTPUT)

    found = {}
    for concurrency in sorted({one["concurrency"] for one in asked}):
        before, drafted = plain(concurrency), {}
        with serving["ngram"].running() as server:
            for kind in sorted({one["kind"] for one in asked if one["concurrency"] == concurrency}, key=KINDS.index):
                prompts = text_prompts(kind, max(2, concurrency), PROMPT, models["real"])
                drafted[kind] = send(server, prompts, concurrency, OUTPUT)
        after = plain(concurrency)
        found.update({(kind, concurrency): Cell((before, after), run) for kind, run in drafted.items()})
    return found


@pytest.fixture(scope="module")
def step_curve(serving: Fleet, cells: dict[tuple[str, int], Cell], figures: Figures) -> str:
    """Steps without drafts against their tokens, as `--step-curve` takes them: medians of three rounds."""
    rounds: dict[int, list[float]] = {}
    with serving["real"].running() as server:
        for seed, count in enumerate((*CURVE, *reversed(CURVE), *CURVE)):
            rounds.setdefault(count, []).append(wave(server, count, 16, CURVE_OUTPUT, seed).load.step_s())
    steps = {count: median(found) for count, found in rounds.items()}
    for count, seconds in steps.items():
        figures.add("curve", f"{count} tokens", "step_s", seconds)
    return ",".join(f"{count}={1e3 * seconds:.3f}ms" for count, seconds in steps.items())


@pytest.mark.parametrize(("kind", "concurrency"), CELLS)
def test_observe_counts_as_the_client_does(
    kind: str, concurrency: int, cells: dict[tuple[str, int], Cell], observed: Observe, figures: Figures
) -> None:
    """Time per output token, and tokens of a step over all steps: 1 + accepted / drafts leaves out those without."""
    run = cells[kind, concurrency].drafted
    seen, case = observed(run), f"{kind} at {concurrency}"
    client = {"tpot_s": run.load.tpot_s(), "tokens_per_step": run.load.tokens_per_step()}
    said = {"tpot_s": seen["tpot_s"]["mean"], "tokens_per_step": seen["tokens_per_step"]}
    trap = 1 + sum(seen["acceptance_per_position"])
    for name, value in client.items():
        figures.add(
            "observe", case, name, value, said[name], note=f"1 + accepted/drafts: {trap:.2f}" if "tok" in name else ""
        )
    assert said["tokens_per_step"] == pytest.approx(client["tokens_per_step"], rel=TOKENS_ERROR)
    if cells[kind, concurrency].contended is not None:  # chunks wait in the API server then, and come two at a time
        pytest.skip(f"contended: {cells[kind, concurrency].contended}")
    assert said["tpot_s"] == pytest.approx(client["tpot_s"], rel=TPOT_ERROR)


@pytest.mark.parametrize(("kind", "concurrency"), CELLS)
def test_verdict(
    kind: str,
    concurrency: int,
    cells: dict[tuple[str, int], Cell],
    step_curve: str,
    infopt: Infopt,
    observed: Observe,
    models: dict[str, Path],
    figures: Figures,
    tmp_path: Path,
) -> None:
    """Whether drafts are worth using by the clock, and by the boundary from what `observe` saw and a curve of steps."""
    cell = cells[kind, concurrency]
    record = tmp_path / "observed.json"
    record.write_text(json.dumps(observed(cell.drafted)))
    load = ["--isl", PROMPT, "--osl", OUTPUT, "--batch", concurrency, "--eager", "--step-curve", step_curve]
    drafts = ["--method", "ngram", "--drafted", DRAFTED, "--observed", record]
    asked = planned(infopt, "real", models, command=("boundary", "speculative"), more=[*load, *drafts])
    (technique,) = asked["techniques"]
    predicted, case = technique["gain_ratio"], f"{kind} at {concurrency}"
    note = f"{technique['verdict']}; {cell.speedup_with_prompts:.2f} with prompts"
    figures.add("drafts", case, "speedup_ratio", cell.speedup, predicted, note=note)
    if cell.contended is not None:
        pytest.skip(f"contended: {cell.contended}")
    if abs(cell.speedup - WORTH) > MARGIN[concurrency] + cell.apart:
        assert (technique["verdict"] == "use") == (cell.speedup > WORTH), f"{predicted:.2f}, not {cell.speedup:.2f}"
