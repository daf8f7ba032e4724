"""Ollama Modelfiles: FROM names the model, PARAMETER its context and what runs where."""

import re
from collections.abc import Iterator
from pathlib import Path

from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Text, at
from infopt.gate.readers.scripts import ollama_name

FORM = "Modelfile"
_LINE = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+(.*)")
_OWN = frozenset({"parameter", "template", "system", "adapter", "license", "message"})
# Parameters that bear on memory or speed (ollama docs/modelfile.mdx); sampling parameters do not.
PARAMETERS = frozenset({"num_ctx", "num_batch", "num_gpu", "num_thread", "num_keep", "draft_num_predict"})


def recognises(path: str, content: str) -> bool:
    """FROM first, with instructions that no Dockerfile has or a name that says so."""
    instructions = [word for word, _, _ in _instructions(content)]
    named = Path(path).name.lower().startswith("modelfile") or path.lower().endswith(".modelfile")
    return instructions[:1] == ["from"] and (named or bool(_OWN & set(instructions)))


def read(path: str, content: str) -> Iterator[Found]:
    """The model and its parameters; devices are those of the machine that runs it."""
    model: Text | None = None
    added: list[Argument] = []
    for word, rest, line in _instructions(content):
        if word == "from":
            model = ollama_name(at(rest.strip(), line, 1))
        elif word == "parameter":
            name, _, value = rest.strip().partition(" ")
            if name.lower() in PARAMETERS:
                flag = f"--{name.lower().replace('_', '-')}"
                added.append(Argument(f"{flag}={value.strip()}", line, 1, f"PARAMETER {name}"))
    if model is not None:
        name = Path(path).name if path != "-" else FORM
        yield Found(name=name, form=FORM, line=model.line, added=tuple(added), model=model, engine="ollama")


def _instructions(content: str) -> Iterator[tuple[str, str, int]]:
    """Instruction in small letters, what follows it, and its line; texts in three quotes are passed over."""
    inside = False
    for number, line in enumerate(content.splitlines(), start=1):
        if inside:
            inside = '"""' not in line
            continue
        match = _LINE.match(line)
        if match is None or line.lstrip().startswith("#"):
            continue
        yield match[1].lower(), match[2], number
        inside = match[2].count('"""') % 2 == 1
