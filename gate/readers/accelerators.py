"""Devices as task files and command lines name them: `H200:8`, `device=0,1`, variables that make devices visible."""

import re
from collections.abc import Mapping

from infopt.frozen import dataclass
from infopt.gate.nodes import Text, at
from infopt.units import whole_of

# Variables that list the devices a program may use.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_SIZE = re.compile(r"\d+(?:\.\d+)?[GM]i?B?(?:\.\.(?:\d+(?:\.\d+)?[GM]i?B?)?)?|\.\.\d+(?:\.\d+)?[GM]i?B?", re.IGNORECASE)
_RANGE = re.compile(r"(\d{1,5})?(?:\.\.|-)(\d{1,5})?\+?|(\d{1,5})\+")
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True, slots=True)
class Asked:
    """One way a request for devices can be met.

    name    of the kind, None where only a size or nothing is said; `count` None for a range or `all`
    """

    name: Text | None
    count: int | None


def asked_of(said: Text) -> tuple[Asked, ...]:
    """The ways to meet `H200:8`, `A100:40GB:2`, `H100,H200:8`, `24GB..80GB:2`, `2`; a range of counts is its least.

    >>> from infopt.gate.nodes import at
    >>> [(str(one.name), one.count) for one in asked_of(at("A100:40GB:2", 1, 1))]
    [('A100-40GB', 2)]
    """
    names: list[str] = []
    size, count = "", None
    for part in (part.strip() for part in said.split(":")):
        if len(part) < 6 and (number := whole_of(part)) is not None:
            count = number
        elif match := _RANGE.fullmatch(part):
            count = int(match[1] or match[3] or 1)
        elif _SIZE.fullmatch(part):
            size = part
        elif part and part.lower() not in ("nvidia", "amd", "google", "intel", "tenstorrent"):
            names = [name.strip() for name in part.split(",") if name.strip()]
    if not names:
        return (Asked(_placed(said, size) if size else None, count if count is not None or not size else 1),)
    sized = f"-{size}" if size and ".." not in size else ""
    whole = 1 if count is None else count
    return tuple(Asked(_placed(said, f"{name}{sized}"), whole) for name in names)


def _placed(said: Text, words: str) -> Text:
    return at(words, said.line, said.column, said.style)


def listed(devices: str) -> int | None:
    """How many devices a list names; None for `all`, a variable or none at all.

    >>> listed("0,1,2"), listed("all"), listed('"device=0,1"'), listed("$GPUS")
    (3, None, 2, None)
    """
    plain = devices.strip().strip("\"'")
    plain = plain.partition("device=")[2] if "device=" in plain else plain
    names = [name for name in plain.strip("\"'").split(",") if name.strip()]
    if not names or "$" in plain or plain.lower() in ("all", "none", "void", "no", "-1"):
        return None
    return len(names)


def visible(environment: Mapping[str, Text]) -> tuple[int, Text] | None:
    """How many devices the environment lets a program see, and where it says so."""
    for name in VISIBLE:
        value = environment.get(name)
        if value is not None and (count := listed(value)) is not None:
            return count, value
    return None


def memory_bytes(size: str) -> int | None:
    """Bytes as containers count them: `16g`, `32GB`, `512m`, `1073741824`; powers of two.

    >>> memory_bytes("16g"), memory_bytes("32GB"), memory_bytes("x")
    (17179869184, 34359738368, None)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\+?", size.strip().lower())
    return int(float(match[1]) * _UNITS[match[2]]) if match and len(match[1]) < 16 else None
