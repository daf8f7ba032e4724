"""What an engine wrote about its memory when it started, or why it did not.

Every figure is the engine's own; None is "the log does not say". Bytes of a rank are of one device.
"""

from typing import Any, Literal

from pydantic import Field

from infopt.records import Record

SCHEMA: Literal["infopt/start-log/1"] = "infopt/start-log/1"

# Why an engine did not start.
RefusalKind = Literal[
    "kv_too_small",  # one request of the full context needs more than the pool
    "no_kv",  # nothing is left for the pool
    "free_below_utilization",  # less is free at the start than utilization x total
    "out_of_memory",  # an allocation failed
    "block_size",  # no attention backend takes this block size
    "numa",  # fewer NUMA nodes than workers
    "other",  # the engine ended with an error that is none of these
]


class RankMemory(Record):
    """One device of the engine, or one buffer of the host (llama.cpp).

    weights_bytes           after loading
    non_torch_bytes         held outside the allocator of torch (context not included where the engine leaves it out)
    activation_bytes        peak of the warm-up beyond the weights; compute buffers (llama.cpp, TensorRT-LLM)
    consumed_bytes          weights and non-torch in one figure, where the engine prints no other
    rest_bytes              everything but the pool in one figure
    graphs_estimated_bytes, graphs_taken_bytes  CUDA graphs: taken from the budget, and what they took
    kv_pool_bytes           of the cache, the sum of kv_pool_figures printed ones (keys and values apart)
    total_bytes             of the device, as the engine multiplies it
    free_at_start_bytes     before anything was loaded;  free_at_load_bytes  before the weights, collectives set up
    load_s                  loading the weights
    host                    memory of the host beside a device
    """

    rank: str
    weights_bytes: float | None = None
    non_torch_bytes: float | None = None
    activation_bytes: float | None = None
    consumed_bytes: float | None = None
    rest_bytes: float | None = None
    graphs_estimated_bytes: float | None = None
    graphs_taken_bytes: float | None = None
    kv_pool_bytes: float | None = None
    kv_pool_figures: int = 1
    total_bytes: float | None = None
    free_at_start_bytes: float | None = None
    free_at_load_bytes: float | None = None
    load_s: float | None = None
    host: bool = False


class Refusal(Record):
    """Why it did not start, with the engine's own numbers.

    text                      its line, shortened
    needed_bytes, available_bytes  of the cache: for one request, and the pool
    estimated_context_tokens  longest context the engine says would fit
    wanted_bytes, free_bytes, total_bytes  utilization x total, free at the start, all of the device
    tried_bytes               the allocation that failed
    least_share               smallest fraction the engine says would do
    """

    kind: RefusalKind
    text: str
    context_tokens: int | None = None
    needed_bytes: float | None = None
    available_bytes: float | None = None
    estimated_context_tokens: int | None = None
    wanted_bytes: float | None = None
    free_bytes: float | None = None
    total_bytes: float | None = None
    tried_bytes: float | None = None
    utilization_share: float | None = None
    least_share: float | None = None
    block_tokens: int | None = None
    workers: int | None = None


class StartLog(Record):
    """One start of one engine.

    model, device            as the log calls them
    processor                it runs on a CPU
    ranks                    devices, in the order they speak;  together: their figures add up to one model (layers
                             are split over them), else each stands for itself
    context_tokens           longest context, as configured
    kv_pool_tokens, kv_blocks, block_tokens, max_concurrency  what the pool holds, of the engine
    kv_given, kv_given_bytes  the user gave the pool: it was not profiled; how much, where its option is in the log
    utilization_share        of total (vLLM), static (SGLang) or of what is free (TensorRT-LLM)
    dtype, quantization, kv_format  as printed, None where the engine follows the model
    speculation, speculative_tokens  its method and drafted tokens
    init_s                   profiling, allocating and warming up
    started                  whether it came to serve; None where the log ends before
    starts                   starts in the file, of which this is the last
    """

    schema_: Literal["infopt/start-log/1"] = Field(SCHEMA, alias="schema")
    source: str
    engine: str
    engine_version: str | None = None
    model: str | None = None
    device: str | None = None
    processor: bool | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    together: bool = False
    ranks: tuple[RankMemory, ...] = ()
    context_tokens: int | None = None
    kv_pool_tokens: int | None = None
    kv_blocks: int | None = None
    block_tokens: int | None = None
    max_concurrency: float | None = None
    kv_given: bool | None = None
    kv_given_bytes: float | None = None
    utilization_share: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_format: str | None = None
    eager: bool | None = None
    prefix_caching: bool | None = None
    speculation: str | None = None
    speculative_tokens: int | None = None
    init_s: float | None = None
    started: bool | None = None
    refusal: Refusal | None = None
    starts: int = 1
    notes: tuple[str, ...] = ()
    matched_lines: int = 0

    @property
    def devices(self) -> tuple[RankMemory, ...]:
        """Ranks on devices; the host's where there is nothing else."""
        on_device = tuple(rank for rank in self.ranks if not rank.host)
        return on_device or self.ranks

    def worst(self, name: str) -> float | None:
        """A figure of the rank that is worst off: the smallest pool or free memory, else the largest; the sum where
        ranks hold one model together."""
        values = [value for rank in self.devices if (value := getattr(rank, name)) is not None]
        if not values:
            return None
        if self.together:
            return float(sum(values))
        least = name == "kv_pool_bytes" or name.startswith(("free_", "total_"))
        return float(min(values) if least else max(values))

    @property
    def kv_pool_bytes(self) -> float | None:
        """The pool of one rank: as given, else the smallest printed."""
        return self.kv_given_bytes if self.kv_given_bytes is not None else self.worst("kv_pool_bytes")

    @property
    def world(self) -> int:
        """Devices of one replica; 1 where the log names no more."""
        return (self.tp or 1) * (self.pp or 1)

    def plain(self) -> dict[str, Any]:
        """As it is printed."""
        return self.model_dump(mode="json", by_alias=True)
