"""Prometheus' own tool for rules, where it is installed: series from texts of /metrics, what queries give on them."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from infopt.probes.metrics_text import parse_metrics

TOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(TOOL is None, reason="promtool is not installed (Debian: prometheus)")
STEP_S = 30  # between two scrapes, and two looks at the rules
Series = list[dict[str, str]]


def linear(texts: tuple[str, str], seconds: int, last_s: int, step_s: int = STEP_S, **target: str) -> Series:
    """Every series of two texts that were taken `seconds` apart, growing evenly, until `last_s`."""
    before, after = (parse_metrics(text.encode(), "text").series for text in texts)
    found = []
    for name, series in after.items():
        for labels, value in series.items():
            start = before.get(name, {}).get(labels, 0.0)
            step = (value - start) * step_s / seconds
            said = ",".join(f'{key}="{escaped(text)}"' for key, text in (*labels, *target.items()))
            values = f"{start!r}{'+' if step >= 0 else '-'}{abs(step)!r}x{last_s // step_s}"
            found.append({"series": f"{name}{{{said}}}", "values": values.replace("e+", "e")})
    return found


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def check(*arguments: str | Path, cwd: Path) -> tuple[int, str]:
    """Exit status of promtool, and what it says."""
    assert TOOL is not None
    ran = subprocess.run([TOOL, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def run_tests(folder: Path, rules: str | None, test: Mapping[str, object], step_s: int = STEP_S) -> tuple[int, str]:
    """One unit test of promtool on rules (or on none)."""
    content: dict[str, object] = {"evaluation_interval": f"{step_s}s", "tests": [{"interval": f"{step_s}s", **test}]}
    if rules is not None:
        (folder / "rules.yaml").write_text(rules)
        content["rule_files"] = ["rules.yaml"]
    (folder / "test.yaml").write_text(yaml.safe_dump(content, width=10000))
    return check("test", "rules", "test.yaml", cwd=folder)


def values(
    folder: Path, rules: str | None, series: Series, queries: Sequence[str], at_s: int, step_s: int = STEP_S
) -> list[list[float]]:
    """What queries give at a time, value by value: promtool is told to expect nothing, and says what it got."""
    asked = [{"expr": query, "eval_time": f"{at_s}s", "exp_samples": []} for query in queries]
    _, said = run_tests(folder, rules, {"input_series": series, "promql_expr_test": asked}, step_s)
    assert "parse error" not in said, said
    got: dict[str, list[float]] = {query: [] for query in queries}
    for query, samples in re.findall(r'expr: "(.*)", time: \S+,\s+exp: nil\s+got: (.*)', said):
        got[query.replace('\\"', '"').replace("\\\\", "\\")] = [
            float(one) for one in re.findall(r"\} (\S+?)(?:,|$)", samples)
        ]
    return [got[query] for query in queries]


def firing(folder: Path, rules: str, series: Series, at_s: int) -> set[str]:
    """Names of the alerts that fire at a time."""
    names = sorted(
        {rule["alert"] for group in yaml.safe_load(rules)["groups"] for rule in group["rules"] if "alert" in rule}
    )
    queries = [f'ALERTS{{alertname="{name}",alertstate="firing"}}' for name in names]
    return {name for name, found in zip(names, values(folder, rules, series, queries, at_s), strict=True) if found}
