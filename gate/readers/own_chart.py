"""Values of charts of somebody's own: an engine's image, a model's name, and options by their own names.

The chart's template is not in its values. Keys that are called as an option of the engine is (`maxModelLen`,
`gpu_memory_utilization`) are taken for it, and the report says so; where several devices are asked for and nothing says
how a model is split over them, the template may, and that stays open.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from infopt.gate.addresses import is_place, model_name
from infopt.gate.arguments import settings_of
from infopt.gate.config_files import arguments_of
from infopt.gate.engines import engine_of_image, engine_of_own_image, split_image
from infopt.gate.found import Argument, Found, Hardware, argument_of, switch_of
from infopt.gate.nodes import Node, Text, at, boolean, get, integer, items, mapping, text
from infopt.gate.placing import TAKES_ALL
from infopt.gate.readers.helm import charts, rendered_all
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import Container, containers, items_of, line_of
from infopt.gate.shell import split

# Sections of values that say something of the one server; "" is the whole.
SECTIONS = (
    *("", "model", "config", "configuration", "configuration.model", "vllm", "sglang", "llm", "engine", "server"),
    *("serving", "inference", "runtime", "worker", "apiServer", "gpu", "accelerator", "resources"),
)
# Keys by what is left of them without case, hyphen and underscore.
MODEL_KEYS = re.compile(r"(hf|huggingface|llm)?model(name|id|repo|reference)?|storageuri")
# Names of the model inside a section that is called `model`.
OF_MODEL = re.compile(r"name|id|repo(sitory|id)?|(hf|huggingface)id|path")
# Sections that may hold the image beside a model that stands above them; lists of models that share an image.
HOLDERS = ("deployment", "vllm", "sglang", "llm", "engine", "server", "serving", "inference", "runtime")
LISTS = ("models", "instances", "deployments")
ARGUMENT_KEYS = re.compile(r"(extra|additional|server|engine|launch|command|cmd|vllm|sglang)*args")
# Values laid over others leave the image out; arguments may be called after the engine that takes them.
NAMED_KEYS = re.compile(r"(vllm|sglang)(engine|extra|server)*args")
COUNT_KEYS = re.compile(r"(num)?gpus|gpu(count|limit|spernode)")
KIND_KEYS = re.compile(r"gpu(type|model|name|kind)|acceleratortype")
# The same inside a section that is called after devices.
OF_DEVICES = {
    "gpu": ("count", "type"),
    "accelerator": ("count", "type"),
    "resources": ("gpu", ""),
    "worker": ("gpu", ""),
}
# A blank tag is the version that the chart is of, as `helm create` lays templates out.
OF_CHART = "{{ .Chart.AppVersion }}"
SIZED = re.compile(r"--(tp|pp|dp|(tp|pp|dp)[-_]size|(tensor|pipeline|data)[-_]parallel[-_]size)\b")
LEFT = frozenset({"secret", "config_file", "revision", "model", "model_file", "served_name", "load_format"})
# Parsers that take an option and its value as two words only.
TWO_WORDS = frozenset({"llama.cpp"})
BY_NAME = "keys of the chart are taken for the engine's options by their names: its template is elsewhere"
SPLIT = "several devices, and no size that says how the model is split over them: what the chart's template adds"


def recognises(document: Node) -> bool:
    """Whether the document is values with an engine's image and something that is served by it."""
    return any(charts(document, _reads))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The server of every chart, or each of those it lists."""
    for chart in charts(document, _reads):
        values = mapping(rendered_all(dict(chart.values), chart.values))
        for name, one in _servers(values):
            yield _found(one, name or chart.chart, chart.path, outside)


def _reads(values: Mapping[str, Node]) -> bool:
    return any(True for _ in _servers(values))


def _servers(values: Mapping[str, Node]) -> Iterator[tuple[str, Mapping[str, Node]]]:
    """(name, values) of each server: those listed, each laid over what they share, else the one of the whole."""
    listed: list[tuple[str, Node]] = []
    for key in LISTS:
        listed += [(str(name), one) for name, one in mapping(values.get(key)).items()]
        listed += [
            (str(text(get(one, "name")) or position), one) for position, one in enumerate(items_of(values.get(key)))
        ]
    shared = {key: value for key, value in values.items() if key not in LISTS}
    laid = [(name, {**shared, **one}) for name, one in listed if isinstance(one, dict)]
    laid = [(name, one) for name, one in laid if boolean(one.get("enabled")) is not False and _serves(one)]
    yield from laid
    if not laid and _serves(_brought_up(values)):
        yield "", _brought_up(values)


def _brought_up(values: Mapping[str, Node]) -> Mapping[str, Node]:
    """Values with those of the section that holds the image, where the model stands above it."""
    holders = (mapping(values.get(name)) for name in HOLDERS) if _image(values) is None else iter(())
    held = next((one for one in holders if _image(one) is not None and not _names_model(one)), None)
    return {**held, **values} if held is not None else values


def _names_model(values: Mapping[str, Node]) -> bool:
    return any(_is_model(section, key) for section, key, _ in _keys(values))


def _serves(values: Mapping[str, Node]) -> bool:
    engine, own = _engine(values)
    if not engine:
        return False
    words = any(True for _ in _words(values, engine))
    devices = _hardware(values, Hardware()).count is not None or isinstance(get(values, "resources.limits"), dict)
    # An image that is only called after an engine must have a model or arguments.
    return _names_model(values) or (words and _image(values) is not None) or (devices and not own)


def _engine(values: Mapping[str, Node]) -> tuple[str, bool]:
    """The engine of the image, else of a key for its arguments; whether it is only called after the engine."""
    image = _image(values)
    if image is None:
        named = (NAMED_KEYS.fullmatch(_plain(key)) for _, key, _ in _keys(values))
        return next((match[1] for match in named if match is not None), ""), True
    known, own = engine_of_image(image), engine_of_own_image(image)
    return (known[0], False) if known is not None else (own[0], True) if own is not None else ("", False)


def _image(values: Mapping[str, Node]) -> Text | None:
    image = values.get("image") or values.get("imageName")
    if isinstance(image, Text):
        tag = text(values.get("imageTag")) or text(values.get("imageVersion"))
        name = f"{split_image(image)[0]}:{tag}" if tag else str(image)
        return at(name, image.line, image.column) if image.strip() else None
    repository, tag = text(get(image, "repository")), text(get(image, "tag"))
    if not repository:
        return None
    return at(f"{repository}:{tag or OF_CHART}", repository.line, repository.column)


def _keys(values: Mapping[str, Node]) -> Iterator[tuple[str, Text, Node]]:
    """(section, key, value) of what stands in the sections."""
    for section in SECTIONS:
        for key, value in mapping(get(values, section) if section else values).items():
            if isinstance(key, Text):
                yield section.rpartition(".")[2], key, value


def _plain(key: str) -> str:
    """
    >>> _plain("hf_modelName")
    'hfmodelname'
    """
    return re.sub(r"[-_.]", "", key).lower()


def _flag(key: str) -> str:
    """
    >>> _flag("maxModelLen"), _flag("gpu_memory_utilization")
    ('--max-model-len', '--gpu-memory-utilization')
    """
    return "--" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).replace("_", "-").lower()


def _is_model(section: str, key: Text) -> bool:
    return (OF_MODEL if section == "model" else MODEL_KEYS).fullmatch(_plain(key)) is not None


def _found(values: Mapping[str, Node], name: str, path: str, outside: Mapping[str, Text]) -> Found:
    engine, own = _engine(values)
    image = _image(values)
    one = _container(values, image, path, outside)
    options = tuple(_options(values, engine, path))
    words = tuple(_words(values, engine))
    hardware = _hardware(values, one.hardware)
    replicas = integer(values.get("replicaCount")) if "replicaCount" in values else integer(values.get("replicas"))
    named = name or text(get(values, "fullnameOverride")) or engine
    made = found(one, str(named), "chart values", replicas=1 if replicas is None else replicas)
    sized = any(SIZED.match(argument.text) for argument in (*options, *words))
    many = (hardware.count or 1) > 1 and engine not in TAKES_ALL and not sized
    assumed = (f"{image} is taken for {engine}, by its name",) if own and image is not None else ()
    return replace(
        made,
        engine=engine,
        line=image.line if image is not None else made.line,
        added=(*options, *words),
        model=_model(values),
        hardware=replace(hardware, replicas=made.hardware.replicas),
        host=replace(made.host, stated=False),
        missing=(
            *made.missing,
            *((("tensor parallel", SPLIT),) if many else ()),
            *_laid_over(image, (*options, *words)),
        ),
        assumed=(*made.assumed, *assumed, *((BY_NAME,) if options else ())),
    )


def _laid_over(image: Text | None, arguments: Sequence[Argument]) -> Iterator[tuple[str, str]]:
    """What values without an image, which are laid over others, leave to those."""
    said = {argument.text.partition("=")[0].replace("_", "-") for argument in arguments}
    for option, fact in (("--max-model-len", "length limit"), ("--gpu-memory-utilization", "utilization")):
        if image is None and option not in said:
            yield fact, f"{option}: no image is named, so that these are laid over values that may say it"


def _container(values: Mapping[str, Node], image: Text | None, path: str, outside: Mapping[str, Text]) -> Container:
    container: dict[str, Node] = {
        "name": at("server", line_of(values), 1),
        "image": image,
        "env": [*items(values.get("env")), *items(values.get("extraEnv"))],
        "resources": values.get("resources"),
    }
    pod = {key: values.get(key) for key in ("nodeSelector", "affinity")} | {"containers": [container]}
    return next(containers(pod, path.rstrip("."), outside))


def _model(values: Mapping[str, Node]) -> Text | None:
    said = (value for section, key, value in _keys(values) if _is_model(section, key))
    names = [value for value in said if isinstance(value, Text) and value.strip()]
    return next((name for name in names if not is_place(model_name(name))), next(iter(names), None))


def _options(values: Mapping[str, Node], engine: str, path: str) -> Iterator[Argument]:
    """Options that keys are called after; a blank or a zero stands for the engine's own."""
    known = settings_of(engine)
    for section, key, value in _keys(values):
        read = known.flags.get(_flag(key)) if known is not None else None
        if read is None or read.setting in LEFT or not isinstance(value, Text) or value.strip() in ("", "0", "null"):
            continue
        if read.read != "switch" and engine in TWO_WORDS:
            flag = switch_of(_flag(key), value, f"{path}{section}.{key}")
            yield from (flag, replace(flag, text=str(value)))
        elif read.read != "switch":
            yield argument_of(_flag(key), value, f"{path}{section}.{key}")
        elif boolean(value):
            yield switch_of(_flag(key), value, f"{path}{section}.{key}")


def _words(values: Mapping[str, Node], engine: str) -> Iterator[Argument]:
    """Arguments that stand written out: a list, a line, or a mapping of options."""
    for section, key, value in _keys(values):
        if not ARGUMENT_KEYS.fullmatch(_plain(key)):
            continue
        if isinstance(value, dict):
            yield from arguments_of(engine, None, value, f"{section}.{key}")
            continue
        for word in items(value):
            if isinstance(word, Text) and word.strip():
                yield from _pieces(word, f"{section}.{key}")


def _pieces(word: Text, path: str) -> Iterator[Argument]:
    """`--option value` in one text is two words of the line it is put in."""
    several = word.lstrip().startswith("-") and " " in word.strip() and "{" not in word
    if not several:
        yield Argument(str(word), *word.within(0), path)
        return
    for piece in split(word):
        yield Argument(piece.text, *word.within(piece.offset), path)


def _hardware(values: Mapping[str, Node], own: Hardware) -> Hardware:
    """Devices by resources, else by a number of the chart's own; their kind by a selector, else by such a key."""
    count, kind = own.counted_at if own.count is not None else None, None
    for section, key, value in _keys(values):
        counts, kinds = OF_DEVICES.get(section, ("", ""))
        if isinstance(value, Text) and value.strip():
            if count is None and integer(value) is not None and (COUNT_KEYS.fullmatch(_plain(key)) or key == counts):
                count = value
            if kind is None and (KIND_KEYS.fullmatch(_plain(key)) or (kinds and key == kinds)):
                kind = value
    number = own.count if own.count is not None else integer(count)
    named = own.named or ((("gpu", kind),) if kind is not None else ())
    return replace(own, count=number or None, counted_at=count if number else None, named=named)
