"""Formulas written down while they run: a value that records what is done to it, and the program that comes of it.

A `Traced` stands where an array of loads would stand. The ledgers' own functions run on it once, and the tape holds
every operation they made; numbers among themselves are computed on the spot, by Python. The program repeats those
operations for other loads, anywhere: one arithmetic, written once (docs/decisions/0015-what-if.md).
`ledgers/arrays.py` needs nothing for it: NumPy hands its functions to the operands that bring their own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from infopt.frozen import dataclass

INPUT, CONSTANT = "input", "constant"
# Operations by their place in this list, which is their code in a program; numbers of operands behind them.
# "//", "floor", "trunc" and "rint" are Python's: towards minus infinity, towards zero, half to even.
ARITY: Mapping[str, int] = {
    "+": 2, "-": 2, "*": 2, "/": 2, "//": 2, "**": 2, "min": 2, "max": 2, "<": 2, "<=": 2, "==": 2, "&": 2, "|": 2,
    "^": 2, "neg": 1, "floor": 1, "trunc": 1, "rint": 1, "sqrt": 1, "log2": 1, "?": 3,
}  # fmt: skip
OPERATIONS: tuple[str, ...] = tuple(ARITY)
_UFUNCS = {
    "minimum": "min", "maximum": "max", "floor": "floor", "sqrt": "sqrt", "log2": "log2", "add": "+", "subtract": "-",
    "multiply": "*", "divide": "/", "floor_divide": "//", "power": "**", "less": "<", "less_equal": "<=",
}  # fmt: skip

# Operation and operands: numbers of earlier nodes; of an input its name, of a constant its value and type.
Node = tuple[Any, ...]


class UndecidedError(Exception):
    """Code asked whether a traced condition holds: only `every_branch` can answer both."""

    def __init__(self, condition: "Traced") -> None:
        super().__init__("a traced condition has no answer: use numpy.where, or every_branch")
        self.condition = condition


class Tape:
    """Operations in their order, none twice."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.decided: dict[int, bool] = {}
        self._known: dict[Node, int] = {}

    def input(self, name: str) -> "Traced":
        return self._node((INPUT, name))

    def operation(self, name: str, *operands: Any) -> Any:
        """The result of an operation; what needs no operation is answered at once."""
        plain = _identity(name, operands)
        return self._node((name, *(self.index(one) for one in operands))) if plain is None else plain[0]

    def index(self, value: Any) -> int:
        """The node of a value, a constant where it is a number."""
        if isinstance(value, Traced):
            return value.node
        return self._node((CONSTANT, float(value))).node

    def _node(self, node: Node) -> "Traced":
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return Traced(self, found)


def _identity(name: str, operands: Sequence[Any]) -> tuple[Any] | None:
    """What an operation comes to without being made, None where it must be."""
    a, b = operands[0], operands[-1]
    if name == "?":
        condition, yes, no = operands
        if not isinstance(condition, Traced):
            return (yes if condition else no,)
        return (yes,) if _same(yes, no) else None
    if name in ("min", "max") and _same(a, b):
        return (a,)
    if len(operands) == 2:
        return next((found for x, y in ((a, b), (b, a)) if (found := _neutral(name, x, y, y is b))), None)
    return None


def _neutral(name: str, x: Any, number: Any, is_second: bool) -> tuple[Any] | None:
    """x + 0, x 1, x / 1, and conditions beside a known one."""
    if isinstance(number, Traced):
        return None
    if name == "&":
        return (x,) if number else (False,)
    if name == "|":
        return (True,) if number else (x,)
    if name == "^":
        return None if number else (x,)
    if (name == "+" and number == 0) or (name == "*" and number == 1):
        return (x,)
    return (x,) if is_second and ((name == "-" and number == 0) or (name == "/" and number == 1)) else None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Traced) or isinstance(b, Traced):
        return isinstance(a, Traced) and isinstance(b, Traced) and a.node == b.node
    return bool(a == b)


class Traced:
    """A number that is not known yet. Conditions are numbers too: 1 holds, 0 does not."""

    __slots__ = ("node", "tape")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tape: Tape, node: int) -> None:
        self.tape, self.node = tape, node

    def _do(self, name: str, *operands: Any) -> Any:
        return self.tape.operation(name, *operands)

    def __add__(self, other: Any) -> Any:
        return self._do("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._do("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._do("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._do("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._do("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._do("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._do("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._do("/", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._do("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._do("//", other, self)

    def __pow__(self, other: Any) -> Any:
        return self._do("**", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._do("**", other, self)

    def __neg__(self) -> Any:
        return self._do("neg", self)

    def __lt__(self, other: Any) -> Any:
        return self._do("<", self, other)

    def __le__(self, other: Any) -> Any:
        return self._do("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._do("<", other, self)

    def __ge__(self, other: Any) -> Any:
        return self._do("<=", other, self)

    def __eq__(self, other: object) -> Any:
        return self._do("==", self, other)

    def __and__(self, other: Any) -> Any:
        return self._do("&", self, other)

    def __rand__(self, other: Any) -> Any:
        return self._do("&", self, other)

    def __or__(self, other: Any) -> Any:
        return self._do("|", self, other)

    def __ror__(self, other: Any) -> Any:
        return self._do("|", self, other)

    def __xor__(self, other: Any) -> Any:
        return self._do("^", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._do("^", self, other)

    def __round__(self, digits: None = None) -> Any:
        return self._do("rint", self)

    def __format__(self, how: str) -> str:
        return "?"  # sentences of a traced scenario are not read

    def __bool__(self) -> bool:
        if self.node not in self.tape.decided:
            raise UndecidedError(self)
        return self.tape.decided[self.node]

    def astype(self, kind: str) -> Any:
        """Cut to a whole number, as arrays do it."""
        return self._do("trunc", self)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a traced value is no array")

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        name = _UFUNCS.get(function.__name__)
        return NotImplemented if name is None or method != "__call__" or options else self._do(name, *operands)

    def __array_function__(self, function: Any, _: Any, operands: Sequence[Any], options: Mapping[str, Any]) -> Any:
        return NotImplemented if function.__name__ != "where" or options else self._do("?", *operands)


def every_branch(tape: Tape, function: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The numbers a function comes to that decides by traced conditions: each way is taken, and the results joined.

    None counts as NaN. Every condition doubles the ways: of use where there are few.
    """
    before = tape.decided
    try:
        return {name: math.nan if value is None else value for name, value in function().items()}
    except UndecidedError as asked:
        ways = []
        for answer in (True, False):
            tape.decided = {**before, asked.condition.node: answer}
            ways.append(every_branch(tape, function))
        return {name: tape.operation("?", asked.condition, yes, ways[1][name]) for name, yes in ways[0].items()}
    finally:
        tape.decided = before


@dataclass(frozen=True, slots=True)
class Program:
    """What a tape comes to for some results. Values stand in slots: inputs, then constants, then one per operation.

    inputs        names in the order of their slots
    operations    codes (the place in OPERATIONS), each with the slots of its operands behind it
    constants     numbers in the order of their slots; programs with the same operations differ in these alone
    output_slots  where results stand, by name
    """

    inputs: tuple[str, ...]
    operations: tuple[int, ...]
    constants: tuple[float, ...]
    output_slots: Mapping[str, int]

    @property
    def shape(self) -> tuple[Any, ...]:
        """What programs share that differ in constants alone."""
        return self.inputs, self.operations, len(self.constants), tuple(self.output_slots.items())


def program(tape: Tape, inputs: Sequence[str], results: Mapping[str, Any]) -> Program:
    """The operations that `results` need. A result that is a plain number becomes a constant of its own."""
    needed = _needed(tape, [value.node for value in results.values() if isinstance(value, Traced)])
    constants = [node for node in needed if tape.nodes[node][0] == CONSTANT]
    plain = [float(value) for value in results.values() if not isinstance(value, Traced)]
    slots = {tape.index(tape.input(name)): i for i, name in enumerate(inputs)}
    slots |= {node: len(inputs) + i for i, node in enumerate(constants)}
    after = len(inputs) + len(constants)
    made = [node for node in needed if tape.nodes[node][0] not in (INPUT, CONSTANT)]
    slots |= {node: after + len(plain) + i for i, node in enumerate(made)}
    codes = {name: code for code, name in enumerate(OPERATIONS)}
    operations = [
        number
        for name, *operands in (tape.nodes[node] for node in made)
        for number in (codes[name], *(slots[operand] for operand in operands))
    ]
    place = iter(range(after, after + len(plain)))
    outputs = {name: slots[v.node] if isinstance(v, Traced) else next(place) for name, v in results.items()}
    values = (*(tape.nodes[node][1] for node in constants), *plain)
    return Program(tuple(inputs), tuple(operations), values, outputs)


def _needed(tape: Tape, nodes: Sequence[int]) -> list[int]:
    """Nodes that these rest on and they themselves, operands first."""
    found: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [] if tape.nodes[node][0] in (INPUT, CONSTANT) else tape.nodes[node][1:]
    return sorted(found)
