"""Two scenarios term by term: every figure of one plan beside the same figure of the other."""

from collections.abc import Iterator
from dataclasses import dataclass

from infopt.ledgers.estimate import Estimate
from infopt.studies.derivations import explain
from infopt.studies.planning import Plan

# Figures by ledger and name, with their unit, in the order they are printed.
Figures = dict[tuple[str, str], tuple[float | None, str]]
LEDGERS = ("memory", "capacity", "kv", "bandwidth", "compute", "estimate", "cost", "hardware")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both plans; None where a plan has no such term or does not know it."""

    ledger: str
    name: str
    unit: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        return self.b - self.a if self.a is not None and self.b is not None else None

    @property
    def ratio(self) -> float | None:
        return self.b / self.a if self.a and self.b is not None else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two plans and their figures; the options that made them, as they were typed."""

    a: Plan
    b: Plan
    a_options: str
    b_options: str
    rows: tuple[Row, ...]

    @property
    def fits(self) -> bool | None:
        """Whether both fit; a definite no of one stands even where the other is undetermined."""
        verdicts = {self.a.fits, self.b.fits}
        return False if False in verdicts else None if None in verdicts else True


def compare(a: Plan, b: Plan, a_options: str, b_options: str) -> Comparison:
    """Every figure that either plan has, ledger by ledger."""
    first, second = dict(_figures(a)), dict(_figures(b))
    keys = sorted(dict.fromkeys((*first, *second)), key=lambda key: LEDGERS.index(key[0]))
    rows = []
    for key in keys:
        one, other = first.get(key), second.get(key)
        unit = (one or other or (None, ""))[1]
        row = Row(*key, unit, one[0] if one else None, other[0] if other else None)
        if row.a or row.b:  # a term that neither has, or is zero in both, says nothing
            rows.append(row)
    return Comparison(a, b, a_options, b_options, tuple(rows))


def _figures(plan: Plan) -> Iterator[tuple[tuple[str, str], tuple[float | None, str]]]:
    m, e, cost = plan.memory, plan.estimate, plan.cost
    for line in explain(plan):
        if line.ledger in LEDGERS and line.ledger not in ("estimate", "cost"):
            yield (line.ledger, line.name), (line.value, "gib" if line.ledger == "memory" else line.unit)
    yield ("memory", "used"), (m.used_bytes_per_gpu, "gib")
    yield ("memory", "usable"), (m.capacity_bytes_per_gpu, "gib")
    yield ("memory", "KV pool"), (m.kv_pool_bytes_per_gpu, "gib")
    yield ("capacity", "sequences that fit"), (float(m.max_sequences * plan.scenario.dp), "sequences")
    yield ("capacity", "longest sequence"), (float(m.max_context_tokens), "tokens")
    if isinstance(e, Estimate):
        yield ("estimate", "TPOT"), (e.tpot_s, "s")
        for term in e.terms:
            yield ("estimate", f"  {'KV' if term.name == 'kv' else term.name}"), (term.value, "s")
        yield ("estimate", "TTFT"), (e.ttft_s, "s")
        yield ("estimate", "output tokens/s"), (e.output_tokens_per_s, "tokens/s")
        yield ("estimate", "output tokens/s a device"), (e.output_tokens_per_s / plan.scenario.gpus, "tokens/s")
    if cost is not None:
        yield ("cost", "all devices"), (cost.usd_per_hour, "usd_per_hour")
        yield ("cost", "million output tokens"), (cost.usd_per_million_output_tokens, "usd")
