"""Many simulations: the same results however they are run, errors that stay with their job, a grid and its best."""

import csv
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import simulate_works as works

from infopt.arrivals.synthetic import Lengths, Synthetic
from infopt.arrivals.traces import open_trace
from infopt.cli import run
from infopt.cli_simulate_grid import parse_axis
from infopt.errors import InfoptError, MissingExtraError
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.reports.json_report import dumps
from infopt.reports.schemas import schema_text
from infopt.reports.simulate_json import as_dict
from infopt.simulation.summary import Targets
from infopt.studies import simulate_many
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job, Simulation
from infopt.studies.simulate_many import Failed, attempt_packed, each, run_many

TESTS = Path(__file__).resolve().parent


def job(rate_per_s: float = 8.0, requests: int = 300, hw: str = "h100", **asked: Any) -> Job:
    """A small simulation."""
    source = Synthetic(Lengths(1000, 0.5), Lengths(100, 0.5), rate_per_s=rate_per_s, requests=requests)
    request = Request(**{"input_tokens": 1000, "output_tokens": 100, **asked})
    return Job(
        resolve_model("8b"), resolve_hardware(hw), request, source, Choices(saturation=False), Targets(0.3, 0.03)
    )


def texts(found: list[Simulation | Failed]) -> list[str]:
    return [repr(one) if isinstance(one, Failed) else dumps(as_dict(one)) for one in found]


def test_processes_give_what_one_gives() -> None:
    """Byte for byte and in order; a job that does not fit has its error and status, the others are computed."""
    jobs = [job(rate) for rate in (2.0, 30.0, 8.0)]
    jobs[1:1] = [job(weights="fp32", hw="l4"), job(requests=0)]
    serial, parallel = run_many(jobs, workers=1), run_many(jobs, workers=2)
    assert texts(serial) == texts(parallel)
    assert [isinstance(one, Simulation) for one in serial] == [True, False, False, True, True]
    assert [one.exit_status for one in serial if isinstance(one, Failed)] == [1, 2]
    batches = [one.summary.effective_batch for one in serial if isinstance(one, Simulation)]
    assert batches[0] < batches[2] < batches[1]


def test_errors_stay_with_their_jobs() -> None:
    for workers in (1, 2, None):
        *known, defect, last = each(works.square, range(12, 17), workers)
        assert known == [144, Failed("13 is refused", 2), Failed("14 is unknown", 4)]
        assert isinstance(defect, Failed)
        assert "please report it: ZeroDivisionError: fifteen at simulate_works.py:" in defect.text
        assert last == 256
    assert each(works.square, [], None) == []
    assert each(works.square, [7], 3) == [49]


def test_what_is_quick_needs_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job runs here; without a number of processes, so does all that takes no time."""
    assert set(each(works.process_of, range(50))) == {os.getpid()}
    assert each(works.process_of, [0], 4) == [os.getpid()]
    monkeypatch.setattr(simulate_many, "HERE_S", 0.0)
    elsewhere = set(each(works.process_of, range(4), 2))
    assert os.getpid() not in elsewhere


def test_a_process_that_dies_loses_nothing(tmp_path: Path) -> None:
    """The work on 3 dies once and is done again; that on 5 dies always, which is said of it alone."""
    found = each(works.dying, [(number, tmp_path) for number in range(8)], 2)
    assert found == [0, 1, 4, 9, 16, Failed(simulate_many.DIED), 36, 49]
    done = sorted(int(path.name.split(".")[0]) for path in tmp_path.iterdir() if path.name != "first")
    assert set(done) == {0, 1, 2, 3, 4, 6, 7}
    assert len(done) <= 8  # at most the neighbour of one that died was worked on twice


def test_a_job_that_cannot_be_read_is_an_error() -> None:
    found = attempt_packed(pickle.dumps((works.square, 3))[:-1])
    assert isinstance(found, Failed)
    assert attempt_packed(pickle.dumps((works.square, 3))) == 9


def test_traces_travel_by_name(tmp_path: Path) -> None:
    """A job with a trace is small; whoever runs it opens the file, and one that is gone is an error of the job."""
    path = tmp_path / "trace.csv"
    path.write_text("time_s,input_tokens,output_tokens\n" + "".join(f"{i},{100 + i},10\n" for i in range(2000)))
    recorded = replace(job(), source=open_trace(str(path)))
    assert len(pickle.dumps(recorded)) < 20_000 < path.stat().st_size
    (found,) = run_many([recorded], 1)
    assert isinstance(found, Simulation)
    assert found.summary.requests == 2000
    path.unlink()
    lost, fine = run_many([recorded, job()], 2)
    assert isinstance(lost, Failed)
    assert str(path) in lost.text
    assert isinstance(fine, Simulation)


def test_a_cluster_is_not_these_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InfoptError, match="give one of them"):
        each(works.square, [1, 2], 2, "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"infopt\[cluster\]"):
        each(works.square, [1, 2], None, "tcp://127.0.0.1:1")


ENDLESS = """
import sys
from pathlib import Path
import simulate_works
from infopt.studies.simulate_many import each
if __name__ == "__main__":
    try:
        each(simulate_works.unhurried, [(number, Path(sys.argv[1])) for number in range(200)], 2)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def begun(folder: Path, program: "subprocess.Popen[str]") -> set[int]:
    """Ids of both processes, once they work."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        ids = {int(path.name.split(".")[1]) for path in folder.iterdir() if path.name.count(".") == 1}
        if len(ids) == 2:
            return ids
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)
    raise AssertionError("no process began within 30 s")


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended and waits to be looked at does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize(
    ("sent", "everybody", "status"), [("SIGINT", True, 130), ("SIGINT", False, 130), ("SIGKILL", False, -9)]
)
def test_processes_end_with_the_one_that_started_them(tmp_path: Path, sent: str, everybody: bool, status: int) -> None:
    """Ctrl-C, an interrupt of the first process alone, and its sudden death: quiet, and nothing is left behind."""
    script, marks = tmp_path / "endless.py", tmp_path / "marks"
    script.write_text(ENDLESS)
    marks.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(script), str(marks)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        started = begun(marks, program)
        (os.killpg if everybody else os.kill)(program.pid, signal.Signals[sent])
        out, err = program.communicate(timeout=30)
        assert program.returncode == status
    assert out == ""
    assert "Traceback" not in err
    assert err == "" or sent == "SIGKILL"  # then Python's own helper says what it cleaned up
    end = time.monotonic() + 20
    while any(alive(process) for process in started) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(alive(process) for process in started)


# A grid

COMMON = ("simulate", "--model", "8b", "--isl", "2000", "--osl", "100", "--requests", "200", "--hw", "h100")
SERVED = (*COMMON, "--rate", "8/s", "--ttft", "300ms", "--tpot", "30ms")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert run(arguments) == status
    return capsys.readouterr().out


def grid(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(capsys, *arguments, "--json", status=status))
    jsonschema.validate(found, json.loads(schema_text("simulate_grid")))
    return found


def test_a_grid_is_every_combination_and_each_is_what_simulate_says(capsys: pytest.CaptureFixture[str]) -> None:
    found = grid(capsys, *SERVED, "--vary", "max-num-seqs=4,64", "--vary", "chunk=256,1024", status=0)
    assert [row["values"] for row in found["rows"]] == [
        {"max-num-seqs": seqs, "chunk": chunk} for seqs in ("4", "64") for chunk in ("256", "1024")
    ]
    for row in (found["rows"][1], found["rows"][2]):
        options = [word for name, value in row["values"].items() for word in (f"--{name}", value)]
        status = 0 if row["simulation"]["keeps_up"] else 1
        alone = json.loads(printed(capsys, *SERVED, *options, "--json", status=status))
        for name in ("ttft_s", "tpot_s", "effective_batch", "goodput_per_s", "requests_per_s", "serving", "plan"):
            assert row["simulation"][name] == alone[name], name
    assert {row["simulation"]["requests"] for row in found["rows"]} == {200}


def test_the_best_is_the_cheapest_that_keeps_up(capsys: pytest.CaptureFixture[str]) -> None:
    """At one price an hour, the highest rate that is kept up with; with more machines, the fewest that do."""
    rates = grid(capsys, *SERVED, "--vary", "rate=2/s,6/s,60/s")
    assert rates["rows"][rates["best"]]["values"] == {"rate": "6/s"}
    copies = grid(capsys, *COMMON, "--rate", "25/s", "--ttft", "300ms", "--tpot", "30ms", "--vary", "replicas=1,3,2")
    kept = [row for row in copies["rows"] if row["simulation"]["keeps_up"]]
    assert copies["rows"][copies["best"]] is min(kept, key=lambda row: row["usd_per_million_output_tokens"])
    assert copies["rows"][copies["best"]]["values"] != {"replicas": "1"}
    none = grid(capsys, *COMMON, "--rate", "200/s", "--ttft", "1ms", "--vary", "replicas=1,2", status=1)
    assert none["best"] is None


def test_at_one_cost_the_most_in_time_is_best(capsys: pytest.CaptureFixture[str]) -> None:
    found = grid(capsys, *SERVED, "--good", "50%", "--vary", "max-num-seqs=9,12,64")
    shares = [row["simulation"]["good_share"] for row in found["rows"]]
    assert shares[found["best"]] >= max(shares) - 0.001
    assert min(shares) < max(shares) - 0.001


def test_a_configuration_that_cannot_be_is_an_error_in_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (*SERVED, "--vary", "hw=custom:10GB:1TB/s,h100,nonesuch")
    small, fine, unknown = (row["error"] for row in grid(capsys, *arguments)["rows"])
    assert "it does not fit" in small
    assert fine is None
    assert "unknown hardware 'nonesuch'" in unknown
    page = printed(capsys, *arguments)
    assert page.count("error") == 3  # two rows, and why
    assert "unknown hardware" in page
    grid(capsys, *SERVED, "--vary", "tp=3,7", status=2)


def test_switches_are_turned_on_and_off(capsys: pytest.CaptureFixture[str]) -> None:
    shared = ("--shared-prefix", "1024")
    found = grid(capsys, *SERVED, *shared, "--prefix-caching", "--vary", "prefix-caching=on,off")
    on, off = (row["simulation"]["prefix_hit_share"] for row in found["rows"])
    assert on > 0.3
    assert off == 0


def test_forms_of_a_grid(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (*SERVED, "--vary", "max-num-seqs=2,64")
    page = printed(capsys, *arguments)
    assert all(len(line) <= 80 for line in page.splitlines())
    assert "BEST" in page
    assert "the same requests for all" in page
    assert "part is chance" in printed(capsys, *SERVED, "--vary", "seed=1,2")
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *arguments, "--format", "csv"))))
    assert [row["vary_max-num-seqs"] for row in rows] == ["2", "64"]
    assert [row["best"] for row in rows] == ["false", "true"]
    markdown = printed(capsys, *arguments, "--format", "md")
    assert markdown.startswith("### 2 configurations: max-num-seqs")
    assert "BEST" in markdown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--vary", "chunk"), "not NAME=V1,V2"),
        (("--vary", "chunk=512,,1k"), "not NAME=V1,V2"),
        (("--vary", "chunky=512"), "nearest: chunk"),
        (("--vary", "chunk=512,512"), "twice"),
        (("--vary", "chunk=512", "--vary", "chunk=1k"), "twice"),
        (("--vary", "by-priority=maybe"), "on or off"),
        (("--vary", "max-num-seqs=many"), "--max-num-seqs"),
        (("--workers", "2"), "add --vary"),
        (("--scheduler", "tcp://127.0.0.1:1"), "add --vary"),
        (("--vary", "chunk=512", "--curves"), "leave --vary out"),
        (("--vary", "chunk=512", "--compare", "--chunk 512", "--chunk 1k"), "leave --vary out"),
        (("--vary", "chunk=512,1k", "--workers", "0"), "--workers"),
        (("--vary", "chunk=512,1k", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"), "give one of them"),
    ],
)
def test_what_cannot_be_varied_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert run((*SERVED, *arguments)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_names_are_read_with_dashes_or_without() -> None:
    assert parse_axis("--max_num_seqs= 1 ,2", {"max-num-seqs": None}) == ("max-num-seqs", ("1", "2"))
