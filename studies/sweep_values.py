"""What stands in cells and options of a sweep: numbers, and lists and ranges of them."""

from collections.abc import Callable, Mapping, Sequence

from infopt.errors import InfoptError
from infopt.units import parse_count, parse_share, parse_tokens

# What makes a placement.
KEY_COLUMNS = (
    "model", "hw", "gpus", "tp", "pp", "dp", "ep", "weights", "kv", "engine", "engine_version", "util",
)  # fmt: skip
# Where 64-bit products of two such numbers stay exact.
LARGEST = 10**9
# What is left free inside a group, and how each is read.
LOAD_COLUMNS: dict[str, Callable[[str, str], int]] = {
    "ctx": parse_tokens,
    "isl": parse_tokens,
    "osl": parse_tokens,
    "concurrency": parse_count,
}
READ_COLUMNS = (*KEY_COLUMNS, *LOAD_COLUMNS)
ALIASES = {"batch": "concurrency"}
COUNT_COLUMNS = ("gpus", "tp", "pp", "dp", "ep")
OPTIONS = {column: option for option, column in ALIASES.items()}
BLANK, BAD = 0, -1
MAX_VALUES = 1_000_000


def column_of(name: str) -> str:
    """The column a heading means, in any case and by its other name."""
    return ALIASES.get(name.lower(), name.lower())


def parser_of(name: str) -> tuple[Callable[[str, str], float] | None, type | None]:
    """How cells under a heading are read, and what they are then; None where they are text."""
    column = column_of(name)
    if column == "util":
        return parse_share, float
    parse = parse_count if column in COUNT_COLUMNS else LOAD_COLUMNS.get(column)
    return parse, int if parse else None


def bounded(value: int, text: str, where: str) -> int:
    """A number that arrays can hold."""
    if value > LARGEST:
        raise InfoptError(f"{where} {text!r} is more than {LARGEST:,}")
    return value


class Numbers(dict[str, int]):
    """Numbers of a column by their text, each text parsed once: BLANK, BAD (then `refused` says why), or the number."""

    def __init__(self, column: str, heading: str) -> None:
        self._heading = heading
        self._parse = LOAD_COLUMNS[column]
        self.refused: dict[str, str] = {}

    def __missing__(self, text: str) -> int:
        self[text] = value = self._number(text)
        return value

    def _number(self, text: str) -> int:
        if text.isdigit() and text.isascii() and len(text) < 10 and int(text):
            return int(text)
        plain = text.strip()
        if not plain:
            return BLANK
        try:
            return bounded(self._parse(plain, self._heading), plain, self._heading)
        except InfoptError as error:
            self.refused[text] = str(error)
            return BAD

    def trim(self, most: int) -> None:
        """Forget all where more than `most` are kept: a column may hold a different number in every row."""
        if len(self) > most:
            self.clear()
            self.refused.clear()


def grid(options: Mapping[str, str | None]) -> tuple[dict[str, list[str]], dict[str, list[int] | None]]:
    """Texts by key column and numbers by load column of a grid's options; a blank text or None for the default."""
    keys: dict[str, list[str]] = {}
    loads: dict[str, list[int] | None] = {}
    for column, text in options.items():
        option = f"--{OPTIONS.get(column, column.replace('_', '-'))}"
        if column in LOAD_COLUMNS:
            loads[column] = numbers(text, option, LOAD_COLUMNS[column]) if text else None
        elif not text:
            keys[column] = [""]
        elif column in COUNT_COLUMNS:
            keys[column] = [str(number) for number in numbers(text, option, parse_count)]
        else:
            keys[column] = values(text, option)
    return keys, loads


def values(text: str, option: str) -> list[str]:
    """Items of a comma list.

    >>> values("h100, h200", "--hw")
    ['h100', 'h200']
    """
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise InfoptError(f"{option} {text!r}: an item is empty; write for example 1,2,4")
    return list(dict.fromkeys(items))


def numbers(text: str, option: str, parse: Callable[[str, str], int]) -> list[int]:
    """Numbers of a comma list whose items may be ranges, ends included: a:b, a:b:step, or a:b:xFACTOR.

    >>> numbers("1,8:16:4,32:128:x2", "--batch", parse_count)
    [1, 8, 12, 16, 32, 64, 128]
    """
    found: dict[int, None] = {}
    for item in values(text, option):
        span = _range(item, option, parse)
        if len(span) + len(found) > MAX_VALUES:
            raise InfoptError(f"{option} {text!r} has more than {MAX_VALUES:,} values; give a step, such as 1:1000:10")
        found.update(dict.fromkeys(span))
    return list(found)


def _range(item: str, option: str, parse: Callable[[str, str], int]) -> Sequence[int]:
    parts = item.split(":")
    if len(parts) > 3:
        raise InfoptError(f"{option} {item!r} is not a range; write a:b, a:b:step or a:b:x2")
    first, last = (bounded(parse(part, option), part, option) for part in (parts[0], parts[min(1, len(parts) - 1)]))
    if last < first:
        raise InfoptError(f"{option} {item!r} ends before it starts; write the smaller number first")
    step = parts[2] if len(parts) == 3 else "1"
    if step[:1] not in ("x", "X"):
        return range(first, last + 1, parse(step, option))
    factor = parse_count(step[1:], option, minimum=2)
    powers = [first]
    while powers[-1] * factor <= last:
        powers.append(powers[-1] * factor)
    return powers
