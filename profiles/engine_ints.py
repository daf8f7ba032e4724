"""Whole numbers as each engine's command line reads them: `32k` is not the same everywhere."""

import re
from fractions import Fraction

from infopt.errors import InfoptError

# vLLM vllm/utils/argparse_utils.py and SGLang sglang/srt/utils/common.py, both `human_readable_int`: suffixes that take
# decimals, and those that do not. The other engines read plain integers.
_DECIMAL = {
    "vllm": {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12},
    "sglang": {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12},
}
_BINARY = {
    "vllm": {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40},
    "sglang": {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40},
}
_NUMBER = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([A-Za-z]*)")


def plain_int(text: str) -> int:
    """A whole number as Python's int() and the C library read it."""
    try:
        return int(text.strip())
    except ValueError:
        raise InfoptError(f"{text!r} is not a whole number; this option takes no suffix") from None


def sized_int(engine: str, text: str) -> int:
    """A number with a suffix, as `human_readable_int` of the engine reads it.

    >>> sized_int("vllm", "32k"), sized_int("vllm", "32K"), sized_int("sglang", "1M"), sized_int("vllm", "1M")
    (32000, 32768, 1000000, 1048576)
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None or not found[2]:
        return plain_int(text)
    number, suffix = found[1], found[2]
    if suffix in _DECIMAL.get(engine, {}):
        return int(Fraction(number) * _DECIMAL[engine][suffix])
    if suffix in _BINARY.get(engine, {}):
        if "." in number:
            raise InfoptError(f"{text!r}: {engine} takes no decimals before the binary suffix {suffix}")
        return int(number) * _BINARY[engine][suffix]
    known = ", ".join([*_DECIMAL.get(engine, {}), *_BINARY.get(engine, {})])
    raise InfoptError(f"{text!r}: {engine} does not know the suffix {suffix!r}; it knows {known or 'none'}")
