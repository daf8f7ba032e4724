"""Every command that a page shows without its output, in the folder of a reader who has the files it names.

Commands shown with their output are compared by tests/test_docs.py. A block that is not run says why in the comment
above it; a command that measures the machine is checked for its options only.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import reader
from metric_servers import Replay, models, serving

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```sh\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
SERVER = "http://localhost:8000"
# Why a line is not typed here, and which test runs it instead.
ELSEWHERE = {
    r"python3.11 -m venv|\.venv/bin/": "an installation: tests/test_release.py, from a wheel",
    r"(?:infopt|torchrun .*) probe(?! compare)": "measures: test_shown_probes_are_understood, tests/test_cli_probe.py",
    r".*--calibration auto": "a record of this machine: test_shown_plans_take_the_record_of_this_machine",
    r".*infopt completion": "a shell that completes: tests/test_completion.py",
    r"infopt mcp": "a server: tests/test_mcp.py",
    r"helm ": "a renderer: tests/test_gate_ci.py",
}
VERDICTS = (0, 1, 4)
# Minutes of a live server and thousands of simulated requests say nothing more about a page than a few.
BRIEFLY = (
    (rf"{SERVER}(?P<rest>.*)", rf"{SERVER} --interval 100ms --duration 200ms\g<rest>"),
    (r"(?<=200ms)(?P<between>.*) --interval \S+ --duration \S+", r"\g<between>"),
    (r"(?P<ladder>experiment ladder [^|]*)", r"\g<ladder> --requests 100 --seeds 3 "),
    (r"(?P<matrix>experiment matrix [^|]*)", r"\g<matrix> --requests 50 --cell short-short "),
    (r"(?P<simulated>search .*--simulate)\b", r"\g<simulated> --simulate-requests 200"),
    (r"(?P<drawn>infopt simulate (?!.*--(?:requests|limit|trace))[^|]*)", r"\g<drawn> --requests 300 "),
    (r"(?P<traced>infopt simulate (?!.*--(?:requests|limit)).*--trace \S+)", r"\g<traced> --limit 500"),
)


def blocks(page: Path) -> Iterator[re.Match[str]]:
    return BLOCK.finditer(page.read_text(encoding="utf-8"))


def lines(text: str) -> list[str]:
    """Commands of a block, without comments, joined where a line goes on."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [line for line in (re.sub(r"\s+# .*|^#.*", "", line).strip() for line in joined.splitlines()) if line]


def shown() -> list[str]:
    """Every command of a block that is run, once."""
    texts = [found["text"] for page in PAGES for found in blocks(page) if not found["reason"]]
    return sorted({line for text in texts for line in lines(text)})


def elsewhere(command: str) -> str | None:
    return next((reason for pattern, reason in ELSEWHERE.items() if re.match(pattern, command)), None)


TYPED = [command for command in shown() if elsewhere(command) is None]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reader.furnished(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Metrics that were recorded, in turn."""
    texts = [(reader.COPIED[name]).read_bytes() for name in ("before.txt", "after.txt")]
    with serving(Replay({"/metrics": texts, "/v1/models": models()})) as url:
        yield url


@pytest.mark.parametrize("command", TYPED)
def test_shown_commands_run(command: str, furnished: Path, server: str, tmp_path: Path) -> None:
    if "| jq" in command and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    folder = tmp_path / "work"
    shutil.copytree(furnished, folder)
    done = reader.typed(briefly(command).replace(SERVER, server), folder, tmp_path / "bin")
    if "pip install 'infopt[" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode in VERDICTS, done.stderr
    assert "Traceback" not in done.stderr
    assert told(done, folder), "it says nothing and writes nothing"


def briefly(command: str) -> str:
    """The same command, of a moment."""
    for pattern, replacement in BRIEFLY:
        command = re.sub(pattern, replacement, command)
    return command


def test_a_moment_of_a_server() -> None:
    asked = briefly(f"infopt observe {SERVER} --model 8b --interval 10s --duration 5m --out o.json")
    assert asked == f"infopt observe {SERVER} --interval 100ms --duration 200ms --model 8b --out o.json"


def told(done: subprocess.CompletedProcess[str], folder: Path) -> bool:
    """Whether a command printed something that is not null, or wrote a file."""
    newest = max(path.stat().st_mtime for path in folder.rglob("*") if path.is_file())
    return done.stdout.strip() not in ("", "null") or newest > (folder / "config.json").stat().st_mtime


def test_every_line_is_a_command_of_ours() -> None:
    strange = [command for command in TYPED if not command.startswith("infopt ")]
    assert not strange, "run nowhere: say why in a comment above the block, <!-- not run: REASON -->"


def test_what_is_not_run_says_why() -> None:
    reasons = [found["reason"] for page in PAGES for found in blocks(page) if found["reason"]]
    assert all(len(reason.split()) >= 4 for reason in reasons)
    for pattern, reason in ELSEWHERE.items():
        assert any(re.match(pattern, command) for command in shown()), reason
        for test in re.findall(r"tests/\S+\.py", reason):
            assert (ROOT / test).is_file(), test


def test_no_command_hides_in_an_indented_block() -> None:
    """Only fenced blocks are run: an indented command would be shown and never tried."""
    for page in PAGES:
        if page.name == "CONTRIBUTING.md":
            continue  # tests/test_contributing.py walks through it
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert not re.findall(r"^ {4}(?:\$ )?(?:infopt|pip|python) .*$", prose, re.MULTILINE), page.name
