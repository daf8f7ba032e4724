"""Files made to break a reader: each is refused or bounded in time and memory with one line, the others are checked.

Time is processor time, so that a busy machine fails nothing; the bounds are those of the product, not of this machine.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gate_files import POD
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.gate.check import gate
from infopt.gate.limits import within
from infopt.gate.policy import Policy
from infopt.reports.gate_words import Strictness
from infopt.reports.render_gate import render_gate

pytestmark = pytest.mark.xdist_group("hostile")  # one child for all of them
MOST_SECONDS, MOST_MEMORY_BYTES = 5.0, 500_000_000
HEAD = POD[: POD.index("    args:")]
SCRIPT = HEAD + "    command: [sh, -c]\n    args:\n    - |\n"


def many(form: str, count: int) -> str:
    return "".join(form.replace("%", str(number)) for number in range(count))


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40))
MERGES = "a: &a\n" + many("  k%: 1\n", 1000) + many("b%:\n  <<: *a\n", 40_000)
# Content, and a word of the one line that refuses it; "" where the file is merely large, and read.
HOSTILE: dict[str, tuple[str, str]] = {
    "large": ("a: " + "x" * 10_000_000, "more than the 10,000,000"),
    "stream": (("---\n" + POD) * 10_000, "YAML documents"),
    "aliases": (BOMB + POD, ""),
    "merges": (MERGES, "too many keys"),
    "flow sequence": ("[" * 1_000_000, "nest"),
    "flow mapping": ("{a: " * 500_000, "nested more than"),
    "block sequence": ("- " * 500_000, "nested more than"),
    "block mapping": ("\n".join(" " * depth + "a:" for depth in range(2000)), "nested more than"),
    "self alias": ("a: &a\n  spec: *a\n  containers: [*a]\n  kind: Pod\n" + POD, ""),
    "values": (HEAD + "    args: [" + "--model, " * 600_000 + "x]\n", "YAML values"),
    "arguments": (HEAD + "    args:\n" + many("    - --flag%=1\n", 50_000), "arguments"),
    "containers": (
        HEAD.replace("  - name", "  - &c\n    name") + "    args: [--model, x]\n" + "  - *c\n" * 90_000,
        "containers",
    ),
    "words": (SCRIPT + "      vllm serve x " + "--foo bar; " * 200_000 + "\n", ""),
    "brackets": (SCRIPT + "      " + "$((" * 300_000 + "\n", ""),
    "doubling": (
        HEAD + "    args: [--model, $(A0)]\n    env:\n" + many("    - {name: A%, value: $(A1)$(A2)$(A%)$(A0)}\n", 3000),
        "",
    ),
    "one word": (HEAD + "    args: [--" + "a" * 700_000 + "]\n", ""),
    "digits": (HEAD + "    args: [--max-model-len, '" + "9" * 700_000 + "']\n", ""),
    "secrets": ('{"kind": "Secret", "data": {' + many('"k%": "abcdefgh%", ', 25_000) + '"z": "zzzzzzzzz"}}', ""),
    "tokens": ("token: " + "eyJ-" * 500_000, ""),
    "comments": ("# infopt: ignore[tight]\n" * 80_000 + POD, ""),
    "binary": ("\x7fELF\0\1" + POD, "is binary"),
    "late zero": (POD + "x" * 20_000 + "\0", "is binary"),
    "tabs": (POD.replace("    args", "\targs"), "not readable as YAML"),
    "control": (POD + "a: \x07\n", "not readable as YAML"),
    "tag": (POD + "--- !!python/object/apply:os.system ['touch /tmp/infopt-was-here']\n", ""),
}
CHILD = """
import json, resource, sys, time
from infopt.gate.check import gate
from infopt.gate.policy import Policy
from infopt.reports.gate_words import Strictness
from infopt.reports.render_gate import render_gate
def peak_bytes():
    # ru_maxrss begins with the memory of the process that forked this one: Linux keeps it across exec.
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
good, *files = sys.argv[1:]
gate([good], Policy())
for file in files:
    started = time.process_time()
    found = gate([file, good], Policy())
    print(json.dumps({"file": file, "errors": found.errors, "seconds": time.process_time() - started,
        "checked": [one.case.deployment.file for one in found.checked],
        "memory_bytes": peak_bytes()}), flush=True)
"""


def in_a_child(good: Path, files: list[Path]) -> dict[str, dict[str, Any]]:
    """The gate over each file beside a good one, in a process that the system kills where it takes too much."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))

    command = [sys.executable, "-c", CHILD, str(good), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, preexec_fn=limit)
    answers = map(json.loads, done.stdout.splitlines())
    return {Path(answer["file"]).stem: answer for answer in answers}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the gate says of every hostile file, by name; one that ends the process has no answer."""
    folder = tmp_path_factory.mktemp("hostile")
    good = folder / "zz-good.yaml"
    good.write_text(POD)
    files = [folder / f"{name}.yaml" for name in HOSTILE]
    for file in files:
        file.write_text(HOSTILE[file.stem][0])
    return in_a_child(good, files)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "zz-good.yaml"
    file.write_text(POD)
    return file


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_bounded_and_the_next_is_checked(answers: dict[str, dict[str, Any]], name: str) -> None:
    answer, words = answers[name], HOSTILE[name][1]
    assert [file for file in answer["checked"] if file.endswith("zz-good.yaml")]
    assert answer["seconds"] < MOST_SECONDS
    assert answer["memory_bytes"] < MOST_MEMORY_BYTES
    if words:
        assert len(answer["errors"]) == 1
        assert words in answer["errors"][0]
    for error in answer["errors"]:
        assert error.startswith(answer["file"])
        assert len(error) < 400
        assert "\n" not in error
        assert "bug" not in error
    assert not Path("/tmp/infopt-was-here").exists()


def one_error(file: Path, good: Path) -> str:
    found = gate([str(file), str(good)], Policy())
    assert [one.case.deployment.file for one in found.checked] == [str(good)]
    assert len(found.errors) == 1
    return found.errors[0]


def test_what_is_no_regular_file(tmp_path: Path, good: Path) -> None:
    pipe, loop, folder = tmp_path / "pipe.yaml", tmp_path / "loop.yaml", tmp_path / "folder.yaml"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    folder.mkdir()
    assert "is no file" in one_error(pipe, good)
    assert "symbolic links" in one_error(loop, good)
    assert "is no file" in one_error(Path("/dev/zero"), good)
    assert "no such file" in one_error(tmp_path / "missing.yaml", good)
    assert "cannot be read" in one_error(Path("a" * 5000), good)
    assert gate([str(folder), str(good)], Policy()).errors == ()


def test_a_folder_with_a_loop_and_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "a" / "pipe.yaml")
    (tmp_path / "a" / "pod.yaml").write_text(POD)
    found = gate([str(tmp_path)], Policy())
    assert len(found.checked) == 1
    assert [error.endswith("is no file") for error in found.errors] == [True]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything; the next test drops to another user")
def test_unreadable(tmp_path: Path, good: Path) -> None:
    file = tmp_path / "closed.yaml"
    file.write_text(POD)
    file.chmod(0)
    assert "permission denied" in one_error(file, good)


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system says it: root would list it."""
    closed = tmp_path / "closed"
    closed.mkdir()
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = gate([str(tmp_path)], Policy())
    assert found.errors == (f"{closed}: cannot be read: permission denied",)
    assert len(found.checked) == 1


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe" + POD.encode("utf-16-le"), POD.encode() + b"a: \xe9\n", b"\x80\x81"],
    ids=["UTF-16", "latin 1", "bytes"],
)
def test_other_encodings_are_refused(tmp_path: Path, good: Path, content: bytes) -> None:
    file = tmp_path / "pod.yaml"
    file.write_bytes(content)
    assert "is not UTF-8" in one_error(file, good) or "is binary" in one_error(file, good)


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf" + POD.encode(), POD.replace("\n", "\r\n").encode()], ids=["BOM", "CRLF"]
)
def test_other_ways_to_write_text_are_read_alike(tmp_path: Path, good: Path, content: bytes) -> None:
    file = tmp_path / "pod.yaml"
    file.write_bytes(content)
    one, other = gate([str(file), str(good)], Policy()).checked
    assert one.verdict == other.verdict == "pass"
    assert [(f.rule, f.line, f.column) for f in one.findings] == [(f.rule, f.line, f.column) for f in other.findings]


def test_a_name_that_is_not_utf8_reaches_every_form(tmp_path: Path) -> None:
    file = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    Path(file).write_text(POD)
    found = gate([file], Policy())
    assert "%FF.yaml" in render_gate(found, "sarif", Strictness())
    for form in ("json", "junit", "github", "gitlab", "md", "table"):
        assert render_gate(found, form, Strictness())


def test_empty_files_hold_nothing(tmp_path: Path) -> None:
    for number, content in enumerate(["", "\n", "# nothing\n", "---\n---\n", "null\n", "3\n", "[]\n"]):
        (tmp_path / f"{number}.yaml").write_text(content)
    found = gate([str(tmp_path)], Policy())
    assert (found.errors, found.checked) == ((), ())


def test_the_clock_stops_what_takes_too_long() -> None:
    def burn(for_s: float) -> None:
        end = time.process_time() + for_s
        while time.process_time() < end:
            pass

    def handle() -> None:
        with contextlib.suppress(Exception):
            burn(5)
        pytest.fail("a handler on the way took it")

    with pytest.raises(InfoptError, match=r"a\.yaml: takes more than"), within("a.yaml", 0.05):
        handle()
    with within("outer", 0.2):
        with within("inner", 5):
            burn(0.3)
        burn(0.01)
    burn(0.3)


INSERTS = st.sampled_from(
    ["{", "}", "[", "]", ":", "- ", "\n", "  ", "&a ", "*a", "<<: *a", "!!binary ", "|", ">", "'", '"', "#", "\t", "~",
     "null", "-1", "1e400", "9" * 30, "é", "\u2028", "$(A)", "${A:-b}", "`id`", "--", "---\n", "{{ x }}", "%", "\\"]
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_files_give_a_result_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    script = SCRIPT + "      vllm serve x --max-model-len 8k \\\n       --tp 2\n"
    text = data.draw(st.sampled_from([POD, script, POD + "---\n" + POD]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(INSERTS) + text[at + cut :]
    file = tmp_path / "pod.yaml"
    file.write_text(text, encoding="utf-8")
    found = gate([str(file)], Policy())
    assert not [error for error in found.errors if "bug of infopt" in error]


def test_a_part_of_a_number_is_a_finding(tmp_path: Path) -> None:
    """`--tensor-parallel-size.x 2`: what mutated files found."""
    file = tmp_path / "pod.yaml"
    file.write_text(POD.replace('"--max-model-len=8192"', "--tensor-parallel-size.x, '2'"))
    found = gate([str(file)], Policy())
    assert found.errors == ()
    assert any("no part 'x'" in finding.message for finding in found.findings)
