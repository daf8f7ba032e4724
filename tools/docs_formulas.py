"""Write docs/formulas.md from the docstrings of the ledgers: `python tools/docs_formulas.py`."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEDGERS = ROOT / "ledgers"
PAGE = ROOT / "docs" / "formulas.md"

# The order a reader wants; a ledger that is not named comes after them, by name.
ORDER = ("scenario", "weights", "cache", "paging", "activation", "pool", "memory", "bandwidth", "compute", "cost")
HELPERS = ("__init__", "arrays", "terms", "traced")

HEAD = """\
# Formulas

Generated from the docstrings of `ledgers/` by `tools/docs_formulas.py`; change them there. Bytes, seconds, FLOP and
tokens are base units, a number's unit is the last word of its name, GB is 1e9 bytes and GiB 2^30. The same code serves
a number and a NumPy array. How engines divide memory is told in [memory.md](memory.md), the formats in
[formats.md](formats.md).
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_ledger(path) for path in ledgers())])


def ledgers() -> list[Path]:
    """Modules with formulas, in reading order."""
    found = [path for path in LEDGERS.glob("*.py") if path.stem not in HELPERS]
    rank = {name: place for place, name in enumerate(ORDER)}
    return sorted(found, key=lambda path: (rank.get(path.stem, len(ORDER)), path.stem))


def _ledger(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    head, _, rest = (ast.get_docstring(tree) or "").partition("\n\n")
    title = path.stem.replace("_", " ").capitalize()
    parts = [f"## {title}\n\n`ledgers/{path.name}`: {head}\n"]
    if rest:
        parts.append(_block(rest))
    parts += [_entry(node) for node in _public(tree)]
    return "\n".join(parts)


def _public(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Functions and records of a module that have a docstring and no leading underscore."""
    for node in ast.iter_child_nodes(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and ast.get_docstring(node)
        ):
            yield node


def _entry(node: ast.FunctionDef | ast.ClassDef) -> str:
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    text = text.partition(">>>")[0].rstrip()
    head, _, rest = text.partition("\n\n")
    name = node.name if isinstance(node, ast.ClassDef) else f"{node.name}({', '.join(_arguments(node))})"
    entry = f"### `{name}`\n\n{' '.join(head.split())}\n"
    return f"{entry}\n{_block(rest)}" if rest else entry


def _arguments(node: ast.FunctionDef) -> list[str]:
    arguments = node.args
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _block(text: str) -> str:
    """Equations and symbols keep their columns."""
    return f"```text\n{textwrap.dedent(text).rstrip()}\n```\n"


def main() -> None:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
