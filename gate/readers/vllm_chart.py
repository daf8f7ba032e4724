"""Values of vLLM's own chart (examples/online_serving/chart-helm), an image with its whole command, and of charts laid
out like it: an engine's image with `command`, or with `args` that name the model.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.engines import engine_of_image
from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, at, get, integer, items, mapping, text
from infopt.gate.readers.helm import Values, charts, rendered_all
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import containers, line_of
from infopt.gate.readers.production_stack import image_of

ARGUMENTS = ("args", "extraArgs")
MODEL = re.compile(r"(--model([-_](path|id))?|-m|-hf)(=.*)?|serve")


def recognises(document: Node) -> bool:
    """Whether the document is values with an image and its command."""
    return any(charts(document, _reads))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The one container."""
    for chart in charts(document, _reads):
        yield _found(chart, outside)


def _reads(values: Mapping[str, Node]) -> bool:
    repository = text(get(values, "image.repository"))
    if repository is None or not isinstance(values.get("resources"), dict):
        return False
    whole = isinstance(values.get("command"), list) and values["command"]
    beside = whole or any(_names_model(values.get(key)) for key in ARGUMENTS)
    return isinstance(get(values, "image.command"), list) or (bool(beside) and engine_of_image(repository) is not None)


def _names_model(words: Node) -> bool:
    """Whether a list of arguments says what is served: else keys beside it do, as charts of one's own have them."""
    return isinstance(words, list) and any(isinstance(word, Text) and MODEL.match(word) for word in words)


def _found(chart: Values, outside: Mapping[str, Text]) -> Found:
    values = mapping(rendered_all(dict(chart.values), chart.values))
    image = mapping(values.get("image"))
    container = {
        "name": at("vllm", line_of(image), 1),
        "image": image_of(image),
        "command": image.get("command") or values.get("command"),
        "args": next((values[key] for key in ARGUMENTS if values.get(key)), None),
        "env": image.get("env") or values.get("env"),
        "resources": values.get("resources"),
    }
    one = next(
        containers(
            {"containers": [container], "nodeSelector": values.get("nodeSelector")}, f"{chart.path}image", outside
        )
    )
    replicas = integer(values.get("replicaCount"))
    said = text(get(values, "fullnameOverride")) or text(values.get("serviceName")) or chart.chart
    made = found(one, str(said or "vllm"), "vllm chart values", replicas=1 if replicas is None else replicas)
    models = [word for word in items(values.get("gpuModels")) if isinstance(word, Text)]
    # The chart asks for nodes of any of them: several name no one kind.
    named = (("gpuModels", models[0]),) if len(models) == 1 else ()
    return replace(made, line=line_of(image), hardware=replace(made.hardware, named=(*named, *made.hardware.named)))
