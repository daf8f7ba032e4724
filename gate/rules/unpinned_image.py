"""An image without a version: what runs tomorrow is not what was checked today."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.engines import split_image
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument

FLOATING = frozenset({"", "latest", "nightly", "main", "stable", "edge"})


def check(case: Case) -> Iterator[Hit]:
    """No tag, or one that moves, and no digest."""
    image = case.deployment.found.image
    if image is None or "@" in image or case.deployment.version_said == "the file":
        return
    tag = split_image(image)[1]
    if tag in FLOATING:
        at = Argument(str(image), image.line, image.column, "image")
        yield Hit(f"image {image} is pinned to no version", at=at)


RULE = Rule(
    id="unpinned-image",
    summary="the engine's image has no version",
    severity="warning",
    why="Flags, defaults and memory change between versions; the next pull may not start.",
    remedy="A tag with a version, or a digest.",
    check=check,
)
