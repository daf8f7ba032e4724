"""Figures the claims are compared with, taken from the ledgers.

A figure is a function of plain values (names of models, formats and devices; tokens; counts), registered under its
own name with the base unit of what it returns. What the ledgers ignore (kernel overheads, queueing) is ignored here.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from infopt.errors import InfoptError, unknown_name
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.cache import model_cache
from infopt.ledgers.compute import attention_prefill_flop, decode_flop_per_token, prefill_flop
from infopt.ledgers.weights import stored_weights_bytes
from infopt.profiles.formats import load_kv_format, load_weight_format, weight_bits_by_part
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.resolve import resolve_model
from infopt.studies.claims import Computation, Value
from infopt.studies.planning import Plan, fewest_gpus, plan_built
from infopt.studies.scenarios import Request, build

# Longest context a root is looked for: beyond it the answer is "never".
FAR_TOKENS = 2**30


@dataclass(frozen=True, slots=True)
class Figure:
    """A registered computation and the base unit of its result."""

    unit: str
    function: Callable[..., float]
    parameters: frozenset[str]


FIGURES: dict[str, Figure] = {}


def figure(unit: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register a function under its own name."""

    def register(function: Callable[..., float]) -> Callable[..., float]:
        FIGURES[function.__name__] = Figure(unit, function, frozenset(inspect.signature(function).parameters))
        return function

    return register


def evaluate(computation: Computation, defaults: Mapping[str, Value]) -> tuple[float, str]:
    """Value and base unit of a computation; `defaults` fill the parameters it has and is not given."""
    name = computation.compute
    if name not in FIGURES:
        raise unknown_name("computation", name, FIGURES, "see studies/claim_*.py")
    found = FIGURES[name]
    given = {key: value for key, value in defaults.items() if key in found.parameters} | computation.given
    try:
        return float(found.function(**given)), found.unit
    except TypeError as error:
        raise InfoptError(f"claims: {name} was given {given}: {error}") from error


@cache
def model_of(text: str) -> ModelProfile:
    return resolve_model(text)


@cache
def device_of(text: str) -> HardwareChoice:
    return resolve_hardware(text)


@cache
def plan_of(
    model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int = 1, output_tokens: int = 1
) -> Plan:
    """The plan of one scenario; the step is taken at `tokens` of context."""
    length = Request(context_tokens=tokens)
    if output_tokens > 1:
        length = Request(context_tokens=tokens + output_tokens, input_tokens=tokens, output_tokens=output_tokens)
    request = replace(length, batch=batch, gpus=gpus, weights=weights, kv=kv)
    device = device_of(hw)
    # Figures are of ledgers: what would help where it does not fit is left out, and takes seconds to find.
    return plan_built(build(model_of(model), device, request), device, request, explain_fit=False)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing `function` turns positive between `low` and `high`, to 1e-9 of the span."""
    if function(high) < 0:
        return math.inf
    for _ in range(200):
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
        if high - low <= 1e-9 * high:
            break
    return high


# --- memory ---------------------------------------------------------------------------------------------------------


@figure("bytes")
def kv_cache(model: str, kv: str, tokens: int) -> float:
    """KV cache of one sequence."""
    return float(model_cache(model_of(model), load_kv_format(kv)).kv_bytes_per_sequence(tokens))


@figure("bytes_per_element")
def kv_element(kv: str) -> float:
    return load_kv_format(kv).bits_per_element / 8


@figure("exponent")
def kv_growth(model: str, kv: str, tokens: int) -> float:
    """Exponent with which the cache grows with context: log2 of its growth when the context doubles."""
    return math.log2(kv_cache(model, kv, 2 * tokens) / kv_cache(model, kv, tokens))


@figure("share")
def kv_share(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """KV of the batch over the memory of the devices."""
    return plan_of(model, hw, gpus, weights, kv, tokens, batch).memory.kv_share


@figure("sequences")
def batch_at_kv_share(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, share: float) -> float:
    """Sequences at which the KV share of memory is reached."""
    return share / kv_share(model, hw, gpus, weights, kv, tokens, 1)


@figure("bits")
def format_bits(weights: str) -> float:
    """Bits per weight with scales and zero points."""
    return load_weight_format(weights).bits_per_weight


@figure("bits")
def payload_bits(weights: str) -> float:
    """Bits per weight without scales and zero points."""
    return math.floor(format_bits(weights))


@figure("share")
def payload_share(weights: str) -> float:
    """Payload bits over 16: the share of 16-bit memory if every parameter took the format and scales were free."""
    return payload_bits(weights) / 16


@figure("share")
def weights_share(model: str, weights: str) -> float:
    """Checkpoint bytes in a format over those in 16 bits: embeddings and norms stay in 16 bits, scales count."""
    return _stored_bytes(model, weights) / _stored_bytes(model, "bf16")


@figure("ratio")
def weights_saving(model: str, weights: str) -> float:
    return 1 / weights_share(model, weights)


def _stored_bytes(model: str, weights: str) -> float:
    profile = model_of(model)
    return stored_weights_bytes(profile, weight_bits_by_part(profile, weights)[1], as_stored=False)


@figure("gpus")
def fewest_devices(model: str, hw: str, weights: str, kv: str, tokens: int) -> float:
    """Fewest devices that hold the weights and one sequence of `tokens`."""
    request = Request(context_tokens=tokens, weights=weights, kv=kv)
    profile, device = model_of(model), device_of(hw)
    found = fewest_gpus(build(profile, device, request), device, request)
    return math.inf if found is None else found.scenario.gpus


@figure("tokens")
def kv_pool(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int) -> float:
    """Tokens of KV the engine's pool holds."""
    return plan_of(model, hw, gpus, weights, kv, tokens).memory.kv_pool_tokens


@figure("sequences")
def sequences_held(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int) -> float:
    return plan_of(model, hw, gpus, weights, kv, tokens).memory.max_sequences


@figure("params")
def params_limit(hw: str, weights: str) -> float:
    """Parameters that fill one device with no KV at all: everything the engine leaves to weights and KV of an 8B."""
    memory = plan_of("8b", hw, 1, "bf16", "bf16", 1024).memory
    return (memory.kv_pool_bytes_per_gpu + memory.weights_bytes_per_gpu) * 8 / format_bits(weights)


@figure("terms")
def memory_terms(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int) -> float:
    """Named terms of the memory ledger."""
    return len(plan_of(model, hw, gpus, weights, kv, tokens).memory.terms)


# --- bandwidth ------------------------------------------------------------------------------------------------------


@figure("bytes")
def weight_bytes_per_token(model: str, hw: str, gpus: int, weights: str, batch: int) -> float:
    """Weights read in a step over the sequences that share the read."""
    return plan_of(model, hw, gpus, weights, "bf16", 1, batch).bandwidth.weight_bytes_per_step / batch


@figure("s")
def tpot_floor(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """Least time one user waits per token."""
    return plan_of(model, hw, gpus, weights, kv, tokens, batch).bandwidth.tpot_floor_s


@figure("s")
def amortized(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """Step floor over batch: seconds of machine per token."""
    return plan_of(model, hw, gpus, weights, kv, tokens, batch).bandwidth.amortized_s_per_token


@figure("tokens_per_s")
def throughput_ceiling(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """Tokens per second of all sequences at the floor."""
    return 1 / amortized(model, hw, gpus, weights, kv, tokens, batch)


@figure("ratio")
def batching_gain(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """Throughput at a batch over that of one sequence, at the floors."""
    same = (model, hw, gpus, weights, kv, tokens)
    return throughput_ceiling(*same, batch) / throughput_ceiling(*same, 1)


@figure("ratio")
def format_gain(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """Speed of a weight format over 16-bit weights, at the floors."""
    rest = (kv, tokens, batch)
    return tpot_floor(model, hw, gpus, "bf16", *rest) / tpot_floor(model, hw, gpus, weights, *rest)


@figure("ratio")
def kv_gain(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """Speed with a KV format over a 16-bit cache, at the floors."""
    same = (model, hw, gpus, weights)
    return tpot_floor(*same, "bf16", tokens, batch) / tpot_floor(*same, kv, tokens, batch)


@figure("sequences")
def batch_at_format_gain(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, gain: float) -> float:
    """Batch at which a weight format is still `gain` times as fast: (W16 + B K) / (Wq + B K) = gain."""
    full = plan_of(model, hw, gpus, "bf16", kv, tokens).bandwidth
    small = plan_of(model, hw, gpus, weights, kv, tokens).bandwidth
    spare = full.weight_bytes_per_step - gain * small.weight_bytes_per_step
    return spare / ((gain - 1) * full.kv_bytes_per_step)


@figure("bytes_per_s")
def bandwidth_needed(model: str, hw: str, gpus: int, weights: str, rate: float) -> float:
    """Bandwidth that one stream of `rate` tokens per second takes for weights alone."""
    return weight_bytes_per_token(model, hw, gpus, weights, 1) * rate


@figure("sequences")
def batch_at_equal_reads(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int) -> float:
    """Batch at which a step reads as much KV as weights: beyond it a larger batch mainly adds KV."""
    bandwidth = plan_of(model, hw, gpus, weights, kv, tokens).bandwidth
    return bandwidth.weight_bytes_per_step / bandwidth.kv_bytes_per_step


@figure("tokens")
def tokens_at_equal_reads(model: str, hw: str, gpus: int, weights: str, kv: str, batch: int) -> float:
    """Context at which `batch` sequences read as much KV as weights."""
    return batch_at_equal_reads(model, hw, gpus, weights, kv, 1) / batch


@figure("sequences")
def ridge_batch(model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int) -> float:
    """Batch at which a decode step turns compute-bound."""
    ridge = plan_of(model, hw, gpus, weights, kv, tokens).compute.ridge_batch
    return math.inf if ridge is None else ridge


@figure("bytes_per_s")
def device_bandwidth(hw: str) -> float:
    return device_of(hw).accelerator.bandwidth_bytes_per_s


@figure("ratio")
def bandwidth_ratio(hw: str, over: str) -> float:
    """Bandwidth of a device over that of another."""
    return device_bandwidth(hw) / device_bandwidth(over)


@figure("flop_per_s")
def device_peak(hw: str, dtype: str) -> float:
    return device_of(hw).accelerator.peak_flop_per_s[dtype]


# --- compute --------------------------------------------------------------------------------------------------------


@figure("share")
def attention_share(model: str, tokens: float) -> float:
    """Score and value products over all FLOP of a prefill."""
    profile = model_of(model)
    attention = sum(run.layers * attention_prefill_flop(run.mixer, tokens) for run in profile.groups)
    return float(attention / prefill_flop(profile, tokens))


@figure("tokens")
def attention_equal_tokens(model: str) -> float:
    """Prompt at which attention takes as many FLOP as all matrices together."""
    return root(lambda tokens: attention_share(model, tokens) - 0.5, 1.0, FAR_TOKENS)


@figure("exponent")
def decode_growth(model: str, tokens: int, cached: bool) -> float:
    """Exponent with which the FLOP of generating n tokens grow with n: log2 of their growth from n to 2 n.

    With a cache each token costs one decode step at its context, without one a prefill of all before it.
    """

    def total(length: int) -> float:
        samples = 512  # midpoints of equal strides: the sum over every token, to parts per million
        lengths = [length * (i + 0.5) / samples for i in range(samples)]
        profile = model_of(model)
        one = decode_flop_per_token if cached else prefill_flop
        return sum(float(one(profile, at)) for at in lengths) * length / samples

    return math.log2(total(2 * tokens) / total(tokens))
