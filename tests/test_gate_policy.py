"""`infopt.yaml`: every section, every error with its place, the published schema beside the reader, precedence."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from gate_files import POD

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.gate.check import Gate, gate
from infopt.gate.policy import Policy
from infopt.gate.policy_file import find_policy, read_policy
from infopt.gate.policy_schema import policy_schema
from infopt.gate.reading import Overrides
from infopt.reports.schemas import schema_text

WHOLE = """\
hardware: h100
workload: {rate: 5/s, input_tokens: 2k, output_tokens: 512, concurrency: 64, prefix_share: 40%}
targets:
  ttft: 500ms
  tpot: 40ms
  goodput: 95%
  start: 5min
  usd_per_million_output_tokens: $2.5
margins: {memory: 5%, latency: 0.1}
rules:
  tight: {severity: error, least_sequences: 4}
  flags: off
  lora-rank:
    ranks: {sql: 64}
overrides:
  - match: "prod/**"
    hardware: h200
    targets: {tpot: 20ms}
    rules: {flags: error}
deployments:
  - match: chat
    engine_version: 0.10
    gpu: h100
accept:
  - rule: tight
    match: old/*.yaml
    reason: moves next month
    until: 2027-01-31
"""
# What both refuse, and where the reader says so.
REFUSED = {
    "hardwear: h100\n": ("1:1", "nearest: hardware"),
    "workload: {rate: 5}\n": ("1:18", "a unit is needed"),
    "workload: {input_tokens: many}\n": ("1:26", "tokens"),
    "workload: {input_tokens: 0}\n": ("1:26", "more than 0"),
    "workload: []\n": ("1:1", "mapping"),
    "targets:\n  ttft: 500\n": ("2:9", "a unit is needed"),
    "targets:\n  ttft: -1ms\n": ("2:9", "negative"),
    "targets:\n  tft: 1ms\n": ("2:3", "nearest: ttft"),
    "targets: {goodput: 150%}\n": ("1:20", "more than the whole"),
    "margins: {memory: 2}\n": ("1:19", "more than the whole"),
    "rules: {tigth: off}\n": ("1:9", "nearest: tight"),
    "rules: {tight: fatal}\n": ("1:16", "error, warning, note, off"),
    "rules: {tight: {severity: 3}}\n": ("1:27", "error, warning, note, off"),
    "rules: {tight: {least_sequence: 3}}\n": ("1:17", "nearest: least_sequences"),
    "rules: {tight: {least_sequences: some}}\n": ("1:34", "count"),
    "rules: {lora-rank: {ranks: 3}}\n": ("1:28", "names"),
    "overrides:\n  - hardware: h100\n": ("2:5", "needs `match`"),
    "overrides:\n  - match: x\n    accept: []\n": ("3:5", "unknown key 'accept'"),
    "deployments:\n  - model: x\n": ("2:5", "`match` is missing"),
    "deployments:\n  - match: x\n    engine: vlm\n": ("3:13", "nearest: vllm"),
    "deployments: chat\n": ("1:14", "must be a list"),
    "accept:\n  - reason: x\n": ("2:5", "`rule` is missing"),
    "accept:\n  - rule: thight\n    reason: x\n": ("2:11", "nearest: tight"),
    "accept:\n  - rule: tight\n    until: 31.01.2027\n": ("3:12", "a date as"),
    "accept:\n  - rule: tight\n    until: 2027-13-01x\n": ("3:12", "a date as"),
    "hardware: [h100]\n": ("1:1", "must be hardware"),
    "hardware: 100\n": ("1:11", "quotes"),
    "- hardware\n": ("1:1", "mapping"),
}
ACCEPTED = [
    "",
    WHOLE,
    "{}",
    "workload: {rate: 300/min, input_tokens: 2048, shared_prefix_tokens: 1.5k}\n",
    "targets: {ttft: 1.5 s, goodput: 0.99, usd_per_million_output_tokens: 3}\n",
    "rules: {tight: note}\n",
    "rules: {utilization-high: {highest_share: 0.97}}\n",
    "accept: [{rule: tight}]\n",
    "deployments: [{match: '*', model: org/name, engine_version: v0.8.5}]\n",
]


class _Plain(yaml.SafeLoader):
    """YAML as an editor reads it for a schema: dates are text."""


_Plain.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith("timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def policy_of(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "infopt.yaml"
    path.write_text(text)
    return read_policy(path)


def by_schema(text: str) -> bool:
    validator = jsonschema.Draft202012Validator(json.loads(schema_text("policy")))
    return bool(validator.is_valid(yaml.load(text, Loader=_Plain)))


def checked(tmp_path: Path, policy: Policy, name: str = "pod.yaml", overrides: Overrides | None = None) -> Gate:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(POD)
    return gate([str(file)], policy, overrides)


def test_a_whole_policy(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, WHOLE)
    assert policy.workload.input_tokens == 2048
    assert policy.workload.rate_per_s == 5
    assert policy.targets.ttft_s == 0.5
    assert policy.targets.start_s == 300
    assert policy.targets.goodput_share == 0.95
    assert policy.targets.usd_per_million_output_tokens == 2.5
    assert policy.margins.memory_share == 0.05
    assert policy.rules["tight"].parameters == {"least_sequences": 4}
    assert policy.rules["flags"].severity == "off"
    assert policy.rules["lora-rank"].parameters == {"ranks": {"sql": 64}}
    assert policy.deployments[0].engine_version == "0.10"
    assert (policy.accept[0].until, policy.accept[0].line) == ("2027-01-31", 25)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text.split("\n")[0][:40])
def test_errors_have_a_place_and_the_schema_refuses_too(tmp_path: Path, text: str) -> None:
    place, words = REFUSED[text]
    with pytest.raises(InfoptError, match=r"infopt\.yaml:\d+:\d+: ") as error:
        policy_of(tmp_path, text)
    assert f"infopt.yaml:{place}: " in str(error.value)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert not by_schema(text)


@pytest.mark.parametrize("text", ACCEPTED, ids=range(len(ACCEPTED)))
def test_the_schema_accepts_what_the_reader_accepts(tmp_path: Path, text: str) -> None:
    policy_of(tmp_path, text)
    assert by_schema(text)


def test_the_published_schema_is_today_s() -> None:
    assert json.loads(schema_text("policy")) == policy_schema(), "python tools/policy_schema.py writes it"


def test_hardware_nobody_knows_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InfoptError, match=r"infopt\.yaml:2:10: gpu: .*h100x"):
        policy_of(
            tmp_path, "deployments:\n  - gpu: h100x\n    match: x\n".replace("gpu", " gpu").replace("  -  ", "  - ")
        )


def test_the_page_s_example_is_a_policy(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parent.parent / "docs" / "policy.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    policy = policy_of(tmp_path, example)
    assert policy.deployments[0].gpu == "h100:2"
    assert policy.of("test/chat.yaml", "x").targets.ttft_s == 5
    assert by_schema(example)


@pytest.mark.parametrize(("text", "words"), [("a: 1\n---\nb: 2\n", "2 YAML documents"), ("a: [\n", "infopt.yaml:2:1")])
def test_a_policy_is_one_readable_document(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InfoptError, match=words):
        policy_of(tmp_path, text)


def test_infopt_yaml_here_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_policy(None) == Policy()
    (tmp_path / "infopt.yaml").write_text("hardware: l4\n")
    assert find_policy(None).hardware == "l4"
    with pytest.raises(InfoptError, match=r"nowhere\.yaml"):
        find_policy(Path("nowhere.yaml"))


@pytest.mark.parametrize(
    ("pattern", "file", "matches"),
    [
        ("pod.yaml", "k8s/prod/pod.yaml", True),
        ("k8s/*.yaml", "k8s/pod.yaml", True),
        ("k8s/*.yaml", "k8s/prod/pod.yaml", False),
        ("k8s/**", "k8s/prod/pod.yaml", True),
        ("**/prod/*", "k8s/prod/pod.yaml", True),
        ("chat", "k8s/pod.yaml", True),
        ("ch?t", "k8s/pod.yaml", True),
        ("*", "k8s/pod.yaml", True),
        ("chat2", "k8s/pod.yaml", False),
        ("./k8s/pod.yaml", "k8s/pod.yaml", False),
    ],
)
def test_globs(pattern: str, file: str, matches: bool) -> None:
    assert Policy().matches(pattern, file, "chat") is matches


def test_a_path_is_matched_from_the_folder_of_the_policy(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, "overrides: [{match: 'prod/*.yaml', targets: {tpot: 20ms}}]\n")
    assert policy.of(str(tmp_path / "prod" / "pod.yaml"), "x").targets.tpot_s == 0.02
    assert policy.of(str(tmp_path / "test" / "pod.yaml"), "x").targets.tpot_s is None


def test_overrides_replace_field_by_field_the_later_over_the_earlier(tmp_path: Path) -> None:
    policy = policy_of(
        tmp_path,
        "workload: {input_tokens: 1000, output_tokens: 10, prefix_share: 50%}\n"
        "rules: {tight: {least_sequences: 3}}\n"
        "overrides:\n"
        "  - {match: '*', workload: {input_tokens: 2000}, rules: {tight: error}}\n"
        "  - {match: chat, workload: {input_tokens: 4000}}\n",
    )
    of_chat, of_other = policy.of("a.yaml", "chat"), policy.of("a.yaml", "other")
    assert (of_chat.workload.input_tokens, of_other.workload.input_tokens) == (4000, 2000)
    assert of_chat.workload.output_tokens == 10
    assert (of_chat.workload.shared_prefix_tokens, of_other.workload.shared_prefix_tokens) == (2000, 1000)
    assert of_chat.rules["tight"].model_dump() == {"severity": "error", "parameters": {"least_sequences": 3}}


def facts(found: Gate) -> tuple[Any, ...]:
    case = found.checked[0].case
    assert case.device is not None
    return case.device.accelerator.id, case.deployment.model, case.deployment.version, case.deployment.engine


def test_precedence_of_facts(tmp_path: Path) -> None:
    """Command line, `deployments:`, the file, `hardware:`; each wins over those behind it."""
    model = "meta-llama/Llama-3.1-8B-Instruct"
    fallback = policy_of(tmp_path, "hardware: h100\n")
    assert facts(checked(tmp_path, fallback)) == ("l4", model, "0.10.0", "vllm")
    said = policy_of(
        tmp_path,
        "hardware: a100\ndeployments:\n  - {match: chat, gpu: h100, engine_version: 0.9.1, engine: vllm}\n"
        "  - {match: nobody, gpu: b200}\n",
    )
    assert facts(checked(tmp_path, said)) == ("h100-sxm-80gb", model, "0.9.1", "vllm")
    given = Overrides(model="Qwen/Qwen3-8B", engine_version="0.8.5", gpu="h200")
    found = checked(tmp_path, said, overrides=given)
    assert facts(found)[1:3] == ("Qwen/Qwen3-8B", "0.8.5")
    assert facts(found)[0].startswith("h200")
    assert "gpu h200: --gpu" in found.checked[0].case.assumed
    assert any("infopt.yaml:3" in text for text in checked(tmp_path, said).checked[0].case.assumed)


def test_an_engine_is_given_to_the_container_with_devices_only(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    beside = "  - {name: proxy, image: registry.local/proxy:1, args: [--port, '80']}\n"
    file.write_text(POD.replace("vllm/vllm-openai:v0.10.0", "registry.local/serving:7") + beside)
    assert not gate([str(file)], Policy()).checked
    policy = policy_of(tmp_path, "deployments: [{match: chat, engine: vllm, engine_version: 0.10.0}]\n")
    found = gate([str(file)], policy)
    assert facts(found) == ("l4", "meta-llama/Llama-3.1-8B-Instruct", "0.10.0", "vllm")
    assert len(found.checked) == 1


def test_rule_numbers_and_severities_reach_the_rules(tmp_path: Path) -> None:
    """8B in 16 bits on an L4 holds one request of 8192 tokens and not four."""
    quiet = checked(tmp_path, Policy())
    assert quiet.verdict == "pass"
    text = "rules: {tight: {severity: error, least_sequences: 1000}}\n"
    strict = checked(tmp_path, policy_of(tmp_path, text))
    assert [f.severity for f in strict.findings if f.rule == "tight"] == ["error"]
    assert strict.verdict == "fail"
    off = checked(tmp_path, policy_of(tmp_path, text + "overrides: [{match: pod.yaml, rules: {tight: off}}]\n"))
    assert [f for f in off.findings if f.rule == "tight"] == []


def test_a_margin_of_memory_makes_it_tight(tmp_path: Path) -> None:
    loose = checked(tmp_path, policy_of(tmp_path, "margins: {memory: 1%}\nrules: {tight: {least_sequences: 1}}\n"))
    kept = checked(tmp_path, policy_of(tmp_path, "margins: {memory: 60%}\nrules: {tight: {least_sequences: 1}}\n"))
    assert [f.rule for f in loose.findings if f.rule == "tight"] == []
    assert ["60%" in f.message for f in kept.findings if f.rule == "tight"] == [True]


def test_the_command_line_takes_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`infopt.yaml` here, or --policy; an error in it is one line with its place, and status 2."""
    monkeypatch.chdir(tmp_path)
    Path("pod.yaml").write_text(POD.replace("  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}\n", ""))
    assert run(("gate", "pod.yaml")) == 4
    Path("infopt.yaml").write_text("hardware: l4\n")
    assert run(("gate", "pod.yaml")) == 0
    Path("strict.yaml").write_text("hardware: l4\nrules: {tight: {severity: error, least_sequences: 1000}}\n")
    assert run(("gate", "pod.yaml", "--policy", "strict.yaml")) == 1
    Path("wrong.yaml").write_text("targets:\n  ttfd: 1s\n")
    capsys.readouterr()
    assert run(("gate", "pod.yaml", "--policy", "wrong.yaml")) == 2
    assert capsys.readouterr().err == "infopt: wrong.yaml:2:3: unknown key 'ttfd'; nearest: ttft\n"
