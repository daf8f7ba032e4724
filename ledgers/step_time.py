"""How long a decode step takes on a serving engine: bytes, a fixed cost per kernel, and other requests' work.

    step  = X r_x + K r_k + N c + D r_d + c_e L_m hit / shards + B c_r
    stall = (B - 1) (S1 r_p + T c_t) / OSL
    TPOT  = step + stall
X  bytes read over bandwidth, weights with the expected distinct experts plus KV;  K  its KV part
N  kernels launched, c the cost of one (by generation and format);  D  FLOP of the batch at dense peak
hit  distinct experts per mixture layer, L_m mixture layers;  B  resident sequences
S1  one prompt at dense peak, matrices in the weights' format and attention in 16 bit;  T  ISL layers hidden
Each of the other B - 1 sequences prefills once while one decodes OSL tokens: that is the stall.
Fitted constants, their rows and errors: profiles/data/step_time, bench/fit_speed.py, docs/accuracy.md.
Ignored: queueing past the KV capacity, speculation, pipeline bubbles.
"""

from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.compute import compute_format, prefill_flop
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.traffic import StageTraffic, distinct_experts, traffic
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.step_constants import StepConstants, kernels_per_step


@dataclass(frozen=True, slots=True)
class StepShape:
    """What the step time of a placement depends on, with batch, context and lengths left free.

    devices          devices that share one prompt's work
    dp               attention replicas that share the experts (else 1)
    flop_per_s       dense peak of one device in the weights' format; flop16_per_s in 16 bit
    linear_flop_per_token  matrices of a prompt token, the head left out
    kernel_s         cost of one kernel on this device in this format
    """

    model: ModelProfile
    stages: tuple[StageTraffic, ...]
    devices: int
    dp: int
    bandwidth_bytes_per_s: float
    flop_per_s: float
    flop16_per_s: float
    linear_flop_per_token: float
    kernels: int
    kernel_s: float
    mixture_layers: int
    experts: int
    experts_per_token: int
    expert_ranks: int


def step_shape(s: Scenario, constants: StepConstants) -> StepShape | None:
    """Compile a scenario; None where the device's peaks are not known."""
    peaks = s.accelerator.peak_flop_per_s
    peak, peak16 = peaks.get(compute_format(s)), peaks.get("bf16") or peaks.get("fp16")
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
        bandwidth_bytes_per_s=s.accelerator.bandwidth_bytes_per_s,
        flop_per_s=peak,
        flop16_per_s=peak16,
        linear_flop_per_token=2.0 * (s.model.params_active - head),
        kernels=kernels_per_step(s.model),
        kernel_s=kernel_cost_s(s, constants),
        mixture_layers=sum(run.layers for run in mixtures),
        experts=first.experts if first else 0,
        experts_per_token=first.experts_per_token if first else 0,
        expert_ranks=max(1, s.ep),
    )


def kernel_cost_s(s: Scenario, c: StepConstants) -> float:
    """Cost of one kernel: more before compute capability 10, and for 8-bit weights (quantized inputs) from 10 on."""
    newest = (s.accelerator.cuda_capability or 0.0) >= 10
    if not newest:
        return c.kernel_s + c.kernel_before_cc10_s
    return c.kernel_s + (c.kernel_fp8_cc10_s if s.weight_format in ("fp8", "fp8_block") else 0.0)


def prompt_at_peak_s(shape: StepShape, prompt_tokens: Any) -> Any:
    """S1: one prompt at dense peak on all devices that share it."""
    linear = shape.linear_flop_per_token * prompt_tokens
    head = 2.0 * (shape.model.head_params or shape.model.embed_params)
    attention = prefill_flop(shape.model, prompt_tokens) - linear - head
    return (linear / shape.flop_per_s + attention / shape.flop16_per_s) / shape.devices


def step_terms_s(
    shape: StepShape, c: StepConstants, batch: Any, context_tokens: Any, input_tokens: Any, output_tokens: Any
) -> dict[str, Any]:
    """Seconds of one output token by name; numbers or arrays.

    batch counts the sequences of all replicas that share the experts; context_tokens is the mean of a decode step.
    """
    per_replica = batch / shape.dp
    bandwidth = shape.bandwidth_bytes_per_s
    weights = sum(stage.weight_bytes(batch) for stage in shape.stages) / bandwidth
    kv = sum(stage.kv_bytes(per_replica, context_tokens) for stage in shape.stages) / bandwidth
    products = batch * 2.0 * shape.model.params_active / shape.flop_per_s / shape.devices
    prompt_s = prompt_at_peak_s(shape, input_tokens)
    others = (batch - 1) / output_tokens
    per_token = input_tokens * (shape.model.layers * shape.model.hidden) * c.prefill_token_s / shape.dp
    terms = {
        "weights": c.traffic_ratio * weights,
        "kv": (c.traffic_ratio + c.kv_extra_ratio) * kv,
        "kernels": shape.kernels * shape.kernel_s + 0.0 * batch,
        "compute": c.decode_ratio * products,
        "requests": c.request_s * per_replica,
        "prefill stall": others * (c.prefill_ratio * prompt_s + per_token),
    }
    if shape.experts:
        hit = distinct_experts(shape.experts, shape.experts_per_token, batch)
        terms["experts"] = c.expert_s * shape.mixture_layers * hit / shape.expert_ranks
    return terms


def first_token_s(shape: StepShape, c: StepConstants, tpot_s: Any, batch: Any, input_tokens: Any) -> Any:
    """Time to the first token: steps of latency, one eager prefill step, the prompt, a share of the others'."""
    f = c.first_token
    prompt_s = prompt_at_peak_s(shape, input_tokens)
    work = input_tokens * (shape.model.layers * shape.model.hidden)
    own = f.steps * tpot_s + shape.kernels * f.kernel_s + f.prefill_ratio * prompt_s + f.token_s * work
    return own + (batch - 1) * (f.queue_ratio * prompt_s + f.queue_token_s * work)
