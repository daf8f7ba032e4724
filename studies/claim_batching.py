"""Figures for the claim that continuous batching serves several times what static batches do.

Unlike other figures these are simulated, with the estimate of step times: requests of a published trace, all waiting
(studies/batching.py has the equations and what is ignored).
"""

from functools import cache

from infopt.errors import unknown_name
from infopt.ledgers.queueing import continuous_gain, held_tokens, static_loss_ratio
from infopt.studies import batching
from infopt.studies.batching import KINDS, Kind, Place
from infopt.studies.claim_figures import figure, root

WIDEST_SPREAD = 8.0


@cache
def _rate_per_s(place: Place, trace: str, requests: int, batch: int, kind: Kind) -> float:
    return batching.rate_per_s(place, batching.waiting(trace, requests), batch, kind)


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise unknown_name("kind of batches", name, KINDS, "see studies/batching.py")
    return name


@figure("ratio")
def continuous_over_static(
    model: str,
    hw: str,
    gpus: int,
    weights: str,
    kv: str,
    trace: str,
    requests: int,
    batch: int,
    static_batch: int,
    kind: str,
) -> float:
    """Throughput of continuous batching with `batch` at once over that of static batches of `static_batch`."""
    place = Place(model, hw, gpus, weights, kv)
    static = _rate_per_s(place, trace, requests, static_batch, _kind(kind))
    return _rate_per_s(place, trace, requests, batch, "continuous") / static


@figure("requests_per_s")
def waiting_rate(
    model: str, hw: str, gpus: int, weights: str, kv: str, trace: str, requests: int, batch: int, kind: str
) -> float:
    """Requests a second while requests wait: the most that can arrive."""
    return _rate_per_s(Place(model, hw, gpus, weights, kv), trace, requests, batch, _kind(kind))


@figure("ratio")
def answer_loss(trace: str, requests: int, batch: int) -> float:
    """Slot-steps a static batch holds for each one it uses: mean longest of a batch over mean answer."""
    return batching.loss_ratio(batching.waiting(trace, requests), batch)


@figure("share")
def prompt_share(model: str, hw: str, gpus: int, weights: str, kv: str, trace: str, requests: int, batch: int) -> float:
    """Prompts' share of the machine's time with continuous batching."""
    clock = batching.setup_of(Place(model, hw, gpus, weights, kv), batch).clock
    rows = batching.waiting(trace, requests)
    prompt_s = batching.prompt_s(rows, clock)
    return prompt_s / (prompt_s + batching.decode_s(rows, clock, batch))


@figure("spread")
def spread_for_continuous_gain(
    model: str, hw: str, gpus: int, weights: str, kv: str, trace: str, requests: int, batch: int, gain: float
) -> float:
    """Coefficient of variation of answers at which `gain` is reached over padded answers at the same batch.

    Prompts and the mean answer are the trace's; answers are gamma distributed, and longer ones are held for longer.
    """
    clock = batching.setup_of(Place(model, hw, gpus, weights, kv), batch).clock
    rows = batching.waiting(trace, requests)
    prompt_s, (prompt, answer) = batching.prompt_s(rows, clock), batching.mean_tokens(rows)

    def above(spread: float) -> float:
        decode_s = batching.decode_s(rows, clock, batch, held_tokens(prompt, answer, spread))
        return float(continuous_gain(static_loss_ratio(batch, spread), decode_s, prompt_s)) - gain

    return root(above, 0.0, WIDEST_SPREAD)


@figure("sequences")
def static_fit(model: str, hw: str, gpus: int, weights: str, kv: str, reserved: int) -> float:
    """Sequences of a static batch that reserves `reserved` tokens of cache for each."""
    return batching.fitting(Place(model, hw, gpus, weights, kv), reserved)


@figure("ratio")
def continuous_over_reserved(
    model: str, hw: str, gpus: int, weights: str, kv: str, trace: str, requests: int, batch: int, reserved: int
) -> float:
    """Throughput of continuous batching over static batches of as many as reserve `reserved` tokens of cache each."""
    place = Place(model, hw, gpus, weights, kv)
    static = _rate_per_s(place, trace, requests, batching.fitting(place, reserved), "shrinking")
    return _rate_per_s(place, trace, requests, batch, "continuous") / static


@figure("sequences")
def static_batch_for_gain(
    model: str, hw: str, gpus: int, weights: str, kv: str, trace: str, requests: int, batch: int, gain: float
) -> float:
    """Most sequences of a static batch over which continuous batching with `batch` at once still gains `gain`.

    Steps get shorter as answers end; the gain falls as static batches grow.
    """
    place = Place(model, hw, gpus, weights, kv)
    most = _rate_per_s(place, trace, requests, batch, "continuous")
    low, high = 0, batch
    while high - low > 1:
        middle = (low + high) // 2
        if most / _rate_per_s(place, trace, requests, middle, "shrinking") >= gain:
            low = middle
        else:
            high = middle
    return low
