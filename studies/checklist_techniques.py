"""Checks on techniques in use: the boundary's own verdicts and figures, never computed anew."""

from collections.abc import Mapping, Sequence

from infopt.boundaries.technique import Judgement, Verdict
from infopt.studies.checklist_context import FEATURE_WORDS, NOT_JUDGED, Answer, Context, Status, needs
from infopt.studies.checklist_latency import batch_within_targets
from infopt.units import format_seconds, format_share, format_whole

Limits = Mapping[str, float]
LOSES: tuple[Verdict, ...] = ("skip", "impossible")
# Of a placement `use` means to change it.
LOSING: dict[str, tuple[Verdict, ...]] = {"parallelism": ("use", "impossible")}


def by_verdict(judged: Judgement | None, losing: Sequence[Verdict] = LOSES, least: float = 0.0) -> Answer:
    """A technique's verdict as an answer, its gain as the value."""
    if judged is None:
        return needs(NOT_JUDGED)
    gain = judged.gain.value if judged.gain is not None else None
    unit = "ratio" if gain is not None else ""
    if judged.verdict == "measure":
        settle = f" ({judged.settle})" if judged.settle else ""
        return needs(f"{judged.reason}{settle}", gain, unit)
    if judged.verdict in losing or (judged.verdict in LOSES and gain is None):
        return Answer("fail", gain, unit, judged.reason)
    if gain is not None and judged.verdict != "use" and gain < least:
        return Answer("fail", gain, unit, f"{gain:.3g}x, less than {least:.3g}x: {judged.reason}")
    return Answer("pass", gain, unit, judged.reason)


def prefix_hits(context: Context, limits: Limits) -> Answer:
    """Hits that are known, against what is shared."""
    prefix, isl = context.load.prefix, context.scenario.input_tokens
    shared = None if prefix.shared_tokens is None else prefix.shared_tokens / isl
    if prefix.hit_share is None:
        if shared == 0:
            return Answer("pass", 0.0, "share", "no prompt shares a prefix: nothing is expected of the cache")
        told = "" if shared is None else f"; {format_share(shared)} of a prompt are shared, so at most that"
        expected = context.figure("prefix-caching", "hit_share") if shared is not None else None
        return needs(f"hits were not measured{told}", expected, "share")
    told = f"{format_share(prefix.hit_share)} of prompt tokens hit"
    if shared and prefix.hit_share < limits["least_of_shared"] * shared:
        told += f", {format_share(shared)} are shared: capacity or routing loses them"
        return Answer("fail", prefix.hit_share, "share", told)
    judged = context.judgement("prefix-caching")
    return Answer("pass", prefix.hit_share, "share", told if judged is None else judged.reason)


def prefix_metrics(context: Context, limits: Limits) -> Answer:
    """What is known of hits, capacity and routing; the rest is somebody's word."""
    prefix, s = context.load.prefix, context.scenario
    told = [
        "hits not measured" if prefix.hit_share is None else f"{format_share(prefix.hit_share)} hit",
        f"{format_whole(context.plan.memory.kv_pool_tokens)} tokens of cache a replica",
        "planned as one replica, routing not judged" if s.dp == 1 else f"{s.dp} replicas, {prefix.routing} routing",
    ]
    return needs(f"{'; '.join(told)}; who watches them, and privacy, is to be signed", prefix.hit_share, "share")


def speculation_gain(context: Context, limits: Limits) -> Answer:
    """The speedup at this batch."""
    return by_verdict(context.judgement("speculative"), least=limits["least_gain"])


def speculation_under_load(context: Context, limits: Limits) -> Answer:
    """The same against a slowdown, with the most sequences beside it."""
    answer = by_verdict(context.judgement("speculative"), losing=("impossible",), least=limits["least_gain"])
    most = _most_speculating(context)
    there = context.judgement("speculative", most)
    if answer.status != "pass" or there is None or there.gain is None or most == context.scenario.batch:
        return answer
    told = f"{answer.reason}; with {format_whole(most)} sequences {there.gain.value:.3g}x"
    return Answer(answer.status, answer.value, answer.unit, told)


def _most_speculating(context: Context) -> int:
    """The most sequences at once beside the draft."""
    held = context.figure("speculative", "max_sequences_after")
    most = context.most_sequences
    return most if not held else min(most, round(held) * context.scenario.dp)


def speculation_low_and_high(context: Context, limits: Limits) -> Answer:
    """What is to be expected at both ends; that both were tested is somebody's word."""
    ends = [
        (batch, context.judgement("speculative", batch)) for batch in (context.scenario.dp, _most_speculating(context))
    ]
    told = [
        f"{judged.gain.value:.3g}x with {format_whole(batch)}"
        for batch, judged in ends
        if judged is not None and judged.gain is not None
    ]
    last = ends[-1][1]
    value = last.gain.value if last is not None and last.gain is not None else None
    expected = f"{', '.join(told)} at once expected; " if told else ""
    return needs(f"{expected}tests of both ends are to be signed", value, "ratio" if value is not None else "")


def quantized_kernels(context: Context, limits: Limits) -> Answer:
    """The speedup of the weights' format on this device."""
    return _speed(context, "weight-quantization", limits["least_gain"])


def _speed(context: Context, technique: str, least: float) -> Answer:
    """Time per token before over after; room for more sequences is no speed."""
    judged = context.judgement(technique)
    if judged is None:
        return needs(NOT_JUDGED)
    before_s, after_s = (context.figure(technique, name) for name in ("tpot_s", "tpot_after_s"))
    if judged.gain is not None and judged.gain.metric == "tpot":
        ratio: float | None = judged.gain.value
    else:
        ratio = before_s / after_s if before_s and after_s else None
    if judged.verdict == "impossible":
        return Answer("fail", ratio, "ratio", judged.reason)
    if ratio is None:
        return needs(f"how fast it is here is not known: {judged.reason}", None, "ratio")
    told = f"time per token {ratio:.3g} times shorter than in full precision"
    if ratio < least:
        return Answer("fail", ratio, "ratio", f"{told}, less than {least:.3g}")
    basis = context.before(technique).steps.basis
    if judged.verdict == "measure" or basis == "floor":
        return needs(f"{told} at best: {judged.reason}", ratio, "ratio")
    return Answer("pass", ratio, "ratio", told)


def quantization_speed(context: Context, limits: Limits) -> Answer:
    """A slowdown of weights or cache fails; that quality holds is somebody's word."""
    told, value = [], None
    for feature in ("weight-quantization", "kv-quantization"):
        if not context.uses(feature):
            continue
        answer = _speed(context, feature, limits["least_gain"])
        if answer.status == "fail":
            return answer
        value = answer.value if value is None else value
        gain = "speed not known" if answer.value is None else f"{answer.value:.3g}x"
        told.append(f"{FEATURE_WORDS[feature]} {gain}")
    return needs(f"{', '.join(told)}; quality is measured, not computed", value, "ratio" if value is not None else "")


def placement(context: Context, limits: Limits) -> Answer:
    """Whether another placement of the same devices is better: the boundary's `use` means to change."""
    judged = context.judgement("parallelism")
    if judged is not None and judged.verdict == "skip":
        return Answer("pass", judged.gain.value if judged.gain else None, "ratio", judged.reason)
    return by_verdict(judged, losing=LOSING["parallelism"])


def tensor_parallel_link(context: Context, limits: Limits) -> Answer:
    """Time per token with half the tensor parallel degree over that with the present one, sums over links included."""
    judged, tp, least = context.judgement("parallelism"), context.scenario.tp, limits["least_gain"]
    half_s, here_s = (context.figure("parallelism", f"tpot_tp{n}_s") for n in (tp // 2, tp))
    if judged is None or not half_s or not here_s:
        # Of widths beyond those shown as figures the best other placement tells whether the split pays.
        return placement(context, limits)
    ratio, sums_s = half_s / here_s, context.figure("parallelism", "step_all_reduce_s")
    told = f"tp {tp} makes a token {ratio:.3g} times shorter than tp {tp // 2}"
    told += "" if sums_s is None else f"; its sums take {format_seconds(sums_s)} of a step"
    if ratio < least:
        return Answer("fail", ratio, "ratio", told)
    if judged.verdict == "measure" or context.situation.steps.basis == "floor":
        return needs(f"{told}; step times of this device were not measured", ratio, "ratio")
    return Answer("pass", ratio, "ratio", told)


def hot_replicas(context: Context, limits: Limits) -> Answer:
    """Load of the busiest replica."""
    prefix, most = context.load.prefix, limits["most_ratio"]
    if prefix.routing != "affinity":
        return Answer("pass", None, "", f"{prefix.routing} routing: no prefix heats a replica, hits fall instead")
    if prefix.shared_tokens is None or prefix.prefixes is None:
        return needs("how popular prefixes are is not known: --shared-prefix, --prefixes, --prefix-skew", None, "ratio")
    # The figure is there only where a replica gets more than its share.
    factor = context.figure("prefix-caching", "hot_spot_ratio") or 1.0
    told = f"the busiest of {context.scenario.dp} replicas gets {factor:.2f} times the mean"
    status: Status = "pass" if factor <= most else "fail"
    return Answer(status, factor, "ratio", told if status == "pass" else f"{told}, more than {most:.3g}")


def offload_link(context: Context, limits: Limits) -> Answer:
    """Restoring against computing anew, and how full the way to the tier is."""
    share, most = context.figure("kv-offload", "link_share"), limits["most_link_share"]
    if share is not None and share > most:
        told = f"restores fill {format_share(share)} of the way to the tier, more than {format_share(most)}"
        return Answer("fail", share, "share", told)
    return by_verdict(context.judgement("kv-offload"))


def adapters_fit(context: Context, limits: Limits) -> Answer:
    """Adapters that do not fit or do not pay fail; governance is somebody's word."""
    answer = by_verdict(context.judgement("lora"), losing=("impossible",))
    if answer.status != "pass":
        return answer
    return needs(
        f"{answer.reason}; permissions, cache policy and isolation are to be signed", answer.value, answer.unit
    )


def three_ledgers(context: Context, limits: Limits) -> Answer:
    """Fits, meets its targets, and every technique in use is one that the boundary would use."""
    lost: list[str] = []
    unsure: list[str] = []
    if context.plan.fits is not True:
        (lost if context.plan.fits is False else unsure).append("memory")
    if context.load.targets.tpot_s is not None or context.load.targets.ttft_s is not None:
        status = batch_within_targets(context, limits).status
        {"fail": lost, "needs-measurement": unsure}.get(status, []).append("targets")
    for id in context.techniques_in_use:
        judged = context.judgement(id)
        if judged is None or judged.verdict == "measure":
            unsure.append(id)
        elif judged.verdict in LOSING.get(id, LOSES):
            lost.append(f"{id} ({judged.reason})")
    if lost:
        return Answer("fail", float(len(lost)), "losses", f"loses: {', '.join(lost)}")
    if unsure:
        return needs(f"not known: {', '.join(unsure)}", float(len(unsure)), "unknowns")
    used = ", ".join(context.techniques_in_use) or "no technique in use"
    return Answer("pass", 0.0, "losses", f"it fits and nothing loses: {used}")
