"""The servers of a run: what each is started with, and the scenario `infopt plan` is given for it."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.engine.server import Setup

SEQUENCES = 16
MIB = 2**20


@dataclass(frozen=True)
class Config:
    """One server.

    shape         of the model, in geometries.yaml
    pool_bytes    of the cache, of each rank; None: the engine takes its share of all memory
    context       longest, tokens;  sequences  most that run at once
    dtype, kv     None: as the model is stored
    options       of the engine beside these;  environment  too
    plan          options of `infopt plan` beside model, hardware, context and pool
    """

    shape: str
    pool_bytes: int | None = 512 * MIB
    context: int = 2048
    dtype: str | None = None
    kv: str | None = None
    tp: int = 1
    sequences: int = SEQUENCES
    prefix_caching: bool = False
    goal: str = "serves"
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    plan: tuple[str, ...] = ()

    def plan_options(self) -> list[str]:
        """The same for `infopt plan`, without model and hardware."""
        given = ["--ctx", str(self.context), "--engine-version", "0.32.0", *self.plan]
        given += [] if self.pool_bytes is None else ["--kv-pool", f"{self.pool_bytes / 1e9:.9f}GB"]
        given += [] if self.dtype is None else ["--weights", "fp32", "--kv", "fp32"]
        given += [] if self.kv is None else ["--kv", self.kv]
        return given + ([] if self.tp == 1 else ["--tp", str(self.tp)])


DRAFTED = 4
NGRAM = json.dumps(
    {"method": "ngram", "num_speculative_tokens": DRAFTED, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
)
# One rank to a core, for there is one memory node.
TWO_RANKS = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}
CONFIGS = {
    # Looked at when they start.
    "small": Config("real", pool_bytes=100_000_000),
    "fp8": Config("real", pool_bytes=1024 * MIB, kv="fp8", goal="pool"),
    "f32": Config("real", pool_bytes=1024 * MIB, dtype="float32", goal="pool"),
    "tp2": Config("half", pool_bytes=1024 * MIB, tp=2, goal="pool", environment=TWO_RANKS),
    "too-long": Config("real", pool_bytes=100_000_000, context=8192, goal="refuses"),
    "block-16": Config("real", options=("--block-size", "16"), goal="refuses", plan=("--block-size", "16")),
    "too-full": Config(
        "real", pool_bytes=None, options=("--gpu-memory-utilization", "1.0"), goal="refuses", plan=("--util", "1.0")
    ),
    # Timed.
    "real": Config("real", pool_bytes=1024 * MIB, context=1024, sequences=40, prefix_caching=True),
    "ngram": Config("real", options=("--speculative-config", NGRAM)),
    "half": Config("half", context=512),
    "one": Config("one", context=512),
    "own": Config("own", context=512),
}
FIRST_WAVE = ("small", "fp8", "f32", "tp2", "too-long", "block-16", "too-full")
SECOND_WAVE = ("real", "one", "half", "own", "ngram")
POOLS = ("small", "fp8", "f32", "tp2", *SECOND_WAVE)


def setup_of(name: str, models: dict[str, Path]) -> Setup:
    """How the engine is started."""
    config = CONFIGS[name]
    given = ["--enforce-eager", "--max-model-len", str(config.context), "--max-num-seqs", str(config.sequences)]
    given += [] if config.shape == "real" else ["--load-format", "dummy"]
    given += [] if config.pool_bytes is None else ["--kv-cache-memory-bytes", str(config.pool_bytes)]
    given += [] if config.dtype is None else ["--dtype", config.dtype]
    given += [] if config.kv is None else ["--kv-cache-dtype", config.kv]
    given += [] if config.tp == 1 else ["--tensor-parallel-size", str(config.tp)]
    given += ["--enable-prefix-caching" if config.prefix_caching else "--no-enable-prefix-caching"]
    return Setup(name, models[config.shape], (*given, *config.options), config.environment, config.goal)
