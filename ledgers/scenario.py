"""A scenario: one model in one format on one placement under one load."""

from collections.abc import Mapping
from dataclasses import replace

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator
from infopt.profiles.engines import EngineConstants
from infopt.profiles.formats import KvFormat
from infopt.profiles.geometry import LayerRun, ModelProfile


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything the ledgers need, resolved.

    weight_bits            bits per weight by part
    batch                  concurrent sequences of the whole deployment (divided over dp)
    context_tokens         longest sequence a request may reach: what memory is sized for
    decode_context_tokens  mean context of a decode step: isl + osl / 2
    expert_shards          devices of one stage over which routed experts are split
    extra_cache_layers     full-attention layers a draft head adds to the cache (EAGLE, MTP)
    speculative_tokens     drafted tokens per step (recurrent states keep one slot more for each)
    extra_bytes_per_gpu    weights beside the model's own on its last stage: a draft model, adapters
    kv_pool_bytes          cache pool of each device where the user gives it; utilization has no part in it then
    state_pages            pages a sequence holds per recurrent layer before speculation
    text_only              vision and audio encoders are not loaded
    eager                  no CUDA graphs are captured
    weight_quality         share of full-precision quality a source document gives the format, low and high
    """

    model: ModelProfile
    accelerator: Accelerator
    gpus: int
    tp: int
    pp: int
    dp: int
    ep: int
    engine: EngineConstants
    engine_version: str
    weight_format: str
    weight_bits: Mapping[str, float]
    weight_compute: str
    kv_format: str
    kv: KvFormat
    utilization: float
    input_tokens: int
    output_tokens: int
    context_tokens: int
    decode_context_tokens: float
    batch: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_tokens: int
    extra_cache_layers: int = 0
    speculative_tokens: int = 0
    extra_bytes_per_gpu: float = 0.0
    kv_pool_bytes: int | None = None
    state_pages: int = 1
    text_only: bool = False
    eager: bool = False
    mtp_loaded: bool = False
    weight_quality: tuple[float, float] | None = None

    @property
    def expert_shards(self) -> int:
        return max(self.tp * self.dp if self.engine.experts_over_dp else self.tp, self.ep)

    @property
    def sharing_replicas(self) -> int:
        """Replicas among which the routed experts are split: they step together."""
        return self.dp if self.model.experts and self.expert_shards > self.tp else 1

    @property
    def sharing_batch(self) -> int:
        """Sequences whose tokens meet in one step of the experts."""
        return self.batch if self.sharing_replicas > 1 else self.batch_per_replica

    @property
    def batch_per_replica(self) -> int:
        return -(-self.batch // self.dp)

    def check(self) -> None:
        """Refuse placements that no engine can run; the message says what would work."""
        check_placement(self)


def check_placement(s: Scenario) -> None:
    """gpus = tp x pp x dp; heads divide by tp; KV heads divide or are divided; ep fits the stage."""
    for name in ("gpus", "tp", "pp", "dp", "ep", "batch", "context_tokens"):
        if getattr(s, name) < 1:
            raise InfoptError(f"--{name.replace('_tokens', '')} must be at least 1, got {getattr(s, name)}")
    if s.tp * s.pp * s.dp != s.gpus:
        raise InfoptError(
            f"tp {s.tp} x pp {s.pp} x dp {s.dp} = {s.tp * s.pp * s.dp} devices, but {s.gpus} are given; "
            f"make the product equal --gpus"
        )
    if s.pp > s.model.layers:
        raise InfoptError(f"pp {s.pp} is more than the {s.model.layers} layers of {s.model.id}")
    allowed = allowed_tensor_parallel(s.model)
    if s.tp not in allowed:
        shown = ", ".join(str(tp) for tp in allowed if tp <= 128)
        heads = sorted({(g.mixer.q_heads, g.mixer.kv_heads) for g in s.model.groups if g.mixer.q_heads})
        text = "; ".join(f"{q} query and {kv} KV heads" for q, kv in heads)
        raise InfoptError(f"tp {s.tp} does not divide {s.model.id} ({text}); tp may be {shown}")
    if s.ep not in {1, s.tp, s.tp * s.dp}:
        raise InfoptError(
            f"ep {s.ep} is not possible: experts are split over tp ({s.tp}) or tp x dp ({s.tp * s.dp}) devices"
        )
    if s.ep > 1 and not any(group.feed_forward.experts for group in s.model.groups):
        raise InfoptError(f"ep {s.ep}: {s.model.id} has no experts; leave --ep out")


def allowed_tensor_parallel(model: ModelProfile, limit_tp: int = 512) -> list[int]:
    """TP degrees that divide the query heads of every layer, and divide or are divided by its KV heads."""
    mixers = [g.mixer for g in model.groups if g.mixer.q_heads]
    if not mixers:
        return list(range(1, limit_tp + 1))
    top = min(limit_tp, min(m.q_heads for m in mixers))
    return [tp for tp in range(1, top + 1) if all(_divides(tp, m.q_heads, m.kv_heads) for m in mixers)]


def _divides(tp: int, q_heads: int, kv_heads: int) -> bool:
    if q_heads % tp:
        return False
    return kv_heads == 0 or kv_heads % tp == 0 or tp % kv_heads == 0


def stages(model: ModelProfile, pp: int) -> list[list[LayerRun]]:
    """Layers of each pipeline stage, as runs.

    L // pp layers a stage; the remainder goes one each to the stages before the last, from the back,
    so that the last stage, which also holds the head, is never the longest (vLLM distributed/utils.py).
    """
    if pp == 1:
        return [list(model.runs)]
    sizes = [model.layers // pp] * pp
    for i in range(2, model.layers % pp + 2):
        sizes[-i if i <= pp else -1] += 1
    cut: list[list[LayerRun]] = []
    remaining = iter(model.runs)
    run = next(remaining)
    left = run.layers
    for size in sizes:
        stage: list[LayerRun] = []
        while size:
            if not left:
                run = next(remaining)
                left = run.layers
            taken = min(size, left)
            stage.append(run if taken == run.layers else replace(run, layers=taken))
            size, left = size - taken, left - taken
        cut.append(stage)
    return cut
