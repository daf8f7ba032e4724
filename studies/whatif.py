"""What if: a plan's neighbours in weights, cache, hardware and tensor parallelism, each as a program of its load.

Every neighbour that an engine can run is traced (studies/whatif_trace.py); of the others the reason is kept. pp and dp
stay, so the devices are tp x pp x dp. Measured points hold for the placement and lengths they were measured with: with
them only the batch is left open.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.catalogue import base_id, hardware_names, load_accelerator
from infopt.ledgers.links import NODE_DEVICES
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
    listed = {one.accelerator.id: one for one in others}
    own_id = hardware.accelerator.id
    devices = [hardware, *(() if fixed else (one for id, one in listed.items() if id != own_id))]
    alone = _alone(hardware, listed.get(own_id))
    own = build(model, hardware, request).scenario
    degrees = (own.tp,) if fixed or hardware.accelerator.processor else _degrees(model, own.tp, devices)
    places = []
    for (w, weight), (k, cache), (h, device), (t, tp) in product(*map(enumerate, (weights, kv, devices, degrees))):
        asked = _at_tp(replace(request, weights=weight.option, kv=cache.option), own.tp, tp)
        placed = alone if device.gpus not in (None, asked.gpus) else device
        places.append(Place(w, k, h, t, _traced(model, placed, asked)))
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
    most = max(device.accelerator.devices_per_node or NODE_DEVICES for device in devices)
    powers = (tp for tp in allowed_tensor_parallel(model, most) if tp & (tp - 1) == 0)
    return own, *(tp for tp in powers if tp != own)


def _alone(hardware: HardwareChoice, listed: HardwareChoice | None) -> HardwareChoice:
    """The device without the number it was named with; of an instance, which is priced as a whole, at its own price."""
    device = hardware.accelerator
    is_instance = hardware.usd_per_hour is not None or device.usd_per_hour is None
    if is_instance and base_id(device.id) in hardware_names():
        record = listed.accelerator if listed is not None else load_accelerator(device.id)
        data = {**device.data, **{name: datum for name, datum in record.data.items() if name == "usd_per_hour"}}
        device = replace(device, usd_per_hour=record.usd_per_hour, price_date=record.price_date, data=data)
    return replace(hardware, accelerator=device, gpus=None, usd_per_hour=None)


def _at_tp(request: Request, own_tp: int, tp: int) -> Request:
    """The request at another degree: pp and dp stay, experts are split as before."""
    ep = request.ep if request.ep in (None, 1) else tp if request.ep == own_tp else tp * request.dp
    return replace(request, gpus=tp * request.pp * request.dp, tp=tp, ep=ep)


def _traced(model: ModelProfile, device: HardwareChoice, request: Request) -> Traced | str:
    try:
        built = build(model, device, request)
        return traced_plan(built, device, request, own_constants(built.scenario, request))
    except InfoptError as error:
        return str(error)
