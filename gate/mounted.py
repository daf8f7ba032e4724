"""Scripts that a container starts by their file: taken from the ConfigMap that lies there, of the same tree."""

import re
from collections.abc import Mapping
from dataclasses import replace

from infopt.gate.config_files import in_maps, maps_of_tree
from infopt.gate.engines import SHELLS
from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Text

# A line that starts a script file, alone or as the last thing a short script does.
STARTED = re.compile(
    r"^[ \t]*(?:exec[ \t]+|source[ \t]+|\.[ \t]+|(?:\S*/)?(?:ba|da|z|k)?sh[ \t]+)*(/\S+)[ \t]*$", re.MULTILINE
)


def with_script(found: Found, outside: Mapping[str, Text]) -> Found:
    """A container whose command is a file of a ConfigMap, with the script itself in its place."""
    words = found.arguments
    if not found.mounts or not words:
        return found
    path = _path(words)
    if path is None:
        return found
    held = in_maps(path, found.mounts, outside) or in_maps(path, found.mounts, maps_of_tree(outside))
    if held is None:
        return found
    content = held[1]
    line, column = content.within(0)
    shell = replace(words[0], text="sh")
    script = Argument(content, line, column, held[0])
    return replace(found, arguments=(shell, replace(shell, text="-c"), script))


def _path(words: tuple[Argument, ...]) -> str | None:
    """The file that is started: by the command itself, by a shell, or by a line of a shell's script."""
    texts = [word.text.strip() for word in words]
    if texts[0].startswith("/") and not SHELLS.fullmatch(texts[0]):
        return texts[0]
    if not SHELLS.fullmatch(texts[0]):
        return None
    rest = [text for text in texts[1:] if not text.startswith("-")]
    if not rest:
        return None
    if not any("c" in text for text in texts[1 : texts.index(rest[0])]):
        return rest[0] if rest[0].startswith("/") else None
    matches = STARTED.findall(words[texts.index(rest[0])].text)
    return matches[-1] if matches else None
