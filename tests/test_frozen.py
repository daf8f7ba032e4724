"""The quick dataclass does what the standard one does, for all that the program uses of it."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Quick:
    """A record."""

    name: str
    size_bytes: int
    share: float = 0.5
    notes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    parts: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        return 2 * self.size_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """A record."""

    name: str
    size_bytes: int
    share: float = 0.5
    notes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    parts: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        return 2 * self.size_bytes


VALUES = st.fixed_dictionaries(
    {"name": st.text(max_size=5), "size_bytes": st.integers()},
    optional={"share": st.floats(0, 1), "parts": st.lists(st.integers(), max_size=3).map(tuple)},
)


@given(VALUES, VALUES)
def test_as_the_standard_decorator(first: dict[str, Any], second: dict[str, Any]) -> None:
    quick, standard = Quick(**first), Standard(**first)
    assert repr(quick) == repr(standard).replace("Standard", "Quick")
    assert dataclasses.asdict(quick) == dataclasses.asdict(standard)
    assert (quick == Quick(**second)) is (standard == Standard(**second))
    assert quick.doubled == standard.doubled
    assert dataclasses.asdict(dataclasses.replace(quick, **second)) == dataclasses.asdict(
        dataclasses.replace(standard, **second)
    )
    for copied in (copy.copy(quick), copy.deepcopy(quick), pickle.loads(pickle.dumps(quick))):
        assert copied == quick


def test_shape() -> None:
    assert [field.name for field in dataclasses.fields(Quick)] == [field.name for field in dataclasses.fields(Standard)]
    assert Quick.__doc__ == Standard.__doc__
    assert Quick.__slots__ == Standard.__slots__
    assert Quick.__match_args__ == Standard.__match_args__
    assert list(inspect.signature(Quick).parameters) == list(inspect.signature(Standard).parameters)
    assert not hasattr(Quick("a", 1), "__dict__")
    assert dataclasses.is_dataclass(Quick)


def test_frozen() -> None:
    quick = Quick("a", 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.size_bytes = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del quick.size_bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.other = 2  # type: ignore[attr-defined]


def test_factories_make_one_each() -> None:
    assert Quick("a", 1).notes == {}
    assert Quick("a", 1).notes is not Quick("a", 1).notes


def test_equality_is_within_the_class_and_hash_by_value() -> None:
    assert Quick("a", 1) != Standard("a", 1)

    @dataclass(frozen=True, slots=True)
    class Plain:
        a: int
        b: str = "x"

    assert len({Plain(1), Plain(1, "x"), Plain(2)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Quick("a", 1))


@pytest.mark.parametrize("arguments", [(), ("a",), ("a", 1, 0.5, {}, (), 6)], ids=str)
def test_wrong_arguments(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="__init__"):
        Quick(*arguments)


def test_what_is_not_covered_is_refused() -> None:
    with pytest.raises(TypeError, match="only frozen"):
        dataclass(frozen=True, slots=False)
    with pytest.raises(TypeError, match="inheriting"):

        @dataclass(frozen=True, slots=True)
        class Child(Quick):
            more: int = 0

    with pytest.raises(TypeError, match="__post_init__"):

        @dataclass(frozen=True, slots=True)
        class Checked:
            a: int

            def __post_init__(self) -> None: ...
