"""What was measured or recorded: metrics, results of load generators, logs, calibrations, traces, cases, runs."""

import contextlib
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from unittest import mock

from fuzz.target import Target, file_of, text_of

from infopt import api
from infopt.errors import InfoptError

SERVED = {"model": "8b", "hw": "h100"}
TECHNIQUES = ("prefix-caching", "speculative", "continuous-batching", "kv-quantization")
HEADER = "time_s,input_tokens,output_tokens\n"


def targets() -> Iterator[Target]:
    yield Target("metrics", "lines", metrics, ("tests/data/metrics/*.txt",))
    yield Target("metrics-since", "lines", metrics_since, ("tests/data/metrics/*.txt",))
    yield Target("benchmark", "json", benchmark, ("tests/data/benchmarks/*",))
    yield Target("observation", "json", observation, ("docs/examples/observed.json",))
    yield Target("start-log", "lines", start_log, ("tests/data/start_logs/*",))
    yield Target("server-answers", "json", server_answers)
    yield Target("calibration", "lines", calibration)
    yield Target("trace-csv", "lines", trace_csv)
    yield Target("trace-jsonl", "json", trace_jsonl)
    yield Target("trace-packed", "binary", trace_packed)
    yield Target("cases", "lines", cases)
    yield Target("saved-run", "json", saved_run)
    yield Target("truth", "lines", truth)
    yield Target("checklist-items", "lines", checklist_items)
    yield Target("checklist-answers", "lines", checklist_answers)
    yield Target("drivers", "json", drivers)


def used(path: str, data: bytes) -> None:
    """An observation as the commands use it: in a plan, and in what decides one of four techniques."""
    api.plan(**SERVED, observed=path).text()
    api.boundary(TECHNIQUES[zlib.crc32(data) % len(TECHNIQUES)], **SERVED, observed=path).text()


def read(data: bytes, name: str) -> None:
    """A file that `observe` reads, with its page, and the record it writes read again and used."""
    from infopt.observing.reading import read_sources
    from infopt.reports.json_report import dumps
    from infopt.reports.observe_report import Added, as_dict

    for o in islice(read_sources(file_of(name, data)), 3):
        used(str(file_of("observed.json", dumps(as_dict(o, Added((), {}))).encode())), data)


def metrics(data: bytes) -> None:
    read(data, "metrics.txt")


def metrics_since(data: bytes) -> None:
    """A text and one that came a minute later, cut from one input."""
    from infopt.observing.reading import read_sources

    first, _, second = data.partition(b"# later\n")
    read_sources(file_of("after.txt", second or first), file_of("before.txt", first), 60.0)


def benchmark(data: bytes) -> None:
    read(data, "result.json")


def observation(data: bytes) -> None:
    from infopt.observing.observation import read_observation

    path = file_of("observation.json", data)
    read_observation(path)
    used(str(path), data)


def start_log(data: bytes) -> None:
    """The log beside the ledger."""
    from infopt.hardware.names import resolve_hardware
    from infopt.observing.start_logs import read_start_log_file
    from infopt.profiles.resolve import resolve_model
    from infopt.reports.start_log_report import start_log_json, start_log_lines, start_log_markdown
    from infopt.studies.scenarios import Request
    from infopt.studies.start_log import start_log_page
    from infopt.studies.start_log_memory import memory_terms

    log = read_start_log_file(file_of("server.log", data))
    page = start_log_page(log, resolve_model("8b"), resolve_hardware(f"h100:{log.tp or 1}"), Request())
    json.dumps(start_log_json(page), allow_nan=False)
    start_log_lines(page)
    start_log_markdown(page)
    if page.scenario is not None:
        memory_terms(log, page.scenario)


def server_answers(data: bytes) -> None:
    """What a server answers about itself and to requests: names, slots, counts of drafts."""
    from infopt.probes.draft_counters import counts_of_replies, engines
    from infopt.probes.server import Reply
    from infopt.profiles.files import parse_json

    value = parse_json(data, "reply")
    for names in (None, *engines()):
        counts_of_replies([value] if isinstance(value, dict) else [], names)
    _answered(Reply, data)


def _answered(reply: type, data: bytes) -> None:
    from infopt.observing.endpoints import Endpoint, find, paths
    from infopt.probes.endpoint import read_metrics, served
    from infopt.probes.server import Server

    class Fake(Server):
        def get(self, path: str, *limits: object, **more: object) -> object:
            return reply(200, data)

    server = Fake("http://127.0.0.1:9")
    slots = Endpoint(server, "/slots", None, None, paths().slots)
    for ask in (served, read_metrics, find, lambda _: slots.scrape()):
        with contextlib.suppress(InfoptError):  # another kind of answer
            ask(server)


def calibration(data: bytes) -> None:
    """A record, checked against itself, used in a plan and compared with itself."""
    from infopt.hardware.calibration import load_calibration
    from infopt.reports.calibration_check_report import render_calibration_check
    from infopt.studies.calibration_check import check_calibration
    from infopt.studies.calibration_compare import compare

    path = file_of("calibration.yaml", sealed(data))
    record = load_calibration(path)
    render_calibration_check(check_calibration(record), "json")
    compare(record, record)
    api.plan(model="8b", hw="h200", calibration=str(path)).text()


def sealed(data: bytes) -> bytes:
    """A record with the checksum that belongs to it, which anyone can compute; what is no record stays as it is."""
    from infopt.hardware.calibration import Calibration, calibration_text
    from infopt.records import read_yaml, validate_record

    found = read_yaml(file_of("unsealed.yaml", data))
    record = validate_record(Calibration, found, "unsealed.yaml")
    try:
        return calibration_text(record).encode("utf-8", "surrogatepass")
    except ValueError:  # not a number: nothing writes that
        return data


def trace(path: Path, data: bytes) -> None:
    """The requests of a trace, described; of one input in eight, what hits and what a run makes of them."""
    from infopt.arrivals.describe import describe
    from infopt.arrivals.traces import open_trace

    describe(open_trace(str(path), most_requests=50))
    kind = zlib.crc32(data) % 16
    if kind == 0:
        api.simulate(**SERVED, trace=str(path), requests=3)
    if kind == 1:
        api.boundary("prefix-caching", **SERVED, trace=str(path))


def trace_csv(data: bytes) -> None:
    trace(file_of("trace.csv", data), data)


def trace_jsonl(data: bytes) -> None:
    trace(file_of("trace.jsonl", data), data)


def trace_packed(data: bytes) -> None:
    """Damaged packings, and whole ones of what the input holds."""
    kind = zlib.crc32(data) % 3
    if kind == 0:
        trace(file_of("trace.csv.gz", gzip.compress(HEADER.encode() + data)), data)
    trace(file_of("trace.csv.gz" if kind == 1 else "trace.csv.xz", data), data)


def cases(data: bytes) -> None:
    """Rows of `sweep --cases`, computed and written."""
    from infopt.reports.sweep_files import row_writer
    from infopt.studies.sweep_cases import opened_cases
    from infopt.studies.sweep_groups import Groups

    for form in ("csv", "json"):
        with opened_cases(str(file_of("cases.csv", data)), {"hw": "h100"}, Groups(False, None)) as sweep:
            writer = row_writer(form)(io.StringIO(newline=""), sweep.columns)
            for block in sweep.blocks:
                writer.write(block)


def saved_run(data: bytes) -> None:
    """Two runs that are the same, compared and shown; JSON, or YAML where it is none."""
    from infopt.studies.experiment_compare import compare_runs
    from infopt.studies.saved_run import read_run

    ending = "json" if data.lstrip()[:1] == b"{" else "yaml"
    run = read_run(file_of(f"run.{ending}", data))
    compare_runs(run, run)


def truth(data: bytes) -> None:
    """Somebody's own measurements of memory or of speed."""
    from infopt.reports.render import render_validation
    from infopt.studies.validate import predictions_csv, validate

    found = validate(file_of("truth.csv", data))
    predictions_csv(found)
    render_validation(found, "json")


def checklist_items(data: bytes) -> None:
    from infopt.studies.checklist import lists_of

    lists_of([file_of("items.yaml", data)])


def checklist_answers(data: bytes) -> None:
    from infopt.studies.checklist_answers import read_answers

    read_answers(file_of("answers.yaml", data))


def drivers(data: bytes) -> None:
    """What the tools of drivers print about devices."""
    from infopt.hardware import detect
    from infopt.hardware.names import resolve_hardware

    with mock.patch.object(detect, "_ask", return_value=text_of(data)):
        for probe in detect.PROBES[1:]:
            for found in probe():
                with contextlib.suppress(InfoptError):  # a device that is not in the catalogue
                    detect._with_memory(resolve_hardware(found.name).accelerator, found)
