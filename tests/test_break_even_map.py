"""Maps of verdicts: every cell is the technique's own judgement, and maps turn where the flips say they do."""

import itertools
import random
from dataclasses import replace
from functools import cache

import pytest
from test_boundary_words import LOAD, SITUATIONS, situation

from infopt.boundaries.load import Load
from infopt.boundaries.registry import judge, technique, techniques
from infopt.boundaries.roots import break_evens, verdict_at
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Technique
from infopt.errors import InfoptError
from infopt.reports.pages.boundary_charts import gain_map, verdict_map
from infopt.studies.break_even_map import BreakEvenMap, Cell, break_even_map, places

PLANES = [t for t in techniques() if t.plane is not None]
WITHOUT = {"attention-kernels", "application-caches"}
# A dense model with everything given, and a mixture with nothing: latent cache, expert parallel.
SOME = [SITUATIONS[0], situation("deepseek-v3", "h200:8", Load(), 32)]
CELLS_TRIED = 8


@cache
def made(of: Technique, where: Situation, with_gain: bool = False) -> BreakEvenMap:
    found = break_even_map(of, where, with_gain)
    assert found is not None
    return found


def judged(found: BreakEvenMap, where: Situation, x: float, y: float) -> Cell:
    """The cell by setting both values in the other order and judging in full."""
    try:
        answer = judge(found.technique, found.y.set(found.x.set(where, x), y))
    except InfoptError:
        return Cell("impossible", None)
    return Cell(answer.verdict, answer.gain)


def test_only_techniques_of_one_quantity_have_no_map() -> None:
    assert {t.id for t in techniques() if t.plane is None} == WITHOUT
    for name in WITHOUT:
        assert len(technique(name).quantities) == 1
        assert break_even_map(technique(name), SOME[0]) is None


@pytest.mark.parametrize("of", PLANES, ids=lambda t: t.id)
def test_axes_are_quantities_of_the_technique(of: Technique) -> None:
    assert of.plane is not None
    assert set(of.plane) <= set(of.quantities)
    assert of.plane[0] is not of.plane[1]


@pytest.mark.parametrize("where", SOME, ids=lambda s: f"{s.scenario.model.id}-{s.scenario.batch}")
@pytest.mark.parametrize("of", PLANES, ids=lambda t: t.id)
def test_cells_are_the_judgements_of_both_values(of: Technique, where: Situation) -> None:
    found, quick, chance = made(of, where, with_gain=True), made(of, where), random.Random(f"{of.id}{where.batch}")
    assert [[c.verdict for c in row] for row in quick.cells] == [[c.verdict for c in row] for row in found.cells]
    pairs = list(itertools.product(range(len(found.x_values)), range(len(found.y_values))))
    for i, j in chance.sample(pairs, CELLS_TRIED):
        assert found.cells[j][i] == judged(found, where, found.x_values[i], found.y_values[j])


@pytest.mark.parametrize("where", SOME, ids=lambda s: f"{s.scenario.model.id}-{s.scenario.batch}")
@pytest.mark.parametrize("of", PLANES, ids=lambda t: t.id)
def test_the_cell_where_we_are_is_the_answer(of: Technique, where: Situation) -> None:
    found = made(of, where, with_gain=True)
    if found.x_here is None or found.y_here is None:
        assert verdict_map(found).series[-1].name != "now"
        return
    i, j = found.x_values.index(found.x_here), found.y_values.index(found.y_here)
    answer = judge(of, where)
    assert found.cells[j][i].verdict == answer.verdict
    told = verdict_map(found)
    ((x, y),) = told.series[-1].points
    assert (told.x.categories.index(str(x)), told.y.categories.index(str(y))) == (i, j)


@pytest.mark.parametrize("of", PLANES, ids=lambda t: t.id)
def test_a_row_turns_between_the_values_that_enclose_a_flip(of: Technique) -> None:
    where = situation("70b", "h100:4", LOAD, 64)
    found = made(of, where)
    if found.y_here is None:
        pytest.skip(f"{found.y.name} is not given: there is no row of the situation")
    row = [cell.verdict for cell in found.cells[found.y_values.index(found.y_here)]]
    flips = break_evens(lambda other: judge(of, other).verdict, found.x, where)
    for (low, before), (high, after) in itertools.pairwise(zip(found.x_values, row, strict=True)):
        inside = [flip for flip in flips if flip.value is not None and low < flip.value <= high]
        if before != after:
            assert verdict_at(lambda s: judge(of, s).verdict, found.x, where, low) == before
            assert inside or found.x.whole is False
        elif len(inside) == 1 and inside[0].value not in (low, high):
            assert inside[0].below == inside[0].above


@pytest.mark.parametrize("where", SOME, ids=lambda s: f"{s.scenario.model.id}-{s.scenario.batch}")
def test_values_rise_and_read_differently(where: Situation) -> None:
    for of in PLANES:
        found = made(of, where)
        for values in (found.x_values, found.y_values):
            assert 8 <= len(values) <= 14
            assert list(values) == sorted(set(values))
        for chart in (verdict_map(found), gain_map(made(of, where, with_gain=True))):
            if chart is not None:
                assert len(set(chart.x.categories)) == len(found.x_values)
                assert len(set(chart.y.categories)) == len(found.y_values)


def test_the_present_value_is_on_the_axis_and_none_beside_it() -> None:
    of = technique("speculative")
    assert of.plane is not None
    for acceptance in (0.0, 0.09, 0.7, 0.999, 1.0):
        given = replace(LOAD, draft=replace(LOAD.draft, acceptance=acceptance))
        values = places(of.plane[1], situation("70b", "h100:4", given, 64))
        assert acceptance in values
        assert all(abs(value - acceptance) >= 0.015 for value in values if value != acceptance)


def test_what_nobody_gave_has_no_place() -> None:
    found = made(technique("speculative"), situation("70b", "h100:4", Load(), 8))
    assert (found.x_here, found.y_here) == (8.0, None)
