"""Continuous batching: how many sequences really meet in a step, what that saves, what static batching would lose.

    bytes a token costs = W(B) / B + K              W weights a step reads, K keys and values of one sequence
    B       = rate x residence(B), residence = B prompt + OSL step(B)   (ledgers/queueing.py; else the batch as given)
    gain    = (prompt + loss OSL step / B) / (prompt + OSL step / B)    throughput over static batching at this B
    loss    = E[longest of B answers] / E[answer]
B is capped by the cache, by the TPOT target, by the engine's limit of sequences. Below 4 (document 1) more bandwidth
or a mixture of experts gains more than tuning: `limited`. Where a static batch's steps get shorter as answers end, only
what they share is lost: a figure of its own.
"""

from functools import cache, partial
from typing import Any

from infopt.boundaries.deciding import checked_yaml, measured_by, on_by_default, plain_verdict, threshold
from infopt.boundaries.load import Load
from infopt.boundaries.quantities import BATCH, RATE, Quantity, of_load
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps, variants
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.queueing import (
    Seconds,
    continuous_gain,
    effective_batch,
    fill_wait_s,
    largest_batch,
    saturation_per_s,
    static_loss_ratio,
    step_lasting_share,
)
from infopt.ledgers.traffic import StageTraffic, traffic

# Batches of document 1's table.
TABLE = (1, 8, 64)
WIDEST_SPREAD = 4.0
CAPS = {"cache": "the KV cache", "tpot": "the TPOT target", "setting": "the engine's limit"}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How full the batch is; all figures of the replicas that step together, rates of the whole deployment.

    batch      mean sequences at once; what is allowed at most where the rate is above saturation
    caps       most sequences that the cache, the setting and the target (None: not given) allow
    capped_by  which of them is the least
    """

    batch: float
    saturated: bool
    caps: dict[str, float | None]
    capped_by: str
    saturation_per_s: float
    rate_for_least_per_s: float

    @property
    def most(self) -> float:
        return self.caps[self.capped_by] or 0.0


def judge(situation: Situation) -> Judgement:
    """Batch as it is, or as the rate makes it, against static batching."""
    _check(situation.load)
    here = occupancy(situation, situation.steps)
    figures = _figures(situation, here)
    rule = _rule(here)
    if not here.caps["cache"]:
        return Judgement("skip", None, "not one sequence fits: there is nothing to batch", figures, rule=rule)
    if here.most < 1:
        target_s = situation.load.targets.tpot_s or 0.0
        reason = f"one sequence alone has a TPOT of {_ms(situation.tpot_s(batch=1.0))}, the target is {_ms(target_s)}: "
        return Judgement("skip", None, f"{reason}more bandwidth or an MoE instead", figures, rule=rule)
    gain = situation.gain("throughput", lambda steps: _over_static(situation, steps, here.batch))
    verdict = _verdict(situation, here, gain)
    settle = measured_by([situation.scenario], by_curve=True) if verdict == "measure" else ""
    reason = _reason(situation, here, gain) if verdict != "measure" else _unsure(situation, here, gain)
    return Judgement(verdict, gain, reason, figures, _costs(situation, here), rule, settle)


def occupancy(situation: Situation, steps: Steps) -> Occupancy:
    """Batch and caps with these step times."""
    caps = _caps(situation, steps)
    capped_by = min((name for name, cap in caps.items() if cap is not None), key=lambda name: caps[name] or 0.0)
    most = caps[capped_by] or 0.0
    stay_s = cache(partial(residence_s, situation, steps))
    wanted = _wanted(situation, steps, stay_s, most)
    groups, marks = _groups(situation), _marks(steps)
    return Occupancy(
        batch=most if wanted is None else min(wanted, most),
        saturated=wanted is None and most >= 1,
        caps=caps,
        capped_by=capped_by,
        saturation_per_s=groups * saturation_per_s(stay_s, most, marks),
        rate_for_least_per_s=groups * saturation_per_s(stay_s, threshold("least_batch"), marks),
    )


def _caps(situation: Situation, steps: Steps) -> dict[str, float | None]:
    """Most sequences of replicas that step together; who asks for a batch starts the engine with as many."""
    s, target_s = situation.scenario, situation.load.targets.tpot_s
    together = s.sharing_replicas
    setting = float(max(s.max_num_seqs, s.batch_per_replica) * together)
    fits = float(situation.memory.max_sequences * together)
    caps: dict[str, float | None] = {"cache": fits, "setting": setting, "tpot": None}
    if target_s is not None:
        tpot_s, most = partial(situation.tpot_s, steps), max(1.0, min(fits, setting))
        caps["tpot"] = float(largest_batch(tpot_s, target_s, most, _marks(steps)))
    return caps


def _wanted(situation: Situation, steps: Steps, stay_s: Seconds, most: float) -> float | None:
    """Sequences that what arrives keeps resident; None where it is more than can be served."""
    rate = situation.load.traffic.rate_per_s
    if rate is None:
        return float(situation.batch)
    return effective_batch(rate / _groups(situation), stay_s, most, _marks(steps))


def _groups(situation: Situation) -> float:
    """Sets of replicas that step together: each gets its part of the requests."""
    return situation.scenario.dp / situation.scenario.sharing_replicas


def _marks(steps: Steps) -> list[float]:
    return [tokens for tokens, _ in steps.curve]


def residence_s(situation: Situation, steps: Steps, batch: float) -> float:
    """Seconds one request stays: OSL tokens, and a prompt of every sequence that shares its steps."""
    s = situation.scenario
    prompts_s = max(1.0, batch) * steps.entry_s(s.input_tokens, situation.cached_tokens)
    return prompts_s + s.output_tokens * situation.token_s(steps, batch)


def _over_static(situation: Situation, steps: Steps, batch: float, stays: float = 1.0) -> float:
    """Throughput over that of static batches of as many sequences, of whose steps `stays` is left at their end."""
    s, cached, batch = situation.scenario, situation.cached_tokens, max(1.0, batch)
    decode_s = s.output_tokens * situation.token_s(steps, batch) / batch
    loss = static_loss_ratio(batch, spread_of(situation.load))
    return float(continuous_gain(loss, decode_s, steps.entry_s(s.input_tokens, cached), stays))


def _over_shrinking(situation: Situation, batch: float) -> float:
    """The same where static steps get shorter as answers end."""
    if batch <= 1:
        return 1.0
    alone_s, together_s = (situation.token_s(situation.steps, sequences) for sequences in (1.0, batch))
    stays = min(1.0, max(0.0, step_lasting_share(batch, alone_s, together_s)))
    return _over_static(situation, situation.steps, batch, stays)


def spread_of(load: Load) -> float:
    """Coefficient of variation of output lengths, the data's where none is given."""
    given = load.traffic.output_spread
    return float(_assumed()["output_spread"]["value"]) if given is None else given


@cache
def _assumed() -> dict[str, Any]:
    data: dict[str, Any] = checked_yaml("batching")
    return data


def _verdict(situation: Situation, here: Occupancy, gain: Gain) -> Verdict:
    """What the batch and the gain say; `measure` where the step model cannot tell which."""
    best, basis = _plain(here.batch, gain.value), situation.steps.basis
    rated = situation.load.traffic.rate_per_s is not None
    if basis == "assumed":
        short, long = variants(situation.steps)
        ends = [_batch_with(situation, steps) if rated else here.batch for steps in (short, long)]
        found = {_plain(batch, ratio) for batch in ends for ratio in (gain.low, gain.high)}
        return best if found == {best} else "measure"
    if basis == "floor" and (best == "use" or rated):
        # Longer steps would fill the batch more, and prompts of unknown length would dilute the gain.
        return "measure"
    return best


def _batch_with(situation: Situation, steps: Steps) -> float:
    most = min(cap for cap in _caps(situation, steps).values() if cap is not None)
    wanted = _wanted(situation, steps, partial(residence_s, situation, steps), most)
    return most if wanted is None else min(wanted, most)


def _plain(batch: float, gain: float) -> Verdict:
    verdict = plain_verdict(gain)
    return "limited" if verdict == "use" and batch < threshold("least_batch") else verdict


def _reason(situation: Situation, here: Occupancy, gain: Gain) -> str:
    by_rate = situation.load.traffic.rate_per_s is not None
    batch, whence = here.batch, "at this rate" if by_rate else "as given (no --rate)"
    if here.saturated:
        start = f"saturated above {here.saturation_per_s:.3g}/s at batch {batch:.3g} (by {CAPS[here.capped_by]})"
    elif not by_rate and batch < situation.batch:
        start = f"only {batch:.0f} of {situation.batch:.0f} sequences run at once (by {CAPS[here.capped_by]})"
    else:
        start = f"effective batch {batch:.3g} {whence}"
    if batch < threshold("least_batch"):
        # It is on by default and costs nothing, so the advice is where to look instead.
        return f"{start}, below 4: leave it on; bandwidth or an MoE gains more"
    return f"{start}: {gain.value:.2f}x the throughput of static batches"


def _unsure(situation: Situation, here: Occupancy, gain: Gain) -> str:
    if situation.load.traffic.rate_per_s is not None:
        least = threshold("least_batch")
        return f"effective batch about {here.batch:.3g}; step times are too uncertain to say if it is below {least:g}"
    return f"{gain.low:.2f}x to {gain.high:.2f}x the throughput of static batches: step times are too uncertain"


def _costs(situation: Situation, here: Occupancy) -> tuple[str, ...]:
    s, costs = situation.scenario, []
    costs.append(f"nothing to switch on: {on_by_default(s)}")
    step_s, alone_s = situation.tpot_s(batch=max(1.0, here.batch)), situation.tpot_s(batch=1.0)
    if step_s > alone_s:
        costs.append(f"TPOT {_ms(step_s)} at this batch, {_ms(alone_s)} alone")
    if s.max_num_seqs < s.batch_per_replica:
        costs.append(f"the engine's limit of sequences must be raised from {s.max_num_seqs} to {s.batch_per_replica}")
    curve = situation.curve
    if curve and situation.steps.shape is None and curve[-1][0] < s.input_tokens:
        last, prompt = curve[-1][0], s.input_tokens
        costs.append(f"prompts: --step-curve goes on from its last point, {last:g} tokens; give one at {prompt:,} too")
    if situation.load.traffic.output_spread is None:
        costs.append(
            f"spread of answer lengths {spread_of(situation.load):.2f} assumed, Azure 2023 traces (--output-spread)"
        )
    return tuple(costs)


def _rule(here: Occupancy) -> Rule:
    text = "tune the batch, unless the effective batch is below 4 and cannot rise: then more bandwidth or an MoE"
    if here.batch >= threshold("least_batch"):
        return Rule(1, text, "use", "the rule looks at the batch alone, not at what static batches lose")
    return Rule(1, text, "skip", "it is on by default and costs nothing, so switching it off would only lose")


def _figures(situation: Situation, here: Occupancy) -> tuple[Figure, ...]:
    rate, caps = situation.load.traffic.rate_per_s, here.caps
    wait_s = fill_wait_s(max(1.0, here.batch), rate) if rate is not None else None
    alone = 1 / residence_s(situation, situation.steps, 1.0)
    together = max(1.0, here.batch)
    over_one = together / residence_s(situation, situation.steps, together) / alone
    return (
        Figure("effective_batch", here.batch, "sequences", "in one decode step (replicas that share experts together)"),
        *_reads(situation, here.batch),
        Figure(
            "gain_over_shrinking_ratio",
            _over_shrinking(situation, here.batch),
            "ratio",
            "over static batches whose steps get shorter as answers end",
        ),
        Figure("gain_over_one_ratio", over_one, "ratio", "throughput over that of one sequence at a time"),
        Figure(
            "rate_for_batch_4_per_s",
            here.rate_for_least_per_s,
            "requests/s",
            "rate at which the effective batch reaches 4",
        ),
        Figure("saturation_per_s", here.saturation_per_s, "requests/s", "rate at which the deployment is saturated"),
        Figure("batch_cap_cache_sequences", caps["cache"], "sequences", "at most by the KV cache"),
        Figure("batch_cap_tpot_sequences", caps["tpot"], "sequences", "at most by the TPOT target (--tpot)"),
        Figure(
            "batch_cap_setting_sequences", caps["setting"], "sequences", "at most by the engine's limit of sequences"
        ),
        Figure(
            "output_spread", spread_of(situation.load), "", "spread of answer lengths: standard deviation over mean"
        ),
        Figure("fill_wait_s", wait_s, "s", "a request would wait for a static batch to fill (needs --rate)"),
    )


def _reads(situation: Situation, batch: float) -> tuple[Figure, ...]:
    """Bytes read for one token: weights shared by the batch, keys and values of its own sequence."""
    s, stages = situation.scenario, traffic(situation.scenario)
    cached = s.tp * sum(float(stage.kv_bytes(1, s.decode_context_tokens)) for stage in stages)
    shared = tuple(
        Figure(
            f"weights_at_batch_{b}_bytes",
            weights_per_token(s.tp, stages, b),
            "bytes",
            f"weights read for one output token at batch {b}",
        )
        for b in TABLE
    )
    here = weights_per_token(s.tp, stages, max(1.0, batch)) + cached
    return (
        *shared,
        Figure("kv_per_token_bytes", cached, "bytes", "KV cache read for one output token, at any batch"),
        Figure("read_per_token_bytes", here, "bytes", "weights and KV cache read for one output token at this batch"),
    )


def weights_per_token(tp: int, stages: tuple[StageTraffic, ...], batch: float) -> float:
    """W(B) / B of one replica, with the distinct experts B tokens are expected to hit."""
    return tp * sum(float(stage.weight_bytes(batch)) for stage in stages) / batch


def _check(load: Load) -> None:
    rate, spread, target_s = load.traffic.rate_per_s, load.traffic.output_spread, load.targets.tpot_s
    if rate is not None and rate <= 0:
        raise InfoptError(f"--rate {rate:g} requests/s: it must be above 0")
    if spread is not None and spread < 0:
        raise InfoptError(f"--output-spread {spread:g}: it must be at least 0")
    if target_s is not None and target_s <= 0:
        raise InfoptError(f"--tpot {target_s:g} s: it must be above 0")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _batch_here(situation: Situation) -> float:
    if situation.load.traffic.rate_per_s is None:
        return BATCH.get(situation) or 1.0
    return max(1.0, _batch_with(situation, situation.steps) * _groups(situation))


def _with_batch(situation: Situation, value: float) -> Situation:
    """The batch itself is set: a rate would make its own."""
    return BATCH.set(of_load("traffic", "rate_per_s")(situation, None), value)  # type: ignore[arg-type]


EFFECTIVE_BATCH = Quantity(
    name="batch", unit="sequences", whole=True, low=1, high=BATCH.high, get=_batch_here, set=_with_batch
)
OUTPUT_SPREAD = Quantity(
    name="output-spread",
    unit="",
    whole=False,
    low=0.0,
    high=lambda _: WIDEST_SPREAD,
    get=lambda situation: situation.load.traffic.output_spread,
    set=of_load("traffic", "output_spread"),
)
TECHNIQUE = Technique(
    id="continuous-batching",
    name="Continuous batching",
    ledger="bandwidth",
    order=1,
    judge=judge,
    quantities=(RATE, EFFECTIVE_BATCH, OUTPUT_SPREAD),
    plane=(RATE, OUTPUT_SPREAD),
    aliases=("batching",),
)
