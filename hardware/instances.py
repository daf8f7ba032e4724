"""Cloud instance types: which accelerators one holds, read by key from `data/instances/<cloud>.csv`.

Lines: instance,accelerator,gpus,vcpus,memory_gib,usd_per_hour,region,date,price_source,source; an empty cell is
unknown. `date` is the day the price list states, else the day it was read, as `price_source` says. A `source` that says
`recalled` was not read anywhere: the choice says so too.
"""

import os
import re
from dataclasses import replace
from functools import cache

from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, Datum, HardwareChoice
from infopt.hardware.catalogue import DATA, load_accelerator

INSTANCES = DATA / "instances"
_FAMILY = re.compile(r"([gp]\d[a-z]*)(?=[-._ ]|$)")


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance type of one cloud."""

    name: str
    cloud: str
    accelerator: str
    gpus: int
    vcpus: int | None
    memory_gib: float | None
    usd_per_hour: float | None
    region: str
    date: str
    price_source: str
    source: str


def find_instance(text: str) -> HardwareChoice | None:
    """The accelerators of instance type `text` (any case), with the whole instance's list price where one is known."""
    instance = read_instance(text)
    if instance is None:
        return None
    accelerator = _priced(load_accelerator(instance.accelerator), instance)
    price = f", {instance.usd_per_hour:g} $/h in {instance.region} ({instance.date})" if instance.usd_per_hour else ""
    doubt = ", recalled, not read" if "recalled" in instance.source else ""
    resolved_as = f"{instance.name} ({instance.cloud}) = {instance.gpus} x {accelerator.name}{doubt}{price}"
    return HardwareChoice(accelerator, instance.gpus, resolved_as, instance.usd_per_hour)


def read_instance(text: str) -> Instance | None:
    """The row of instance type `text`, also as SageMaker (`ml.`) and without Azure's `Standard_`; None if unlisted."""
    name = text.strip().lower().removeprefix("ml.")
    wanted = (f"{name},", f"standard_{name},")
    for cloud, lines in _files():
        for line in lines:
            if line.lower().startswith(wanted):
                return _instance(cloud, line)
    return None


def find_family(text: str) -> HardwareChoice | None:
    """The accelerator of a family of instance types, where every one of them holds the same: `g5`, `g5-gpu-pool`.

    A family stands first in the text, letters and a number and what may follow of the kind; None for anything else.
    """
    match = _FAMILY.match(text.strip().lower())
    kinds = _families().get(match[1], frozenset()) if match is not None else frozenset()
    if match is None or len(kinds) != 1:
        return None
    accelerator = load_accelerator(next(iter(kinds)))
    return HardwareChoice(accelerator, None, f"every {match[1]} instance has {accelerator.name or accelerator.id}")


@cache
def _families() -> dict[str, frozenset[str]]:
    """What the instances of each family hold."""
    found: dict[str, set[str]] = {}
    for _, lines in _files():
        for line in lines:
            name, accelerator = line.lower().split(",")[:2]
            if match := _FAMILY.match(name):
                found.setdefault(match[1], set()).add(accelerator)
    return {family: frozenset(kinds) for family, kinds in found.items()}


def _priced(accelerator: Accelerator, instance: Instance) -> Accelerator:
    """`accelerator` at this instance's price a device; another provider's price would be no answer here."""
    data = {name: datum for name, datum in accelerator.data.items() if name != "usd_per_hour"}
    if instance.usd_per_hour is None:
        return replace(accelerator, usd_per_hour=None, price_date=None, data=data)
    data["usd_per_hour"] = Datum("vendor", f"{instance.price_source}: {instance.name} in {instance.region}")
    usd = instance.usd_per_hour / instance.gpus
    return replace(accelerator, usd_per_hour=usd, price_date=instance.date, data=data)


def instance_names() -> tuple[str, ...]:
    """All instance types known."""
    return tuple(line.split(",", 1)[0] for _, lines in _files() for line in lines)


def _files() -> list[tuple[str, list[str]]]:
    """Each cloud and its lines, without the heading."""
    names = sorted(entry.name for entry in os.scandir(INSTANCES) if entry.name.endswith(".csv"))
    return [(name[:-4], (INSTANCES / name).read_text(encoding="utf-8").splitlines()[1:]) for name in names]


def _instance(cloud: str, line: str) -> Instance:
    name, accelerator, gpus, vcpus, memory, usd, region, date, price_source, source = line.split(",", 9)
    return Instance(
        name,
        cloud,
        accelerator,
        int(gpus),
        int(vcpus) if vcpus else None,
        float(memory) if memory else None,
        float(usd) if usd else None,
        region,
        date,
        price_source,
        source,
    )
