"""`infopt observe` against live servers that replay texts of each engine, files, and results of benchmarks."""

import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import metric_servers as servers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from metric_servers import Replay, models, pairs, serving, text_of

from infopt.cli import run
from infopt.hardware.calibration import load_calibration
from infopt.observing.endpoints import now
from infopt.observing.metric_names import FOLDER
from infopt.observing.observation import Observation, Spread, read_observation
from infopt.observing.reading import read_source, read_sources
from infopt.observing.watching import Kept, Progress, Schedule
from infopt.observing.windows import Snapshot
from infopt.probes import draft_counters
from infopt.probes.metrics_text import Metrics
from infopt.reports.observe_live import Page, curve
from infopt.reports.observe_report import render_observation
from infopt.reports.schemas import schema_text
from infopt.units import parse_seconds

QUICK = ("--interval", "100ms", "--duration", "200ms")  # three looks, two where the machine is busy
BENCHMARKS = Path(__file__).resolve().parent / "data" / "benchmarks"
# Fields that hold where a window lasted a fifth of a second instead of the fixture's minute.
OF_TIME = ("source", "taken", "window_s", "notes", "effective_batch_by_littles_law", "read_bytes_per_s", "flop_per_s")
MIDDLE = ("effective_batch", "waiting", "kv_use_share", "tokens_per_step", "prefix_hit_share")  # gauges: three looks


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert run(["observe", *arguments, "--json"]) == status
    printed = capsys.readouterr().out
    found: dict[str, Any] = json.loads(printed)
    return found


def plain(value: Any) -> Any:
    """A time as a dictionary."""
    return value.model_dump() if isinstance(value, Spread) else value


@pytest.mark.parametrize("pair", pairs())
def test_a_server_of_each_engine(pair: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The record of a live server is that of its two texts; it is written, read back, and keeps to the schema."""
    before, after = text_of(f"{pair}_before"), text_of(f"{pair}_after")
    expected = read_source(servers.TEXTS / f"{pair}_after.txt", servers.TEXTS / f"{pair}_before.txt")
    path = "/prometheus/metrics" if pair.startswith("trtllm") else "/metrics"
    replay = Replay({path: [before, after], "/metrics" if path != "/metrics" else "/none": [b"[]"]})
    out = tmp_path / "observed.json"
    with serving(replay) as url:
        found = as_json(capsys, url, *QUICK, "--out", str(out))
        assert replay.asked.count(path) >= 2
    Draft202012Validator(json.loads(schema_text("observe"))).validate(found)
    assert json.loads(out.read_text()) == found
    read = read_observation(out)
    assert read.ignored == ()
    assert read.source == url + path
    assert read.kind == "window"
    assert read.window_s is not None
    assert 0.1 < read.window_s < 20
    same = set(Observation.model_fields) - {*OF_TIME, *MIDDLE}
    for name in sorted(same):
        assert plain(getattr(read, name)) == pytest.approx(plain(getattr(expected, name))), name
    assert read.engine is not None


def test_a_page_at_eighty_columns_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    replay = Replay({"/metrics": [text_of("vllm_0.32_ngram_before"), text_of("vllm_0.32_ngram_after")]})
    replay.routes = {**replay.routes, "/v1/models": models()}
    with serving(replay) as url:
        assert run(["observe", url, *QUICK]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert lines[0].startswith("vllm")
    assert lines[0].endswith("example-8b")
    for heading in ("LOAD", "TIMES", "SPECULATION", "CACHE"):
        assert any(line.startswith(heading) for line in lines), heading
    assert "\x1b" not in printed.out


@pytest.mark.parametrize("form", ["table", "md", "csv", "json"])
def test_every_form_of_what_is_nearly_empty(form: str) -> None:
    assert render_observation(Observation(), form)
    assert render_observation(Observation(engine="vllm", effective_batch=0.0), form)


def test_a_kept_text_is_where_the_next_window_starts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--save` writes when it was taken; --since looks once and knows how long it has been."""
    kept = tmp_path / "before.txt"
    before, after = text_of("vllm_0.32_before"), text_of("vllm_0.32_after")
    with serving(Replay({"/metrics": [before]})) as url:
        totals = as_json(capsys, url, "--duration", "0s", "--save", str(kept))
    assert totals["kind"] == "totals"
    first, rest = kept.read_bytes().split(b"\n", 1)
    assert rest == before
    assert first.startswith(b"# infopt saved ")
    kept.write_bytes(first.replace(now()[:10].encode(), b"2020-01-01") + b"\n" + rest)
    replay = Replay({"/metrics": [after]})
    with serving(replay) as url:
        found = as_json(capsys, url, "--since", str(kept))
    assert replay.asked.count("/metrics") == 1
    assert found["window_s"] > 86_400 * 365
    expected = read_source(servers.TEXTS / "vllm_0.32_after.txt", servers.TEXTS / "vllm_0.32_before.txt")
    assert found["requests"] == expected.requests


def test_how_far_two_files_are_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    after, before = (str(servers.TEXTS / f"vllm_0.32_{end}.txt") for end in ("after", "before"))
    assert as_json(capsys, after, "--since", before)["window_s"] is None
    assert as_json(capsys, after, "--since", before, "--apart", "2min")["window_s"] == 120
    with serving(Replay({"/metrics": [text_of("vllm_0.32_after")]})) as url:
        assert run(["observe", url, "--since", before]) == 2
        assert "--apart" in capsys.readouterr().err
        assert as_json(capsys, url, "--since", before, "--apart", "90s")["window_s"] == pytest.approx(90, abs=1)


def test_a_record_is_a_source_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "observed.json"
    first = as_json(capsys, str(servers.TEXTS / "sglang_0.5.23_after.txt"), "--out", str(out))
    assert as_json(capsys, str(out)) == first


@pytest.mark.parametrize("name", sorted(path.name for path in BENCHMARKS.iterdir()))
def test_results_of_benchmarks(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One result is an observation; several are listed, and each is one by its row."""
    path = BENCHMARKS / name
    found = read_sources(path)
    printed = as_json(capsys, str(path))
    if len(found) == 1:
        assert printed["kind"] == "benchmark"
        Draft202012Validator(json.loads(schema_text("observe"))).validate(printed)
        return
    assert len(printed["observations"]) == len(found)
    for row in range(1, len(found) + 1):
        one = as_json(capsys, str(path), "--row", str(row))
        assert {key: one[key] for key in printed["observations"][row - 1]} == printed["observations"][row - 1]
    assert run(["observe", str(path)]) == 0
    assert "--row N" in capsys.readouterr().out
    assert run(["observe", str(path), "--advise", "--hw", "h100"]) == 2
    assert "--advise: " in capsys.readouterr().err
    assert run(["observe", str(path), "--row", str(len(found) + 1)]) == 2
    assert f"holds {len(found)} results" in capsys.readouterr().err


def test_llama_cpp_without_metrics_has_slots(capsys: pytest.CaptureFixture[str]) -> None:
    """Two of four slots work, then one of four; older servers say it as a state."""
    for name, busy, idle in (("is_processing", "true", "false"), ("state", "1", "0")):
        slots = [
            "[" + ", ".join(f'{{"id": {i}, "{name}": {busy if i < n else idle}}}' for i in range(4)) + "]"
            for n in (2, 1, 1)
        ]
        routes: servers.Routes = {
            "/metrics": lambda handler: handler.say(b'{"error": {"message": "no metrics endpoint"}}', 501),
            "/slots": [text.encode() for text in slots],
            "/v1/models": models("smol", "llamacpp"),
        }
        with serving(Replay(routes)) as url:
            found = as_json(capsys, url, *QUICK)
        assert found["engine"] == "llama.cpp"
        assert found["model"] == "smol"
        assert found["effective_batch"] in (pytest.approx(4 / 3), pytest.approx(3 / 2))
    with serving(Replay({**routes, "/slots": [b'[{"id": 0}]']})) as url:
        assert run(["observe", url, *QUICK]) == 2
    assert "501" in capsys.readouterr().err


def test_addresses_that_mean_the_same_server(capsys: pytest.CaptureFixture[str]) -> None:
    for end in ("", "/", "/v1", "/metrics", "/metrics/", "/prometheus/metrics"):
        replay = Replay({"/metrics": [text_of("tgi_3_after")]})
        with serving(replay) as url:
            assert as_json(capsys, url + end, "--duration", "0s")["source"] == url + "/metrics"
    replay = Replay({"/gpu/7/metrics": [text_of("tgi_3_after")]})
    with serving(replay) as url:
        assert as_json(capsys, f"{url}/gpu/7", "--duration", "0s")["engine"] == "tgi"


@pytest.mark.parametrize(
    ("served", "beside", "words"),
    [
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B", ""),
        ("/models/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B", "is taken for meta-llama/Llama-3.1-8B"),
        ("smol", None, "'smol' is not one of the catalogue: name it with --model"),
        ("llama", None, "'llama' is not one of the catalogue"),
    ],
)
def test_the_ledgers_beside_what_is_served(
    served: str, beside: str | None, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The name a server has for its model, where none is named; whatever it is, what was seen is printed."""
    before, after = (
        text_of(f"vllm_0.32_{end}").replace(b'model_name="example-8b"', b'model_name="%s"' % served.encode())
        for end in ("before", "after")
    )
    with serving(Replay({"/metrics": [before, after], "/v1/models": models(served)})) as url:
        assert run(["observe", url, *QUICK, "--hw", "h100", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    Draft202012Validator(json.loads(schema_text("observe"))).validate(found)
    assert words in printed.err
    assert (printed.err == "") == (words == "")
    assert found["model"] == served
    assert (found["beside"] or {}).get("model") == beside
    assert (found["checklist"] is None) == (beside is None)
    assert (found["bandwidth_utilization"] is None) == (beside is None)
    assert found["advice"] is None


def test_advice_stands_below(capsys: pytest.CaptureFixture[str]) -> None:
    """In the page and the record, from two kept texts; without hardware it is refused before anything is read."""
    after, before = (str(servers.TEXTS / f"vllm_0.32_{end}.txt") for end in ("after", "before"))
    asked = (after, "--since", before, "--apart", "1min", "--model", "8b", "--hw", "h100", "--advise")
    found = as_json(capsys, *asked)
    Draft202012Validator(json.loads(schema_text("observe"))).validate(found)
    assert found["advice"]["changes"]
    assert found["measure_next"]
    for form in ("table", "md"):
        assert run(["observe", *asked, "--format", form]) == 0
        page = capsys.readouterr().out.lower()
        assert page.index("beside the ledgers") < page.index("advice") < page.index("measure next")
    assert run(["observe", "http://127.0.0.1:9", "--advise"]) == 2
    assert "--advise is of one deployment: name its hardware with --hw" in capsys.readouterr().err


def test_trouble_with_the_plan_does_not_hide_what_was_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """No engine runs this placement: that is said, below the observation."""
    text = str(servers.TEXTS / "vllm_0.32_after.txt")
    assert run(["observe", text, "--model", "8b", "--hw", "h100:3"]) == 2
    printed = capsys.readouterr()
    assert "LOAD" in printed.out
    assert "BESIDE" not in printed.out
    assert printed.err.count("\n") == 1


LOGS = Path(__file__).resolve().parent / "data" / "start_logs"


def test_a_start_up_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The page, the record that --observed takes, and the memory part of a calibration."""
    log = str(LOGS / "sglang_tp2.log")
    out, record = tmp_path / "observed.json", tmp_path / "h100.yaml"
    found = as_json(capsys, "--log", log, "--out", str(out))
    Draft202012Validator(json.loads(schema_text("observe"))).validate(found)
    assert found["start_log"]["terms"]
    assert read_observation(out).ignored == ()
    assert read_observation(out).kv_pool_tokens == 852_113
    for form in ("table", "md"):
        assert run(["observe", "--log", log, "--format", form]) == 0
        assert "852,113" in capsys.readouterr().out
    assert run(["observe", "--log", log, "--calibrate", str(record)]) == 2
    assert "name its hardware with --hw" in capsys.readouterr().err
    assert run(["observe", "--log", str(LOGS / "llamacpp_oom.log")]) == 1
    assert "out of memory" in capsys.readouterr().out
    for more, words in (
        (("metrics.txt",), "--log is a page of its own"),
        (("--advise", "--hw", "h100"), "--advise is of a load"),
        (("--format", "csv"), "--format csv"),
        (("--row", "1"), "--row is of metrics and results"),
        (("--served", "x"), "--served is of metrics and results"),
    ):
        assert run(["observe", "--log", log, *more]) == 2
        assert words in capsys.readouterr().err


def test_one_of_several_models(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All models of an address are added up, with a note; --served has one alone."""
    other = text_of("vllm_0.32_after").replace(b'model_name="example-8b"', b'model_name="other"')
    text = text_of("vllm_0.32_after") + other + other.replace(b'model_name="other"', b'model_name="third"')
    path = tmp_path / "text.txt"
    path.write_bytes(text)
    with serving(Replay({"/metrics": [text], "/v1/models": models("other")})) as url:
        for source in (url, str(path)):
            once = ("--duration", "0s") if source == url else ()
            together = as_json(capsys, source, *once)
            assert together["model"] == "example-8b, other, third"
            assert any("3 models" in note for note in together["notes"])
            alone = as_json(capsys, source, *once, "--served", "other")
            assert alone["model"] == "other"
            assert together["requests"] == 3 * alone["requests"]
            assert run(["observe", source, *once, "--served", "nobody"]) == 2
            assert "has example-8b, other, third" in capsys.readouterr().err


def test_an_idle_server_is_nothing_to_observe(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of("vllm_0.32_before")
    for metric in ("running", "waiting"):
        lines = [
            line.rpartition(b" ")[0] + b" 0.0" if line.startswith(f"vllm:num_requests_{metric}{{".encode()) else line
            for line in text.splitlines()
        ]
        text = b"\n".join(lines) + b"\n"
    with serving(Replay({"/metrics": [text]})) as url:
        found = as_json(capsys, url, *QUICK, status=3)
    assert found["requests"] == 0
    assert any("nothing was served" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "SOURCE is missing"),
        (("http://127.0.0.1:9", "--interval", "50ms"), "--interval 0.05s: at least 0.1 s"),
        (("http://127.0.0.1:9", "--interval", "0s"), "--interval 0s: at least 0.1 s"),
        (("http://127.0.0.1:9", "--duration", "5s"), "--duration 5s is less than --interval 10s"),
        (("http://127.0.0.1:9", "--duration", "25h"), "--duration"),
        (("http://127.0.0.1:9", "--duration", "1500min"), "at most 24 h"),
        (("http://127.0.0.1:9", "--timeout", "0s"), "--timeout 0s"),
        (("http://127.0.0.1:9", "--row", "1"), "--row is of a file"),
        (("http://127.0.0.1:9", "--out", "/nowhere/there/x.json"), "there is no folder /nowhere/there"),
        (("http://127.0.0.1:9", "--apart", "5s"), "--apart"),
        (("http://127.0.0.1:9", "--hw", "h1000"), "unknown"),
        (("http://127.0.0.1:9", "--model", "nonsense"), "unknown model"),
        (("README.md", "--duration", "5s"), "--duration is of a server"),
        (("localhost:8000",), "http://localhost:8000"),
        (("http://",), "expected http://HOST:PORT"),
        (("http://a b",), "expected http://HOST:PORT"),
        (("ftp://127.0.0.1/metrics",), "an address begins with http:// or https://"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no address is asked before: nothing listens at port 9, and each line is about something else."""
    monkeypatch.chdir(Path(__file__).resolve().parent.parent)
    assert run(["observe", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1


def test_ctrl_c_keeps_what_was_seen(tmp_path: Path) -> None:
    replay = Replay({"/metrics": [text_of("vllm_0.32_before"), text_of("vllm_0.32_after")]})
    with serving(replay) as url:
        for sent in (signal.SIGINT, signal.SIGTERM):
            replay.asked.clear()
            command = [
                sys.executable,
                "-m",
                "infopt",
                "observe",
                url,
                "--interval",
                "100ms",
                "--duration",
                "1h",
                "--json",
            ]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                until = time.monotonic() + 60
                while replay.asked.count("/metrics") < 3 and time.monotonic() < until:
                    time.sleep(0.02)
                child.send_signal(sent)
                try:
                    out, err = child.communicate(timeout=60)
                finally:
                    child.kill()  # an hour is long
            assert child.returncode == 130
            found = json.loads(out)
            assert found["kind"] == "window"
            assert found["requests"] > 0
            assert any(note.startswith("interrupted") for note in found["notes"])
            assert b"Traceback" not in err


def test_the_display_is_on_standard_error_alone() -> None:
    """A terminal there, a pipe on stdout: what is printed stays JSON."""
    replay = Replay({"/metrics": [text_of("vllm_0.32_before"), text_of("vllm_0.32_after")]})
    ours, theirs = pty.openpty()
    with serving(replay) as url:
        command = [sys.executable, "-m", "infopt", "observe", url, *QUICK, "--json"]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, timeout=60, check=False)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 1 << 16):
            shown += piece
    except OSError:  # what a terminal says at its end on Linux
        os.close(ours)
    assert done.returncode == 0
    assert json.loads(done.stdout)["requests"] > 0
    assert b"Ctrl-C" in shown
    assert b"per token" in shown
    assert b"\x1b[3" not in shown, "colours, with NO_COLOR"


def test_lines_of_the_display() -> None:
    page = Page(unicode=False)
    assert list(page.lines(0.0)) == ["looking at the server"]
    for n, batch in enumerate((1.0, 2.0, 4.0)):
        seen = Observation(effective_batch=batch, waiting=0.5, window_s=10.0, output_tokens=100.0, tpot_s=0.025)
        page.tell(Progress(100.0, 60.0, n + 2, 1, "no answer", seen))
    lines = list(page.lines(130.0))
    assert lines[0].startswith("30 s of 60 s: 4 looks, 1 failed")
    assert lines[1] == "the last look failed: no answer"
    assert lines[2] == "batch 4; waiting 0.5; 10 tokens/s"
    assert lines[3] == "per token 25.0 ms"
    assert lines[4].startswith("batch ")
    assert curve([0.0, 0.0], "_#") == "__"


@given(st.integers(1, 400), st.integers(2, 12), st.integers(1, 60))
def test_kept_snapshots_are_bounded(count: int, most: int, most_series: int) -> None:
    """The first and the last are always there, in order, evenly spaced between, within both limits (but two)."""
    kept = Kept(most, most_series)
    for n in range(count):
        kept.add(Snapshot(Metrics({"a": {(("x", "1"),): 1.0}, "b": {(): float(n)}}, 0), float(n + 1)))
    times = [snapshot.at_s for snapshot in kept.all()]
    assert times[0] == 1
    assert times[-1] == count
    assert times == sorted(set(times))
    assert len(times) <= max(2, min(most, most_series // 2) + 1)
    steps = {late - early for early, late in itertools.pairwise(times[:-1])}
    assert len(steps) <= 1


def test_a_schedule_knows_its_bounds() -> None:
    assert parse_seconds("5m") == 300
    assert Schedule.of(0.1, 0.1).duration_s == 0.1
    assert Schedule.of(10, 0).duration_s == 0
    assert Schedule.of(10, 86_400).duration_s == 86_400


def test_metrics_named_in_the_page_are_read() -> None:
    """docs/observe.md says from which metric each figure is."""
    page = (Path(__file__).resolve().parent.parent / "docs" / "observe.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(vllm:\w+)`", page))
    files = [file for folder in (FOLDER, draft_counters.FOLDER) for file in folder.glob("vllm*.yaml")]
    texts = "".join(file.read_text(encoding="utf-8") for file in files)
    known = {name.removeprefix("vllm:") for name in re.findall(r"[\w:]+", texts)}
    missing = {name for name in named if not any(name == f"vllm:{one}{end}" for one in known for end in ("", "_total"))}
    assert len(named) > 15
    assert not missing
    assert set(re.findall(r"`(\w+_(?:s|share|tokens|batch|per_step|per_s|utilization|position))`", page)) <= set(
        Observation.model_fields
    )


def test_steps_that_were_observed_calibrate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--calibrate` begins a record that --calibration reads; where the observation is no step, what was seen stays."""
    record = tmp_path / "server.yaml"
    asked = ("--model", "8b", "--hw", "h100", "--calibrate", str(record))
    assert run(["observe", str(BENCHMARKS / "vllm_serve_detailed.json"), *asked]) == 0
    assert "use it with --calibration" in capsys.readouterr().err
    assert {step.batch for step in load_calibration(record).steps} == {1}
    after, before = (str(servers.TEXTS / f"vllm_0.32_{end}.txt") for end in ("after", "before"))
    assert run(["observe", after, "--since", before, *asked]) == 2
    printed = capsys.readouterr()
    assert "BESIDE THE LEDGERS" in printed.out
    assert "no step to calibrate with" in printed.err


def test_json_of_a_run_that_fails_later_is_one_document(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan's trouble, a record that cannot be written, steps that calibrate nothing: all stand in `error`."""
    text, gone = str(servers.TEXTS / "vllm_0.32_after.txt"), Path("/dev/fd/99/o.json")
    monkeypatch.setattr("infopt.cli_observe.check_writable", lambda path: None)
    record = str(tmp_path / "c.yaml")
    here = ("--model", "8b", "--hw", "h100")
    for arguments, says in (
        (("--model", "8b", "--hw", "h100:3"), "tp 3 does not divide"),
        (("--out", str(gone)), "cannot be written: "),
        ((*here, "--batch", "4", "--calibrate", record), "no step to calibrate with"),
    ):
        data = as_json(capsys, text, *arguments, status=2)
        assert data["requests"]
        assert says in data["error"]["message"]
        assert data["error"]["exit_status"] == 2
        Draft202012Validator(json.loads(schema_text("observe"))).validate(data)
        written = tmp_path / "said.json"
        written.write_text(json.dumps(data), encoding="utf-8")
        assert read_observation(written).ignored == ()
    log = str(LOGS / "vllm_v1_tp2.log")
    data = as_json(capsys, "--log", log, "--out", str(gone), status=2)
    assert data["error"]["exit_status"] == 2
    assert data["start_log"]["matched_lines"]


def test_a_text_that_cannot_be_kept_loses_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infopt.cli_observe.check_writable", lambda path: None)  # it becomes so while it is watched
    replay = Replay({"/metrics": [text_of("vllm_0.32_after")], "/v1/models": models()})
    kept, out = tmp_path / "kept.txt", tmp_path / "o.json"
    kept.mkdir()
    with serving(replay) as url:
        arguments = ("observe", url, "--duration", "0s", "--save", str(kept), "--out", str(out))
        assert run(arguments) == 2
    printed = capsys.readouterr()
    assert "LOAD" in printed.out
    assert f"{kept}: cannot be written" in printed.err
    assert read_observation(out).requests


def test_control_characters_of_a_server_reach_no_form(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_text(json.dumps({"schema": "infopt/observe/1", "requests": 3, "notes": ["\x1b[31mred"]}))
    for form in ("table", "csv", "md", "json"):
        assert run(["observe", str(path), "--format", form]) == 0
        assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("source", ["localhost", "[::1]:8000", "localhost/v1", "gpu-7:8000", "10.0.0.7"])
def test_addresses_without_a_scheme_are_told(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", source]) == 2
    assert f"an address begins with http://: http://{source}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--save", "--calibrate"])
def test_where_nothing_can_be_written_is_told_before_the_watch(
    option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for path, says in ((tmp_path, "is a folder; name a file"), (tmp_path / "no" / "file", "there is no folder")):
        assert run(["observe", "http://127.0.0.1:9", "--model", "8b", "--hw", "h100", option, str(path)]) == 2
        assert f"{path}: cannot be written: {says}" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["htp://localhost:8000", "http:/localhost:8000"])
def test_a_mistyped_scheme_is_told(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", source]) == 2
    assert "an address begins with http:// or https://" in capsys.readouterr().err


def test_a_port_that_cannot_be_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", "http://localhost:99999"]) == 2
    assert "expected http://HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["1e308", "-1", "1e24", "1e-300"])
@pytest.mark.parametrize("name", sorted(path.stem for path in servers.TEXTS.glob("*_after.txt")))
def test_one_family_of_figures_nobody_can_mean(
    name: str, value: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Counts, sums and bounds of each family in turn: the rest is read, or one line says why not."""
    text, path = (servers.TEXTS / f"{name}.txt").read_text(encoding="utf-8"), tmp_path / "metrics.txt"
    lines = text.splitlines()
    families = sorted(
        {re.split(r"[{ ]", line)[0].removesuffix("_bucket") for line in lines if line[:1] not in ("", "#")}
    )
    for family in families[::3]:
        changed = [
            f"{re.sub(r'le=.0[^,}]*', f'le=^{value}^'.replace('^', chr(34)), line).rsplit(' ', 1)[0]} {value}"
            if line.startswith(family)
            else line
            for line in lines
        ]
        path.write_text("\n".join(changed) + "\n", encoding="utf-8")
        assert run(["observe", str(path), "--json"]) in (0, 2, 3, 4), family
        json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_an_earlier_text_must_be_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The wrong way round, of another engine, of another encoding: said, and not counted from zero."""
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    for path, name, taken in ((first, "before", "T10:00:00Z"), (second, "after", "T10:05:00Z")):
        path.write_bytes(b"# infopt saved 2026-11-30%s from a\n" % taken.encode() + text_of(f"vllm_0.32_{name}"))
    assert run(["observe", str(second), "--since", str(first)]) == 0
    assert "a window of 300 s" in capsys.readouterr().out
    assert run(["observe", str(first), "--since", str(second)]) == 2
    assert "swap them" in capsys.readouterr().err
    assert run(["observe", str(second), "--since", str(servers.TEXTS / "sglang_0.5.23_before.txt")]) == 2
    assert "holds metrics of sglang, SOURCE those of vllm" in capsys.readouterr().err
    marked = tmp_path / "marked.txt"
    marked.write_bytes(b"\xef\xbb\xbf" + text_of("vllm_0.32_after"))
    assert as_json(capsys, str(marked)) == {
        **as_json(capsys, str(servers.TEXTS / "vllm_0.32_after.txt")),
        "source": str(marked),
    }
    marked.write_text(text_of("vllm_0.32_after").decode(), encoding="utf-16")
    assert run(["observe", str(marked)]) == 2
    assert "is UTF-16" in capsys.readouterr().err
