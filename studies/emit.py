"""What a chosen deployment needs wherever it runs: image, arguments, devices, memory, volumes.

    shared memory of a machine  2 GiB a device where several work together, else none
    host memory asked for       8 GiB a process of a device, and the shared memory
    processors asked for        2, and one a device
    disk                        the checkpoint and a fifth more, at least 10 GiB
    time to start               10 minutes, and the checkpoint at 100 MB/s

These are requests, set by rule and not measured: raise them where the machines have more.
"""

import os
import re
from dataclasses import dataclass, replace
from math import ceil

from infopt.errors import InfoptError
from infopt.hardware.product_labels import SLICE, product_label, resource_name
from infopt.ledgers.links import NODE_DEVICES
from infopt.ledgers.scenario import Scenario
from infopt.profiles.engine_flags import EngineFlags, engine_flags
from infopt.profiles.engine_images import EngineImages, engine_images
from infopt.profiles.engines import version_key
from infopt.profiles.formats import weight_bits_by_part
from infopt.studies.commands import CONFIG_FILE, Command, serve_command
from infopt.studies.planning import Plan
from infopt.studies.search import Deployment

GIB = 2**30
SHM_GIB_PER_DEVICE = 2
HOST_GIB_PER_DEVICE = 8
DISK_SHARE, DISK_GIB_LEAST = 1.2, 10
START_S, LOAD_BYTES_PER_S = 600, 100e6
MODELS, CACHE, CONFIG = "/models", "/cache", f"/config/{CONFIG_FILE}"


@dataclass(frozen=True, slots=True)
class Launch:
    """One deployment, in no form yet.

    command     program in the image, before the model is named
    args        what follows: model, options, where it listens
    options     the options among `args` with their values (None where a flag stands alone), without those of listening
    config      text of the engine's configuration file, read at `CONFIG`; empty where there is none
    gpus        devices of one replica, spread evenly over its machines
    resource    what a container asks Kubernetes for
    product     label of the nodes that have the device; None where it is not known
    local       the model is a file or folder under `MODELS`, not a repository
    prefix_caching  whether the engine reuses prefixes as it was planned
    notes       what must be done by hand
    """

    name: str
    images: EngineImages
    tag: str
    version: str
    model: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    options: dict[str, str | None]
    config: str
    replicas: int
    gpus: int
    tp: int
    machines: int
    machine_devices: int
    resource: str
    product: str | None
    sliced: bool
    local: bool
    prefix_caching: bool
    shm_gib: int
    host_gib: int
    cpus: int
    disk_gib: int
    start_s: int
    notes: tuple[str, ...]

    @property
    def image(self) -> str:
        return f"{self.images.repository}:{self.tag}"

    @property
    def gpus_per_machine(self) -> int:
        return self.gpus // self.machines


def launch(d: Deployment, plan: Plan) -> Launch:
    """The deployment of a row; raises InfoptError where no image is known, or machines cannot be made of its stages."""
    s = plan.scenario
    images = _images(s)
    known, command = engine_flags(s.engine.engine), serve_command(s)
    named = command.words[known.start.index("{model}")]
    local = known.model_is_file or os.path.exists(named)
    model = f"{MODELS}/{os.path.basename(os.path.abspath(named))}" if local else named
    # A pod and a Compose file are of one node, also where links reach further.
    node = s.accelerator.devices_per_node or NODE_DEVICES
    machines = -(-s.gpus // node)
    each = s.gpus // machines
    _check_machines(s, machines)
    disk = _checkpoint_bytes(s)
    shm = SHM_GIB_PER_DEVICE * each if s.gpus > 1 else 0
    start, args = _words(known, command, images, model)
    product = product_label(s.accelerator.id)
    found = Launch(
        name=slug(f"{s.engine.engine}-{s.model.id.rpartition('/')[2]}", 50),
        images=images,
        tag=images.tag_of(s.engine_version),
        version=s.engine_version.lower().removeprefix("v"),
        model=model,
        command=start,
        args=(*args, *images.listen),
        options=options_of(args),
        config=command.config,
        replicas=d.replicas,
        gpus=s.gpus,
        tp=s.tp,
        machines=machines,
        machine_devices=node,
        resource=resource_name(s.accelerator.id),
        product=product,
        sliced=SLICE in s.accelerator.id,
        local=local,
        prefix_caching=_prefix_caching(s, images),
        shm_gib=shm,
        host_gib=HOST_GIB_PER_DEVICE * each + shm,
        cpus=2 + each,
        disk_gib=max(DISK_GIB_LEAST, ceil(disk * DISK_SHARE / GIB)),
        start_s=10 * ceil((START_S + disk / LOAD_BYTES_PER_S) / 10),
        notes=(),
    )
    return replace(found, notes=tuple(_notes(found, s, command)))


def _images(s: Scenario) -> EngineImages:
    images = engine_images(s.engine.engine)
    if s.accelerator.vendor != images.vendor:
        raise InfoptError(
            f"--emit: the known images of {images.engine} are for {images.vendor} devices, {s.accelerator.id} is of "
            f"{s.accelerator.vendor}; choose another row with --row"
        )
    return images


def _check_machines(s: Scenario, machines: int) -> None:
    """Several machines are written only where each holds whole pipeline stages; slices of a GPU never work together."""
    if SLICE in s.accelerator.id and s.gpus > 1:
        raise InfoptError(
            f"--emit: a replica of {s.gpus} slices ({s.accelerator.id}) cannot start, for slices have no link; choose "
            "a row of one device a replica with --row, or --max-gpus 1"
        )
    if machines > 1 and (s.dp > 1 or s.pp % machines or s.gpus % machines):
        raise InfoptError(
            f"--emit: a replica of {s.gpus} devices spans {machines} machines and is no pipeline over them (tp {s.tp}, "
            f"pp {s.pp}, dp {s.dp}); choose a row of one machine with --row, or start it by hand"
        )


def _words(
    known: EngineFlags, command: Command, images: EngineImages, model: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Program and arguments as they are in the container."""
    at = known.start.index("{model}")
    words = list(command.words)
    words[0], words[at] = images.program, model
    if command.config:
        words[-1] = CONFIG
    cut = at - 1 if known.start[at - 1].startswith("-") else at
    return tuple(words[:cut]), tuple(words[cut:])


def options_of(args: tuple[str, ...]) -> dict[str, str | None]:
    """Options with their values; None where a flag stands alone."""
    found: dict[str, str | None] = {}
    for word, after in zip(args, (*args[1:], "-"), strict=True):
        if word.startswith("-"):
            found[word] = None if after.startswith("-") else after
    return found


def _checkpoint_bytes(s: Scenario) -> float:
    """Bytes of the files that are loaded: a checkpoint as stored where the engine converts it."""
    converted = s.model.quantization is None and s.weight_format in engine_flags(s.engine.engine).converts
    bits = weight_bits_by_part(s.model, None)[1] if converted else s.weight_bits
    return sum(count * bits[part] for part, count in s.model.params_by_part.items()) / 8


def _prefix_caching(s: Scenario, images: EngineImages) -> bool:
    """On where the version has it on by itself and no recurrent state would take a second page for it."""
    if images.chart is None or version_key(s.engine_version) < version_key(images.chart.prefix_caching_since):
        return False
    return s.state_pages > 1 or not any(group.mixer.state for group in s.model.groups)


def _notes(found: Launch, s: Scenario, command: Command) -> list[str]:
    """What must be done by hand, and what was left open."""
    notes = [note for note in command.notes if "own multi-node start" not in note]
    if found.local:
        notes.append(f"{found.model}: put it into the volume or folder `models`")
    if found.sliced:
        notes.append(f"{found.resource}: the device plugin names slices like this with its strategy `mixed`")
    if s.text_only:
        notes.append("planned without vision and audio encoders: tell the engine not to load them")
    if found.product is None:
        notes.append(f"no node label of {s.accelerator.id} is known: add a node selector, or any GPU may be taken")
    return notes


def slug(text: str, longest: int) -> str:
    """A name as Kubernetes takes it: small letters, digits and dashes, a letter first.

    >>> slug("llama.cpp-Meta_Llama", 63)
    'llama-cpp-meta-llama'
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"m-{plain}")[:longest].strip("-")
