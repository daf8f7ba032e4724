"""OME ServingRuntime and ClusterServingRuntime: an engine's container, or a leader with workers, for models to come."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, at, get, integer, mapping, text
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import Container, containers

KINDS = frozenset({"ServingRuntime", "ClusterServingRuntime"})
GROUP = "ome.io/"
# Parts that serve, and their role where there are both; a router serves no model.
PARTS = {"engineConfig": "prefill", "decoderConfig": "decode"}
# How OME's own runtimes are named before the model: SGLang runtimes srt-, vLLM's vllm-.
PREFIXES = ("srt-", "vllm-", "sglang-", "trtllm-")
# The variable OME fills in with the place of the model.
PLACE = "MODEL_PATH"


def recognises(document: Node) -> bool:
    """Whether the object is a runtime of OME (KServe's have the same kinds in another group)."""
    return str(get(document, "apiVersion")).startswith(GROUP) and str(get(document, "kind")) in KINDS


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The engine, and the decoder where they are split."""
    name = text(get(document, "metadata.name")) or at(str(get(document, "kind")), 1, 1)
    spec = mapping(get(document, "spec"))
    split = all(isinstance(spec.get(part), dict) for part in PARTS)
    for part, role in PARTS.items():
        if not isinstance(spec.get(part), dict):
            continue
        pods, container = _serving(spec[part], f"spec.{part}", outside)
        if container is None:
            continue
        made = found(container, str(name), str(get(document, "kind")), pods=pods)
        made = replace(made, role=role if split else "")
        yield _with_model(made, name)


def _serving(part: Node, path: str, outside: Mapping[str, Text]) -> tuple[int, Container | None]:
    """Pods of one copy and the container that serves: the runner's, or the leader's of a group."""
    workers = integer(get(part, "worker.size"))
    leader = get(part, "leader")
    own, where = (leader, f"{path}.leader") if isinstance(leader, dict) else (part, path)
    if not isinstance(get(own, "runner"), dict):
        return 1, None
    pod = {**mapping(part), **mapping(own), "containers": [get(own, "runner")]}
    container = next(containers(pod, where, outside), None)
    pods = 1 + (1 if workers is None else workers) if isinstance(leader, dict) and "worker" in part else 1
    return pods, container


def _with_model(made: Found, name: Text) -> Found:
    """The place of the model by the name of the runtime; OME says at run time what it serves."""
    if PLACE in made.environment or not any(PLACE in argument.text for argument in made.arguments):
        return made
    plain = next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), str(name))
    said = f"$({PLACE}) is what OME gives the runtime: its own name is taken for the model's"
    environment = {**made.environment, PLACE: at(f"/{plain}", name.line, name.column)}
    return replace(made, environment=environment, assumed=(*made.assumed, said))
