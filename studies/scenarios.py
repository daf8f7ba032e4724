"""From what a user asks to a scenario: defaults are filled here, and each is reported as an assumption."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Datum, HardwareChoice
from infopt.ledgers.arrays import larger, smaller
from infopt.ledgers.energy import Power
from infopt.ledgers.scenario import Scenario, allowed_tensor_parallel
from infopt.ledgers.terms import Caveat
from infopt.profiles.engines import EngineConstants, device_default, load_engine, load_engine_on_processor
from infopt.profiles.formats import (
    kv_format_name,
    load_kv_format,
    load_weight_format,
    weight_bits_by_part,
)
from infopt.profiles.geometry import ModelProfile
from infopt.units import format_gib

DEFAULT_CONTEXT_TOKENS = 8192
DEFAULT_OUTPUT_TOKENS = 512
GIB = 2**30
DEFAULT_POWER = Power()


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for; None means "fill in the default and say so"."""

    context_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    batch: int = 1
    gpus: int | None = None
    tp: int | None = None
    pp: int = 1
    dp: int = 1
    ep: int | None = None
    engine: str = "vllm"
    engine_version: str | None = None
    weights: str | None = None
    kv: str | None = None
    utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_tokens: int | None = None
    kv_pool_bytes: int | None = None
    prefix_caching: bool | None = None
    text_only: bool = False
    eager: bool = False
    mtp_tokens: int = 0
    extra_cache_layers: int = 0
    points: tuple[str, ...] = ()
    power: Power = DEFAULT_POWER
    extra_bytes_per_gpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Built:
    """A scenario and the assumptions that went into it."""

    scenario: Scenario
    assumptions: tuple[Caveat, ...]


def filled_lengths(ctx: Any, isl: Any, osl: Any) -> tuple[Any, Any, Any, Any]:
    """Context, input, output and decode context in tokens, numbers or arrays; None where a length was not given.

    Given isl and osl: context = isl + osl, decode context = isl + osl / 2. Given only a context:
    osl = min(512, ctx / 4), isl = ctx - osl, and the step is taken at the context itself.
    A context must be given unless the input is.
    """
    if isl is None and osl is None:
        osl = smaller(larger(ctx // 4, 1), DEFAULT_OUTPUT_TOKENS)
        return ctx, larger(ctx - osl, 1), osl, ctx * 1.0
    if osl is None:
        osl = DEFAULT_OUTPUT_TOKENS if ctx is None else ctx - isl
    if isl is None:
        isl = ctx - osl
    return (isl + osl if ctx is None else ctx), isl, osl, isl + osl / 2


def default_context_tokens(model: ModelProfile) -> int:
    """Context where no length was given."""
    return min(DEFAULT_CONTEXT_TOKENS, model.max_position_tokens or DEFAULT_CONTEXT_TOKENS)


def lengths(request: Request, model: ModelProfile) -> tuple[int, int, int, float, list[Caveat]]:
    """The lengths of a request with what was assumed; refuses those that contradict each other."""
    said: list[Caveat] = []
    isl, osl, ctx = request.input_tokens, request.output_tokens, request.context_tokens
    if isl is None and osl is None and ctx is None:
        ctx = default_context_tokens(model)
        said.append(Caveat("context", f"context {ctx} tokens: not given"))
    if isl is None and ctx is None:
        raise InfoptError("--osl without --isl or --ctx: say how long the prompt is")
    given = (isl, osl)
    context, input_tokens, output_tokens, decode = filled_lengths(ctx, isl, osl)
    if given == (None, None):
        said.append(Caveat("lengths", f"input {input_tokens} and output {output_tokens} tokens: not given"))
    elif osl is None:
        said.append(Caveat("output", f"output {output_tokens} tokens: not given"))
    elif isl is None:
        said.append(Caveat("input", f"input {input_tokens} tokens: context minus output"))
    if input_tokens < 1 or output_tokens < 1:
        told = f"input {input_tokens} tokens leave" if output_tokens < 1 else f"output {output_tokens} tokens leave"
        rest = "an answer" if output_tokens < 1 else "a prompt"
        raise InfoptError(f"{told} no room for {rest} in a context of {context}; both must be at least 1")
    if given != (None, None) and input_tokens + output_tokens > context:
        raise InfoptError(f"--isl {input_tokens} + --osl {output_tokens} is more than --ctx {context}")
    return context, input_tokens, output_tokens, decode, said


def placement(request: Request, model: ModelProfile, gpus: int) -> tuple[int, int, list[Caveat]]:
    """tp and ep where they were not given: tp fills what pp and dp leave."""
    said: list[Caveat] = []
    tp = request.tp
    if tp is None:
        per_stage = gpus // (request.pp * request.dp)
        tp = max(1, per_stage)
        if tp > 1:
            said.append(Caveat("tp", f"tp {tp}: not given, fills the {gpus} devices"))
    return tp, request.ep if request.ep is not None else 1, said


def build(model: ModelProfile, hardware: HardwareChoice, request: Request) -> Built:
    """Resolve formats, engine constants, lengths and placement into a scenario."""
    hardware, shared = _ranks_of_processor(hardware, request)
    engine, version, own = _engine_of(request, hardware)
    device = hardware.accelerator
    ctx, isl, osl, decode_context, said = lengths(request, model)
    gpus = _gpus(request, hardware)
    tp, ep, more = placement(request, model, gpus)
    weight_format, bits = weight_bits_by_part(model, request.weights)
    weights = load_weight_format(weight_format)
    if weights.covers_everything:
        # A full-precision format is also the type the engine computes and caches in.
        model = replace(model, compute_dtype=weight_format)
    kv_name = kv_format_name(model, request.kv)
    gib = device.usable_memory_bytes / GIB
    utilization = request.utilization if request.utilization is not None else engine.utilization
    if not 0 < utilization <= 1:
        raise InfoptError(f"--util {utilization:g} is not a share between 0 and 1")
    if request.kv_pool_bytes is not None and request.kv_pool_bytes < 1:
        raise InfoptError("--kv-pool 0: a pool must hold something; without --kv-pool the engine sizes it")
    if engine.takes_all_memory:
        data = {**device.data, "usable_memory_bytes": device.data.get("memory_bytes", Datum("user", "as given"))}
        device = replace(device, usable_memory_bytes=device.whole_memory_bytes, data=data)
    ranks = tp * request.pp if engine.limits_per_rank else 1
    scenario = Scenario(
        model=model,
        accelerator=device,
        gpus=gpus,
        tp=tp,
        pp=request.pp,
        dp=request.dp,
        ep=ep,
        engine=engine,
        engine_version=version,
        weight_format=weight_format,
        weight_bits=bits,
        weight_compute=weights.compute,
        kv_format=kv_name,
        kv=load_kv_format(kv_name),
        utilization=utilization,
        input_tokens=isl,
        output_tokens=osl,
        context_tokens=ctx,
        decode_context_tokens=decode_context,
        batch=request.batch,
        max_num_seqs=request.max_num_seqs or ranks * device_default(engine.max_num_seqs, gib, device.id),
        max_num_batched_tokens=request.max_num_batched_tokens
        or ranks * device_default(engine.max_num_batched_tokens, gib, device.id),
        block_tokens=request.block_tokens or engine.block_tokens,
        extra_cache_layers=request.extra_cache_layers,
        speculative_tokens=request.mtp_tokens,
        extra_bytes_per_gpu=request.extra_bytes_per_gpu,
        kv_pool_bytes=request.kv_pool_bytes,
        state_pages=_state_pages(request, engine),
        text_only=request.text_only,
        eager=request.eager,
        mtp_loaded=request.mtp_tokens > 0,
        weight_quality=weights.quality_range,
    )
    told = (*_engine_assumptions(request, engine, version, utilization), *_calibration(scenario))
    return Built(scenario, (*said, *more, *shared, *own, *told))


def _engine_of(request: Request, hardware: HardwareChoice) -> tuple[EngineConstants, str, list[Caveat]]:
    """Constants of the engine on this kind of device, its version, and what was assumed for that."""
    own = load_engine_on_processor(request.engine, request.engine_version) if hardware.accelerator.processor else None
    if own is None:
        return *load_engine(request.engine, request.engine_version), []
    engine, version = own
    if engine.known:
        return engine, version, []
    return engine, version, [Caveat("engine", f"{engine.engine} {version} on a processor: by the oldest rules read")]


def _ranks_of_processor(hardware: HardwareChoice, request: Request) -> tuple[HardwareChoice, list[Caveat]]:
    """This machine's one processor as the ranks that are to share it: each has its part of the memory.

    Each may read at the bandwidth of all, so that the floors stay floors.
    """
    ranks = (request.tp or 1) * request.pp * request.dp
    device = hardware.accelerator
    if device.node is None or ranks == 1 or hardware.gpus != 1 or request.gpus not in (None, ranks):
        return hardware, []
    device = device.shared_by(ranks)
    text = f"{ranks} ranks share the memory of {device.name}; their floors let each read at the bandwidth of all"
    return replace(hardware, accelerator=device, gpus=ranks), [Caveat("ranks", text)]


def _state_pages(request: Request, engine: EngineConstants) -> int:
    """Recurrent states kept for prefix reuse take a second page; engines without groups keep one."""
    if request.prefix_caching is None or engine.windows != "grouped":
        return engine.state_pages
    return 2 if request.prefix_caching else 1


def _gpus(request: Request, hardware: HardwareChoice) -> int:
    if request.gpus is not None and hardware.gpus is not None and request.gpus != hardware.gpus:
        raise InfoptError(f"--gpus {request.gpus} contradicts --hw, which names {hardware.gpus}; give one of them")
    gpus = request.gpus or hardware.gpus
    if gpus is not None:
        return gpus
    return (request.tp or 1) * request.pp * request.dp


def _engine_assumptions(request: Request, engine: EngineConstants, version: str, utilization: float) -> list[Caveat]:
    said = []
    if request.engine_version is None:
        said.append(Caveat("engine", f"{engine.engine} {version}: the newest version whose constants are measured"))
    if request.kv_pool_bytes is not None:
        said.append(Caveat("kv-pool", f"KV pool {format_gib(request.kv_pool_bytes)} on each device: given"))
    elif request.utilization is None:
        text = f"utilization {utilization:g}: {engine.utilization_meaning}"
        said.append(Caveat("utilization", text))
    return said


def _calibration(s: Scenario) -> Iterator[Caveat]:
    """Which figures a calibration record brought, and whose step times it has."""
    device, engine = s.accelerator, s.engine.engine
    yield from (Caveat("calibration", note) for note in device.calibration_notes)
    engines = sorted({step.engine for step in device.measured_steps})
    if device.calibration is None or engine in engines:
        return
    if engines:
        text = f"its steps are of {', '.join(engines)}: they count where nothing was measured of {engine} elsewhere"
    else:
        text = "it has no step times, which `infopt probe latency` adds: those of the engine are the shipped ones"
    yield Caveat("calibration", f"calibration: {text}")


def with_weights(built: Built, weights: str) -> Built:
    """The same scenario with another weight format."""
    s = built.scenario
    name, bits = weight_bits_by_part(s.model, weights)
    record = load_weight_format(name)
    changed = replace(
        s, weight_format=name, weight_bits=bits, weight_compute=record.compute, weight_quality=record.quality_range
    )
    return replace(built, scenario=changed)


def usable_tensor_parallel(model: ModelProfile, at_most: int) -> Sequence[int]:
    """TP degrees this model allows, up to `at_most`."""
    return [tp for tp in allowed_tensor_parallel(model) if tp <= at_most]
