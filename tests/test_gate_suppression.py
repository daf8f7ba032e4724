"""Suppressions in files and policy, and baselines: what they accept, what they do not, and what is said of them."""

import json
from datetime import date
from pathlib import Path

import pytest

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.gate.baseline import fingerprint, read_baseline, write_baseline
from infopt.gate.check import Gate, gate, with_baseline
from infopt.gate.finding import Finding
from infopt.gate.policy import Policy
from infopt.gate.policy_file import read_policy
from infopt.gate.suppression import comments

TODAY = date(2027, 3, 1)
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
  containers:
  - name: server
    image: vllm/vllm-openai:latest
    args:
    - --model=meta-llama/Llama-3.1-8B-Instruct
    - --max-model-len=8192
    resources: {limits: {nvidia.com/gpu: 1}}
"""
SCRIPT = """\
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
  containers:
  - name: server
    image: vllm/vllm-openai:v0.10.0
    command: [sh, -c]
    args:
    - |
      ulimit -n 65536
      vllm serve meta-llama/Llama-3.1-8B-Instruct \\
        --max-model-len 8192 \\
        --max-model-lenght 4096
    resources: {limits: {nvidia.com/gpu: 1}}
"""
IMAGE = "image: vllm/vllm-openai:latest"


def of(tmp_path: Path, text: str, policy: Policy | None = None) -> Gate:
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    return gate([str(file)], policy or Policy(), today=TODAY)


def reasons(found: Gate, rule: str) -> list[str | None]:
    return [finding.suppressed for finding in found.findings if finding.rule == rule]


def about(found: Gate) -> list[tuple[str, str, int]]:
    """Findings about suppressions."""
    return [(f.rule, f.severity, f.line) for f in found.notes]


@pytest.mark.parametrize(
    "text",
    [
        POD.replace(IMAGE, f"{IMAGE}  # infopt: ignore[unpinned-image] the mirror pins it"),
        POD.replace(IMAGE, f"{IMAGE}  # infopt: ignore[tight, unpinned-image]   the mirror pins it"),
        POD.replace(f"    {IMAGE}", f"    # infopt: ignore[unpinned-image] the mirror pins it\n    {IMAGE}"),
        POD.replace(f"    {IMAGE}", f"    #infopt:ignore[unpinned-image] the mirror pins it\n    # more\n    {IMAGE}"),
        POD.replace(IMAGE, f"{IMAGE}  # infopt: ignore[unpinned-image] the mirror pins it").replace("\n", "\r\n"),
    ],
    ids=["on the line", "several", "above", "above, with another comment", "CRLF"],
)
def test_a_comment_with_a_reason_suppresses(tmp_path: Path, text: str) -> None:
    found = of(tmp_path, text)
    assert reasons(found, "unpinned-image") == ["the mirror pins it"]
    assert about(found) == []


def test_without_one_it_is_found(tmp_path: Path) -> None:
    assert reasons(of(tmp_path, POD), "unpinned-image") == [None]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# infopt: ignore[unpinned-image]", [("suppression-reason", "warning", 8)]),
        ("# infopt: ignore[unpined-image] typing", [("suppression-reason", "warning", 8)]),
        ("# infopt: ignore everything", [("suppression-reason", "warning", 8)]),
        ("# infopt: ignore[] everything", [("suppression-reason", "warning", 8)]),
        ("# infopt: ignore[placement] not needed", [("suppression-unused", "note", 8)]),
        ("# noinfopt: ignore[unpinned-image] other", []),
    ],
)
def test_what_is_void_is_a_finding_and_suppresses_nothing(
    tmp_path: Path, comment: str, expected: list[tuple[str, str, int]]
) -> None:
    found = of(tmp_path, POD.replace(IMAGE, f"{IMAGE}  {comment}"))
    assert reasons(found, "unpinned-image") == [None]
    assert about(found) == expected


def test_an_unknown_rule_lists_the_nearest(tmp_path: Path) -> None:
    found = of(tmp_path, POD.replace(IMAGE, f"{IMAGE}  # infopt: ignore[unpined-image] typing"))
    assert "nearest: unpinned-image" in found.notes[0].message


def test_another_line_or_rule_is_not_covered(tmp_path: Path) -> None:
    far = POD.replace("apiVersion: v1", "# infopt: ignore[unpinned-image] too far\napiVersion: v1")
    assert reasons(of(tmp_path, far), "unpinned-image") == [None]


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT.replace("- |", "- |  # infopt: ignore[flags] the image is patched"),
        SCRIPT.replace("    - |", "    # infopt: ignore[flags] the image is patched\n    - |"),
        SCRIPT.replace("      vllm serve", "      # infopt: ignore[flags] the image is patched\n      vllm serve"),
    ],
    ids=["at its head", "above its head", "above the command in it"],
)
def test_a_comment_covers_a_block_scalar_or_a_command(tmp_path: Path, text: str) -> None:
    assert reasons(of(tmp_path, SCRIPT), "flags") == [None]
    assert reasons(of(tmp_path, text), "flags") == ["the image is patched"]


def test_comments_of_other_forms() -> None:
    shell = "# infopt: ignore[tight] small on purpose\nvllm serve x \\\n  --max-model-len 8k\nother"
    assert [(c.first, c.last) for c in comments(shell)] == [(2, 3)]
    python = 'run("vllm serve x")  # infopt: ignore[flags] patched\n'
    assert [(c.rules, c.reason, c.first, c.last) for c in comments(python)] == [(("flags",), "patched", 1, 1)]
    modelfile = "FROM llama3\n# infopt: ignore[tight] demo\nPARAMETER num_ctx 8192\n"
    assert [(c.first, c.last) for c in comments(modelfile)] == [(3, 3)]


def policy(tmp_path: Path, entry: str) -> Policy:
    path = tmp_path / "infopt.yaml"
    path.write_text(f"accept:\n  - {entry}\n")
    return read_policy(path)


@pytest.mark.parametrize(
    ("entry", "reason", "expected"),
    [
        ("{rule: unpinned-image, match: pod.yaml, reason: mirrored, until: 2027-03-01}", "mirrored", []),
        ("{rule: unpinned-image, match: chat, reason: mirrored}", "mirrored", []),
        (
            "{rule: unpinned-image, match: chat, reason: mirrored, until: 2027-02-28}",
            None,
            [("suppression-expired", "warning", 2)],
        ),
        ("{rule: unpinned-image}", None, [("suppression-reason", "warning", 2)]),
        ("{rule: placement, reason: old}", None, [("suppression-unused", "note", 2)]),
        ("{rule: unpinned-image, match: other.yaml, reason: mirrored}", None, []),
    ],
)
def test_accept_of_the_policy(
    tmp_path: Path, entry: str, reason: str | None, expected: list[tuple[str, str, int]]
) -> None:
    found = of(tmp_path, POD, policy(tmp_path, entry))
    assert reasons(found, "unpinned-image") == [reason]
    assert about(found) == expected


def test_the_policy_sets_the_severity_of_suppression_rules(tmp_path: Path) -> None:
    path = tmp_path / "infopt.yaml"
    path.write_text("rules: {suppression-reason: error, suppression-unused: off}\n")
    text = POD.replace(IMAGE, f"{IMAGE}  # infopt: ignore[unpinned-image]").replace(
        "- --max", "# infopt: ignore[tight] x\n    - --max"
    )
    found = of(tmp_path, text, read_policy(path))
    assert about(found) == [("suppression-reason", "error", 8)]
    assert found.verdict == "fail"


def finding(**other: object) -> Finding:
    given = {
        "rule": "does-not-fit",
        "severity": "error",
        "confidence": "certain",
        "file": "k8s/pod.yaml",
        "line": 4,
        "column": 3,
        "path": "args[2]",
        "deployment": "chat",
        "message": "Llama-3.1-70B needs 131.45 GiB of 1 x H100",
        "detail": "",
        "remedy": "",
        "cause": "8192",
    }
    return Finding(**given | other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"line": 90, "column": 1, "path": "args[7]"}, True),
        ({"message": "Llama-3.1-70B needs 129.9 GiB of 1 x H100", "detail": "other"}, True),
        ({"file": "./k8s/pod.yaml"}, True),
        ({"message": "Llama-3.1-8B needs 131.45 GiB of 1 x H100"}, False),
        ({"message": "Llama-3.1-70B needs 131.45 GiB of 1 x H200"}, False),
        ({"cause": "16384"}, False),
        ({"rule": "tight"}, False),
        ({"deployment": "other"}, False),
        ({"file": "k8s/other.yaml"}, False),
    ],
)
def test_what_makes_a_finding_the_same(other: dict[str, object], same: bool) -> None:
    assert (fingerprint(finding(), "baseline.json") == fingerprint(finding(**other), "baseline.json")) is same


def test_a_baseline_accepts_what_it_holds_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    assert write_baseline(path, of(tmp_path, POD).findings) > 0
    moved = "# a line more\n" + POD
    accepted = with_baseline(of(tmp_path, moved), path)
    assert reasons(accepted, "unpinned-image") == ["in the baseline baseline.json"]
    twice = moved + "---\n" + POD
    assert sorted(map(str, reasons(with_baseline(of(tmp_path, twice), path), "unpinned-image"))) == [
        "None",
        "in the baseline baseline.json",
    ]


def test_a_baseline_is_seen_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written in one folder, used from another."""
    folder = tmp_path / "k8s"
    folder.mkdir()
    (folder / "pod.yaml").write_text(POD)
    monkeypatch.chdir(tmp_path)
    write_baseline(Path("baseline.json"), gate(["k8s"], Policy()).findings)
    monkeypatch.chdir(folder)
    found = with_baseline(gate(["pod.yaml"], Policy()), Path("../baseline.json"))
    assert reasons(found, "unpinned-image") == ["in the baseline baseline.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "infopt/baseline/9", "findings": []}', "[" * 100_000])
def test_what_is_no_baseline_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(InfoptError, match="is no baseline"):
        read_baseline(path)


def test_a_baseline_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(InfoptError, match="cannot be written"):
        write_baseline(tmp_path / "nowhere" / "baseline.json", [finding()])
    taken = tmp_path / "taken"
    taken.mkdir()
    with pytest.raises(InfoptError, match="cannot be written"):
        write_baseline(taken, [finding()])
    assert list(tmp_path.iterdir()) == [taken]


@pytest.mark.parametrize(
    ("form", "shown"),
    [(form, "mirrored-here") for form in ("table", "json", "sarif", "junit", "md")] + [("github", "1 suppressed")],
)
def test_what_is_accepted_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, shown: str) -> None:
    """With its reason, or counted; GitLab's form has issues only."""
    file = tmp_path / "pod.yaml"
    file.write_text(POD.replace(IMAGE, f"{IMAGE}  # infopt: ignore[unpinned-image] mirrored-here"))
    run(("gate", str(file), "--format", form))
    assert shown in " ".join(capsys.readouterr().out.split())


def test_the_command_line_writes_and_reads_baselines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pod.yaml").write_text(POD.replace("8B", "70B"))
    assert run(("gate", "pod.yaml")) == 1
    assert run(("gate", "pod.yaml", "--write-baseline", "base.json")) == 0
    assert "accepted in base.json" in capsys.readouterr().err
    assert json.loads(Path("base.json").read_text())["schema"] == "infopt/baseline/1"
    assert run(("gate", "pod.yaml", "--baseline", "base.json", "--fail-on", "warning")) == 0
    Path("pod.yaml").write_text(POD.replace("8B", "70B").replace("8192", "4096").replace("l4", "tesla-t4"))
    assert run(("gate", "pod.yaml", "--baseline", "base.json")) == 1
    assert run(("gate", "pod.yaml", "--baseline", "nowhere.json")) == 2
    assert "nowhere.json: cannot be read" in capsys.readouterr().err
