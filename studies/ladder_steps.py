"""Rungs of the cost ladder: a placement with a batch, a prompt cache and speculation, and what it serves.

output_tokens_per_s = B OSL / (TTFT + OSL TPOT c)      c = cycle in plain steps / tokens per cycle, 1 without drafts
"""

from dataclasses import replace

from infopt.frozen import dataclass
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.compute import compute_ledger
from infopt.ledgers.estimate import NoEstimate, clock, estimate, expected_times
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.studies.planning import own_constants
from infopt.studies.scenarios import Built, Request


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to serve the load.

    sequences      at once, in each replica
    cached_tokens  of every prompt, found in a prompt cache
    decode_ratio   time per output token over that without speculation
    """

    built: Built
    request: Request
    sequences: int
    cached_tokens: int = 0
    decode_ratio: float = 1.0

    @property
    def scenario(self) -> Scenario:
        s = self.built.scenario
        return replace(s, batch=self.sequences * s.dp)


@dataclass(frozen=True, slots=True)
class Served:
    """What a rung serves.

    weights_share    weights' part of an output token's time
    prompt_share     part of a request's time that goes with its prompt, the waiting for others' prompts included
    compute_share    products of the batch at dense peak, over an output token's time
    """

    tokens_per_s: float
    tpot_s: float
    ttft_s: float
    weights_share: float
    prompt_share: float
    compute_share: float | None


def served(rung: Rung) -> Served | NoEstimate:
    """Throughput and times of a rung, or why there are none."""
    s = rung.scenario
    memory, bandwidth = memory_ledger(s), bandwidth_ledger(s)
    constants = own_constants(s, rung.request)
    plain = estimate(s, memory, bandwidth, constants)
    if isinstance(plain, NoEstimate):
        return plain
    compiled = clock(s, constants)
    if isinstance(compiled, NoEstimate):
        return compiled
    floor_s, tokens = bandwidth.step_floor_s, s.input_tokens
    times = expected_times(s, compiled, floor_s, rung.cached_tokens)
    without = expected_times(s, compiled, floor_s, tokens)
    tpot_s, ttft_s = float(times.tpot_s) * rung.decode_ratio, float(times.ttft_s)
    request_s = ttft_s + s.output_tokens * tpot_s
    least_s = float(without.ttft_s) + s.output_tokens * float(without.tpot_s) * rung.decode_ratio
    compute_s = compute_ledger(s, bandwidth).decode_compute_s
    return Served(
        tokens_per_s=s.batch * s.output_tokens / request_s,
        tpot_s=tpot_s,
        ttft_s=ttft_s,
        weights_share=float(times.terms_s["weights"]) / float(times.tpot_s),
        prompt_share=1 - least_s / request_s,
        compute_share=None if compute_s is None else compute_s / float(times.tpot_s),
    )


def most_sequences(rung: Rung, tpot_s: float | None) -> Rung | NoEstimate:
    """The rung with the most sequences that fit, that the engine runs and that meet the target."""
    one = replace(rung, sequences=1)
    first = served(one)
    if isinstance(first, NoEstimate):
        return first
    if tpot_s is not None and first.tpot_s > tpot_s:
        return NoEstimate(f"a single sequence takes {first.tpot_s * 1e3:.3g} ms a token, more than the target")
    s = one.scenario
    good, bad = 1, min(memory_ledger(s).max_sequences, s.max_num_seqs) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        found = served(replace(rung, sequences=middle))
        if isinstance(found, Served) and (tpot_s is None or found.tpot_s <= tpot_s):
            good = middle
        else:
            bad = middle
    return replace(rung, sequences=good)


def fewest_sequences(rung: Rung, tokens_per_s: float) -> int | None:
    """The fewest sequences at once that serve a throughput, up to those of the rung; None where none do."""
    low, high = 0, rung.sequences
    found = served(rung)
    if isinstance(found, NoEstimate) or found.tokens_per_s < tokens_per_s:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        found = served(replace(rung, sequences=middle))
        enough = isinstance(found, Served) and found.tokens_per_s >= tokens_per_s
        low, high = (low, middle) if enough else (middle, high)
    return high
