"""Figures for claims about speculative decoding, over the ledgers' floors.

    cycle = t_verify / t_target + g t_draft / t_target
    t_verify = max((W + B K) / BW, B (g + 1) f / F)       products of all verified tokens at dense peak
Until the products take longer than the bytes a verification is a plain step.
"""

import math

from infopt.errors import InfoptError
from infopt.ledgers.speculation import (
    acceptance_for_tokens,
    printed_speedup_ratio,
    speedup_ratio,
    tokens_per_cycle_at_rate,
)
from infopt.studies.claim_figures import device_of, figure, plan_of, root, tpot_floor

MOST_SEQUENCES = 65536.0


@figure("ratio")
def draft_cost(model: str, draft: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int) -> float:
    """Step of the draft over that of the target, at the floors."""
    same = (hw, gpus, weights, kv, tokens, batch)
    return tpot_floor(draft, *same) / tpot_floor(model, *same)


@figure("ratio")
def verify_cost(
    model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: float, drafted: int
) -> float:
    """Verification of g + 1 tokens a sequence over a plain step of the same batch, at the floors."""
    plan = plan_of(model, hw, gpus, weights, kv, tokens)
    peak = plan.compute.peak_flop_per_s
    if peak is None:
        raise InfoptError(f"claims: no peak is known for {hw}")
    bandwidth = gpus * device_of(hw).accelerator.bandwidth_bytes_per_s
    bytes_s = (plan.bandwidth.weight_bytes_per_step + batch * plan.bandwidth.kv_bytes_per_step) / bandwidth
    token_s = batch * plan.compute.decode_flop_per_token / (gpus * peak)
    return max(bytes_s, (drafted + 1) * token_s) / max(bytes_s, token_s)


@figure("ratio")
def cycle_cost(
    model: str, draft: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int, drafted: int
) -> float:
    """One cycle in target steps: the verification and g passes of the draft."""
    same = (hw, gpus, weights, kv, tokens, batch)
    return verify_cost(model, *same, drafted) + drafted * draft_cost(model, draft, *same)


@figure("ratio")
def printed_speedup(
    model: str, draft: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int, drafted: int
) -> float:
    """Document 1's formula, (N t_draft + t_target) / (t_verify + t_draft)."""
    same = (hw, gpus, weights, kv, tokens, batch)
    return printed_speedup_ratio(draft_cost(model, draft, *same), 1.0, verify_cost(model, *same, drafted), drafted)


@figure("ratio")
def expected_tokens(drafted: int, acceptance: float) -> float:
    """Tokens of a cycle at one acceptance, the target's own token included."""
    return tokens_per_cycle_at_rate(acceptance, drafted)


@figure("ratio")
def speculation_gain(
    model: str,
    draft: str,
    hw: str,
    gpus: int,
    weights: str,
    kv: str,
    tokens: int,
    batch: int,
    drafted: int,
    acceptance: float,
) -> float:
    """Expected tokens of a cycle over its cost in target steps."""
    cost = cycle_cost(model, draft, hw, gpus, weights, kv, tokens, batch, drafted)
    return float(speedup_ratio(expected_tokens(drafted, acceptance), cost))


@figure("share")
def speculation_saving(
    model: str,
    draft: str,
    hw: str,
    gpus: int,
    weights: str,
    kv: str,
    tokens: int,
    batch: int,
    drafted: int,
    acceptance: float,
) -> float:
    """The gain over plain decoding, less one."""
    return speculation_gain(model, draft, hw, gpus, weights, kv, tokens, batch, drafted, acceptance) - 1


@figure("share")
def acceptance_for_gain(
    model: str,
    draft: str,
    hw: str,
    gpus: int,
    weights: str,
    kv: str,
    tokens: int,
    batch: int,
    drafted: int,
    gain: float,
) -> float:
    """Acceptance per drafted token at which speculation gains `gain`; infinite where none does."""
    needed = gain * cycle_cost(model, draft, hw, gpus, weights, kv, tokens, batch, drafted)
    rate = acceptance_for_tokens(needed, drafted)
    return math.inf if rate is None else rate


@figure("share")
def acceptance_for_count(drafted: int, accepted: float) -> float:
    """Acceptance per drafted token that leaves `accepted` of them in a row on average."""
    rate = acceptance_for_tokens(1 + accepted, drafted)
    return math.inf if rate is None else rate


@figure("ratio")
def accepted_gain(
    model: str,
    draft: str,
    hw: str,
    gpus: int,
    weights: str,
    kv: str,
    tokens: int,
    batch: int,
    drafted: int,
    accepted: float,
) -> float:
    """Gain when `accepted` drafted tokens are kept on average: (accepted + 1) / cycle cost."""
    return float(speedup_ratio(1 + accepted, cycle_cost(model, draft, hw, gpus, weights, kv, tokens, batch, drafted)))


@figure("ratio")
def cycle_limit(accepted: float, gain: float) -> float:
    """Dearest cycle, in target steps, at which the gain is still reached."""
    return (accepted + 1) / gain


@figure("share")
def acceptance_for_printed(
    model: str, draft: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, batch: int, drafted: int
) -> float:
    """Acceptance per drafted token at which the gain is what document 1's formula gives."""
    same = (model, draft, hw, gpus, weights, kv, tokens, batch, drafted)
    return acceptance_for_gain(*same, printed_speedup(*same))


@figure("sequences")
def batch_for_free_verification(
    model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, drafted: int
) -> float:
    """Batch up to which verifying g + 1 tokens a sequence waits for memory."""
    return batch_for_cycle(model, hw, gpus, weights, kv, tokens, drafted, 1.0)


@figure("sequences")
def batch_for_cycle(
    model: str, hw: str, gpus: int, weights: str, kv: str, tokens: int, drafted: int, cycle: float
) -> float:
    """Batch at which a verification takes `cycle` plain steps: B (g + 1) f / F = cycle (W + B K) / BW."""
    plan = plan_of(model, hw, gpus, weights, kv, tokens)
    peak = plan.compute.peak_flop_per_s
    if peak is None:
        raise InfoptError(f"claims: no peak is known for {hw}")
    bandwidth = gpus * device_of(hw).accelerator.bandwidth_bytes_per_s
    compute_s = (drafted + 1) * plan.compute.decode_flop_per_token / (gpus * peak)
    spare_s = compute_s - cycle * plan.bandwidth.kv_bytes_per_step / bandwidth
    return cycle * plan.bandwidth.weight_bytes_per_step / bandwidth / spare_s if spare_s > 0 else math.inf


@figure("sequences")
def batch_without_gain(
    model: str,
    draft: str,
    hw: str,
    gpus: int,
    weights: str,
    kv: str,
    tokens: int,
    drafted: int,
    acceptance: float,
    gain: float,
) -> float:
    """Batch beyond which drafts gain less than `gain`, at the floors; infinite where they always do."""
    emitted = expected_tokens(drafted, acceptance)
    return _batch_for_tokens(emitted, gain, model, draft, (hw, gpus, weights, kv, tokens), drafted)


@figure("sequences")
def batch_for_accepted(
    model: str,
    draft: str,
    hw: str,
    gpus: int,
    weights: str,
    kv: str,
    tokens: int,
    drafted: int,
    accepted: float,
    gain: float,
) -> float:
    """Batch beyond which `accepted` kept tokens gain less than `gain`, at the floors."""
    return _batch_for_tokens(1 + accepted, gain, model, draft, (hw, gpus, weights, kv, tokens), drafted)


def _batch_for_tokens(
    emitted: float, gain: float, model: str, draft: str, place: tuple[str, int, str, str, int], drafted: int
) -> float:
    def short(batch: float) -> float:
        passes = drafted * draft_cost(model, draft, *place, round(batch))
        return gain * (verify_cost(model, *place, batch, drafted) + passes) - emitted

    return root(short, 1.0, MOST_SEQUENCES)
