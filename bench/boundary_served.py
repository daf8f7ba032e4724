"""Pairs of served deployments that differ in one thing, and what boundaries predict of them (boundary_evidence.py)."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from infopt.boundaries.continuous_batching import residence_s
from infopt.boundaries.deciding import by_gain
from infopt.boundaries.load import Load
from infopt.boundaries.parallelism import measured_spread
from infopt.boundaries.placements import Placed, placed
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Basis, off_alike, variants
from infopt.boundaries.technique import Gain, Verdict
from infopt.boundaries.weight_quantization import decide
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.profiles.formats import load_weight_format
from infopt.studies.speed_truth import SpeedRow, served_scenario


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison: what was predicted of it and what was measured."""

    technique: str
    group: str
    what: str
    gain: Gain
    verdict: Verdict
    basis: Basis
    measured: float


def pair(technique: str, group: str, what: str, gain: Gain, basis: Basis, measured: float) -> Pair:
    return Pair(technique, group, what, gain, by_gain(gain, basis), basis, measured)


def tpot_gain(before: Situation, after: Situation) -> Gain:
    return before.gain_over(after, "tpot", lambda here, there: before.tpot_s(here) / after.tpot_s(there))


class Served:
    """A served row with its own scenario and times; `ttft_s` is None where its run states none."""

    def __init__(self, row: SpeedRow, ttft_s: float | None) -> None:
        s = served_scenario(row)
        # A benchmark lets its clients run at once, whatever the engine's default.
        self.scenario = replace(s, max_num_seqs=max(s.max_num_seqs, s.batch))
        self.row, self.ttft_s, self.tpot_s = row, ttft_s, row.value / 1e3
        self.situation = Situation(self.scenario)

    @property
    def usable(self) -> bool:
        """Predicted by constants of its own class, in memory, and not faster than its bytes."""
        known = self.situation.fits and self.situation.steps.basis == "estimate"
        return known and self.tpot_s >= self.situation.bandwidth.tpot_floor_s

    @property
    def whole_s(self) -> float | None:
        """One request."""
        return None if self.ttft_s is None else self.ttft_s + (self.row.output_tokens or 0) * self.tpot_s

    def key(self, *without: str) -> tuple[Any, ...]:
        """All that two deployments share, less what is named."""
        s, row = self.scenario, self.row
        found = {
            "model": s.model.id,
            "device": s.accelerator.id,
            "weights": s.weight_format,
            "engine": row.engine,
            "lengths": (s.input_tokens, s.output_tokens),
            "batch": s.batch,
            "placement": (s.tp, s.dp, s.ep),
            "drafts": "mtp" in row.note,
        }
        return tuple(value for name, value in found.items() if name not in without)

    @property
    def kind(self) -> str:
        return "mixtures" if self.scenario.model.experts else "dense"


def served(rows: Sequence[SpeedRow]) -> list[Served]:
    """Served rows that can be predicted."""
    firsts = {row.run: row.value / 1e3 for row in rows if row.metric == "ttft_ms"}
    found = []
    for row in rows:
        if row.prefix != "aic" or row.flagged or row.metric != "tpot_ms":
            continue
        try:
            one = Served(row, firsts.get(row.run))
        except InfoptError:
            continue
        if one.usable:
            found.append(one)
    return found


def grouped(found: Iterable[Served], *without: str) -> Iterator[list[Served]]:
    """Deployments alike in all but what is named."""
    groups: dict[tuple[Any, ...], list[Served]] = defaultdict(list)
    for one in found:
        groups[one.key(*without)].append(one)
    yield from (group for group in groups.values() if len(group) > 1)


def kinds_of(group: Sequence[Served], by: Callable[[Served], Any]) -> dict[Any, list[Served]]:
    kinds: dict[Any, list[Served]] = defaultdict(list)
    for one in group:
        kinds[by(one)].append(one)
    return kinds


def tpot(group: Sequence[Served]) -> float:
    return statistics.median(one.tpot_s for one in group)


def served_weights(found: list[Served]) -> Iterator[Pair]:
    """TPOT of one deployment in two formats, against weight-quantization with --to-weights."""
    for group in grouped(found, "weights"):
        kinds = kinds_of(group, lambda one: one.scenario.weight_format)
        ordered = sorted(kinds, key=lambda name: -load_weight_format(name).bits_per_weight)
        for at, wide in enumerate(ordered):
            for narrow in ordered[at + 1 :]:
                one = kinds[wide][0]
                asked = Situation(one.scenario, Load(weight_format=narrow))
                tried = [candidate for candidate in decide(asked).tried if not candidate.blocked]
                if tried:
                    ratio, name = tpot(kinds[wide]) / tpot(kinds[narrow]), f"served {one.kind}, {wide} to {narrow}"
                    what = f"{one.row.id} batch {one.scenario.batch}"
                    yield Pair("weights", name, what, tried[0].gain, tried[0].verdict, "estimate", ratio)


def wider(found: list[Served]) -> Iterator[Pair]:
    """TPOT of one replica on more devices."""
    plain = [one for one in found if one.scenario.dp == one.scenario.ep == 1]
    for group in grouped(plain, "placement"):
        kinds = kinds_of(group, lambda one: one.scenario.tp)
        for narrow in sorted(kinds):
            for wide in sorted(width for width in kinds if width > narrow):
                one, other = kinds[narrow][0], kinds[wide][0]
                measured = tpot(kinds[narrow]) / tpot(kinds[wide])
                gain = placed_gain(as_placed(one.situation), as_placed(other.situation), Placed.tpot_s)
                what = f"{one.row.id} tp {narrow} {wide}"
                yield pair("parallelism", f"TPOT of wider TP, {one.kind}", what, gain, "estimate", measured)


def as_placed(situation: Situation, groups: int = 1) -> Placed:
    s = situation.scenario
    return placed(situation, groups, s.tp, s.pp, s.dp, s.ep, s.batch * groups)


def placed_gain(here: Placed, there: Placed, of: Callable[[Placed, Any], float]) -> Gain:
    """Of a figure that is better when it is less, with the interval of parallelism."""
    best = of(here, here.steps) / of(there, there.steps)
    ends = [best, *(of(here, a) / of(there, off_alike(there.steps, a)) for a in variants(here.steps))]
    least, most = measured_spread(here, there)
    return Gain(best, min(least * best, *ends), max(most * best, *ends), "tpot")


def replicas(found: list[Served]) -> Iterator[Pair]:
    """Tokens/s of `n` narrow replicas over one wide on the same devices, each replica with its part of the clients."""
    plain = [one for one in found if one.scenario.dp == one.scenario.ep == 1 and one.whole_s]
    for group in grouped(plain, "placement", "batch"):
        by = {(one.scenario.tp, one.scenario.batch): one for one in group}
        for (tp, batch), wide in sorted(by.items()):
            for parts in (2, 4, 8):
                narrow = by.get((tp // parts, batch // parts)) if tp % parts == 0 and batch % parts == 0 else None
                if narrow is not None and narrow.whole_s and wide.whole_s:
                    there, here = as_placed(narrow.situation, parts), as_placed(wide.situation)
                    gain = placed_gain(here, there, lambda option, steps: 1 / option.rate_per_s(steps))
                    name = f"replicas instead of TP, {wide.kind}"
                    what = f"{wide.row.id} tp {tp} {tp // parts}"
                    yield pair("parallelism", name, what, gain, "estimate", wide.whole_s / narrow.whole_s)


def shared_experts(found: list[Served]) -> Iterator[Pair]:
    """Tokens/s of one deployment with attention replicas that share experts over that with tensor parallelism."""
    for group in grouped([one for one in found if one.whole_s and one.scenario.model.experts], "placement"):
        by = kinds_of(group, lambda one: (one.scenario.gpus, one.scenario.tp, one.scenario.dp, one.scenario.ep))
        for one in by:
            for other in by:
                if one[0] == other[0] and (one[1] > other[1] or (one[1:3] == other[1:3] and one[3] < other[3])):
                    wide, narrow = by[one][0], by[other][0]
                    gain = placed_gain(
                        as_placed(wide.situation), as_placed(narrow.situation), lambda o, steps: 1 / o.rate_per_s(steps)
                    )
                    measured = (wide.whole_s or 0.0) / (narrow.whole_s or 1.0)
                    name = "EP or shared experts instead of TP"
                    yield pair("parallelism", name, f"{wide.row.id} {one} {other}", gain, "estimate", measured)


def batches(found: list[Served]) -> Iterator[Pair]:
    """Tokens/s of more clients over those of the fewest: the bytes that a batch shares."""
    for group in grouped([one for one in found if one.whole_s], "batch"):
        first, *more = sorted(group, key=lambda one: one.scenario.batch)
        for one in more:
            if one.scenario.batch == first.scenario.batch:
                continue
            ratio = one.scenario.batch / first.scenario.batch
            more_by = "4 and less" if ratio <= 4 else "5 to 16" if ratio <= 16 else "17 and more"
            name, what = f"served {one.kind}, times {more_by}", f"{one.row.id} {first.scenario.batch}"
            measured = ratio * (first.whole_s or 0.0) / (one.whole_s or 1.0)
            gain = batch_gain(first.situation, one.situation)
            yield pair("batch", name, what, gain, "estimate", measured)


def batch_gain(first: Situation, more: Situation) -> Gain:
    """Throughput of `more` over that of `first`, by the time a request stays (continuous_batching)."""
    ratio = more.scenario.batch / first.scenario.batch

    def of(a: Any, b: Any) -> float:
        return ratio * residence_s(first, a, first.batch) / residence_s(more, b, more.batch)

    return first.gain_over(more, "throughput", of)


def served_pairs(rows: Sequence[SpeedRow]) -> Iterator[Pair]:
    """All of them."""
    found = served(rows)
    for compared in (served_weights, wider, replicas, shared_experts, batches):
        yield from compared(found)
