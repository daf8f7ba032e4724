"""Encoders of images or sound, whose warm-up no geometry tells."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.units import format_gib


def check(case: Case) -> Iterator[Hit]:
    """The encoder's weights are counted, its profile run is not: what a full request leaves over is all there is."""
    plan = case.plan
    if (
        plan is None
        or plan.fits is False
        or case.value("text_only")
        or case.deployment.engine not in ("vllm", "sglang")
    ):
        return
    s, memory = plan.scenario, plan.memory
    encoder = s.model.extra_params.get("vision", 0)
    if not encoder and not memory.unknown:
        return
    need = s.batch_per_replica * memory.layout.request_bytes(s.context_tokens)
    left = memory.kv_pool_bytes_per_gpu - need
    close = left < case.parameter("encoder-memory", "least_gib") * 2**30
    yield Hit(
        f"the encoder's warm-up is not counted: {format_gib(max(0.0, left))} are left beside one full request",
        at=case.deployment.said_at("images") or case.deployment.said_at("model"),
        detail=f"weights of a device {format_gib(memory.weights_bytes_per_gpu)} with the encoder; the cache "
        "shrinks by what "
        "the largest image or video takes",
        severity="warning" if close else "note",
        remedy="--limit-mm-per-prompt for what is sent, --language-model-only where it is only text",
        confidence="possible",
    )


RULE = Rule(
    id="encoder-memory",
    summary="an encoder's warm-up comes on top of what is counted",
    severity="note",
    why="The engine runs the largest image or video it may get before it sizes the cache.",
    remedy="Limit images and videos, or serve text only.",
    check=check,
    parameters={"least_gib": 4.0},
    source="vllm-project/vllm issues 22173, 16570; vllm v1/worker/gpu_model_runner.py profile_run",
)
