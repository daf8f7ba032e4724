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
    """16 bit fits the same devices and gives shorter steps at the policy's load."""
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
    if best is None or best.gain.value >= case.parameter(RULE.id, "gain"):
        return
    sure = best.gain.high < 1
    end = gain_ends_batch(plain, best.situation)
    pays = f"; below {end:,} sequences it gains a tenth" if end is not None and end > 1 else ""
    yield Hit(
        f"{s.accelerator.name or s.accelerator.id} multiplies {s.weight_format} weights in 16 bit: TPOT gains "
        f"{best.gain.value:.2f}x over {s.model.compute_dtype} at batch {s.batch}{pays}",
        at=case.deployment.said_at("quantization") or case.deployment.said_at("model"),
        detail=f"{best.gain.low:.2f}x to {best.gain.high:.2f}x",
        remedy=f"{s.model.compute_dtype} weights fit the same devices with {s.batch} sequences",
        severity="warning" if sure else "note",
        confidence="likely" if sure else "possible",
    )


RULE = Rule(
    id="weight-quantization-slow",
    summary="quantized weights make steps no shorter at this batch",
    severity="warning",
    why="Weights without kernels of their own are unpacked to 16 bit: bytes are saved, products are not.",
    remedy="16-bit weights, or a format the device multiplies in.",
    check=check,
    parameters={"gain": 1.0},
    source="boundaries/data/weight_kernels.yaml",
)
