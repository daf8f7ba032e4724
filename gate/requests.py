"""What the planner is asked for a deployment: formats by our names, the engine's record, lengths, placement.

TGI has no record of its own. Its rule is TensorRT-LLM's: of what is free once the model is loaded and its largest
prefill has run, the cache takes a share, 0.9 (text-generation-inference models/globals.py, TGI_WIGGLE_ROOM) of the
memory it may use (--cuda-memory-fraction). Ollama runs llama.cpp's buffers.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from infopt.errors import InfoptError, UndeterminedError
from infopt.gate.beside import beside_bytes, draft_said
from infopt.gate.deployment import Deployment
from infopt.gate.engine_defaults import default_of, stand_in
from infopt.gate.engines import DATA
from infopt.gate.placing import context_of, placement_of, whole_number
from infopt.hardware.accelerator import HardwareChoice
from infopt.profiles.engines import ENGINES, engine_names, load_engine, load_engine_on_processor, version_key
from infopt.profiles.formats import format_name, load_kv_format
from infopt.profiles.geometry import LayerRun, ModelProfile
from infopt.records import names_in, read_yaml
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Request, build
from infopt.units import format_gib

GIB = 2**30
CPU_SPACE = "VLLM_CPU_KVCACHE_SPACE"  # vllm platforms/cpu.py: whole GiB, beats --kv-cache-memory-bytes


def planned(
    deployment: Deployment, model: ModelProfile, device: HardwareChoice, context: int | None, assumed: list[str]
) -> Plan:
    """The plan of one full-length request in every place memory is reserved for."""
    placed, request = asked(deployment, model, device, context, assumed)
    return plan(placed, device, request)


def asked(
    deployment: Deployment, model: ModelProfile, device: HardwareChoice, context: int | None, assumed: list[str]
) -> tuple[ModelProfile, Request]:
    """What lies on devices, and the planner's request with the memory beside it."""
    model = on_devices(deployment, model, assumed)
    request = request_of(deployment, model, device, context, assumed)
    scenario = build(model, device, request).scenario
    scenario.check()
    extra = beside_bytes(deployment, scenario, device, assumed)
    if extra:
        request = replace(request, extra_bytes_per_gpu=extra)
    fixed = _pool_bytes(deployment, device)
    if fixed is not None:
        request = replace(request, kv_pool_bytes=fixed)
        assumed.append(f"utilization is not used: the cache is given {format_gib(fixed)} on each device")
    return model, request


def _pool_bytes(deployment: Deployment, device: HardwareChoice) -> int | None:
    """The cache of each device where vLLM is told it; on a processor its variable, in GiB, beats the option."""
    if deployment.engine != "vllm":
        return None
    space = whole_number(deployment.found.environment.get(CPU_SPACE, "")) if device.accelerator.processor else None
    return _positive(deployment.value("kv_bytes")) if space is None else _positive(space * GIB)


def request_of(
    deployment: Deployment, model: ModelProfile, device: HardwareChoice, context: int | None, assumed: list[str]
) -> Request:
    """The planner's request."""
    value, placed, length = deployment.value, placement_of(deployment), context_of(deployment, model)
    engine, version = _record(deployment, device.accelerator.processor, assumed)
    if length.how:
        assumed.append(length.how)
    if int(value("dcp", 1) or 1) > 1:
        assumed.append("decode context parallel is not counted: the cache holds more than this")
    tp, dp = placed.attention_tp, placed.replicas
    split = model.experts > 0 and (placed.whole or placed.attention_dp > 1)
    draft = draft_said(deployment)
    own = draft is not None and draft.own_layers
    return Request(
        context_tokens=context,
        batch=dp * length.sequences,
        gpus=tp * placed.pp * dp,
        tp=tp,
        pp=placed.pp,
        dp=dp,
        ep=tp * dp if split else None,
        engine=engine,
        engine_version=version,
        weights=weights_of(deployment, model),
        kv=_cache_format(deployment),
        utilization=_utilization(deployment),
        max_num_seqs=_sequences(deployment),
        max_num_batched_tokens=_prefill_tokens(deployment),
        block_tokens=_positive(value("block_tokens")),
        prefix_caching=value("prefix_caching"),
        text_only=bool(value("text_only")),
        eager=bool(value("eager")),
        mtp_tokens=max(1, draft.tokens) if draft is not None and own else 0,
        extra_cache_layers=1 if draft is not None and (own or draft.head) else 0,
    )


def _record(deployment: Deployment, processor: bool, assumed: list[str]) -> tuple[str, str]:
    """The engine and version whose record is used."""
    engine, version = deployment.engine, deployment.version
    other = stand_in(engine)
    if other is not None:
        assumed.append(f"memory of {engine} by the rule of {other.engine}: no record of its own")
        return other.engine, other.version
    if engine not in engine_names():
        raise UndeterminedError(f"memory of {engine} is described by no record")
    if version is None:
        own = load_engine_on_processor(engine) if processor else None
        version = (own or load_engine(engine))[1]
        assumed.append(f"{engine} {version}: no version in the file")
        return engine, version
    try:
        return engine, load_engine(engine, version)[1]
    except InfoptError:
        oldest = min(names_in(ENGINES / engine), key=version_key)
        assumed.append(f"memory of {engine} {version} as of {oldest}: no older record")
        return engine, oldest


def _utilization(deployment: Deployment) -> float | None:
    said: float | None = deployment.value("utilization")
    other = stand_in(deployment.engine) if deployment.engine == "tgi" else None
    return said if other is None else other.share * (1.0 if said is None else said)


def _sequences(deployment: Deployment) -> int | None:
    if deployment.engine in ("llama.cpp", "ollama"):
        return 1
    said = _positive(deployment.value("max_num_seqs"))
    return default_of("tgi_sequences") if said is None and deployment.engine == "tgi" else said


def _prefill_tokens(deployment: Deployment) -> int | None:
    """Tokens of the largest pass; TGI's is what an input may have and 50 more, 4096 where nothing is said."""
    said = _positive(deployment.value("max_num_batched_tokens"))
    if said is not None or deployment.engine != "tgi":
        return said
    entered = _positive(deployment.value("input_tokens"))
    return default_of("tgi_prefill_tokens") if entered is None else entered + 50


def weights_of(deployment: Deployment, model: ModelProfile) -> str | None:
    """Format weights are loaded in; None as they are stored. An option does not change a stored quantization."""
    if model.quantization is not None:
        return None
    return _format(deployment, "quantization", "weights") or _dtype(deployment, model)


def on_devices(deployment: Deployment, model: ModelProfile, assumed: list[str]) -> ModelProfile:
    """The layers that lie on devices: llama.cpp and Ollama keep the first ones in host memory if told to."""
    said = whole_number(deployment.value("gpu_layers"))
    if said is None or said >= model.layers:
        return model
    kept = max(1, said)
    assumed.append(f"{kept} of {model.layers} layers on devices, the others in host memory")
    runs: list[LayerRun] = []
    for run in reversed(model.runs):
        taken = min(run.layers, kept - sum(r.layers for r in runs))
        if taken > 0:
            runs.insert(0, replace(run, layers=taken))
    return replace(model, runs=tuple(runs), stored_bytes={})


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
    try:
        return format_name(str(asked), kind)
    except InfoptError as error:
        flag = deployment.settings[setting].flag
        raise UndeterminedError(f"how many bits {flag} {asked} takes is not known") from error


def _cache_format(deployment: Deployment) -> str | None:
    """The cache's format; of llama.cpp, whose keys and values may differ, the wider one."""
    keys = _format(deployment, "kv", "kv")
    if deployment.engine != "llama.cpp" or (keys is None and deployment.value("kv_values") is None):
        return keys
    both = [name or "fp16" for name in (keys, _format(deployment, "kv_values", "kv"))]
    return max(both, key=lambda name: load_kv_format(name).bits_per_element)


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
