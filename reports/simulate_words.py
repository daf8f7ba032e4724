"""Sentences of a simulation: what arrives, what serves it, the verdict, and what follows."""

from collections.abc import Iterator

from infopt.arrivals.arrival import Source
from infopt.arrivals.clients import Clients
from infopt.arrivals.synthetic import Lengths, Synthetic
from infopt.arrivals.traces import Trace
from infopt.boundaries.deciding import named_engine
from infopt.reports.words import counted, title
from infopt.simulation.setup import Loss
from infopt.simulation.summary import Targets
from infopt.studies.simulate import Simulation
from infopt.units import format_bytes, format_seconds, format_share, format_usd, format_whole

# Batches this near to each other agree.
SAME_SHARE = 0.05
# From this part of saturation on the batch is steep in the rate.
NEAR_SHARE = 0.8


def rate(per_s: float) -> str:
    """Requests a second; a slow rate by the minute.

    >>> rate(8), rate(0.05), rate(12_345.6)
    ('8/s', '3/min', '12,346/s')
    """
    if 1000 <= per_s < 1e9:
        return f"{per_s:,.0f}/s"
    return f"{per_s:.3g}/s" if per_s >= 0.1 else f"{60 * per_s:.3g}/min"


def tokens_per_s(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def number(value: float) -> str:
    """A mean number of requests: a decimal where it is small."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def headline(s: Simulation) -> str:
    """Model and devices."""
    copies = s.job.choices.replicas or 1
    return title(s.plan) if copies == 1 else title(s.plan).replace(" on ", f" on {copies} copies of ", 1)


def arrivals(s: Simulation) -> list[str]:
    """What arrives, in lines."""
    source = s.job.source
    inner = source.source if isinstance(source, Clients) else source
    lines = [_process(inner, s)]
    if isinstance(inner, Synthetic):
        lines.append(_lengths(inner))
    elif isinstance(inner, Trace):
        request = s.job.request
        inputs, outputs = request.input_tokens or 0, request.output_tokens or 0
        lines.append(f"{inputs:,} tokens in and {outputs:,} out on average")
    if s.left_out:
        lines.append(f"{counted(s.left_out, 'request')} longer than {s.ready.setup.max_tokens:,} tokens left out")
    if isinstance(source, Clients):
        lines += _clients(source)
    if not s.job.choices.streaming:
        lines.append("clients get their answers whole: the first token comes with the last")
    return lines


def _process(source: Source, s: Simulation) -> str:
    total = counted(s.summary.requests, "request")
    if isinstance(source, Trace):
        pace = "" if source.speed_ratio == 1 else f", replayed {source.speed_ratio:.3g} times as fast"
        return f"{source.name}: {total} in {format_seconds(s.arrivals_end_s)}{pace}"
    if not isinstance(source, Synthetic):
        return total
    if source.users is not None:
        think = f", {format_seconds(source.think_s)} between an answer and the next" if source.think_s else ""
        return f"{counted(source.users, 'user')}, each sending the next request after an answer{think}; {total}"
    how = {
        "steady": "evenly",
        "poisson": "by chance",
        "gamma": f"in bursts (gaps vary by {source.burstiness_ratio:g})",
        "periodic": f"in waves of {format_seconds(source.period_s or 0)}, peak {source.peak_ratio:g} times the mean",
    }[source.process]
    return f"{rate(source.rate_per_s)} {how}; {total} in {format_seconds(s.arrivals_end_s)}"


def _lengths(source: Synthetic) -> str:
    shared = source.shared
    prefix = ""
    if shared and shared.shared_tokens:
        skew = f", popularity by Zipf {shared.skew:g}" if shared.skew and shared.prefixes > 1 else ""
        prefix = f"; the first {shared.shared_tokens:,} of a prompt are one of {shared.prefixes:,}{skew}"
    return f"{_length(source.inputs)} in, {_length(source.outputs)} out{prefix}"


def _length(lengths: Lengths) -> str:
    spread = f" (spread {lengths.spread_ratio:g})" if lengths.spread_ratio else ""
    return f"{lengths.mean_tokens:,.0f} tokens{spread}"


def _clients(source: Clients) -> Iterator[str]:
    if source.cancel_share:
        yield f"{format_share(source.cancel_share)} of the clients leave in the middle of their answer"
    if source.patience_s is not None:
        yield f"clients leave after {format_seconds(source.patience_s)}"


def serving(s: Simulation) -> list[str]:
    """What serves it, in lines."""
    setup, scenario = s.ready.setup, s.plan.scenario
    rules = setup.scheduler
    copies = f"{setup.replicas} replicas, {setup.routing}; " if setup.replicas > 1 else ""
    first = f"{copies}{named_engine(scenario)}, {rules.batching} batching"
    if rules.batching == "static":
        wait = (
            f", at most {format_seconds(rules.static_wait_s)} for the first" if rules.static_wait_s is not None else ""
        )
        first += f" of {format_whole(rules.static_batch)}{wait}"
    memory = s.plan.memory
    pool = (
        f"{format_bytes(memory.kv_pool_bytes_per_gpu)} of cache a device, {format_whole(memory.kv_pool_tokens)} tokens"
    )
    lines = [first, pool]
    if rules.admission_wait_s is not None:
        lines.append(f"refuses what waits longer than {format_seconds(rules.admission_wait_s)}")
    if rules.most_waiting is not None:
        lines.append(f"refuses what finds {counted(rules.most_waiting, 'request')} waiting at its replica")
    if rules.by_priority:
        lines.append("priority before order of arrival")
    lines += [loss_words(loss) for loss in setup.losses]
    return lines


def loss_words(loss: Loss) -> str:
    """One loss."""
    back = "and stays away" if loss.down_s is None else f"for {format_seconds(loss.down_s)}"
    return f"replica {loss.replica} fails at {format_seconds(loss.time_s)} {back}"


def target_words(targets: Targets) -> str:
    """The targets as one phrase."""
    named = (("TTFT", targets.ttft_s), ("TPOT", targets.tpot_s), ("whole answer", targets.e2e_s))
    return " and ".join(f"{name} {format_seconds(target_s)}" for name, target_s in named if target_s is not None)


def verdict(s: Simulation) -> tuple[str, str, bool]:
    """The verdict: a word, a sentence, whether it is good."""
    if s.summary.saturated:
        return "SATURATED", _saturated(s), False
    share, targets = s.good_share, s.job.targets
    told = f"{format_share(share)} of requests"
    if s.summary.ended["cancelled"]:
        told += " whose client stayed"
    what = f"within {target_words(targets)}" if targets.given else "are answered whole"
    wanted = "" if s.keeps_up else f"; {format_share(s.job.good_share)} were asked for"
    if s.keeps_up:
        return "KEEPS UP", f"{told} {what}", True
    return ("TARGETS MISSED" if targets.given else "LOSES REQUESTS"), f"{told} {what}{wanted}", False


def _saturated(s: Simulation) -> str:
    served = f"{rate(s.served_per_s)} are served"
    if not s.served_per_s and s.saturation_per_s:
        served = f"{rate(s.saturation_per_s)} are the most that can be served"
    text = f"{rate(s.arrive_per_s)} arrive, {served}; the queue grows, so there are "
    return f"{text}no mean waits to tell"


def load_rows(s: Simulation) -> list[tuple[str, str]]:
    """What the deployment did."""
    m, seen = s.summary, _seen(s)
    rows = [("served", _served(s))]
    if m.goodput_per_s is not None:
        rows.append(("goodput", f"{rate(m.goodput_per_s)} within the targets"))
    rows += [("batch", text) if not at else ("", text) for at, text in enumerate(batch_words(s))]
    # Looks that missed a burst, or replicas that were away, leave the most below the mean: then it is not told.
    most = f", {format_share(_peak(s))} at most{seen}" if _peak(s) >= m.kv_share else ""
    rows.append(("KV cache", f"{format_share(m.kv_share)} in use on average{most}"))
    most = f", {_most_waiting(s):,} at most{seen}" if _most_waiting(s) >= m.waiting or not seen else ""
    rows.append(("waiting", f"{number(m.waiting)} requests on average{most}"))
    rows.append(("preempted", f"{counted(m.preemptions, 'time')}: computed anew" if m.preemptions else "never"))
    if m.prefix_hit_share:
        rows.append(("prefix hits", f"{format_share(m.prefix_hit_share)} of prompt tokens"))
    rows += _ends(s)
    if m.wasted_share:
        rows.append(("wasted", f"{format_share(m.wasted_share)} of output tokens, which nobody read"))
    rows += [("saturation", text) if not at else ("", text) for at, text in enumerate(saturation_words(s))]
    rows.append(("busy", f"{format_share(m.busy_share)} of the time"))
    if s.usd_per_hour is not None:
        rows.append(("cost", cost_words(s)))
    return rows


def _served(s: Simulation) -> str:
    m = s.summary
    answers = rate(s.served_per_s) if s.served_per_s or not m.completed else "no whole answer in this time"
    return (
        f"{answers}, {tokens_per_s(m.output_tokens_per_s)} output and "
        f"{tokens_per_s(m.prompt_tokens_per_s)} prompt tokens/s"
    )


def _seen(s: Simulation) -> str:
    """How seldom a long run was looked at, where a whole answer fits between two looks."""
    e2e, every_s = s.summary.e2e_s, s.samples.every_s
    return f", seen every {format_seconds(every_s)}" if e2e is not None and every_s > e2e.mean else ""


def _peak(s: Simulation) -> float:
    return max(s.samples.used_share, default=0.0)


def _most_waiting(s: Simulation) -> int:
    return max(s.samples.waiting, default=0)


def _ends(s: Simulation) -> Iterator[tuple[str, str]]:
    """Requests that were not answered."""
    ended = s.summary.ended
    told = [f"{format_whole(count)} {how}" for how, count in ended.items() if how != "done" and count]
    if told:
        share = 1 - s.summary.completed / s.summary.requests
        yield "unanswered", f"{', '.join(told)}: {format_share(share)} of all"


def batch_words(s: Simulation) -> Iterator[str]:
    """The batch that was simulated beside Little's law, and a plan's step beside the simulated one."""
    m, point = s.summary, s.fixed_point
    where = " in a replica" if s.ready.setup.replicas > 1 else ""
    yield f"{number(m.effective_batch)} sequences{where} on average; in the mean decode step {number(m.step_batch)}"
    if point is not None and point.batch is not None:
        off = m.effective_batch / point.batch - 1
        other = point.calm if point.by_chance else point.chance
        others = ""
        if other is not None and abs(other / point.batch - 1) > SAME_SHARE:
            how = "requests came evenly" if point.by_chance else "they came by chance"
            others = f" ({number(other)} if {how})"
        agrees = "agrees" if abs(off) <= SAME_SHARE else _why_off(s, off)
        yield f"Little's law: {number(point.batch)}{others}; {agrees}"
    if s.plan_tpot_s is not None and m.tpot_s is not None:
        told = (
            f"plan --batch {s.plan_batch}: TPOT {format_seconds(s.plan_tpot_s)}; here {format_seconds(m.tpot_s.mean)}"
        )
        yield told + _why_slower(s, m.tpot_s.mean / s.plan_tpot_s - 1)


def _why_slower(s: Simulation, off: float) -> str:
    """What a plan's step leaves out that is here."""
    if abs(off) <= SAME_SHARE:
        return ""
    reasons = []
    point, context = s.fixed_point, s.plan.scenario.decode_context_tokens
    if point is not None and abs(point.context_tokens / context - 1) > SAME_SHARE:
        reasons.append(f"the mean context here is {point.context_tokens:,.0f} tokens, there {context:,.0f}")
    if off < 0 and s.summary.prefix_hit_share > SAME_SHARE:
        reasons.append(f"{format_share(s.summary.prefix_hit_share)} of prompt tokens were found, not computed")
    if _in_step(s.job.source):
        reasons.append("users stay in step, and their prompts share steps of their own")
    elif s.summary.saturated or _bursty(s.job.source):
        reasons.append("the batch varies, and most requests meet it when it is large")
    elif not reasons:
        reasons.append("a mean of requests, in batches that vary")
    return f": {'; '.join(reasons)}"


def _why_off(s: Simulation, off: float) -> str:
    """What the law leaves out that is here."""
    m = s.summary
    reasons = []
    if m.preemptions:
        reasons.append("preempted requests compute anew")
    if m.waiting > m.effective_batch:
        reasons.append("the queue, not the rate, decides how many run")
    if s.job.source.users is None and _bursty(s.job.source):
        reasons.append("arrivals are not even, and steps get longer in bursts")
    if any(count for how, count in m.ended.items() if how != "done"):
        reasons.append("not every answer is computed whole")
    if _in_step(s.job.source):
        reasons.append("users wait for each other's prompts")
    elif s.job.source.users is not None:
        reasons.append("users leave one by one as the run ends")
    if s.saturation and s.arrive_per_s > NEAR_SHARE * s.saturation.rate_per_s:
        reasons.append("near saturation small differences grow")
    why = "; ".join(reasons) or "chance, and a run that is short"
    told = f"{1 + off:.1f} times as many" if off > 1 else f"{'+' if off > 0 else '-'}{format_share(abs(off))}"
    return f"{told} here: {why}"


def _bursty(source: Source) -> bool:
    inner = source.source if isinstance(source, Clients) else source
    return not isinstance(inner, Synthetic) or inner.process in ("gamma", "periodic")


def _in_step(source: Source) -> bool:
    """Users that send equal requests and never pause."""
    inner = source.source if isinstance(source, Clients) else source
    return isinstance(inner, Synthetic) and bool(inner.users) and not (inner.outputs.spread_ratio or inner.think_s)


def saturation_words(s: Simulation) -> Iterator[str]:
    """The most that is served, how it was found, and what is left of it."""
    found = s.saturation
    if found is None:
        return
    most = found.rate_per_s
    yield f"{rate(most)}, with {number(found.batch)} sequences at once; found with {found.requests:,} present together"
    if s.job.source.users is not None:
        yield f"these users take {format_share(s.served_per_s / most)} of it"
        return
    ratio = s.arrive_per_s / most
    if ratio <= 1:
        bursts = "; bursts queue before that" if _bursty(s.job.source) else ""
        yield f"this load is {format_share(ratio)} of it: it can grow {1 / ratio:.2f} times{bursts}"
    else:
        yield f"this load is {ratio:.2f} times as much"
    replicas = s.ready.setup.replicas
    if replicas > 1:
        left = most * (replicas - 1) / replicas
        holds = "holds" if s.arrive_per_s <= left else "does not hold"
        yield f"with {replicas - 1} of {replicas} replicas {rate(left)}: {holds} this load"


def cost_words(s: Simulation) -> str:
    """What it costs at this load."""
    usd = s.usd_per_hour or 0.0
    per_s = s.summary.output_tokens_per_s * (1 - s.summary.wasted_share)
    told = f"{format_usd(usd)} per hour"
    return f"{told}; {format_usd(usd / 3600 / per_s * 1e6)} per million output tokens that were read" if per_s else told


def note_texts(s: Simulation) -> list[str]:
    """What the reader should know."""
    notes = list(s.notes)
    if (
        s.job.source.users is None
        and s.fixed_point is not None
        and s.summary.waiting < 1
        and s.summary.busy_share > 0.99
    ):
        pass
    tenants = s.job.source.senders if isinstance(s.job.source, Clients) else ()
    if any(one.priority for one in tenants) and not s.ready.setup.scheduler.by_priority:
        notes.append("priorities are given, but the engine serves in order of arrival: --by-priority")
    if _in_step(s.job.source):
        notes.append("users with equal answers stay in step, so their prompts come together: --output-spread, --think")
    band = s.ready.ends(max(1, round(s.summary.step_batch)))
    ratios = [getattr(setup.clock, "step_ratio", 1.0) for setup in band]
    more = "" if s.low else ": --interval simulates both ends"
    notes.append(f"steps may take {ratios[0]:.2f} to {ratios[1]:.2f} times as long (nine in ten measurements){more}")
    return notes
