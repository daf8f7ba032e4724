"""A Prometheus text: what is read, what is passed over, and what no text can do."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.probes import metrics_text
from infopt.probes.metrics_text import MAX_BYTES, parse_metrics

EXPOSITION = b"""\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 1200.0
vllm:generation_tokens_total{engine="1",model_name="meta-llama/Llama-3.1-8B"} 34.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 7.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 3.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 2.0
llamacpp:n_decode_total 5
latency_bucket{le="+Inf"} 144320 1395066363000
latency_bucket{ le = "0.05" , } 2.5e+01 # {trace_id="KOO5S4vxi0o"} 0.67
temperature NaN
most +Inf
path{file="C:\\\\DIR\\\\FILE.TXT",error="Cannot find file:\\n\\"FILE.TXT\\""} -1
"""


def test_what_servers_write() -> None:
    metrics = parse_metrics(EXPOSITION, "here")
    assert metrics.unreadable == 0
    assert metrics.total("vllm:generation_tokens_total") == 1234
    assert metrics.by("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position") == {"0": 10, "1": 2}
    assert metrics.total("llamacpp:n_decode_total") == 5
    assert metrics.series["latency_bucket"] == {(("le", "+Inf"),): 144320, (("le", "0.05"),): 25}
    assert math.isnan(metrics.total("temperature") or 0)
    assert metrics.total("most") == math.inf
    assert metrics.series["path"] == {
        (("error", 'Cannot find file:\n"FILE.TXT"'), ("file", "C:\\DIR\\FILE.TXT")): -1
    }  # fmt: skip
    assert metrics.total("absent") is None
    assert metrics.by("absent", "position") == {}


@pytest.mark.parametrize(
    "line",
    [
        "name", "name{} ", 'name{a="b" 1', 'name{a="b} 1', 'name{a="b",,} 1', "name{a=b} 1", "name one", "name 1_000",
        '{"quoted.name"} 1', "0name 1", "name}{ 1", 'name{a="b"}', "<html>", "\x00 1",
    ],
)  # fmt: skip
def test_lines_that_are_none(line: str) -> None:
    metrics = parse_metrics(f"good 1\n{line}\nbetter 2\n".encode(), "here")
    assert (metrics.unreadable, sorted(metrics.series)) == (1, ["better", "good"])


def test_a_text_that_is_none() -> None:
    for data in (b"", b"<html><body>Sign in</body></html>", b'{"error": "no"}', b"# only words\n", bytes(range(256))):
        with pytest.raises(InfoptError, match=r"^http://x/metrics: holds no metrics"):
            parse_metrics(data, "http://x/metrics")


def test_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InfoptError, match="more than 20000000 bytes"):
        parse_metrics(b"a 1\n" * (MAX_BYTES // 4 + 1), "here")
    monkeypatch.setattr(metrics_text, "MAX_SERIES", 10)
    with pytest.raises(InfoptError, match="more than 10 series"):
        parse_metrics(b"a 1\n" * 11, "here")


@pytest.mark.parametrize(
    "hostile",
    [
        'a{b="' + "\\\\" * 500_000,
        'a{b="' + '\\"' * 500_000 + '"} 1',
        "a{" + 'b="c",' * 200_000,
        "a" * 1_000_000,
        "a " + " " * 1_000_000 + "#",
        "a{" + " " * 1_000_000,
        "a{b=" + " " * 1_000_000,
        ("a{" * 500_000),
        "\n" * 1_000_000,
    ],
)
def test_no_text_takes_long(hostile: str) -> None:
    """Time grows with size, not with its square: a million characters in well under a second of processor time."""
    begun = time.process_time()
    parse_metrics(f"good 1\n{hostile}\n".encode(), "here")
    assert time.process_time() - begun < 5


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,10}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True),
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")) | st.just("\n"), max_size=10),
    max_size=4,
)


@given(st.dictionaries(NAMES, st.tuples(LABELS, st.floats(allow_nan=False)), min_size=1, max_size=5))
def test_what_is_written_is_read(series: dict[str, tuple[dict[str, str], float]]) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    lines = [
        f"{name}{{{','.join(f'{k}=' + chr(34) + escaped(v) + chr(34) for k, v in labels.items())}}} {value!r}"
        for name, (labels, value) in series.items()
    ]
    metrics = parse_metrics("\n".join(lines).encode(), "here")
    assert metrics.unreadable == 0
    assert metrics.series == {name: {tuple(sorted(labels.items())): value} for name, (labels, value) in series.items()}


@given(st.binary(max_size=300) | st.text(alphabet='ab{}="\\,# 1\n', max_size=300).map(str.encode))
def test_nothing_breaks_it(data: bytes) -> None:
    try:
        metrics = parse_metrics(data, "here")
    except InfoptError as error:
        assert str(error).startswith("here: ")  # noqa: PT017
    else:
        assert metrics.series
