"""Whether a rank's share of every matrix is whole groups of weights that have one scale.

    rows of a rank      h d_v / tp (attention output), width / tp (down projection of a feed-forward)
    columns of a rank   h d_qk / tp, max(1, h_kv / tp) d (projections), width / tp (gate and up)
h query heads, h_kv KV heads, d head dims, width of the feed-forward or of one expert. Groups run along rows; blocks
(128 x 128) bind columns too. Experts kept whole (expert parallelism) are not cut. Latent and recurrent mixers are not
counted: their matrices are cut by heads of many sizes.
Source: vllm-project/vllm issue 54178 and pull 44763 (block FP8: 576 and 192 are no multiples of 128).
"""

from infopt.ledgers.scenario import Scenario, allowed_tensor_parallel
from infopt.profiles.geometry import LayerRun, ModelProfile


def rank_widths(model: ModelProfile, tp: int, whole_experts: bool = False, columns: bool = False) -> dict[str, float]:
    """Elements along which matrices are cut on one of `tp` ranks, by name; nothing is cut without TP.

    columns  those of column blocks beside the rows
    """
    found: dict[str, float] = {}
    if tp == 1:
        return found
    for run in model.groups:
        found |= _attention(run, tp, columns)
        for name, width in _feed_forward(run, model.hidden, whole_experts).items():
            found[name] = width / tp
    return found


def _attention(run: LayerRun, tp: int, columns: bool) -> dict[str, float]:
    mixer = run.mixer
    if mixer.kind not in ("full", "window", "chunked", "shared"):
        return {}
    found = {"attention output": mixer.q_heads * mixer.v_dim / tp}
    if columns:
        found["queries"] = mixer.q_heads * mixer.qk_dim / tp
        found["keys"] = max(1.0, mixer.kv_heads / tp) * mixer.qk_dim
    return found


def _feed_forward(run: LayerRun, hidden: int, whole_experts: bool) -> dict[str, int]:
    ff, found = run.feed_forward, {}
    if ff.kind == "dense":
        found["feed-forward"] = ff.intermediate
    if ff.experts and not whole_experts:
        found["expert"] = ff.intermediate
    if ff.shared_params:
        found["shared expert"] = ff.shared_params // (3 * hidden)
    return found


def uncut(s: Scenario, group_elements: int, tp: int | None = None, columns: bool = False) -> tuple[str, float] | None:
    """The first matrix whose share on a rank is not whole groups, with that share; None where all are."""
    widths = rank_widths(s.model, tp or s.tp, s.ep > 1, columns)
    return next(((name, width) for name, width in widths.items() if not whole(width, group_elements)), None)


def whole(width: float, group_elements: int) -> bool:
    """Whether a width is whole groups.

    >>> whole(192, 128), whole(256, 128)
    (False, True)
    """
    return width % group_elements == 0


def group_tensor_parallel(s: Scenario, group_elements: int, columns: bool = False) -> list[int]:
    """TP degrees the model allows at which every rank holds whole groups."""
    allowed = allowed_tensor_parallel(s.model)
    return [tp for tp in allowed if uncut(s, group_elements, tp, columns) is None]
