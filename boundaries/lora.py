"""Several fine-tuned models as adapters on one base, against a deployment for each.

    slots  = slots x rank x width x 2 bytes on every rank          taken from the cache pool
    gain   = models x TPOT(base) / TPOT(with adapters)             deployments saved, at one deployment's load
    step   + kernels of the low-rank products + bytes of the adapters in the batch
Rank is what the engine reserves: the next allowed one above the adapters' own. What engines reserve and how much
throughput was lost where it was measured are data (data/lora.yaml). Arithmetic: ledgers/lora.py.
One adapter is better merged into the weights. The gain holds while one deployment carries the load of all.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from infopt.boundaries.deciding import by_gain, checked_yaml, measured_by, named_engine, threshold
from infopt.boundaries.kv_offload import link_bytes_per_s
from infopt.boundaries.quantities import BATCH, Quantity, of_load
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.lora import adapter_width, largest_slots, rank_width, slots_bytes
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.traffic import distinct_experts
from infopt.profiles.engines import version_key
from infopt.units import format_bytes, whole_of

BYTES_PER_ELEMENT = 2.0
COSTS = (
    "check origin, rights, quality and safety of every adapter: a malicious one shares the process",
    "the router must know which replica holds which adapter; loading and evicting need a policy",
    "count concurrency, tokens and cost per tenant",
    "a new base model means training and testing every adapter again",
    "deploy models of different bases apart: in one process they fragment memory and fail together",
)


@dataclass(frozen=True, slots=True)
class Slots:
    """Adapters as the engine keeps them.

    slots, rank   in memory at once, at the rank that is reserved; own_rank is the adapters' own
    models        in all; those beyond the slots wait in host memory
    experts       routed experts have slots too
    rank_bytes    of all slots on the fullest rank
    adapter_bytes of one whole adapter at its own rank
    """

    slots: int
    rank: int
    own_rank: int
    models: int
    experts: bool
    width: float
    rank_bytes: float
    adapter_bytes: float


def judge(situation: Situation) -> Judgement:
    """Adapters on one base beside a deployment for each model."""
    s, asked = situation.scenario, situation.load.adapters
    data = _data()["engines"].get(s.engine.engine)
    if data is None:
        return Judgement(
            "measure", None, f"whether {named_engine(s)} serves adapters is not known", settle="its manual"
        )
    held = slots_of(situation)
    if held.width <= 0:
        return Judgement("skip", None, "this model has no matrix that engines are known to adapt")
    if situation.memory.max_sequences == 0:
        return Judgement("impossible", None, "the base model does not fit with one sequence")
    after = _with_slots(situation, held)
    gain = _gain(situation, held)
    if asked.slots is None and asked.models is None:
        one = held.rank_bytes / held.slots
        text = (
            f"no adapters given (--adapters N --rank R); a slot of rank {held.rank} takes {format_bytes(one)} a device"
        )
        return Judgement("skip", None, text, tuple(_figures(situation, after, held)), COSTS, _rule())
    verdict, reason = _verdict(situation, after, held, gain)
    costs = (*COSTS, *_engine_costs(s, held))
    settle = measured_by([situation.scenario, after.scenario]) if verdict == "measure" else ""
    return Judgement(verdict, gain, reason, tuple(_figures(situation, after, held)), costs, _rule(), settle)


def _rule() -> Rule:
    return Rule(2, "adapters on one base save weight memory, but need governance and fail together", None)


def slots_of(situation: Situation) -> Slots:
    """What is asked for, as the engine reserves it; InfoptError names the option of a value that cannot be."""
    s, asked = situation.scenario, situation.load.adapters
    data = _data()["engines"][s.engine.engine]
    for option, value in (("--adapters", asked.slots), ("--rank", asked.rank), ("--adapters-total", asked.models)):
        if value is not None and value < 1:
            raise InfoptError(f"{option} {value}: must be at least 1")
    if asked.slots is not None and asked.models is not None and asked.slots > asked.models:
        raise InfoptError(f"--adapters {asked.slots} at once are more than --adapters-total {asked.models}")
    slots = asked.slots or asked.models or int(data["slots"])
    own = asked.rank or int(_data()["default_rank"]["value"])
    rank = _reserved(own, data["ranks"], s.engine.engine)
    since = data["experts_since"]
    experts = since is not None and s.model.experts > 0 and version_key(s.engine_version) >= version_key(since)
    width = rank_width(s, experts)
    held = slots if data["preallocated"] else max(slots, asked.models or slots)
    taken = slots_bytes(width, held, rank, BYTES_PER_ELEMENT)
    one = slots_bytes(adapter_width(s, experts), 1, own, BYTES_PER_ELEMENT)
    return Slots(held, rank, own, asked.models or slots, experts, width, taken, one)


def _reserved(rank: int, allowed: list[int] | None, engine: str) -> int:
    """The rank that memory is taken for."""
    if allowed is None:
        return rank
    fitting = [known for known in allowed if known >= rank]
    if not fitting:
        raise InfoptError(f"--rank {rank}: {engine} takes at most {max(allowed)}; merge the adapter or lower its rank")
    return min(fitting)


def _with_slots(situation: Situation, held: Slots) -> Situation:
    s = situation.scenario
    return situation.changed(extra_bytes_per_gpu=s.extra_bytes_per_gpu + held.rank_bytes)


def _gain(situation: Situation, held: Slots) -> Gain:
    """Deployments saved, less what every token takes longer; measured losses widen the interval."""
    measured = _data()["throughput_ratio"]

    def kept(steps: Steps) -> float:
        extra_s = _extra_s(situation, steps, held)
        if extra_s is None:
            return float(measured["value"])
        tpot_s = situation.tpot_s(steps)
        return tpot_s / (tpot_s + extra_s)

    gain = situation.gain("cost", lambda steps: held.models * kept(steps))
    return replace(gain, low=min(gain.low, held.models * measured["low"]))


def _extra_s(situation: Situation, steps: Steps, held: Slots) -> float | None:
    """What adapters add to a step: launches of their products and their own bytes; None where steps have no terms."""
    if steps.curve or steps.shape is None or steps.constants is None:
        return None
    s, shape = situation.scenario, steps.shape
    kernels = s.model.layers * _data()["kernels_per_layer"]["value"]
    adapters = min(float(held.slots), situation.batch)
    read = slots_bytes(held.width, 1, held.rank, BYTES_PER_ELEMENT) * adapters
    if held.experts:
        hit = distinct_experts(shape.experts, shape.experts_per_token, situation.batch / adapters)
        read *= hit / shape.experts
    bytes_s = steps.traffic * shape.weight_ratio * read / shape.bandwidth_bytes_per_s
    return float(steps.overhead * kernels * shape.kernel_s + bytes_s)


def _verdict(situation: Situation, after: Situation, held: Slots, gain: Gain) -> tuple[Verdict, str]:
    """Memory first, then the gain."""
    batch, size = situation.scenario.batch_per_replica, format_bytes(held.rank_bytes)
    left, before = after.memory.max_sequences, situation.memory.max_sequences
    what = f"{held.slots} slots of rank {held.rank} take {size} on each device"
    if left == 0:
        return _too_large(situation, held, what)
    if held.models == 1:
        return "skip", "one adapter only: merged into the weights it costs nothing"
    verdict = by_gain(gain, situation.steps.basis)
    if verdict == "measure" and gain.low >= threshold("worth_ratio"):
        verdict = "use"
    if verdict != "use":
        return verdict, f"{held.models} models share one base at {gain.value / held.models:.2f}x of its speed"
    if left < min(batch, before):
        return "limited", f"{what}: {left:,} sequences fit instead of {before:,}, {batch:,} are asked for"
    return "use", f"{held.models} models share one deployment; {what}, {left:,} sequences still fit"


def _too_large(situation: Situation, held: Slots, what: str) -> tuple[Verdict, str]:
    """Not one sequence fits beside the slots; perhaps beside those of attention and shared parts alone."""
    s, since = situation.scenario, _data()["engines"][situation.scenario.engine.engine]["target_modules_since"]
    if held.experts and since is not None and version_key(s.engine_version) >= version_key(since):
        without = slots_bytes(rank_width(s, False), held.slots, held.rank, BYTES_PER_ELEMENT)
        if _with_slots(situation, replace(held, rank_bytes=without)).memory.max_sequences:
            return (
                "limited",
                f"{what} with routed experts, which is too much; {format_bytes(without)} without (target modules)",
            )
    experts = " with routed experts" if held.experts else ""
    return "impossible", f"{what}{experts}: not one sequence fits beside them"


def _engine_costs(s: Scenario, held: Slots) -> Iterator[str]:
    data = _data()["engines"][s.engine.engine]
    yield "to start: " + data["flags"].format(slots=held.slots, rank=held.rank)
    if data["default_rank"] is not None and held.own_rank > data["default_rank"]:
        yield f"adapters of rank {held.own_rank} are refused at the default of {data['default_rank']}"
    if held.experts:
        yield "every routed expert has its slots, even if no adapter touches it (restrict the target modules)"
    elif s.model.experts:
        yield "routed experts are not adapted: adapters trained on them cannot be loaded"
    if held.models > held.slots:
        yield f"{held.models - held.slots} adapters wait in host memory: the first request of one waits for its copy"
    if s.engine.engine == "llama.cpp":
        yield "requests with different adapters are not computed together: the batch splits"


def _figures(situation: Situation, after: Situation, held: Slots) -> Iterator[Figure]:
    s, before, left = situation.scenario, situation.memory, after.memory
    yield Figure("adapter_bytes", held.adapter_bytes, "bytes", "one whole adapter at its own rank, 16 bit")
    yield Figure("slots", held.slots, "slots", "for adapters in device memory at once")
    yield Figure("reserved_rank", held.rank, "rank", "rank the engine reserves memory for")
    yield Figure("slots_bytes", held.rank_bytes, "bytes", "all slots together on each device")
    if held.experts:
        without = slots_bytes(rank_width(s, False), held.slots, held.rank, BYTES_PER_ELEMENT)
        yield Figure(
            "slots_without_experts_bytes", without, "bytes", "all slots on each device, routed experts not adapted"
        )
    yield Figure(
        "kv_tokens_lost",
        (before.kv_pool_tokens - left.kv_pool_tokens) * s.dp,
        "tokens",
        "of KV cache that the slots displace",
    )
    yield Figure("max_sequences", before.max_sequences, "sequences", "that fit without adapters")
    yield Figure("max_sequences_after", left.max_sequences, "sequences", "that fit beside the slots")
    reserved = s.batch_per_replica * before.layout.request_bytes(s.context_tokens) if before.layout.kinds else 0.0
    most = largest_slots(held.width, held.rank, before.kv_pool_bytes_per_gpu - reserved, BYTES_PER_ELEMENT)
    yield Figure("largest_slots", most, "slots", "at most of this rank, the batch keeping its KV cache")
    tpot_s, extra_s = situation.tpot_s(), _extra_s(situation, situation.steps, held)
    kept = tpot_s / (tpot_s + extra_s) if extra_s is not None else float(_data()["throughput_ratio"]["value"])
    yield Figure("tpot_s", tpot_s, "s", "TPOT of the base alone")
    yield Figure(
        "tpot_after_s", tpot_s / kept, "s", "TPOT with adapters (measured: 0.5 to 0.92 of the throughput is kept)"
    )
    if s.model.experts == 0:
        flop_share = held.rank * adapter_width(s, False) / s.model.params_active
        yield Figure("extra_flop_share", flop_share, "share", "FLOP an adapter adds to those of the model")
    yield Figure("shared_gpus", s.gpus, "devices", "that serve all models on one base")
    yield Figure("separate_gpus", s.gpus * held.models, "devices", "that a deployment for each model would take")
    saved = (held.models - 1) * before.stored_weights_bytes
    yield Figure("weights_saved_bytes", saved, "bytes", "of weights that are not held a second time")
    if held.models > held.slots:
        swap_s = held.adapter_bytes / link_bytes_per_s(s)
        yield Figure("swap_s", swap_s, "s", "to copy an adapter from host memory into a slot")


def apply(situation: Situation, argument: str) -> Situation:
    """The slots in memory beside the weights: `lora=8` takes eight of them, nothing said the engine's default."""
    if argument:
        if whole_of(argument) is None:
            raise InfoptError(f"--with lora={argument}: give the number of adapters at once")
        situation = ADAPTERS.set(situation, float(argument))
    if situation.scenario.engine.engine not in _data()["engines"]:
        raise InfoptError(f"--with lora: whether {situation.scenario.engine.engine} serves adapters is not known")
    after = _with_slots(situation, slots_of(situation))
    return after.changed(used=(*situation.used, TECHNIQUE.id))


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = checked_yaml("lora")
    return data


def _set_adapters(situation: Situation, value: float) -> Situation:
    """More adapters at once than there were in all are all there are."""
    asked = situation.load.adapters
    models = None if asked.models is None else max(asked.models, int(value))
    changed = replace(asked, slots=int(value), models=models)
    return situation.changed(load=replace(situation.load, adapters=changed))


def _set_rank(situation: Situation, value: float) -> Situation:
    return of_load("adapters", "rank")(situation, int(value))


def _optional(value: int | None) -> float | None:
    return None if value is None else float(value)


ADAPTERS = Quantity(
    name="adapters",
    unit="adapters",
    whole=True,
    low=1,
    high=lambda _: 4096.0,
    get=lambda situation: _optional(situation.load.adapters.slots),
    set=_set_adapters,
)
RANK = Quantity(
    name="rank",
    unit="rank",
    whole=True,
    low=1,
    high=lambda _: 512.0,
    get=lambda situation: _optional(situation.load.adapters.rank),
    set=_set_rank,
)
TECHNIQUE = Technique(
    id="lora",
    name="LoRA adapters, several models",
    ledger="weight memory",
    order=None,
    judge=judge,
    quantities=(ADAPTERS, RANK, BATCH),
    plane=(ADAPTERS, RANK),
    apply=apply,
    aliases=("adapters", "multi-model"),
)
