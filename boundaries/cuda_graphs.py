"""CUDA graphs and compilation: kernels of a step launched at once instead of one by one, paid at every start.

    gain = TPOT(eager) / TPOT(graphs),   eager step = max(step + N g, N l)        falls as the step outgrows the host
    cold start = boot + load + profile + compile + capture                        against --start, the elasticity target
The step model is of captured steps. Which devices and engines capture, the cost of a launch and the parts of a start
are data (data/cold_start.yaml), each with the range it was seen in. Arithmetic: ledgers/cold_start.py.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from infopt.boundaries.deciding import by_gain, checked_yaml, named_engine, on_by_default, unsure
from infopt.boundaries.quantities import BATCH, Quantity, of_load
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps, variants
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.ledgers.cold_start import Range, Start, eager_step_s, load_s
from infopt.ledgers.scenario import Scenario
from infopt.profiles.step_constants import kernels_per_step
from infopt.units import format_bytes_per_s

# Vendors whose devices replay captured launches (CUDA and HIP graphs).
VENDORS = frozenset({"nvidia", "amd"})
COSTS = (
    "shapes that change (new batch sizes, images, long prompts) run without graphs or are captured again",
    "compiled code depends on driver, device and engine version: ship and roll it back with them",
    "faults in captured kernels are harder to find: keep a way to start without graphs",
)
MEASURE_STARTS = "start it with an empty and with a filled compile cache, and without graphs"
MEASURE_EAGER = "the time per output token with and without graphs (vLLM --enforce-eager) at this batch"


def judge(situation: Situation) -> Judgement:
    """Captured and compiled steps beside eager ones, at this batch and against the start that was promised."""
    s = situation.scenario
    target = situation.load.targets.start_s
    if target is not None and target <= 0:
        raise InfoptError(f"--start {target:g}: must be above 0 seconds")
    data = _data()["engines"].get(s.engine.engine)
    if data is None or s.accelerator.vendor not in VENDORS or s.accelerator.processor:
        return _without_graphs(s, data or {})
    if situation.memory.max_sequences == 0:
        return Judgement("impossible", None, "it does not fit, with or without graphs")
    if situation.load.eager and situation.curve:
        text = "--step-curve with --eager: what these steps would take with graphs has to be measured"
        return Judgement("measure", None, text, costs=COSTS, settle="the same step curve with graphs")
    start = start_of(s, situation.memory.stored_weights_bytes, situation.load.storage_bytes_per_s)
    gain = _gain(situation, data)
    verdict, reason = _verdict(situation, start, gain)
    costs = (f"{on_by_default(s)}: {data['default']}", *COSTS)
    costs += (data["fused_text"],) if "fused_text" in data else ()
    rule = Rule(
        2, "less launch overhead, but compile time at the first start; measure cold and warm starts apart", None
    )
    settle = MEASURE_EAGER if verdict == "measure" else ""
    if target is not None and verdict == "limited":
        settle = MEASURE_STARTS
    return Judgement(verdict, gain, reason, tuple(_figures(situation, data, start)), costs, rule, settle)


def _without_graphs(s: Scenario, data: dict[str, Any]) -> Judgement:
    """Devices on which nothing is captured; an engine may still compile there."""
    none = f"{named_engine(s)} captures no graphs on {s.accelerator.name or s.accelerator.id}"
    compiled = data.get("compiled_on_processors") if s.accelerator.processor else None
    if compiled is None:
        return Judgement("skip", None, none)
    seen = f"compiling alone gained {compiled['low']:.2f}x to {compiled['high']:.2f}x of a small model"
    return Judgement("measure", None, f"{none}; {seen}", settle=MEASURE_EAGER)


def launches(s: Scenario) -> int:
    """Kernels of one step on the busiest host thread: those of the layers, and two collectives a layer under TP."""
    return kernels_per_step(s.model) + (2 * s.model.layers if s.tp > 1 else 0)


def _gain(situation: Situation, data: dict[str, Any]) -> Gain:
    """Eager over captured, with the ranges of the step and of a launch together."""
    kernels, best = launches(situation.scenario), situation.steps

    def ratio(steps: Steps, end: str) -> float:
        tpot_s = situation.tpot_s(steps)
        return (tpot_s + eager_extra_s(situation, steps, kernels, data, end)) / tpot_s

    known = (best, *variants(best))
    low, high = min(ratio(steps, "low") for steps in known), max(ratio(steps, "high") for steps in known)
    return Gain(ratio(best, "value"), low, high, "tpot")


def eager_extra_s(situation: Situation, steps: Steps, kernels: int, data: dict[str, Any], end: str = "value") -> float:
    """What a token takes longer without graphs; drafted tokens are verified in one step."""
    tokens, per_sequence, _ = situation.cycle or (1.0, 1.0, 0.0)
    step_s = steps.step_s(situation.batch, situation.scenario.decode_context_tokens, per_sequence)
    return (eager_step_s(step_s, kernels, data["launch"][end], data["gap"][end]) - step_s) / tokens


def start_of(s: Scenario, stored_bytes: float, storage_bytes_per_s: float | None = None) -> Start:
    """The parts of a start of this engine with a checkpoint of `stored_bytes`."""
    data, layers = _data()["engines"][s.engine.engine], s.model.layers
    speed = Range(*(_data()["load_bytes_per_s"][end] for end in ("value", "low", "high")))
    if storage_bytes_per_s is not None:
        if storage_bytes_per_s <= 0:
            raise InfoptError(f"--storage-bandwidth {storage_bytes_per_s:g}: must be above 0")
        speed = Range(storage_bytes_per_s, storage_bytes_per_s, storage_bytes_per_s)
    return Start(
        boot_s=_plain(data["boot"]),
        load_s=load_s(stored_bytes, speed),
        profile_s=_plain(data["profile"]),
        compile_s=_by_layer(data.get("compile"), layers),
        compile_cached_s=_by_layer(data.get("compile_cached"), layers),
        capture_s=_by_layer(data.get("capture"), layers),
    )


def _plain(row: dict[str, Any]) -> Range:
    return Range(row["value"], row["low"], row["high"])


def _by_layer(row: dict[str, Any] | None, layers: int) -> Range:
    if row is None:
        return Range(0.0, 0.0, 0.0)
    value = row["value"] + row["layer"] * layers
    return Range(value, value * row["low_ratio"], value * row["high_ratio"])


def _verdict(situation: Situation, start: Start, gain: Gain) -> tuple[Verdict, str]:
    """The gain decides; a start that only compiling makes too late takes `use` back to `limited`."""
    target, verdict = situation.load.targets.start_s, by_gain(gain, situation.steps.basis)
    took = "is" if situation.load.eager else "would be"
    reason = f"without graphs (eager) TPOT {took} {gain.value:.2f}x as long at batch {situation.scenario.batch}"
    eager, warm, cold = start.eager_s.value, start.warm_s.value, start.cold_s.value
    if verdict == "measure":
        return verdict, f"{reason}; {unsure(gain, situation.steps.basis)}"
    if target is None or verdict not in ("use", "limited") or cold <= target:
        return verdict, reason
    if eager > target:
        return verdict, f"{reason}; no start meets {target:.0f} s: {eager:.0f} s even without"
    missed = f"a cold start takes {cold:.0f} s, allowed are {target:.0f} s"
    cure = f"{warm:.0f} s if the compile cache is kept" if warm <= target else f"{eager:.0f} s without graphs"
    return "limited", f"TPOT gains {gain.value:.2f}x, but {missed} ({cure})"


def _figures(situation: Situation, data: dict[str, Any], start: Start) -> Iterator[Figure]:
    s, memory = situation.scenario, situation.memory
    terms = situation.steps.terms_s(situation.batch, s.decode_context_tokens)
    if terms:
        share = terms["kernels"] / sum(terms.values())
        yield Figure(
            "kernels_share", share, "share", "kernels' fixed cost, as part of a decode step's time with graphs"
        )
    kernels, tpot_s = launches(s), situation.tpot_s()
    yield Figure("kernels", kernels, "kernels", "launched for one decode step")
    yield Figure("tpot_s", tpot_s, "s", "TPOT with graphs")
    eager_s = tpot_s + eager_extra_s(situation, situation.steps, kernels, data)
    yield Figure("tpot_eager_s", eager_s, "s", "TPOT without graphs (eager)")
    yield Figure(
        "launch_s", kernels * data["launch"]["value"], "s", "host's time to launch the kernels of one decode step"
    )
    yield Figure("graph_bytes", memory.graph_bytes, "bytes", "memory that graphs take on each device")
    if s.engine.graphs_in_budget and memory.layout.kinds:
        grown = memory.layout.sequences(memory.kv_pool_bytes_per_gpu + memory.graph_bytes, s.context_tokens)
        yield Figure(
            "sequences_lost", grown - memory.max_sequences, "sequences", "more that would fit in the graphs' memory"
        )
    yield Figure("load_s", start.load_s.value, "s", f"to read the weights at {_speed(situation)}")
    for name, span, text in (
        ("start_cold_s", start.cold_s, "cold start: graphs, nothing cached"),
        ("start_warm_s", start.warm_s, "warm start: graphs, compile cache kept"),
        ("start_eager_s", start.eager_s, "start without graphs and compiling"),
    ):
        yield Figure(name, span.value, "s", f"{text}; seen from {span.low:.0f} to {span.high:.0f} s")
    yield Figure("start_target_s", situation.load.targets.start_s, "s", "allowed for a start (--start)")


def _speed(situation: Situation) -> str:
    """At which weights are read, and who says so."""
    given = situation.load.storage_bytes_per_s
    speed = format_bytes_per_s(given or float(_data()["load_bytes_per_s"]["value"]))
    return f"{speed} (--storage-bandwidth)" if given else f"{speed} (assumed; --storage-bandwidth)"


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = checked_yaml("cold_start")
    return data


START = Quantity(
    name="start",
    unit="s",
    whole=False,
    low=1.0,
    high=lambda _: 7200.0,
    get=lambda situation: situation.load.targets.start_s,
    set=of_load("targets", "start_s"),
)
TECHNIQUE = Technique(
    id="cuda-graphs",
    name="CUDA graphs and compilation",
    ledger="launch overhead",
    order=None,
    judge=judge,
    quantities=(BATCH, START),
    plane=(BATCH, START),
    aliases=("graphs", "compilation"),
)
