"""Programs around an engine: which version of it their images hold, and which options of a line are theirs."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from infopt.gate.found import Argument
from infopt.records import Record, read_yaml, validate_record

DATA = Path(__file__).resolve().parent / "data"
DYNAMO = re.compile(r".*\bdynamo\.\w+")


class Own(Record):
    """Options of a wrapper by how they take values; see data/dynamo.yaml."""

    value: list[str]
    switch: list[str]
    prefix: list[str]


class Wrapper(Record):
    """A program around engines; see data/dynamo.yaml."""

    releases: dict[str, dict[str, str]]
    suffixes: list[str]
    options: dict[str, Own]
    source: str


@cache
def wrapper(name: str) -> Wrapper:
    """The data of a wrapper."""
    return validate_record(Wrapper, read_yaml(DATA / f"{name}.yaml"), f"{name}.yaml")


def bundled_version(name: str, engine: str, tag: str) -> str | None:
    """The engine's version in a wrapper's image, None for a tag that is no release.

    >>> bundled_version("dynamo", "vllm", "v1.1.1-cuda13"), bundled_version("dynamo", "vllm", "my-tag")
    ('0.19.0', None)
    """
    known = wrapper(name)
    plain = tag.removeprefix("v")
    for suffix in ("", *known.suffixes):
        if suffix and not plain.endswith(suffix):
            continue
        release = known.releases.get(plain.removesuffix(suffix))
        if release is not None:
            return release.get(engine)
    return None


def engines_words(program: str, engine: str, words: Sequence[Argument]) -> tuple[Argument, ...]:
    """The words of a line that are the engine's; a wrapper's own options are left out."""
    if not DYNAMO.fullmatch(program):
        return tuple(words)
    options = wrapper("dynamo").options
    return tuple(_left([options["all"], options[engine]] if engine in options else [options["all"]], words))


def _left(own: Sequence[Own], words: Sequence[Argument]) -> Iterator[Argument]:
    position = 0
    while position < len(words):
        taken = _taken(own, words[position:])
        if not taken:
            yield words[position]
        position += max(1, taken)


def _taken(own: Sequence[Own], words: Sequence[Argument]) -> int:
    """How many words an option of the wrapper's takes, 0 for a word that is not one."""
    name, equals, _ = words[0].text.partition("=")
    plain = name.replace("_", "-")
    follows = len(words) > 1 and not words[1].text.startswith("-") and not equals
    for one in own:
        if plain in one.switch or f"--{plain.removeprefix('--no-')}" in one.switch:
            return 1
        if plain in one.value or any(plain.startswith(prefix) for prefix in one.prefix):
            return 2 if follows else 1
    return 0
