"""`gate --html`: figures are those of --json, texts of files stay texts, a page stays small and says how."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from html_page import check_figures, read_page

from infopt.cli import run
from infopt.gate.check import Checked, Gate, gate
from infopt.gate.finding import Finding
from infopt.gate.policy import Policy
from infopt.gate.rules.registry import by_id
from infopt.reports.gate_json import as_dict
from infopt.reports.pages.gate_findings import within
from infopt.reports.pages.gate_page import MOST_CHARTS, gate_page
from infopt.reports.pages.page import page_text

RULES = Path(__file__).resolve().parent / "gate" / "rules"
MOST_BYTES = 1_500_000
FOLDERS = ("tight", "does-not-fit", "suppression-reason", "suppression-expired", "spills-to-cpu", "flags")
HOSTILE = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: '<script>window.hacked=1</script>"<img src=x onerror=window.hacked=1>'
spec:
  template:
    spec:
      containers:
        - image: vllm/vllm-openai:v0.19.1
          args: [--model, 'javascript:alert(1)/</script><svg onload=window.hacked=1>--><!--', --max-model-len,
            '</script><b>9\u2028</b>']
          resources: {limits: {nvidia.com/gpu: "1"}}
"""


def written(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, Any]:
    """Exit status, page and what --json printed."""
    path = tmp_path / "page.html"
    status = run(["gate", *arguments, "--html", str(path), "--json"])
    return status, read_page(path), json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("folder", FOLDERS)
def test_figures_of_the_page_are_those_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str) -> None:
    status, page, printed = written(tmp_path, capsys, str(RULES / folder))
    assert run(["gate", str(RULES / folder), "--json"]) == status
    assert json.loads(capsys.readouterr().out) == printed == page.result
    check_figures(page, printed)


def test_the_memory_of_a_plan_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, page, printed = written(tmp_path, capsys, str(RULES / "does-not-fit"))
    assert status == 1
    for number, one in enumerate(printed["deployments"]):
        memory = one["plan"]["memory"]
        chart = page.charts[f"memory-{number}"]
        parts = {name: end - start for series in chart["series"] for name, start, end in series["points"]}
        (line,) = chart["lines"]
        assert line["value"] == memory["capacity_bytes_per_gpu"]
        assert parts["weights"] == pytest.approx(memory["weights_bytes_per_gpu"])
        missing = memory["used_bytes_per_gpu"] - memory["capacity_bytes_per_gpu"]
        assert parts["free" if missing <= 0 else "missing"] == pytest.approx(abs(missing))


def test_every_finding_stands_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, page, printed = written(tmp_path, capsys, *(str(RULES / folder) for folder in FOLDERS))
    words = " ".join(page.text.split())
    assert printed["findings"]
    for finding in printed["findings"]:
        for text in (finding["message"], finding["detail"], finding["remedy"]):
            assert text is None or " ".join(text.split()) in words
        if finding["suppressed"]:
            assert f"Accepted: {finding['suppressed']['reason']}" in words
        assert f"rule-{finding['rule']}" in {a.get("id") for tag, a in page.tags if tag == "span"}
    links = {a["href"] or "" for tag, a in page.tags if tag == "a"}
    assert {link for link in links if link.startswith("#rule-")} == {
        f"#rule-{finding['rule']}" for finding in printed["findings"]
    }


def test_unreadable_and_unknown_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [1\n", encoding="utf-8")
    unknown = tmp_path / "unknown.yaml"
    unknown.write_text(HOSTILE.replace("window.hacked=1", "1"), encoding="utf-8")
    status, page, printed = written(tmp_path, capsys, str(bad), str(unknown))
    assert status == 1
    assert "Could not be read" in page.text
    assert all(error in page.text for error in printed["unreadable"])
    (one,) = printed["deployments"]
    assert one["unknown"]
    assert all(item["fact"] in page.text for item in one["unknown"])


def test_nothing_found_is_a_page_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.yaml").write_text("a: 1\n", encoding="utf-8")
    status, page, _ = written(tmp_path, capsys, str(tmp_path / "plain.yaml"))
    assert status == 3
    assert "NOTHING TO CHECK" in page.text


def test_texts_of_files_stay_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "<img src=x onerror=window.hacked=1>.yaml"
    file.write_text(HOSTILE, encoding="utf-8")
    _, page, printed = written(tmp_path, capsys, str(file))
    assert not {"img", "b", "svg", "iframe"} & {tag for tag, _ in page.tags}
    assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert all((a["href"] or "").startswith("#") for tag, a in page.tags if tag == "a")
    assert "<script>window.hacked=1</script>" in page.text
    assert page.result == printed
    scripts = [a for tag, a in page.tags if tag == "script" and "type" not in a]
    assert all(not attributes for attributes in scripts)


def test_control_characters_are_written_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(
        HOSTILE.replace("window", "\\e[31m\\u202e")
        .replace("'<", '"<')
        .replace("1>'\nspec", '1>"\nspec')
        .replace('"<img', "<img"),
        encoding="utf-8",
    )
    _, page, _ = written(tmp_path, capsys, str(tmp_path / "a.yaml"))
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


@pytest.fixture(scope="module")
def one_checked() -> Checked:
    """A deployment with a plan and findings."""
    found = gate([str(RULES / "tight" / "bad.yaml")], Policy())
    (one,) = found.checked
    assert one.case.plan is not None
    assert one.findings
    return one


def many(one: Checked, files: int, findings: int, mangle: Callable[[Finding, int], Finding]) -> Gate:
    """The deployment in so many files, with so many findings in all."""
    made = []
    for number in range(files):
        place = f"k8s/team-{number % 37}/deployment-{number:05}.yaml"
        deployment = replace(one.case.deployment, file=place)
        mine = [mangle(replace(one.findings[0], file=place), i) for i in range(number, findings, files)]
        made.append(replace(one, case=replace(one.case, deployment=deployment), findings=tuple(mine)))
    return Gate((), tuple(made))


@pytest.mark.parametrize(("files", "findings"), [(1000, 5000), (1, 5000), (20_000, 0)])
def test_a_page_stays_small_and_says_what_it_leaves_out(one_checked: Checked, files: int, findings: int) -> None:
    rules = tuple(by_id())
    found = many(one_checked, files, findings, lambda f, i: replace(f, rule=rules[i % len(rules)], line=i + 1))
    text = page_text(gate_page(found, "infopt gate k8s"))
    assert len(text.encode()) < MOST_BYTES
    assert "left out here: infopt gate --json prints all of it." in text
    assert "the verdict and the counts alone" in text
    counts = as_dict(found)["counts"]
    assert f'"counts":{json.dumps(counts, separators=(",", ":"))}' in text
    assert text.count('<figure class="chart waterfall"') <= MOST_CHARTS


def test_what_is_left_out_is_counted(tmp_path: Path, one_checked: Checked) -> None:
    found = many(one_checked, 1000, 5000, lambda f, i: replace(f, line=i + 1))
    path = tmp_path / "page.html"
    path.write_text(page_text(gate_page(found, "infopt gate k8s")), encoding="utf-8")
    page = read_page(path)
    left = [int(number) for number in re.findall(r"(?<!\d)(\d{1,3}) more deployments left out", page.text)]
    sections = sum(1 for tag, a in page.tags if tag == "p" and "verdict" in (a.get("class") or "")) - 1
    assert left == [1000 - sections]  # the overview has room for all of them
    assert sections > 10


def test_graver_verdicts_come_first(one_checked: Checked) -> None:
    found = many(one_checked, 3, 3, lambda f, i: replace(f, severity="error" if i == 2 else "note"))
    text = page_text(gate_page(found, "infopt gate k8s"))
    assert text.index("deployment-00002") < text.index("deployment-00000")


def test_within_keeps_one_at_least() -> None:
    assert within(3, [("abcd",), ("e",)]) == ([("abcd",)], 1)
    assert within(5, [("abcd",), ("e",)]) == ([("abcd",), ("e",)], 0)
    assert within(4, [("abcd",), ("e",)]) == ([("abcd",)], 1)
    assert within(3, []) == ([], 0)
