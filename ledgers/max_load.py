"""Output rate at maximal load: all sequences the cache holds decode, and finished ones are replaced at once.

    rate = B / t,   t = X r_x + N c + D r_d + P r_p + A b_a / BW + C r_c + (stages - 1) hop
X  weights of the hit experts and KV, over bandwidth;  N  kernels;  D  decode products at dense peak
P  prompts that enter while one token is decoded, at dense peak:  sequences S1 / OSL
A  tokens of a step, prompts' included, times layers and hidden units on a rank; b_a bytes each
C  two collectives a layer over the link for those tokens
A pipeline of s stages runs s groups of B / s sequences; t is a group's time through all stages.
Fitted constants and errors: profiles/data/max_load, bench/fit_load.py. Ignored: the ramp and the tail of a run.
"""

from typing import Any

from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator
from infopt.ledgers.compute import compute_format, prefill_flop
from infopt.ledgers.links import BYTES_PER_UNIT, COLLECTIVES_PER_LAYER
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.traffic import traffic
from infopt.profiles.load_constants import LoadConstants
from infopt.profiles.step_constants import kernels_per_step


@dataclass(frozen=True, slots=True)
class LoadParts:
    """One token of every resident sequence, each part at its bound: seconds, and counts of kernels and hops."""

    traffic_s: float
    kernels: int
    decode_s: float
    prefill_s: float
    activation_s_per_byte: float
    link_s: float
    further_stages: int
    floor_s: float


def load_parts(s: Scenario) -> LoadParts | None:
    """Parts at the scenario's batch; None where a peak is not known. The floor takes k experts and perfect overlap."""
    peaks = s.accelerator.peak_flop_per_s
    peak, peak16 = peaks.get(compute_format(s)), peaks.get("bf16") or peaks.get("fp16")
    if not peak or not peak16:
        return None
    model, ranks = s.model, s.tp * s.sharing_replicas
    # Parts are multiplied by constants that were fitted to the rated bandwidth; the floor takes the measured one.
    bandwidth = s.accelerator.fitted_bandwidth_bytes_per_s
    measured_ratio = bandwidth / s.accelerator.bandwidth_bytes_per_s
    group = s.sharing_batch / s.pp
    per_rank = group / s.sharing_replicas
    stages = traffic(s)
    kv_s = sum(float(stage.kv_bytes(per_rank, s.decode_context_tokens)) for stage in stages) / bandwidth
    weights_s = sum(float(stage.weight_bytes(group)) for stage in stages) / bandwidth
    strict_s = sum(float(stage.weight_bytes(1)) for stage in stages) / bandwidth
    decode_s = group * 2.0 * model.params_active / peak / ranks
    prefill_s = group / s.output_tokens * _prompt_s(s, peak, peak16) / ranks
    work = model.layers * model.hidden * (1 + s.input_tokens / s.output_tokens)
    moved = COLLECTIVES_PER_LAYER * BYTES_PER_UNIT * group * work if ranks > 1 else 0.0
    return LoadParts(
        traffic_s=weights_s + kv_s,
        kernels=kernels_per_step(model),
        decode_s=decode_s,
        prefill_s=prefill_s,
        activation_s_per_byte=per_rank * work / bandwidth,
        link_s=moved / _link_bytes_per_s(s.accelerator),
        further_stages=s.pp - 1,
        floor_s=max((strict_s + kv_s) * measured_ratio, decode_s + prefill_s),
    )


def load_terms_s(parts: LoadParts, mixture: bool, c: LoadConstants) -> dict[str, Any]:
    """Seconds of one token of every sequence by name."""
    return {
        "weights and kv": c.traffic_ratio * parts.traffic_s,
        "kernels": parts.kernels * (c.kernel_s + (c.mixture_kernel_s if mixture else 0.0)),
        "compute": (c.decode_ratio + (c.mixture_decode_ratio if mixture else 0.0)) * parts.decode_s,
        "prefill": c.prefill_ratio * parts.prefill_s,
        "activations": c.activation_bytes * parts.activation_s_per_byte,
        "links": c.link_ratio * parts.link_s + parts.further_stages * c.hop_s,
    }


def _prompt_s(s: Scenario, peak_flop_per_s: float, peak16_flop_per_s: float) -> float:
    """One prompt at dense peak on one device: matrices in the weights' format, attention in 16 bit."""
    head = s.model.head_params or s.model.embed_params
    linear = 2.0 * (s.model.params_active - head) * s.input_tokens
    attention = float(prefill_flop(s.model, s.input_tokens)) - linear - 2.0 * head
    return linear / peak_flop_per_s + attention / peak16_flop_per_s


def _link_bytes_per_s(device: Accelerator) -> float:
    """The link between devices, PCIe where there is none; without either collectives are not counted."""
    link = device.link or device.pcie
    return link.bytes_per_s if link is not None else float("inf")
