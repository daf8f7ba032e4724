"""What a plan says of the running engine: a number for each alert, with the formula and the figures behind it.

    step floor     = weights read once by a rank / bandwidth          one sequence, no context: nothing is shorter
    KV use         = batch of a replica x request / least pool        at full length, in the engine's own blocks
    saturation     = max over batches of batch / residence            boundaries/continuous_batching.py, of a replica
    hits, drafts   = the value at which the technique's verdict turns to `use` (boundaries)
Thresholds are of one replica, so they hold for any number of them.
"""

from dataclasses import replace

from infopt.boundaries.continuous_batching import CAPS, occupancy
from infopt.boundaries.load import Targets
from infopt.boundaries.prefix_caching import HITS
from infopt.boundaries.registry import judge, technique, verdict
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.frozen import dataclass
from infopt.ledgers.estimate import Estimate
from infopt.ledgers.paging import UNBOUNDED
from infopt.ledgers.speculation import tokens_per_cycle_at_rate
from infopt.studies.planning import Plan
from infopt.units import format_bytes, format_bytes_per_s, format_gib, format_seconds, format_share


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number and what it follows from; without a number, why there is none."""

    value: float | None
    reason: str


def thresholds(plan: Plan, situation: Situation, good_share: float) -> dict[str, Threshold]:
    """One for each alert of data/export_alerts.yaml."""
    targets = situation.load.targets
    return {
        "nothing-scraped": Threshold(0.0, "every figure of this plan is of these series"),
        "step-below-floor": _step_floor(plan),
        "tpot-above-interval": _tpot(plan),
        "tpot-above-target": _target(targets.tpot_s, "--tpot", "mean time per output token"),
        "ttft-above-target": _target(
            targets.ttft_s, "--ttft", f"first token, for {format_share(good_share)} of the requests"
        ),
        "kv-use-above-plan": _kv_use(plan),
        "running-above-memory": _held(plan),
        "waiting-below-limit": _limit(plan),
        "preemptions": Threshold(0.0, f"{_batch_words(plan)} fit at full length, so none is put back"),
        "arrivals-above-saturation": _saturation(situation),
        "arrivals-above-plan": _rate(situation),
        "prefix-hits-below-break-even": _hits(situation),
        "drafts-below-break-even": _drafts(situation),
    }


def _batch_words(plan: Plan) -> str:
    s = plan.scenario
    return f"{s.batch_per_replica:,} sequences of {s.context_tokens:,} tokens"


def _step_floor(plan: Plan) -> Threshold:
    s, moved = plan.scenario, plan.bandwidth.weight_bytes_per_step
    speed = s.accelerator.bandwidth_bytes_per_s
    reason = f"{format_bytes(moved)} of weights / ({s.tp} x {format_bytes_per_s(speed)}), without any cache"
    return Threshold(moved / (s.tp * speed), reason)


def _tpot(plan: Plan) -> Threshold:
    e = plan.estimate
    if not isinstance(e, Estimate):
        return Threshold(None, f"no estimate: {e.reason}")
    interval = f"{format_seconds(e.tpot_low_s)} to {format_seconds(e.tpot_high_s)}"
    outside = f"; extrapolated: {', '.join(e.extrapolated)}" if e.extrapolated else ""
    terms = " + ".join(f"{term.name} {format_seconds(term.value)}" for term in e.terms if term.value)
    reason = f"estimate {format_seconds(e.tpot_s)} ({interval}) at batch {plan.scenario.batch:,}: {terms}{outside}"
    return Threshold(e.tpot_high_s, reason)


def _target(value_s: float | None, option: str, what: str) -> Threshold:
    return Threshold(value_s, f"no target ({option})" if value_s is None else f"target of the {what} ({option})")


def _kv_use(plan: Plan) -> Threshold:
    m = plan.memory
    if m.kv_pool_low_bytes <= 0 or m.kv_bytes_per_gpu <= 0:
        return Threshold(None, "the model keeps no cache that grows")
    share = m.kv_bytes_per_gpu / m.kv_pool_low_bytes
    pool = f"{format_gib(m.kv_bytes_per_gpu)} of a pool of at least {format_gib(m.kv_pool_low_bytes)} a device"
    if share >= 1:
        return Threshold(None, f"the planned batch may fill the cache: {pool}")
    return Threshold(share, f"{_batch_words(plan)} take {pool}")


def _held(plan: Plan) -> Threshold:
    m, s = plan.memory, plan.scenario
    if m.max_sequences >= UNBOUNDED:
        return Threshold(None, "sequences are not limited by memory")
    held = f"{m.max_sequences:,} sequences of {s.context_tokens:,} tokens"
    return Threshold(float(m.max_sequences), f"a pool of {format_gib(m.kv_pool_bytes_per_gpu)} a device holds {held}")


def _limit(plan: Plan) -> Threshold:
    m, s = plan.memory, plan.scenario
    asked = max(s.max_num_seqs, s.batch_per_replica)
    reason = f"the least of {asked:,} the engine runs at once and {m.max_sequences:,} that fit"
    return Threshold(float(min(m.max_sequences, asked)), reason)


def _saturation(situation: Situation) -> Threshold:
    s, steps = situation.scenario, situation.steps
    if steps.basis in ("assumed", "floor"):
        return Threshold(None, f"times of {s.engine.engine} on {s.accelerator.id} are not measured")
    free = situation.changed(load=replace(situation.load, targets=Targets()))
    found = occupancy(free, steps)
    reason = (
        f"up to {found.most:,.0f} sequences at once (by {CAPS[found.capped_by]}), {s.input_tokens:,} tokens in and "
        f"{s.output_tokens:,} out"
    )
    return Threshold(found.saturation_per_s / s.dp, reason)


def _rate(situation: Situation) -> Threshold:
    rate, dp = situation.load.traffic.rate_per_s, situation.scenario.dp
    if rate is None:
        return Threshold(None, "no rate (--rate)")
    return Threshold(rate / dp, f"{rate:.4g} requests/s planned (--rate) for {dp} replica{'' if dp == 1 else 's'}")


def _hits(situation: Situation) -> Threshold:
    """The least share of prompt tokens from which the cache is worth using."""
    prefix = situation.load.prefix
    if not prefix.shared_tokens and not prefix.hit_share:
        return Threshold(None, "no hits are planned (--shared-prefix or --hit-share)")
    caching = technique("prefix-caching")
    flips = break_evens(lambda other: verdict(caching, other), HITS, situation)
    pays = [flip.value for flip in flips if flip.value is not None and flip.above == "use"]
    if not pays:
        return Threshold(None, "no share of hits turns the verdict on the prefix cache to `use`")
    return Threshold(pays[0], f"from {format_share(pays[0])} of prompt tokens on the verdict on the cache is `use`")


def _drafts(situation: Situation) -> Threshold:
    """Tokens of a draft that must be accepted."""
    draft = situation.load.draft
    if draft.drafted_tokens is None:
        return Threshold(None, "no drafts are planned (--method and --drafted)")
    answer = judge(technique("speculative"), situation)
    named = {figure.name: figure.value for figure in answer.figures}
    pays = named.get(f"break_even_acceptance_{draft.drafted_tokens}")
    if pays is None:
        return Threshold(None, f"no acceptance is known from which drafts pay: {answer.reason}")
    accepted = tokens_per_cycle_at_rate(pays, draft.drafted_tokens) - 1
    made = f"{draft.drafted_tokens} drafted tokens pay from an acceptance of {format_share(pays)} on"
    return Threshold(accepted, f"{made}: {accepted:.3g} of them")
