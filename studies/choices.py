"""Which hardware: the fewest devices of each common accelerator, in each weight format, that hold a model's load."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.scenario import Scenario
from infopt.profiles.formats import weight_bits_by_part
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import Plan, fewest_gpus, plan_built
from infopt.studies.scenarios import Built, Request, build

FORMATS = ("fp8", "int4")
RANKED_BY_PRICE = "price per hour"
RANKED_BY_DEVICES = "fewest devices, then the lowest step floor"


def choices(model: ModelProfile, request: Request, accelerators: Iterable[HardwareChoice]) -> list[Plan]:
    """The choices of hardware that hold the scenario, best first.

    For each accelerator and each weight format (as stored, then those with fewer bits; only the one asked for where
    `request.weights` names it) the fewest devices that hold it. Formats keep that order, since fewer bits can cost
    quality; within one format they are ordered by `ranking`.

    Raises InfoptError where the request itself is impossible.
    """
    devices = list(accelerators)
    ranked: list[Plan] = []
    for weights in weight_formats(model, request):
        found = [p for device in devices if (p := _choice(model, request, device, weights)) is not None]
        ranked += sorted(found, key=_order(found))
    return ranked


def weight_formats(model: ModelProfile, request: Request) -> tuple[str | None, ...]:
    """The formats worth comparing: the one asked for, or as stored and every common one that needs fewer bits."""
    if request.weights is not None:
        return (request.weights,)
    sizes = [_weight_bits(model, None)]
    formats: list[str | None] = [None]
    for name in FORMATS:
        bits = _weight_bits(model, name)
        if bits < 0.9 * sizes[-1]:
            formats.append(name)
            sizes.append(bits)
    return tuple(formats)


def ranking(plans: Sequence[Plan]) -> str:
    """How `choices` ordered these plans, in words."""
    return RANKED_BY_PRICE if all(plan.cost for plan in plans) else RANKED_BY_DEVICES


def native_compute(s: Scenario) -> bool:
    """Whether the device multiplies in the weights' own format rather than in 16 bits."""
    return s.weight_compute in s.accelerator.peak_flop_per_s


def _weight_bits(model: ModelProfile, weights: str | None) -> float:
    bits = weight_bits_by_part(model, weights)[1]
    return sum(count * bits[part] for part, count in model.params_by_part.items())


def _choice(model: ModelProfile, request: Request, device: HardwareChoice, weights: str | None) -> Plan | None:
    """The fewest devices of one kind, or the number that was asked for; None where it does not fit."""
    asked = replace(request, weights=weights)
    if request.gpus is not None or request.tp is not None:
        built: Built | None = build(model, device, asked)
    elif request.ep is not None:
        raise InfoptError("--ep without --hw: say over how many devices with --gpus or --tp")
    else:
        one = replace(asked, tp=1, gpus=request.pp * request.dp)
        built = fewest_gpus(build(model, device, one), device, asked)
    if built is None:
        return None
    found = plan_built(built, device, asked, explain_fit=False)
    return found if found.fits is not False else None


def _order(plans: Sequence[Plan]) -> Callable[[Plan], tuple[float, ...]]:
    """The sort key that `ranking` names."""
    by_price = ranking(plans) == RANKED_BY_PRICE

    def key(plan: Plan) -> tuple[float, ...]:
        price = plan.cost.usd_per_hour if by_price and plan.cost else 0.0
        return (price, plan.scenario.gpus, plan.bandwidth.step_floor_s)

    return key
