"""Formulas that are written down: a program repeats them exactly, and what cannot be written down is refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_runs import run

from infopt.ledgers.arrays import along, ceil_div, floor, larger, root, smaller, unmeasured, whole
from infopt.ledgers.traced import Tape, UndecidedError, every_branch, program

POINTS = [[1.0, 1.0], [4.0, 1.5], [16.0, 1.2], [64.0, 3.0]]
# Everything that formulas do to a quantity.
FORMULAS: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda x, y: 3 - x + 2 * y - (-x) / 7,
    "ratios": lambda x, y: 1 / x + x / y + (x + 1) // 3 + y // x,
    "rounding": lambda x, y: ceil_div(x, 16) + floor(x / 3) + whole(y / 7) + round(x / 2),
    "bounds": lambda x, y: smaller(x, 40) + larger(x, y) + smaller(y, None) + larger(1.0, x),
    "powers": lambda x, y: root(x) + (1 - 1 / 64) ** y + (1.0 * y) ** 2,
    "curves": lambda x, y: along(POINTS, x) + along(POINTS, y),
    "unknown": lambda x, y: unmeasured(x, 500),
    "conditions": lambda x, y: ((x > 3) & (y >= 5) | (x == y) ^ True) * (y < 100) + (x <= y),
    "choices": lambda x, y: np.where((x > y) & (x < 1000), x * 2, np.where(y > 7, 1.5, x)),
}
counts = st.integers(min_value=1, max_value=2**40)


def made(formula: Callable[[Any, Any], Any], x: int, y: int) -> float:
    """What a formula comes to as a program."""
    tape = Tape()
    return run(program(tape, ("x", "y"), {"found": formula(tape.input("x"), tape.input("y"))}), {"x": x, "y": y})[
        "found"
    ]


@pytest.mark.parametrize("name", FORMULAS)
@given(x=counts, y=counts)
def test_a_program_repeats_its_formula_to_the_last_bit(name: str, x: int, y: int) -> None:
    found, expected = made(FORMULAS[name], x, y), float(FORMULAS[name](x, y))
    assert found == expected or (math.isnan(found) and math.isnan(expected))


def test_nothing_is_written_down_twice_or_in_vain() -> None:
    tape = Tape()
    x = tape.input("x")
    assert (x + 0).node == (x * 1).node == (x / 1).node == (0 + x).node == (x - 0).node == x.node
    assert (2 * x + 1).node == (2 * x + 1).node
    assert ((x > 3) & True).node == ((x > 3) | False).node == (x > 3).node
    assert ((x > 3) & False) is False
    assert ((x > 3) | True) is True
    assert np.where(x > 3, x, x).node == np.minimum(x, x).node == x.node
    unread = x * 17
    made = program(tape, ("x",), {"found": 2 * x, "plain": 5})
    assert unread.node
    assert made.constants == (2.0, 5.0)
    assert len(made.operations) == 3
    assert run(made, {"x": 4}) == {"found": 8.0, "plain": 5.0}


def test_programs_of_one_formula_share_their_shape() -> None:
    def of(number: float) -> Any:
        tape = Tape()
        x = tape.input("x")
        return program(tape, ("x",), {"found": np.maximum(number * x, 1.0) + number})

    assert of(3.0).shape == of(7.5).shape
    assert of(3.0).constants != of(7.5).constants
    assert of(1.0).shape != of(3.0).shape  # 1 x needs no operation


def test_a_condition_is_no_answer_but_both_ways_can_be_taken() -> None:
    tape = Tape()
    x, y = tape.input("x"), tape.input("y")
    with pytest.raises(UndecidedError, match="traced condition"):
        bool(x > 3)

    def decided() -> dict[str, Any]:
        if x > 10:
            return {"kind": 2, "value": None}
        return {"kind": 1 if min(x, y) is x else 0, "value": x + y}

    found = program(tape, ("x", "y"), every_branch(tape, decided))
    for a, b in ((20, 1), (5, 7), (5, 3)):
        expected = (2, math.nan) if a > 10 else (0 if b < a else 1, float(a + b))
        got = run(found, {"x": a, "y": b})
        assert got["kind"] == expected[0]
        assert got["value"] == expected[1] or (math.isnan(got["value"]) and math.isnan(expected[1]))
    with pytest.raises(UndecidedError):  # afterwards nothing is decided
        bool(x > 10)


def test_what_no_program_can_do_is_an_error() -> None:
    x = Tape().input("x")
    with pytest.raises(TypeError):
        np.cumsum(x)
    with pytest.raises(TypeError):
        np.exp(x)
    with pytest.raises(TypeError):
        float(x)
    with pytest.raises(TypeError):
        {x: 1}  # noqa: B018
