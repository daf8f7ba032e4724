"""What a vLLM device has outside the budget of its utilization, and what must lie there.

    left      (1 - u) U
    needs     CUDA context, collectives' own; CUDA graphs up to 0.19, inside since 0.20; the sampler's warm-up
    logits    max_num_seqs x vocabulary x 4 bytes, once more after the cache is taken
U usable memory, u utilization. Graphs of several ranks: data/graphs.yaml.
Source: vllm v1/worker/gpu_worker.py; constants in profiles/data/engines/vllm.
"""

from functools import cache

from infopt.frozen import dataclass
from infopt.gate.case import Case
from infopt.gate.engines import DATA
from infopt.ledgers.activation import logits_bytes
from infopt.profiles.engines import version_key
from infopt.records import Record, read_yaml, validate_record

GIB = 2**30
VENDORS = frozenset({"nvidia", "amd"})


class Graphs(Record):
    """Graph memory that was reported for versions before `until` at this many ranks or more."""

    until: str
    ranks: int
    gib: float
    source: str


@dataclass(frozen=True, slots=True)
class Outside:
    """Bytes outside the budget of one device: what is left, and the least that must lie there."""

    left: float
    context: float
    graphs: float
    logits: float

    @property
    def spare(self) -> float:
        """What is left beside context and graphs."""
        return self.left - self.context - self.graphs


def outside(case: Case) -> Outside | None:
    """The bytes outside; None for other engines, a fixed cache, or where no plan tells."""
    if case.plan is None or case.deployment.engine != "vllm" or case.value("kv_bytes"):
        return None
    s = case.plan.scenario
    if s.engine.budget != "share_of_total" or s.accelerator.vendor not in VENDORS:
        return None
    inside = s.engine.graphs_in_budget or case.value("eager")
    graphs = 0.0 if inside else max(s.engine.graph_bytes.low, reported_graphs(s.engine_version, s.tp * s.pp))
    return Outside(
        left=(1 - s.utilization) * s.accelerator.usable_memory_bytes,
        context=s.engine.context_bytes.at(s.tp * s.pp).low,
        graphs=graphs,
        logits=float(s.engine.warmup_copies * logits_bytes(s)),
    )


def reported_graphs(version: str, ranks: int) -> float:
    """Bytes of graphs reported for a version at a number of ranks, 0 where nothing was."""
    rows = [r for r in _graphs() if version_key(version) < version_key(r.until) and ranks >= r.ranks]
    return max((row.gib for row in rows), default=0.0) * GIB


@cache
def _graphs() -> tuple[Graphs, ...]:
    rows: list[object] = read_yaml(DATA / "graphs.yaml")
    return tuple(validate_record(Graphs, row, "graphs.yaml") for row in rows)
