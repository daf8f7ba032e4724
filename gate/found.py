"""What a reader hands on: one serving container of a deployment as its file has it, before any engine's rules.

Everything keeps its place. What a form says by keys of its own (`tensorParallelSize: 4`) is handed on as the engine's
argument, so that what follows reads one language only.
"""

from collections.abc import Mapping
from dataclasses import field

from infopt.frozen import dataclass
from infopt.gate.nodes import Text

# The engine of a deployment whose engine another file must say: nothing of it is judged.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument as it stands: its text, and where.

    line, column  of its first character; path of the node that holds it ("spec.containers[0].args[3]")
    """

    text: str
    line: int
    column: int
    path: str


@dataclass(frozen=True, slots=True)
class Hardware:
    """Devices of one pod.

    count       devices, None where the file does not say; `counted_at` the text that says so
    resource    the key they are asked for by ("nvidia.com/gpu")
    named       texts that name the kind, the most telling first: (key, value)
    pods        of one group that serves together (LeaderWorkerSet size, worker pods, nodes)
    replicas    groups
    part_bytes  memory of a device that a sharing scheduler gives, None for all of it; `part_share` the same as a share
    """

    count: int | None = None
    counted_at: Text | None = None
    resource: str = ""
    named: tuple[tuple[str, Text], ...] = ()
    pods: int = 1
    replicas: int = 1
    part_bytes: int | None = None
    part_share: float | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """What the container has beside devices: bytes, None where the file does not say.

    shm_bytes  /dev/shm; None is the runtime's own 64 MiB unless `shares_ipc`
    stated     the file has the container itself: what it does not say of the host is not there
    """

    memory_bytes: int | None = None
    memory_at: Text | None = None
    shm_bytes: int | None = None
    shares_ipc: bool = False
    stated: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """One serving container.

    form       the reader that found it
    line       of the object
    arguments  words of the command line, program first; empty where a form has none
    added      arguments that keys of the form stand for
    model      what the form itself names as the model
    engine     what the form itself names as the engine, else it is read off the image and command
    version    of the engine, where the form says it outside the image
    role       prefill or decode of a split deployment, else ""
    missing    facts that are known to be elsewhere: (fact, where)
    assumed    what the reader took for granted, for the report
    options    keys of the engine's own options file, dotted, where the form is one
    mounts     where ConfigMaps lie in the container: (path, "map/" or "map/key")
    written    files that the script around it writes before: (path, text)
    """

    name: str
    form: str
    line: int
    image: Text | None = None
    arguments: tuple[Argument, ...] = ()
    added: tuple[Argument, ...] = ()
    environment: Mapping[str, Text] = field(default_factory=dict)
    model: Text | None = None
    engine: str = ""
    version: Text | None = None
    hardware: Hardware = Hardware()
    host: Host = Host()
    role: str = ""
    missing: tuple[tuple[str, str], ...] = ()
    assumed: tuple[str, ...] = ()
    options: tuple[tuple[str, Argument], ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()
    written: tuple[tuple[str, str], ...] = ()


def argument_of(flag: str, value: Text, path: str) -> Argument:
    """The argument a key of a form stands for."""
    return Argument(f"{flag}={value}", value.line, value.column, path)


def switch_of(flag: str, key: Text, path: str) -> Argument:
    """The option without a value that a key of a form stands for; it is found where the key's text is."""
    return Argument(flag, key.line, key.column, path)
