"""An image without a version: what runs tomorrow is not what was checked today."""

import re
from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.engines import split_image
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument

FLOATING = re.compile(r"|latest(-.*)?|(.*-)?(nightly|main|master|stable|edge|dev|rolling)|v?\d{1,2}")
# A day or a commit in a tag is one build, whatever stands beside it.
BUILD = re.compile(r"(?<!\d)20\d{6}|(?<![0-9a-z])(?=[a-f]*\d)[0-9a-f]{7,40}(?![0-9a-z])")
# The image itself has its version in its name: registries that build a repository for each.
VERSIONED = re.compile(r".*\d+[.-]\d+.*")


def check(case: Case) -> Iterator[Hit]:
    """No tag, or one that moves, and no digest."""
    image = case.deployment.found.image
    if image is None or "@sha256:" in image or case.deployment.version_said == "the file":
        return
    repository, tag = split_image(image)
    # What fills a variable or a bare name in (kustomize) says the version.
    if "$" in image or "{{" in image or (not tag and "/" not in image):
        return
    if (
        not FLOATING.fullmatch(tag)
        or BUILD.search(tag)
        or (not tag and VERSIONED.fullmatch(repository.rpartition("/")[2]))
    ):
        return
    how = f"tag {tag} moves" if tag else "it has no tag, which means latest"
    yield Hit(
        f"image {image} is pinned to no version: {how}",
        at=Argument(str(image), image.line, image.column, "image"),
        remedy=f"{repository}:<version>, or a digest (@sha256:...)",
    )


RULE = Rule(
    id="unpinned-image",
    summary="the engine's image has no version",
    severity="warning",
    why="Flags, defaults and memory change between versions; the next pull may not start.",
    remedy="A tag with a version, or a digest.",
    check=check,
    source="kubernetes.io/docs/concepts/containers/images; kserve/kserve pull 6037 and ai-dynamo/dynamo pull "
    "8693 (options gone)",
)
