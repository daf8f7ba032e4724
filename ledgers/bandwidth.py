"""The bandwidth ledger: bytes one decode step must read, and the least time that takes.

    step >= sum over stages of max over ranks (W_rank + K_rank) / BW
    W  weights a rank reads once per step: its share of every matrix but the input embedding, k experts per layer
    K  keys, values, latents of the rank's sequences at the decode context; state read and written
k experts is a strict bound; the expected number of distinct experts at batch B under uniform routing is
    E (1 - (1 - k/E)^B)
A tied head is read as the head. Ignored: activations, kernel launch, collectives.
"""

import sys
from collections.abc import Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import larger
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.traffic import StageTraffic, traffic


@dataclass(frozen=True, slots=True)
class BandwidthLedger:
    """Traffic of one decode step, and the floors it sets.

    weight_bytes_per_step           read by all devices of one replica, k experts per layer (strict)
    weight_bytes_per_step_expected  the same with the distinct experts expected at this batch
    kv_bytes_per_step               cache and state traffic of one replica
    kv_share_of_step                KV share of the traffic of the slowest rank
    step_floor_s                    least duration of one decode step
    tpot_floor_s                    least time per output token of one user
    amortized_s_per_token           step_floor_s / batch: the throughput view
    """

    weight_bytes_per_step: float
    weight_bytes_per_step_expected: float
    kv_bytes_per_step: float
    kv_share_of_step: float
    step_floor_s: float
    tpot_floor_s: float
    amortized_s_per_token: float


def step_bytes(stages: Sequence[StageTraffic], sequences: Any, context_tokens: Any) -> tuple[float, Any]:
    """Least weights (k experts per layer) and cache a rank of every stage reads in a step; numbers or arrays."""
    weights = sum(float(stage.weight_bytes(1)) for stage in stages)
    return weights, sum(stage.kv_bytes(sequences, context_tokens) for stage in stages)


def bandwidth_ledger(s: Scenario) -> BandwidthLedger:
    """Floors of one decode step at the scenario's batch and decode context, which may be arrays."""
    stages = traffic(s)
    strict, kv = step_bytes(stages, s.batch_per_replica, s.decode_context_tokens)
    expected = sum(stage.weight_bytes(s.sharing_batch) for stage in stages)
    seconds = (strict + kv) / s.accelerator.bandwidth_bytes_per_s
    return BandwidthLedger(
        weight_bytes_per_step=strict * s.tp,
        weight_bytes_per_step_expected=expected * s.tp,
        kv_bytes_per_step=kv * s.tp,
        kv_share_of_step=kv / larger(strict + kv, sys.float_info.min),  # 0 of a step that reads nothing
        step_floor_s=seconds,
        tpot_floor_s=seconds,
        amortized_s_per_token=seconds / s.batch,
    )
