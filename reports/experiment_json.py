"""Ladder, matrix and compared runs as plain data: JSON objects, and flat rows for CSV."""

from collections.abc import Sequence
from typing import Any

from infopt.reports.json_report import placed_dict
from infopt.simulation.summary import Targets
from infopt.studies.experiment_commands import save_line, start_of
from infopt.studies.experiment_compare import Compared, MetricRow, QualityRow
from infopt.studies.experiment_ladder import Climbed, Ladder, Trial, ladder_data
from infopt.studies.experiment_matrix import Matrix, Row
from infopt.studies.experiment_trial import Tried
from infopt.studies.experiment_variables import Change
from infopt.studies.saved_run import Quality, SavedRun

LADDER, MATRIX, COMPARE = "infopt/experiment_ladder/1", "infopt/experiment_matrix/1", "infopt/experiment_compare/1"


def ladder_dict(found: Ladder) -> dict[str, Any]:
    """The ladder whole."""
    run, simulation = found.baseline.found
    data, job = ladder_data(), found.baseline.job
    return {
        "schema": LADDER,
        "model": run.configuration["model"],
        **placed_dict(simulation.plan.scenario),
        "traffic": run.traffic.model_dump(mode="json"),
        "targets": _targets(job.targets),
        "good_share_target": job.good_share,
        "seeds": found.seeds,
        "holds": found.holds,
        "departs": list(found.departs),
        "baseline": _tried(found.baseline),
        "rungs": [_rung(climbed) for climbed in found.rungs],
        "best": _tried(found.best),
        "gates": {"performance": data.gates.performance, "quality": data.gates.quality, "stop": data.gates.stop},
    }


def _targets(targets: Targets) -> dict[str, float | None]:
    return {"ttft_s": targets.ttft_s, "tpot_s": targets.tpot_s, "e2e_s": targets.e2e_s}


def _tried(tried: Tried) -> dict[str, Any]:
    run, start = tried.found[0], start_of(tried)
    return {
        "configuration": dict(run.configuration),
        "saturated": run.saturated,
        "metrics": dict(run.metrics),
        "command": start.text,
        "notes": list(start.notes),
        "save": save_line(tried, "RESULT.json", "RUN.yaml"),
    }


def _rung(climbed: Climbed) -> dict[str, Any]:
    rung, b = climbed.rung, climbed.boundary
    told = None
    if b is not None:
        told = {"technique": b.technique, "verdict": b.verdict, "reason": b.reason, "settle": b.settle or None}
    return {
        "id": rung.id,
        "name": rung.name,
        "what": rung.what,
        "why": rung.why,
        "trials": [_trial(trial) for trial in climbed.trials],
        "not_simulated": climbed.unknown or None,
        "boundary": told,
        "notes": list(climbed.notes),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    judged, run = trial.judged, trial.tried.run
    return {
        "variable": trial.variable,
        "before": trial.before,
        "value": trial.value,
        "outcome": judged.outcome,
        "reason": "; ".join(text for text in (judged.reason, judged.note) if text),
        "metric": judged.metric,
        "gain_ratio": judged.gain_ratio,
        "half_ratio": judged.half_ratio,
        "saturated": run.saturated if run is not None else None,
        "metrics": dict(run.metrics) if run is not None else None,
        "command": start_of(trial.tried).text if run is not None else None,
    }


def ladder_rows(found: Ladder) -> list[dict[str, Any]]:
    """One row for the baseline and each value that was tried."""
    run, _ = found.baseline.found
    first = {"rung": "baseline", "variable": None, "before": None, "value": None, "outcome": None, "reason": None}
    rows: list[dict[str, Any]] = [first | _figures(run)]
    for climbed in found.rungs:
        for trial in climbed.trials:
            flat = _trial(trial)
            del flat["metrics"]
            rows.append({"rung": climbed.rung.id, **flat, **(_figures(trial.tried.run) if trial.tried.run else {})})
    return rows


def _figures(run: SavedRun) -> dict[str, Any]:
    return {"saturated": run.saturated, **{f"metrics.{name}": value for name, value in run.metrics.items()}}


def matrix_dict(found: Matrix) -> dict[str, Any]:
    """The matrix whole."""
    first = found.breaks_first
    simulated = next((row.simulation for row in found.rows if row.simulation is not None), None)
    placed: dict[str, Any] = {"hardware": None, "engine": None}
    return {
        "schema": MATRIX,
        "model": found.rows[0].job.model.id,
        **(placed_dict(simulated.plan.scenario) if simulated else placed),
        "rate_per_s": found.rate_per_s,
        "targets": _targets(found.targets),
        "good_share_target": found.good_share,
        "holds": found.holds,
        "breaks_first": first.cell.id if first else None,
        "cells": matrix_rows(found),
    }


def matrix_rows(found: Matrix) -> list[dict[str, Any]]:
    """The cells as flat rows."""
    return [_cell(row) for row in found.rows]


def _cell(row: Row) -> dict[str, Any]:
    cell, found = row.cell, row.simulation
    figures = found.summary if found else None
    flat: dict[str, Any] = {
        "cell": cell.id,
        "row": cell.row,
        "variable": cell.variable or None,
        "over": cell.over,
        "verdict": row.verdict,
        "reason": row.reason or None,
    }
    for kind in ("ttft", "tpot", "e2e"):
        times = getattr(figures, f"{kind}_s", None)
        flat[f"{kind}_mean_s"] = times.mean if times else None
        flat[f"{kind}_p99_s"] = times.p99 if times else None
    return flat | {
        "good_share": found.good_share if found else None,
        "goodput_per_s": figures.goodput_per_s if figures else None,
        "output_tokens_per_s": figures.output_tokens_per_s if figures else None,
        "effective_batch": figures.effective_batch if figures else None,
        "prefix_hit_share": figures.prefix_hit_share if figures else None,
        "preemptions": figures.preemptions if figures else None,
        "requests": figures.requests if figures else None,
        "left_out": found.left_out if found else None,
        "saturation_per_s": found.saturation_per_s if found else None,
        "headroom_ratio": row.headroom_ratio,
        "by_priority": row.job.choices.by_priority,
        "not_shown": cell.not_shown or None,
    }


def compared_dict(found: Sequence[Compared], names: Sequence[str]) -> dict[str, Any]:
    """Every pair."""
    return {
        "schema": COMPARE,
        "pairs": [
            {
                "a": names[at],
                "b": names[at + 1],
                "verdict": one.verdict,
                "variable": one.variable.variable if one.variable else None,
                "changes": [_change(change) for change in one.differences.changes],
                "unknown": [{"knob": name, "stated_in": side.lower()} for name, side in one.differences.unknown],
                "refusals": list(one.refusals),
                "missing": list(one.missing),
                "keeps_up": one.keeps_up,
                "metrics": [_metric(row) for row in one.metrics],
                "quality": [_quality(row) for row in one.quality],
            }
            for at, one in enumerate(found)
        ],
    }


def _change(change: Change) -> dict[str, Any]:
    knobs = [{"knob": name, "a": old, "b": new} for name, old, new in change.knobs]
    return {"variable": change.variable, "quality": change.quality, "knobs": knobs}


def _metric(row: MetricRow) -> dict[str, Any]:
    return {
        "metric": row.metric.id,
        "unit": row.metric.unit,
        "better": row.metric.better,
        "a": row.a,
        "b": row.b,
        "difference": row.difference,
        "ratio": row.ratio,
        "half_width": row.half,
        "paired": row.paired,
        "effect": row.effect,
    }


def _quality(row: QualityRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "unit": row.unit,
        "a": _result(row.a),
        "b": _result(row.b),
        "half_width": row.half,
        "effect": row.effect,
    }


def _result(one: Quality | None) -> dict[str, Any] | None:
    return None if one is None else {"value": one.value, "n": one.n, "higher_is_better": one.higher_is_better}


def compared_rows(found: Sequence[Compared], names: Sequence[str]) -> list[dict[str, Any]]:
    """One row a metric of a pair."""
    rows = []
    for at, one in enumerate(found):
        for row in one.metrics:
            flat = _metric(row)
            values = {"a_value": flat.pop("a"), "b_value": flat.pop("b")}
            rows.append({"a": names[at], "b": names[at + 1], "verdict": one.verdict, **flat, **values})
    return rows
