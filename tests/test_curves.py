"""Curves in characters: what stands where, and what does not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.reports import curves as drawing
from infopt.reports.curves import Layer

NUMBERS = st.floats(0.001, 1e6)


def drawn(layers: list[Layer], bottom: float, top: float, rows: int = 4) -> list[str]:
    return [line.plain[drawing.LABEL + 1 :] for line in drawing.chart(layers, bottom, top, {}, rows)]


def test_a_curve_stands_at_its_height_and_the_last_layer_in_front() -> None:
    band = Layer("", "=", [0.0, 1.0, None], [2.0, 4.0, None])
    curve = Layer("", "o", [1.0, 3.0, 9.0], [1.0, 3.0, 9.0])
    assert drawn([band, curve], 0.0, 4.0) == [" =", " o", "==", "o=", "="]


def test_ticks_stand_at_their_height() -> None:
    lines = [line.plain for line in drawing.chart([drawing.line("", [1.0])], 0.0, 2.0, {0.0: "0", 2.0: "2 s"}, 2)]
    assert [line.strip() for line in lines] == ["2 s", drawing.mark("line"), "0"]


def test_a_flat_curve_at_nought_is_drawn() -> None:
    assert drawn([Layer("", "o", [0.0], [0.0])], 0.0, drawing.round_top(0.0)) == ["", "", "", "", "o"]


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30), st.integers(1, 40))
def test_a_curve_read_off_stays_between_its_ends(points: list[tuple[float, float]], columns: int) -> None:
    places = sorted({place for place, _ in points})
    values = [value for _, value in points][: len(places)]
    at = drawing.even(places[0], places[-1], columns)
    found = drawing.read_off(places, values, at)
    assert len(found) == columns
    assert found[0] == pytest.approx(values[0])
    assert all(value is None or min(values) * 0.999 <= value <= max(values) * 1.001 for value in found)


@given(NUMBERS, st.floats(1.0, 1e4), st.integers(2, 200))
def test_a_column_is_where_its_value_was_laid(low: float, ratio: float, columns: int) -> None:
    at = drawing.even(low, low * ratio, columns)
    if ratio > 1.1:
        assert [drawing.column_of(value, low, low * ratio, columns) for value in at] == list(range(columns))


@given(st.floats(1e-9, 1e12))
def test_an_axis_ends_at_or_above_the_largest(most: float) -> None:
    assert most <= drawing.round_top(most) <= 1.34 * most


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(1, 200).map(str)), min_size=1, max_size=60))
def test_points_have_their_name_or_a_dot(points: list[tuple[float, float, str]]) -> None:
    lines = [line.plain for line in drawing.scatter(points, "{:.3g}".format, 6)]
    assert len(lines) == 7
    assert max(map(len, lines)) <= drawing.LABEL + 1 + drawing.width()
    written = " ".join(line[drawing.LABEL + 1 :] for line in lines).replace(drawing.mark("floor"), " ").split()
    assert points[0][2] in written
    assert set(written) <= {name for _, _, name in points}


@given(st.integers(0, 67), st.text("now 1234k", min_size=1, max_size=12))
def test_the_pointer_points_at_its_column(column: int, text: str) -> None:
    pointer, _ = drawing.axis("0", "9", 68, (column, text.strip() or "x"))
    assert pointer.plain[drawing.LABEL + 1 + column] == "^"
    assert len(pointer.plain) <= drawing.LABEL + 1 + 68
