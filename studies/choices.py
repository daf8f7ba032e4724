"""Which hardware: the fewest devices of each common accelerator, in each weight format, that hold a model's load."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.profiles.formats import weight_bits_by_part
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import Plan, fewest_gpus, plan_built
from infopt.studies.scenarios import Built, Request, build

# Formats compared with the stored one, where they take clearly fewer bits.
FORMATS = ("fp8", "int4")
CLEARLY_FEWER = 0.9
MOST_DEVICES = 64
BY_PRICE = "price per hour, then the lowest step floor"
BY_DEVICES = "fewest devices, then the lowest step floor"


@dataclass(frozen=True, slots=True)
class Choices:
    """What `plan` without hardware found.

    plans          formats in the order of `weight_formats`; within one, best first
    stored_format  the format the weights are stored in
    refused        accelerators that hold it in no format on up to `limit` devices
    ranking        how plans of one format are ordered, in words
    """

    model: ModelProfile
    plans: tuple[Plan, ...]
    stored_format: str
    refused: tuple[str, ...]
    ranking: str
    limit: int = MOST_DEVICES

    def by_format(self) -> Iterator[tuple[str, list[Plan]]]:
        """The plans of each weight format, in order."""
        for weights, plans in groupby(self.plans, key=lambda plan: plan.scenario.weight_format):
            yield weights, list(plans)

    @property
    def fits(self) -> bool | None:
        """Whether any choice fits; None where the best that can be said is undetermined."""
        verdicts = {plan.fits for plan in self.plans}
        return True if True in verdicts else None if verdicts else False


def choices(model: ModelProfile, request: Request, accelerators: Iterable[HardwareChoice]) -> Choices:
    """The choices of hardware that hold the scenario, best first.

    For each accelerator and each weight format (as stored, then those with fewer bits; only the one asked for where
    `request.weights` names it) the fewest devices that hold it, or the number `request` gives. Formats keep that order,
    since fewer bits can cost quality. Within one, by price per hour where every price is known, else by devices.

    Raises InfoptError where the request itself is impossible.
    """
    devices = list(accelerators)
    found = [
        [plan for device in devices if (plan := _choice(model, request, device, weights)) is not None]
        for weights in weight_formats(model, request)
    ]
    plans = [plan for group in found for plan in group]
    priced = all(plan.cost for plan in plans)
    held = {plan.scenario.accelerator.id for plan in plans}
    return Choices(
        model=model,
        plans=tuple(plan for group in found for plan in sorted(group, key=_order(priced))),
        stored_format=weight_bits_by_part(model, None)[0],
        refused=tuple(device.accelerator.id for device in devices if device.accelerator.id not in held),
        ranking=BY_PRICE if priced else BY_DEVICES,
        limit=request.gpus or MOST_DEVICES,
    )


def weight_formats(model: ModelProfile, request: Request, common: Iterable[str] = FORMATS) -> tuple[str | None, ...]:
    """The formats worth comparing: the one asked for, or as stored (None) and every common one that takes less."""
    if request.weights is not None:
        return (request.weights,)
    formats: list[str | None] = [None]
    least = _weight_bits(model, None)
    for name in common:
        bits = _weight_bits(model, name)
        if bits < CLEARLY_FEWER * least:
            formats.append(name)
            least = bits
    return tuple(formats)


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
        built = fewest_gpus(build(model, device, one), device, asked, limit=MOST_DEVICES)
    if built is None:
        return None
    plan = plan_built(built, device, asked, explain_fit=False)
    return plan if plan.fits is not False else None


def _order(priced: bool) -> Callable[[Plan], tuple[float, ...]]:
    """The sort key of one format's plans."""

    def key(plan: Plan) -> tuple[float, ...]:
        first = plan.cost.usd_per_hour if priced and plan.cost else plan.scenario.gpus
        return (first, plan.bandwidth.step_floor_s)

    return key
