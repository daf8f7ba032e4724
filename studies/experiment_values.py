"""Which values a knob of the ladder is tried at: `values`, `running` and `rule` of data/experiment/ladder.yaml.

Values come in ways: each way goes on in one direction until a value is no better. Placement changes several degrees at
once only where the number of devices is given: then tp, pp and dp are one variable, the same devices split otherwise.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from infopt.frozen import dataclass
from infopt.ledgers.links import machine_devices
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.formats import load_kv_format, weight_bits_by_part
from infopt.records import Record
from infopt.studies.experiment_trial import Tried, seeded
from infopt.studies.experiment_variables import Scalar
from infopt.studies.scenarios import usable_tensor_parallel

Rule = Literal["other", "longest", "smaller-weights", "smaller-cache", "tensor", "pipeline", "replicas"]
MOST_DEVICES = 8
TOKENS = 256  # a longest request is rounded up to a multiple of it
SMALLER = 0.8  # a format counts as smaller where it has at most so much of the bits


class Try(Record):
    """One knob and where its values are from."""

    knob: str
    values: list[int | float | str] = Field([])
    running: list[float] = Field([])
    rule: Rule | None = None


Values = dict[str, Scalar]


@dataclass(frozen=True, slots=True)
class Asked:
    """Values by way; notes on what was left out."""

    ways: tuple[tuple[Values, ...], ...]
    notes: tuple[str, ...] = ()


def values_of(one: Try, best: Tried, seeds: int) -> Asked:
    """The values of a knob on top of the best so far, which they do not hold; traffic is drawn with so many seeds."""
    run, _ = best.found
    now = run.configuration.get(one.knob)
    if one.running:
        return Asked(_apart([_power(one, factor, best) for factor in one.running], now, one.knob))
    if one.values:
        return Asked(_apart(one.values, now, one.knob))
    if one.rule in ("tensor", "pipeline", "replicas"):
        return _placed(one, best)
    if one.rule == "other":
        return _other(one, best)
    if one.rule == "longest":
        return Asked(_apart([_longest(best, seeds)], now, one.knob))
    names = _smaller_weights(best) if one.rule == "smaller-weights" else _smaller_cache(best)
    found: tuple[tuple[Values, ...], ...] = tuple(({one.knob: name},) for name in names)
    engine = run.configuration["engine"]
    return Asked(found, () if found else (f"{one.knob}: {engine} has no smaller format than {now}",))


def _apart(values: Sequence[Scalar], now: Scalar, name: str) -> tuple[tuple[Values, ...], ...]:
    """Smaller values going down and larger ones going up, without the present one."""
    numbers = sorted({value for value in values if isinstance(value, (int, float)) and value != now})
    assert isinstance(now, (int, float))
    down: tuple[Values, ...] = tuple({name: value} for value in reversed(numbers) if value < now)
    up: tuple[Values, ...] = tuple({name: value} for value in numbers if value > now)
    return tuple(way for way in (down, up) if way)


def _power(one: Try, factor: float, best: Tried) -> int:
    """The next power of two of the running sequences times a factor."""
    running = (best.found[0].metrics.get("effective_batch") or 1.0) * factor
    return int(2 ** math.ceil(math.log2(max(1.0, running))))


def _longest(best: Tried, seeds: int) -> int:
    """Tokens of the longest request, rounded up."""
    sources = [job.source for job in seeded(best.job, seeds)]
    most = max(one.input_tokens + one.output_tokens for source in sources for one in source.stream())
    known = best.job.model.max_position_tokens
    rounded = math.ceil(most / TOKENS) * TOKENS
    return min(rounded, known) if known else rounded


def _other(one: Try, best: Tried) -> Asked:
    run, _ = best.found
    if not best.job.source.prefix_block_tokens:
        return Asked((), ("no prompts of this traffic begin alike: --shared-prefix, or a trace with prefixes",))
    return Asked((({one.knob: not run.configuration[one.knob]},),))


def _smaller_weights(best: Tried) -> Iterator[str]:
    """Formats of the engine with fewer bits than the present one, more bits first."""
    run, simulation = best.found
    now = _bits(best, str(run.configuration["weights"]))
    for name in engine_flags(simulation.plan.scenario.engine.engine).small_weights:
        if _bits(best, name) <= SMALLER * now:
            yield name


def _bits(best: Tried, name: str) -> float:
    model = best.job.model
    _, bits = weight_bits_by_part(model, name)
    return sum(count * bits[part] for part, count in model.params_by_part.items())


def _smaller_cache(best: Tried) -> list[str]:
    run, simulation = best.found
    small = engine_flags(simulation.plan.scenario.engine.engine).small_kv
    bits = [load_kv_format(name).bits_per_element for name in (small, str(run.configuration["kv"]))]
    return [small] if bits[0] < bits[1] else []


def _placed(one: Try, best: Tried) -> Asked:
    """Degrees of parallelism: more devices, or the given ones split otherwise."""
    _, simulation = best.found
    s, job = simulation.plan.scenario, best.job
    given = job.request.gpus or job.hardware.gpus
    node = min(machine_devices(s.accelerator), MOST_DEVICES)
    degrees = {"tp": s.tp, "pp": s.pp, "dp": s.dp}
    if given is not None:
        if one.knob == "dp":
            return Asked((), (f"dp: tried with tp, the same {given} devices split otherwise",))
        others = {"tp": "dp", "pp": "tp"}
        ways = [(_split(one.knob, others[one.knob], value, degrees, best),) for value in (1, 2, 4, 8)]
        found = tuple(way for way in ways if way[0] is not None and way[0] != degrees)
        note = () if found else (f"{one.knob}: {given} devices cannot be split otherwise",)
        return Asked(tuple(tuple(v for v in way if v is not None) for way in found), note)
    now = degrees[one.knob]
    larger = [n for n in (2, 4, 8) if n > now and s.gpus // now * n <= node * (n if one.knob == "dp" else 1)]
    if one.knob == "tp":
        larger = [n for n in larger if n in usable_tensor_parallel(job.model, node)]
    way: tuple[Values, ...] = tuple({**degrees, one.knob: n} for n in larger)
    return Asked((way,) if way else (), () if way else (f"{one.knob}: no larger degree within {node} devices",))


def _split(name: str, other: str, value: int, degrees: dict[str, int], best: Tried) -> Values | None:
    """The same devices with `name` at a value and `other` filling them; None where that is no placement."""
    product = degrees[name] * degrees[other]
    if product % value or value == degrees[name]:
        return None
    found: Values = {**degrees, name: value, other: product // value}
    tp = found["tp"]
    assert isinstance(tp, int)
    allowed = usable_tensor_parallel(best.job.model, tp)
    return found if tp in allowed else None
