"""The rule catalogue and its pages: every rule has an example that is executed, every page is as generated now.

Stale pages are refreshed by `python tools/docs_rules.py`.
"""

import json
import re

import jsonschema
import pytest
from scripts import script

from infopt.cli import run
from infopt.gate.finding import Rule
from infopt.gate.rules.registry import catalogue
from infopt.reports.schemas import schema_text

TOOL = script("tools/docs_rules.py")
IDS = [rule.id for rule in catalogue()]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["rules", *arguments]) == 0
    out = capsys.readouterr()
    assert out.err == ""
    return out.out


# Fixtures


def test_every_rule_has_a_bad_and_a_good_fixture() -> None:
    lacking = [f"{id}/{kind}" for id in IDS for kind in ("bad", "good") if TOOL.fixture(id, kind) is None]
    assert not lacking, "rules without an example"
    assert {path.name for path in TOOL.FIXTURES.iterdir()} <= set(IDS), "examples of no rule"


@pytest.mark.parametrize("id", IDS)
def test_the_bad_fixture_breaks_the_rule_and_the_good_one_does_not(id: str) -> None:
    found = {kind: TOOL.of_rule(TOOL.checked(id, kind), id) for kind in ("bad", "good")}
    assert found["bad"]
    assert all(finding.message and finding.remedy and finding.line > 0 for finding in found["bad"])
    assert not found["good"]


# Pages


@pytest.mark.parametrize("rule", catalogue(), ids=lambda rule: rule.id)
def test_the_page_of_a_rule_is_current(rule: Rule) -> None:
    path = TOOL.PAGES / f"{rule.id}.md"
    assert path.is_file(), "missing: run `python tools/docs_rules.py`"
    assert path.read_text(encoding="utf-8") == TOOL.page(rule), "stale: run `python tools/docs_rules.py`"


def test_the_index_is_current() -> None:
    assert (TOOL.PAGES / "index.md").read_text(encoding="utf-8") == TOOL.index(), "run `python tools/docs_rules.py`"
    assert {path.stem for path in TOOL.PAGES.glob("*.md")} == {"index", *IDS}


def test_the_forms_of_the_gate_page_are_current() -> None:
    text = TOOL.GATE_PAGE.read_text(encoding="utf-8")
    assert text == TOOL.gate_page(), "stale: run `python tools/docs_rules.py`"
    assert text.count("\n- ") > 15


def test_a_stale_page_would_be_noticed() -> None:
    stale = TOOL.GATE_PAGE.read_text(encoding="utf-8").replace("LeaderWorkerSet", "LeaderSet")
    assert TOOL.FORMS.sub(lambda match: f"{match[1]}{TOOL.forms()}\n{match[2]}", stale) != stale


# What is said of a rule


@pytest.mark.parametrize("rule", catalogue(), ids=lambda rule: rule.id)
def test_a_rule_says_what_it_finds_why_and_what_to_do(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id)
    assert rule.severity in ("error", "warning", "note")
    assert 0 < len(rule.summary) < 120
    assert not rule.summary.endswith(".")
    assert rule.why.endswith((".", "?"))
    assert rule.remedy


def test_ids_are_unique() -> None:
    assert len(set(IDS)) == len(IDS)


# `infopt rules`


def test_the_list_names_every_rule(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (40, 60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = printed(capsys).splitlines()
        assert max(map(len, lines)) <= width
        named = [line.split()[0] for line in lines if line.split() and line.split()[0] in IDS]
        assert named == IDS


def test_one_rule_in_full(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for rule in catalogue():
        text = " ".join(printed(capsys, rule.id).split())
        assert text.startswith(f"{rule.id} ({rule.severity})")
        for said in (rule.summary, rule.why, rule.remedy, *rule.parameters, rule.source):
            assert " ".join(said.split()) in text


def test_an_unknown_rule_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "does-not-fitt"]) == 2
    assert "does-not-fit" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [(), ("tight",), ("does-not-fit",)], ids=" ".join)
def test_json_follows_its_schema(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    data = json.loads(printed(capsys, *arguments, "--json"))
    schema = json.loads(schema_text("rules"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema, cls=jsonschema.Draft202012Validator)
    assert [rule["id"] for rule in data["rules"]] == (list(arguments) or IDS)


def test_markdown_is_a_table_or_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--format", "md").count("\n") == len(IDS) + 2
    assert printed(capsys, "tight", "--format", "md").startswith("# tight\n")
