"""A file somebody kept: a text of `/metrics`, a benchmark's result, or an observation, told apart by what is in it."""

import codecs
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from infopt.errors import InfoptError
from infopt.observing.endpoints import of_model, unread, whole_lines
from infopt.observing.observation import SCHEMA, Observation, read_observation
from infopt.observing.saved import check_pair, seconds_between, taken_of
from infopt.observing.snapshots import Snapshot, observation_of
from infopt.probes import metrics_text
from infopt.probes.metrics_text import parse_metrics
from infopt.profiles.files import LocalFile

MAX_JSON_BYTES = 64_000_000  # detailed results list every token's time
HEAD_BYTES = 4096
COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}
# A line that is, or begins, a JSON object or array; the end of one; a series, which no log of a benchmark has.
_JSON_LINE = re.compile(rb"^(?:\[\s*$|\{\s*$|\{\s*\")", re.MULTILINE)
_JSON_END = re.compile(rb"^.*[\]}]\s*$", re.MULTILINE)
_SERIES = re.compile(rb"^[a-zA-Z_:][\w:]*+(?:\{[^\n]*\})? [-+\d.eEINaif]++\s*$", re.MULTILINE)
EXPECTED = "the text of /metrics, a benchmark's JSON, or an observation is expected; a start-up log goes to --log"


def read_source(path: Path, since: Path | None = None) -> Observation:
    """The one observation a file holds; see read_sources. Errors: InfoptError where it holds several results."""
    found = read_sources(path, since)
    if len(found) > 1:
        raise InfoptError(f"{path}: holds {len(found)} results; choose one: infopt observe {path} --row 1 --out FILE")
    return found[0]


def read_sources(
    path: Path, since: Path | None = None, apart_s: float | None = None, served: str | None = None
) -> Sequence[Observation]:
    """Everything a file holds, at least one.

    since    an earlier text of the same server: then the figures are of the time between
    apart_s  how long that was, where the texts do not say it (those of `--save` do)
    served   the model that counts alone, where a text has several
    Errors: InfoptError for what cannot be read, is too large, is compressed, or is of no known form.
    """
    data = _read(path)
    if data.lstrip()[:1] not in (b"{", b"["):
        printed = () if since or served else _printed(data, path)
        if printed:
            return printed
        last = _snapshot(data, path)
        found = of_model(_of_texts(last, path, since, apart_s, served), served)
        cut = () if data.endswith(b"\n") else ("the last line of the text has no end and was left out",)
        return [found.model_copy(update={"notes": (*found.notes, *unread(last.metrics), *cut)})]
    if since is not None:
        raise InfoptError(f"--since {since}: {path} is a result of its own, no text of metrics to be compared")
    if served is not None:
        raise InfoptError(f"--served {served}: {path} is a result of its own, no text of several models; leave it out")
    return _of_json(data, path)


def read_snapshot(path: Path) -> Snapshot:
    """A kept text of metrics, its time unknown (`at_s` 0) but for `taken`, where the text says it.

    Errors: InfoptError where it is none.
    """
    return _snapshot(_read(path), path)


def placed(before: Snapshot, after: Snapshot, apart_s: float | None) -> tuple[Snapshot, Snapshot]:
    """Both on one clock, which starts at the first; 0 and 0 where nobody knows how long they are apart."""
    check_pair(before, after, apart_s)
    known_s = apart_s if apart_s is not None else seconds_between(before, after)
    if known_s is None:
        return replace(before, at_s=0.0), replace(after, at_s=0.0)
    return replace(before, at_s=1.0), replace(after, at_s=1.0 + known_s)  # 0 is a time that is not known


def _of_texts(last: Snapshot, path: Path, since: Path | None, apart_s: float | None, served: str | None) -> Observation:
    if since is None:
        if apart_s is not None:
            raise InfoptError("--apart without --since: name the earlier text")
        return observation_of([last], str(path), model=served)
    return observation_of(placed(read_snapshot(since), last, apart_s), f"{path} since {since}", model=served)


def _snapshot(data: bytes, path: Path) -> Snapshot:
    if len(data) > metrics_text.MAX_BYTES:
        raise InfoptError(f"{path}: {len(data)} bytes is more than the {metrics_text.MAX_BYTES} of a text of metrics")
    try:
        metrics = parse_metrics(whole_lines(data), str(path))
    except InfoptError as error:
        raise InfoptError(f"{error}; {EXPECTED}") from error
    return Snapshot(metrics, 0.0, taken_of(data))


def _read(path: Path) -> bytes:
    """The file's bytes, if they can be one of the forms. Errors: InfoptError."""
    with LocalFile(path) as file:
        if file.size > MAX_JSON_BYTES:
            raise InfoptError(f"{file.name}: {file.size} bytes is more than the {MAX_JSON_BYTES} that are read")
        data = file.read_at(0, file.size).removeprefix(codecs.BOM_UTF8)
    form = next((name for magic, name in COMPRESSED.items() if data.startswith(magic)), None)
    if form is not None:
        raise InfoptError(f"{path}: is compressed ({form}): unpack it first")
    if not data.strip():
        raise InfoptError(f"{path}: is empty; {EXPECTED}")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InfoptError(f"{path}: is UTF-16, as PowerShell writes it: save it as UTF-8")
    if b"\0" in data[:HEAD_BYTES]:
        raise InfoptError(f"{path}: is not text; {EXPECTED}")
    if data.lstrip()[:1] == b"<":
        raise InfoptError(f"{path}: is a web page (a login page?); {EXPECTED}")
    return data


def _printed(data: bytes, path: Path) -> Sequence[Observation]:
    """Results that a log stands around, as a terminal had both; empty where the text holds series, or no result."""
    from infopt.observing.benchmarks import read_benchmark_text

    begin = _JSON_LINE.search(data)
    if begin is None or _SERIES.search(data, 0, begin.start()):
        return ()
    ends = [match.end() for match in _JSON_END.finditer(data, begin.start())]
    try:
        found = read_benchmark_text(data[begin.start() : max(ends, default=len(data))], str(path))
    except InfoptError as error:
        raise InfoptError(f"{error}; text stands before it: save the result alone") from error
    said = "lines of a log around the result were passed over"
    return [one.model_copy(update={"notes": (*one.notes, said)}) for one in found or ()]


def _of_json(data: bytes, path: Path) -> Sequence[Observation]:
    from infopt.observing.benchmarks import read_benchmark_text, resembles

    if f'"{SCHEMA}"'.encode() in data[:HEAD_BYTES]:
        return [read_observation(path)]
    found = read_benchmark_text(data, str(path))
    if not found:
        like = resembles(data)
        raise InfoptError(f"{path}: JSON of no benchmark that is known; {like or EXPECTED}")
    return found
