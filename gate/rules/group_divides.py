"""Quantized matrices whose share on a rank is not whole groups of weights with one scale."""

from collections.abc import Iterator

from infopt.boundaries.weight_kernels import kernels
from infopt.errors import InfoptError
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.models import said_by_name
from infopt.gate.requests import weights_of
from infopt.ledgers.scenario import allowed_tensor_parallel
from infopt.ledgers.shards import rank_widths, whole
from infopt.profiles.geometry import ModelProfile

# Engines pad these to whole tiles (profiles/data/engines: expert_padding).
PADDED = frozenset({"mxfp4"})
ATTENTION = frozenset({"attention output", "queries", "keys"})


def check(case: Case) -> Iterator[Hit]:
    """The widths of a rank against the group of the format."""
    model, groups = case.model, kernels().groups
    if model is None or case.deployment.engine not in groups.engines:
        return
    stored = _stored(case, model)
    group = groups.weights.get(stored or "")
    if stored is None or group is None or stored in PADDED:
        return
    columns, tp = stored in groups.blocks, case.placed.tp
    widths = _widths(case, model, tp, columns)
    bad = {name: (width, ranks) for name, (width, ranks) in widths.items() if not whole(width, group)}
    if not bad:
        return
    name, (width, ranks) = next(iter(bad.items()))
    fits = [n for n in allowed_tensor_parallel(model) if n <= 2 * tp and _fits(case, model, n, group, columns)]
    others = "; ".join(f"{other} {wide:g}" for other, (wide, _) in bad.items() if other != name)
    experts = model.experts and not case.placed.whole and _fits(case, model, tp, group, columns, whole_experts=True)
    degree = f"tp {tp}" if ranks == tp else f"tp {tp} x dp {ranks // tp}"
    cures = [f"tp one of {', '.join(map(str, fits))}"] if fits else []
    exact = not said_by_name(model)
    padded = not exact and not _of_others(case.deployment.model or "", model.id)
    yield Hit(
        f"{degree} leaves {width:g} of the {name} on a rank, no multiple of {stored}'s {group}",
        at=case.deployment.said_at("tp") or case.deployment.said_at("dp"),
        detail=f"{width * ranks:g} / {ranks} = {width:g}" + (f"; also {others}" if others else ""),
        remedy=", or ".join([*cures, *(["expert parallelism"] if experts else [])]),
        # Makers pad checkpoints where groups do not divide (Qwen2.5-72B's AWQ and GPTQ have 29,696 in place of 29,568);
        # tools of others do not.
        severity="warning" if padded else None,
        confidence="possible" if padded else "certain" if exact and case.deployment.version else "likely",
    )


def _of_others(name: str, base: str) -> bool:
    """Whether a repository belongs to another organisation than the model it is made from; a path says nothing."""
    org, slash, rest = name.removeprefix("hf://").partition("/")
    return bool(slash and org and rest) and "/" not in rest and org.lower() != base.partition("/")[0].lower()


def _stored(case: Case, model: ModelProfile) -> str | None:
    """Format of the weights, None where it is not known."""
    if model.quantization is not None:
        return model.quantization.format
    try:
        return weights_of(case.deployment, model)
    except InfoptError:
        return None


def _widths(
    case: Case, model: ModelProfile, tp: int, columns: bool, whole_experts: bool = False
) -> dict[str, tuple[float, int]]:
    """Widths of a rank with the ranks they are cut over: vLLM cuts experts over replicas too, if they are not whole."""
    whole_experts = whole_experts or case.placed.whole
    found = {name: (width, tp) for name, width in rank_widths(model, tp, whole_experts, columns).items()}
    if case.placed.attention_dp > 1:
        found = {name: cut for name, cut in found.items() if name not in ATTENTION}
    spread = tp * case.placed.dp
    if case.deployment.engine == "vllm" and spread > tp and not whole_experts:
        over = rank_widths(model, spread, whole_experts, columns)
        found |= {"expert": (over["expert"], spread)} if "expert" in over else {}
    return found


def _fits(case: Case, model: ModelProfile, tp: int, group: int, columns: bool, whole_experts: bool = False) -> bool:
    return all(whole(width, group) for width, _ in _widths(case, model, tp, columns, whole_experts).values())


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
