"""docker-compose files: every service, with `.env`, `env_file` and `extends` from files of the same tree.

`${NAME}` is filled from `.env` beside the file and from defaults; what neither says stays open, since whoever starts it
may have it in the environment. `$$` is a `$` that the container's own shell sees.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.errors import InfoptError
from infopt.gate.engines import call, engine_of_image
from infopt.gate.environment import expanded
from infopt.gate.found import Argument, Found, Hardware, Host
from infopt.gate.nodes import Node, Text, at, documents, get, integer, items, mapping, text
from infopt.gate.outside import Outside
from infopt.gate.readers.accelerators import listed, memory_bytes
from infopt.gate.readers.companions import companion, variables_in
from infopt.gate.readers.dockerfile import Built, built
from infopt.gate.readers.pods import items_of
from infopt.gate.readers.scripts import pulled, seen, servers_in
from infopt.gate.shell import ASSIGNMENT, split

MOST_EXTENDS = 8
MOST_SERVICES = 500
# Keys whose values are put together where a service extends another; of every other key the service's own wins.
JOINED = ("environment", "deploy")


def recognises(document: Node) -> bool:
    """A mapping of services, of which one at least has an image, a build or another it extends."""
    services = get(document, "services")
    if not isinstance(services, dict) or text(get(document, "apiVersion")) is not None:
        return False
    return any(isinstance(one, dict) and {"image", "build", "extends"} & set(one) for one in services.values())


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every service; which of them serves a model is decided later."""
    beside = companion(outside, ".env")
    known = {name: str(value) for name, value in variables_in(beside[1]).items()} if beside else {}
    for position, (name, service) in enumerate(mapping(get(document, "services")).items()):
        if position >= MOST_SERVICES:
            raise InfoptError(f"more than {MOST_SERVICES:,} services; split the file")
        if isinstance(service, dict):
            whole, lacking = _extended(service, document, outside, MOST_EXTENDS)
            yield from _service(name, whole, known, outside, lacking)


def _extended(
    service: Mapping[str, Node], document: Node, outside: Mapping[str, Text], depth: int
) -> tuple[dict[str, Node], tuple[tuple[str, str], ...]]:
    """A service with what it extends, and what of that is not in the tree."""
    said = service.get("extends")
    of = text(said) or text(get(said, "service"))
    if of is None:
        return dict(service), ()
    file = text(get(said, "file"))
    place = companion(outside, file) if file is not None else None
    if file is not None and place is not None:
        try:
            document, outside = next(documents(place[1], file), None), Outside({}, (), None, place[0])
        except InfoptError:
            place = None
    base = mapping(get(document, "services")).get(of)
    if depth == 0 or (file is not None and place is None) or not isinstance(base, dict) or base is service:
        return dict(service), ((f"service {of}", f"{file or 'this file'}, which the service extends"),)
    whole, lacking = _extended(base, document, outside, depth - 1)
    joined = {key: _joined(whole[key], service[key]) for key in JOINED if key in whole and key in service}
    return {**whole, **service, **joined}, lacking


def _joined(base: Node, own: Node) -> Node:
    """Two mappings or two lists of variables put together; what is the service's own comes later and wins."""
    if isinstance(base, dict) and isinstance(own, dict):
        return {**base, **own}
    pairs = [*variables_of(base), *variables_of(own)]
    return dict(pairs) if pairs else own


def _service(
    name: str,
    service: Mapping[str, Node],
    known: Mapping[str, str],
    outside: Mapping[str, Text],
    lacking: tuple[tuple[str, str], ...],
) -> Iterator[Found]:
    environment = _environment(service, known, outside)
    arguments = tuple(_command(service, known))
    image = text(service.get("image"))
    made_of = _built(service, known, outside)
    if made_of is not None and made_of.base is not None and engine_of_image(image or "") is None:
        entry, command = (text(service.get(key)) or items(service.get(key)) for key in ("entrypoint", "command"))
        own = () if entry else (*made_of.entrypoint, *(() if command else made_of.command))
        image, arguments = made_of.base, (*own, *arguments)
        environment = {**made_of.environment, **environment}
    made = Found(
        name=str(name),
        form="docker-compose",
        line=name.line if isinstance(name, Text) else 1,
        image=filled(image, known) if image is not None else None,
        arguments=arguments,
        environment=environment,
        hardware=replace(_devices(service, known), replicas=integer(get(service, "deploy.replicas")) or 1),
        host=_host(service, known),
        missing=lacking,
    )
    started = call(made)
    scripted = len(arguments) > 1 and "\n" in arguments[-1].text
    several = list(servers_in(arguments[-1], str(name), "docker-compose", environment)) if scripted else []
    if len(several) > 1:
        for one in several:
            yield replace(made, arguments=one.arguments, engine=one.engine, environment=one.environment)
        return
    model = pulled(arguments[-1].text, started.engine) if started is not None and arguments else None
    yield seen(replace(made, model=model))


def _built(service: Mapping[str, Node], known: Mapping[str, str], outside: Mapping[str, Text]) -> Built | None:
    """What the Dockerfile starts that a service is built by, where it lies in the tree."""
    build = service.get("build")
    folder = text(build) or text(get(build, "context"))
    if build is None:
        return None
    file = text(get(build, "dockerfile"))
    place = f"{filled(folder, known) if folder is not None else '.'}/{filled(file, known) if file else 'Dockerfile'}"
    beside = companion(outside, place)
    said = folder or file
    return built(beside[1]).at_place(said.line, said.column) if beside is not None and said is not None else None


def filled(value: Text, known: Mapping[str, str]) -> Text:
    """A text with Compose's variables in place."""
    if "$" not in value:
        return value
    whole = "$".join(expanded(part, known) for part in value.split("$$"))
    return at(whole, value.line, value.column, value.style)


def _command(service: Mapping[str, Node], known: Mapping[str, str]) -> Iterator[Argument]:
    """entrypoint, then command; a string is split as a shell would."""
    for key in ("entrypoint", "command"):
        node = service.get(key)
        if isinstance(node, Text):
            whole = filled(node, known)
            for word in split(whole.replace("\n", " ")):
                # Where a variable came before it, the place is that of the text as it was written.
                line, column = node.within(word.offset if whole == node else 0)
                yield Argument(word.text, line, column, key)
        for position, word in enumerate(items_of(node)):
            if isinstance(word, Text):
                line, column = word.within(0)
                yield Argument(str(filled(word, known)), line, column, f"{key}[{position}]")


def _environment(service: Mapping[str, Node], known: Mapping[str, str], outside: Mapping[str, Text]) -> dict[str, Text]:
    """Variables of env_file, then of environment; those without a value come from whoever starts it."""
    found: dict[str, Text] = {}
    files = service.get("env_file")
    for entry in items(files) if isinstance(files, Text | list) else [files]:
        file = text(entry) or text(get(entry, "path"))
        beside = companion(outside, file) if file is not None else None
        if beside is not None:
            found |= variables_in(beside[1])
    for key, value in variables_of(service.get("environment")):
        found[str(key)] = filled(value, known)
    return found


def variables_of(node: Node) -> Iterator[tuple[Text, Text]]:
    """Variables of a mapping or of a list of NAME=value."""
    for key, value in mapping(node).items():
        if isinstance(key, Text) and isinstance(value, Text):
            yield key, value
    for entry in items_of(node):
        match = ASSIGNMENT.fullmatch(entry) if isinstance(entry, Text) else None
        if match is not None:
            yield at(match[1], entry.line, entry.column), at(match[3], entry.line, entry.column, entry.style)


def _devices(service: Mapping[str, Node], known: Mapping[str, str]) -> Hardware:
    """Devices that are reserved; `all` is as many as the machine has."""
    reserved = items_of(get(service, "deploy.resources.reservations.devices"))
    gpus = service.get("gpus")
    for device in [*reserved, *(gpus if isinstance(gpus, list) else [])]:
        capable = [str(one) for one in items(get(device, "capabilities"))]
        if capable and not {"gpu", "nvidia", "compute"} & set(capable):
            continue
        ids = [one for one in items(get(device, "device_ids")) if isinstance(one, Text)]
        if ids:
            listing = filled(ids[0], known)
            several = len(ids) if len(ids) > 1 or "," not in listing else listed(listing)
            return Hardware(count=several, counted_at=ids[0], resource="devices")
        said = text(get(device, "count"))
        count = integer(filled(said, known)) if said is not None else None
        return Hardware(count=count, counted_at=said if count is not None else None, resource="devices")
    said = text(gpus)
    count = integer(filled(said, known)) if said is not None else None
    every = text(service.get("runtime")) == "nvidia" or any(
        "/dev/kfd" in str(one) for one in items(service.get("devices"))
    )
    resource = "gpus" if said else "devices" if every else ""
    return Hardware(count=count, counted_at=said if count is not None else None, resource=resource)


def _host(service: Mapping[str, Node], known: Mapping[str, str]) -> Host:
    memory = text(get(service, "deploy.resources.limits.memory")) or text(service.get("mem_limit"))
    shm = text(service.get("shm_size"))
    return Host(
        memory_bytes=memory_bytes(filled(memory, known)) if memory is not None else None,
        memory_at=memory,
        shm_bytes=memory_bytes(filled(shm, known)) if shm is not None else None,
        shares_ipc=text(service.get("ipc")) in ("host", "shareable"),
    )
