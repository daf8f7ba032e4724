"""The techniques: every module beside this one that holds a TECHNIQUE."""

from functools import cache
from importlib import import_module
from pathlib import Path

from infopt.boundaries.conflicts import conflicts
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Boundary, Judgement, Technique, Verdict
from infopt.errors import unknown_name

FOLDER = Path(__file__).resolve().parent


@cache
def techniques() -> tuple[Technique, ...]:
    """All of them, in document 3's order of trying; those it does not name follow."""
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    modules = (vars(import_module(f"infopt.boundaries.{name}")) for name in names)
    found = {one for module in modules if isinstance(one := module.get("TECHNIQUE"), Technique)}
    return tuple(sorted(found, key=lambda one: (one.order is None, one.order or 0, one.id)))


def technique(text: str) -> Technique:
    """The technique of a name: its id, an alias, or the only id that begins so."""
    name = text.strip().lower().replace("_", "-").replace(" ", "-")
    known = techniques()
    exact = [t for t in known if name == t.id or name in t.aliases]
    begins = [t for t in known if t.id.startswith(name)] if name else []
    found = exact or begins
    if len(found) == 1:
        return found[0]
    raise unknown_name("technique", text, [t.id for t in known], f"choose one of {', '.join(t.id for t in known)}")


def judge(technique: Technique, situation: Situation) -> Judgement:
    """The answer of a technique, blocked where it cannot be combined with what runs here."""
    for conflict in conflicts(technique.id, situation):
        return Judgement("impossible", None, conflict.text)
    return technique.judge(situation)


def verdict(technique: Technique, situation: Situation) -> Verdict:
    """The verdict of `judge` alone."""
    if technique.quick is None or next(conflicts(technique.id, situation), None) is not None:
        return judge(technique, situation).verdict
    return technique.quick(situation)


def bounded(technique: Technique, situation: Situation) -> Boundary:
    """The answer with the values at which it flips."""
    flips = tuple(
        flip
        for quantity in technique.quantities
        for flip in break_evens(lambda other: verdict(technique, other), quantity, situation)
    )
    return Boundary(technique, judge(technique, situation), flips)
