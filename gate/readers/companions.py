"""Files a deployment names beside itself: read only where they lie in its own tree, no link followed out of it."""

import os
from collections.abc import Mapping
from pathlib import Path

from infopt.gate.nodes import Text, at
from infopt.gate.outside import Outside
from infopt.gate.shell import ASSIGNMENT, split

MOST_BYTES = 1_000_000
MOST_VARIABLES = 2_000


def companion(outside: Mapping[str, Text], name: str) -> tuple[str, str] | None:
    """Path and text of a file that a document names; None where it is not in the tree or cannot be read.

    The tree is the working folder where the document lies in it, else the document's own folder.
    """
    here = outside.path if isinstance(outside, Outside) else ""
    if not here or here == "-" or "\0" in name or "$" in name:
        return None
    try:
        own = Path(os.path.realpath(here)).parent
        root = Path.cwd().resolve()
        root = root if own.is_relative_to(root) else own
        place = Path(os.path.realpath(own / name))
        if not place.is_relative_to(root) or not place.is_file() or place.stat().st_size > MOST_BYTES:
            return None
        return str(place), place.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def variables_in(content: str) -> dict[str, Text]:
    """The variables of an `.env` file; a value it takes from elsewhere stays open."""
    found: dict[str, Text] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        plain = line.strip().removeprefix("export ").strip()
        match = ASSIGNMENT.fullmatch(plain)
        if match is None or plain.startswith("#") or len(found) >= MOST_VARIABLES:
            continue
        value = match[3].strip()
        if value[:1] in ("'", '"'):
            words = split(value)
            value = words[0].text if words else ""
        else:
            value = value.partition(" #")[0].rstrip()
        found[match[1]] = at(value, number, 1)
    return found
