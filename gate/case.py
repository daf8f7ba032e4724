"""A deployment with its plan: the model, the devices and the ledgers, as far as the file and the policy tell them."""

from dataclasses import replace
from functools import cache
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.gate.deployment import Deployment, Unknown
from infopt.gate.engines import DATA
from infopt.gate.policy import Policy
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.names import resolve_hardware
from infopt.profiles.catalogue import find_in_catalogue, load_catalogue_model
from infopt.profiles.engines import load_engine, version_key
from infopt.profiles.formats import format_name
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.resolve import resolve_model
from infopt.records import read_yaml
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Request

# Engines whose memory no record describes are planned by the record of another; the answer says so.
STAND_INS = {"tgi": ("vllm", "0.4.2")}


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule looks at.

    model, device   None where nothing says them, with the reason among `unknown`
    needed          devices the settings ask for: tp x pp x dp
    granted         devices of one serving group; None where the file does not say
    plan            of one full-length request; None where something is not known or no engine runs it
    refused         why no engine runs the placement, where that is so
    assumed         what was taken for granted, for the report
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
    unknown: list[Unknown] = list(deployment.unknown)
    assumed = [f"{fact.replace('_', ' ')} {value}: {where}" for fact, (value, where) in deployment.given.items()]
    model = _model(deployment, unknown, assumed)
    device = _device(deployment, policy, unknown, assumed)
    needed = needed_devices(deployment)
    hardware = deployment.found.hardware
    count = hardware.count if hardware.count is not None or device is None else device.gpus
    granted = None if count is None else count * hardware.pods
    device = device and replace(device, gpus=None)
    made, refused = None, ""
    if model is not None and device is not None and not _blocking(unknown):
        made, refused = _plan(deployment, model, device, needed, unknown, assumed)
    return Case(deployment, policy, model, device, needed, granted, made, refused, tuple(unknown), tuple(assumed))


def needed_devices(deployment: Deployment) -> int:
    """tp x pp x dp as the engine counts them; data parallel attention inside tp takes none."""
    tp, pp, dp = (int(deployment.value(name, 1) or 1) for name in ("tp", "pp", "dp"))
    if deployment.engine == "sglang" and deployment.value("attention_dp_in_tp"):
        dp = 1
    return max(1, tp * pp * dp * int(deployment.value("pcp", 1) or 1))


def _blocking(unknown: list[Unknown]) -> bool:
    return any(item.fact in ("model", "GPU type", "weights") for item in unknown)


def _model(deployment: Deployment, unknown: list[Unknown], assumed: list[str]) -> ModelProfile | None:
    name = deployment.model
    if name is None:
        unknown.append(Unknown("model", "--model, or deployments: in infopt.yaml"))
        return None
    try:
        if not name.startswith(("/", "./", "../", "s3://", "gs://", "pvc://", "file://")):
            return resolve_model(name)
        found = find_in_catalogue(name.rstrip("/").rpartition("/")[2])
        if found is not None:
            assumed.append(f"{name} holds {found}, by its name")
            return load_catalogue_model(found)
    except InfoptError as error:
        unknown.append(Unknown("model", f"{error}"))
        return None
    unknown.append(Unknown("model", f"{name} is a path: --model says what it holds"))
    return None


def _device(
    deployment: Deployment, policy: Policy, unknown: list[Unknown], assumed: list[str]
) -> HardwareChoice | None:
    """The kind of device: what is given for this deployment, what the file names, the policy's for all."""
    if "gpu" in deployment.given:
        return replace(resolve_hardware(deployment.given["gpu"][0]), usd_per_hour=None)
    for key, label in deployment.found.hardware.named:
        try:
            choice = resolve_hardware(label.split(",")[0].strip())
        except InfoptError:
            continue
        if "also" in choice.resolved_as or "smaller" in choice.resolved_as or "smallest" in choice.resolved_as:
            assumed.append(f"{key} {label}: {choice.resolved_as}")
        return replace(choice, gpus=None, usd_per_hour=None)
    if policy.hardware is not None:
        choice = resolve_hardware(policy.hardware)
        assumed.append(f"GPU type {choice.accelerator.name or choice.accelerator.id}: given, not in the file")
        return replace(choice, gpus=None, usd_per_hour=None)
    named = ", ".join(f"{key} {label}" for key, label in deployment.found.hardware.named)
    why = f"{named} names no size; " if named else ""
    unknown.append(Unknown("GPU type", f"{why}--gpu, or deployments: in infopt.yaml"))
    return None


def _plan(
    deployment: Deployment,
    model: ModelProfile,
    device: HardwareChoice,
    needed: int,
    unknown: list[Unknown],
    assumed: list[str],
) -> tuple[Plan | None, str]:
    try:
        request = _request(deployment, model, needed, assumed)
        return plan(model, device, request), ""
    except InfoptError as error:
        return None, str(error)


def _request(deployment: Deployment, model: ModelProfile, needed: int, assumed: list[str]) -> Request:
    engine, version = STAND_INS.get(deployment.engine, (deployment.engine, deployment.version))
    if deployment.engine in STAND_INS:
        assumed.append(f"memory of {deployment.engine} as of {engine} {version}: no record of its own")
    elif version is None:
        version = load_engine(engine)[1]
        assumed.append(f"{engine} {version}: no version in the file")
    else:
        version = _oldest_known(engine, version, assumed)
    value = deployment.value
    context = value("context_tokens")
    if context in (None, -1):
        context = model.max_position_tokens
        assumed.append(f"context {context} tokens: the model's own limit")
    dp = 1 if value("attention_dp_in_tp") else int(value("dp", 1) or 1)
    tp, pp = int(value("tp", 1) or 1), int(value("pp", 1) or 1)
    whole_experts = model.experts > 0 and (value("expert_parallel") or int(value("ep", 1) or 1) > 1)
    return Request(
        context_tokens=context,
        batch=dp,
        gpus=tp * pp * dp,
        tp=tp,
        pp=pp,
        dp=dp,
        ep=tp * dp if whole_experts else None,
        engine=engine,
        engine_version=version,
        weights=_format(deployment, "quantization", "weights") or _dtype(deployment, model),
        kv=_format(deployment, "kv", "kv"),
        utilization=value("utilization"),
        max_num_seqs=value("max_num_seqs"),
        max_num_batched_tokens=_positive(value("max_num_batched_tokens")),
        block_tokens=_positive(value("block_tokens")),
        prefix_caching=value("prefix_caching"),
        text_only=bool(value("text_only")),
    )


def _oldest_known(engine: str, version: str, assumed: list[str]) -> str:
    """The version, or the oldest with a record where it is older."""
    try:
        return load_engine(engine, version)[1]
    except InfoptError:
        from infopt.profiles.engines import ENGINES
        from infopt.records import names_in

        oldest = min(names_in(ENGINES / engine), key=version_key)
        assumed.append(f"memory of {engine} {version} as of {oldest}: no older record")
        return oldest


def _positive(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and value > 0 else None


def _format(deployment: Deployment, setting: str, kind: str) -> str | None:
    """Our name of a format the engine's options name; None for what the checkpoint has."""
    asked = deployment.value(setting)
    if asked is None:
        return None
    known = _formats()[kind]
    if asked in known:
        return known[asked]
    return format_name(str(asked), kind)


@cache
def _formats() -> dict[str, dict[str, str | None]]:
    data: dict[str, dict[str, str | None]] = read_yaml(DATA / "formats.yaml")
    return data


def _dtype(deployment: Deployment, model: ModelProfile) -> str | None:
    """The type an unquantized model is loaded in, where an option says it."""
    asked = deployment.value("dtype")
    if asked in (None, "auto") or model.quantization is not None:
        return None
    return format_name(str(asked), "weights")
