"""Rules of a plan, judged by Prometheus itself: they parse, give what `observe` gives, and fire when they should."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from promtool import STEP_S, Series, check, firing, linear, needs_promtool, run_tests, values

from infopt.cli import run
from infopt.observing.metric_names import FOLDER, MetricNames
from infopt.observing.observation import Spread
from infopt.observing.snapshots import Snapshot, observation_of
from infopt.probes.metrics_text import parse_metrics
from infopt.records import load_record, names_in
from infopt.studies.export_alerts import alert_words
from infopt.studies.export_figures import figures
from infopt.studies.export_queries import Queries, Scope, quoted

TEXTS = Path(__file__).parent / "data" / "metrics"
SHARED = Path(__file__).resolve().parent.parent.parent / "shared"
PLAN = "--model 8b --hw h100 --isl 2000 --osl 300 --batch 32"
PROMISED = f"{PLAN} --rate 8/s --ttft 1s --tpot 50ms --shared-prefix 1000 --method ngram --drafted 4"
WINDOW_S = 300
# Texts by the record of names they are of.
PAIRS = {
    "vllm": ("vllm_0.6.3", "vllm_0.12", "vllm_0.32", "vllm_0.32_ngram"),
    "sglang": ("sglang_0.4.6", "sglang_0.5.5", "sglang_0.5.23"),
    "tgi": ("tgi_3",),
    "trtllm": ("trtllm_1.0", "trtllm_1.3"),
    "triton": ("triton",),
    "llama_cpp": ("llama.cpp_2025", "llama.cpp_2026"),
    "dynamo": ("dynamo_frontend",),
}
# Field of an observation, and the figure that should say the same.
SAME = {
    "effective_batch": "batch",
    "tokens_per_step": "tokens_per_step",
    "prefix_hit_share": "prefix_hits",
    "kv_use_share": "kv_use",
    "waiting": "waiting",
}


def names_of(record: str) -> MetricNames:
    return load_record(MetricNames, FOLDER, record, "metrics", "")


def exported(capsys: pytest.CaptureFixture[str], words: str, kind: str = "prometheus") -> str:
    assert run(["export", kind, *shlex.split(words)]) == 0
    return capsys.readouterr().out


def rules_in(text: str) -> list[dict[str, object]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def series_names(query: str) -> set[str]:
    """Names of series in a query: what stands before a brace that is outside of quotes."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', query)
    return set(re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{", bare))


@pytest.mark.parametrize("record", names_in(FOLDER))
def test_every_name_in_every_query_is_known_to_observe(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = names_of(record).reads()
    recorded = set()
    for rule in rules_in(exported(capsys, f"{PROMISED} --metrics {record}")):
        asked = series_names(str(rule["expr"]))
        assert asked, rule
        assert {name for name in asked if not name.startswith("infopt:")} <= known
        assert {name for name in asked if name.startswith("infopt:")} <= recorded
        recorded |= {str(rule["record"])} if "record" in rule else set()


@needs_promtool
@pytest.mark.parametrize("record", names_in(FOLDER))
def test_rules_are_prometheus_rules(record: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = exported(capsys, f"{PROMISED} --metrics {record}")
    (tmp_path / "rules.yaml").write_text(text)
    assert check("check", "rules", "--lint-fatal", "rules.yaml", cwd=tmp_path)[0] == 0
    as_json = exported(capsys, f"{PROMISED} --metrics {record} --json")
    assert json.loads(as_json) == yaml.safe_load(text)
    (tmp_path / "rules.json").write_text(as_json)
    assert check("check", "rules", "rules.json", cwd=tmp_path)[0] == 0


def pair(name: str) -> tuple[str, str]:
    before, after = ((TEXTS / f"{name}_{when}.txt").read_text() for when in ("before", "after"))
    return before, after


def compare(record: str, texts: tuple[str, str], folder: Path) -> set[str]:
    """Two texts, 300 s apart, read by `observe` and as series that Prometheus evaluates: the figures both have."""
    shots = [
        Snapshot(parse_metrics(text.encode(), "text"), at_s, None, None)
        for text, at_s in zip(texts, (0, WINDOW_S), strict=True)
    ]
    seen = observation_of(shots, "text")
    names = names_of(record)
    served = "" if seen.model is None else f"{names.model_label[0]}={quoted(seen.model)}"
    known = figures(Queries(names, Scope(served, "5m", names.prefixes[0], 1)), 0.9)
    expected = {figure: getattr(seen, field) for field, figure in SAME.items()}
    for time in ("tpot", "ttft"):
        spread = getattr(seen, f"{time}_s") or Spread()
        expected |= {time: spread.mean, f"{time}_p50": spread.p50, f"{time}_p99": spread.p99}
    for count, figure in (("output_tokens", "output_tokens"), ("requests", "finished"), ("preemptions", "preemptions")):
        total = getattr(seen, count)
        expected[figure] = None if total is None else total / WINDOW_S
    wanted = {id: value for id, value in expected.items() if known[id].query is not None and value is not None}
    series = linear(texts, WINDOW_S, WINDOW_S, step_s=5, job="llm", instance="a:8000")
    found = values(folder, None, series, [str(known[id].query) for id in wanted], WINDOW_S, step_s=5)
    for (id, value), got in zip(wanted.items(), found, strict=True):
        assert got == [pytest.approx(value, rel=0.02)], id
    return set(wanted)


@needs_promtool
@pytest.mark.parametrize(("record", "name"), [(record, name) for record, found in PAIRS.items() for name in found])
def test_queries_give_what_observe_gives(record: str, name: str, tmp_path: Path) -> None:
    assert len(compare(record, pair(name), tmp_path)) >= 4


@needs_promtool
@pytest.mark.shared
@pytest.mark.parametrize("name", ["ngram4_code", "prefix_shared"])
def test_queries_on_texts_of_a_real_vllm(name: str, tmp_path: Path) -> None:
    """vLLM 0.32 on a processor, before and after a load of four clients."""
    folder = SHARED / "live"
    if not folder.is_dir():
        pytest.skip("../shared is not here")
    before, after = ((folder / f"metrics_{name}_{clients}.txt").read_text() for clients in ("c1", "c4"))
    assert compare("vllm", (before, after), tmp_path) >= {
        "tpot",
        "tpot_p99",
        "batch",
        "tokens_per_step",
        "output_tokens",
    }


@needs_promtool
def test_ranks_that_do_the_same_work_count_once(tmp_path: Path) -> None:
    """SGLang with metrics of all schedulers: two tensor parallel ranks, one replica."""

    def with_a_second_rank(text: str) -> str:
        own = [line for line in text.splitlines() if 'tp_rank="0"' in line]
        return "\n".join([text, *(line.replace('tp_rank="0"', 'tp_rank="1"') for line in own)])

    before, after = pair("sglang_0.5.23")
    assert len(compare("sglang", (with_a_second_rank(before), with_a_second_rank(after)), tmp_path)) >= 8


HOUR_S = 3600
SERVED = "example-8b"
WATCHED = f"{PROMISED.replace('--ttft 1s', '--ttft 400ms')} --served {SERVED}"
# What each series is an hour long, in a server that does as planned: a value, or what it grows by in a second ("+x").
# The others are those of the text; counts are 40 requests and 2540 steps in 300 s.
HEALTHY = {
    "vllm:num_requests_running": "32",
    "vllm:num_requests_waiting": "0",
    "vllm:kv_cache_usage_perc": "0.1",
    "vllm:num_preemptions_total": "3",
    "vllm:request_time_per_output_token_seconds_sum": f"+{0.0156 * 40 / 300}",
    "vllm:inter_token_latency_seconds_sum": f"+{0.0156 * 2540 / 300}",
    'vllm:time_to_first_token_seconds_bucket le="0.25"': f"+{40 / 300}",
    "vllm:prefix_cache_queries_total": "+100",
    "vllm:prefix_cache_hits_total": "+50",
}
STEPS_S, REQUESTS_S = 2540 / 300, 40 / 300
BROKEN: list[tuple[set[str], dict[str, str]]] = [
    (set(), {}),
    ({"InfoptStepBelowFloor"}, {"vllm:inter_token_latency_seconds_sum": f"+{0.004 * STEPS_S}"}),
    ({"InfoptTpotAboveInterval"}, {"vllm:request_time_per_output_token_seconds_sum": f"+{0.03 * REQUESTS_S}"}),
    (
        {"InfoptTpotAboveInterval", "InfoptTpotAboveTarget"},
        {"vllm:request_time_per_output_token_seconds_sum": f"+{0.06 * REQUESTS_S}"},
    ),
    ({"InfoptTtftAboveTarget"}, {'vllm:time_to_first_token_seconds_bucket le="0.25"': "+0"}),
    ({"InfoptKvUseAbovePlan"}, {"vllm:kv_cache_usage_perc": "0.5"}),
    ({"InfoptRunningAboveMemory"}, {"vllm:num_requests_running": "200", "vllm:num_requests_waiting": "5"}),
    ({"InfoptWaitingBelowLimit"}, {"vllm:num_requests_waiting": "5"}),
    ({"InfoptPreemptions"}, {"vllm:num_preemptions_total": "+0.01"}),
    ({"InfoptArrivalsAbovePlan"}, {"vllm:request_success_total": "+2.25"}),  # by each of four reasons to finish
    ({"InfoptArrivalsAbovePlan", "InfoptArrivalsAboveSaturation"}, {"vllm:request_success_total": "+3"}),
    (
        # None finishes, but twelve more a second wait.
        {"InfoptArrivalsAbovePlan", "InfoptArrivalsAboveSaturation", "InfoptWaitingBelowLimit"},
        {"vllm:num_requests_waiting": "+12", "vllm:request_success_total": "+0"},
    ),
    ({"InfoptPrefixHitsBelowBreakEven"}, {"vllm:prefix_cache_hits_total": "+1"}),
    ({"InfoptDraftsBelowBreakEven"}, {"vllm:spec_decode_num_accepted_tokens_total": "+0.01"}),
]


def hour(changes: dict[str, str], instance: str = "a:8000", name: str = SERVED) -> Series:
    """The text of a server that drafts with n-grams, an hour long, with other values."""
    texts = tuple(text.replace(SERVED, "NAME") for text in pair("vllm_0.32_ngram"))
    series = linear((texts[0], texts[1]), WINDOW_S, HOUR_S, job="llm", instance=instance)
    for key, value in (HEALTHY | changes).items():
        family, _, label = key.partition(" ")
        chosen = [one for one in series if one["series"].startswith(f"{family}{{") and label in one["series"]]
        assert chosen, key
        for one in chosen:
            one["values"] = f"0+{float(value) * STEP_S!r}x120" if value.startswith("+") else f"{value}+0x120"
    written = name.replace("\\", "\\\\").replace('"', '\\"')
    return [one | {"series": one["series"].replace("NAME", written)} for one in series]


@needs_promtool
@pytest.mark.parametrize(("expected", "changes"), BROKEN, ids=lambda case: ",".join(sorted(case)) or "healthy")
def test_alerts_fire_when_they_should_and_no_other(
    expected: set[str], changes: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert firing(tmp_path, exported(capsys, WATCHED), hour(changes), HOUR_S) == expected


@needs_promtool
def test_every_alert_has_been_seen_to_fire(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Those above, and the one of a server that is not scraped."""
    gone = [one for one in hour({}) if not one["series"].startswith("vllm:")]
    assert firing(tmp_path, exported(capsys, WATCHED), gone, HOUR_S) == {"InfoptNothingScraped"}
    fired = set().union(*(expected for expected, _ in BROKEN)) | {"InfoptNothingScraped"}
    assert fired == {words.alert for words in alert_words().values()}


@needs_promtool
def test_a_second_replica_shares_what_arrives(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Twelve requests a second are too many for one, not for two."""
    rules, six = exported(capsys, WATCHED), {"vllm:request_success_total": "+1.5"}
    assert firing(tmp_path, rules, [*hour(six), *hour(six, "b:8000")], HOUR_S) == set()


@needs_promtool
def test_replicas_behind_one_address_are_judged_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """240 sequences are more than one replica holds, and fewer than two do."""
    rules, half = exported(capsys, WATCHED), hour({"vllm:num_requests_running": "120"})
    second = [one | {"series": one["series"].replace('engine="0"', 'engine="1"')} for one in half]
    assert firing(tmp_path, rules, [*half, *(one for one in second if one not in half)], HOUR_S) == set()
    assert firing(tmp_path, rules, hour({"vllm:num_requests_running": "240"}), HOUR_S) == {"InfoptRunningAboveMemory"}


@needs_promtool
def test_names_of_any_kind_stay_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Quotes, braces, backslashes and templates in a model's name: the rules find its series, and texts show it."""
    name = """a"b'{c}\\d {{ $value }} <script> # $x"""
    text = exported(capsys, f"{WATCHED.replace(SERVED, shlex.quote(name))} --match {shlex.quote('job=llm')}")
    series = hour({"vllm:num_preemptions_total": "+0.01"}, name=name)
    assert firing(tmp_path, text, series, HOUR_S) == {"InfoptPreemptions"}
    asked = {"eval_time": f"{HOUR_S}s", "alertname": "InfoptPreemptions", "exp_alerts": []}
    _, said = run_tests(tmp_path, text, {"input_series": series, "alert_rule_test": [asked]})
    shown = json.dumps(f"{name}: sequences are put back for want of cache, though the planned batch fits: now 10m/s")
    assert shown.strip('"') in said


def test_what_cannot_be_judged_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    """An engine without estimate: its floors and its memory are alerts, its times are not."""
    assert run(["export", "prometheus", *shlex.split(PLAN), "--engine", "llama.cpp"]) == 0
    printed = capsys.readouterr()
    alerts = {str(rule["alert"]) for rule in rules_in(printed.out) if "alert" in rule}
    assert alerts == {
        "InfoptNothingScraped",
        "InfoptStepBelowFloor",
        "InfoptKvUseAbovePlan",
        "InfoptRunningAboveMemory",
        "InfoptWaitingBelowLimit",
    }
    for id, words in alert_words().items():
        assert (words.alert in alerts) != (f"left out: {id}: " in printed.err)
        assert (words.alert in alerts) != (f"# left out: {id}: " in printed.out)


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        ("--model 70b --hw h100 --ctx 32k", 1, "does not fit"),
        ("--model 8b --hw l4 --ctx 24k --engine-version 0.33.0", 4, "--allow-undetermined"),
        (f"{PLAN} --engine torch", 2, "one of dynamo, llama_cpp, nim, sglang, tgi, triton, trtllm, vllm"),
        (f"{PLAN} --metrics vlm", 2, "vllm"),
        (f"{PLAN} --metric-prefix xyz_", 2, "ray_vllm_"),
        (f"{PLAN} --metrics nim --metric-prefix xyz_", 2, "no other one is known"),
        (f"{PLAN} --match novalue", 2, "LABEL=VALUE"),
        (f"{PLAN} --match 'a-b=c'", 2, "LABEL=VALUE"),
        (f"{PLAN} --match model_name=x", 2, "--served"),
        (f"{PLAN} --match instance=x", 2, "rules are of every instance"),
        (f"{PLAN} --good 0", 2, "add --ttft"),
        (f"{PLAN} --ttft 1s --good 0", 2, "no part of the requests"),
        ("--model 8b --isl 2000 --osl 300", 2, "--hw is missing"),
        (f"{PLAN} --served 'a\udcff'", 2, "not UTF-8"),
    ],
)
@pytest.mark.parametrize("kind", ["prometheus", "grafana"])
def test_refusals_write_nothing(
    kind: str, words: str, status: int, why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "rules.yaml"
    target.write_text("as it was")
    assert run(["export", kind, *shlex.split(words), "--out", str(target)]) == status
    printed = capsys.readouterr()
    assert why in printed.err
    assert printed.out == ""
    assert target.read_text() == "as it was"


def test_names_that_ray_writes(capsys: pytest.CaptureFixture[str]) -> None:
    rules = rules_in(exported(capsys, f"{PLAN} --metric-prefix ray_vllm_"))
    names = {name for rule in rules for name in series_names(str(rule["expr"]))}
    assert all(name.startswith(("ray_vllm_", "infopt:")) for name in names)
    assert "ray_vllm_num_requests_running" in names


def test_thresholds_are_the_plans(capsys: pytest.CaptureFixture[str]) -> None:
    """Every number of an alert is one that `plan --json` or `boundary --json` prints, in its own arithmetic."""
    assert run(["plan", *shlex.split(PLAN), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert run(["boundary", *shlex.split(PLAN), "--rate", "8/s", "--json"]) == 0
    techniques = {one["technique"]: one for one in json.loads(capsys.readouterr().out)["techniques"]}
    rules = {str(rule["alert"]): str(rule["expr"]) for rule in rules_in(exported(capsys, PROMISED)) if "alert" in rule}

    def limit(alert: str) -> float:
        return float(re.split(r" [<>] ", rules[alert])[1].split(" and ")[0])

    memory, bandwidth = plan["memory"], plan["bandwidth"]
    assert limit("InfoptTpotAboveInterval") == pytest.approx(plan["estimate"]["tpot_high_s"], rel=1e-5)
    assert limit("InfoptRunningAboveMemory") == memory["max_sequences"]
    weights_s = bandwidth["weight_bytes_per_step"] / plan["hardware"]["bandwidth_bytes_per_s"]
    assert limit("InfoptStepBelowFloor") == pytest.approx(weights_s, rel=1e-5)
    assert limit("InfoptStepBelowFloor") < bandwidth["tpot_floor_s"]
    share = memory["kv_bytes_per_gpu"] / memory["kv_pool_bytes_per_gpu"]
    assert share <= limit("InfoptKvUseAbovePlan") <= 1.1 * share  # of the least pool
    figures_of = {one["name"]: one["value"] for one in techniques["continuous-batching"]["figures"]}
    assert limit("InfoptArrivalsAboveSaturation") == pytest.approx(figures_of["saturation_per_s"], rel=1e-5)
    assert limit("InfoptArrivalsAbovePlan") == 8
    assert limit("InfoptTpotAboveTarget") == 0.05
    assert limit("InfoptTtftAboveTarget") == 1
