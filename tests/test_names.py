"""In the ledgers a number's name ends in its unit: parameters, dataclass fields and what public functions return."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LEDGERS = Path(__file__).resolve().parent.parent / "ledgers"

UNIT = "bytes|bits|tokens|s|flop|elements|params|share|ratio|usd|watts|joules|years"
# The unit, then what it is counted over: kv_bytes_per_token, flop_per_s, kv_share_of_step.
WITH_UNIT = re.compile(rf"(^|_)({UNIT})(_(per|of)_[a-z0-9]+(_[a-z0-9]+)*)?$")

# Counts are bare: the last word says what is counted (or which of a row of equals is meant).
COUNTS = {
    *("layers", "heads", "experts", "vocab", "hidden", "dim", "width", "widths", "matrices", "kernels"),  # of a model
    *(
        "batch",
        "sequences",
        "seqs",
        "requests",
        "blocks",
        "groups",
        "slots",
        "preemptions",
        "steps",
        "pages",
        "copies",
        "streams",
        "concurrency",
        "prefixes",
        "uses",
        "passes",
    ),  # of a load
    *(
        "tp",
        "pp",
        "dp",
        "ep",
        "gpus",
        "ranks",
        "shards",
        "stages",
        "replicas",
        "nodes",
        "devices",
        "peers",
    ),  # of a place
    *("count", "index", "node", "rank", "slot", "stage"),
}

# Names that need no unit, each with its reason.
ALLOWED = {
    "utilization": "the engine's own fraction under its own meaning (DESIGN section 3)",
    "weight_bytes_per_step_expected": "a key of the JSON contract (DESIGN section 4)",
    "Term.value": "the record carries its unit beside the value",
    "Term.low": "the record carries its unit beside the value",
    "Term.high": "the record carries its unit beside the value",
    "Range.value": "what holds a range is named by its unit, and is looked at as a number is",
    "Range.low": "what holds a range is named by its unit, and is looked at as a number is",
    "Range.high": "what holds a range is named by its unit, and is looked at as a number is",
    "other": "the second operand of an operator has the unit of the first",
    "skew": "the exponent of Zipf's law has no unit",
}

# A range is a number with its ends.
NUMBERS = {"int", "float", "Range"}


def is_number(annotation: ast.expr | None) -> bool:
    """int, float, a range, one of them or None, or a mapping to one of them; never a bool, a tuple or a record."""
    match annotation:
        case ast.Name(id=name):
            return name in NUMBERS
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return is_number(left) or is_number(right)
        case ast.Subscript(value=ast.Name(id=("Mapping" | "dict")), slice=ast.Tuple(elts=[_, value])):
            return is_number(value)
    return False


def is_well_named(name: str) -> bool:
    counted = re.sub(r"_(per|of)_.*", "", name)
    return bool(WITH_UNIT.search(name)) or counted.rsplit("_", 1)[-1] in COUNTS


def numeric_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, name) of every number a module names: parameters, class fields, and public functions by their return."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if is_number(argument.annotation):
                    yield argument.lineno, argument.arg
            if is_number(node.returns) and not node.name.startswith("_"):
                yield node.lineno, node.name
        elif isinstance(node, ast.ClassDef):
            for field in node.body:
                match field:
                    case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if is_number(annotation):
                        full = f"{node.name}.{name}"
                        yield field.lineno, full if full in ALLOWED else name


def misnamed(source: str) -> list[str]:
    return [
        f"{line}: {name}"
        for line, name in numeric_names(ast.parse(source))
        if name not in ALLOWED and not is_well_named(name)
    ]


@pytest.mark.parametrize("path", sorted(LEDGERS.rglob("*.py")), ids=lambda path: path.name)
def test_numbers_end_in_their_unit(path: Path) -> None:
    found = misnamed(path.read_text(encoding="utf-8"))
    assert not found, f"{path.name}: no unit at the end of {', '.join(found)}"


@pytest.mark.parametrize(
    ("name", "well"),
    [
        ("kv_bytes_per_token", True),
        ("bandwidth_bytes_per_s", True),
        ("amortized_s_per_token", True),
        ("peak_flop_per_s", True),
        ("kv_share_of_step", True),
        ("usd_per_million_output_tokens", True),
        ("step_floor_s", True),
        ("kv_heads", True),
        ("tp", True),
        ("batch_per_replica", True),
        ("bandwidth", False),
        ("tpot", False),
        ("bytes_read", False),
        ("size_gb", False),
        ("latency_ms", False),
        ("pass", False),
        ("weights", False),
    ],
)
def test_the_rule_itself(name: str, well: bool) -> None:
    assert is_well_named(name) is well


def test_what_is_looked_at() -> None:
    source = (
        "class A:\n    size: int\n    kind: str\n    flag: bool\n    table: Mapping[str, float]\n"
        "def step(bandwidth: float, *, text: str, context: int | None) -> float: ...\n"
        "def _hidden_helper(size_bytes: int) -> float: ...\n"
    )
    assert misnamed(source) == ["2: size", "5: table", "6: bandwidth", "6: context", "6: step"]
