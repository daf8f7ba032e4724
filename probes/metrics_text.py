"""A Prometheus text, as `/metrics` answers it, read into series.

`prometheus_client.parser` would do most of it: it is well kept and pure Python. It stops at the first line it does not
understand, walks back over every backslash of a label, and has no limit of size: right for one's own exporter, wrong
for an address a user typed in. Seventy lines that read what they can and count what they cannot are no dependency.

The format: https://prometheus.io/docs/instrumenting/exposition_formats (text, version 0.0.4). Comments, timestamps and
OpenMetrics exemplars are passed over. Names in quotes (Prometheus 3) are not read: no inference server uses them.
"""

import io
import re
from collections.abc import Mapping

from infopt.errors import InfoptError
from infopt.frozen import dataclass

MAX_BYTES = 20_000_000
MAX_SERIES = 200_000

# Every quantifier is possessive: no text makes them try twice.
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*+")
_LABEL = re.compile(r'\s*+([a-zA-Z_][a-zA-Z0-9_]*+)\s*+=\s*+"((?:[^"\\]++|\\.)*+)"\s*+')
_OPENED, _CLOSED = re.compile(r"\s*+\{"), re.compile(r"\s*+\}")
_VALUE = re.compile(r"\s*+([^\s#]++)(?:\s|$)")
_ESCAPED = re.compile(r"\\(.)")

Labels = tuple[tuple[str, str], ...]  # name and value, by name


@dataclass(frozen=True, slots=True)
class Metrics:
    """Series by name and labels; `unreadable` lines were passed over."""

    series: Mapping[str, Mapping[Labels, float]]
    unreadable: int

    def total(self, name: str) -> float | None:
        """Sum over all labels (engines, models, ranks of one server); None where no series has the name."""
        found = self.series.get(name)
        return None if found is None else sum(found.values())

    def by(self, name: str, label: str) -> dict[str, float]:
        """Sums by the value of one label; empty where no series has the name."""
        sums: dict[str, float] = {}
        for labels, value in self.series.get(name, {}).items():
            key = dict(labels).get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums


def parse_metrics(data: bytes, where: str) -> Metrics:
    """Read a text; what is repeated counts as last said.

    Errors: InfoptError, naming `where`, for one that is too large, holds too many series, or holds none.
    """
    if len(data) > MAX_BYTES:
        raise InfoptError(f"{where}: more than {MAX_BYTES} bytes of metrics")
    series: dict[str, dict[Labels, float]] = {}
    count = unreadable = 0
    for line in io.StringIO(data.decode("utf-8", "replace")):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        read = _series(line)
        if read is None:
            unreadable += 1
            continue
        name, labels, value = read
        series.setdefault(name, {})[labels] = value
        count += 1
        if count > MAX_SERIES:
            raise InfoptError(f"{where}: more than {MAX_SERIES} series of metrics")
    if not series:
        declared = data.count(b"# TYPE ")
        if declared:
            raise InfoptError(
                f"{where}: names {declared} metric{'' if declared == 1 else 's'} and has no value of any: nothing was "
                "served yet, or another process counts; ask again after a request"
            )
        raise InfoptError(f"{where}: holds no metrics (a Prometheus text is expected)")
    return Metrics(series, unreadable)


def _series(line: str) -> tuple[str, Labels, float] | None:
    """Name, labels and value of one line; None where it is not one."""
    name = _NAME.match(line)
    if name is None:
        return None
    labels: dict[str, str] = {}
    at = name.end()
    opened = _OPENED.match(line, at)
    if opened:
        read = _labels(line, opened.end())
        if read is None:
            return None
        labels, at = read
    value = _VALUE.match(line, at)
    number = None if value is None else _number(value[1])
    return None if number is None else (name[0], tuple(sorted(labels.items())), number)


def _labels(line: str, at: int) -> tuple[dict[str, str], int] | None:
    """Labels from behind the opening brace, and where the closing one ends."""
    labels: dict[str, str] = {}
    while label := _LABEL.match(line, at):
        labels[label[1]] = _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], label[2])
        at = label.end()
        if line[at : at + 1] != ",":
            break
        at += 1
    closed = _CLOSED.match(line, at)
    return None if closed is None else (labels, closed.end())


def _number(text: str) -> float | None:
    """What Go writes: 1, 2.5e+06, +Inf, NaN; not Python's 1_000."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
