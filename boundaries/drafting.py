"""How a draft is made here: its passes, what the engine does between them, the memory it takes.

    cycle = t_verify(B, 1 + d g) + g (t_pass(B) + pass overhead) + cycle overhead + scheduling lost
A draft model is a scenario of its own on the same devices. A head (EAGLE, MTP) is one layer of the target's own shape
with the target's head; Medusa heads are matrices read once each. Overheads are data (data/draft_methods.yaml).
Memory: weights beside the model, and its keys and values for every token of the target's cache, as full layers of the
target (rounded up to whole layers).
Ignored: the accepted tokens a draft must read again, and a head's own smaller vocabulary (EAGLE-3).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from infopt.boundaries.deciding import checked_yaml
from infopt.boundaries.load import DraftMethod
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps, off_alike, steps_of
from infopt.frozen import dataclass
from infopt.ledgers.cache import layer_bytes_per_token
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import FULL_PRECISION_BITS
from infopt.ledgers.weights import layer_rank_bytes, stage_rank_bytes
from infopt.profiles.engines import in_versions
from infopt.profiles.formats import load_weight_format
from infopt.profiles.geometry import FeedForward, LayerRun
from infopt.records import Record

# Best value with its ends: low, best, high.
Seconds = tuple[float, float, float]
NOTHING: Seconds = (0.0, 0.0, 0.0)


class Scheduling(Record):
    """What an engine gives up for some methods, in versions from `since` on and before `until`; seconds of a cycle."""

    engine: str
    methods: list[str]
    since: str | None = None
    until: str | None = None
    text: str
    value: float
    low: float
    high: float
    kind: str
    source: str

    def holds(self, s: Scenario, method: str) -> bool:
        """Whether this engine, in this version, gives it up."""
        meant = s.engine.engine == self.engine and method in self.methods
        return meant and in_versions(s.engine_version, self.since, self.until)


@dataclass(frozen=True, slots=True)
class Drafting:
    """Drafts of one method in one situation.

    steps      of the draft model or head on the same devices, None where no layer runs
    pass_s     of each drafted token beyond those steps; cycle_s of each cycle
    lost       what the engine gives up, in words
    """

    method: DraftMethod
    steps: Steps | None
    pass_s: Seconds
    cycle_s: Seconds
    lost: str

    def draft_s(self, target: Steps, batch: float, context_tokens: float, end: int = 1) -> float:
        """One drafted token of `batch` sequences; `end` 0, 1 or 2 takes the low, best or high overhead."""
        if self.steps is None:
            return self.pass_s[end]
        here, there = target.scenario, self.steps.scenario
        own = batch / here.sharing_replicas * there.sharing_replicas
        return off_alike(self.steps, target).step_s(own, context_tokens) + self.pass_s[end]


def drafting(situation: Situation) -> Drafting:
    """How a draft is made by the method of the load, or by the cheapest that needs nothing."""
    s, method = situation.scenario, method_of(situation)
    row = _data()["methods"][method]
    draft = draft_scenario(situation, method)
    lost = next((row for row in _scheduling() if row.holds(s, method)), None)
    beside = (lost.low, lost.value, lost.high) if lost else NOTHING
    head_s = _head_s(s) if row["passes"] == "head" else 0.0
    return Drafting(
        method=method,
        steps=None if draft is None else _pass_steps(draft),
        pass_s=_ends(row["pass"], (head_s, head_s, head_s)),
        cycle_s=_ends(row["cycle"], beside),
        lost=lost.text if lost else "",
    )


def _pass_steps(draft: Scenario) -> Steps:
    """Steps of a draft: what an engine does for each resident request it does once a cycle, not once a pass."""
    steps = steps_of(draft)
    if steps.constants is None:
        return steps
    return replace(steps, constants=steps.constants.model_copy(update={"request_s": 0.0}))


def _ends(row: Mapping[str, float], beside: Seconds) -> Seconds:
    """Low, best and high of a row of data, each with what comes beside it."""
    low, best, high = beside
    return row["low"] + low, row["value"] + best, row["high"] + high


def method_of(situation: Situation) -> DraftMethod:
    """The method asked about: a draft model where one is given, the model's own prediction layer, else n-grams."""
    draft = situation.load.draft
    if draft.method is not None:
        return draft.method
    if draft.scenario is not None:
        return "draft-model"
    return "mtp" if situation.scenario.model.mtp_layers else "ngram"


def draft_scenario(situation: Situation, method: DraftMethod) -> Scenario | None:
    """What runs for a drafted token, as a model of its own on the target's devices; None where nothing does."""
    s, passes = situation.scenario, _data()["methods"][method]["passes"]
    if passes == "layer":
        return _head_scenario(s, method)
    beside = situation.load.draft.scenario
    if passes != "model" or beside is None:
        return None
    return replace(
        beside,
        batch=s.batch,
        input_tokens=s.input_tokens,
        output_tokens=s.output_tokens,
        context_tokens=s.context_tokens,
        decode_context_tokens=s.decode_context_tokens,
    )


def _head_scenario(s: Scenario, method: DraftMethod) -> Scenario:
    """One layer of the target's shape with its head: EAGLE's is dense and in 16 bits, MTP's like the model's."""
    runs = [run for run in s.model.runs if run.mixer.kv_heads] or list(s.model.runs)
    layer, bits = replace(runs[-1], layers=1), s.weight_bits["mtp"]
    if method == "eagle":
        layer, bits = _dense_layer(s.model.hidden, runs), FULL_PRECISION_BITS
        s = replace(s, weight_format="bf16", weight_compute=load_weight_format("bf16").compute)
    model = replace(s.model, runs=(layer,), quantization=None)
    kept = ("head", "embedding", "small")
    return replace(
        s,
        model=model,
        gpus=s.tp * s.dp,
        pp=1,
        ep=s.ep if model.experts else 1,
        weight_bits={part: own if part in kept else bits for part, own in s.weight_bits.items()},
    )


def _dense_layer(hidden: int, runs: Sequence[LayerRun]) -> LayerRun:
    """The last dense layer of the target; a mixture gets one of the usual width."""
    full = [run for run in runs if not run.mixer.window_tokens] or list(runs)
    dense = [run for run in full if not run.feed_forward.experts]
    if dense:
        return replace(dense[-1], layers=1)
    width = round(_data()["head_width"]["value"] * hidden)
    own = FeedForward(kind="dense", mlp_params=3 * hidden * width, intermediate=width)
    return replace(full[-1], layers=1, feed_forward=own)


def _head_s(s: Scenario) -> float:
    """Reading one Medusa head: a square matrix and a head of its own, in 16 bits, split over TP."""
    params = s.model.hidden * (s.model.hidden + s.model.vocab)
    return params * FULL_PRECISION_BITS / 8 / s.tp / s.accelerator.bandwidth_bytes_per_s


def with_draft(situation: Situation, method: DraftMethod, drafted_tokens: int) -> Scenario:
    """The target with the memory a draft takes."""
    s = situation.scenario
    draft = draft_scenario(situation, method)
    own_layer = method == "mtp"
    weights = 0.0 if own_layer else draft_bytes(s, draft, method, drafted_tokens)
    return replace(
        s,
        extra_bytes_per_gpu=s.extra_bytes_per_gpu + weights,
        extra_cache_layers=s.extra_cache_layers + _cache_layers(s, draft),
        speculative_tokens=drafted_tokens,
        mtp_loaded=s.mtp_loaded or own_layer,
    )


def draft_bytes(s: Scenario, draft: Scenario | None, method: DraftMethod, drafted_tokens: int) -> float:
    """Weights of a draft on one device; a head shares the target's embedding and output matrices."""
    if method == "medusa":
        params = drafted_tokens * s.model.hidden * (s.model.hidden + s.model.vocab)
        return params * FULL_PRECISION_BITS / 8 / s.tp
    if draft is None:
        return 0.0
    if method == "draft-model":
        return stage_rank_bytes(draft.model.runs, draft, True, True)
    # The layer, and the matrix that joins a hidden state with an embedding.
    joined = 2 * s.model.hidden**2 * FULL_PRECISION_BITS / 8 / s.tp
    return layer_rank_bytes(draft.model.runs[0], draft) + joined


def _cache_layers(s: Scenario, draft: Scenario | None) -> int:
    """Keys and values of the draft, in full layers of the target."""
    if draft is None:
        return 0
    whole = [run for run in s.model.runs if not run.mixer.window_tokens and _cached(run, s)] or s.model.runs
    widest = max(_cached(run, s) for run in whole)
    if not widest:
        return 0
    return math.ceil(sum(run.layers * _cached(run, draft) for run in draft.model.runs) / widest - 1e-9)


def _cached(run: LayerRun, s: Scenario) -> float:
    return layer_bytes_per_token(run.mixer, s.kv, s.tp)


def largest_vocabulary_difference(engine: str) -> int | None:
    """By how many tokens the vocabulary of a draft model may differ from the target's; None where it is not known."""
    row = _data()["vocabulary"].get(engine)
    return None if row is None else int(row["value"])


@cache
def _scheduling() -> tuple[Scheduling, ...]:
    return tuple(Scheduling.model_validate(row) for row in _data()["scheduling"])


def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = checked_yaml("draft_methods")
    return data
