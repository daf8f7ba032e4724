"""The published container image of each engine version, and what a deployment must know of it."""

from functools import cache
from pathlib import Path

from pydantic import Field

from infopt.errors import InfoptError
from infopt.profiles.engines import version_key
from infopt.records import Record, load_record

FOLDER = Path(__file__).resolve().parent / "data" / "engine_images"


class Nodes(Record):
    """Options that start one replica on several machines; taken from version `since` on.

    count, rank, address  number of machines, which one this is, where the first one is
    worker                what all but the first are told beside
    """

    since: str
    count: str
    rank: str
    address: str
    worker: list[str]


class Chart(Record):
    """The Helm chart that serves this engine.

    keys                  option of the command line: the chart's own key; other options are passed on as they are
    prefix_caching_since  the version from which prefix caching is on by default: the chart always says on or off
    """

    name: str
    keys: dict[str, str]
    prefix_caching_since: str


class EngineImages(Record):
    """Images of one engine.

    vendor    whose devices they run on
    tag       pattern of the tag
    releases  versions that have an image
    program   what starts the engine in the image
    listen    options that make it answer other hosts
    port      where it answers
    health    path that answers once the model is loaded
    healthcheck  command inside the container that asks it
    """

    engine: str
    vendor: str
    repository: str
    tag: str
    releases: list[str]
    program: str
    listen: list[str]
    port: int
    health: str
    healthcheck: list[str]
    nodes: Nodes | None = None
    chart: Chart | None = None
    source: str = Field(min_length=1)

    def tag_of(self, version: str) -> str:
        """Tag of a release; raises InfoptError, with the nearest releases, where no image of it is known."""
        name = version.lower().removeprefix("v")
        if name in self.releases:
            return self.tag.format(version=name)
        later = [r for r in self.releases if version_key(r) >= version_key(version)]
        earlier = [r for r in self.releases if version_key(r) < version_key(version)]
        near = ", ".join([*earlier[-2:], *later[:2]])
        raise InfoptError(
            f"no container image of {self.engine} {version} is known; choose one that has one with --engine-version: "
            f"{near}"
        )


@cache
def engine_images(engine: str) -> EngineImages:
    """The images of an engine by its canonical name."""
    return load_record(EngineImages, FOLDER, engine, "engine", "see profiles/data/engine_images")
