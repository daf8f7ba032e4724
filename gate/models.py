"""Which model a deployment's name means, by the name alone: nothing a deployment names is opened.

    org/name, name              the catalogue
    org/name-AWQ, -GPTQ-Int4    the catalogue's model in the format the name ends with
    /models/name, s3://a/name   the last part of the path
    oci://a/modelcar-name:1     the name, with versions written 3-1
    org/name-GGUF:Q4_K_M, a file name with a quantization, an Ollama tag
A re-host of another organisation counts as the model its name says; every such step is told.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.gate.engines import DATA
from infopt.profiles.catalogue import catalogue_entry, find_in_catalogue, load_catalogue_model, tokens_of
from infopt.profiles.formats import format_name, load_weight_format
from infopt.profiles.geometry import ModelProfile, Quantization
from infopt.profiles.model_names import check_text
from infopt.profiles.resolve import resolve_model
from infopt.records import read_yaml

SCHEMES = re.compile(r"[a-z0-9]+://")
HUBS = ("hf://", "huggingface://", "https://huggingface.co/")
SNAPSHOT = re.compile(r".*models--(?P<org>[^/]+?)--(?P<name>[^/]+)(/snapshots/[^/]*)?/?")
# Images that hold a model (KServe's modelcars): called after it, or tagged with it in a catalogue of them.
MODELCAR = re.compile(
    r"oci://.*/(?:modelcar-(?!catalog\b)(?P<name>[^/:@]+)(?:[:@].*)?|modelcar-catalog:(?P<tag>[^/:@]+))"
)
VERSION = re.compile(r"(?<![\d.])(\d)-(\d)(?=-)")
GGUF_QUANTIZATION = re.compile(r"[-._:](i?q\d_?\w*|b?f16|fp16|mxfp4)(?:-\d+-of-\d+)?(?:\.gguf)?$", re.IGNORECASE)
PLAIN = frozenset({"bf16", "fp16", "fp32"})
# Formats that `--quantization` says a checkpoint is in.
METHODS = {
    "awq": "int4_awq",
    "awq_marlin": "int4_awq",
    "gptq": "int4_gptq",
    "gptq_marlin": "int4_gptq",
    "marlin": "int4_gptq",
    "modelopt_fp4": "nvfp4",
}
# Methods of several formats: the checkpoint's own config says which.
OPEN_METHODS = frozenset({"compressed-tensors", "modelopt"})


@dataclass(frozen=True, slots=True)
class Named:
    """A model found by name, and what was taken for granted on the way."""

    model: ModelProfile
    assumed: tuple[str, ...] = ()


def model_named(text: str, given: bool = False) -> Named:
    """The model a name means; InfoptError where the catalogue has none of that name.

    given  the user gave the name beside the files: then it may be a path of this machine, and is read
    """
    if given:
        return Named(resolve_model(text))
    check_text(text)
    return _named(text)


@cache
def _named(text: str) -> Named:
    for candidate in _candidates(text):
        found = _found(candidate)
        if found is not None:
            return (
                found if candidate == text else replace(found, assumed=(f"{text} holds {found.model.id}, by its name",))
            )
    if is_path(text):
        raise InfoptError(f"{text} is a path: --model, or deployments: in infopt.yaml, says what it holds")
    raise InfoptError(
        f"{text} is not in the catalogue: --model, or deployments: in infopt.yaml, with a model's config.json"
    )


def is_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~")) or SCHEMES.match(text) is not None


def told_by_method(named: Named, text: str, method: str) -> Named:
    """A folder's model in the format that an option says: the name of a folder need not say how its weights are stored.

    >>> told_by_method(model_named("/models/llama-3.1-70b"), "/models/llama-3.1-70b", "awq").model.quantization.format
    'int4_awq'
    """
    weights = METHODS.get(method)
    if weights is None or named.model.quantization is not None or not is_path(text):
        return named
    told = f"{text} holds {weights} weights, by --quantization {method}"
    return Named(in_format(named.model, weights), (*named.assumed, told))


def _candidates(text: str) -> Iterator[str]:
    """What a name may mean: itself, the repository of a cache folder, the last parts of a path."""
    plain = text.strip().rstrip("/")
    for hub in HUBS:
        if plain.startswith(hub):
            yield plain.removeprefix(hub)
            return
    snapshot = SNAPSHOT.fullmatch(plain)
    if snapshot is not None:
        yield f"{snapshot['org']}/{snapshot['name']}"
        return
    if not is_path(plain):
        yield plain
        return
    car = MODELCAR.fullmatch(plain)
    if car is not None:
        name = car["name"] or car["tag"]
        yield from (name, VERSION.sub(r"\1.\2", name).replace("-quantized-w", "-quantized.w"))
        return
    parts = [part for part in SCHEMES.sub("", plain).split("/") if part]
    if len(parts) > 1:
        yield "/".join(parts[-2:])
    yield from reversed(parts[-2:])


def _found(name: str) -> Named | None:
    """The catalogue's model of a name, with the format the name ends with."""
    whole = _in_catalogue(name)
    if whole is not None:
        return Named(load_catalogue_model(whole))
    tagged = _tagged(name)
    if tagged is not None:
        return tagged
    base, weights = without_format(name)
    own = _in_catalogue(name.rpartition("/")[2]) if weights is not None else None
    if own is not None and _of_its_maker(own):
        return Named(load_catalogue_model(own), (f"{name} is {own}, by its name",))
    # Some makers end the names of their own unquantized checkpoints too.
    unquantized = (f"{base}-BF16",) if weights is not None else ()
    for candidate in dict.fromkeys((base, base.rpartition("/")[2], *unquantized)):
        found = _in_catalogue(candidate)
        if found is not None:
            model = load_catalogue_model(found)
            if weights is not None:
                model = in_format(model, weights)
            told = f" in {weights}" if weights is not None else ""
            return Named(model, (f"{name} is {found}{told}, by its name",))
    return None


def _of_its_maker(id: str) -> bool:
    """Whether a quantized checkpoint is the model's own maker's, whom others re-host."""
    base = catalogue_entry(id).base
    return base is not None and base.partition("/")[0] == id.partition("/")[0]


def _in_catalogue(name: str) -> str | None:
    """The id of a name; several, or one that merely begins alike, are none."""
    try:
        found = find_in_catalogue(name)
    except InfoptError:
        return None
    if found is None or "/" in name:
        return found
    numbers = [sorted(t for t in tokens_of(n) if t[0].isdigit()) for n in (name, found.rpartition("/")[2])]
    return found if numbers[0] == numbers[1] else None


def _tagged(name: str) -> Named | None:
    """Ollama tags and GGUF names, by the general reader; a name that is a path here is not looked at."""
    if not (":" in name or "gguf" in name.lower() or GGUF_QUANTIZATION.search(name)) or os.path.lexists(name):
        return None
    stem = re.sub(r"[-_.]gguf(?=$|:)", "", name, flags=re.IGNORECASE)
    quantization = GGUF_QUANTIZATION.search(name)
    base = GGUF_QUANTIZATION.sub("", stem).rpartition("/")[2]
    for candidate in (base, base.partition("_")[2]):
        found = _in_catalogue(candidate) if candidate and quantization else None
        if found is not None and quantization is not None:
            weights = format_name(quantization[1], "weights")
            return Named(
                in_format(load_catalogue_model(found), weights), (f"{name} is {found} in {weights}, by its name",)
            )
    if ":" not in name:
        return None
    try:
        model = resolve_model(name)
    except InfoptError:
        return _of_size(name, quantization[1]) if quantization is not None else None
    return Named(model, model.notes[-1:])


def _of_size(name: str, quantization: str) -> Named | None:
    """An Ollama tag of several words, by its first, a size: `deepseek-r1:32b-qwen-distill-q4_K_M`."""
    family, _, tag = name.rpartition(":")
    try:
        model, weights = resolve_model(f"{family}:{tag.partition('-')[0]}"), format_name(quantization, "weights")
    except InfoptError:
        return None
    return Named(in_format(model, weights), (f"{name} is {model.id} in {weights}, by its name",))


def without_format(name: str) -> tuple[str, str | None]:
    """A name without the format it ends with, and our name of that format.

    >>> without_format("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4")
    ('Qwen/Qwen2.5-72B-Instruct', 'int4_gptq')
    """
    found: list[str] = []
    plain = name
    while match := _ending(plain):
        plain = plain[: -len(match[0])]
        found.append(match[1])
    # The name of a method says more than a number of bits.
    return plain, next((w for w in found if "_" in w), found[0] if found else None)


def _ending(name: str) -> tuple[str, str] | None:
    """The longest known ending of a name with its separator, and the format it says."""
    found = [
        (match[0], weights) for e, weights in _endings().items() if (match := re.search(rf"[-_.]{e}$", name, re.I))
    ]
    return max(found, key=lambda pair: len(pair[0]), default=None)


@cache
def _endings() -> dict[str, str]:
    endings: dict[str, str] = read_yaml(DATA / "name_endings.yaml")["weights"]
    return endings


def said_by_name(model: ModelProfile) -> bool:
    """Whether a quantization was read off a name: the checkpoint itself may be padded, or made otherwise."""
    if model.quantization is None or find_in_catalogue(model.id) != model.id:
        return False
    return load_catalogue_model(model.id).quantization != model.quantization


def in_format(model: ModelProfile, weights: str) -> ModelProfile:
    """The model stored in another format."""
    if weights in PLAIN:
        return replace(model, quantization=None, compute_dtype=weights, stored_bytes={})
    parts = frozenset(load_weight_format(weights).parts)
    return replace(model, quantization=Quantization(weights, parts), stored_bytes={})
