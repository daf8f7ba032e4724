"""Continuous against static batches on published requests: `python bench/static_batching.py [REQUESTS]`.

Prints what docs/batching.md shows: gains at equal batch beside the closed form, the spread of answers that 5x and 10x
take (closed form, then simulated), static batches that reserve room for the longest request, and delays by load.
REQUESTS of each trace, spread over all of it; without it all of them (a minute and a half on one core).
"""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, median

import numpy as np

from infopt.arrivals.arrival import Arrival
from infopt.arrivals.traces import open_trace
from infopt.errors import InfoptError
from infopt.ledgers.queueing import continuous_gain, static_loss_ratio
from infopt.studies import batching
from infopt.studies.batching import Kind, Place
from infopt.studies.claim_batching import spread_for_continuous_gain

TRACES = ("azure-conv", "azure-code")
PLACES = (Place("8b", "h100-sxm-80gb", 1, "bf16", "bf16"), Place("70b", "h100-sxm-80gb", 4, "bf16", "bf16"))
BATCHES = (8, 32, 64, 128, 256)
WIDE = 256
RESERVED = (4096, 8192, 16384, 32768, 131072)
LOADS = (0.1, 0.25, 0.5, 0.8, 0.95)
WAITS_S = (0.0, 1.0)
EQUAL = (
    *("trace", "model", "batch", "requests/s", "mean batch", "loss", "prompts", "shrinking", "closed", "padded"),
    *("closed", "gamma", "prompts padded"),
)


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One table in Markdown, its rows as they are computed."""
    print(f"\n{title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        cells = (f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row)
        print(f"| {' | '.join(cells)} |", flush=True)


def equal_batch(requests: int | None) -> Iterable[Sequence[object]]:
    """Gains where both have as many sequences at once."""
    for trace in TRACES:
        rows = batching.waiting(trace, requests)
        spread = batching.output_spread_ratio(rows)
        for place in PLACES:
            for batch in BATCHES:
                run = batching.served(place, rows, batch, "continuous")
                rate = len(rows) / run.total.time_s
                clock = batching.setup_of(place, batch).clock
                prompt_s, decode_s = batching.prompt_s(rows, clock), batching.decode_s(rows, clock, batch)
                shrinking, padded = (
                    rate / batching.rate_per_s(place, rows, batch, kind) for kind in ("shrinking", "padded")
                )
                shorter, own = (batching.closed_gain_ratio(place, rows, batch, k) for k in ("shrinking", "padded"))
                gamma = float(continuous_gain(static_loss_ratio(batch, spread), decode_s, prompt_s))
                yield (
                    *(trace, place.model, batch, rate, run.total.decoded_tokens / run.total.decode_steps),
                    *(batching.loss_ratio(rows, batch), prompt_s / (prompt_s + decode_s)),
                    *(shrinking, f"{shorter / shrinking - 1:+.1%}", padded, f"{own / padded - 1:+.1%}", gamma),
                    _padded_prompts(place, rows, batch, rate),
                )


def _padded_prompts(place: Place, rows: tuple[Arrival, ...], batch: int, rate: float) -> float | str:
    try:
        return rate / batching.rate_per_s(place, rows, batch, "padded-prompts")
    except InfoptError:
        return "no room"


def spreads(requests: int) -> Iterable[Sequence[object]]:
    """Spread of answers that a gain takes at equal batch, and what a simulation with such answers gains."""
    for place in PLACES:
        for batch in BATCHES:
            for gain in (5.0, 10.0):
                given = (place.model, place.hw, place.gpus, place.weights, place.kv)
                spread = spread_for_continuous_gain(*given, "azure-conv", requests, batch, gain)  # type: ignore[arg-type]
                if spread == float("inf"):
                    yield place.model, batch, gain, "none", "", ""
                    continue
                rows = with_spread(batching.waiting("azure-conv", requests), spread)
                rate = batching.rate_per_s(place, rows, batch, "continuous")
                kinds: tuple[Kind, Kind] = ("padded", "shrinking")
                yield (
                    place.model,
                    batch,
                    gain,
                    spread,
                    *(rate / batching.rate_per_s(place, rows, batch, k) for k in kinds),
                )


def with_spread(rows: tuple[Arrival, ...], spread: float) -> tuple[Arrival, ...]:
    """The same prompts; answers gamma distributed with the same mean."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(8)))
    mean = batching.mean_tokens(rows)[1]
    lengths = random.gamma(1 / spread**2, mean * spread**2, len(rows))
    return tuple(replace(one, output_tokens=max(1, round(x))) for one, x in zip(rows, lengths, strict=True))


def reserved(requests: int | None) -> Iterable[Sequence[object]]:
    """Static batches as large as room for the longest request allows, against 256 paged sequences."""
    for place in PLACES:
        for tokens in RESERVED:
            batch = min(WIDE, batching.fitting(place, tokens))
            for trace in TRACES:
                rows = batching.waiting(trace, requests)
                if max(one.input_tokens + one.output_tokens for one in rows) > tokens:
                    continue
                rate = batching.rate_per_s(place, rows, WIDE, "continuous")
                kinds: tuple[Kind, Kind] = ("shrinking", "padded")
                yield (
                    place.model,
                    trace,
                    tokens,
                    batch,
                    *(rate / batching.rate_per_s(place, rows, batch, k) for k in kinds),
                )


def small_static(requests: int | None) -> Iterable[Sequence[object]]:
    """256 at once over static batches of fewer."""
    for trace in TRACES:
        for place in PLACES:
            rows = batching.waiting(trace, requests)
            rate = batching.rate_per_s(place, rows, WIDE, "continuous")
            for batch in (1, 2, 4, 8, 16, 32, 64):
                yield trace, place.model, batch, rate / batching.rate_per_s(place, rows, batch, "shrinking")


def loads(requests: int | None) -> Iterable[Sequence[object]]:
    """Delays below saturation of static batches of 64, as times those of continuous batching."""
    for trace in TRACES:
        rows = batching.waiting(trace, requests)
        shipped = list(open_trace(trace).stream())
        recorded = (len(shipped) - 1) / shipped[-1].time_s
        for place in PLACES:
            most = batching.rate_per_s(place, rows, 64, "shrinking")
            top = batching.rate_per_s(place, rows, WIDE, "continuous")
            for rate in (*(share * most for share in LOADS), recorded):
                yield (trace, place.model, top, most, rate, rate / most, *_delays(place, shipped, rate / recorded))


def _delays(place: Place, shipped: Sequence[Arrival], speed: float) -> list[object]:
    rows = tuple(replace(one, time_s=one.time_s / speed, prefix=()) for one in shipped)
    base = batching.served(place, rows, WIDE, "continuous")
    found: list[object] = [fmean(base.rows.e2e_s)]
    for wait_s in WAITS_S:
        run = batching.served(place, rows, 64, "shrinking", wait_s)
        found += [
            run.total.time_s / base.total.time_s,
            fmean(run.rows.e2e_s) / fmean(base.rows.e2e_s),
            median(run.rows.ttft_s) / median(base.rows.ttft_s),
        ]
    return found


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else None
    started_s = time.perf_counter()
    table("Equal batch", EQUAL, equal_batch(requests))
    table("Spread", ["model", "batch", "gain", "spread", "padded", "shrinking"], spreads(requests or 8000))
    table("Reserved", ["model", "trace", "tokens", "batch", "shrinking", "padded"], reserved(requests))
    table("256 over small static batches", ["trace", "model", "batch", "gain"], small_static(requests))
    header = ["trace", "model", "continuous/s", "static/s", "rate", "load", "e2e s"]
    delays = [f"{what} wait {wait_s:g}" for wait_s in WAITS_S for what in ("time", "e2e", "ttft")]
    table("By load", header + delays, loads(requests))
    print(f"\n{time.perf_counter() - started_s:.0f} s")


if __name__ == "__main__":
    main()
