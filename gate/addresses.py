"""What a form says of where a model is fetched from: the model's name where the address tells it.

hf://org/name, https://huggingface.co/org/name     the hub's name
.../models--org--name/snapshots/...                the hub's cache: the hub's name
pvc+hf://claim/path/org/name                       the hub's name behind a claim and a path
ollama://name:tag                                  ollama:name:tag, whose default is a quantization
ngc://org/name:version, modelscope://org/name      the name behind the scheme
pvc://, s3://, gs://, oci://, file://, /path       a place: what lies there is not said; kept as it is
"""

import re

from infopt.gate.nodes import Text, at

_HUB = re.compile(
    r"(?:(?:hf|huggingface)://(?:(?:www\.)?(?:huggingface\.co|hf\.co)/)?|https?://(?:www\.)?(?:huggingface\.co|hf\.co)/)"
    r"([\w.-]+/[\w.-]+)(?:[:@/?].*)?"
)
_CACHE = re.compile(r"(?:.*/)?models--([^/]+?)--([^/]+)(?:/.*)?")
_NAMED = ("ngc://", "modelscope://", "ms://")
_FOLDERS = ("/", "./", "../", "~")


def model_name(text: str) -> str:
    """The model by name where a text names one; a place stays the place it is.

    >>> model_name('hf://"Qwen/Qwen3-32B"'), model_name("pvc://claim/models/x"), model_name("ollama://gemma2:2b")
    ('Qwen/Qwen3-32B', 'pvc://claim/models/x', 'ollama:gemma2:2b')
    """
    plain = text.strip().replace('"', "").replace("'", "")
    if len(plain) > 1000:
        return plain
    if match := _CACHE.fullmatch(plain):
        return f"{match[1]}/{match[2]}"
    if plain.startswith("pvc+hf://"):
        return "/".join(plain.rstrip("/").split("/")[-2:])
    if plain.startswith("ollama://"):
        return f"ollama:{plain.removeprefix('ollama://')}"
    if plain.startswith(_NAMED):
        return plain.partition("://")[2]
    match = _HUB.fullmatch(plain)
    if match is not None:
        return match[1]
    return plain if is_place(plain) else plain.rstrip("/")


def is_place(name: str) -> bool:
    """Whether a text says where a model lies rather than which one it is.

    >>> is_place("/mnt/models"), is_place("s3://bucket/x"), is_place("Qwen/Qwen3-32B")
    (True, True, False)
    """
    return "://" in name or name.startswith(_FOLDERS) or name.strip() in ("", ".")


def served(address: Text | None, name: Text | None) -> tuple[Text | None, tuple[str, ...]]:
    """The model of a form that gives its address and the name it is served by, and what was taken for granted.

    A hub's address tells; of a place, a served name with an organization is taken for the model's.
    """
    if address is not None:
        said = model_name(address)
        if not is_place(said):
            return at(said, address.line, address.column, address.style), ()
        if name is not None and "/" in name and not is_place(name):
            return name, (f"{address} holds {name}, by the name it is served as",)
        return address, ()
    return name, ()
