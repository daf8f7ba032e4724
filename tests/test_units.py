"""Every prefix by table, every parser against refused text, and format -> parse round trips."""

import doctest
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import infopt.units as units
from infopt.errors import InfoptError

# Written out by hand: a table computed by the code under test would repeat its mistakes.
BYTES = {
    "1B": 1,
    "1kB": 1_000,
    "1KB": 1_000,
    "1MB": 1_000_000,
    "1GB": 1_000_000_000,
    "1TB": 1_000_000_000_000,
    "1PB": 1_000_000_000_000_000,
    "1KiB": 1_024,
    "1MiB": 1_048_576,
    "1GiB": 1_073_741_824,
    "1TiB": 1_099_511_627_776,
    "1PiB": 1_125_899_906_842_624,
    "80GB": 80_000_000_000,
    "80gb": 80_000_000_000,
    "80 GB": 80_000_000_000,
    "79.19GiB": 85_029_615_043,  # 79.19 * 2^30 = 85029615042.56
    "512MiB": 536_870_912,
    "1e3MB": 1_000_000_000,
    ".5kB": 500,
    "0GB": 0,
}
BYTES_PER_S = {
    "1B/s": 1.0,
    "1kB/s": 1e3,
    "1MB/s": 1e6,
    "1GB/s": 1e9,
    "1TB/s": 1e12,
    "1PB/s": 1e15,
    "1KiB/s": 1024.0,
    "1MiB/s": 1048576.0,
    "1GiB/s": 1073741824.0,
    "1TiB/s": 1099511627776.0,
    "1PiB/s": 1125899906842624.0,
    "3.35TB/s": 3.35e12,
    "900 gb/s": 9e11,
}
FLOP_PER_S = {
    "1FLOP/s": 1.0,
    "1kFLOP/s": 1e3,
    "1MFLOP/s": 1e6,
    "1GFLOP/s": 1e9,
    "1TFLOP/s": 1e12,
    "1PFLOP/s": 1e15,
    "989TFLOP/s": 989e12,
    "989 TFLOPS": 989e12,
    "989tflops/s": 989e12,
    "1979TOPS": 1979e12,
    "1979TOP/s": 1979e12,
}
TOKENS = {
    "1": 1,
    "8192": 8192,
    "1k": 1024,
    "32k": 32768,
    "128K": 131072,
    "1.5k": 1536,
    "1m": 1048576,
    "10M": 10485760,
    "32,000": 32000,
    "1e3": 1000,
}
SECONDS = {
    "10ns": 1e-8,
    "10us": 1e-5,
    "10µs": 1e-5,
    "500ms": 0.5,
    "40ms": 0.04,
    "2s": 2.0,
    "1.5 s": 1.5,
    "5min": 300.0,
    "2h": 7200.0,
    "0s": 0.0,
}
RATES = {"5/s": 5.0, "0.5 /s": 0.5, "300/min": 5.0, "7200/h": 2.0}
USD = {"2.49": 2.49, "$2.49": 2.49, "$ 2.49": 2.49, "0": 0.0}
SHARES = {"90%": 0.9, "0.9": 0.9, "0": 0.0, "1": 1.0, "100%": 1.0, "12.5 %": 0.125}
COUNTS = {"1": 1, "256": 256, "64k": 64_000, "8.03B": 8_030_000_000, "1.5T": 1_500_000_000_000, "7M": 7_000_000}

Parser = Callable[..., float]
ACCEPTED: list[tuple[Parser, dict[str, float]]] = [
    (units.parse_bytes, BYTES),  # type: ignore[list-item]
    (units.parse_bytes_per_s, BYTES_PER_S),
    (units.parse_flop_per_s, FLOP_PER_S),
    (units.parse_tokens, TOKENS),  # type: ignore[list-item]
    (units.parse_seconds, SECONDS),
    (units.parse_rate_per_s, RATES),
    (units.parse_usd, USD),
    (units.parse_share, SHARES),
    (units.parse_count, COUNTS),  # type: ignore[list-item]
]
PARSERS = [parser for parser, _ in ACCEPTED]


def name(part: object) -> str:
    """A test id that is the same in every worker: no function address in it."""
    return getattr(part, "__name__", None) or str(part)


@pytest.mark.parametrize(
    ("parser", "text", "value"),
    [(parser, text, value) for parser, table in ACCEPTED for text, value in table.items()],
    ids=name,
)
def test_accepted(parser: Parser, text: str, value: float) -> None:
    parsed = parser(text)
    assert parsed == value
    assert type(parsed) is type(value)


GARBAGE = [
    *("", " ", "nan", "NaN", "inf", "-inf", "Infinity", "-1", "-5GB", "+3", "GB", "k", ".", "1.2.3", "1,5", "0x10"),
    *(
        "1e",
        "1 000",
        "1_000",
        "12 34",
        "８",
        "٣",
        "1e999",
        "9" * 41,
        "1\n2",
        "\x00",
        "80GB; rm",
        "1e24T",
        "None",
        "true",
    ),
]


@pytest.mark.parametrize("parser", PARSERS, ids=name)
@pytest.mark.parametrize("text", GARBAGE, ids=repr)
def test_garbage_is_refused_in_one_line(parser: Parser, text: str) -> None:
    with pytest.raises(InfoptError) as caught:
        parser(text, "--opt")
    message = str(caught.value)
    assert message.startswith("--opt ")
    assert "write for example" in message
    assert message.isprintable()  # one line, control characters escaped
    assert len(message) < 250


@pytest.mark.parametrize(
    ("parser", "text", "why"),
    [
        (units.parse_bytes, "80", "a unit is needed"),
        (units.parse_bytes, "80Gb", "bits"),
        (units.parse_bytes, "80G", "80GB"),
        (units.parse_bytes, "80EB", "80GB"),
        (units.parse_bytes, "-1GB", "negative"),
        (units.parse_bytes, "1e13TB", "too large"),
        (units.parse_bytes_per_s, "3.35TB", "bytes per second"),
        (units.parse_bytes_per_s, "3.35Tb/s", "bytes per second"),
        (units.parse_bytes_per_s, "0TB/s", "more than 0"),
        (units.parse_flop_per_s, "989TFLOP", "FLOP/s"),
        (units.parse_flop_per_s, "0TFLOP/s", "more than 0"),
        (units.parse_tokens, "0", "more than 0"),
        (units.parse_tokens, "1.3k", "whole number"),
        (units.parse_tokens, "32,00", "32k"),
        (units.parse_tokens, "32Q", "32k"),
        (units.parse_seconds, "40", "a unit is needed"),
        (units.parse_rate_per_s, "5", "a unit is needed"),
        (units.parse_usd, "2.49 EUR", "$2.49"),
        (units.parse_share, "90", "more than the whole"),
        (units.parse_share, "101%", "more than the whole"),
        (units.parse_count, "0", "at least 1"),
        (units.parse_count, "1.5", "whole number"),
    ],
    ids=name,
)
def test_refusal_says_why(parser: Parser, text: str, why: str) -> None:
    with pytest.raises(InfoptError, match=r"^'") as caught:
        parser(text)
    assert repr(text) in str(caught.value)
    assert why in str(caught.value)


def test_count_minimum_is_the_callers() -> None:
    assert units.parse_count("0", minimum=0) == 0


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    for parser in PARSERS:
        try:
            value = parser(text)
        except InfoptError:
            continue
        assert 0 <= value < float("inf")


@given(st.integers(1, 10**18), st.sampled_from(["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"]))
def test_whole_bytes_parse_exactly(number: int, unit: str) -> None:
    factor = units.parse_bytes(f"1{unit}")
    if number * factor <= 10**24:
        assert units.parse_bytes(f"{number}{unit}") == number * factor


@given(st.integers(0, 10**17))
def test_bytes_round_trip_within_the_digits_printed(size: int) -> None:
    assert units.parse_bytes(units.format_bytes(size)) == pytest.approx(size, rel=0.0055)


@given(st.floats(1.0, 1e17))
def test_rates_round_trip(rate: float) -> None:
    assert units.parse_bytes_per_s(units.format_bytes_per_s(rate)) == pytest.approx(rate, rel=0.0055)
    assert units.parse_flop_per_s(units.format_flop_per_s(rate)) == pytest.approx(rate, rel=0.0055)


@given(st.floats(1e-6, 1e6))
def test_seconds_round_trip(duration_s: float) -> None:
    assert units.parse_seconds(units.format_seconds(duration_s)) == pytest.approx(duration_s, rel=0.0055)


@given(st.integers(1, 10**9))
def test_tokens_round_trip_exactly(tokens: int) -> None:
    assert units.parse_tokens(units.format_tokens(tokens)) == tokens
    assert units.parse_tokens(units.format_tokens(tokens * 1024)) == tokens * 1024


@given(st.integers(10_000, 10**14))
def test_counts_round_trip(count: int) -> None:
    assert units.parse_count(units.format_count(count)) == pytest.approx(count, rel=0.0055)


@given(st.floats(0.001, 1.0))
def test_shares_round_trip(share: float) -> None:
    assert units.parse_share(units.format_share(share)) == pytest.approx(share, abs=0.00051)


@given(st.floats(0.1, 9999.0))
def test_usd_round_trip(price_usd: float) -> None:
    text = units.format_usd(price_usd).replace(",", "")
    assert units.parse_usd(text) == pytest.approx(price_usd, abs=0.0051)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (units.format_bytes(0), "0 B"),
        (units.format_bytes(999), "999 B"),
        (units.format_bytes(327_680), "327.7 kB"),
        (units.format_bytes(10_737_418_240), "10.74 GB"),
        (units.format_bytes(999_960_000_000), "1.00 TB"),
        (units.format_bytes(-5_243_000_000), "-5.24 GB"),
        (units.format_bytes(141_107_412_992, "GB"), "141.1 GB"),
        (units.format_bytes(10_737_418_240, "GiB"), "10.00 GiB"),
        (units.format_bytes(99_999_000_000, "GB"), "100.0 GB"),
        (units.format_bytes(12.0, "B"), "12 B"),
        (units.format_gib(79.65 * 2**30), "79.65 GiB"),
        (units.format_bytes_per_s(4.8e12), "4.80 TB/s"),
        (units.format_bytes_per_s(64e9), "64.0 GB/s"),
        (units.format_bytes_per_s(5.2e15), "5200 TB/s"),
        (units.format_flop_per_s(989.4e12), "989 TFLOP/s"),
        (units.format_flop(9.17e15), "9.17 PFLOP"),
        (units.format_seconds(0.0), "0 s"),
        (units.format_seconds(0.99999), "1.00 s"),
        (units.format_seconds(0.0417), "41.7 ms"),
        (units.format_seconds(0.09996), "100 ms"),
        (units.format_seconds(2e-9), "0.00 us"),
        (units.format_count(671_026_419_200), "671B"),
        (units.format_count(124_439_808), "124M"),
        (units.format_count(128_256), "128k"),
        (units.format_tokens(131_072), "128k"),
        (units.format_tokens(0), "0"),
        (units.format_whole(523_136), "523,136"),
        (units.format_usd(0.06), "$0.0600"),
        (units.format_usd(-2.5), "-$2.50"),
        (units.format_usd(0.0), "$0.00"),
        (units.format_share(0.957), "95.7%"),
        (units.format_share(1.0), "100%"),
        (units.format_share(0.0), "0%"),
    ],
)
def test_printed(printed: str, expected: str) -> None:
    assert printed == expected


def test_unknown_unit_of_bytes_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="not a unit of bytes"):
        units.format_bytes(1.0, "GHz")


def test_doctests() -> None:
    results = doctest.testmod(units)
    assert results.attempted >= 20
    assert results.failed == 0
