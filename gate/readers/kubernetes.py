"""Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, Pod and LeaderWorkerSet."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.engines import call, engine_of_image, engine_of_own_image
from infopt.gate.environment import expanded
from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, at, get, integer, items, mapping, text
from infopt.gate.readers.pods import Container, containers, handed_on, items_of, variables
from infopt.gate.readers.scripts import pulled

TEMPLATES = {
    "Deployment": "spec.template.spec",
    "StatefulSet": "spec.template.spec",
    "ReplicaSet": "spec.template.spec",
    "DaemonSet": "spec.template.spec",
    "Job": "spec.template.spec",
    "CronJob": "spec.jobTemplate.spec.template.spec",
    "Pod": "spec",
}
GROUPED = "LeaderWorkerSet"
# What a pod of a split deployment does (llm-d's label).
ROLE_LABEL, ROLES = "llm-d.ai/role", ("prefill", "decode")


def recognises(document: Node) -> bool:
    """Whether the object is of a kind this reader knows."""
    return text(get(document, "apiVersion")) is not None and get(document, "kind") in (*TEMPLATES, GROUPED)


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every container of the object; which of them serves a model is decided later."""
    kind = str(get(document, "kind"))
    name = str(text(get(document, "metadata.name")) or kind)
    if kind == GROUPED:
        yield from _group(document, name, outside)
        return
    path = TEMPLATES[kind]
    replicas = integer(get(document, "spec.replicas"))
    labels = mapping(get(document, f"{path.removesuffix('spec')}metadata.labels"))
    role = str(text(labels.get(ROLE_LABEL)) or "")
    for container in containers(get(document, path), path, outside):
        made = found(container, name, kind, replicas=1 if replicas is None else replicas)
        yield _fetching(replace(made, role=role if role in ROLES else ""), mapping(get(document, path)))


def _fetching(made: Found, pod: Mapping[str, Node]) -> Found:
    """A server of Ollama with the model that a hook, a container before or one beside it pulls."""
    engine = engine_of_image(made.image) or engine_of_own_image(made.image) if made.image is not None else None
    if engine is None or engine[0] != "ollama":
        return made
    beside = [one for key in ("initContainers", "containers") for one in items_of(pod.get(key))]
    for one in beside:
        words = [
            *(word for key in ("command", "args") for word in items(get(one, key))),
            *items(get(one, "lifecycle.postStart.exec.command")),
        ]
        for said in (word for word in words if isinstance(word, Text)):
            model = pulled(expanded(said, {**variables(mapping(one), {})[0], **made.environment}), "ollama")
            if model is not None and "$" not in model:
                place = at(str(model), said.line, said.column, said.style)
                return replace(made, model=place, assumed=(*made.assumed, f"it serves {model}, which the pod pulls"))
    return made


def _group(document: Node, name: str, outside: Mapping[str, Text]) -> Iterator[Found]:
    """A group of pods that serve together: the leader's command; a selector may stand at the worker only."""
    path = "spec.leaderWorkerTemplate"
    pods = integer(get(document, f"{path}.size")) or 1
    replicas = integer(get(document, "spec.replicas"))
    leader, worker = (f"{path}.{role}Template.spec" for role in ("leader", "worker"))
    own = leader if isinstance(get(document, leader), dict) else worker
    workers = list(containers(get(document, worker), worker, outside))
    copies = 1 if replicas is None else replicas
    if own == leader and not any(
        call(found(one, name, GROUPED)) for one in containers(get(document, own), own, outside)
    ):
        # The leader is a proxy or only waits: each worker serves by itself, unless its options say that they are nodes.
        yield from (found(one, name, GROUPED, replicas=copies * max(1, pods - 1)) for one in workers)
    size = text(get(document, f"{path}.size"))
    for container in containers(get(document, own), own, outside):
        made = found(container, name, GROUPED, replicas=copies, pods=pods)
        if size is not None:
            # The controller tells every pod.
            made = replace(made, environment={"LWS_GROUP_SIZE": size, **made.environment})
        beside = next((w.hardware for w in workers if w.hardware.count is not None), None)
        if beside is not None and not made.hardware.named:
            made = replace(made, hardware=replace(made.hardware, named=beside.named))
        if beside is not None and made.hardware.count is None:
            # A leader without devices leads: the workers serve.
            only = replace(made.hardware, count=beside.count, counted_at=beside.counted_at, pods=max(1, pods - 1))
            made = replace(made, hardware=replace(only, resource=beside.resource))
        yield made


def found(container: Container, name: str, form: str, replicas: int = 1, pods: int = 1) -> Found:
    """A container as every form hands it on."""
    return Found(
        name=name,
        form=form,
        line=container.line,
        image=container.image,
        arguments=container.arguments,
        added=handed_on(container.arguments),
        environment=container.environment,
        hardware=replace(container.hardware, replicas=replicas, pods=pods),
        host=container.host,
        missing=tuple((f"variable {hidden}", "a secret or field of the cluster") for hidden in container.hidden),
        mounts=container.mounts,
    )
