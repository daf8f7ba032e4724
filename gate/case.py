"""A deployment with its plan: the model, the devices and the ledgers, as far as the file and the policy tell them."""

import re
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError, UndeterminedError
from infopt.frozen import dataclass
from infopt.gate.deployment import DECISIVE, Confidence, Deployment, Unknown
from infopt.gate.engine_defaults import stand_in
from infopt.gate.least_memory import least_bytes
from infopt.gate.models import OPEN_METHODS, is_path, model_named, told_by_method
from infopt.gate.placing import (
    TAKES_ALL,
    Placement,
    asked_devices,
    context_of,
    granted_devices,
    on_processor,
    placement_of,
    spills,
)
from infopt.gate.policy import Policy
from infopt.gate.requests import planned
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.instances import find_family
from infopt.hardware.mig import PROFILE
from infopt.hardware.names import OF_THIS_MACHINE, resolve_hardware
from infopt.hardware.product_labels import device_of_product_label
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import Plan
from infopt.units import format_gib

SIZE = re.compile(r"-\d+gb\b")


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule looks at.

    model, device   None where nothing says them, with the reason among `unknown`
    needed          devices the settings ask for: tp x pp x dp
    granted         devices of one serving group; None where the file does not say
    plan            of one full-length request; None where something is not known or no engine runs it
    refused         why no engine runs the placement, where that is so
    assumed         what was taken for granted, for the report
    placed          degrees as the engine counts them
    shortened_from  the context that did not fit where the engine takes a shorter one by itself; the plan has that
    needs_bytes_per_gpu  memory each device must have at least, where only the kind of device is not known
    """

    deployment: Deployment
    policy: Policy
    model: ModelProfile | None
    device: HardwareChoice | None
    needed: int
    granted: int | None
    plan: Plan | None
    refused: str
    unknown: tuple[Unknown, ...]
    assumed: tuple[str, ...]
    placed: Placement
    shortened_from: int | None = None
    needs_bytes_per_gpu: int | None = None

    @property
    def sureness(self) -> Confidence:
        """`likely` where memory rests on an assumption: the smallest of a name's sizes, another engine's budget."""
        sizes = self.device is not None and _larger(self.device) is not None
        return "likely" if sizes or stand_in(self.deployment.engine) is not None else "certain"

    def value(self, name: str, default: Any = None) -> Any:
        """A setting of the deployment."""
        return self.deployment.value(name, default)

    def parameter(self, rule: str, name: str) -> Any:
        """A number of a rule: the policy's, else the rule's own default."""
        from infopt.gate.rules.registry import rule as known  # the registry imports the rules, which import this

        default = known(rule).parameters[name]
        said = self.policy.rules.get(rule)
        return default if said is None else said.parameters.get(name, default)


def case_of(deployment: Deployment, policy: Policy) -> Case:
    """The case of a deployment under a policy."""
    policy = policy.of(deployment.file, deployment.found.name)
    # A device given for this deployment settles what its file leaves open.
    unknown = [one for one in deployment.unknown if one.fact != "GPU type" or "gpu" not in deployment.given]
    assumed = [f"{fact.replace('_', ' ')} {value}: {where}" for fact, (value, where) in deployment.given.items()]
    assumed += deployment.found.assumed
    model = _model(deployment, unknown, assumed)
    device = _device(deployment, policy, unknown, assumed)
    granted = granted_devices(deployment)
    if granted is None and device is not None and device.gpus is not None:
        granted = device.gpus * deployment.found.hardware.pods
    device = device and _measured(_shared(replace(device, gpus=None), deployment, assumed), deployment, assumed)
    made, refused, shortened, needs = None, "", None, None
    if model is not None and device is None and not on_processor(deployment):
        needs = _needed(deployment, model, unknown)
    if model is not None and device is not None and not _blocking(unknown):
        made, refused, shortened = _plan(deployment, model, device, granted, unknown, assumed)
    return Case(
        deployment=deployment,
        policy=policy,
        model=model,
        device=device,
        needed=needed_devices(deployment),
        granted=granted,
        plan=made,
        refused=refused,
        unknown=tuple({item.fact: item for item in reversed(unknown)}.values())[::-1],  # the first of each fact
        assumed=tuple(assumed),
        placed=placement_of(deployment),
        shortened_from=shortened,
        needs_bytes_per_gpu=needs,
    )


def needed_devices(deployment: Deployment) -> int:
    """Devices this file's pods must bring, as the engine counts them."""
    return asked_devices(deployment)


def _blocking(unknown: list[Unknown]) -> bool:
    return any(item.fact in ("engine", "model", "GPU type", "weights", *DECISIVE.values()) for item in unknown)


def _needed(deployment: Deployment, model: ModelProfile, unknown: list[Unknown]) -> int | None:
    """Memory of each device that would do, told with the missing kind of device; None where more is missing."""
    if _blocking([item for item in unknown if item.fact != "GPU type"]):
        return None
    least = least_bytes(deployment, model)
    if least is not None:
        told = f"needs at least {format_gib(least)} of memory on each device"
        unknown[:] = [
            replace(item, settle=f"{item.settle}; {told}") if item.fact == "GPU type" else item for item in unknown
        ]
    return least


def _model(deployment: Deployment, unknown: list[Unknown], assumed: list[str]) -> ModelProfile | None:
    name = deployment.model
    if name is None:
        unknown.append(Unknown("model", "--model, or deployments: in infopt.yaml"))
        return None
    given = "model" in deployment.given
    # A name of Ollama's library stands for a quantized file.
    if deployment.engine == "ollama" and not given and ":" in name and "/" not in name:
        name = name if name.startswith("ollama:") else f"ollama:{name}"
    try:
        named = model_named(name, given=given)
        method = "" if given else str(deployment.value("quantization") or "").lower()
        named = told_by_method(named, name, method)
    except InfoptError as error:
        unknown.append(Unknown("model", f"{error}"))
        return None
    assumed += named.assumed
    if method in OPEN_METHODS and named.model.quantization is None and is_path(name):
        unknown.append(Unknown("weights", f"{name} is a path, {method} has several formats: --model says which"))
    return named.model


def _device(
    deployment: Deployment, policy: Policy, unknown: list[Unknown], assumed: list[str]
) -> HardwareChoice | None:
    """The kind of device: what is given for this deployment, what the file names, the policy's for all."""
    if "gpu" in deployment.given:
        return replace(resolve_hardware(deployment.given["gpu"][0]), usd_per_hour=None)
    labels = [(key, label.split(",")[0].strip()) for key, label in deployment.found.hardware.named]
    for key, label in labels:
        choice = _sliced(label, [other for _, other in labels if other != label]) or _labelled(label)
        if choice is None:
            continue
        if any(word in choice.resolved_as for word in ("also", "smaller", "smallest", "every")):
            assumed.append(f"{key} {label}: {choice.resolved_as}")
        return replace(choice, gpus=None, usd_per_hour=None)
    if policy.hardware is not None:
        choice = resolve_hardware(policy.hardware)
        assumed.append(f"GPU type {choice.accelerator.name or choice.accelerator.id}: given, not in the file")
        return replace(choice, gpus=None, usd_per_hour=None)
    named = ", ".join(f"{key} {label}" for key, label in deployment.found.hardware.named)
    why = f"{named} names no kind that is known; " if named else ""
    if on_processor(deployment):
        why = "it runs on the processor, whose memory is not planned; "
    if not any(item.fact == "GPU type" for item in unknown):
        unknown.append(Unknown("GPU type", f"{why}--gpu, or deployments: in infopt.yaml"))
    return None


def _measured(device: HardwareChoice, deployment: Deployment, assumed: list[str]) -> HardwareChoice:
    """The device with figures of a calibration given beside the file, where it is of such a device."""
    if "calibration" not in deployment.given:
        return device
    from infopt.hardware.calibrate import calibrated

    try:
        found = calibrated(device, deployment.given["calibration"][0])
    except InfoptError as error:
        assumed.append(f"rated figures of the device: {error}")
        return device
    assumed += found.accelerator.calibration_notes
    return found


def _shared(device: HardwareChoice, deployment: Deployment, assumed: list[str]) -> HardwareChoice:
    """The part of a device that a sharing scheduler gives a container: engines see no more than that."""
    hardware, whole = deployment.found.hardware, device.accelerator.usable_memory_bytes
    part = hardware.part_bytes or int((hardware.part_share or 1.0) * whole)
    if part >= whole:
        return device
    assumed.append(f"a device is shared: {format_gib(part)} of it are this container's")
    return replace(device, accelerator=replace(device.accelerator, usable_memory_bytes=part), others=())


def _sliced(label: str, others: list[str]) -> HardwareChoice | None:
    """The slice of a device: the resource key has its profile, another label the device it is cut from."""
    profile = PROFILE.search(label.lower())
    if profile is None:
        return None
    whole = (PROFILE.sub("", other.lower()).replace("mig", "") for other in others)
    return next(filter(None, (_labelled(f"{other.strip('-')}-{profile[1]}") for other in whole)), None)


def _labelled(label: str) -> HardwareChoice | None:
    """The device a label names: the driver's name of it, one people use, an instance type, the family of one."""
    exact = device_of_product_label(label)
    if exact is not None:
        return HardwareChoice(exact, None, exact.name)
    if label.lower() in OF_THIS_MACHINE:
        return None  # a file means the machine it will run on
    try:
        return resolve_hardware(label)
    except InfoptError:
        return find_family(label)


def _plan(
    deployment: Deployment,
    model: ModelProfile,
    device: HardwareChoice,
    granted: int | None,
    unknown: list[Unknown],
    assumed: list[str],
) -> tuple[Plan | None, str, int | None]:
    """The plan; why no engine runs it; the context that did not fit, where the engine takes a shorter one."""
    try:
        context = context_of(deployment, model)
        made = planned(deployment, model, device, context.tokens, assumed)
        longest = made.memory.max_context_tokens
        if made.fits is False and context.shortens and 0 < longest < made.scenario.context_tokens:
            return planned(deployment, model, device, longest, []), "", made.scenario.context_tokens
        if made.fits is False and _count_open(deployment, granted, unknown):
            settle = "one device does not hold it; what starts the engine says over how many it is split"
            unknown.append(Unknown("GPU count", settle))
            return None, "", None
        larger = _larger(device) if made.fits is False else None
        if larger is not None and planned(deployment, model, larger, context.tokens, []).fits is not False:
            smaller = device.accelerator
            # A name of two sizes is the smaller (issue 5): the verdict is that one's, and says what the larger does.
            told = f"{smaller.name or smaller.id} does not hold it, {larger.resolved_as} would: --gpu says which it is"
            assumed.append(told)
        return made, "", None
    except UndeterminedError as error:
        unknown.append(Unknown("memory", f"{error}"))
        return None, "", None
    except InfoptError as error:
        return None, str(error), None


def _larger(device: HardwareChoice) -> HardwareChoice | None:
    """The largest of the devices a label may mean, where the smallest was taken."""
    # A100 and V100 come in two sizes of one form; a form of its own size (H100 NVL) is written.
    form = SIZE.sub("", device.accelerator.id)
    others = [resolve_hardware(id) for id in device.others if SIZE.sub("", id) == form]
    largest = max(others, key=lambda other: other.accelerator.usable_memory_bytes, default=None)
    more = largest is not None and largest.accelerator.usable_memory_bytes > device.accelerator.usable_memory_bytes
    return largest if more else None


def _count_open(deployment: Deployment, granted: int | None, unknown: list[Unknown]) -> bool:
    """Whether the model may be split over more devices than this: nothing here says over how many."""
    if any(name in deployment.settings for name in ("tp", "pp", "dp")):
        return False
    # An engine that leaves layers on the CPU starts on one device too; a rule says how slow that is.
    takes_all = deployment.engine in TAKES_ALL and not spills(deployment)
    elsewhere = deployment.found.form.endswith(" options") or any(item.fact == "GPU count" for item in unknown)
    return (takes_all or elsewhere) and (granted is None or (elsewhere and granted > 1))
