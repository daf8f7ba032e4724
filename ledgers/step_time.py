"""How long a decode step takes on a serving engine: bytes, a fixed cost per kernel, and other requests' work.

    step  = X r_x r(B) + K r_k + N c + D r_d + c_e L_m hit / shards + B c_r
    stall = (B - 1) (S1 r_p + T c_t) / OSL        by a device's own steps: of those that start together (prompt_wave.py)
    TPOT  = step + stall
X  bytes read over bandwidth, weights with the expected distinct experts plus KV;  K  its KV part
r  time of the weights of a step of B tokens over that of one, where a device's own curve was measured, else 1
N  kernels launched, c the cost of one (by generation and format);  D  FLOP of the batch at dense peak
hit  distinct experts per mixture layer, L_m mixture layers;  B  resident sequences
S1  one prompt at dense peak, matrices in the weights' format and attention in 16 bit;  T  ISL layers hidden
Local engines: X is read at min(BW, b m) or unpacked at u FLOP a weight, whichever is slower, with b bytes per cycle and
m multiprocessor cycles per second; without flash attention each query head reads its keys and values; TP adds two
collectives a layer, PP a hop per stage.
Each of the other B - 1 sequences prefills once while one decodes OSL tokens: that is the stall.
Fitted constants, their rows and errors: profiles/data/step_time, bench/fit_speed.py, docs/accuracy.md.
Ignored: queueing past the KV capacity, speculation, pipeline bubbles.
"""

from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.multiprocessors import multiprocessor_cycles_per_s
from infopt.ledgers.arrays import along, ceil_div
from infopt.ledgers.compute import compute_format, prefill_flop
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.traffic import StageTraffic, distinct_experts, traffic
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.step_constants import FirstToken, StepConstants, kernels_per_step

# Weights of fewer bits are unpacked before they are multiplied.
FULL_PRECISION_BITS = 16
ANY_PEAK = 1e12  # FLOP/s, where the dense peak of a device with steps of its own is not known


@dataclass(frozen=True, slots=True)
class StepShape:
    """What the step time of a placement depends on, with batch, context and lengths left free.

    devices          devices that share one prompt's work
    dp               attention replicas that share the experts (else 1)
    bandwidth_bytes_per_s  that the constants were fitted to: the rated one, also where a calibration measured another
    flop_per_s       dense peak of one device in the weights' format; flop16_per_s in 16 bit
    linear_flop_per_token  matrices of a prompt token, the head left out; decode_flop_per_token with it
    kernel_s         cost of one kernel on this device in this format
    weight_ratio     seconds a weight byte takes over those of its bandwidth
    head_ratio       the same for a cached byte that every query head reads for itself, 0 with flash attention
    links_s          collectives and hops of one step
    batched_tokens   most tokens of one step
    """

    model: ModelProfile
    stages: tuple[StageTraffic, ...]
    devices: int
    dp: int
    bandwidth_bytes_per_s: float
    flop_per_s: float
    flop16_per_s: float
    linear_flop_per_token: float
    decode_flop_per_token: float
    kernels: int
    kernel_s: float
    mixture_layers: int
    experts: int
    experts_per_token: int
    expert_ranks: int
    weight_ratio: float
    head_ratio: float
    links_s: float
    batched_tokens: int


def step_shape(s: Scenario, constants: StepConstants) -> StepShape | None:
    """Compile a scenario; None where the device's peaks are not known, or where constants hold for fewer devices."""
    if constants.of_device and s.tp * s.pp * s.sharing_replicas > 1:
        return None
    peaks = s.accelerator.peak_flop_per_s
    peak, peak16 = peaks.get(compute_format(s)), peaks.get("bf16") or peaks.get("fp16")
    if constants.prompt_by_cycles:
        peak = peak16 = multiprocessor_cycles_per_s(s.accelerator)
    if constants.of_device:
        # Peaks cancel out of what was measured here; in 32 bit a processor multiplies attention in 32 bit too.
        peak = peak or ANY_PEAK
        peak16 = peak16 or peak
    if not peak or not peak16:
        return None
    mixtures = [run for run in s.model.groups if run.feed_forward.experts]
    first = mixtures[0].feed_forward if mixtures else None
    head = s.model.head_params or s.model.embed_params
    return StepShape(
        model=s.model,
        stages=traffic(s),
        devices=s.tp * s.pp * s.sharing_replicas,
        dp=s.sharing_replicas,
        bandwidth_bytes_per_s=s.accelerator.fitted_bandwidth_bytes_per_s,
        flop_per_s=peak,
        flop16_per_s=peak16,
        linear_flop_per_token=2.0 * (s.model.params_active - head),
        decode_flop_per_token=2.0 * s.model.params_active,
        kernels=kernels_per_step(s.model),
        kernel_s=kernel_cost_s(s, constants),
        mixture_layers=sum(run.layers for run in mixtures),
        experts=first.experts if first else 0,
        experts_per_token=first.experts_per_token if first else 0,
        expert_ranks=max(1, s.ep),
        weight_ratio=_weight_ratio(s, constants),
        head_ratio=_head_ratio(s, constants),
        links_s=_links_s(s, constants),
        batched_tokens=s.max_num_batched_tokens,
    )


def _weight_ratio(s: Scenario, c: StepConstants) -> float:
    """1 / efficiency, times the bandwidth over what loads in flight or unpacking allow where that is less."""
    bandwidth = s.accelerator.fitted_bandwidth_bytes_per_s
    slowest = 1.0
    if c.bytes_per_cycle is not None:
        cycles = multiprocessor_cycles_per_s(s.accelerator)
        slowest = max(slowest, bandwidth / (c.bytes_per_cycle * cycles)) if cycles else slowest
    bits = s.weight_bits["expert" if s.model.experts else "mlp"]
    peak = s.accelerator.peak_flop_per_s.get("fp32")
    if c.flop_per_weight is not None and bits < FULL_PRECISION_BITS and peak:
        slowest = max(slowest, bandwidth * c.flop_per_weight * 8 / bits / peak)
    return c.traffic_ratio * slowest


def _head_ratio(s: Scenario, c: StepConstants) -> float:
    """Cached bytes times the query heads that share them, at the cycles a multiprocessor needs for a byte."""
    cycles = multiprocessor_cycles_per_s(s.accelerator) if c.head_bytes_per_cycle is not None else None
    if not cycles or c.head_bytes_per_cycle is None:
        return 0.0
    mixers = [(run.layers, run.mixer) for run in s.model.groups if run.mixer.kv_heads]
    kept = sum(layers * mixer.kv_heads for layers, mixer in mixers)
    sharing = sum(layers * mixer.q_heads for layers, mixer in mixers) / kept if kept else 0.0
    return s.accelerator.fitted_bandwidth_bytes_per_s * sharing / (c.head_bytes_per_cycle * cycles)


def _links_s(s: Scenario, c: StepConstants) -> float:
    """Two collectives a layer under TP, one hop for each further pipeline stage."""
    one = c.collective_s if s.accelerator.link is not None else c.collective_pcie_s
    return (2 * s.model.layers * one if s.tp > 1 else 0.0) + (s.pp - 1) * c.hop_s


def kernel_cost_s(s: Scenario, c: StepConstants) -> float:
    """Cost of one kernel: more before compute capability 10, and for 8-bit weights (quantized inputs) from 10 on."""
    newest = (s.accelerator.cuda_capability or 0.0) >= 10
    if not newest:
        return c.kernel_s + c.kernel_before_cc10_s
    return c.kernel_s + (c.kernel_fp8_cc10_s if s.weight_format in ("fp8", "fp8_block") else 0.0)


def prompt_at_peak_s(shape: StepShape, prompt_tokens: Any) -> Any:
    """S1: one prompt at dense peak on all devices that share it."""
    return sum(prompt_parts_s(shape, prompt_tokens, 0))


def prompt_parts_s(shape: StepShape, prompt_tokens: Any, cached_tokens: Any) -> tuple[Any, Any]:
    """S1 of matrices and of attention, for a prompt behind tokens that are cached."""
    linear = shape.linear_flop_per_token * prompt_tokens
    head = 2.0 * (shape.model.head_params or shape.model.embed_params)
    whole = prefill_flop(shape.model, prompt_tokens + cached_tokens) - head
    # Most prompts have nothing cached before them; then all of it is left out, down to the last bit.
    nothing = isinstance(cached_tokens, int | float) and cached_tokens == 0
    before = 0.0 if nothing else prefill_flop(shape.model, cached_tokens) - head
    attention = whole - before - linear
    return linear / shape.flop_per_s / shape.devices, attention / shape.flop16_per_s / shape.devices


def prompt_work_s(shape: StepShape, c: StepConstants, input_tokens: Any, cached_tokens: Any = 0) -> Any:
    """S1 r_p + T c_t: time that one prompt takes from all others of its replica, what is cached of it left out.

    By a device's own steps it is what a step takes longer with the prompt in it.
    """
    new_tokens = input_tokens - cached_tokens
    per_token = new_tokens * (shape.model.layers * shape.model.hidden) * c.prefill_token_s / shape.dp
    linear, attention = prompt_parts_s(shape, new_tokens, cached_tokens)
    attention_ratio = c.first_token.attention_ratio if c.of_device and c.first_token else None
    return c.prefill_ratio * linear + (attention_ratio or c.prefill_ratio) * attention + per_token


def step_terms_s(
    shape: StepShape,
    c: StepConstants,
    batch: Any,
    context_tokens: Any,
    input_tokens: Any,
    output_tokens: Any,
    cached_tokens: Any = 0,
    with_stall: bool = True,
) -> dict[str, Any]:
    """Seconds of one output token by name; numbers or arrays; the stall costs most to compute and may be left out.

    batch counts the sequences of all replicas that share the experts; context_tokens is the mean of a decode step;
    cached_tokens of every prompt are found in a prompt cache.
    """
    per_replica = batch / shape.dp
    bandwidth = shape.bandwidth_bytes_per_s
    weights = sum(stage.weight_bytes(batch) for stage in shape.stages) / bandwidth
    kv = sum(stage.kv_bytes(per_replica, context_tokens) for stage in shape.stages) / bandwidth
    products = batch * shape.decode_flop_per_token / shape.flop_per_s / shape.devices
    terms = {
        "weights": shape.weight_ratio * weights_at(c, weights, per_replica),
        "kv": (c.traffic_ratio + c.kv_extra_ratio) * kv,
        "kernels": shape.kernels * shape.kernel_s + 0.0 * batch,
    }
    if c.decode_ratio:
        terms["compute"] = c.decode_ratio * products
    if c.request_s:
        terms["requests"] = c.request_s * per_replica
    if with_stall and (c.prefill_ratio or c.prefill_token_s):
        terms["prefill stall"] = prompt_stall_s(shape, c, batch, input_tokens, output_tokens, cached_tokens)
    if shape.experts and c.expert_s:
        hit = distinct_experts(shape.experts, shape.experts_per_token, batch)
        terms["experts"] = c.expert_s * shape.mixture_layers * hit / shape.expert_ranks
    if shape.head_ratio:
        terms["attention"] = shape.head_ratio * kv
    if shape.links_s:
        terms["links"] = shape.links_s + 0.0 * batch
    return terms


def prompt_stall_s(
    shape: StepShape, c: StepConstants, batch: Any, input_tokens: Any, output_tokens: Any, cached_tokens: Any = 0
) -> Any:
    """Seconds that an output token waits for prompts of others on average."""
    work_s = prompt_work_s(shape, c, input_tokens, cached_tokens)
    if not c.of_device:
        return (batch - 1) / output_tokens * work_s
    from infopt.ledgers.prompt_wave import mean_stall  # only with a calibration

    return mean_stall(batch, input_tokens - cached_tokens, output_tokens, shape.batched_tokens) * work_s


def weights_once_s(shape: StepShape) -> Any:
    """Seconds in which one token's weights are read."""
    read = sum(stage.weight_bytes(1) for stage in shape.stages)
    return shape.weight_ratio * read / shape.bandwidth_bytes_per_s


def weights_at(c: StepConstants, weights_s: Any, tokens: Any) -> Any:
    """Seconds of the weights of a step of so many tokens, from those at bandwidth; by the device's curve if it has one.

    What a measured curve adds is products as much as bytes: a kernel for few rows may take longer than one for more.
    """
    return weights_s if c.weight_curve is None else weights_s * along(c.weight_curve, tokens)


def first_token_s(
    shape: StepShape, c: StepConstants, tpot_s: Any, batch: Any, input_tokens: Any, cached_tokens: Any = 0
) -> Any:
    """Time to the first token: steps of latency, one eager prefill step, the prompt, a share of the others'."""
    f = first_token_of(c)
    linear, attention = prompt_parts_s(shape, input_tokens, cached_tokens)
    work = input_tokens * (shape.model.layers * shape.model.hidden)
    attention_ratio = f.prefill_ratio if f.attention_ratio is None else f.attention_ratio
    fill = 1.0 if f.chunk_tokens is None else prompt_fill_ratio(shape, f.chunk_tokens, input_tokens)
    prompt_s = fill * (f.prefill_ratio * linear + attention_ratio * attention)
    once_s = shape.kernels * f.kernel_s + (weights_once_s(shape) if c.of_device else 0.0)
    own = f.steps * tpot_s + once_s + prompt_s + f.token_s * work
    if c.of_device:
        from infopt.ledgers.prompt_wave import mean_wait  # only with a calibration

        return own * mean_wait(batch, input_tokens, shape.batched_tokens, once_s / own)
    return own + (batch - 1) * (f.queue_ratio * (linear + attention) + f.queue_token_s * work)


def first_token_of(c: StepConstants) -> FirstToken:
    """Constants of the first token; raises where none was measured."""
    if c.first_token is None:
        raise InfoptError(f"no first token was measured: {c.source}")
    return c.first_token


def prompt_fill_ratio(shape: StepShape, chunk_tokens: int, input_tokens: Any) -> Any:
    """(chunks + stages - 1) / chunks: stages of a pipeline wait for the first piece, or for all of a short prompt."""
    chunks = ceil_div(input_tokens, chunk_tokens)
    return (chunks + len(shape.stages) - 1) / chunks
