"""`docker run [options] image arguments` and its kin on a command line."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from infopt.frozen import dataclass
from infopt.gate.found import Argument, Hardware, Host
from infopt.gate.nodes import Text, at
from infopt.gate.readers.accelerators import listed, memory_bytes
from infopt.gate.shell import ASSIGNMENT
from infopt.units import whole_of

PROGRAMS = frozenset({"docker", "podman", "nerdctl", "nvidia-docker"})
BEFORE = frozenset({"sudo", "exec", "nohup", "time", "container"})
# Options without a value; every other one has one (docs.docker.com reference/cli/docker/container/run).
SWITCHES = frozenset(
    {
        "--detach",
        "--interactive",
        "--tty",
        "--rm",
        "--privileged",
        "--init",
        "--read-only",
        "--publish-all",
        "--no-healthcheck",
        "--quiet",
        "--oom-kill-disable",
        "--disable-content-trust",
        "--sig-proxy",
        "--help",
        "--replace",
        "--rmi",
        "--tls-verify",
    }
)
SHORT_SWITCHES = frozenset("ditPq")
VALUED = {"e": "--env", "m": "--memory", "w": "--workdir", "v": "--volume", "p": "--publish", "u": "--user"}


@dataclass(frozen=True, slots=True)
class Run:
    """What a container is started with.

    gpus  what `--gpus` or `--device` says
    amd   the device of AMD's driver is passed on: every GPU of the machine
    """

    image: Text
    arguments: tuple[Argument, ...]
    environment: Mapping[str, Text] = field(default_factory=dict)
    gpus: Text | None = None
    host: Host = Host()
    amd: bool = False

    @property
    def hardware(self) -> Hardware:
        """Devices, where `--gpus` counts them."""
        if self.gpus is None:
            return Hardware(resource="--device" if self.amd else "")
        plain = self.gpus.strip("\"'").removeprefix("count=")
        count = listed(self.gpus) if "device=" in plain else whole_of(plain)
        return Hardware(count=count, counted_at=self.gpus if count is not None else None, resource="--gpus")


def docker_run(words: Sequence[Argument]) -> Run | None:
    """The container a command line starts, None where it starts none."""
    start = _after_run([word.text for word in words])
    if start is None:
        return None
    options: list[tuple[str, Argument]] = []
    position = start
    while position < len(words) and words[position].text.startswith("-") and len(words[position].text) > 1:
        name, value, taken = _option(words, position)
        if value is not None:
            options.append((name, value))
        position += 1 + taken
    if position >= len(words):
        return None
    image = _text(words[position])
    amd = any(name == "--device" and value.text.startswith("/dev/kfd") for name, value in options)
    command, environment = _command(options, words[position + 1 :]), _environment(options)
    return Run(image, command, environment, _gpus(options), _host(options), amd)


def _after_run(line: Sequence[str]) -> int | None:
    start = 0
    while start < len(line) and (line[start] in BEFORE or (start and line[start] in ("-E", "-n"))):
        start += 1
    if start >= len(line) or line[start].rpartition("/")[2] not in PROGRAMS:
        return None
    rest = [word for word in line[start + 1 : start + 3] if word != "container"]
    return start + 1 + line[start + 1 : start + 3].index("run") + 1 if rest[:1] == ["run"] else None


def _option(words: Sequence[Argument], position: int) -> tuple[str, Argument | None, int]:
    """Name of an option, its value, and how many of the following words that took."""
    word = words[position]
    name, equals, value = word.text.partition("=")
    following = words[position + 1] if position + 1 < len(words) else None
    if word.text.startswith("--"):
        if equals:
            return name, Argument(value, word.line, word.column + len(name) + 1, word.path), 0
        return (name, None, 0) if name in SWITCHES else (name, following, 1)
    letters = word.text[1:]
    first = letters.lstrip("".join(SHORT_SWITCHES))[:1]
    if not first:
        return word.text, None, 0
    glued = letters.partition(first)[2].removeprefix("=")
    name = VALUED.get(first, f"-{first}")
    return (name, Argument(glued, word.line, word.column, word.path), 0) if glued else (name, following, 1)


def _text(word: Argument) -> Text:
    return at(word.text, word.line, word.column)


def _command(options: Sequence[tuple[str, Argument]], rest: Sequence[Argument]) -> tuple[Argument, ...]:
    entry = [value for name, value in options if name == "--entrypoint" and value.text]
    return (*entry[-1:], *rest)


def _environment(options: Sequence[tuple[str, Argument]]) -> dict[str, Text]:
    found: dict[str, Text] = {}
    for name, value in options:
        match = ASSIGNMENT.fullmatch(value.text) if name == "--env" else None
        if match is not None:
            found[match[1]] = at(match[3], value.line, value.column)
    return found


def _gpus(options: Sequence[tuple[str, Argument]]) -> Text | None:
    """`--gpus 2`, `--gpus device=0,1`, `--device nvidia.com/gpu=0`."""
    devices = []
    for name, value in options:
        if name == "--gpus":
            return _text(value)
        if name == "--device" and "/gpu=" in value.text:
            devices.append(value)
    if not devices:
        return None
    names = ",".join(value.text.partition("=")[2] for value in devices)
    return at(names if "all" in names else f"device={names}", devices[0].line, devices[0].column)


def _host(options: Sequence[tuple[str, Argument]]) -> Host:
    said = dict(options)
    memory, shm = said.get("--memory"), said.get("--shm-size")
    return Host(
        memory_bytes=memory_bytes(memory.text) if memory else None,
        memory_at=_text(memory) if memory else None,
        shm_bytes=memory_bytes(shm.text) if shm else None,
        shares_ipc="--ipc" in said and said["--ipc"].text == "host",
    )
