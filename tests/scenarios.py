"""Small models, devices and scenarios for tests: no files read, every number visible."""

from dataclasses import replace
from typing import Any

from infopt.hardware.accelerator import Accelerator, Datum, HardwareChoice
from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import FeedForward, LayerRun, Mixer, ModelProfile, StateTensor
from infopt.studies.scenarios import Request, build

GIB = 2**30


def attention(kv_heads: int = 8, head_dim: int = 128, q_heads: int = 32, window: int | None = None) -> Mixer:
    hidden = q_heads * head_dim
    kv = 2 * hidden * kv_heads * head_dim
    return Mixer(
        kind="window" if window else "full",
        linear_params=2 * hidden * hidden + kv,
        kv_linear_params=kv,
        q_heads=q_heads,
        kv_heads=kv_heads,
        qk_dim=head_dim,
        v_dim=head_dim,
        window_tokens=window,
    )


def latent(rank: int = 512, rope: int = 64, q_heads: int = 16) -> Mixer:
    return Mixer(
        kind="latent",
        linear_params=10_000_000,
        kv_linear_params=1_000_000,
        q_heads=q_heads,
        kv_heads=1,
        qk_dim=192,
        v_dim=128,
        latent_dim=rank + rope,
        latent_rank=rank,
    )


def recurrent(elements: int = 1_000_000) -> Mixer:
    state = (StateTensor("ssm", elements, "fp32"),)
    return Mixer(kind="recurrent", linear_params=20_000_000, state=state, variant="mamba2")


DENSE = FeedForward(kind="dense", mlp_params=3 * 4096 * 14336, intermediate=14336)
MIXTURE = FeedForward(
    kind="mixture",
    experts=8,
    experts_per_token=2,
    expert_params=3 * 4096 * 1024,
    router_params=4096 * 8,
    intermediate=1024,
)


def model(runs: list[LayerRun] | None = None, **changes: Any) -> ModelProfile:
    runs = runs or [LayerRun(32, attention(), DENSE, norm_params=8192)]
    profile = ModelProfile(
        id="test/model",
        architecture="TestForCausalLM",
        hidden=4096,
        vocab=128256,
        max_position_tokens=131072,
        runs=tuple(runs),
        embed_params=128256 * 4096,
        head_params=128256 * 4096,
        source="tests/scenarios.py",
        source_kind="test",
    )
    return replace(profile, **changes)


def device(memory_gib: float = 79.19, bandwidth: float = 3.35e12, **changes: Any) -> Accelerator:
    accelerator = Accelerator(
        id="test-80gb",
        vendor="test",
        memory_class="hbm",
        memory_bytes=80 * 10**9,
        driver_memory_bytes=None,
        usable_memory_bytes=int(memory_gib * GIB),
        bandwidth_bytes_per_s=bandwidth,
        peak_flop_per_s={"bf16": 989e12, "fp8": 1979e12},
        data={"usable_memory_bytes": Datum("measured", "test")},
    )
    return replace(accelerator, **changes)


def scenario(profile: ModelProfile | None = None, on: Accelerator | None = None, **request: Any) -> Scenario:
    request.setdefault("context_tokens", 8192)
    choice = HardwareChoice(on or device(), None, "test")
    return build(profile or model(), choice, Request(**request)).scenario
