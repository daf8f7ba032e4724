"""Constants of the step-time model, by engine, memory class and kind of model, and the kernels a layer launches."""

from functools import cache
from pathlib import Path
from typing import Any, Literal

from infopt.profiles.geometry import ModelProfile
from infopt.records import Record, load_record, names_in, read_yaml

_DATA = Path(__file__).resolve().parent / "data"
FOLDER = _DATA / "step_time"


class Band(Record):
    """Measured over predicted, 5th to 95th percentile, up to `sequences` at once; the model left out of the fit."""

    sequences: int
    low: float
    high: float


class FirstToken(Record):
    """TTFT = steps x TPOT + N kernel_s + S1 prefill_ratio + T token_s + (C - 1)(S1 queue_ratio + T queue_token_s).

    S1 is the prompt at dense peak, T tokens x layers x hidden of the prompt, C clients.

    attention_ratio  for the attention part of S1 where it differs from prefill_ratio
    chunk_tokens     of the pieces in which a prompt passes pipeline stages
    """

    steps: float
    kernel_s: float
    prefill_ratio: float
    token_s: float
    queue_ratio: float
    queue_token_s: float
    low: float
    high: float
    attention_ratio: float | None = None
    chunk_tokens: int | None = None


class Measured(Record):
    """Least and most of what the measurements of a class had: what lies outside is extrapolated.

    sequences       at once in one replica, or in those that share experts
    devices         of one replica, or of those that share experts
    stages          of a pipeline
    prompt_tokens   of one request; None where no first token was measured
    context_tokens  mean of a decode step; None where no step was measured
    pcie            whether tensor parallelism over PCIe was among them
    weight_bytes    read by a step of one token; None where a fit spans so many models that size is no bound
    """

    sequences: list[int]
    devices: list[int]
    stages: list[int]
    prompt_tokens: list[int] | None = None
    context_tokens: list[int] | None = None
    pcie: bool
    weight_bytes: list[float] | None = None


class StepConstants(Record):
    """Coefficients of ledgers/step_time.py for a class of deployments.

    engines, memory_classes, vendors, mixture  where they hold
    traffic_ratio     1 / efficiency of weight and KV reads (at least 1: nothing beats the bytes)
    kv_extra_ratio    added for KV reads
    kernel_s          fixed cost of one kernel; the two others are added before compute capability 10, and for
                      8-bit block weights from 10 on
    prefill_ratio     1 / MFU of prompts that others prefill while one decodes
    decode_ratio      1 / MFU of decode products
    expert_s          cost of one hit expert of one layer on its rank
    prefill_token_s   per layer, hidden unit and prefill token of other requests: work that TP does not divide
    request_s         per resident request and step
    bytes_per_cycle   weights a multiprocessor takes in per cycle at most, where its kernels keep few loads in flight
    flop_per_weight   to unpack one quantized weight, where that is what bounds its reading
    head_bytes_per_cycle  keys and values a multiprocessor takes in per cycle where each query head reads its own
                      (engines without flash attention)
    collective_s      of the two collectives of a layer under TP, by a link between devices or over PCIe
    hop_s             from one pipeline stage to the next
    prompt_by_cycles  S1 is at one FLOP per multiprocessor cycle, not at dense peak: what kernels that are not tuned to
                      each device reach
    formats_before_cc10, formats_from_cc10  weight formats measured on devices of either side, None for any
    most_sequences    resident sequences up to which steps were measured, None for any, 0 where only first tokens were
    weight_curve      [tokens of a step, time of its weights over that of one token], where it was measured
    of_device         from steps of one device (ledgers/device_steps.py): hold for it alone, and for a single one
    measured          the range of the measurements
    """

    engines: list[str]
    memory_classes: list[str]
    vendors: list[str]
    mixture: bool | None
    min_compute_capability: float
    kind: Literal["measured", "assumed"]
    traffic_ratio: float
    kv_extra_ratio: float
    kernel_s: float
    kernel_before_cc10_s: float
    kernel_fp8_cc10_s: float
    prefill_ratio: float
    decode_ratio: float
    expert_s: float
    prefill_token_s: float
    request_s: float
    bytes_per_cycle: float | None = None
    flop_per_weight: float | None = None
    head_bytes_per_cycle: float | None = None
    collective_s: float = 0.0
    collective_pcie_s: float = 0.0
    hop_s: float = 0.0
    prompt_by_cycles: bool = False
    most_sequences: int | None = None
    formats_before_cc10: list[str] | None = None
    formats_from_cc10: list[str] | None = None
    weight_curve: list[list[float]] | None = None
    of_device: bool = False
    bands: list[Band]
    first_token: FirstToken | None = None
    measured: Measured
    source: str

    def measured_formats(self, compute_capability: float | None) -> list[str] | None:
        """Weight formats measured on such devices, None where all behave alike."""
        return self.formats_from_cc10 if (compute_capability or 0.0) >= 10 else self.formats_before_cc10


@cache
def _counts() -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(_DATA / "kernels.yaml")
    return data


def kernels_per_step(model: ModelProfile) -> int:
    """Kernels of one decode step: the sum over layers of what each is made of."""
    counts = _counts()
    total = 0
    for run in model.runs:
        mixer, ff = run.mixer, run.feed_forward
        kernels = counts["mixers"][mixer.kind] + counts["feed_forwards"][ff.kind]
        kernels += counts["qk_norm"] if mixer.qk_norm else 0
        kernels += counts["extra_norm"] * max(0, run.norm_params // model.hidden - 2)
        kernels += counts["shared_expert"] if ff.shared_params else 0
        total += run.layers * kernels
    return total


@cache
def _class(name: str) -> StepConstants:
    return load_record(StepConstants, FOLDER, name, "step-time class", "see profiles/data/step_time")


def step_constants(
    engine: str, memory_class: str, vendor: str, compute_capability: float | None, mixture: bool
) -> StepConstants | None:
    """The class a deployment belongs to, None where no measurements cover it."""
    for name in _candidates(engine, mixture):
        record = _class(name)
        fits = engine in record.engines and memory_class in record.memory_classes and vendor in record.vendors
        capable = record.min_compute_capability <= (compute_capability or 0.0)
        if fits and capable and record.mixture in (None, mixture):
            return record
    return None


def _candidates(engine: str, mixture: bool) -> tuple[str, ...]:
    """Records worth reading: of servers the one of the kind of model, of local engines those that carry the name.

    Local records are called `local__ENGINE+ENGINE__DEVICES`.
    """
    names = names_in(FOLDER)
    own = tuple(name for name in names if name.startswith("local__") and engine in name.split("__")[1].split("+"))
    return own or tuple(name for name in names if name == f"served-{'mixture' if mixture else 'dense'}")
