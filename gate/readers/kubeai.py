"""KubeAI: `Model` objects, and the catalogue of its models chart (`catalog.NAME`, switched on or not).

The controller writes `--model` from the address and the model's name, then `args`. A resource profile is a kind of
device, the number behind its colon how many; profiles of the same file come before those of the chart.
"""

from collections.abc import Iterator, Mapping
from functools import cache

from infopt.gate.addresses import model_name
from infopt.gate.engines import DATA
from infopt.gate.found import Found, Hardware, Host
from infopt.gate.nodes import Node, Text, at, get, integer, mapping, text
from infopt.gate.readers.helm import charts
from infopt.gate.readers.pods import DEVICE_RESOURCES, command_line, device_names, line_of, variables
from infopt.records import Record, read_yaml, validate_record

ENGINE_KEYS = frozenset({"url", "engine"})


class Profile(Record):
    """One unit of a resource profile; see data/kubeai.yaml."""

    device: str
    resource: str


class Chart(Record):
    """Profiles and engine names of the chart."""

    profiles: dict[str, Profile]
    engines: dict[str, str]
    source: str


@cache
def chart() -> Chart:
    """The chart's data."""
    return validate_record(Chart, read_yaml(DATA / "kubeai.yaml"), "kubeai.yaml")


def recognises(document: Node) -> bool:
    """Whether the document is a Model, or values of the models chart."""
    return _is_model(document) or any(charts(document, _reads))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The model of an object; every model of a catalogue, enabled or not."""
    if _is_model(document):
        spec = mapping(get(document, "spec"))
        yield _found(str(text(get(document, "metadata.name")) or "Model"), spec, "spec", "KubeAI Model", {})
        return
    for values in charts(document, _reads):
        for name, spec in mapping(values.values.get("catalog")).items():
            if isinstance(spec, dict) and set(spec) >= ENGINE_KEYS:
                path = f"{values.path}catalog.{name}"
                yield _found(str(name), spec, path, "KubeAI catalogue", mapping(document))


def _is_model(document: Node) -> bool:
    return str(get(document, "apiVersion")).startswith("kubeai.org/") and get(document, "kind") == "Model"


def _reads(values: Mapping[str, Node]) -> bool:
    return any(isinstance(s, dict) and set(s) >= ENGINE_KEYS for s in mapping(values.get("catalog")).values())


def _found(name: str, spec: Mapping[str, Node], path: str, form: str, values: Mapping[str, Node]) -> Found:
    environment = {str(key): value for key, value in mapping(spec.get("env")).items() if isinstance(value, Text)}
    listed, hidden = variables(spec, {})
    url = text(spec.get("url"))
    said = text(spec.get("resourceProfile"))
    profile, _, number = (said or "").partition(":")
    count = integer(at(number or "1", 1, 1))
    own = mapping(mapping(values.get("resourceProfiles")).get(profile))
    none = said is not None and profile in chart().profiles and not chart().profiles[profile].device and not own
    return Found(
        name=name,
        form=form,
        line=line_of(spec),
        image=text(spec.get("image")) or _image(spec, own, values),
        arguments=command_line({"args": spec.get("args")}, path),
        environment={**environment, **listed},
        model=at(model_name(url), url.line, url.column, url.style) if url is not None else None,
        engine=chart().engines.get(str(text(spec.get("engine"))), ""),
        hardware=Hardware()
        if said is None or none
        else _hardware(said, profile, count, own, integer(spec.get("replicas"))),
        # The controller mounts memory of the node at /dev/shm, without a limit.
        host=Host(shm_bytes=2**62, stated=True),
        missing=(
            *((f"variable {known}", "a secret or field of the cluster") for known in hidden),
            *((("GPU type", f"resourceProfile {said} has no accelerator: CPUs are not planned"),) if none else ()),
        ),
    )


def _image(spec: Mapping[str, Node], own: Mapping[str, Node], values: Mapping[str, Node]) -> Text | None:
    """The engine's image, where the same values say it: by the profile's name for it, else the default one."""
    images = mapping(get(values, f"modelServers.{text(spec.get('engine'))}.images"))
    return text(images.get(str(text(own.get("imageName"))))) or text(images.get("default"))


def _hardware(said: Text, profile: str, count: int | None, own: Mapping[str, Node], replicas: int | None) -> Hardware:
    groups = 1 if replicas is None else replicas
    for key, unit in mapping(own.get("limits")).items():
        if isinstance(key, Text) and DEVICE_RESOURCES.fullmatch(key) and count is not None:
            named = (*device_names(own), (f"resourceProfile {profile}", _at_profile(said, profile)))
            return Hardware((integer(unit) or 1) * count, said, str(key), named, replicas=groups)
    known = chart().profiles.get(profile)
    resource = known.resource if known is not None else "nvidia.com/gpu"
    device = known.device if known is not None else profile
    named = ((f"resourceProfile {profile}", _at_profile(said, device)),)
    return Hardware(count, said, resource, named, replicas=groups)


def _at_profile(said: Text, device: str) -> Text:
    return at(device, said.line, said.column, said.style)
