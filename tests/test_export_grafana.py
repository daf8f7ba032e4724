"""A dashboard that Grafana opens without edits: its structure, its queries, and the plan's lines in it."""

import json
import re
import shlex
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from promtool import check, needs_promtool

from infopt.cli import run
from infopt.observing.metric_names import FOLDER, MetricNames
from infopt.records import load_record, names_in

PLAN = "--model 8b --hw h100 --isl 2000 --osl 300 --batch 32"
PROMISED = f"{PLAN} --rate 8/s --ttft 1s --tpot 50ms --shared-prefix 1000 --method ngram --drafted 4"
RECORDS = names_in(FOLDER)


def dashboard(capsys: pytest.CaptureFixture[str], words: str = PROMISED) -> dict[str, Any]:
    assert run(["export", "grafana", *shlex.split(words)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def graphs(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in found["panels"] if panel["type"] == "timeseries"]


def in_grafana(query: str, values: dict[str, str]) -> str:
    """A query as Grafana sends it: variables in their places."""
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], query)


def overlap(a: dict[str, int], b: dict[str, int]) -> bool:
    return (
        a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]
    )


@pytest.mark.parametrize("record", RECORDS)
def test_structure(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = dashboard(capsys, f"{PROMISED} --metrics {record}")
    assert 39 <= found["schemaVersion"] <= 42  # of Grafana 11 to 12
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", found["uid"])
    assert "id" not in found  # Grafana gives one
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert not any(overlap(a["gridPos"], b["gridPos"]) for a, b in combinations(panels, 2))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    variables = [variable["name"] for variable in found["templating"]["list"]]
    assert variables[0] == "datasource"
    assert len(set(variables)) == len(variables)
    for panel in graphs(found):
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        ids, legends = ([target[key] for target in panel["targets"]] for key in ("refId", "legendFormat"))
        assert len(set(ids)) == len(ids)
        assert len(set(legends)) == len(legends)
        for override in panel["fieldConfig"]["overrides"]:
            assert override["matcher"] == {"id": "byName", "options": override["matcher"]["options"]}
            assert override["matcher"]["options"] in legends
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert steps[0]["value"] is None
        assert steps == sorted(steps, key=lambda step: -1 if step["value"] is None else step["value"])


@pytest.mark.parametrize("record", RECORDS)
def test_every_variable_is_defined_and_every_name_known(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = dashboard(capsys, f"{PROMISED} --metrics {record}")
    defined = {"datasource"}
    known = load_record(MetricNames, FOLDER, record, "metrics", "").reads()
    for variable in found["templating"]["list"]:
        asked = set(re.findall(r"\$(\w+)", variable.get("definition", "")))
        assert asked <= defined, "those before it alone"
        defined.add(variable["name"])
    for panel in graphs(found):
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= defined
            bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', target["expr"])
            assert set(re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{", bare)) <= known


@needs_promtool
@pytest.mark.parametrize("record", RECORDS)
def test_every_query_parses(record: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = dashboard(capsys, f"{PROMISED} --metrics {record} --match 'cluster=a\"b}}'")
    values = {"job": ".*", "instance": "a:8000|b:8000", "model": "org/name", "window": "5m"}
    queries = [in_grafana(target["expr"], values) for panel in graphs(found) for target in panel["targets"]]
    for variable in found["templating"]["list"]:
        if variable["type"] == "query":
            selector = re.fullmatch(r"label_values\((.*), \w+\)", variable["definition"])
            assert selector is not None
            queries.append(in_grafana(selector[1], values))
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    status, said = check("check", "rules", "rules.yaml", cwd=tmp_path)
    assert status == 0, said


def lines(found: dict[str, Any], title: str) -> dict[str, float]:
    """The constants of a panel by legend."""
    (panel,) = [panel for panel in graphs(found) if panel["title"] == title]
    constant = [
        (re.fullmatch(r"vector\((.*)\)", target["expr"]), target["legendFormat"]) for target in panel["targets"]
    ]
    return {legend: float(number[1]) for number, legend in constant if number is not None}


def test_lines_are_the_plans(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *shlex.split(PLAN), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    found, estimate = dashboard(capsys), plan["estimate"]
    for title, name, target_s in (("Time per output token", "tpot", 0.05), ("Time to first token", "ttft", 1.0)):
        ledger = "bandwidth" if name == "tpot" else "compute"
        assert lines(found, title) == {
            "plan: floor": pytest.approx(plan[ledger][f"{name}_floor_s"], rel=1e-5),
            "plan: interval, low": pytest.approx(estimate[f"{name}_low_s"], rel=1e-5),
            "plan: estimate": pytest.approx(estimate[f"{name}_s"], rel=1e-5),
            "plan: interval, high": pytest.approx(estimate[f"{name}_high_s"], rel=1e-5),
            "target": target_s,
        }
    assert lines(found, "Sequences, each replica") == {"plan: batch": 32, "plan: fit": plan["memory"]["max_sequences"]}
    full = lines(found, "Output tokens a second, each replica")
    assert full == {"plan: a full batch": pytest.approx(estimate["output_tokens_per_s"], rel=1e-5)}


def test_without_an_estimate_or_targets_there_are_fewer_lines(capsys: pytest.CaptureFixture[str]) -> None:
    found = dashboard(capsys, f"{PLAN} --engine llama.cpp")
    assert list(lines(found, "Time per output token")) == ["plan: floor"]
    (panel,) = [panel for panel in graphs(found) if panel["title"] == "Time per output token"]
    assert [step["color"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]] == ["green"]


def test_names_are_text_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Grafana fills in $variables wherever they stand, and reads Markdown with HTML in it."""
    name = """$window ${job} [[model]] <img src=x onerror=alert(1)> a"b"""
    found = dashboard(capsys, f"{PLAN} --served {shlex.quote(name)} --name {shlex.quote(name)}")
    (words,) = [panel for panel in found["panels"] if panel["type"] == "text"]
    shown = json.dumps([found["title"], found["description"], words["options"]["content"]])
    assert "$" not in shown
    assert "[[" not in shown
    assert "<img" not in words["options"]["content"]
    (model,) = [variable for variable in found["templating"]["list"] if variable["name"] == "model"]
    assert model["current"]["value"] == name
