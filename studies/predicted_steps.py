"""A decode step as the ledger predicts it from other steps of the same device, by the way every plan takes."""

from dataclasses import replace

from infopt.errors import InfoptError
from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.hardware.calibration import Step
from infopt.ledgers.device_steps import device_constants
from infopt.ledgers.estimate import band_of
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import step_shape, step_terms_s
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.step_constants import StepConstants
from infopt.studies.scenarios import Request, build

# Bandwidth and peaks cancel out of calibrated constants: any will do.
HERE = Accelerator(
    id="here",
    vendor="any",
    memory_class="ddr",
    memory_bytes=2**34,
    driver_memory_bytes=None,
    usable_memory_bytes=2**34,
    bandwidth_bytes_per_s=2e10,
    peak_flop_per_s={"fp32": 1e11, "bf16": 2e11},
)


def predicted_s(step: Step, known: tuple[Step, ...]) -> tuple[float, float, float]:
    """What a decode step takes on a device of which `known` was measured, least and most of its interval.

    Errors: InfoptError where `known` says nothing about it, and for a model that is not in the catalogue.
    """
    s, constants = calibrated(step, known)
    shape = step_shape(s, constants)
    if shape is None:
        raise InfoptError(f"{step.model}: steps hold for one device")
    terms = step_terms_s(shape, constants, step.batch, step.context_tokens, 1, 1, with_stall=False)
    whole_s, band = float(sum(terms.values())), band_of(constants, step.batch)
    return whole_s, whole_s * band.low, whole_s * band.high


def calibrated(step: Step, known: tuple[Step, ...]) -> tuple[Scenario, StepConstants]:
    """The scenario of a step on a device of which `known` was measured, and its constants."""
    # Only a processor launches every kernel: steps in graphs are of a GPU.
    choice = HardwareChoice(replace(HERE, measured_steps=known, processor=step.eager), None, "here")
    request = Request(context_tokens=step.context_tokens + 1, weights=step.weights, kv=step.kv, batch=step.batch)
    s = replace(
        build(load_catalogue_model(step.model), choice, request).scenario,
        decode_context_tokens=float(step.context_tokens),
    )
    constants = device_constants(s, step.engine)
    if not isinstance(constants, StepConstants):
        raise InfoptError(f"{step.model}: {constants}")
    return s, constants
