"""Memory of an engine as its own start-up log has it, in place of the constants that came with infopt.

    same model, format and placement    term(now) = term(then) + shipped(now) - shipped(then)
    another model, same placement       activation(now) = shipped(now) x activation(then) / shipped(then)
                                        non-torch(now) = non-torch(then)
then: the limits of the start that was logged (sequences, batched tokens, context); now: those asked. Shipped constants
carry only the difference between the two, and so does their interval; the rest of it is the rounding of the log and
what two starts differ by. Of the same engine version on the same kind of device only. Another model's log counts only
where the version's constants are carried over from an older one: where they were measured, it adds nothing (same
file). Ranks of a pipeline differ and the log is read for the worst: none of it is taken there. Sources: the record
(docs/calibration.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from infopt.frozen import dataclass
from infopt.ledgers.activation import activation_bytes
from infopt.ledgers.arrays import larger, root, smaller
from infopt.ledgers.scenario import Scenario
from infopt.profiles.engines import version_key
from infopt.profiles.geometry import LayerRun

if TYPE_CHECKING:
    from infopt.hardware.calibration import MemoryTerm

Interval = tuple[Any, Any, Any]

# Two starts of one configuration: five pairs of vLLM 0.19 logs agree to 0.01 GiB (studies/data/memory_truth.csv).
REPEAT_BYTES = 0.02 * 2**30
# Other models on the same placement: non-torch memory is 2.06 to 2.21 GiB at tp 2 and 4, 0.24 to 0.27 at 1; the ratio
# of activation to constants of 0.11, which are 2.5 times too large, differs by -12 to +14 % (5th to 95th percentile of
# 1122 pairs of 0.19 logs; same file).
OTHER_NON_TORCH_SHARE = 0.08
OTHER_ACTIVATION_SHARE = 0.15
NONE: Interval = (0.0, 0.0, 0.0)
# Terms of the budget that constants of an engine give; non_torch is communication and engine together.
TERMS = ("activation", "communication", "engine", "graphs")


@dataclass(frozen=True, slots=True)
class MeasuredMemory:
    """Terms of one rank that a log replaces.

    terms    value, low, high by name of the ledger, those measured only; one figure is shared out as shipped
    pool     the same for the pool's interval: a figure measured as one has its uncertainty once
    weights_bytes  of that rank as the engine printed them, None where it did not or they are of another model
    source   the log
    own      of this model: all that the constants say of it was measured
    """

    terms: Mapping[str, Interval]
    pool: tuple[Interval, ...]
    weights_bytes: float | None
    source: str
    own: bool


def measured_memory(s: Scenario, stage: Sequence[LayerRun], last: bool) -> MeasuredMemory | None:
    """What logs of this engine on this device say about one rank; None where none is of it."""
    logs = [term for term in s.accelerator.measured_memory if _same_engine(s, term) and _same_world(s, term)]
    if s.pp > 1 or not logs:
        return None
    shipped = shipped_terms(s, stage, last)
    start = _nearest(s, [term for term in logs if _same_model(s, term)], stage, last)
    if start:
        return _of_own(s, start, shipped, stage, last)
    return None if s.engine.known else _of_other(logs, shipped)


def _of_other(logs: Sequence["MemoryTerm"], shipped: dict[str, Interval]) -> MeasuredMemory | None:
    """What the latest log of another model says where constants of the version are not known."""
    latest = max(logs, key=_age)
    start = {term.name: term for term in logs if _limits(term) == _limits(latest) and term.model == latest.model}
    terms, pool = {}, []
    held = start.get("activation")
    if held is not None and held.shipped_bytes:
        value = shipped["activation"][0] * (held.value_bytes / held.shipped_bytes)
        terms["activation"] = _around(value, OTHER_ACTIVATION_SHARE * value)
    pool.append(terms.get("activation", shipped["activation"]))
    held = start.get("non_torch")
    if held is None:
        pool += [shipped["engine"], shipped["communication"]]
    else:
        spread = root(held.rounding_bytes**2 + (OTHER_NON_TORCH_SHARE * held.value_bytes) ** 2)
        terms["engine"], terms["communication"] = _split(held.value_bytes, spread, shipped)
        pool.append(_around(held.value_bytes, spread))
    pool.append(shipped["graphs"])
    return MeasuredMemory(terms, tuple(pool), None, latest.source, False) if terms else None


def shipped_terms(s: Scenario, stage: Sequence[LayerRun], last: bool) -> dict[str, Interval]:
    """Terms of the budget by the constants that came with infopt; graphs where the budget holds them."""
    single, used = s.engine.non_torch_bytes.single, s.engine.non_torch_bytes.at(s.tp * s.pp)
    graphs = s.engine.graph_bytes
    added = max(0.0, used.value - single.value)
    least = max(0.0, used.low - single.low) if s.accelerator.link is not None else 0.0
    return {
        "activation": activation_bytes(stage, s, last),
        "communication": (added, min(least, added), max(added, used.high - single.high)),
        "engine": (single.value, single.low, single.high),
        "graphs": (graphs.value, graphs.low, graphs.high) if _graphs_inside(s) else NONE,
    }


def _graphs_inside(s: Scenario) -> bool:
    return s.engine.graphs_in_budget and not s.eager


def _same_engine(s: Scenario, term: "MemoryTerm") -> bool:
    return term.engine == s.engine.engine and version_key(term.engine_version) == version_key(s.engine_version)


def _same_world(s: Scenario, term: "MemoryTerm") -> bool:
    return (term.tp, term.pp) == (s.tp, s.pp)


def _same_model(s: Scenario, term: "MemoryTerm") -> bool:
    same = term.model == s.model.id and term.weights == s.weight_format
    return same and term.speculative_tokens == s.speculative_tokens


def _then(s: Scenario, term: "MemoryTerm") -> Scenario:
    """The scenario at the limits of the start that was logged."""
    return replace(
        s,
        max_num_seqs=term.max_num_seqs,
        max_num_batched_tokens=term.max_num_batched_tokens,
        context_tokens=term.context_tokens,
        eager=term.eager,
    )


def _nearest(
    s: Scenario, own: Sequence["MemoryTerm"], stage: Sequence[LayerRun], last: bool
) -> dict[str, "MemoryTerm"]:
    """Terms of the start whose limits are nearest by the shipped constants, the latest of those."""
    starts: dict[tuple[Any, ...], dict[str, MemoryTerm]] = {}
    for term in own:
        starts.setdefault(_limits(term), {})[term.name] = term
    usable = [found for found in starts.values() if "rest" in found or "activation" in found]
    if not usable:
        return {}
    now = _sum(shipped_terms(s, stage, last))[0]

    def distance(found: dict[str, "MemoryTerm"]) -> tuple[float, float]:
        one = next(iter(found.values()))
        apart = abs(now - _sum(shipped_terms(_then(s, one), stage, last))[0])
        return float(apart.max() if hasattr(apart, "max") else apart), -_age(one)

    return min(usable, key=distance)


def _limits(term: "MemoryTerm") -> tuple[Any, ...]:
    """What tells two starts of one model apart."""
    return term.max_num_seqs, term.max_num_batched_tokens, term.context_tokens, term.eager, term.utilization


def _age(term: "MemoryTerm") -> float:
    """Digits of when it was taken: a later one is larger."""
    return float("".join(c for c in term.taken if c.isdigit()) or 0)


def _of_own(
    s: Scenario, start: Mapping[str, "MemoryTerm"], now: dict[str, Interval], stage: Sequence[LayerRun], last: bool
) -> MeasuredMemory:
    """Terms of the same model: as measured, moved to the limits asked."""
    one = next(iter(start.values()))
    then = shipped_terms(_then(s, one), stage, last)
    if "rest" in start:
        rest = _moved(start["rest"], _sum(now), _sum(then), {k: (now[k], then[k]) for k in TERMS})
        whole = _sum(now)[0]
        shares = {name: interval[0] / whole for name, interval in now.items()}
        terms = {name: _scaled(rest, share) for name, share in shares.items() if name != "graphs" or _graphs_inside(s)}
        return MeasuredMemory(terms, (rest,), one.weights_bytes, one.source, True)
    activation = _moved(start["activation"], now["activation"], then["activation"])
    terms, pool = {"activation": activation}, [activation]
    if "non_torch" in start:
        held = start["non_torch"]
        spread = root(held.rounding_bytes**2 + REPEAT_BYTES**2)
        terms["engine"], terms["communication"] = _split(held.value_bytes, spread, now)
        pool.append(_around(held.value_bytes, spread))
    else:
        pool += [now["engine"], now["communication"]]
    if _graphs_inside(s) and "graphs" in start:
        terms["graphs"] = _moved(start["graphs"], now["graphs"], then["graphs"])
    pool.append(terms.get("graphs", now["graphs"]))
    return MeasuredMemory(terms, tuple(pool), one.weights_bytes, one.source, True)


def _moved(
    term: "MemoryTerm", now: Interval, then: Interval, parts: Mapping[str, tuple[Interval, Interval]] | None = None
) -> Interval:
    """A measured figure at other limits: shipped constants say by how much it moves, each with its interval."""
    value = larger(0.0, term.value_bytes + now[0] - then[0])
    spread = root(term.rounding_bytes**2 + REPEAT_BYTES**2)
    below = above = spread**2
    for one_now, one_then in (parts or {"": (now, then)}).values():
        moves = [a - b for a, b in zip(one_now, one_then, strict=True)]
        lowest = smaller(smaller(moves[0], moves[1]), moves[2])
        highest = larger(larger(moves[0], moves[1]), moves[2])
        below, above = below + (moves[0] - lowest) ** 2, above + (highest - moves[0]) ** 2
    return value, larger(0.0, value - root(below)), value + root(above)


def _split(value_bytes: float, spread: Any, shipped: Mapping[str, Interval]) -> tuple[Interval, Interval]:
    """Non-torch memory as the engine's own, which a single device has too, and what collectives add."""
    single = shipped["engine"][0]
    if not shipped["communication"][0] or value_bytes <= single:
        return _around(value_bytes, spread), NONE
    return (single, single, single), _around(value_bytes - single, spread)


def _around(value: Any, spread: Any) -> Interval:
    return value, larger(0.0, value - spread), value + spread


def _scaled(interval: Interval, share: Any) -> Interval:
    return interval[0] * share, interval[1] * share, interval[2] * share


def _sum(terms: Mapping[str, Interval]) -> Interval:
    low, best, high = (sum(interval[i] for interval in terms.values()) for i in (1, 0, 2))
    return best, low, high
