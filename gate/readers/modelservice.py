"""Values of the llm-d modelservice chart: `decode` and `prefill`, each its own deployment of `modelArtifacts`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.addresses import served
from infopt.gate.engines import engine_of_image
from infopt.gate.found import Argument, Found, Hardware, argument_of
from infopt.gate.nodes import Node, Text, at, boolean, get, integer, mapping, text
from infopt.gate.readers.helm import Values, charts, rendered, rendered_all
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import Container, containers, items_of

ROLES = ("decode", "prefill")
# Resource keys of the chart's accelerator types (llm-d-modelservice@024c0f2 charts/llm-d-modelservice/values.yaml).
RESOURCES = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "google": "google.com/tpu",
    "intel-gaudi": "habana.ai/gaudi",
    "intel-i915": "gpu.intel.com/i915",
    "intel-xe": "gpu.intel.com/xe",
}
PARALLEL = (("tensor", "--tensor-parallel-size"), ("data", "--data-parallel-size"))


def recognises(document: Node) -> bool:
    """Whether the document is values of this chart."""
    return any(charts(document, _reads))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The containers of both roles; a role that is not created has none."""
    for chart in charts(document, _reads):
        for role in ROLES:
            section = mapping(chart.values.get(role))
            if section and boolean(section.get("create")) is not False:
                yield from _role(chart, role, section, outside)


def _reads(values: Mapping[str, Node]) -> bool:
    return isinstance(values.get("modelArtifacts"), dict) and any(isinstance(values.get(r), dict) for r in ROLES)


def _role(chart: Values, role: str, section: Mapping[str, Node], outside: Mapping[str, Text]) -> Iterator[Found]:
    pod = {**mapping(section.get("extraConfig")), **section}
    specs = [_container(node, chart) for node in items_of(section.get("containers"))]
    sizes = Sizes(mapping(section.get("parallelism")))
    for spec, container in zip(
        specs, containers({**pod, "containers": specs}, f"{chart.path}{role}", outside), strict=True
    ):
        commanded = text(spec.get("modelCommand")) or ""
        if commanded in ("vllmServe", "imageDefault"):
            yield _served(chart, role, section, container, commanded, sizes)
        else:
            made = found(container, _name(chart, role), "llm-d modelservice values", replicas=_replicas(section))
            yield replace(
                made,
                environment={**sizes.variables(), **made.environment},
                hardware=_hardware(chart, section, container, sizes),
                role=role,
            )


def _container(node: Node, chart: Values) -> dict[str, Node]:
    """A container with its strings rendered; the chart writes the command itself unless it is `custom`."""
    made: dict[str, Node] = dict(mapping(rendered_all(node, chart.values)))
    if text(made.get("modelCommand")) in ("vllmServe", "imageDefault"):
        made.pop("command", None)
    return made


class Sizes:
    """`parallelism` of a role: what is not said follows from the rest, as the chart has it."""

    def __init__(self, said: Mapping[str, Node]) -> None:
        self.said = said
        tensor, data, local, workers = (integer(said.get(k)) for k in ("tensor", "data", "dataLocal", "workers"))
        self.tensor = tensor or 1
        self.data = data or (local or 1) * ((workers or 1) if local else 1)
        self.local = local or (data // (workers or 1) if data else 1) or 1
        self.workers = workers or (self.data // self.local if data and local else 1) or 1

    def options(self, path: str) -> Iterator[Argument]:
        """--tensor-parallel-size and --data-parallel-size, which the chart writes where they are more than one."""
        for (key, option), size in zip(PARALLEL, (self.tensor, self.data), strict=True):
            place = text(self.said.get(key)) or next((t for t in self.said.values() if isinstance(t, Text)), None)
            if size > 1 and place is not None:
                yield argument_of(option, at(str(size), place.line, place.column), f"{path}.parallelism.{key}")

    def variables(self) -> dict[str, Text]:
        """Variables the chart sets in every container."""
        place = next((value for value in self.said.values() if isinstance(value, Text)), at("1", 1, 1))
        sizes = {"TP_SIZE": self.tensor, "DP_SIZE": self.data, "DP_SIZE_LOCAL": self.local}
        return {name: at(str(size), place.line, place.column) for name, size in sizes.items()}


def _served(
    chart: Values, role: str, section: Mapping[str, Node], container: Container, commanded: str, sizes: Sizes
) -> Found:
    """A container whose command the chart writes: `vllm serve` or the image's own, and the model."""
    artifacts = mapping(chart.values.get("modelArtifacts"))
    uri, name = (text(artifacts.get(key)) for key in ("uri", "name"))
    address = rendered(uri, chart.values) if uri is not None else name
    model, assumed = served(address, rendered(name, chart.values) if name is not None else None)
    engine = "vllm"
    if commanded == "imageDefault":
        known = engine_of_image(container.image) if container.image is not None else None
        engine = known[0] if known is not None else ""
    made = found(container, _name(chart, role), "llm-d modelservice values", replicas=_replicas(section))
    return replace(
        made,
        added=tuple(sizes.options(f"{chart.path}{role}")),
        environment={**sizes.variables(), **made.environment},
        model=model,
        engine=engine,
        hardware=_hardware(chart, section, container, sizes),
        role=role,
        assumed=assumed,
    )


def _name(chart: Values, role: str) -> str:
    given = text(chart.values.get("fullnameOverride")) or chart.chart
    return f"{given or 'llm-d-modelservice'}-{role}"


def _replicas(section: Mapping[str, Node]) -> int:
    replicas = integer(section.get("replicas"))
    return 1 if replicas is None else replicas


def _hardware(chart: Values, section: Mapping[str, Node], container: Container, sizes: Sizes) -> Hardware:
    """Devices a pod: as its limits say, else tensor x dataLocal of the accelerator's kind."""
    hardware = replace(container.hardware, replicas=_replicas(section), pods=_pods(chart, sizes))
    kind = text(get(section, "accelerator.type")) or text(get(chart.values, "accelerator.type"))
    types = mapping(section.get("acceleratorTypes"))
    labels = [text(value) for value in items_of(types.get("labelValues"))]
    label = text(types.get("labelKey"))
    if label and len(labels) == 1 and labels[0] is not None:
        hardware = replace(hardware, named=((str(label), labels[0]), *hardware.named))
    if kind is not None:
        hardware = replace(hardware, named=(*hardware.named, ("accelerator.type", kind)))
    if hardware.count is not None or str(kind) == "cpu":
        return hardware
    resource = text(get(chart.values, f"accelerator.resources.{kind}")) or RESOURCES.get(str(kind or "nvidia"), "")
    counted = text(get(section, "accelerator.count")) or text(sizes.said.get("tensor"))
    count = integer(get(section, "accelerator.count")) or sizes.tensor * sizes.local
    return replace(hardware, count=count, counted_at=counted, resource=str(resource or RESOURCES["nvidia"]))


def _pods(chart: Values, sizes: Sizes) -> int:
    return sizes.workers if boolean(chart.values.get("multinode")) else 1
