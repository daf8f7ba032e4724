"""Configurations of Ray Serve LLM's models: where an application's arguments hold them, and layouts of before.

Builders take `llm_configs`, `llm_config`, or one for `prefill_config` and `decode_config`; each is the configuration or
the path of its file (ray python/ray/llm/_internal/serve/core/ingress/builder.py, serving_patterns). RayLLM and
Anyscale's endpoints had `engine_config` and `scaling_config`, whose workers are the tensor parallel ranks, or
`tensor_parallelism.degree` and `max_request_context_length` (ray-llm models/README.md).
"""

from collections.abc import Iterator, Mapping

from infopt.errors import InfoptError
from infopt.gate.arguments import settings_of
from infopt.gate.nodes import Node, Text, at, documents, get, mapping, text
from infopt.gate.outside import placed_at
from infopt.gate.readers.companions import companion
from infopt.gate.readers.pods import items_of

ROLES = {"llm_config": "", "prefill_config": "prefill", "decode_config": "decode"}
ACCELERATOR = "accelerator_type:"
# Keys of before and the engine's own argument they stand for.
OPTIONS = {
    "tensor_parallelism.degree": "tensor_parallel_size",
    "scaling_config.num_workers": "tensor_parallel_size",
    "max_request_context_length": "max_model_len",
    "engine_config.max_total_tokens": "max_model_len",
}


def is_model(config: Node) -> bool:
    """Whether a mapping configures a model, today's way or RayLLM's."""
    plain = isinstance(get(config, "model_loading_config"), dict)
    return plain or (
        isinstance(get(config, "scaling_config"), dict) and get(config, "engine_config.model_id") is not None
    )


def configs(app: Node, outside: Mapping[str, Text]) -> Iterator[tuple[Node, str]]:
    """(configuration, role) of every model of an application; the path, where its file is not at hand."""
    arguments = get(app, "args")
    for one in items_of(get(arguments, "llm_configs")):
        yield _read(one, outside), ""
    for key, role in ROLES.items():
        one = get(arguments, key)
        if isinstance(one, (dict, Text)):
            yield _read(one, outside), role


def _read(config: Node, outside: Mapping[str, Text]) -> Node:
    """A configuration, or the file that a path names; every text of it stands where the path does."""
    found = companion(outside, str(config)) if isinstance(config, Text) else None
    if not isinstance(config, Text) or found is None:
        return config
    try:
        nodes = list(documents(found[1], found[0]))
    except InfoptError:
        return config
    return placed_at(nodes[0], config) if nodes and is_model(nodes[0]) else config


def today(config: Node) -> Node:
    """A configuration in today's keys; options that are given win over what other keys stand for."""
    made: dict[str, Node] = dict(mapping(config))
    older = mapping(made.get("engine_config"))
    own = _known(mapping(older.get("engine_kwargs"))) if older else mapping(made.get("engine_kwargs"))
    said = ((key, text(get(config, path))) for path, key in OPTIONS.items())
    given: dict[str, Node] = {
        at(key, value.line, value.column): value for key, value in said if value is not None and key not in own
    }
    made["engine_kwargs"] = {**given, **own}
    if older:
        loading = {"model_id": older.get("model_id"), "model_source": older.get("hf_model_id")}
        made["model_loading_config"] = {at(key, 1, 1): value for key, value in loading.items() if value is not None}
        made["llm_engine"] = older.get("type")
        made["accelerator_type"] = next(_accelerators(get(config, "scaling_config.resources_per_worker")), None)
    return made


def _known(options: Mapping[str, Node]) -> dict[str, Node]:
    """The options of before that vLLM has too: Anyscale's own engine took others as well."""
    known = settings_of("vllm")
    flags = known.flags if known is not None else {}
    return {key: value for key, value in options.items() if f"--{key.replace('_', '-')}" in flags}


def engine_name(config: Node) -> str:
    """The engine by its name or its class (`VLLMEngine`); vLLM unless told otherwise."""
    return (text(get(config, "llm_engine")) or "vLLM").lower().removesuffix("engine")


def _accelerators(resources: Node) -> Iterator[Text]:
    for key in mapping(resources):
        if isinstance(key, Text) and key.startswith(ACCELERATOR):
            yield at(key.removeprefix(ACCELERATOR), key.line, key.column)
