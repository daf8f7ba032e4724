"""A file of vLLM's or SGLang's options alone (`vllm serve --config FILE`): every key is an option of that engine."""

from collections.abc import Iterator, Mapping
from functools import cache

from infopt.gate.arguments import settings_of
from infopt.gate.config_files import arguments_of
from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, mapping, text
from infopt.profiles.flag_data import flag_table

ENGINES = ("vllm", "sglang")
MOST_KEYS = 300


def recognises(document: Node) -> bool:
    """Whether every key is an option of one engine in some version, and one of them could be nothing else's."""
    return engine_of(document) is not None


def engine_of(document: Node) -> str | None:
    """The engine whose options the keys are."""
    keys = [_flag(key) for key in mapping(document) if isinstance(key, Text)]
    if not keys or len(keys) > MOST_KEYS or text(mapping(document).get("apiVersion")) is not None:
        return None
    for engine in ENGINES:
        if all(key in _options(engine) for key in keys) and any(_telling(engine, key) for key in keys):
            return engine
    return None


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """What the file sets; model, devices and version are given where the engine is started."""
    engine = engine_of(document)
    first = next(iter(mapping(document)))
    if engine is not None and isinstance(first, Text):
        yield Found(
            name=f"{engine} options",
            form=f"{engine} options",
            line=first.line,
            arguments=tuple(arguments_of(engine, None, document, "")),
            engine=engine,
        )


def _flag(key: Text) -> str:
    return f"--{key.lstrip('-').partition('.')[0].replace('_', '-')}"


def _telling(engine: str, key: str) -> bool:
    """An option of several words that bears on memory or speed: `--max-model-len`, `--tp-size`."""
    known = settings_of(engine)
    plain = key.replace("--no-", "--")
    return known is not None and plain in known.flags and "-" in plain[2:]


@cache
def _options(engine: str) -> frozenset[str]:
    """Every spelling of every version that was read."""
    return frozenset(name.replace("_", "-") for options in flag_table(engine).options for name in options)
