"""How many small changes of ledgers/ and boundaries/ the tests notice: a seeded sample of mutants.

    python trust/mutation.py --sample 400 --seed 10 --minutes 90     goes on where it stopped, unless sources changed
    python trust/mutation.py --again                                 survivors once more, after new tests

Each mutant (`mutants.py`) meets the tests that run its line (`test_map.py`), cheapest first, up to a budget of
processor time (`mutant_runs.py`). What survives stands in `survivors.yaml` with the reason, found by the text of its
line; a survivor that is not there, and an entry whose line is gone, fail the check. One in twenty mutants is a control:
its tests must pass on the code as it is, and where a fork was killed by a test, a new process must be too.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import mutant_runs
import pytest
import test_map
from figure import RECORDS, ROOT, conclude
from mutant_runs import Outcome, Server, file_of
from mutants import Mutant, sample
from mutation_report import figure
from working_copy import copy_tree, enter

PART = "arithmetic"
PACKAGES = test_map.PACKAGES[PART]
CONTROLS_ONE_IN = 20
MOST_FILES = 10  # that a process collects for one mutant
COST_CLASSES_S = (0.03, 0.2, 1.0, 5.0)
SESSION = RECORDS / "mutation_session.json"


@dataclass
class Session:
    """The sample and what became of it so far, on disk after each mutant."""

    of: dict[str, Any]  # sources, sample, seed
    mutants: list[Mutant]
    outcomes: dict[int, Outcome]
    checks: dict[str, int]  # controls and confirmations that were as they must be

    def save(self) -> None:
        kept = {
            "of": self.of,
            "mutants": [asdict(mutant) for mutant in self.mutants],
            "outcomes": {at: asdict(outcome) for at, outcome in self.outcomes.items()},
            "checks": self.checks,
        }
        RECORDS.mkdir(parents=True, exist_ok=True)
        beside = SESSION.with_suffix(".part")
        beside.write_text(json.dumps(kept), encoding="utf-8")
        beside.replace(SESSION)


def resumed(of: dict[str, Any]) -> Session | None:
    """The kept session, if it is of the same sources, sample and seed."""
    if not SESSION.exists():
        return None
    kept = json.loads(SESSION.read_text(encoding="utf-8"))
    if kept["of"] != of:
        return None
    outcomes = {int(at): Outcome(**outcome) for at, outcome in kept["outcomes"].items()}
    return Session(of, [Mutant(**mutant) for mutant in kept["mutants"]], outcomes, kept["checks"])


def sources() -> str:
    """Of the files that are changed."""
    digest = hashlib.sha256()
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).glob("*.py"))):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


class Choice:
    """Tests of a mutant: those that ran its statement while the map was made, cheapest first, within a budget."""

    def __init__(self, tree: Path, processor_s: dict[str, float], budget_s: float) -> None:
        self.tree, self.processor_s, self.budget_s = tree, processor_s, budget_s
        self.lines = cache(partial(test_map.tests_by_line, PART))
        self.text = cache(lambda file: (tree / file).read_text(encoding="utf-8"))

    def tests(self, mutant: Mutant) -> tuple[list[str], bool]:
        """The tests, and whether they must be collected anew: the line runs while tests are collected.

        Of a line outside of functions: those of the function it belongs to, else any of its file and the importers.
        """
        text = self.text(mutant.file)
        if mutant_runs.in_function(text, mutant.line):
            ran = self.lines(mutant.file)
            contexts = {test for line in mutant_runs.statement(text, mutant.line) for test in ran.get(line, ())}
            return self.within_budget(contexts - {""}), "" in contexts
        body = mutant_runs.called(text, mutant.line, mutant.column)
        if body is not None:
            ran = self.lines(mutant.file)
            return self.within_budget({test for line in body for test in ran.get(line, ())} - {""}), True
        files = [mutant.file, *self.importers(mutant.file)]
        return self.within_budget(set().union(*map(self.of_file, files))), True

    def importers(self, file: str) -> list[str]:
        """Modules of the packages that name this one."""
        module = module_of(file)
        others = (path for package in PACKAGES for path in sorted((self.tree / package).rglob("*.py")))
        return [path.relative_to(self.tree).as_posix() for path in others if module in path.read_text(encoding="utf-8")]

    def of_file(self, file: str) -> set[str]:
        """Tests that ran a line of the file."""
        return {test for tests in self.lines(file).values() for test in tests if test}

    def within_budget(self, contexts: set[str]) -> list[str]:
        named = {name for name in self.processor_s if name in contexts or file_of(name) in contexts}
        chosen, spent_s = [], 0.0
        for name in sorted(named, key=lambda name: (self.processor_s[name], name)):
            spent_s += self.processor_s[name]
            if chosen and spent_s > self.budget_s:
                break
            chosen.append(name)
        return sorted(chosen, key=lambda name: (self.cost_class(name), file_of(name), self.processor_s[name]))

    def cost_class(self, name: str) -> int:
        """Files change seldom within a class, so that what a file sets up is set up seldom."""
        return sum(self.processor_s[name] > limit_s for limit_s in COST_CLASSES_S)

    def expected_s(self, names: list[str]) -> float:
        return sum(self.processor_s[name] for name in names)


def run(server: Server, session: Session, choice: Choice, until_s: float) -> None:
    """Every mutant without an outcome, until the time is over."""
    for at, mutant in enumerate(session.mutants):
        if at in session.outcomes or time.monotonic() > until_s:
            continue
        session.outcomes[at] = outcome = one(server, mutant, choice)
        if at % CONTROLS_ONE_IN == 0:
            check(server, mutant, outcome, choice, session)
        session.save()
        print(f"{len(session.outcomes)}/{len(session.mutants)} {outcome} {mutant}", flush=True)


def one(server: Server, mutant: Mutant, choice: Choice) -> Outcome:
    """What becomes of a mutant; one whose line no test runs survives untried."""
    names, collect_anew = choice.tests(mutant)
    if not names:
        return Outcome("survived", None, 0.0, 0)
    path, source = choice.tree / mutant.file, mutant.source(choice.tree)
    original = choice.text(mutant.file)
    with mutant_runs.on_disk(path, source):
        if not collect_anew:
            change = partial(mutant_runs.swap, module_of(mutant.file), path, source, original)
            found = server.run(names, choice.expected_s(names), change)
            if found.result != "refused":
                return found
        return anew(names, mutant, choice)


def anew(names: list[str], mutant: Mutant, choice: Choice) -> Outcome:
    """In new processes, of few files since collecting one costs more than its tests: first those that name the module,
    then those with most tests to offer."""
    files = [file for file, _ in Counter(map(file_of, names)).most_common()]
    files.sort(key=lambda file: module_of(mutant.file) not in choice.text(file))
    found = Outcome("survived", None, 0.0, 0)
    for wave in (files[:3], files[3:MOST_FILES]):
        asked = [name for name in names if file_of(name) in wave]
        if asked and found.result == "survived":
            found = mutant_runs.anew(asked, choice.expected_s(asked))
    return found


def module_of(file: str) -> str:
    return "infopt." + file.removesuffix(".py").replace("/", ".")


def check(server: Server, mutant: Mutant, outcome: Outcome, choice: Choice, session: Session) -> None:
    """The same tests pass without the change; and the test that killed does so in a new process."""
    names, _ = choice.tests(mutant)
    control = server.run(names, choice.expected_s(names), lambda: None)
    if names and control.result != "survived":
        raise SystemExit(f"mutation: {control.killer} fails without any change: {control}")
    session.checks["controls"] = session.checks.get("controls", 0) + 1
    if outcome.result == "killed" and outcome.killer in choice.processor_s:
        with mutant_runs.on_disk(choice.tree / mutant.file, mutant.source(choice.tree)):
            confirmed = mutant_runs.anew([outcome.killer], choice.processor_s[outcome.killer]).result != "survived"
        session.checks["confirmed" if confirmed else "not confirmed"] = (
            session.checks.get("confirmed" if confirmed else "not confirmed", 0) + 1
        )


def main() -> None:
    options = arguments()
    kept = test_map.fresh(PART)
    of = {"sources": sources(), "sample": options.sample, "seed": options.seed}
    with tempfile.TemporaryDirectory(prefix="infopt-mutation-") as folder:
        tree = copy_tree(Path(folder))
        session = resumed(of) or Session(of, sample(tree, PACKAGES, options.sample, options.seed), {}, {})
        if options.again:
            session.outcomes = {at: one for at, one in session.outcomes.items() if one.result != "survived"}
        enter(tree)
        choice = Choice(tree, kept["processor_s"], options.budget_s)
        until_s = time.monotonic() + 60 * options.minutes
        server = Server(lambda it: run(it, session, choice, until_s))
        status = pytest.main([*mutant_runs.OPTIONS, *kept["tests"]], plugins=[server])
        if not server.items:
            sys.exit(f"mutation: tests could not be collected (pytest: {status})")
    pairs = [(session.mutants[at], outcome) for at, outcome in sorted(session.outcomes.items())]
    command = f"python trust/mutation.py --sample {options.sample} --seed {options.seed}"
    conclude(figure(pairs, len(session.mutants), session.checks, command, options.seed))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--budget-s", type=float, default=8.0, help="processor time of the tests of one mutant")
    parser.add_argument("--again", action="store_true", help="survivors once more")
    return parser.parse_args()


if __name__ == "__main__":
    main()
