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
from typing import Any

from infopt.ledgers.arrays import larger, smaller
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.terms import Term
from infopt.profiles.geometry import FeedForward, LayerRun

# vLLM's first engine core turned chunked prefill on by itself above this length limit (engine/arg_utils.py 0.5 to 0.7).
CHUNKS_ABOVE_TOKENS = 32_768


def logits_bytes(s: Scenario) -> Any:
    """One float32 row of logits for each warm-up sequence."""
    sequences = smaller(s.max_num_seqs, profile_tokens(s))
    return sequences * s.model.vocab * 4.0


def profile_tokens(s: Scenario) -> Any:
    """Tokens of the warm-up pass; engines that run whole prompts cut them above `CHUNKS_ABOVE_TOKENS`."""
    if s.engine.unchunked_profile:
        return larger(s.max_num_batched_tokens, s.context_tokens * (s.context_tokens <= CHUNKS_ABOVE_TOKENS))
    return s.max_num_batched_tokens


def activation_bytes(stage: Sequence[LayerRun], s: Scenario, last: bool) -> tuple[Any, Any, Any]:
    """Activation peak of one stage: best value, low, high; arrays where the context is one and the peak follows it."""
    tokens = profile_tokens(s)
    element = s.weight_bits["small"] / 8
    hidden = tokens * s.model.hidden * element
    widest = max((_dense_width(run.feed_forward) for run in stage), default=0)
    workspace = _workspace_bytes(stage, s, tokens)
    engine = s.engine
    logits = logits_bytes(s) if last else 0.0

    def peak_bytes(copies: float, streams: float, base_bytes: float, kept_share: float) -> Any:
        layer = tokens * (3 * widest / s.tp + streams * s.model.hidden) * element
        return larger(copies * logits + hidden, layer) + kept_share * workspace + base_bytes

    value, low, high = (
        peak_bytes(
            getattr(engine.logits_copies, field),
            getattr(engine.layer_streams, field),
            getattr(engine.activation_base_bytes, field),
            getattr(engine.expert_workspace, field),
        )
        for field in ("value", "low", "high")
    )
    return value, larger(low, 0.0), high


def activation_term(stage: Sequence[LayerRun], s: Scenario, last: bool) -> Term:
    """Activation peak of one stage as a ledger line with its interval."""
    value, low, high = activation_bytes(stage, s, last)
    tokens = profile_tokens(s)
    hidden = tokens * s.model.hidden * (s.weight_bits["small"] / 8)
    logits = logits_bytes(s) if last else 0.0
    copies = s.engine.logits_copies
    formula = (
        f"max({copies.value:g} x {logits / 2**30:.3f} GiB logits + {hidden / 2**30:.3f} GiB hidden, "
        f"widest layer at {tokens} tokens) + {_workspace_bytes(stage, s, tokens) / 2**30:.3f} GiB expert workspace"
    )
    return Term("activation", value, low, high, "bytes", formula, copies.source, copies.kind)


def _workspace_bytes(stage: Sequence[LayerRun], s: Scenario, tokens: Any) -> Any:
    """Workspace of the grouped expert products of the stage's widest mixture; 0 where the kernels need none."""
    if s.weight_format in s.engine.no_expert_workspace:
        return 0.0
    per_token = max((_expert_widths(run.feed_forward, s) for run in stage), default=0.0)
    return tokens * per_token * (s.weight_bits["small"] / 8)


def _dense_width(ff: FeedForward) -> int:
    return ff.intermediate if ff.mlp_params else 0


def _expert_widths(ff: FeedForward, s: Scenario) -> float:
    """Elements a token occupies in the workspace of its experts."""
    if not ff.experts:
        return 0.0
    width = ff.intermediate / (1 if s.ep > 1 else s.tp)
    return ff.experts_per_token * (max(2 * width, s.model.hidden) + width)
