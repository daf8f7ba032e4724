"""Max-load rows as scenarios: as many sequences as the cache or the benchmark holds, all of them decoding.

How many requests a benchmark sends for given lengths, and what its checkpoints cache in, is data
(`data/speed_terms.yaml`).
"""

from dataclasses import replace

from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.studies.scenarios import Request, build
from infopt.studies.speed_truth import SpeedRow, published_device, served_engine, served_model, speed_terms

ENDLESS = 10**9
FULL_PRECISION = ("bf16", "fp16", "fp32")


def is_max_load(row: SpeedRow) -> bool:
    """Output tokens per second of a benchmark that sends all its requests at once."""
    return row.metric == "output_tok_s" and row.load.lower() in ("max", "offline")


def load_scenario(row: SpeedRow) -> Scenario:
    """The scenario with its resident sequences as batch; raises InfoptError where the row does not suffice.

    Mixtures run with attention replicated over the devices and experts split among them where the note says so.
    """
    words = speed_terms()
    if not (row.gpus and row.input_tokens and row.output_tokens):
        raise InfoptError("devices or lengths not stated")
    requests = words["load_requests"].get(row.prefix, {}).get(f"{row.input_tokens}/{row.output_tokens}", ENDLESS)
    if not row.tp:
        raise InfoptError("tp not stated")
    model, weights = served_model(row, words)
    replicas = row.tp if model.experts and "attention DP on for MoE" in row.note else 1
    engine = served_engine(row, words)
    request = Request(
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        gpus=row.gpus,
        tp=row.tp // replicas,
        pp=row.pp or 1,
        dp=replicas,
        ep=row.tp if replicas > 1 else 1,
        engine=engine,
        weights=weights,
        kv=words["load_kv"].get(row.prefix) if weights not in FULL_PRECISION else None,
    )
    device = HardwareChoice(published_device(row.gpu), None, row.gpu)
    s = build(model, device, request).scenario
    most = min(memory_ledger(s).max_sequences, s.max_num_seqs) * replicas
    if most < 1:
        raise InfoptError("the ledger says that not one sequence fits")
    return replace(s, batch=min(most, requests))
