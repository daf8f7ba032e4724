"""Random scenarios for what-if: models and hardware of the catalogue, placed at one load and planned at another."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.names import resolve_hardware
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.geometry import ModelProfile
from infopt.studies.model_view import find_models
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Built, Request, build
from infopt.studies.whatif_trace import Traced, traced_plan

SCENARIOS = 1000

HARDWARE = (
    "h100", "h200", "b200", "a100", "a100-40gb", "l40s", "l4", "a10g", "rtx 4090", "rtx 5090", "rtx 3090", "mi300x",
    "mi355x", "gaudi3", "p5.48xlarge", "custom:80GB:3.35TB/s", "custom:24GB:1TB/s:100TFLOP/s",
)  # fmt: skip
ENGINES = (
    ("vllm", None), ("vllm", None), ("vllm", "0.9.0"), ("vllm", "0.6.3"), ("vllm", "0.5.0"), ("sglang", None),
    ("tensorrt-llm", None), ("llama.cpp", None),
)  # fmt: skip
WEIGHTS = (None, None, None, "fp8", "int4", "int8", "mxfp4", "q4_k_m", "bf16")
KV = (None, None, None, "fp8", "int8", "q8_0")


@dataclass(frozen=True)
class Asked:
    """A placement built at one load with its program, and the plan of it at another."""

    model: ModelProfile
    hardware: HardwareChoice
    request: Request
    built: Built
    traced: Traced
    load: dict[str, int]
    plan: Plan


@lru_cache(maxsize=512)
def _model(id: str) -> ModelProfile:
    return load_catalogue_model(id)


@lru_cache(maxsize=64)
def _hardware(text: str) -> HardwareChoice | None:
    try:
        return resolve_hardware(text)
    except InfoptError:
        return None


def scenarios(count: int, seed: int = 9) -> Iterator[Asked]:
    """So many scenarios that an engine can run; the verdict may be any."""
    chance, ids, made = random.Random(seed), find_models(None), 0
    while made < count:
        hardware = _hardware(chance.choice(HARDWARE))
        if hardware is None:
            continue
        model = _model(chance.choice(ids))
        names = _given(chance)
        request = _request(chance, hardware, _load(chance, names))
        load = _load(chance, names)
        try:
            built = build(model, hardware, request)
            found = plan(model, hardware, replace(request, **load))
        except InfoptError:
            continue
        made += 1
        yield Asked(model, hardware, request, built, traced_plan(built, hardware, request), load, found)


@cache
def thousand() -> tuple[Asked, ...]:
    """The scenarios that the programs must answer, in Python and in a browser."""
    return tuple(scenarios(SCENARIOS))


def _given(chance: random.Random) -> tuple[str, ...]:
    return chance.choice(
        (
            ("context_tokens",),
            ("input_tokens", "output_tokens"),
            ("input_tokens",),
            ("context_tokens", "input_tokens"),
            ("context_tokens", "output_tokens"),
            ("context_tokens", "input_tokens", "output_tokens"),
        )
    )


def _load(chance: random.Random, names: tuple[str, ...]) -> dict[str, int]:
    """Lengths that go together, some of them round, and a batch."""
    answer, prompt = _whole(chance, 1, 8192), _whole(chance, 1, 200_000)
    lengths = {
        "context_tokens": prompt + answer + chance.choice((0, 0, _whole(chance, 1, 100_000))),
        "input_tokens": prompt,
        "output_tokens": answer,
    }
    return {**{name: lengths[name] for name in names}, "batch": _whole(chance, 1, 2048)}


def _whole(chance: random.Random, least: int, most: int) -> int:
    """Even in its logarithm; a power of two every other time."""
    value = round(least * (most / least) ** chance.random())
    return 1 << (value.bit_length() - 1) if chance.random() < 0.5 else value


def _request(chance: random.Random, hardware: HardwareChoice, load: dict[str, int]) -> Request:
    engine, version = chance.choice(ENGINES)
    tp, pp, dp = chance.choice((1, 1, 2, 4, 8)), chance.choice((1, 1, 1, 2, 3)), chance.choice((1, 1, 1, 2, 4))
    if hardware.gpus is not None:
        tp, pp, dp = hardware.gpus, 1, 1
    more: dict[str, Any] = {}
    if chance.random() < 0.15:
        more["kv_pool_bytes"] = _whole(chance, 2**28, 2**36)
    if chance.random() < 0.2:
        more |= {"max_num_seqs": _whole(chance, 1, 2048), "max_num_batched_tokens": _whole(chance, 512, 32768)}
    if chance.random() < 0.1:
        more["utilization"] = chance.choice((0.5, 0.8, 0.95))
    if chance.random() < 0.1:
        more["eager"] = True
    return Request(
        **load,
        gpus=tp * pp * dp,
        tp=tp,
        pp=pp,
        dp=dp,
        ep=chance.choice((None, None, tp, tp * dp)),
        engine=engine,
        engine_version=version,
        weights=chance.choice(WEIGHTS),
        kv=chance.choice(KV),
        text_only=chance.random() < 0.3,
        **more,
    )
