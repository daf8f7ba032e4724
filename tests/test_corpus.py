"""Every kept input of the fuzzer through its reader: a result or one line, in time, in memory, without a warning.

`tests/corpus/TARGET/found-...` broke the rule once; `trust/fuzzing.py` finds more.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from infopt.errors import InfoptError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "trust"))
try:
    from fuzz.mutation import mutated
    from fuzz.table import TARGETS
    from fuzz.target import CORPUS, MOST_SEED_BYTES, Target
    from fuzz.watch import MOST_BYTES, MOST_SECONDS, shrunk, watched
finally:
    sys.path.remove(str(ROOT / "trust"))

MOST_CORPUS_BYTES = 1_000_000
KEPT = [(target, path) for target in TARGETS.values() for path in target.corpus()]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own: a target may go elsewhere, as a command line is run where it may write."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("target", "path"), KEPT, ids=[f"{target.name}/{path.name}" for target, path in KEPT])
def test_a_kept_input_gives_a_result_or_one_line(target: Target, path: Path) -> None:
    seen = watched(target, path.read_bytes())
    assert seen.broken == "", seen.trace
    assert seen.seconds < MOST_SECONDS
    assert seen.grown_bytes < MOST_BYTES


def test_every_target_has_inputs_and_every_input_a_target() -> None:
    folders = {folder.name for folder in CORPUS.iterdir()}
    assert folders == set(TARGETS)
    assert all(target.corpus() for target in TARGETS.values())


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for _, path in KEPT]
    assert sum(sizes) < MOST_CORPUS_BYTES
    assert max(sizes) <= MOST_SEED_BYTES


def test_the_watch_sees_what_breaks_the_rule() -> None:
    """An exception, a warning, an error of several lines, a loop, memory: each is told, and where."""

    def several_lines(data: bytes) -> None:
        error = InfoptError("x")
        error.args = ("a\nb",)
        raise error

    def told(call: Callable[[bytes], object]) -> str:
        return watched(Target("made", "lines", call), b"1").broken

    assert told(lambda data: {}[data]).endswith(": KeyError")
    assert told(lambda data: warnings.warn("old", DeprecationWarning, stacklevel=1)).endswith(": DeprecationWarning")
    assert told(several_lines).endswith("an error of several lines")
    assert told(lambda data: len(b"x" * (MOST_BYTES + 50_000_000))) == "made: took more than 500 MB"
    assert told(int) == ""


def test_a_loop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.watch.MOST_SECONDS", 0.1)

    def endless(data: bytes) -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    assert watched(Target("made", "lines", endless), b"").broken.endswith("more than 0.1 s")


def test_one_seed_draws_the_same_inputs() -> None:
    for target in TARGETS.values():
        pool = target.seeds()
        drawn = [[mutated(target.form, pool[0], pool[-1], rng) for _ in range(20)] for rng in (Random(3), Random(3))]
        assert drawn[0] == drawn[1]
        assert len(set(drawn[0])) > 5


def test_an_input_is_made_smaller_as_long_as_it_breaks_the_same() -> None:
    def call(data: bytes) -> None:
        if b"bad" in data:
            raise KeyError

    target = Target("made", "lines", call)
    data = b"good " * 20 + b"bad" + b" good" * 20
    assert shrunk(target, data, watched(target, data).broken) == b"bad"
