"""What `infopt boundary` prints: values, lines that can be read alone, the documents' rules, and data with its kind."""

from dataclasses import replace
from pathlib import Path

import pytest

from infopt.boundaries import deciding
from infopt.boundaries.load import Adapters, Draft, Load, Offload, Prefix, Targets, Traffic
from infopt.boundaries.registry import judge, techniques
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement, Rule, Verdict
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.reports.boundary_words import agreement_text, bare_text, situation_facts, value_text
from infopt.studies.scenarios import Request, build

LOAD = Load(
    traffic=Traffic(rate_per_s=3.0),
    prefix=Prefix(shared_tokens=1000),
    targets=Targets(tpot_s=0.04, start_s=60.0),
    offload=Offload(tier="nvme", reuse_share=0.3),
    adapters=Adapters(slots=4, rank=16),
    semantic_hit_share=0.3,
    chunk_tokens=512,
    draft=Draft(acceptance=0.6),
)
LOSING = replace(LOAD, draft=Draft(acceptance=0.1, method="eagle"), semantic_hit_share=0.02)
ON_BY_DEFAULT = (
    "attention-kernels",
    "chunked-prefill",
    "continuous-batching",
    "cuda-graphs",
    "paged-kv",
    "prefix-caching",
)


def situation(name: str, hardware: str, load: Load, batch: int, engine: str = "vllm") -> Situation:
    request = Request(input_tokens=2000, output_tokens=300, batch=batch, engine=engine)
    return Situation(build(resolve_model(name), resolve_hardware(hardware), request).scenario, load)


SITUATIONS = [
    situation("70b", "h100:4", LOAD, 64),
    situation("70b", "h100:4", Load(), 1),
    situation("8b", "h100:1", LOSING, 64),
    situation("deepseek-v3", "h200:8", LOAD, 32),
    situation("gpt-oss-120b", "h100:1", Load(), 16),
    situation("8b", "rtx-4090:1", Load(), 4, "llama.cpp"),
]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2640.4, "tokens/s", "2,640 tokens/s"),
        (1.28, "uses", "1.28 uses"),
        (12345.6, "years", "12,346 years"),
        (1.0, "devices", "1 device"),
        (1.0, "prefixes", "1 prefix"),
        (1.0, "ratio", "1x"),
        (1234.0, "ratio", "1,234x"),
        (0.5, "share", "50%"),
        (1500.0, "requests/s", "1,500/s"),
        (16.0, "rank", "16"),
        (12.9e9, "params", "12.9B parameters"),
        (1.62e13, "FLOP", "16.2 TFLOP"),
        (float("inf"), "years", "never"),
        (None, "s", "-"),
    ],
)
def test_values(value: float | None, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


def test_a_bare_value_leaves_out_what_its_name_says() -> None:
    assert bare_text(2750.6, "prefixes") == "2,751"
    assert bare_text(1.0, "tokens") == "1"
    assert bare_text(0.4, "s") == "400 ms"


@pytest.mark.parametrize(
    ("says", "why", "ends"),
    [
        ("use", "", "By this rule: use, as here"),
        ("skip", "it is older", "By this rule: skip, here use: it is older"),
        (None, "", "It gives no verdict here"),
        (None, "no number", "It gives no verdict here: no number"),
    ],
)
def test_the_rule_reads_as_sentences(says: Verdict | None, why: str, ends: str) -> None:
    answer = Judgement("use", None, "", rule=Rule(2, "try it", says, why))
    assert agreement_text(answer) == f"document 2: try it. {ends}"


@pytest.mark.parametrize("here", SITUATIONS, ids=lambda here: here.scenario.model.id)
def test_lines_that_can_be_read_alone(here: Situation) -> None:
    for technique in techniques():
        answer = judge(technique, here)
        assert 0 < len(answer.reason) <= 110, answer.reason
        texts = [figure.text for figure in answer.figures]
        names = [figure.name for figure in answer.figures]
        assert len(names) == len(set(names)), technique.id
        for text in texts:
            assert 8 <= len(text) <= 80, text
        # Two figures of one unit under one text could not be told apart.
        told = [(figure.unit, figure.text) for figure in answer.figures]
        assert len(told) == len(set(told)), technique.id


@pytest.mark.parametrize("here", SITUATIONS, ids=lambda here: here.scenario.model.id)
def test_a_loss_is_in_the_reason_beside_it(here: Situation) -> None:
    """A gain below 1 stands beside `skip`: the reason gives it too, or what is longer by it."""
    for technique in techniques():
        answer = judge(technique, here)
        if answer.verdict == "skip" and answer.gain is not None and answer.gain.value < 0.995:
            told = (f"{answer.gain.value:.2f}x", f"{1 / answer.gain.value:.2f}x")
            assert any(text in answer.reason for text in told), answer.reason


def test_the_engine_is_written_as_it_writes_itself() -> None:
    assert dict(situation_facts(SITUATIONS[0]))["served by"].endswith(", vLLM 0.19.1")


def test_what_engines_do_unasked_says_so() -> None:
    for technique in techniques():
        if technique.id in ON_BY_DEFAULT:
            costs = " ".join(judge(technique, SITUATIONS[0]).costs)
            assert "vLLM 0." in costs, technique.id
            assert "on by default" in costs or "always" in costs, technique.id


def test_every_value_of_the_data_has_its_kind() -> None:
    for path in deciding.DATA.glob("*.yaml"):
        deciding.checked_yaml(path.stem)


@pytest.mark.parametrize(
    ("row", "missing"),
    [
        ("{value: 2, source: a}", "kind"),
        ("{value: 2, kind: measured}", "source"),
        ("{value: 2, kind: x, source: a}", "kind"),
    ],
)
def test_data_without_its_kind_is_refused(
    row: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some.yaml").write_text(f"outer:\n  speed: {row}\n", encoding="utf-8")
    monkeypatch.setattr(deciding, "DATA", tmp_path)
    deciding.checked_yaml.cache_clear()
    with pytest.raises(InfoptError, match=rf"outer\.speed.*{missing}|{missing}.*outer\.speed"):
        deciding.checked_yaml("some")
    deciding.checked_yaml.cache_clear()
