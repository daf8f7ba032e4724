"""Mutants of ledgers/ and boundaries/: one small change each, by the operators of cosmic-ray, drawn by a seed.

cosmic-ray's own runner starts one pytest for each mutant. Here the root of the repository is the package, so that costs
seconds of imports for milliseconds of tests; its operators are used and `mutant_runs.py` runs them.
Left out: changes of annotations, which nothing runs, and arithmetic turned into bit operations, which raises on the
first float and says nothing about a test.
"""

import ast
import difflib
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

ARITHMETIC = "(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)"
OF_BITS = "(BitAnd|BitOr|BitXor|LShift|RShift)"
LEFT_OUT = re.compile(f"ReplaceBinaryOperator_{ARITHMETIC}_{OF_BITS}$")
Position = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """The `occurrence`-th place where `operator` changes `file`; its place there is (line, column)."""

    file: str  # relative to the root
    operator: str
    occurrence: int
    line: int
    column: int

    def source(self, tree: Path) -> str:
        """The whole changed file."""
        changed = mutate_code((tree / self.file).read_text(encoding="utf-8"), operator(self.operator), self.occurrence)
        if changed is None:
            raise ValueError(f"{self}: no such place in {tree}: the session is of another state of the sources")
        return str(changed)

    def change(self, tree: Path) -> tuple[str, str]:
        """The lines as they are and as they become, without indentation."""
        before, after = (tree / self.file).read_text(encoding="utf-8").splitlines(), self.source(tree).splitlines()
        told = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        removed, added = (
            "\n".join(line[1:].strip() for line in told if line.startswith(sign) and line[1:].strip()) for sign in "-+"
        )
        return removed, added


def operator(name: str) -> object:
    return cosmic_ray.plugins.get_operator(f"core/{name}")()


def operators() -> list[str]:
    """Those that need no arguments and are not left out."""
    names = (name.removeprefix("core/") for name in sorted(cosmic_ray.plugins.operator_names()))
    return [name for name in names if not name.startswith("Variable") and not LEFT_OUT.search(name)]


def of_file(tree: Path, file: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of operators and places."""
    text = (tree / file).read_text(encoding="utf-8")
    nodes, unread = list(ast_nodes(get_ast(text))), annotations(text)
    for name in operators():
        places = (start for node in nodes for start, _ in operator(name).mutation_positions(node))
        for occurrence, (line, column) in enumerate(places):
            if not any(start <= (line, column) < end for start, end in unread):
                yield Mutant(file, name, occurrence, line, column)


def annotations(text: str) -> list[tuple[Position, Position]]:
    """Spans of annotations of arguments, results and names."""
    nodes = (
        getattr(node, field)
        for node in ast.walk(ast.parse(text))
        for field in ("annotation", "returns")
        if isinstance(getattr(node, field, None), ast.expr)
    )
    return [((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)) for node in nodes]


def sample(tree: Path, packages: tuple[str, ...], most: int, seed: int) -> list[Mutant]:
    """At most `most` mutants, each at a place of its own, spread over files by how many places a file has."""
    files = [
        path.relative_to(tree).as_posix() for package in packages for path in sorted((tree / package).glob("*.py"))
    ]
    places = {file: by_place(tree, file) for file in files}
    quotas = shares({file: len(found) for file, found in places.items()}, most)
    drawn = [mutant for file, quota in quotas.items() for mutant in of_places(places[file], quota, f"{seed} {file}")]
    random.Random(seed).shuffle(drawn)  # a run that ends early has seen a bit of every file
    return drawn


def of_places(places: dict[Position, list[Mutant]], quota: int, seed: str) -> list[Mutant]:
    """One mutant at each of `quota` places; by a seed of the file's own, so that a change elsewhere draws the same."""
    draw = random.Random(seed)
    return [draw.choice(places[place]) for place in draw.sample(sorted(places), quota)]


def by_place(tree: Path, file: str) -> dict[Position, list[Mutant]]:
    found = defaultdict(list)
    for mutant in of_file(tree, file):
        found[mutant.line, mutant.column].append(mutant)
    return found


def shares(sizes: dict[str, int], most: int) -> dict[str, int]:
    """`most` divided in proportion, what is left to the largest remainders."""
    whole = sum(sizes.values())
    exact = {name: min(1.0, most / whole) * size for name, size in sizes.items()}
    given = {name: int(share) for name, share in exact.items()}
    left = min(most, whole) - sum(given.values())
    for name in sorted(exact, key=lambda name: given[name] - exact[name])[:left]:
        given[name] += 1
    return given
