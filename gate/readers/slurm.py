"""Slurm batch scripts: the devices, nodes and memory that `#SBATCH` lines ask for (slurm.schedmd.com/sbatch.html)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile

from infopt.frozen import dataclass
from infopt.gate.found import Found, Hardware, Host
from infopt.gate.nodes import Text, at
from infopt.gate.readers.accelerators import memory_bytes
from infopt.gate.readers.scripts import with_devices

_LINE = re.compile(r"^#SBATCH[ \t]+(.*)$", re.MULTILINE)
# Slurm takes quotes off; operators mean nothing here.
_WORD = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+")
_GRES = re.compile(r"(?:gres[:/])?gpu(?::(?P<kind>[A-Za-z][\w.-]*))?(?:[:=](?P<count>\d{1,4}))?")
_GPUS = re.compile(r"(?:(?P<kind>[A-Za-z][\w.-]*):)?(?P<count>\d{1,5})")
_COUNT = re.compile(r"(\d{1,6})(?:-\d{1,6})?")
# Commands that count the devices of a node where they run.
_COUNTING = re.compile(
    r"\$\(nvidia-smi[ \t]+(?:-L|--list-gpus|--query-gpu=\S{1,40}[ \t]+--format=csv,noheader)[ \t]*\|[ \t]*wc[ \t]+-l\)"
)
SHORT = {"-N": "--nodes", "-n": "--ntasks", "-G": "--gpus", "-C": "--constraint"}
MOST_LINES = 200


@dataclass(frozen=True, slots=True)
class Job:
    """What a batch script is given.

    gpus   of each node, None where the lines do not count them
    kinds  words that may name their kind, the most telling first: features a node must have, the type asked for
    """

    gpus: int | None
    counted_at: Text | None
    kinds: tuple[Text, ...]
    nodes: int
    host: Host

    @property
    def hardware(self) -> Hardware:
        named = tuple(("#SBATCH", kind) for kind in self.kinds)
        return Hardware(count=self.gpus, counted_at=self.counted_at, resource="#SBATCH", named=named, pods=self.nodes)

    @property
    def environment(self) -> dict[str, Text]:
        """Variables that Slurm sets from what is asked for."""
        place = self.counted_at or at("", 1, 1)
        said = {"SLURM_NNODES": self.nodes, "SLURM_JOB_NUM_NODES": self.nodes}
        if self.gpus is not None:
            said |= {"SLURM_GPUS_ON_NODE": self.gpus, "SLURM_GPUS_PER_NODE": self.gpus}
        return {name: at(str(value), place.line, place.column) for name, value in said.items()}


def job(content: str) -> Job | None:
    """What the `#SBATCH` lines of a script ask for, None where it has none; the last of several wins."""
    options = dict(_options(content))
    if not options:
        return None
    nodes = _number(options.get("--nodes")) or 1
    gpus, kind, where = _devices(options, nodes)
    memory = options.get("--mem")
    size = memory_bytes(memory if memory[-1:].isalpha() else f"{memory}m") if memory is not None else None
    kinds = (*_features(options.get("--constraint")), *((kind,) if kind is not None else ()))
    return Job(gpus, where, kinds, nodes, Host(memory_bytes=size or None, memory_at=memory if size else None))


def counted(content: str) -> str:
    """A batch script with the variable that Slurm sets, where the script has the devices counted."""
    return _COUNTING.sub("$SLURM_GPUS_ON_NODE", content)


def on_job(servers: list[Found], given: Job) -> Iterator[Found]:
    """The servers of a script on its job's devices; several share them in a way that is not known."""
    hardware = given.hardware if len(servers) == 1 else replace(given.hardware, count=None, counted_at=None)
    for found in servers:
        host = given.host if found.host == Host() else found.host
        yield replace(with_devices(found, hardware), host=host)


def _options(content: str) -> Iterator[tuple[str, Text]]:
    """`--name=value`, `--name value`, `-N 2`, `-N2` of the lines, by their long names."""
    for position, match in enumerate(_LINE.finditer(content)):
        if position >= MOST_LINES:
            return
        line = content.count("\n", 0, match.start()) + 1
        said = takewhile(lambda word: not word.startswith("#"), _WORD.findall(match[1]))
        words = [word.replace("'", "").replace('"', "") for word in said]
        for word, following in zip(words, [*words[1:], ""], strict=True):
            name, equals, value = word.partition("=")
            if not name.startswith("--"):
                name, equals, value = SHORT.get(word[:2], ""), word[2:], word[2:].removeprefix("=")
            if name and (given := value if equals else following):
                yield name, at(given, line, match.start(1) - match.start() + 1)


def _features(said: Text | None) -> Iterator[Text]:
    """Features that a node must have all of; of alternatives none is sure."""
    if said is not None and "|" not in said:
        yield from (at(word, said.line, said.column) for word in re.findall(r"[A-Za-z][\w.-]*", said))


def _number(said: Text | None) -> int | None:
    """A number, the least of a range."""
    match = _COUNT.fullmatch(said) if said is not None else None
    return int(match[1]) if match else None


def _devices(options: Mapping[str, Text], nodes: int) -> tuple[int | None, Text | None, Text | None]:
    """Devices of a node, their kind, and where they are counted."""
    tasks = _number(options.get("--ntasks-per-node")) or max(1, (_number(options.get("--ntasks")) or 1) // nodes)
    for name, share, times in (("--gres", 1, 1), ("--gpus-per-node", 1, 1), ("--gpus-per-task", 1, tasks),
                               ("--gpus", nodes, 1)):  # fmt: skip
        said = options.get(name)
        for one in said.split(",") if said is not None else []:
            match = _GRES.fullmatch(one) if name == "--gres" else _GPUS.fullmatch(one)
            if said is not None and match is not None:
                kind = at(match["kind"], said.line, said.column) if match["kind"] else None
                return max(1, int(match["count"] or 1) * times // share), kind, said
    return None, None, None
