"""Quantized matrices whose share on a rank is not whole groups of weights with one scale."""

from collections.abc import Iterator

from infopt.boundaries.weight_kernels import kernels
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.requests import weights_of
from infopt.ledgers.scenario import allowed_tensor_parallel
from infopt.ledgers.shards import rank_widths, whole
from infopt.profiles.geometry import ModelProfile

# Engines pad these to whole tiles (profiles/data/engines: expert_padding).
PADDED = frozenset({"mxfp4"})


def check(case: Case) -> Iterator[Hit]:
    """The widths of a rank against the group of the format."""
    model, tp, groups = case.model, case.placed.tp, kernels().groups
    if model is None or tp == 1 or case.deployment.engine not in groups.engines:
        return
    stored = model.quantization.format if model.quantization is not None else weights_of(case.deployment, model)
    group = groups.weights.get(stored or "")
    if stored is None or group is None or stored in PADDED:
        return
    columns = stored in groups.blocks
    widths = rank_widths(model, tp, case.placed.whole, columns)
    bad = {name: width for name, width in widths.items() if not whole(width, group)}
    if not bad:
        return
    name, width = next(iter(bad.items()))
    fits = [
        n for n in allowed_tensor_parallel(model) if n <= 2 * tp and _whole(model, n, group, columns, case.placed.whole)
    ]
    others = "; ".join(f"{other} {wide:g}" for other, wide in bad.items() if other != name)
    experts = model.experts and not case.placed.whole and _whole(model, tp, group, columns, True)
    yield Hit(
        f"tp {tp} leaves {width:g} of the {name} on a rank, no multiple of {stored}'s {group}",
        at=case.deployment.said_at("tp"),
        detail=f"{width * tp:g} / {tp} = {width:g}; also {others}" if others else f"{width * tp:g} / {tp} = {width:g}",
        remedy=f"tp one of {', '.join(map(str, fits))}" + (", or expert parallelism" if experts else ""),
        confidence="certain" if case.deployment.version else "likely",
    )


def _whole(model: ModelProfile, tp: int, group: int, columns: bool, experts: bool) -> bool:
    return all(whole(width, group) for width in rank_widths(model, tp, experts, columns).values())


RULE = Rule(
    id="group-divides",
    summary="a rank's share of a quantized matrix is not whole groups or blocks",
    severity="error",
    why="Weights of a group share a scale, which cannot be cut: the engine stops while it loads.",
    remedy="A smaller tensor parallel degree, or expert parallelism for experts.",
    check=check,
    source="vllm-project/vllm issues 54178, 42384, 52997 (open in August 2026); pull 44763 pads only what is "
    "quantized online",
)
