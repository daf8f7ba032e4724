"""Parse and format quantities: the only place that knows "32k", "GiB" and "TB/s".

Parsing turns text from an option or a file into a plain number in base units (bytes, seconds, FLOP/s, tokens,
bytes/s, US dollars). Arithmetic is done in `Decimal`, so "79.19GiB" is exact before it is rounded. Every parser takes
the text and, for the error line, the option it came from; anything that is not a finite, non-negative number with the
right unit raises `InfoptError`. Formatting is the way back, and the printed unit is always the right one:
GB is 1e9 bytes, GiB is 2^30.
"""

import re
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal

from infopt.errors import InfoptError

DECIMAL_PREFIXES: dict[str, int] = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
BINARY_PREFIXES: dict[str, int] = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}

_COUNT_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_TOKEN_SUFFIXES = {"": 1, "k": 2**10, "m": 2**20}
_SECONDS = {
    "ns": "1e-9",
    "us": "1e-6",
    "µs": "1e-6",
    "μs": "1e-6",
    "ms": "1e-3",
    "s": "1",
    "min": "60",
    "m": "60",
    "h": "3600",
}
_PER_SECONDS = {"/s": 1, "/min": 60, "/h": 3600}

# A quantity longer or larger than this is a mistake or an attack, never a machine.
_MAX_TEXT = 40
_MAX_VALUE = Decimal(10) ** 24

# Examples shown when text is refused, by kind of quantity.
_EXAMPLES = {
    "a size in bytes": "80GB (1e9 each), 79.19GiB (2^30 each) or 512MiB",
    "a bandwidth": "3.35TB/s or 900GB/s",
    "a compute rate": "989TFLOP/s",
    "a number of tokens": "32k (= 32768), 8192 or 1m",
    "a duration": "40ms, 1.5s or 10us",
    "a rate": "5/s or 300/min",
    "a price in US dollars": "2.49 or $2.49",
    "a share": "90% or 0.9",
    "a count": "8 or 256",
}


def _refuse(text: str, kind: str, option: str, why: str = "") -> InfoptError:
    shown = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."
    where = f"{option} " if option else ""
    because = f" ({why})" if why else ""
    return InfoptError(f"{where}{shown!r} is not {kind}{because}; write for example {_EXAMPLES[kind]}")


def _split(text: str, kind: str, option: str, *, zero: bool) -> tuple[Decimal, str]:
    """`text` as a finite number and the unit behind it; signs, NaN, infinity and (unless `zero`) 0 are refused."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(e[+-]?[0-9]{1,3})? ?([^\d\s.+-]*)", text.strip(), re.I)
    if match is None or len(text) > _MAX_TEXT:
        negative = text.strip().startswith("-")
        raise _refuse(text, kind, option, "it is negative" if negative else "")
    number = Decimal(match[1] + (match[2] or ""))
    if number > _MAX_VALUE:
        raise _refuse(text, kind, option, "it is too large")
    if number == 0 and not zero:
        raise _refuse(text, kind, option, "it must be more than 0")
    return number, match[3]


def _prefix_factor(prefix: str) -> int | None:
    """The factor of a decimal or binary prefix, in either case; None where there is no such prefix."""
    if len(prefix) == 2:
        return BINARY_PREFIXES.get(prefix[0].upper() + prefix[1].lower())
    return DECIMAL_PREFIXES.get("k" if prefix in ("k", "K") else prefix.upper())


def _bounded(value: Decimal, text: str, kind: str, option: str) -> Decimal:
    if value > _MAX_VALUE:
        raise _refuse(text, kind, option, "it is too large")
    return value


def _whole(value: Decimal, text: str, kind: str, option: str) -> int:
    _bounded(value, text, kind, option)
    if value != value.to_integral_value():
        raise _refuse(text, kind, option, "it is not a whole number")
    return int(value)


def _byte_factor(unit: str) -> int | None:
    """Bytes in one `unit` ("GB", "GiB", "gb", "B"); None for anything else, "Gb" (bits) included."""
    if unit.endswith("B") or (unit.islower() and unit.endswith("b")):
        return _prefix_factor(unit[:-1])
    return None


def parse_bytes(text: str, option: str = "") -> int:
    """Bytes in "80GB", "79.19GiB", "512MiB" or "1024B"; a unit is required, fractions of a byte are rounded.

    >>> parse_bytes("80GB"), parse_bytes("1.5 GiB")
    (80000000000, 1610612736)
    """
    kind = "a size in bytes"
    number, unit = _split(text, kind, option, zero=True)
    factor = _byte_factor(unit)
    if factor is None:
        why = "a unit is needed" if not unit else "Gb and the like are bits" if unit.endswith("b") else ""
        raise _refuse(text, kind, option, why)
    return int(_bounded(number * factor, text, kind, option).to_integral_value(ROUND_HALF_EVEN))


def parse_bytes_per_s(text: str, option: str = "") -> float:
    """Bytes per second in "3.35TB/s" or "64GiB/s".

    >>> parse_bytes_per_s("3.35TB/s")
    3350000000000.0
    """
    kind = "a bandwidth"
    number, unit = _split(text, kind, option, zero=False)
    factor = _byte_factor(unit[:-2]) if unit.lower().endswith("/s") else None
    if factor is None:
        raise _refuse(text, kind, option, "the unit is bytes per second")
    return float(_bounded(number * factor, text, kind, option))


def parse_flop_per_s(text: str, option: str = "") -> float:
    """FLOP per second in "989TFLOP/s"; "TFLOPS", and "TOP/s" or "TOPS" for integer peaks, are read too.

    >>> parse_flop_per_s("989TFLOP/s")
    989000000000000.0
    """
    kind = "a compute rate"
    number, unit = _split(text, kind, option, zero=False)
    match = re.fullmatch(r"([kmgtp]?)(?:flop|op)(?:s?/s|s)", unit, re.I)
    factor = _prefix_factor(match[1]) if match else None
    if factor is None:
        raise _refuse(text, kind, option, "the unit is FLOP/s")
    return float(_bounded(number * factor, text, kind, option))


def parse_tokens(text: str, option: str = "") -> int:
    """Tokens in "32k" (32768), "1m" (1048576), "128K", "8192", "1.5k" or "32,000": k is 1024 and m is 1024^2.

    This is the meaning on infopt's own command line; a deployment file keeps its engine's meaning.

    >>> parse_tokens("32k"), parse_tokens("1.5k"), parse_tokens("32,000")
    (32768, 1536, 32000)
    """
    kind = "a number of tokens"
    plain = text.strip()
    if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", plain):
        plain = plain.replace(",", "")
    number, unit = _split(plain, kind, option, zero=False)
    factor = _TOKEN_SUFFIXES.get(unit.lower())
    if factor is None:
        raise _refuse(text, kind, option)
    return _whole(number * factor, text, kind, option)


def parse_seconds(text: str, option: str = "") -> float:
    """Seconds in "500ms", "2s", "1.5 s", "10us", "5min" or "5m"; a unit is required.

    >>> parse_seconds("40ms"), parse_seconds("2s")
    (0.04, 2.0)
    """
    kind = "a duration"
    number, unit = _split(text, kind, option, zero=True)
    factor = _SECONDS.get(unit.lower())
    if factor is None:
        raise _refuse(text, kind, option, "" if unit else "a unit is needed")
    return float(_bounded(number * Decimal(factor), text, kind, option))


def parse_rate_per_s(text: str, option: str = "") -> float:
    """Events per second in "5/s", "300/min" or "7200/h".

    >>> parse_rate_per_s("300/min")
    5.0
    """
    kind = "a rate"
    number, unit = _split(text, kind, option, zero=False)
    seconds = _PER_SECONDS.get(unit.lower())
    if seconds is None:
        raise _refuse(text, kind, option, "" if unit else "a unit is needed")
    return float(_bounded(number / seconds, text, kind, option))


def parse_usd(text: str, option: str = "") -> float:
    """US dollars in "2.49" or "$2.49".

    >>> parse_usd("$2.49")
    2.49
    """
    kind = "a price in US dollars"
    number, unit = _split(text.strip().removeprefix("$"), kind, option, zero=True)
    if unit:
        raise _refuse(text, kind, option)
    return float(number)


def parse_share(text: str, option: str = "") -> float:
    """A part of one, in "90%" or "0.9": from 0 to 1.

    >>> parse_share("90%"), parse_share("0.9")
    (0.9, 0.9)
    """
    kind = "a share"
    number, unit = _split(text, kind, option, zero=True)
    if unit not in ("", "%"):
        raise _refuse(text, kind, option)
    share = number / 100 if unit else number
    if share > 1:
        raise _refuse(text, kind, option, "it is more than the whole")
    return float(share)


def parse_count(text: str, option: str = "", minimum: int = 1) -> int:
    """A whole number in "8", "256" or, in thousands and more, "64k", "70B" (decimal: k is 1000 here).

    >>> parse_count("256"), parse_count("8.03B")
    (256, 8030000000)
    """
    kind = "a count"
    number, unit = _split(text, kind, option, zero=True)
    factor = _COUNT_SUFFIXES.get(unit.lower())
    if factor is None:
        raise _refuse(text, kind, option)
    count = _whole(number * factor, text, kind, option)
    if count < minimum:
        raise _refuse(text, kind, option, f"it must be at least {minimum}")
    return count


def whole_of(text: str) -> int | None:
    """The whole number that a text of digits is, None for any other text and for more than 18 digits.

    `str.isdigit` takes digits that `int` refuses, and `int` refuses thousands of them.

    >>> whole_of(" 12 "), whole_of("²"), whole_of("-1"), whole_of("9" * 5000)
    (12, None, None, None)
    """
    plain = text.strip()
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 19 else None


def _digits(value: float, significant: int = 3) -> str:
    """`value` with `significant` digits, never in exponent form and never cutting digits before the point."""
    for decimals in range(significant - 1, 0, -1):
        if abs(round(value, decimals)) < 10 ** (significant - decimals):
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"


def _size_digits(value: float) -> str:
    """Sizes are compared with what drivers print: two decimals, one from 100 on."""
    return f"{value:.2f}" if abs(round(value, 2)) < 100 else f"{value:.1f}"


def _prefixed(value: float, largest: str, prefixes: Mapping[str, int] = DECIMAL_PREFIXES) -> tuple[float, str]:
    """`value` divided by the prefix that leaves 1 to 1000 before the point, `largest` at most."""
    chosen, divisor = "", 1
    for prefix, factor in prefixes.items():
        # 999.96e9 would print as 1000.0 GB: step up where rounding reaches the next prefix.
        if abs(value) >= factor * 0.9995:
            chosen, divisor = prefix, factor
        if prefix == largest:
            break
    return value / divisor, chosen


def format_bytes(size_bytes: float, unit: str | None = None) -> str:
    """Bytes in decimal units, scaled to the size, or in the `unit` asked for ("GB", "MB", "GiB", ...).

    >>> format_bytes(139e9), format_bytes(139e9, "TB"), format_bytes(512)
    ('139.0 GB', '0.14 TB', '512 B')
    """
    if unit is None:
        scaled, prefix = _prefixed(size_bytes, "P")
        return f"{scaled:.0f} B" if not prefix else f"{_size_digits(scaled)} {prefix}B"
    factor = _byte_factor(unit)
    if factor is None:
        raise ValueError(f"{unit!r} is not a unit of bytes")
    return f"{size_bytes:.0f} B" if factor == 1 else f"{_size_digits(size_bytes / factor)} {unit}"


def format_gib(size_bytes: float) -> str:
    """Bytes in GiB (2^30), as drivers and engines print them.

    >>> format_gib(85029158912)
    '79.19 GiB'
    """
    return f"{size_bytes / 2**30:.2f} GiB"


def format_bytes_per_s(rate_bytes_per_s: float) -> str:
    """Bytes per second, up to TB/s.

    >>> format_bytes_per_s(3.35e12)
    '3.35 TB/s'
    """
    scaled, prefix = _prefixed(rate_bytes_per_s, "T")
    return f"{_digits(scaled)} {prefix}B/s"


def format_flop(work_flop: float) -> str:
    """A count of operations.

    >>> format_flop(141e9)
    '141 GFLOP'
    """
    scaled, prefix = _prefixed(work_flop, "P")
    return f"{_digits(scaled)} {prefix}FLOP"


def format_flop_per_s(rate_flop_per_s: float) -> str:
    """FLOP per second, up to TFLOP/s: vendors print 1979 TFLOP/s.

    >>> format_flop_per_s(1979e12)
    '1979 TFLOP/s'
    """
    scaled, prefix = _prefixed(rate_flop_per_s, "T")
    return f"{_digits(scaled)} {prefix}FLOP/s"


def format_seconds(duration_s: float) -> str:
    """Seconds in us, ms or s.

    >>> format_seconds(0.0207), format_seconds(9.5e-6), format_seconds(90)
    ('20.7 ms', '9.50 us', '90.0 s')
    """
    if duration_s == 0:
        return "0 s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if abs(duration_s) >= factor * 0.9995:
            return f"{_digits(duration_s / factor)} {unit}"
    return f"{_digits(duration_s / 1e-6)} us"


def format_count(count: float) -> str:
    """A count of parameters or the like, to three digits: whole below 10,000, then k, M, B, T.

    >>> format_count(70_553_706_496), format_count(8_030_261_248), format_count(8192)
    ('70.6B', '8.03B', '8,192')
    """
    if abs(count) < 10_000:
        return f"{count:,.0f}"
    scaled, suffix = _prefixed(count, "T", {"k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12})
    return f"{_digits(scaled)}{suffix}"


def format_whole(count: int) -> str:
    """A whole number with every digit, as engines print the tokens of their cache.

    >>> format_whole(475136)
    '475,136'
    """
    return f"{count:,d}"


def format_tokens(tokens: int) -> str:
    """A context length: in k (1024) or m (1024^2) where that is exact, else every digit.

    >>> format_tokens(32768), format_tokens(32000), format_tokens(1048576)
    ('32k', '32,000', '1m')
    """
    for suffix, factor in (("m", 2**20), ("k", 2**10)):
        if tokens and tokens % factor == 0:
            return f"{tokens // factor}{suffix}"
    return format_whole(tokens)


def format_usd(price_usd: float) -> str:
    """US dollars: cents, or three digits below ten cents.

    >>> format_usd(2.49), format_usd(1234.5), format_usd(0.0043)
    ('$2.49', '$1,234.50', '$0.00430')
    """
    sign, price = ("-" if price_usd < 0 else ""), abs(price_usd)
    if price == 0 or price >= 0.1:
        return f"{sign}${price:,.2f}"
    decimals = 2 - Decimal(price).adjusted()
    return f"{sign}${price:.{decimals}f}"


def format_share(share: float) -> str:
    """A part of one in percent, one decimal at most.

    >>> format_share(0.9), format_share(0.0417), format_share(0.0004)
    ('90%', '4.2%', '0.04%')
    """
    percent = share * 100
    decimals = 2 if 0 < abs(percent) < 0.1 else 1
    return f"{percent:.{decimals}f}".removesuffix(".0") + "%"
