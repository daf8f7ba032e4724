"""Inputs made from others: bytes, words and lines, cells and keys, leaves and branches of JSON and YAML.

One function of (input, another input, random numbers), for the engine of our own and for atheris alike.
"""

import copy
import json
import math
import random
import re
import struct
from collections.abc import Callable
from typing import Any

import yaml
from fuzz.target import Form

MOST_BYTES = 100_000
DEEP = "[" * 600 + "]" * 600
# What stands in place of a value: numbers at the edges of every type, the values of other types, texts with a meaning
# elsewhere.
WORDS = (
    *("0", "-0", "1", "-1", "2", "0.5", "1e308", "-1e308", "1e309", "5e-324", "1e400", "-1e-400", "nan", "NaN", "-inf"),
    *("Infinity", "2147483648", "4294967296", "9223372036854775808", "18446744073709551616", "9" * 40, "9" * 400),
    *("9" * 5000, "0x10", "010", "1_000", "1e3", "3.35e12", "\u00b2", "\u0661\u0662", "true", "false", "yes", "no"),
    *("null", "~", "None", '""', "''", "[]", "{}", "[[]]", "{a: 1}", "- ", "? ", "&a ", "*a", "<<: *a", "!!binary "),
    *(
        "!!python/none ",
        "!a ",
        "|",
        ">",
        "#",
        "---",
        "...",
        "32k",
        "32K",
        "1m",
        "-5k",
        "80GB",
        "79.19GiB",
        "5/s",
        "40ms",
    ),
    *("2026-13-45", "2026-11-29", "2026-11-29T10:00:00Z", "12:30:45", "\u00e9", "\u2028", "\x85", "\x00", "\x07"),
    *(
        "\x1b[31m",
        "\ufeff",
        "\U0001f600",
        "a" * 5000,
        "${A}",
        "${A:-b}",
        "$(A)",
        "$A",
        "`id`",
        "$((1/0))",
        "$((9**9**9))",
    ),
    *(
        "{{ x }}",
        "{% x %}",
        "%s",
        "%",
        "\\",
        "\\\n",
        "'",
        '"',
        ",",
        ";",
        ":",
        "=",
        "--",
        "-",
        "/",
        "../..",
        "/dev/zero",
    ),
    *("../..", "/dev/zero", "*", "|| true", "&& ", "<<EOF\n", "\t", "\r", "\n", "\n\n", " ", "@", "@@", "=1"),
)
LEAVES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        2**31,
        2**63,
        2**64,
        10**30,
        10**300,
        10**400,
        0.5,
        -0.5,
        1e308,
        -1e308,
        5e-324,
    ),
    *(5e-324, math.nan, math.inf, "", "0", "-1", "1e400", "nan", "auto", "true", "x" * 3000, "\u2028", "\x00", "\n"),
    *(
        "a\nb",
        "\u00e9",
        "\ud800",
        "${A}",
        "{{ x }}",
        "32k",
        "2026-13-45",
        [],
        {},
        [[]],
        [None],
        [0],
        {"": 0},
        {"a": {"a": {}}},
    ),
    ["a"] * 300,
)
INTEGERS = (0, 1, 2, 7, 8, 9, 12, 127, 128, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_TOKEN = re.compile(rb"[A-Za-z_][\w.-]*|[-+]?\d[\d.eE+_-]*|\"[^\"\n]*\"|[^\s\w]")
_NUMBER = re.compile(rb"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
Random = random.Random


def mutated(form: Form, data: bytes, other: bytes, rng: Random) -> bytes:
    """An input from `data`, with pieces of `other`, changed a few times."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        data = _change(form, data, rng)(data, other, rng)
    return data[:MOST_BYTES]


Change = Callable[[bytes, bytes, Random], bytes]


def _change(form: Form, data: bytes, rng: Random) -> Change:
    """What is done next: mostly what keeps the form."""
    if form == "headed":
        return rng.choice((_headed, _headed, _headed, _integers, *BYTES))
    if form == "binary":
        return rng.choice((_integers, _integers, _integers, *BYTES))
    if form == "json":
        return rng.choice((_json, _json, _json, _json, *TEXTS))
    return rng.choice((_yaml, _yaml, *TEXTS, *TEXTS, *TEXTS)) if b": " in data else rng.choice(TEXTS)


# Bytes.


def _cut(data: bytes, other: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, other: bytes, rng: Random) -> bytes:
    if not data:
        return b"\xff"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _delete(data: bytes, other: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice((1, 2, 4, 8, 16, 64)) :]


def _insert(data: bytes, other: bytes, rng: Random) -> bytes:
    at, of = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    return data[:at] + other[of : of + rng.choice((1, 4, 16, 64, 256))] + data[at:]


def _crossed(data: bytes, other: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _integers(data: bytes, other: bytes, rng: Random) -> bytes:
    """A little-endian integer of 4 or 8 bytes, mostly where one stands."""
    size = rng.choice((4, 8))
    zeros = [match.start() for match in re.finditer(rb"\0\0\0", data)]
    at = (
        max(0, rng.choice(zeros) - rng.randrange(1, 6))
        if zeros and rng.random() < 0.8
        else rng.randrange(len(data) + 1)
    )
    value = rng.choice(INTEGERS) + rng.choice((0, 0, 0, -1, 1))
    return data[:at] + struct.pack("<Q", value % 2**64)[:size] + data[at + size :]


BYTES: tuple[Change, ...] = (_cut, _flip, _delete, _insert, _crossed)

# Text.


def _word(data: bytes, other: bytes, rng: Random) -> bytes:
    """A word or sign replaced by one of the list, or by one of another input."""
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return rng.choice(WORDS).encode("utf-8", "surrogatepass")
    at = rng.choice(tokens)
    others = _TOKEN.findall(other) if rng.random() < 0.4 else []
    new = rng.choice(others) if others else rng.choice(WORDS).encode("utf-8", "surrogatepass")
    return data[: at.start()] + new + data[at.end() :]


def _number(data: bytes, other: bytes, rng: Random) -> bytes:
    """A number replaced by another."""
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return _word(data, other, rng)
    at = rng.choice(numbers)
    return data[: at.start()] + rng.choice(WORDS[:30]).encode() + data[at.end() :]


def _put(data: bytes, other: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(WORDS).encode("utf-8", "surrogatepass") + data[at:]


def _line(data: bytes, other: bytes, rng: Random) -> bytes:
    """A line left out, said twice, moved, indented otherwise, or taken from another input."""
    lines, others = data.splitlines(keepends=True) or [b""], other.splitlines(keepends=True) or [b""]
    at = rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at] *= rng.choice((2, 2, 2, 50))
    elif kind == 2:
        lines.insert(rng.randrange(len(lines) + 1), lines.pop(at))
    elif kind == 3:
        lines[at] = b" " * rng.randrange(1, 5) + lines[at] if rng.random() < 0.5 else lines[at].lstrip(b" ")
    elif kind == 4:
        lines.insert(at, rng.choice(others))
    else:
        lines[at] = rng.choice(others)
    return b"".join(lines)


def _cell(data: bytes, other: bytes, rng: Random) -> bytes:
    """A cell of comma-separated values, or the value behind the first colon or equals sign of a line."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return b","
    at = rng.randrange(len(lines))
    for sign in (b",", b": ", b"=", b" "):
        cells = lines[at].rstrip(b"\n").split(sign)
        if len(cells) > 1:
            cells[rng.randrange(len(cells)) if sign == b"," else -1] = rng.choice(WORDS).encode(
                "utf-8", "surrogatepass"
            )
            lines[at] = sign.join(cells) + b"\n"
            return b"".join(lines)
    return _line(data, other, rng)


TEXTS: tuple[Change, ...] = (
    _word,
    _word,
    _number,
    _number,
    _put,
    _line,
    _line,
    _cell,
    _cell,
    _crossed,
    _delete,
    _flip,
    _cut,
)

# Trees.


def _json(data: bytes, other: bytes, rng: Random) -> bytes:
    """A leaf or branch of JSON, or of one line of it, changed; text where it is none."""
    lines = data.splitlines()
    whole = _parsed(data)
    if whole is None and len(lines) > 1:
        at = rng.randrange(len(lines))
        lines[at] = _json(lines[at], other, rng).replace(b"\n", b" ")
        return b"\n".join(lines) + b"\n"
    if whole is None:
        return rng.choice(TEXTS)(data, other, rng)
    if rng.random() < 0.03:
        return data.replace(b"[", DEEP[:600].encode() + b"[", 1)
    text = json.dumps(_tree(whole[0], _parsed(other), rng), indent=rng.choice((None, 1)))
    return text.encode("utf-8", "surrogatepass")


def _yaml(data: bytes, other: bytes, rng: Random) -> bytes:
    """A leaf or branch of the documents of a YAML text changed."""
    try:
        documents = list(yaml.load_all(data, Loader=_PLAIN))
        donor = [list(yaml.load_all(other, Loader=_PLAIN))] if rng.random() < 0.3 else None
        changed = _tree(documents, donor, rng)
        return yaml.dump_all(changed, Dumper=_DUMPER, sort_keys=False, allow_unicode=True).encode(
            "utf-8", "surrogatepass"
        )
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        return rng.choice(TEXTS)(data, other, rng)


_PLAIN = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _parsed(data: bytes) -> list[Any] | None:
    """A JSON value in a list, None where there is none."""
    try:
        return [json.loads(data)]
    except (ValueError, RecursionError):
        return None


def _tree(tree: Any, donor: list[Any] | None, rng: Random) -> Any:
    """The tree with one place changed: put, left out, renamed, repeated, wrapped, or taken from another tree."""
    places = list(_places(tree))
    if not places:
        return _leaf(rng)
    holder, key = rng.choice(places)
    kind = rng.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[_key(rng, places)] = holder.pop(key)
    elif kind == 2 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * rng.choice((1, 2, 100))
    elif kind == 2:
        holder[_key(rng, places)] = holder[key]
    elif kind == 3:
        holder[key] = [holder[key]] if rng.random() < 0.5 else {_key(rng, places): holder[key]}
    elif kind == 4:
        away, name = rng.choice(list(_places(donor)) or places)
        holder[key] = json.loads(json.dumps(away[name], default=str))
    else:
        holder[key] = _leaf(rng)
    return tree


def _leaf(rng: Random) -> Any:
    """A value of the list, of its own: trees are changed in place."""
    return copy.deepcopy(rng.choice(LEAVES))


def _places(tree: Any) -> Any:
    """Every (dict, key) and (list, index), the upper ones first."""
    waiting = [tree]
    while waiting:
        here = waiting.pop(0)
        for key in list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ():
            yield here, key
            waiting.append(here[key])


def _key(rng: Random, places: list[Any]) -> str:
    """A key that stands elsewhere in the tree, or an odd one."""
    names = [key for holder, key in places if isinstance(holder, dict) and isinstance(key, str)]
    return (
        rng.choice(names)
        if names and rng.random() < 0.7
        else rng.choice(("", "a", "0", "\u2028", "x" * 300, "<<", "__class__"))
    )


def _headed(data: bytes, other: bytes, rng: Random) -> bytes:
    """A safetensors header: JSON behind its length, which mostly stays right."""
    text = _json(data[8:].rstrip(b"\0 "), other[8:].rstrip(b"\0 "), rng)
    length = len(text) if rng.random() < 0.9 else rng.choice(INTEGERS)
    return struct.pack("<Q", length) + text
