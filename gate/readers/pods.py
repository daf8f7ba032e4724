"""Pod templates, which many forms hold: containers, devices, selectors, memory, variables."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.gate.found import Argument, Hardware, Host
from infopt.gate.nodes import Node, Text, boolean, get, integer, items, mapping, text
from infopt.gate.readers.claims import claimed
from infopt.hardware.instances import find_family
from infopt.hardware.names import OF_THIS_MACHINE, resolve_hardware

# Resource keys that ask for whole devices; MIG slices carry their kind in the key.
DEVICE_RESOURCES = re.compile(
    r"(nvidia\.com/(gpu|mig-.+|pgpu)|amd\.com/gpu|habana\.ai/gaudi|gpu\.intel\.com/.+|google\.com/tpu"
    r"|aws\.amazon\.com/neuron.*|huawei\.com/.+|gpu)"
)
# Labels that name the kind of device, the most telling first.
DEVICE_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.nvidia.com/model",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "machine.cluster.vke.volcengine.com/gpu-name",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "accelerator",
    "gpu-type",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "karpenter.sh/instance-type",
)
OWN_LABEL = re.compile(r"gpu|accelerator", re.IGNORECASE)
# A variable in command and args; a name may hold dots and hyphens.
REFERENCE = re.compile(r"(?<!\$)\$\(([A-Za-z_][\w.-]*)\)")
SHELLS = re.compile(r"(.*/)?(ba|da|z|k)?sh")
HANDS_ON, ITSELF = re.compile(r"\$(?:[@*]|\{[@*]\})"), re.compile(r"\$(?:0|\{0\})")
MOST_ROUNDS = 8
MOST_CHARACTERS = 100_000
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod with what the pod adds."""

    name: str
    line: int
    image: Text | None
    arguments: tuple[Argument, ...]
    environment: Mapping[str, Text]
    hidden: tuple[str, ...]
    hardware: Hardware
    host: Host
    mounts: tuple[tuple[str, str], ...] = ()


def containers(pod: Node, path: str, outside: Mapping[str, Text] | None = None) -> Iterator[Container]:
    """The containers of a pod spec; `outside` are variables of ConfigMaps by `name/key` and `name`."""
    spec = mapping(pod)
    around = {} if outside is None else outside
    named = device_names(spec)
    for position, node in enumerate(items_of(spec.get("containers"))):
        container = mapping(node)
        where = f"{path}.containers[{position}]"
        environment, hidden = variables(container, around)
        yield Container(
            name=str(text(container.get("name")) or f"container {position}"),
            line=line_of(container),
            image=text(container.get("image")),
            arguments=tuple(substituted(word, environment) for word in command_line(container, where)),
            environment=environment,
            hidden=hidden,
            hardware=_with_claims(devices(container, named), spec, container, around),
            host=host(spec, container),
            mounts=tuple(config_mounts(spec, container)),
        )


def _with_claims(
    asked: Hardware, pod: Mapping[str, Node], container: Mapping[str, Node], outside: Mapping[str, Text]
) -> Hardware:
    """Devices of a container that asks for none by count but takes some of the pod's claims."""
    names = {str(text(get(one, "name"))) for one in items_of(get(container, "resources.claims"))}
    if asked.count is not None or not names:
        return asked
    found = claimed([one for one in items_of(pod.get("resourceClaims")) if str(get(one, "name")) in names], outside)
    return asked if found is None else replace(found, named=(*found.named, *asked.named))


def items_of(node: Node) -> list[Node]:
    """The elements of a list node."""
    return node if isinstance(node, list) else []


def line_of(node: Node) -> int:
    """Line of the first key of a mapping, 1 where it has none."""
    first = next(iter(mapping(node)), None)
    return first.line if isinstance(first, Text) else 1


def command_line(container: Mapping[str, Node], path: str) -> tuple[Argument, ...]:
    """command and args as one line; a shell script stays one argument."""
    found: list[Argument] = []
    for key in ("command", "args"):
        node = container.get(key)
        for position, word in enumerate(items(node)):
            if isinstance(word, Text):
                where = f"{path}.{key}[{position}]" if isinstance(node, list) else f"{path}.{key}"
                line, column = word.within(0)
                found.append(Argument(word, line, column, where))
    return tuple(found)


def handed_on(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    """The words behind the script of `sh -c SCRIPT ...`, where the script hands them on as `$@`; the first is `$0`."""
    if not arguments or not SHELLS.fullmatch(arguments[0].text.strip()):
        return ()
    script = next((place for place, word in enumerate(arguments) if place and not word.text.startswith("-")), None)
    if script is None or not HANDS_ON.search(arguments[script].text):
        return ()
    return tuple(arguments[script + 1 if ITSELF.search(arguments[script].text) else script + 2 :])


def substituted(argument: Argument, environment: Mapping[str, Text]) -> Argument:
    """An argument with `$(NAME)` in place, as Kubernetes puts it there before any shell sees it; `$$(` stays."""
    made = argument.text
    for _ in range(MOST_ROUNDS):
        before, made = made, REFERENCE.sub(lambda match: environment.get(match[1], match[0]), made)
        if made == before:
            return argument if made == argument.text else replace(argument, text=made)
        if len(made) > MOST_CHARACTERS:
            return argument
    return argument


def variables(container: Mapping[str, Node], outside: Mapping[str, Text]) -> tuple[dict[str, Text], tuple[str, ...]]:
    """Variables with a value, and names of those whose value is elsewhere (secrets, fields)."""
    known: dict[str, Text] = {}
    hidden: list[str] = []
    for source in items_of(container.get("envFrom")):
        of = text(get(source, "configMapRef.name"))
        prefix = f"{of}/"
        if of is not None:
            known |= {key.removeprefix(prefix): value for key, value in outside.items() if key.startswith(prefix)}
    for entry in items_of(container.get("env")):
        name, value = text(get(entry, "name")), text(get(entry, "value"))
        if name is None:
            continue
        if value is None and (of := text(get(entry, "valueFrom.configMapKeyRef.name"))) is not None:
            value = outside.get(f"{of}/{text(get(entry, 'valueFrom.configMapKeyRef.key'))}")
        if value is None:
            hidden.append(str(name))
        else:
            known[str(name)] = value
    return known, tuple(hidden)


# project-hami.io docs, device-memory resources; volcano.sh vgpu
PART_MIB = ("nvidia.com/gpumem", "volcano.sh/vgpu-memory")
PART_PERCENT = "nvidia.com/gpumem-percentage"


def devices(container: Mapping[str, Node], named: tuple[tuple[str, Text], ...]) -> Hardware:
    """Devices a container asks for: limits first, then requests."""
    for kind in ("limits", "requests"):
        asked = mapping(get(container, f"resources.{kind}"))
        for key, value in asked.items():
            count = integer(value)
            if isinstance(key, Text) and DEVICE_RESOURCES.fullmatch(key) and count is not None:
                of_slice: tuple[tuple[str, Text], ...] = ((str(key), key),) if "mig-" in key else ()
                # A core is a part of the chip that selectors name.
                named = () if key.endswith("neuroncore") else named
                part, share = _part(asked)
                return Hardware(
                    count=count,
                    counted_at=value,
                    resource=str(key),
                    named=(*of_slice, *named),
                    part_bytes=part,
                    part_share=share,
                )
    return Hardware(named=named)


def _part(asked: Mapping[str, Node]) -> tuple[int | None, float | None]:
    """Memory of each device by schedulers that share one (HAMi, Volcano): MiB, or percent of it."""
    whole = next((n for key in PART_MIB if (n := integer(asked.get(key))) is not None), None)
    percent = integer(asked.get(PART_PERCENT))
    return (None if whole is None else whole * 2**20), (None if percent is None else percent / 100)


def device_names(pod: Mapping[str, Node]) -> tuple[tuple[str, Text], ...]:
    """What selectors and required affinities say of the kind of device, the most telling label first."""
    found: dict[str, Text] = {}
    for key, value in mapping(pod.get("nodeSelector")).items():
        if isinstance(value, Text):
            found[str(key)] = value
    terms = get(pod, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    for term in items_of(terms):
        for expression in items_of(get(term, "matchExpressions")):
            label, values = text(get(expression, "key")), items(get(expression, "values"))
            only = text(values[0]) if len(values) == 1 else None
            if label is not None and only is not None and get(expression, "operator") == "In":
                found.setdefault(str(label), only)
    known = tuple((label, found[label]) for label in DEVICE_LABELS if label in found)
    # A label of somebody's own may name the device; node groups are often called after the family of their instances.
    own = tuple((label, value) for label, value in found.items() if OWN_LABEL.search(label) and _is_device(value))
    return known or own or tuple((label, value) for label, value in found.items() if find_family(value) is not None)


def _is_device(value: str) -> bool:
    if value.lower() in OF_THIS_MACHINE:
        return False  # a file means the machine it will run on
    try:
        return resolve_hardware(value) is not None
    except InfoptError:
        return False


def host(pod: Mapping[str, Node], container: Mapping[str, Node]) -> Host:
    """Memory limit, /dev/shm and shared IPC of a container."""
    memory = text(get(container, "resources.limits.memory"))
    mounted = {
        str(text(get(mount, "name")))
        for mount in items_of(container.get("volumeMounts"))
        if get(mount, "mountPath") == "/dev/shm"
    }
    if container.get("image") is None and not mounted:
        # A patch: the mount stands in what it changes, and memory of a pod is mounted there.
        volumes = items_of(pod.get("volumes"))
        mounted = {str(text(get(volume, "name"))) for volume in volumes if get(volume, "emptyDir.medium") == "Memory"}
    shm: int | None = None
    for volume in items_of(pod.get("volumes")):
        if str(text(get(volume, "name"))) in mounted and isinstance(get(volume, "emptyDir"), dict):
            size = quantity_bytes(text(get(volume, "emptyDir.sizeLimit")))
            # Without a limit, memory of the node is the limit.
            shm = size if size is not None else 2**62
    return Host(
        memory_bytes=quantity_bytes(memory),
        memory_at=memory,
        shm_bytes=shm,
        shares_ipc=boolean(pod.get("hostIPC")) is True,
        stated=container.get("image") is not None,
    )


def config_mounts(pod: Mapping[str, Node], container: Mapping[str, Node]) -> Iterator[tuple[str, str]]:
    """Where ConfigMaps lie in a container: a folder and "map/", or a file and "map/key"."""
    volumes = {str(text(get(volume, "name"))): get(volume, "configMap") for volume in items_of(pod.get("volumes"))}
    for mount in items_of(container.get("volumeMounts")):
        path, source = text(get(mount, "mountPath")), volumes.get(str(text(get(mount, "name"))))
        name = text(get(source, "name"))
        if path is None or name is None:
            continue
        inner = text(get(mount, "subPath"))
        files = {str(get(item, "path")): str(get(item, "key")) for item in items_of(get(source, "items"))}
        if inner is not None:
            yield str(path), f"{name}/{files.get(inner, inner)}"
            continue
        yield from ((f"{path.rstrip('/')}/{file}", f"{name}/{key}") for file, key in files.items())
        yield str(path), f"{name}/"


def quantity_bytes(quantity: str | None) -> int | None:
    """Bytes of a Kubernetes quantity: 15Gi, 500M, 1073741824.

    >>> quantity_bytes("1.5Gi"), quantity_bytes("2G"), quantity_bytes("x")
    (1610612736, 2000000000, None)
    """
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)(Ki|Mi|Gi|Ti|[kKMGT]?)", (quantity or "").strip())
    if match is None:
        return None
    return int(float(match[1]) * (BINARY.get(match[2]) or DECIMAL[match[2]]))
