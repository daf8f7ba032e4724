"""`infopt simulate` against strange options, hostile trace files, full disks, signals: one line, never a traceback."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from infopt.arrivals.traces import open_trace
from infopt.cli import run
from infopt.errors import InfoptError
from infopt.reports.simulate_words import rate

BASE = ("simulate", "--model", "8b", "--hw", "h100")
LENGTHS = (*BASE, "--isl", "1k", "--osl", "100")
PROGRAM = (sys.executable, "-m", "infopt")
HEADER = "time_s,input_tokens,output_tokens\n"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which a command line is refused."""
    assert run(arguments) == 2
    out, error = capsys.readouterr()
    assert not out
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rate", "5/s", "--isl", "1e24", "--osl", "9"), "more than 1000000000"),
        (("--rate", "5/s", "--isl", "1k", "--osl", "99999999999999999999"), "more than 1000000000"),
        (("--users", "4", "--isl", "1k", "--osl", "1e15"), "more than 1000000000"),
        (("--rate", "5/s", "--isl", "1k", "--osl", "1e9", "--requests", "5"), "131,072 positions"),
    ],
)
def test_lengths_that_no_request_has(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], said: str) -> None:
    assert said in refused(capsys, *BASE, *arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rate", "5/s", "--duration", "1e9s"), "5,000,000,000 requests are more than the 100,000,000 of a run"),
        (("--rate", "1e24/s", "--duration", "1h"), "requests are more than"),
        (("--rate", "5/s", "--requests", "1e15"), "requests are more than"),
        (("--users", "4", "--requests", "1e15"), "requests are more than"),
        (("--rate", "5/s", "--output-spread", "9999"), "output: a spread of 9999 is not 0.001 to 1000"),
        (("--rate", "5/s", "--input-spread", "1e-200"), "input: a spread of 1e-200 is not 0.001 to 1000"),
        (("--rate", "5/s", "--burstiness", "9999"), "a burstiness of 9999 is not 0.001 to 1000"),
        (("--rate", "5/s", "--burstiness", "1e-200"), "a burstiness of 1e-200 is not 0.001 to 1000"),
        (("--rate", "5/s", "--shared-prefix", "64", "--prefixes", "1e15"), "at most 10,000,000"),
        (("--rate", "5/s", "--replicas", "1e12"), "1,000,000,000,000 replicas are more than the 10,000 of a run"),
        (("--rate", "5/s", "--chunk", "1"), "at least 16"),
        (("--rate", "5/s", "--tenant", "a\nb=50%"), "printable characters only"),
        (("--rate", "5/s", "--tenant", "\udcff=50%"), "printable characters only"),
        (("--rate", "5/s", "--max-num-batched-tokens", "2"), "at least 16"),
        (("--rate", "5/s", "--batching", "static"), "how many are a batch? --static-batch 32"),
    ],
)
def test_what_no_run_can_hold(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], said: str) -> None:
    assert said in refused(capsys, *LENGTHS, *arguments)


def test_random_command_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Options with strange values, seeded: a status, one line where it is refused, nothing written then."""
    counts = ["0", "-1", "nan", "inf", "", "1e400", "1e24", "1.5", "1_000", "3", "1e3"]
    times = ["0s", "-1s", "nan", "5", "1e24s", "1e-24s", "1s", "5 m", "3 apples"]
    shares = ["0", "1", "150%", "-1", "nan", "", "1e-300", "50%"]
    numbers = ("--users", "--seed", "--prefixes", "--static-batch", "--max-waiting", "--tp", "--max-num-seqs", "--peak")
    numbers += ("--burstiness", "--output-spread", "--speedup", "--chunk", "--kv-pool", "--isl", "--osl", "--requests")
    durations = ("--think", "--duration", "--period", "--static-wait", "--max-wait", "--patience", "--ttft", "--tpot")
    values = dict.fromkeys(numbers, counts) | dict.fromkeys(durations, times)
    values |= dict.fromkeys(("--cancel", "--good", "--watermark", "--util"), shares)
    values |= {"--lose": ["0@1s", "0@0s+1e-24s", "9@1s", "@", "0@nan"], "--tenant": ["a=1", "a=0", "=1", "a=1:1e30"]}
    values |= {"--trace": ["azure-conv", "", "nope"], "--batching": ["static", "x"], "--rate": ["5/s", "0/s", "1e24/s"]}
    chance, rows = random.Random(8), tmp_path / "rows.csv"
    seen = set()
    for _ in range(150):
        words = ["--rate", "5/s", "--requests", "20", "--rows", str(rows)]
        for option in chance.sample(sorted(values), chance.choice([1, 1, 2, 3])):
            words += [option, chance.choice(values[option])]
        status = run([*LENGTHS, *words])
        out, error = capsys.readouterr()
        seen.add(status)
        assert status in (0, 1, 2, 4), words
        assert bool(out) == rows.exists(), words
        assert out or error.count("\n") == 1, words
        rows.unlink(missing_ok=True)
        assert not list(tmp_path.iterdir()), words
    assert {0, 2} <= seen


# Trace files


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


BAD_TRACES = {
    "a time beyond all clocks": ("t.csv", f"{HEADER}0,1,1\n1e308,1,1\n", "more than 1e+12 s: the column is in s"),
    "milliseconds in JSON": (
        "t.jsonl",
        '{"time_s":1.7e18,"input_tokens":1,"output_tokens":1}',
        "more than 1e+12 s: the column is in s",
    ),
    "a tenant of two lines": ("t.csv", 'time_s,input_tokens,output_tokens,tenant\n0,1,1,"a\nb"\n', "printable"),
    "a tenant that no text has": (
        "t.jsonl",
        '{"time_s":0,"input_tokens":1,"output_tokens":1,"tenant":"\\ud800"}',
        "printable characters only",
    ),
    "a first cell too long": ("t.csv", "a" * 200_000 + "\n", "first line is not readable as CSV"),
    "spaces for ever": ("t.csv", " " * 3_000_000, "is empty"),
    "blank lines for ever": ("t.csv", "\n" * 100_000, "is empty"),
}


@pytest.mark.parametrize("case", BAD_TRACES)
def test_bad_traces(capsys: pytest.CaptureFixture[str], tmp_path: Path, case: str) -> None:
    name, text, said = BAD_TRACES[case]
    trace = write(tmp_path / name, text)
    assert said in refused(capsys, *BASE, "--trace", str(trace), "--rows", str(tmp_path / "rows.csv"))
    assert sorted(tmp_path.iterdir()) == [trace]


@pytest.mark.parametrize(
    ("suffix", "head", "piece", "said"),
    [
        (".csv", f"{HEADER}0,1,1\n1,", b"1", "field larger than field limit"),
        (".csv", f"{HEADER}0,1,1\n1,", b"1,", "cells, the header 3"),
        (".jsonl", '{"time_s":0,"input_tokens":1,"output_tokens":1}\n{"time_s":', b"[1],", "line 2: is longer than"),
    ],
)
def test_a_line_without_end_is_never_held_whole(
    tmp_path: Path, suffix: str, head: str, piece: bytes, said: str
) -> None:
    """300 MB of one line, packed into 300 KB."""
    path = tmp_path / f"bomb{suffix}.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.encode())
        for _ in range(300):
            file.write(piece * (1_000_000 // len(piece)))
    code = (
        "from pathlib import Path\n"
        "from infopt.cli import run\n"
        f"status = run({[*BASE, '--trace', str(path)]!r})\n"
        # Not getrusage: its peak is inherited from the process that started this one.
        "peak = Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]\n"
        "print(status, int(peak) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said in done.stderr
    status, most_mib = map(int, done.stdout.split())
    assert status == 2
    assert most_mib < 250


def test_links_in_a_circle_and_pipes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fifo.csv")
    assert "is no file" in refused(capsys, *BASE, "--trace", str(tmp_path / "loop.csv"))
    for name in ("zero.csv", "fifo.csv"):
        assert "a pipe cannot" in refused(capsys, *BASE, "--trace", str(tmp_path / name))


def test_requests_at_one_moment_have_no_rate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A span that no clock can tell from nothing made the rate infinite."""
    trace = write(tmp_path / "t.csv", f"{HEADER}0,10,10\n1e-320,10,10\n")
    assert run([*BASE, "--trace", str(trace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert found["arrive_per_s"] < 1e6
    assert found["served_per_s"] > 0
    assert "has no rate of its own" in refused(capsys, *BASE, "--trace", str(trace), "--rate", "5/s")


def test_mutated_traces(tmp_path: Path) -> None:
    """Bytes flipped, cut, doubled, in another place: requests, or one line."""
    chance = random.Random(8)
    good = (HEADER + "".join(f"{at * 0.3:.1f},{100 + at},{5 + at % 7}\n" for at in range(40))).encode()
    said = []
    path = tmp_path / "t.csv"
    for _ in range(500):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 3, 10])):
            at = chance.randrange(len(data))
            kind = chance.randrange(4)
            if kind == 0:
                data[at] = chance.randrange(256)
            elif kind == 1:
                del data[at : at + chance.randrange(1, 30)]
            elif kind == 2:
                data[at:at] = chance.choice(
                    [b"nan", b"-", b"1e400", b'"', b"\0", b"\r", b"\xef\xbb\xbf", b",", b"9" * 400]
                )
            else:
                data[at:at] = bytes(data[at : at + 40])
        write(path, bytes(data))
        try:
            found = list(open_trace(str(path)).stream())
        except InfoptError as error:
            said.append(str(error))
        else:
            assert all(one.input_tokens >= 1 and one.output_tokens >= 1 and one.time_s >= 0 for one in found)
            assert [one.time_s for one in found] == sorted(one.time_s for one in found)
    assert 100 < len(said) < 500
    assert all(str(path) in text and "\n" not in text for text in said)


# What is shown


def found_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run([*arguments, "--json"]) in (0, 1)
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_goodput_is_a_part_of_what_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    found = found_json(capsys, *LENGTHS, "--rate", "8/s", "--requests", "300", "--ttft", "1min")
    assert found["served_per_s"] == pytest.approx(found["goodput_per_s"], rel=1e-12)


def test_one_user_takes_all_of_one_seat(capsys: pytest.CaptureFixture[str]) -> None:
    """The last of a few requests counts too: it was 5% more than saturation."""
    found = found_json(capsys, *LENGTHS, "--users", "1", "--requests", "20", "--max-num-seqs", "1")
    saturation = found["saturation"]
    assert isinstance(saturation, dict)
    share = float(str(found["served_per_s"])) / saturation["rate_per_s"]
    assert 0.98 < share <= 1  # the user waits for the way of the first token, a queue does not


def test_many_copies_saturate_at_many_times_one(capsys: pytest.CaptureFixture[str]) -> None:
    """And quickly: 1,000 copies were filled with a million requests."""
    begin_s = time.monotonic()
    one, many = (
        found_json(capsys, *LENGTHS, "--rate", "5/s", "--requests", "30", "--replicas", copies)["saturation"]
        for copies in ("1", "1000")
    )
    assert time.monotonic() - begin_s < 30
    assert isinstance(one, dict)
    assert isinstance(many, dict)
    assert many["rate_per_s"] == pytest.approx(1000 * one["rate_per_s"], rel=0.05)
    assert many["batch"] == pytest.approx(one["batch"], rel=0.05)


def test_few_bursts_bring_another_rate_and_rare_looks_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    bursts = (*LENGTHS, "--rate", "0.5/s", "--burstiness", "13", "--requests", "300")
    run(bursts)
    page = " ".join(capsys.readouterr().out.split())
    assert "requests/s came by chance, where 0.5 are the mean: more --requests" in page
    assert "at most, seen every" in page
    assert "requests on average, 0 at most" not in page
    run([*LENGTHS, "--rate", "8/s", "--requests", "300"])
    page = " ".join(capsys.readouterr().out.split())
    assert "came by chance, where" not in page
    assert "seen every" not in page


def test_a_static_batch_that_never_fills_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run([*LENGTHS, "--rate", "4/s", "--requests", "100", "--batching", "static", "--static-batch", "500"])
    page = " ".join(capsys.readouterr().out.split())
    assert "a batch waits for 500 requests, and fewer come" in page


def test_overload_that_ends_before_the_first_answer(capsys: pytest.CaptureFixture[str]) -> None:
    run([*BASE, "--isl", "1k", "--osl", "300", "--rate", "70/s", "--requests", "1000", "--max-wait", "1s"])
    page = " ".join(capsys.readouterr().out.split())
    assert "are the most that can be served; the queue grows" in page
    assert "served no whole answer in this time" in page
    assert "0/min" not in page


def test_what_differs_from_a_plan_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    prefix = ("--isl", "4k", "--osl", "300", "--shared-prefix", "3k", "--prefixes", "5", "--requests", "400")
    run([*BASE, *prefix, "--rate", "5/s"])
    assert "of prompt tokens were found, not computed" in " ".join(capsys.readouterr().out.split())
    run([*LENGTHS, "--rate", "17/s", "--requests", "300", "--max-num-seqs", "48", "--interval"])
    assert "as long, as it may be; saturated: longest" in " ".join(capsys.readouterr().out.split())


def test_names_that_are_not_utf8_are_saved_too(tmp_path: Path) -> None:
    trace = os.fsencode(tmp_path) + b"/\xff.csv"
    Path(os.fsdecode(trace)).write_text(f"{HEADER}0,10,10\n1,10,10\n", encoding="utf-8")
    words = [*PROGRAM, *BASE, "--trace", trace, "--save", str(tmp_path / "run.json")]
    done = subprocess.run(words, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert r"\udcff.csv" in json.dumps(json.loads((tmp_path / "run.json").read_text(encoding="utf-8")))


def test_files_are_looked_at_before_anything_is_computed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    slow = (*LENGTHS, "--rate", "8/s", "--requests", "1m")
    same, new = str(tmp_path / "same"), str(tmp_path / "no" / "file")
    assert "--rows and --save both name" in refused(capsys, *slow, "--rows", same, "--save", same)
    for option in ("--rows", "--save"):
        assert "is a folder" in refused(capsys, *slow, option, str(tmp_path))
        assert "there is no folder" in refused(capsys, *slow, option, new)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("per_s", "text"), [(0.05, "3/min"), (22.68, "22.7/s"), (3017.4, "3,017/s"), (272_345.6, "272,346/s")]
)
def test_rates_are_plain_numbers(per_s: float, text: str) -> None:
    assert rate(per_s) == text


# Around the program


def test_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    common = ("--rate", "8/s", "--requests", "60", "--output-spread", "1", "--shared-prefix", "256", "--prefixes", "9")
    common += ("--tenant", "a=30%", "--tenant", "b=70%", "--replicas", "2", "--routing", "affinity", "--cancel", "20%")
    outputs = [
        subprocess.run(
            [*PROGRAM, *LENGTHS, *common], capture_output=True, check=False, env=os.environ | {"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] != b""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_stopped_in_the_middle_leaves_nothing(tmp_path: Path, number: signal.Signals, status: int) -> None:
    files = ("--rows", str(tmp_path / "rows.csv"), "--save", str(tmp_path / "run.json"))
    with subprocess.Popen(
        [*PROGRAM, *LENGTHS, "--rate", "8/s", "--requests", "1m", *files],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        time.sleep(2.5)
        running.send_signal(number)
        out, error = running.communicate(timeout=20)
    assert running.returncode == status
    assert not out
    assert b"Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_full_disk_and_closed_pipe(tmp_path: Path) -> None:
    words = [*PROGRAM, *LENGTHS, "--rate", "8/s", "--requests", "30"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left" in done.stderr
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert "Traceback" not in done.stderr
