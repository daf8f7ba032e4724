"""What `gate` prints in every form, and the status it ends with.

The fixtures in gate/outputs are checked by the first rules only, so that pages and statuses here are about the form and
not about which rules there are. UPDATE_GOLDEN=1 writes the pages anew.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.cli import run
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.rules.registry import rules
from infopt.reports import gate_github
from infopt.reports.gate_words import clean
from infopt.reports.schemas import schema_text

HERE = Path(__file__).resolve().parent
FIXTURES, GOLDEN = HERE / "gate" / "outputs", HERE / "golden" / "gate"
SARIF = json.loads((HERE / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
FORMS = ("table", "json", "sarif", "junit", "github", "gitlab", "md")
FEW = {"does-not-fit", "no-full-request", "tight", "placement", "gpus-granted", "flags", "unpinned-image"}
ALL = ("fails.yaml", "passes.yaml", "several.yaml", "undetermined.yaml")
SECRET = "sk-fixture-0123456789abcdef"
ANSI = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(autouse=True)
def few_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(rule for rule in rules() if rule.id in FEW)
    monkeypatch.setattr("infopt.gate.check.rules", lambda: few)
    monkeypatch.chdir(FIXTURES)
    monkeypatch.setenv("COLUMNS", "80")


def gated(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = run(["gate", *arguments])
    return status, capsys.readouterr().out


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return gated(capsys, *arguments)[1]


PAGES: list[tuple[str, int, Sequence[str]]] = [
    ("passes", 80, ("passes.yaml",)),
    ("fails", 80, ("fails.yaml",)),
    ("undetermined", 80, ("undetermined.yaml",)),
    ("several", 80, ("several.yaml",)),
    ("several", 50, ("several.yaml",)),
    ("markdown", 80, (*ALL, "--format", "md")),
    ("github", 80, (*ALL, "--format", "github")),
    ("junit", 80, (*ALL, "--format", "junit")),
]


@pytest.mark.parametrize(("name", "width", "arguments"), PAGES, ids=[f"{name}-{width}" for name, width, _ in PAGES])
def test_golden_page(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    width: int,
    arguments: Sequence[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = printed(capsys, *arguments)
    path = GOLDEN / f"{name}_{width}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# Exit statuses (DESIGN section 3)

WARNED = "image: vllm/vllm-openai:v0.10.2", "image: vllm/vllm-openai:latest"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the fixtures, with files that are not deployments or cannot be read."""
    for name in ALL:
        (tmp_path / name).write_text((FIXTURES / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "warned.yaml").write_text((tmp_path / "passes.yaml").read_text().replace(*WARNED), encoding="utf-8")
    (tmp_path / "nothing.yaml").write_text("kind: ConfigMap\ndata: {a: b}\n", encoding="utf-8")
    (tmp_path / "broken.yaml").write_text("kind: Deployment\n  spec: {\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("passes.yaml",), 0),
        (("fails.yaml",), 1),
        (("broken.yaml",), 2),
        (("not-there.yaml",), 2),
        (("nothing.yaml",), 3),
        (("undetermined.yaml",), 4),
        # of several inputs
        (("passes.yaml", "nothing.yaml"), 0),
        (("passes.yaml", "undetermined.yaml"), 4),
        (("passes.yaml", "broken.yaml"), 2),
        (("undetermined.yaml", "broken.yaml"), 2),
        (("nothing.yaml", "broken.yaml"), 2),
        (("passes.yaml", "undetermined.yaml", "broken.yaml", "fails.yaml"), 1),
        # options
        (("undetermined.yaml", "--allow-undetermined"), 0),
        (("undetermined.yaml", "--gpu", "l40s"), 0),
        (("undetermined.yaml", "broken.yaml", "--allow-undetermined"), 2),
        (("nothing.yaml", "--allow-empty"), 0),
        (("undetermined.yaml", "--allow-empty"), 4),
        (("warned.yaml",), 0),
        (("warned.yaml", "--fail-on", "warning"), 1),
        (("passes.yaml", "--fail-on", "warning"), 0),
        (("passes.yaml", "--format", "nonsense"), 2),
        (("passes.yaml", "--gpu", "nonsense-9000"), 2),
        ((), 2),
    ],
    ids=lambda value: value if isinstance(value, int) else " ".join(value),
)
def test_exit_status(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    arguments: Sequence[str],
    status: int,
) -> None:
    monkeypatch.chdir(folder)
    assert gated(capsys, *arguments)[0] == status


@pytest.mark.parametrize("form", FORMS)
def test_the_status_does_not_depend_on_the_form(capsys: pytest.CaptureFixture[str], form: str) -> None:
    for name, status in (("passes.yaml", 0), ("fails.yaml", 1), ("undetermined.yaml", 4)):
        assert gated(capsys, name, "--format", form)[0] == status


def test_what_cannot_be_read_is_one_line_and_the_rest_is_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.chdir(folder)
    assert run(["gate", "broken.yaml", "fails.yaml"]) == 1
    out, err = capsys.readouterr()
    assert re.fullmatch(r"infopt: broken\.yaml:2:\d+: not readable as YAML: [^\n]+\n", err)
    assert "error[does-not-fit]" in out
    assert "1 unreadable" in out


# Every form


@pytest.mark.parametrize("form", FORMS)
def test_no_secret_reaches_an_output(capsys: pytest.CaptureFixture[str], form: str) -> None:
    text = printed(capsys, "several.yaml", "--format", form)
    assert SECRET in (FIXTURES / "several.yaml").read_text(encoding="utf-8")
    assert "flags" in text
    assert SECRET not in text


def test_the_same_files_give_the_same_text() -> None:
    """In two processes whose sets and dicts of strings are ordered differently."""
    code = f"from infopt.cli import run\nfor form in {FORMS!r}: run(['gate', *{ALL!r}, '--format', form])"
    texts = [
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) > 10_000


HOSTILE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: "evil\\e[2J\\r\\n::error::x|<b>@all</b>"}
spec:
  template:
    spec:
      containers:
        - name: "evil\\e[2J\\r\\n::error::x|<b>@all</b>"
          image: vllm/vllm-openai:latest
          args: ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--x\\e[31m\\u202e<b>@all"]
          resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.mark.parametrize("form", FORMS)
def test_text_of_a_file_commands_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    path = tmp_path / "50%,a:b.yaml"
    path.write_text(HOSTILE, encoding="utf-8")
    text = printed(capsys, str(path), "--gpu", "l4", "--format", form)
    assert "flags" in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    if form == "github":
        lines = text.splitlines()
        assert all(re.match(r"::(error|warning|notice) [^:]*::[^\r\n]+$", line) for line in lines[:-1])
        assert "50%25%2Ca%3Ab.yaml" in lines[0]
    if form == "md":
        assert "<b>" not in text
        assert "@all" not in text


# The terminal


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_are_as_wide_as_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """A line may be longer only if it is one word: a path, an image."""
    monkeypatch.setenv("COLUMNS", str(width))
    text = printed(capsys, *ALL)
    assert text
    for line in text.splitlines():
        assert len(line) <= width or " " not in line.strip(), line


def test_colours_are_only_for_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = printed(capsys, *ALL)
    monkeypatch.setattr("infopt.reports.gate_terminal.coloured", lambda: True)
    painted = printed(capsys, *ALL)
    assert "\x1b" not in plain
    assert "\x1b[1;31mFAIL\x1b[0m" in painted
    assert ANSI.sub("", painted) == plain


def test_the_caret_stands_under_the_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Before it a tab, in a line longer than the terminal."""
    text = (FIXTURES / "fails.yaml").read_text(encoding="utf-8")
    option = f'"--max-model-len",\t"8192", "--served-model-name", "{"n" * 70}", "--unheard-of", "x"'
    text = re.sub(r"args:\n +- --max-model-len=8192\n +- --tensor-parallel-size=2", f"args: [{option}]", text)
    path = tmp_path / "long.yaml"
    path.write_text(text, encoding="utf-8")
    lines = printed(capsys, str(path)).splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.strip("| ") == "^" and "unheard" in lines[number - 1]]
    assert lines[at - 1][lines[at].index("^") :].startswith(('"--unheard-of', "--unheard-of"))


def test_a_note_is_one_message_and_fails_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(case: Case) -> Iterator[Hit]:
        yield Hit("worth knowing", detail="the arithmetic")

    noted = Rule("noted", "something", "note", "It is so.", "Know it.", check)
    monkeypatch.setattr("infopt.gate.check.rules", lambda: (noted,))
    status, text = gated(capsys, "passes.yaml", "--fail-on", "warning")
    assert status == 0
    assert "note[noted] worth knowing" in text
    assert "0 errors, 0 warnings, 1 note" in text
    assert "the arithmetic" not in text
    (finding,) = json.loads(printed(capsys, "passes.yaml", "--json"))["findings"]
    assert (finding["detail"], finding["remedy"]) == ("the arithmetic", "Know it.")


# The machine-readable forms


def test_json_follows_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, *ALL, "--json"))
    for name, value in (("gate", data), *(("plan", d["plan"]) for d in data["deployments"] if d["plan"])):
        schema = json.loads(schema_text(name))
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)
    assert data["verdict"] == "fail"
    assert [d["verdict"] for d in data["deployments"]] == ["fail", "pass", "pass", "fail", "undetermined"]
    assert data["counts"]["suppressed"] == sum(f["suppressed"] is not None for f in data["findings"]) == 1
    assert data["deployments"][3]["fits"] is True  # its engine refuses an option: two answers


def test_json_holds_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    """DESIGN section 4, as it stands there."""
    data = json.loads(printed(capsys, *ALL, "--json"))
    assert data["schema"] == "infopt/gate/1"
    deployment = {"file", "name", "engine", "engine_version", "model", "gpus", "hardware", "unknown", "plan"}
    finding = {"rule", "severity", "confidence", "file", "line", "column", "path", "message", "detail", "remedy"}
    assert all(deployment <= set(one) for one in data["deployments"])
    assert all(finding | {"suppressed"} <= set(one) for one in data["findings"])


def test_sarif_follows_the_official_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.chdir(folder)
    log = json.loads(printed(capsys, ".", "--format", "sarif"))
    validator = jsonschema.Draft4Validator(SARIF)
    validator.validate(log)
    (run_,) = log["runs"]
    described = run_["tool"]["driver"]["rules"]
    for result in run_["results"]:
        if result["ruleId"] != "undetermined":
            assert described[result["ruleIndex"]]["id"] == result["ruleId"]
    levels = {result["ruleId"]: result["level"] for result in run_["results"]}
    assert levels["does-not-fit"] == "error"
    assert levels["undetermined"] == "none"
    assert run_["invocations"][0]["executionSuccessful"] is False
    (suppressed,) = [result for result in run_["results"] if "suppressions" in result]
    assert suppressed["suppressions"][0]["justification"] == "a trial, thrown away every night"
    place = suppressed["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "several.yaml", "uriBaseId": "%SRCROOT%"}
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(log)


def test_junit_counts_what_it_holds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.chdir(folder)

    def counts_of(*arguments: str) -> tuple[str | None, ...]:
        root = ElementTree.fromstring(printed(capsys, ".", "--format", "junit", *arguments).encode())
        for suite in root.iter("testsuite"):
            assert int(suite.get("tests", "")) == len(suite.findall("testcase")) > 0
            assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
            assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))
        return tuple(root.get(name) for name in ("tests", "failures", "errors", "skipped"))

    # Six deployments and the broken file, which is an error as the undetermined one is.
    assert counts_of() == ("7", "2", "2", "0")
    assert counts_of("--allow-undetermined") == ("7", "2", "1", "1")
    assert counts_of("--fail-on", "warning") == ("7", "3", "2", "0")


def test_gitlab_fingerprints_stay_when_lines_move(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.chdir(folder)
    before = json.loads(printed(capsys, ".", "--format", "gitlab"))
    prints = [entry["fingerprint"] for entry in before]
    assert len(set(prints)) == len(prints) > 4
    for entry in before:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert not entry["location"]["path"].startswith("./")
    for name in ALL:
        (folder / name).write_text("# one line more\n" + (folder / name).read_text(encoding="utf-8"), encoding="utf-8")
    after = json.loads(printed(capsys, ".", "--format", "gitlab"))
    assert [entry["fingerprint"] for entry in after] == prints
    assert [entry["location"]["lines"] for entry in after] != [entry["location"]["lines"] for entry in before]


def test_equal_findings_have_fingerprints_of_their_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (FIXTURES / "fails.yaml").read_text(encoding="utf-8")
    path = tmp_path / "twice.yaml"
    path.write_text(f"{text}---\n{text}", encoding="utf-8")
    prints = [entry["fingerprint"] for entry in json.loads(printed(capsys, str(path), "--format", "gitlab"))]
    assert len(set(prints)) == len(prints) == 4


def test_a_long_comment_is_cut_and_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infopt.reports.gate_markdown.MOST_CHARACTERS", 900)
    text = printed(capsys, *ALL, "--format", "md")
    assert len(text) < 1000
    assert text.rstrip().endswith("prints all of it.")
    assert text.count("<details>") == text.count("</details>")


@given(st.text())
def test_an_annotation_is_one_line_and_can_be_read_back(text: str) -> None:
    """The runner splits at line ends, then at the first `::`, and undoes the escapes."""
    line = gate_github.command("error", f"k8s/{text}", 1, 1, "rule", text)
    assert "\n" not in line
    assert "\r" not in line
    head, _, data = line.removeprefix("::").partition("::")
    properties = dict(part.split("=", 1) for part in head.removeprefix("error ").split(","))
    unescaped = data.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")
    assert unescaped == text
    file = properties["file"].replace("%3A", ":").replace("%2C", ",")
    file = file.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")
    assert file == os.path.normpath(f"k8s/{text}").replace("\\", "/")


@given(st.text())
def test_cleaned_text_is_one_printable_line(text: str) -> None:
    assert re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u202e]", clean(text)) is None
    assert clean(clean(text)) == clean(text)


def test_standard_input_is_a_file_like_any_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rendered chart on a pipe."""
    with (FIXTURES / "fails.yaml").open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        status, text = gated(capsys, "-", "--format", "sarif")
    assert status == 1
    uris = re.findall(r'"uri": "([^"]+)"', text)
    assert set(uris) == {"stdin"}
    jsonschema.Draft4Validator(SARIF).validate(json.loads(text))


def test_no_form_loads_a_heavy_library(tmp_path: Path) -> None:
    """Rich, numpy and torch stay out of a gate in every form."""
    code = (
        "import sys, os; sys.stdout = open(os.devnull, 'w')\n"
        "from infopt.cli import run\n"
        f"for form in {FORMS!r}: assert run(['gate', 'several.yaml', '--format', form]) == 1\n"
        "heavy = {'torch', 'pandas', 'matplotlib', 'numpy', 'rich'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
