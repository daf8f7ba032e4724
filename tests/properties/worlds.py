"""Random worlds: models, devices, engines and loads, of the catalogue and made up, that some engine can run.

`INFOPT_EXAMPLES` says how many examples each property gets (`make properties EXAMPLES=2000`); a plain run takes few.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import scenarios as make
from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.hardware.accelerator import Accelerator, HardwareChoice, Link
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.scenario import Scenario, allowed_tensor_parallel
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.geometry import FeedForward, LayerRun, Mixer, ModelProfile
from infopt.studies.model_view import find_models
from infopt.studies.scenarios import Built, Request, build

EXAMPLES = int(os.environ.get("INFOPT_EXAMPLES", "25"))
HARDWARE = (
    *("h100", "h200", "b200", "a100", "a100-40gb", "l40s", "l4", "a10g", "rtx 4090", "rtx 5090", "rtx 3090", "mi300x"),
    *("mi355x", "gaudi3", "custom:80GB:3.35TB/s", "custom:24GB:1TB/s:100TFLOP/s"),
)
ENGINES = (
    *(("vllm", None), ("vllm", "0.2.7"), ("vllm", "0.6.3"), ("vllm", "0.8.5"), ("vllm", "0.10.2"), ("vllm", "0.12.0")),
    *(("vllm", "0.17.1"), ("vllm", "0.19.1"), ("vllm", "0.20.0"), ("vllm", "0.21.0"), ("vllm", "0.33.0")),
    *(("sglang", None), ("sglang", "0.4.6"), ("tensorrt-llm", None), ("llama.cpp", None), ("llama.cpp", "b9000")),
)
WEIGHTS = ("bf16", "fp8", "int8", "int4", "int4_awq", "mxfp4", "nvfp4", "q8_0", "q4_k_m", "fp32")
KV = ("fp32", "bf16", "fp8", "int8", "q8_0", "q4_0", "int4", "nvfp4")

# Engines and devices of classes whose steps were measured.
MEASURED = (
    *(("vllm", "h100"), ("vllm", "h200"), ("vllm", "b200"), ("vllm", "a100"), ("vllm", "mi300x"), ("sglang", "h100")),
    *(("tensorrt-llm", "h200"), ("llama.cpp", "rtx 4090"), ("llama.cpp", "a100"), ("llama.cpp", "h100")),
)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def examples(share: float = 1.0, least: int = 2) -> Decorator:
    """So many examples for a property: `share` of EXAMPLES where a whole command is run, which is not made smaller."""
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    phases = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if share == 1 else [])]
    return settings(max_examples=max(least, round(EXAMPLES * share)), suppress_health_check=quiet, phases=phases)


def whole(least: int, most: int) -> st.SearchStrategy[int]:
    """Whole numbers even in their logarithm, powers of two and their neighbours among them."""
    bits = st.integers(least.bit_length() - 1, most.bit_length())
    near = st.builds(lambda power, off: (1 << power) + off, bits, st.integers(-1, 1))
    spread = bits.flatmap(lambda power: st.integers(1 << power, (2 << power) - 1))
    return st.one_of(near, spread).map(lambda value: min(most, max(least, value)))


@st.composite
def mixers(draw: Any) -> Mixer:
    """Full attention, grouped or with one KV head, a window, chunks, a latent, or a recurrence."""
    kind = draw(st.sampled_from(("full", "full", "window", "chunked", "latent", "recurrent")))
    if kind == "latent":
        heads = draw(st.sampled_from((16, 32, 64, 128)))
        return make.latent(draw(st.sampled_from((256, 512))), 64, heads)
    if kind == "recurrent":
        return make.recurrent(draw(whole(10_000, 4_000_000)))
    kv_heads = draw(st.sampled_from((1, 2, 4, 8, 16)))
    q_heads = kv_heads * draw(st.sampled_from((1, 2, 4, 7, 8)))
    head_dim = draw(st.sampled_from((64, 80, 128, 256)))
    window = None if kind == "full" else draw(whole(128, 16384))
    return replace(make.attention(kv_heads, head_dim, q_heads, window), kind=kind)


@st.composite
def feed_forwards(draw: Any) -> FeedForward:
    """Dense, or experts of which some are chosen, with a shared one or without."""
    width = draw(st.sampled_from((1024, 4096, 14336)))
    if draw(st.booleans()):
        return FeedForward(kind="dense", mlp_params=3 * 4096 * width, intermediate=width)
    experts = draw(st.sampled_from((8, 16, 64, 256)))
    return FeedForward(
        kind="mixture",
        experts=experts,
        experts_per_token=draw(st.sampled_from((1, 2, 6, 8))),
        expert_params=3 * 4096 * width // 4,
        shared_params=draw(st.sampled_from((0, 3 * 4096 * width // 4))),
        router_params=4096 * experts,
        intermediate=width // 4,
    )


@st.composite
def made_up_models(draw: Any) -> ModelProfile:
    """One to three kinds of layers, in a pattern that repeats."""
    kinds = draw(st.lists(st.tuples(mixers(), feed_forwards(), st.integers(1, 12)), min_size=1, max_size=3))
    runs = [LayerRun(layers, mixer, ff, norm_params=8192) for mixer, ff, layers in kinds]
    vocab = draw(st.sampled_from((32000, 50257, 128256, 262144)))
    tied = draw(st.booleans())
    return make.model(
        runs * draw(st.integers(1, 4)),
        vocab=vocab,
        embed_params=vocab * 4096,
        head_params=0 if tied else vocab * 4096,
        max_position_tokens=draw(st.sampled_from((None, 4096, 32768, 1_048_576))),
    )


@lru_cache(maxsize=512)
def catalogue_model(id: str) -> ModelProfile:
    return load_catalogue_model(id)


def models() -> st.SearchStrategy[ModelProfile]:
    """Every second one of the catalogue."""
    return st.one_of(made_up_models(), st.sampled_from(find_models(None)).map(catalogue_model))


@st.composite
def made_up_devices(draw: Any) -> Accelerator:
    linked = draw(st.booleans())
    return make.device(
        draw(st.floats(4, 512)),
        draw(st.floats(5e10, 2e13)),
        memory_class=draw(st.sampled_from(("hbm", "gddr"))),
        link=Link("NVLink", 4.5e11) if linked else None,
        peak_flop_per_s={"bf16": draw(st.floats(1e13, 5e15)), "fp8": draw(st.floats(1e13, 5e15))},
        usd_per_hour=draw(st.one_of(st.none(), st.floats(0.1, 100))),
    )


@lru_cache(maxsize=64)
def named(text: str) -> HardwareChoice:
    return resolve_hardware(text)


def hardware() -> st.SearchStrategy[HardwareChoice]:
    """Of the catalogue, or made up."""
    own = made_up_devices().map(lambda device: HardwareChoice(device, None, "made up"))
    return st.one_of(own, st.sampled_from(HARDWARE).map(named))


@st.composite
def loads(draw: Any) -> dict[str, int]:
    """Lengths that go together, given in one of the ways they can be, and a batch."""
    prompt, answer = draw(whole(1, 200_000)), draw(whole(1, 8192))
    lengths = {"context_tokens": prompt + answer, "input_tokens": prompt, "output_tokens": answer}
    names = draw(st.sampled_from(("context_tokens", "input_tokens output_tokens", "input_tokens", " ".join(lengths))))
    return {name: lengths[name] for name in names.split()} | {"batch": draw(whole(1, 2048))}


@st.composite
def requests(draw: Any, model: ModelProfile) -> Request:
    """A placement that the model allows, in some engine and formats, under some load."""
    engine, version = draw(st.sampled_from(ENGINES))
    tp = draw(st.sampled_from([tp for tp in allowed_tensor_parallel(model) if tp <= 16]))
    pp = draw(st.sampled_from([pp for pp in (1, 1, 1, 2, 3, 8) if pp <= model.layers]))
    dp = draw(st.sampled_from((1, 1, 2, 4)))
    ep = draw(st.sampled_from((None, None, tp, tp * dp))) if model.experts else None
    more: dict[str, Any] = {}
    if draw(st.integers(0, 4)) == 0:
        more |= {"max_num_seqs": draw(whole(1, 2048)), "max_num_batched_tokens": draw(whole(512, 32768))}
    if draw(st.integers(0, 6)) == 0:
        more["kv_pool_bytes"] = draw(whole(2**28, 2**36))
    return Request(
        **draw(loads()),
        gpus=tp * pp * dp,
        tp=tp,
        pp=pp,
        dp=dp,
        ep=ep,
        engine=engine,
        engine_version=version,
        weights=draw(st.sampled_from((None, None, *WEIGHTS))),
        kv=draw(st.sampled_from((None, None, *KV))),
        utilization=draw(st.sampled_from((None, None, 0.5, 0.8, 0.95))),
        eager=draw(st.booleans()),
        **more,
    )


class World:
    """A model on hardware as somebody asks for it, and the scenario that comes of it."""

    def __init__(self, model: ModelProfile, hardware: HardwareChoice, request: Request) -> None:
        self.model, self.hardware, self.request = model, hardware, request
        self.built: Built = build(model, hardware, request)
        self.scenario: Scenario = self.built.scenario
        self.scenario.check()

    def changed(self, **request: Any) -> "World":
        """Another request on the same model and hardware."""
        return World(self.model, self.hardware, replace(self.request, **request))

    def __repr__(self) -> str:
        return f"World({self.model.id}, {self.hardware.resolved_as}, {self.request})"


@st.composite
def worlds(draw: Any, of: st.SearchStrategy[ModelProfile] | None = None) -> World:
    """A world that some engine can run; whether it fits is open."""
    model = draw(models() if of is None else of)
    choice, request = draw(hardware()), draw(requests(model))
    try:
        return World(model, choice, request)
    except InfoptError:
        assume(False)
        raise


@st.composite
def roomy_worlds(draw: Any) -> World:
    """Devices of the catalogue with memory enough for anything: what times depend on is asked of nearly all of them."""
    world = draw(worlds())
    engine, hardware = draw(st.sampled_from(MEASURED))
    choice = named(hardware)
    roomy = replace(choice.accelerator, usable_memory_bytes=2**46, memory_bytes=2**46)
    given = {"batch": 1} if engine == "llama.cpp" else {}
    limits = {"max_num_seqs": 256, "max_num_batched_tokens": 8192, "kv_pool_bytes": None}
    request = replace(world.request, engine=engine, engine_version=None, **given, **limits)
    return World(world.model, replace(choice, accelerator=roomy), request)
