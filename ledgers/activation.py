"""Peak activation memory of a warm-up pass, per device.

    A = max(c_l S V 4 + M H b,  M (3 I / tp + c_h H) b) + M k (max(2 I_e / tp, H) + I_e / tp) b + base
S max_num_seqs, V vocabulary, M max_num_batched_tokens, H hidden, I and I_e widths of a dense and of an expert
feed-forward, k experts per token, b bytes of the compute type, c_l copies of float32 logits, c_h hidden-size
streams alive beside a feed-forward. The first branch is the sampler after the last layer, the second the
widest layer; the last product is the workspace of the grouped expert products, which engines keep.
Fitted constants and their sources are in the engine's record; bench/fit_memory.py reproduces them.
Ignored: vision encoder profiling, attention workspaces.
"""

from collections.abc import Sequence

from infopt.ledgers.scenario import Scenario
from infopt.ledgers.terms import Term
from infopt.profiles.geometry import FeedForward, LayerRun


def logits_bytes(s: Scenario) -> float:
    """One float32 row of logits for each warm-up sequence."""
    sequences = min(s.max_num_seqs, profile_tokens(s))
    return sequences * s.model.vocab * 4.0


def profile_tokens(s: Scenario) -> int:
    """Tokens of the warm-up pass."""
    if s.engine.unchunked_profile:
        return max(s.max_num_batched_tokens, s.context_tokens)
    return s.max_num_batched_tokens


def activation_term(stage: Sequence[LayerRun], s: Scenario, last: bool) -> Term:
    """Activation peak of one stage as a ledger line with its interval."""
    tokens = profile_tokens(s)
    element = s.weight_bits["small"] / 8
    hidden = tokens * s.model.hidden * element
    widest = max((_dense_width(run.feed_forward) for run in stage), default=0)
    workspace = max((_expert_workspace_bytes(run.feed_forward, s, tokens, element) for run in stage), default=0.0)
    engine = s.engine
    logits = logits_bytes(s) if last else 0.0

    if s.weight_format in engine.no_expert_workspace:
        workspace = 0.0

    def peak_bytes(copies: float, streams: float, base_bytes: float, kept_share: float) -> float:
        layer = tokens * (3 * widest / s.tp + streams * s.model.hidden) * element
        return max(copies * logits + hidden, layer) + kept_share * workspace + base_bytes

    value, low, high = (
        peak_bytes(
            getattr(engine.logits_copies, field),
            getattr(engine.layer_streams, field),
            getattr(engine.activation_base_bytes, field),
            getattr(engine.expert_workspace, field),
        )
        for field in ("value", "low", "high")
    )
    formula = (
        f"max({engine.logits_copies.value:g} x {logits / 2**30:.3f} GiB logits + {hidden / 2**30:.3f} GiB hidden, "
        f"widest layer at {tokens} tokens) + {workspace / 2**30:.3f} GiB expert workspace"
    )
    kind = engine.logits_copies.kind
    return Term("activation", value, max(low, 0.0), high, "bytes", formula, engine.logits_copies.source, kind)


def _dense_width(ff: FeedForward) -> int:
    return ff.intermediate if ff.mlp_params else 0


def _expert_workspace_bytes(ff: FeedForward, s: Scenario, tokens: int, element_bytes: float) -> float:
    if not ff.experts:
        return 0.0
    width = ff.intermediate / (1 if s.ep > 1 else s.tp)
    return tokens * ff.experts_per_token * (max(2 * width, s.model.hidden) + width) * element_bytes
