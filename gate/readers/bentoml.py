"""Argument files of BentoML's vLLM services: `args` with model_id, gpu_type, tp and the engine's own options."""

import json
from collections.abc import Iterator, Mapping

from infopt.gate.config_files import plain_value
from infopt.gate.found import Argument, Found, Hardware, argument_of
from infopt.gate.nodes import Node, Text, get, integer, items, mapping, text
from infopt.gate.readers.pods import variables

# Keys that stand for an option of the engine (bentoml/BentoVLLM service.py).
OPTIONS = {
    "tp": "--tensor-parallel-size",
    "max_model_len": "--max-model-len",
    "tool_parser": "--tool-call-parser",
    "reasoning_parser": "--reasoning-parser",
    "tokenizer_mode": "--tokenizer-mode",
}
JSON_OPTIONS = {"kv_transfer_config": "--kv-transfer-config"}


def recognises(document: Node) -> bool:
    """`args` that name a model, and a kind of device or a number of them."""
    args = mapping(get(document, "args"))
    return isinstance(args.get("model_id"), Text) and bool({"gpu_type", "tp", "cli_args"} & set(args))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The service the file configures; it takes one device a tensor-parallel rank."""
    args = mapping(get(document, "args"))
    tp, device, model = text(args.get("tp")), text(args.get("gpu_type")), text(args.get("model_id"))
    environment, _ = variables({"env": args.get("envs")}, outside)
    yield Found(
        name=str(text(args.get("name")) or model),
        form="BentoML",
        line=model.line if model is not None else 1,
        arguments=tuple(_own(args)),
        added=tuple(_options(args)),
        environment=environment,
        model=model,
        engine="vllm",
        hardware=Hardware(
            count=integer(tp) if tp is not None else 1,
            counted_at=tp,
            resource="tp",
            named=(("gpu_type", device),) if device is not None else (),
        ),
    )


def _own(args: Mapping[str, Node]) -> Iterator[Argument]:
    """Options written out as the engine takes them."""
    for position, word in enumerate(items(args.get("cli_args"))):
        if isinstance(word, Text):
            line, column = word.within(0)
            yield Argument(str(word), line, column, f"args.cli_args[{position}]")


def _options(args: Mapping[str, Node]) -> Iterator[Argument]:
    for key, flag in OPTIONS.items():
        value = args.get(key)
        if isinstance(value, Text):
            yield argument_of(flag, value, f"args.{key}")
    for key, flag in JSON_OPTIONS.items():
        value = args.get(key)
        first = next(iter(mapping(value)), None)
        if isinstance(first, Text):
            yield Argument(f"{flag}={json.dumps(plain_value(value))}", first.line, first.column, f"args.{key}")
