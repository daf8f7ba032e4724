"""What if: a plan's neighbours in weights, cache, hardware and tensor parallelism, each as a program of its load.

Every neighbour that an engine can run is traced (studies/whatif_trace.py); of the others the reason is kept. pp and dp
stay, so the devices are tp x pp x dp. Measured points hold for the placement and lengths they were measured with: with
them only the batch is left open.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.scenario import allowed_tensor_parallel
from infopt.ledgers.traced import Program
from infopt.profiles.formats import kv_format_name, weight_bits_by_part
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import own_constants
from infopt.studies.scenarios import Request, build
from infopt.studies.whatif_trace import Traced, given_lengths, traced_lengths, traced_plan

# Formats offered beside those asked for and stored: of servers, and of engines that read GGUF files.
WEIGHTS, KV = ("bf16", "fp8", "int4"), ("fp8",)
LOCAL_ENGINE, LOCAL_WEIGHTS, LOCAL_KV = "llama.cpp", ("q8_0", "q4_k_m"), ("q8_0",)
MOST_TP = 8  # in one machine, where a record does not say


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a control: the text an option takes, None where it is left out; what it comes to."""

    option: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """A neighbour by its place on the four axes: its program, or why no engine runs it."""

    weights: int
    kv: int
    hardware: int
    tp: int
    found: Traced | str


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What a reader may change, the first value of each axis being the plan's own.

    lengths  from the lengths that were given, which are its inputs beside the batch, to the load of a place
    fixed    only the batch may change: measured points hold for their lengths
    """

    lengths: Program
    fixed: bool
    weights: tuple[Choice, ...]
    kv: tuple[Choice, ...]
    hardware: tuple[HardwareChoice, ...]
    tp: tuple[int, ...]
    places: tuple[Place, ...]


def what_if(
    model: ModelProfile, hardware: HardwareChoice, request: Request, others: Iterable[HardwareChoice] = ()
) -> WhatIf:
    """The neighbours of a plan on its own hardware and on `others`."""
    local = request.engine == LOCAL_ENGINE
    fixed = bool(request.points)
    formats, caches = ((), ()) if fixed else (LOCAL_WEIGHTS, LOCAL_KV) if local else (WEIGHTS, KV)
    weights = _choices(lambda name: weight_bits_by_part(model, name)[0], request.weights, formats)
    kv = _choices(lambda name: kv_format_name(model, name), request.kv, caches)
    devices = [hardware, *(() if fixed else (one for one in others if one.accelerator.id != hardware.accelerator.id))]
    own = build(model, hardware, request).scenario
    degrees = (own.tp,) if fixed or hardware.accelerator.processor else _degrees(model, own.tp, devices)
    places = [
        Place(w, k, h, t, _traced(model, device, replace(request, weights=weight.option, kv=cache.option), own.tp, tp))
        for w, weight in enumerate(weights)
        for k, cache in enumerate(kv)
        for h, device in enumerate(devices)
        for t, tp in enumerate(degrees)
    ]
    lengths = traced_lengths(given_lengths(request))
    return WhatIf(lengths, fixed, weights, kv, tuple(devices), degrees, tuple(places))


def _choices(named: Callable[[str | None], str], asked: str | None, common: Sequence[str]) -> tuple[Choice, ...]:
    """The value asked for, what is there without one, and common ones, each format once."""
    found: dict[str, Choice] = {}
    for option in (asked, *((None, *common) if common else ())):
        found.setdefault(named(option), Choice(option, named(option)))
    return tuple(found.values())


def _degrees(model: ModelProfile, own: int, devices: Sequence[HardwareChoice]) -> tuple[int, ...]:
    """Powers of two that the model allows, up to the largest machine; the plan's own first."""
    most = max(device.accelerator.devices_per_node or MOST_TP for device in devices)
    powers = (tp for tp in allowed_tensor_parallel(model, most) if tp & (tp - 1) == 0)
    return own, *(tp for tp in powers if tp != own)


def _traced(model: ModelProfile, device: HardwareChoice, request: Request, own_tp: int, tp: int) -> Traced | str:
    gpus = tp * request.pp * request.dp
    # An instance is priced as a whole, and named with its devices: another number of them is no longer it.
    placed = device if device.gpus in (None, gpus) else replace(device, gpus=None, usd_per_hour=None)
    ep = request.ep if request.ep in (None, 1) else tp if request.ep == own_tp else tp * request.dp
    asked = replace(request, gpus=gpus, tp=tp, ep=ep)
    try:
        built = build(model, placed, asked)
        return traced_plan(built, placed, asked, own_constants(built.scenario, request))
    except InfoptError as error:
        return str(error)
