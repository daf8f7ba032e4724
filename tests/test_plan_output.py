"""What `plan` prints: golden pages, the JSON contract and its schemas, CSV and Markdown.

Golden files are read by a person before they are committed; UPDATE_GOLDEN=1 writes them anew.
"""

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infopt.cli import run
from infopt.reports.markdown import escape
from infopt.reports.schemas import schema_names, schema_text

GOLDEN = Path(__file__).resolve().parent / "golden"
H100 = ("plan", "--model", "70b", "--ctx", "32k", "--hw", "h100:4")

# DESIGN section 4, as it stands there.
CONTRACT = {
    "schema": (),
    "model": ("id", "architecture", "layers", "params_total", "params_active", "weight_format", "kv_format"),
    "hardware": (*("id", "gpus", "tp", "pp", "dp", "ep", "memory_bytes", "bandwidth_bytes_per_s", "calibration"),),
    "workload": ("context_tokens", "input_tokens", "output_tokens", "decode_context_tokens", "batch"),
    "memory": (
        *("stored_weights_bytes", "weights_bytes_per_gpu", "kv_bytes_per_token", "kv_bytes_per_sequence"),
        *("kv_bytes_per_gpu", "state_bytes_per_sequence", "activation_bytes", "communication_bytes", "graph_bytes"),
        *("engine_bytes", "margin_bytes", "used_bytes_per_gpu", "capacity_bytes_per_gpu", "kv_pool_bytes_per_gpu"),
        *("kv_pool_tokens", "kv_share", "max_sequences", "max_context_tokens", "fits", "unknown"),
    ),
    "bandwidth": (
        *("weight_bytes_per_step", "weight_bytes_per_step_expected", "kv_bytes_per_step", "kv_share_of_step"),
        *("step_floor_s", "tpot_floor_s", "amortized_s_per_token"),
    ),
    "compute": ("prefill_flop", "decode_flop_per_token", "ttft_floor_s", "ridge_batch"),
    "estimate": (
        *("tpot_s", "tpot_low_s", "tpot_high_s", "ttft_s", "ttft_low_s", "ttft_high_s"),
        *("output_tokens_per_s", "output_tokens_per_s_per_gpu", "bound"),
    ),
    "cost": ("usd_per_hour", "usd_per_million_output_tokens"),
    "caveats": (),
    "sources": (),
}
MODEL_CACHE = (
    "full_bytes_per_token",
    "window_bytes_per_token",
    "window_tokens",
    "state_bytes",
    "kv_bytes_per_sequence",
)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard output of a command that ran well, whatever its verdict."""
    assert run(arguments) in (0, 1, 4)
    out = capsys.readouterr()
    assert out.err == ""
    return out.out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(printed(capsys, *arguments, "--json"))


PAGES: list[tuple[str, int, Sequence[str]]] = [
    ("choices_70b", 60, ("plan", "--model", "70b", "--ctx", "32k")),
    ("choices_70b", 80, ("plan", "--model", "70b", "--ctx", "32k")),
    ("plan_70b_h100x4", 60, H100),
    ("plan_70b_h100x4", 80, H100),
    ("plan_70b_h100x4", 120, H100),
    ("plan_70b_h100x2_short", 80, ("plan", "--model", "70b", "--ctx", "32k", "--hw", "h100:2")),
    (
        "plan_gemma_a100x2",
        80,
        ("plan", "--model", "gemma-3-27b", "--ctx", "128k", "--hw", "a100-80gb:2", "--batch", "4"),
    ),
    ("plan_deepseek_explained", 80, ("plan", "--model", "deepseek-v3", "--ctx", "32k", "--hw", "h200:8", "--explain")),
    ("plan_8b_markdown", 80, ("plan", "--model", "8b", "--ctx", "8k", "--hw", "l4", "--format", "md")),
    ("models_show_qwen3_next", 80, ("models", "show", "qwen3-next", "--ctx", "128k")),
    ("hardware_show_l4", 80, ("hardware", "show", "l4")),
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
    monkeypatch.setattr("sys.argv", ["infopt", *arguments])
    text = printed(capsys, *arguments)
    path = GOLDEN / f"{name}_{width}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("model", ["70b", "deepseek-v3", "jamba"])
def test_no_line_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, model: str
) -> None:
    """Down to 40 columns for a plan with every derivation; the table of choices needs 60 for its command."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.argv", ["infopt", "plan", "--model", model, "--ctx", "32k"])
    text = printed(capsys, "plan", "--model", model, "--ctx", "32k", "--hw", "h200:8", "--explain")
    assert max(len(line) for line in text.splitlines()) <= width
    if width >= 60:
        choices = printed(capsys, "plan", "--model", model, "--ctx", "32k")
        assert max(len(line) for line in choices.splitlines()) <= width


def test_the_contract_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    plan = as_json(capsys, *H100)
    assert plan["schema"] == "infopt/plan/1"
    for section, keys in CONTRACT.items():
        assert section in plan
        assert set(keys) <= set(plan[section] if keys else ()), section
    assert all(set(caveat) == {"id", "text"} for caveat in plan["caveats"])


def test_choices_are_plans_with_a_rank(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "plan", "--model", "8b", "--ctx", "8k")
    assert found["schema"] == "infopt/choices/1"
    assert [choice["rank"] for choice in found["choices"]] == list(range(1, len(found["choices"]) + 1))
    for choice in found["choices"]:
        assert set(CONTRACT) - {"schema"} <= set(choice)
        assert choice["memory"]["fits"] is not False


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("plan", H100),
        ("plan", (*H100, "--explain")),
        ("plan", ("plan", "--model", "jamba", "--ctx", "128k", "--hw", "mi300x")),
        ("plan", ("plan", "--model", "deepseek-v3", "--ctx", "32k", "--hw", "a10g")),
        ("choices", ("plan", "--model", "gpt-oss-120b", "--ctx", "128k")),
        ("choices", ("plan", "--model", "405b", "--ctx", "128k", "--gpus", "1")),
        ("model", ("models", "show", "qwen3-next")),
        ("model", ("models", "show", "gemma-3-27b")),
        ("models", ("models", "list", "llama")),
        ("models", ("models", "list", "llama", "--long")),
        ("hardware", ("hardware", "list")),
        ("accelerator", ("hardware", "show", "p5.48xlarge")),
        ("accelerator", ("hardware", "show", "custom:80GB:3.35TB/s")),
        ("reproduce", ("reproduce",)),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_output_follows_its_schema(capsys: pytest.CaptureFixture[str], name: str, arguments: Sequence[str]) -> None:
    check(name, as_json(capsys, *arguments))


def check(name: str, data: Any) -> None:
    schema = json.loads(schema_text(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema, cls=jsonschema.Draft202012Validator)


def test_errors_follow_their_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--model", "nope", "--hw", "h100", "--json"]) == 2
    check("error", json.loads(capsys.readouterr().out))


def test_the_schema_of_plan_demands_the_contract() -> None:
    schema = json.loads(schema_text("plan"))
    for section, keys in CONTRACT.items():
        assert section in schema["required"]
        described = schema["properties"][section]
        described = schema["$defs"]["model"] if "$ref" in described else described
        assert set(keys) <= set(described.get("required", ())), section


def test_a_choice_is_described_as_a_plan_is() -> None:
    plan, choice = json.loads(schema_text("plan")), json.loads(schema_text("choices"))["$defs"]["choice"]
    described = dict(choice["properties"])
    del described["rank"]
    assert described == plan["properties"]


@pytest.mark.parametrize("name", schema_names())
def test_every_schema_can_be_printed(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert json.loads(printed(capsys, "schema", name))["$id"] == f"infopt/{name}/1"


def test_what_is_printed_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    memory = as_json(capsys, *H100)["memory"]
    parts = ("weights_bytes_per_gpu", "kv_bytes_per_gpu", "activation_bytes", "communication_bytes", "graph_bytes")
    total = sum(memory[part] for part in (*parts, "engine_bytes", "margin_bytes"))
    assert total == pytest.approx(memory["used_bytes_per_gpu"])


def test_70b_at_32k_is_what_geometry_says(capsys: pytest.CaptureFixture[str]) -> None:
    """2 x 80 layers x 8 heads x 128 x 2 B; 70,553,706,496 parameters (published, exact) of 2 B."""
    text = printed(capsys, *H100, "--explain")
    assert "2 x 80 layers x 8 heads x 128 x 2 B" in text
    assert "327,680 B per token; 10.74 GB (10.00 GiB) per sequence" in text
    plan = as_json(capsys, *H100)
    assert plan["memory"]["stored_weights_bytes"] == 2 * 70_553_706_496
    assert plan["bandwidth"]["tpot_floor_s"] == pytest.approx((139.014e9 + 10.737e9) / (4 * 3.35e12), rel=1e-3)


def test_explained_terms_carry_a_formula_and_a_kind(capsys: pytest.CaptureFixture[str]) -> None:
    plan = as_json(capsys, *H100, "--explain")
    ledgers = {term["ledger"] for term in plan["terms"]}
    assert ledgers == {"memory", "kv", "bandwidth", "compute", "hardware"}
    assert all(term["kind"] for term in plan["terms"])
    assert all(term["formula"] for term in plan["terms"] if term["ledger"] != "hardware")
    memory = sum(term["value"] for term in plan["terms"] if term["ledger"] == "memory")
    assert memory == pytest.approx(plan["memory"]["used_bytes_per_gpu"])


def test_csv_is_one_header_and_one_row_per_choice(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = csv.DictReader(io.StringIO(printed(capsys, *H100, "--format", "csv")))
    assert row["model.id"] == "meta-llama/Llama-3.1-70B"
    assert row["memory.fits"] == "true"
    assert int(row["memory.stored_weights_bytes"]) == 2 * 70_553_706_496
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "plan", "--model", "8b", "--ctx", "8k", "--format", "csv"))))
    plan = as_json(capsys, "plan", "--model", "8b", "--ctx", "8k")
    assert [row["hardware.id"] for row in rows] == [choice["hardware"]["id"] for choice in plan["choices"]]
    # The columns do not depend on what is known: a price or none.
    assert all(None not in row.values() and "cost.usd_per_hour" in row for row in rows)


def test_markdown_tables_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, *H100, "--format", "md", "--explain")
    widths: set[int] = set()
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            widths.add(line.replace("\\|", "").count("|"))
        else:
            assert len(widths) <= 1
            widths.clear()
    assert escape("a|b <c>\nd") == "a\\|b &lt;c> d"


def test_restrictions_hold_without_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    for choice in as_json(capsys, "plan", "--model", "70b", "--ctx", "8k", "--gpus", "8")["choices"]:
        assert choice["hardware"]["gpus"] == 8
    for choice in as_json(capsys, "plan", "--model", "70b", "--ctx", "8k", "--tp", "2")["choices"]:
        assert choice["hardware"]["tp"] == 2
    for choice in as_json(capsys, "plan", "--model", "70b", "--ctx", "8k", "--weights", "fp8")["choices"]:
        assert choice["model"]["weight_format"] == "fp8"


def test_choices_are_the_fewest_devices_and_ordered_as_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "plan", "--model", "70b", "--ctx", "32k")
    assert found["ranking"].startswith("fewest devices")
    by_format: dict[str, list[tuple[int, float]]] = {}
    for choice in found["choices"]:
        key = (choice["hardware"]["gpus"], choice["bandwidth"]["step_floor_s"])
        by_format.setdefault(choice["model"]["weight_format"], []).append(key)
    assert list(by_format) == ["bf16", "fp8", "int4"]
    assert all(keys == sorted(keys) for keys in by_format.values())
    for choice in found["choices"]:
        hardware = choice["hardware"]
        if hardware["gpus"] == 1:
            continue
        fewer = f"{hardware['id']}:{hardware['gpus'] // 2}"
        weights = choice["model"]["weight_format"]
        assert run(["plan", "--model", "70b", "--ctx", "32k", "--hw", fewer, "--weights", weights, "--json"]) == 1
        capsys.readouterr()


def test_prices_order_the_choices_where_all_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    plain = as_json(capsys, "plan", "--model", "8b", "--ctx", "8k")
    prices = [f"--price={id}=1" for id in {choice["hardware"]["id"] for choice in plain["choices"]}]
    prices.append("--price=l4=0.5")
    found = as_json(capsys, "plan", "--model", "8b", "--ctx", "8k", *prices)
    assert found["ranking"].startswith("price per hour")
    assert found["choices"][0]["hardware"]["id"] == "l4"


def test_model_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    """Cache figures of two models of facts published for them: Gemma 3 (10 full, 52 window layers), Qwen3-Next."""
    gemma = as_json(capsys, "models", "show", "gemma-3-27b", "--ctx", "128k")
    assert set(MODEL_CACHE) <= set(gemma["cache"])
    assert gemma["cache"]["full_bytes_per_token"] == 10 * 8192
    assert gemma["cache"]["window_bytes_per_token"] == 52 * 8192
    assert gemma["cache"]["window_tokens"] == 1024
    assert gemma["cache"]["kv_bytes_per_sequence"] == 10 * 8192 * 131072 + 52 * 8192 * 1024
    hybrid = as_json(capsys, "models", "show", "qwen3-next", "--ctx", "128k")
    assert hybrid["cache"]["state_bytes"] == 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)
    assert (
        sum(n for part, n in hybrid["params"].items() if part not in ("mtp", "vision"))
        == hybrid["model"]["params_total"]
    )


def keys_of(schema: dict[str, Any]) -> set[str]:
    """Every property a schema names, wherever it stands."""
    below = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    below += [schema["items"]] if "items" in schema else []
    return set(schema.get("properties", {})).union(*(keys_of(part) for part in below))


@pytest.mark.parametrize("name", schema_names())
def test_the_page_names_every_key(name: str) -> None:
    """docs/json.md of what is printed, docs/policy.md and docs/calibration.md of what is read."""
    file = f"{name if name in ('policy', 'calibration') else 'json'}.md"
    page = (Path(__file__).resolve().parent.parent / "docs" / file).read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    named = {key for code in re.findall(r"`([^`]+)`", prose) for key in re.split(r"\W+", code)}
    named |= set(re.findall(r"\b(\w+):", page)) if name == "policy" else set()
    assert keys_of(json.loads(schema_text(name))) <= named


def test_measured_points_calibrate_the_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    """Two points of one placement are met by the calibrated estimate; a point below the floor is refused."""
    common = ("plan", "--model", "70b", "--hw", "h100:4", "--isl", "1k", "--osl", "1k")
    points = ("--point", "batch=1,tpot=15ms", "--point", "batch=64,tpot=31ms")
    for batch, tpot_s in ((1, 0.015), (64, 0.031)):
        found = as_json(capsys, *common, "--batch", str(batch), *points)
        assert found["estimate"]["tpot_s"] == pytest.approx(tpot_s, rel=0.02)
        assert any(c["id"] == "calibration" for c in found["assumptions"])
    assert run((*common, "--point", "batch=1,tpot=1ms")) == 2
    assert "cannot take less than" in capsys.readouterr().err
