"""A simulation as the JSON contract's object (DESIGN section 4), and as one flat row."""

from dataclasses import asdict
from typing import Any

from infopt.reports.json_report import plan_dict
from infopt.reports.simulate_words import verdict
from infopt.simulation.summary import Summary, TenantFigures, Times
from infopt.studies.simulate import Simulation

SCHEMA = "infopt/simulate/1"


def as_dict(s: Simulation) -> dict[str, Any]:
    """Plain numbers in base units; null where there is none, as waits of a saturated system."""
    word, sentence, _ = verdict(s)
    found, point, most = s.summary, s.fixed_point, s.saturation
    return {
        "schema": SCHEMA,
        **figures(found),
        "arrive_per_s": s.arrive_per_s,
        "served_per_s": s.served_per_s,
        "good_share": s.good_share,
        "good_share_asked": s.job.good_share,
        "keeps_up": s.keeps_up,
        "verdict": {"word": word.lower(), "text": sentence},
        "targets": asdict(s.job.targets),
        "fixed_point_batch": s.fixed_point_batch,
        "fixed_point_calm_batch": point.calm if point else None,
        "fixed_point_chance_batch": point.chance if point else None,
        "plan_batch": s.plan_batch,
        "plan_tpot_s": s.plan_tpot_s,
        "saturation": asdict(most) if most else None,
        "left_out_requests": s.left_out,
        "interval": {"low": figures(s.low), "high": figures(s.high)} if s.low and s.high else None,
        "losses": {name: asdict(one) if one else None for name, one in _phases(s)} if s.losses else None,
        "tenants": [_tenant(s, one) for one in found.tenants],
        "samples": _samples(s),
        "prefix": _prefix(s),
        "usd_per_hour": s.usd_per_hour,
        "gpus": s.gpus,
        "seed": s.job.choices.seed,
        "serving": _serving(s),
        "plan": plan_dict(s.plan),
        "assumptions": [asdict(caveat) for caveat in s.assumptions],
        "notes": list(s.notes),
    }


def figures(m: Summary) -> dict[str, Any]:
    """The figures of one run."""
    return {
        "requests": m.requests,
        "completed": m.completed,
        "ended": {name.replace(" ", "_"): count for name, count in m.ended.items()},
        "measured_requests": m.measured_requests,
        "measured_s": m.measured_s,
        "requests_per_s": m.requests_per_s,
        "output_tokens_per_s": m.output_tokens_per_s,
        "prompt_tokens_per_s": m.prompt_tokens_per_s,
        "goodput_per_s": m.goodput_per_s,
        "ttft_s": times(m.ttft_s),
        "tpot_s": times(m.tpot_s),
        "e2e_s": times(m.e2e_s),
        "effective_batch": m.effective_batch,
        "step_batch": m.step_batch,
        "waiting": m.waiting,
        "kv_share": m.kv_share,
        "busy_share": m.busy_share,
        "steps": m.steps,
        "preemptions": m.preemptions,
        "prefix_hit_share": m.prefix_hit_share,
        "wasted_share": m.wasted_share,
        "saturated": m.saturated,
        "little_ratio": m.little_ratio,
    }


def times(t: Times | None) -> dict[str, float] | None:
    """A distribution."""
    return asdict(t) if t is not None else None


def _phases(s: Simulation) -> list[tuple[str, Any]]:
    assert s.losses is not None
    return [("before", s.losses.before), ("hit", s.losses.hit), ("during", s.losses.during)]


def _tenant(s: Simulation, one: TenantFigures) -> dict[str, Any]:
    usd = s.usd_per_hour
    waits = None if s.summary.saturated else times(one.ttft_s)
    return {
        **asdict(one),
        "ttft_s": waits,
        "tpot_s": times(one.tpot_s),
        "usd_per_hour": usd * one.machine_share if usd is not None else None,
    }


def _samples(s: Simulation) -> dict[str, Any]:
    samples = s.samples
    return {
        "time_s": samples.time_s,
        "running": samples.running,
        "waiting": samples.waiting,
        "kv_share": samples.used_share,
        "output_tokens": samples.output_tokens,
        "ended": samples.ended,
    }


def _prefix(s: Simulation) -> dict[str, Any] | None:
    if s.prefix is None:
        return None
    from infopt.reports.prefix_trace_report import as_dict as prefix_dict

    return prefix_dict(s.prefix)


def _serving(s: Simulation) -> dict[str, Any]:
    setup = s.ready.setup
    rules = {name: getattr(setup.scheduler, name) for name in setup.scheduler.__slots__}
    return {
        **rules,
        "replicas": setup.replicas,
        "routing": setup.routing,
        "streaming": setup.streaming,
        "aborts": setup.aborts,
        "max_tokens": setup.max_tokens,
        "losses": [asdict(loss) for loss in setup.losses],
    }


def flat_row(s: Simulation) -> dict[str, Any]:
    """One row of figures, columns named after the JSON's keys."""
    from infopt.reports.csv_report import flattened

    data = as_dict(s)
    for name in ("samples", "prefix", "plan", "assumptions", "notes", "tenants", "interval", "losses", "schema"):
        del data[name]
    return dict(flattened(data))
