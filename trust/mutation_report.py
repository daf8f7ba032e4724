"""The figure of `mutation.py`: how many mutants died, which did not and why, by file."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from figure import ROOT, Figure
from mutant_runs import Outcome
from mutants import Mutant

LEAST_SHARE = 0.85
EXPLAINED = Path(__file__).resolve().parent / "survivors.yaml"
DIED = ("killed", "timeout")
Pair = tuple[Mutant, Outcome]


@dataclass(frozen=True)
class Explanation:
    """Why a mutant survives, found by the text of its line.

    kind  `equivalent`: no test can tell; `elsewhere`: one tells that the map does not name; `gap`: one could tell
    """

    file: str
    before: str
    after: str
    kind: str
    why: str


def explanations() -> dict[tuple[str, str, str], Explanation]:
    entries: list[dict[str, Any]] = yaml.safe_load(EXPLAINED.read_text(encoding="utf-8")) or []
    read = [Explanation(**entry) for entry in entries]
    return {(one.file, one.before, one.after): one for one in read}


def figure(pairs: list[Pair], drawn: int, checks: dict[str, int], command: str, seed: int) -> Figure:
    """Of the mutants that were run. It holds where enough died and every survivor is explained by an entry in use."""
    died = sum(outcome.result in DIED for _, outcome in pairs)
    timeouts = sum(outcome.result == "timeout" for _, outcome in pairs)
    known = explanations()
    rows = [survivor(mutant, known) for mutant, outcome in pairs if outcome.result not in DIED]
    unexplained = sum(row[2] == "" for row in rows)
    stale = [one for one in known.values() if not stands(one)]
    share = died / len(pairs) if pairs else 0.0
    kinds = Counter(row[2].partition(":")[0] for row in rows)
    return Figure(
        name="mutation",
        claim=f"at least {LEAST_SHARE:.0%} of small changes of ledgers/ and boundaries/ fail a test; "
        "the others are explained",
        figure=f"{share:.1%} of {len(pairs)} mutants died ({died - timeouts} killed, {timeouts} timeouts, "
        f"{len(rows)} survived: {kinds['equivalent']} equivalent, {kinds['elsewhere']} noticed by other tests, "
        f"{kinds['gap']} gaps, {unexplained} unexplained)",
        holds=share >= LEAST_SHARE and not unexplained and not stale and not checks.get("not confirmed"),
        command=command,
        seed=seed,
        limits=[*limits(pairs, drawn, checks), *(f"stale explanation: {one.file}: {one.before}" for one in stale)],
        table=[["survivor", "change", "why"], *rows],
    )


def survivor(mutant: Mutant, known: dict[tuple[str, str, str], Explanation]) -> list[str]:
    before, after = mutant.change(ROOT)
    found = known.get((mutant.file, before, after))
    why = f"{found.kind}: {found.why}" if found else ""
    return [f"{mutant.file}:{mutant.line} {mutant.operator}", f"`{shown(before)}` -> `{shown(after)}`", why]


def shown(lines: str) -> str:
    return lines.replace("\n", " / ") or "(nothing)"


def stands(one: Explanation) -> bool:
    """Whether the line that an entry explains is still there."""
    path = ROOT / one.file
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return all(part in lines for part in one.before.splitlines())


def limits(pairs: list[Pair], drawn: int, checks: dict[str, int]) -> list[str]:
    """By folder and file, and what was checked of the check."""
    controls, confirmed = checks.get("controls", 0), checks.get("confirmed", 0)
    lines = [
        f"{len(pairs)} of {drawn} drawn mutants were run; each met the tests that run its line, cheapest first, up to "
        "a budget of processor time, without the tests that `trust/test_map.yaml` sets aside or that need `../shared`",
        "left out: changes of annotations, and arithmetic turned into bit operations (any float would notice)",
        "tests were written for what survived of the sample of seed 10, so a sample of another seed dies less often",
        f"controls: {controls} times the tests of a mutant passed on the unchanged code; {confirmed} of "
        f"{confirmed + checks.get('not confirmed', 0)} kills in a fork were kills in a new process too",
    ]
    folders = sorted({mutant.file.partition("/")[0] for mutant, _ in pairs})
    return [*lines, *(f"died, by file of {folder}/: {by_file(pairs, folder)}" for folder in folders)]


def by_file(pairs: list[Pair], folder: str) -> str:
    run: Counter[str] = Counter(mutant.file for mutant, _ in pairs if mutant.file.startswith(folder))
    died: Counter[str] = Counter(mutant.file for mutant, outcome in pairs if outcome.result in DIED)
    return ", ".join(f"{Path(file).stem} {died[file]}/{number}" for file, number in sorted(run.items()))
