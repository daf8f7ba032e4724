"""More ranks than KV heads: every rank past them keeps a copy of the cache."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.ledgers.cache import cache_sizes
from infopt.profiles.formats import kv_format_name, load_kv_format
from infopt.units import format_gib


def check(case: Case) -> Iterator[Hit]:
    """Copies of the cache, in bytes of the pool where a plan tells, else of a token."""
    model, tp = case.model, case.placed.attention_tp // max(1, int(case.value("dcp", 1) or 1))
    if model is None or tp <= 1 or (case.plan is not None and case.plan.fits is False):
        return
    kv_heads = max((g.mixer.kv_heads for g in model.groups if g.mixer.kind in ("full", "window", "chunked")), default=0)
    if not kv_heads or tp <= kv_heads or tp % kv_heads:
        return
    copies = tp // kv_heads
    lost = "on every device"
    if case.plan is not None:
        pool = case.plan.memory.kv_pool_bytes_per_gpu * case.plan.scenario.tp
        lost = f"{format_gib(pool * (1 - 1 / copies))} of {format_gib(pool)} of cache hold copies"
    else:
        kv = load_kv_format(kv_format_name(model, None))
        each = cache_sizes(model.runs, kv, model.compute_dtype, tp).full_bytes_per_token
        lost = f"{each * tp * (1 - 1 / copies) / 1024:.0f} of {each * tp / 1024:.0f} KiB a token are copies"
    yield Hit(
        f"{kv_heads} KV heads over tp {tp}: each is kept {copies} times, {lost}",
        at=case.deployment.said_at("tp"),
        remedy=f"tp {kv_heads} and {copies} replicas, or --decode-context-parallel-size {copies} where the "
        "version has it",
    )


RULE = Rule(
    id="kv-heads-replicated",
    summary="more ranks than KV heads: the cache is kept more than once",
    severity="warning",
    why="Devices are added and the cache does not grow: fewer requests at once than the memory could hold.",
    remedy="Tensor parallel no wider than the KV heads, and replicas beside it.",
    check=check,
    source="vllm model_executor/layers/linear.py: a rank holds max(1, kv_heads // tp) KV heads",
)
