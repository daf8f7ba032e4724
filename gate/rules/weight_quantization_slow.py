"""Quantized weights that are unpacked before every product, at a batch where that loses."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.weight_kernels import storage_only
from infopt.boundaries.weight_quantization import decide, gain_ends_batch, in_format
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, own_engine, running_of
from infopt.ledgers.memory import memory_ledger


def check(case: Case) -> Iterator[Hit]:
    """16 bit fits the same devices and gives shorter steps at the policy's load, at both ends of what is known."""
    situation = running_of(case)
    if situation is None or not own_engine(case) or not (lengths_known(case) and load_known(case)):
        return
    s = situation.scenario
    if not storage_only(s):
        return
    plain = in_format(situation, s.model.compute_dtype)
    if memory_ledger(plain.scenario).max_sequences < s.batch_per_replica:
        return
    asked = plain.changed(load=replace(plain.load, weight_format=s.weight_format))
    best = decide(asked).best
    if best is None or best.gain.high >= 1:
        return
    end = gain_ends_batch(plain, best.situation)
    pays = f"; it pays below {end:,} sequences" if end is not None and end > 1 else ""
    yield Hit(
        f"{s.accelerator.name or s.accelerator.id} multiplies {s.weight_format} weights in 16 bit: TPOT is "
        f"{1 / best.gain.value:.2f}x that of {s.model.compute_dtype} at batch {s.batch}{pays}",
        at=case.deployment.said_at("quantization") or case.deployment.said_at("model"),
        detail=f"{1 / best.gain.high:.2f}x to {1 / best.gain.low:.2f}x",
        remedy=f"{s.model.compute_dtype} weights fit the same devices with {s.batch} sequences",
        confidence="likely",
    )


RULE = Rule(
    id="weight-quantization-slow",
    summary="quantized weights make steps longer at this batch",
    severity="warning",
    why="Weights without kernels of their own are unpacked to 16 bit: bytes are saved, products are not.",
    remedy="16-bit weights, or a format the device multiplies in.",
    check=check,
    source="boundaries/data/weight_kernels.yaml",
)
