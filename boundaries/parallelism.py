"""Which split of the model over the same devices is best: tensor, pipeline, data and expert parallelism.

    gain = output tokens/s (best other placement) / output tokens/s (present one)        at this batch
With a TPOT target: of the placements that meet it the one with the most tokens/s; if the present one misses it, the
gain is that of TPOT. Sequences that do not fit at once wait, and their wait counts as theirs. `use` means: change to
the placement named; `skip`: the present one is the best. Figures follow document 2's seven steps
(boundaries/parallelism_steps.py). Times of placements: boundaries/placements.py.
"""

import re
from collections.abc import Sequence
from typing import cast

from infopt.boundaries.deciding import by_gain, measured_by, threshold
from infopt.boundaries.parallelism_steps import figures
from infopt.boundaries.placement_links import placement_data, wires_here
from infopt.boundaries.placements import Placed, candidates, fewest_devices, placed, present
from infopt.boundaries.quantities import BATCH, CONTEXT, Quantity, of_load
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import BASES, Basis, Steps, off_alike, variants
from infopt.boundaries.technique import Gain, Judgement, Metric, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.links import machine_devices

DEGREES = ("replicas", "tp", "pp", "dp", "ep")
NOT_JOINED = "what joins these devices is not known: placements cannot be compared"
JOIN = "--link-bandwidth SPEED (of one device to others of its machine, one direction)"


@dataclass(frozen=True, slots=True)
class Choice:
    """The best other placement beside the present one.

    holding  placements that hold a sequence, the present one first where it does
    best     of the others, None where there is none
    meets    the change does not leave a TPOT target that is met
    """

    here: Placed
    holding: tuple[Placed, ...]
    best: Placed | None
    gain: Gain | None
    meets: bool
    verdict: Verdict


def judge(situation: Situation) -> Judgement:
    """The best other placement of the same devices beside the present one."""
    choice = choose(situation)
    here, best, verdict = choice.here, choice.best, choice.verdict
    shown = figures(situation, here, len(choice.holding))
    if not choice.holding:
        return Judgement("impossible", None, _nowhere(situation), shown)
    rule = _rule(situation, here, verdict)
    if best is None and verdict == "measure":
        return Judgement(verdict, None, NOT_JOINED, shown, rule=rule, settle=JOIN)
    if best is None:
        return Judgement(verdict, None, _alone(situation, here), shown, rule=rule)
    settle = measured_by([here.scenario, best.scenario]) if verdict == "measure" else ""
    return Judgement(verdict, choice.gain, _reason(choice, best), shown, _costs(here, best), rule, settle)


def quick(situation: Situation) -> Verdict:
    """The verdict of `judge` without its figures."""
    return choose(situation, whole=False).verdict


def choose(situation: Situation, whole: bool = True) -> Choice:
    """The present placement, the best other, and the verdict; intervals only where it needs them unless `whole`."""
    check(situation)
    here, *rest = candidates(situation)
    others = [option for option in rest if option.holds]
    holding = (here, *others) if here.holds else tuple(others)
    if not others:
        return Choice(here, holding, None, None, True, "skip" if holding else "impossible")
    if not here.holds:
        best = preferred(joined(others) or others, situation.load.targets.tpot_s)
        return Choice(here, holding, best, None, True, "use")
    if len(joined(holding)) < len(holding):
        return Choice(here, holding, None, None, True, "measure")
    best = preferred(others, situation.load.targets.tpot_s)
    basis = basis_of(here, best)
    gain, meets = gain_of(situation, here, best, others if basis == "assumed" else [], whole or basis == "assumed")
    verdict = by_gain(gain, basis) if meets else "skip"
    if meets and here.scenario.tp != best.scenario.tp and (here.sums_unmeasured or best.sums_unmeasured):
        verdict = "measure"
    return Choice(here, holding, best, gain, meets, verdict)


def check(situation: Situation) -> None:
    """Refuse bandwidths that are none."""
    links = situation.load.links
    for option, value in (("--link-bandwidth", links.link_bytes_per_s), ("--network", links.network_bytes_per_s)):
        if value is not None and value <= 0:
            raise InfoptError(f"{option} must be above 0, got {value:g} bytes/s")


def joined(options: Sequence[Placed]) -> list[Placed]:
    """Those whose devices are joined by links that are known."""
    return [option for option in options if option.connected]


def preferred(options: list[Placed], target_s: float | None) -> Placed:
    """The most tokens/s among those that meet the target; where none does, the shortest TPOT."""
    if target_s is None:
        return max(options, key=lambda option: option.rate_per_s(option.steps))
    meeting = [option for option in options if option.waited_s(option.steps) <= target_s]
    if meeting:
        return max(meeting, key=lambda option: option.rate_per_s(option.steps))
    return min(options, key=lambda option: option.waited_s(option.steps))


def basis_of(here: Placed, best: Placed) -> Basis:
    """The poorer of the two: what their comparison rests on."""
    return max(here.steps.basis, best.steps.basis, key=BASES.index)


def gain_of(
    situation: Situation, here: Placed, best: Placed, in_doubt: list[Placed], interval: bool = True
) -> tuple[Gain, bool]:
    """The gain of a change, and whether it may be made: not from one that meets the target to one that does not.

    Where constants are lent (then `in_doubt` are the others), sums may also be as slow as on engines that leave them to
    the vendor's library, and another placement may be the best. Step times are off by more than `off_alike` says where
    the width changes: what gains were measured to be off by is in the interval too.
    """
    target_s = situation.load.targets.tpot_s
    misses = target_s is not None and here.waited_s(here.steps) > target_s
    metric: Metric = "tpot" if misses else "throughput"

    def ratio(ours: Placed, theirs: Placed, a: Steps, b: Steps) -> float:
        return ours.waited_s(a) / theirs.waited_s(b) if misses else theirs.rate_per_s(b) / ours.rate_per_s(a)

    meets = misses or target_s is None or best.waited_s(best.steps) <= target_s
    value = ratio(here, best, here.steps, best.steps)
    if not interval:
        return Gain(value, value, value, metric), meets
    shorts = [(a, off_alike(best.steps, a)) for a in variants(here.steps)]
    ends = [value, *(ratio(here, best, a, b) for a, b in shorts)]
    low, high = min(ends), max(ends)
    if in_doubt:
        ours = here.with_slow_sums()
        slow = {other.degrees: ratio(ours, other.with_slow_sums(), here.steps, other.steps) for other in in_doubt}
        low, high = min(low, slow[best.degrees]), max(high, *slow.values())
    least, most = measured_spread(here, best)
    return Gain(value, min(low, least * value), max(high, most * value), metric), meets


def measured_spread(here: Placed, best: Placed) -> tuple[float, float]:
    """Measured over predicted gain of a change to this width, 5th and 95th percentile."""
    low, high = placement_data("gain_spread")["value"]["mixture" if here.scenario.model.experts else "dense"]
    if best.scenario.tp == here.scenario.tp:
        return min(low, 1 / high), max(high, 1 / low)
    return (low, high) if best.scenario.tp < here.scenario.tp else (1 / high, 1 / low)


def _reason(choice: Choice, best: Placed) -> str:
    here, gain = choice.here, choice.gain
    if gain is None:
        return f"{best.name} holds {best.max_sequences:,} sequences of this context, {here.name} none"
    what = "throughput" if gain.metric == "throughput" else "in TPOT"
    if not choice.meets:
        return (
            f"{here.name} alone meets the TPOT target: {best.name} would take {1e3 * best.waited_s(best.steps):.1f} ms"
        )
    if choice.verdict == "skip":
        close = gain.high >= threshold("worth_ratio")
        range_ = f" ({_as_shown(gain, gain.low)} to {_as_shown(gain, gain.high)})" if close else ""
        found = f"{here.name} {'seems' if close else 'is'} right for batch {here.batch}"
        return f"{found}: with the best other, {best.name}, {_compared(gain)}{range_}"
    if here.sums_unmeasured or best.sums_unmeasured:
        engine = here.scenario.engine.engine
        return (
            f"{engine} was only measured on one device; {best.name} instead of {here.name} may give "
            f"{gain.value:.2f}x {what}"
        )
    if gain.value < 1:
        possible = f"but a gain of {gain.low:.2f}x to {gain.high:.2f}x is possible"
        return f"{here.name} seems right: with the best other, {best.name}, {_compared(gain)}, {possible}"
    waits = f", of which {best.waiting:.0f} wait" if best.waiting else ""
    range_ = f" ({gain.low:.2f}x to {gain.high:.2f}x)" if choice.verdict == "measure" else ""
    return f"{best.name} instead of {here.name}: {gain.value:.2f}x{range_} {what} at batch {here.batch}{waits}"


def _as_shown(gain: Gain, ratio: float) -> str:
    """A gain in throughput as it is, one in TPOT as how much longer it gets."""
    return f"{ratio if gain.metric == 'throughput' else 1 / ratio:.2f}x"


def _compared(gain: Gain) -> str:
    """What the other placement would make of the present figure."""
    shown = _as_shown(gain, gain.value)
    return f"throughput is {shown}" if gain.metric == "throughput" else f"TPOT is {shown} as long"


def _nowhere(situation: Situation) -> str:
    s, fewest = situation.scenario, fewest_devices(situation)
    needed = f"the fewest are {fewest}" if fewest else "nor do 64"
    gpus = f"{s.gpus} devices" if s.gpus > 1 else "one device"
    return f"no placement of {gpus} holds one sequence of {s.context_tokens:,} tokens; {needed}"


def _alone(situation: Situation, here: Placed) -> str:
    """Nothing to choose from: what more devices would do."""
    s = situation.scenario
    if s.gpus > 1:
        return f"{here.name} is the only placement of {s.gpus} devices that holds the model"
    two = [option for option in candidates(situation, 2) if option.holds and option.scenario.tp == 2]
    wider = joined(two)
    if not wider:
        return f"one device holds {here.max_sequences:,} sequences: nothing to split"
    ratio = here.waited_s(here.steps) / wider[0].waited_s(wider[0].steps)
    held = f"one device holds {here.max_sequences:,} sequences: nothing to split"
    return f"{held}; a second with tp 2 would gain {ratio:.2f}x in TPOT"


def _costs(here: Placed, best: Placed) -> tuple[str, ...]:
    ours, theirs = here.tpot_s(here.steps), best.tpot_s(best.steps)
    s = best.scenario
    found = []
    if theirs > ours:
        found.append(f"{best.name}: TPOT {1e3 * theirs:.1f} ms instead of {1e3 * ours:.1f}")
    if best.max_sequences < here.max_sequences:
        found.append(f"{best.name}: {best.max_sequences:,} sequences fit instead of {here.max_sequences:,}")
    if best.groups > max(1, here.groups):
        found.append("requests must be routed: prefix hits depend on where each goes")
    if s.sharing_replicas > 1:
        found.append("replicas that share experts step together: idle ones run along, and losing one stops all")
    if s.tp * s.pp > max(here.scenario.tp * here.scenario.pp, 1):
        found.append("a lost device stops a larger group")
    return tuple(found)


def _rule(situation: Situation, here: Placed, verdict: Verdict) -> Rule:
    """Document 2's order as it applies here, and why our verdict may differ."""
    s, machine = situation.scenario, machine_devices(situation.scenario.accelerator)
    one = placed(situation, s.gpus, 1, 1, 1, 1)
    if one.held_by_replica * s.gpus >= s.batch:
        divided = here.scenario.tp * here.scenario.pp > 1
        text, says = (
            "where one GPU holds the model and the KV cache asked for, replicas, not TP",
            "use" if divided else "skip",
        )
    else:
        inside = 1 < s.tp <= machine and (s.pp == 1 or s.gpus > machine)
        text = "where one GPU is not enough, TP inside the fast links, PP across machines, replicas for throughput"
        says = "skip" if inside else "use"
    why = "" if verdict == says else "batch and link, which it leaves out, decide which placement is best"
    return Rule(2, text, cast(Verdict, says), why)


def apply(situation: Situation, argument: str) -> Situation:
    """Another placement: "tp2-dp4", "replicas8"; without an argument the best one.

    Separate servers of a mixture (`replicas`) leave one of them, under its part of the batch and of the rate.
    """
    check(situation)
    s = situation.scenario
    asked = _asked(argument)
    if asked:
        groups, tp, pp, dp, ep = (asked.get(name, 1) for name in DEGREES)
        if groups * tp * pp * dp != s.gpus:
            raise InfoptError(
                f"--with parallelism: {argument} is {groups * tp * pp * dp} devices, but {s.gpus} are given"
            )
        chosen = placed(situation, groups, tp, pp, dp, ep)
        chosen.scenario.check()
    else:
        holding = [option for option in candidates(situation) if option.holds]
        compared = joined(holding) or holding
        chosen = preferred(compared, situation.load.targets.tpot_s) if compared else present(situation)
    return _used(situation, chosen)


def _used(situation: Situation, chosen: Placed) -> Situation:
    s, used = chosen.scenario, (*situation.used, TECHNIQUE.id)
    whole = s.dp * chosen.groups
    together = s.model.experts > 0 and chosen.groups > 1
    if not together:
        return situation.changed(tp=s.tp, pp=s.pp, dp=whole, ep=s.ep, used=used, curve=())
    rate, share = situation.load.traffic.rate_per_s, 1 / chosen.groups
    load = situation.load if rate is None else of_load("traffic", "rate_per_s")(situation, rate * share).load
    return chosen.situation.changed(load=load, used=used, curve=())


def _asked(argument: str) -> dict[str, int]:
    """Degrees of "tp2-dp4", "tp=2,dp=4"; raises InfoptError for anything else."""
    found = re.findall(r"(replicas|tp|pp|dp|ep)\s*=?\s*(\d+)", argument.lower())
    rest = re.sub(r"(replicas|tp|pp|dp|ep)\s*=?\s*\d+|[\s,;x+-]", "", argument.lower())
    asked = {name: int(count) for name, count in found}
    if rest or (argument.strip() and not asked) or any(count < 1 for count in asked.values()):
        raise InfoptError(f"--with parallelism-{argument}: write the degrees, like parallelism-tp2-dp4")
    return asked


def _link(situation: Situation) -> float | None:
    wire = wires_here(situation).inside
    return None if wire is None else wire.bytes_per_s


LINK_BANDWIDTH = Quantity(
    name="link-bandwidth",
    unit="bytes/s",
    whole=False,
    low=1e8,
    high=lambda _: 2e12,
    get=_link,
    set=of_load("links", "link_bytes_per_s"),
)
TECHNIQUE = Technique(
    id="parallelism",
    name="Parallelism",
    ledger="memory, bandwidth, links",
    order=6,
    judge=judge,
    quantities=(BATCH, CONTEXT, LINK_BANDWIDTH),
    plane=(BATCH, CONTEXT),
    quick=quick,
    apply=apply,
    aliases=("tp", "placement"),
)
