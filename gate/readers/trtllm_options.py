"""TensorRT-LLM options in a YAML file alone (`trtllm-serve --config FILE`): parallel sizes, batch, cache; no model."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice

from infopt.gate.arguments import settings_of
from infopt.gate.config_files import keys_of
from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, mapping
from infopt.gate.readers.pods import line_of

ENGINE = "tensorrt-llm"
# Fewer known keys than this may be anybody's file.
LEAST_KEYS = 2
MOST_KEYS = 300


def recognises(document: Node) -> bool:
    """Whether a mapping has keys of the engine's, one of which no other engine has."""
    top = mapping(document)
    if "apiVersion" in top or not any(key in _keys()[2] for key in islice(top, MOST_KEYS)):
        return False
    known = [key for key, _ in keys_of(document, "") if key in _keys()[0]]
    return len(known) >= LEAST_KEYS and any(key in _keys()[1] for key in known)


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The options; what they serve, and on what, stands elsewhere."""
    options = tuple(keys_of(document, "options"))
    yield Found(name="options", form="TensorRT-LLM options", line=line_of(document), engine=ENGINE, options=options)


@cache
def _keys() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Keys that are read of the engine, those of them that vLLM's options files do not have, and how each begins."""
    known, other = settings_of(ENGINE), settings_of("vllm")
    keys = frozenset(known.keys) if known is not None else frozenset()
    flags = {flag.removeprefix("--").replace("-", "_") for flag in (other.flags if other is not None else ())}
    own = frozenset(key for key in keys if key.partition(".")[0] not in flags)
    return keys, own, frozenset(key.partition(".")[0] for key in keys)
