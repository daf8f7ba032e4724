"""Step-time constants of one device from steps measured on it: what replaces the constants of its class.

    step   = N c + W a r(n) + K b          device_fit.py has the fit, device_bands.py its interval
    prompt = N c + W a + F g               requests that start together: prompt_wave.py
Dense models on one device. Errors are texts: they say why there are no constants.
"""

from collections.abc import Sequence

from infopt.hardware.calibration import Step
from infopt.ledgers.arrays import larger, smaller
from infopt.ledgers.compute import compute_format
from infopt.ledgers.device_bands import band, bands_of, doublings
from infopt.ledgers.device_fit import SAME_RATIO, DeviceFit, curve_at, fit_steps, prompt_s_per_flop
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import ANY_PEAK
from infopt.ledgers.traffic import traffic
from infopt.profiles.step_constants import FirstToken, Measured, StepConstants


def device_constants(s: Scenario, engine: str | None = None) -> StepConstants | str | None:
    """Constants from the device's own steps of the scenario's engine (or of `engine`, which then stands in for it).

    None where none were measured; a text where some were, but not what the scenario needs.
    """
    engine = engine or s.engine.engine
    measured = tuple(step for step in s.accelerator.measured_steps if step.engine == engine and step.tp == 1)
    if not measured:
        return None
    where = f"{engine} on {s.accelerator.name or s.accelerator.id}"
    if s.tp * s.pp * s.sharing_replicas > 1:
        return f"steps of {where} were measured on one device: what several say to each other was not"
    if s.model.experts:
        return f"steps of {where} were measured with dense models, {s.model.id} has experts"
    eager = s.eager or s.accelerator.processor  # nothing is captured on a processor
    wanted = (s.weight_format, s.kv_format, eager)
    steps = tuple(step for step in measured if (step.weights, step.kv, step.eager) == wanted)
    if not steps:
        return f"steps of {where} were measured with {_forms(measured)}, not {_form(*wanted)}"
    fit = fit_steps(steps)
    if isinstance(fit, str):
        return f"{where}: {fit}"
    weight_bytes = sum(float(stage.weight_bytes(1)) for stage in traffic(s))
    if fit.is_one_size and not 1 / SAME_RATIO < weight_bytes / fit.sizes_bytes[0] < SAME_RATIO:
        return f"{where}: one size of model was measured, from which no other follows; `infopt probe latency` takes two"
    return _constants(s, fit, engine, weight_bytes)


def _form(weights: str, kv: str, eager: bool) -> str:
    return f"{weights} weights and {kv} cache {'without' if eager else 'in'} graphs"


def _forms(steps: Sequence[Step]) -> str:
    return "; ".join(sorted({_form(step.weights, step.kv, step.eager) for step in steps}))


def _constants(s: Scenario, fit: DeviceFit, engine: str, weight_bytes: float) -> StepConstants:
    bandwidth = s.accelerator.fitted_bandwidth_bytes_per_s
    curve = curve_at(fit.curves, weight_bytes)
    last = int(curve[-1][0]) if curve else 1
    first = _first_token(s, fit, weight_bytes) if fit.prompts else None
    return StepConstants(
        engines=[engine],
        memory_classes=[s.accelerator.memory_class],
        vendors=[s.accelerator.vendor],
        mixture=False,
        min_compute_capability=0.0,
        kind="measured",
        traffic_ratio=fit.weight_s_per_byte * bandwidth,
        kv_extra_ratio=(fit.kv_s_per_byte - fit.weight_s_per_byte) * bandwidth,
        kernel_s=fit.kernel_s,
        kernel_before_cc10_s=0.0,
        kernel_fp8_cc10_s=0.0,
        prefill_ratio=first.prefill_ratio if first is not None else 0.0,
        decode_ratio=0.0,
        expert_s=0.0,
        prefill_token_s=0.0,
        request_s=0.0,
        weight_curve=[list(point) for point in curve] if curve else None,
        of_device=True,
        bands=bands_of(s, fit, weight_bytes, curve or ((1.0, 1.0),)),
        first_token=first,
        measured=Measured(
            sequences=[1, last],
            devices=[1, 1],
            stages=[1, 1],
            prompt_tokens=list(fit.prompts_tokens) if fit.prompts_tokens else None,
            context_tokens=list(fit.contexts_tokens),
            pcie=False,
            weight_bytes=list(fit.sizes_bytes),
        ),
        source=fit.source,
    )


def _first_token(s: Scenario, fit: DeviceFit, weight_bytes: float) -> FirstToken | None:
    """The first token of a prompt alone: a step of one token, and its FLOP as long as those of the measured prompts."""
    peaks = s.accelerator.peak_flop_per_s
    peak = peaks.get(compute_format(s)) or ANY_PEAK
    peak16 = peaks.get("bf16") or peaks.get("fp16") or peak
    if fit.prompts_tokens is None:
        return None
    sizes = (fit.prompts[0][0], fit.prompts[-1][0])
    interval = band(fit, 1, doublings(s.input_tokens, *fit.prompts_tokens) + doublings(weight_bytes, *sizes))
    flop_s = prompt_s_per_flop(fit.prompts, weight_bytes)
    return FirstToken.model_construct(
        steps=0.0,
        kernel_s=fit.kernel_s,
        prefill_ratio=flop_s * peak,
        attention_ratio=flop_s * peak16,
        token_s=0.0,
        queue_ratio=0.0,
        queue_token_s=0.0,
        low=smaller(interval.low, fit.prompt_ratios[0]),
        high=larger(interval.high, fit.prompt_ratios[1]),
    )
