"""Published speed measurements beside the estimate: one check per figure, in the unit it was published in (rates at
which a prompt was read as the time to its first token).

Groups: served-dense and served-moe (TPOT of a served deployment), e2e-dense and e2e-moe (TTFT + OSL x TPOT of the same
run), single-stream (one sequence on a local engine), prefill (the first token of one request), max-load (rate of a
benchmark that sends all requests at once), speculation and speculation-steps (speedup from accepted tokens). A figure
that is not predicted says why; one that breaks the floor is suspect and not scored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.compute import prefill_flop
from infopt.ledgers.estimate import Estimate, NoEstimate, band_of, estimate, step_clock
from infopt.ledgers.max_load import load_parts, load_terms_s
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import first_token_of, first_token_s, step_shape, step_terms_s
from infopt.profiles.load_constants import load_constants
from infopt.profiles.step_constants import step_constants
from infopt.studies.memory_checks import Check
from infopt.studies.speed_load import is_max_load, load_scenario
from infopt.studies.speed_single import (
    cached_tokens,
    first_token_seconds,
    is_single_prefill,
    is_single_stream,
    single_scenario,
)
from infopt.studies.speed_speculation import accepted_lengths, run_key, served_engine, speculation_checks
from infopt.studies.speed_truth import SpeedRow, served_scenario, speed_terms

SUSPECT = "faster than the bytes allow: a suspect row"
FLAGGED = "known bad: flagged in the file"


def speed_checks(rows: Sequence[SpeedRow]) -> Iterator[Check]:
    """Checks of a truth file's rows, in order; every row is either scored or has a reason."""
    words = speed_terms()
    beside = {row.run: row.value for row in rows if row.metric == "ttft_ms"}
    accepted = accepted_lengths(rows)
    for row in rows:
        yield from _row_checks(row, words, beside.get(row.run), accepted.get(run_key(row)))


def _row_checks(
    row: SpeedRow, words: dict[str, Any], ttft_ms: float | None, accepted_tokens: float | None
) -> Iterator[Check]:
    group = group_of(row, words)
    if group.startswith("not scored"):
        yield _skipped(row, "", group.removeprefix("not scored: "))
    elif row.flagged:
        yield _skipped(row, group, FLAGGED)
    elif group == "served":
        yield from _served_checks(row, ttft_ms)
    elif group == "speculation":
        yield from speculation_checks(row, accepted_tokens)
    else:
        yield _one_check(row, group)


def group_of(row: SpeedRow, words: dict[str, Any]) -> str:
    """The group of a row, or "not scored: " and why."""
    reason = words["informs"].get(row.prefix) or words["informs_metrics"].get(row.metric)
    if reason:
        return f"not scored: {reason}"
    if is_single_stream(row):
        return "single-stream"
    if is_single_prefill(row):
        return "prefill"
    if is_max_load(row):
        return "max-load"
    if row.metric == "spec_speedup":
        return "speculation"
    served = row.metric in ("tpot_ms", "ttft_ms") and served_engine(row.engine) and row.concurrency
    if served and row.metric == "tpot_ms":
        return "served"
    if served and row.concurrency != 1:
        return "not scored: a first token under load: scored within end-to-end latency"
    return f"not scored: {row.metric} is not predicted"


def _skipped(row: SpeedRow, group: str, reason: str) -> Check:
    return Check(row.id, group, row.metric, row.value, reason=reason)


# --- served deployments ---------------------------------------------------------------------------------------


def _served_checks(row: SpeedRow, ttft_ms: float | None) -> Iterator[Check]:
    try:
        s = served_scenario(row)
        found, floor_s = _estimated(s)
    except InfoptError as error:
        yield _skipped(row, "served", str(error).split("; nearest")[0][:160])
        return
    kind = "moe" if s.model.experts else "dense"
    if isinstance(found, NoEstimate):
        yield _skipped(row, f"served-{kind}", found.reason)
        return
    yield judged(
        Check(
            row.id,
            f"served-{kind}",
            row.metric,
            row.value,
            predicted=1e3 * found.tpot_s,
            low=1e3 * found.tpot_low_s,
            high=1e3 * found.tpot_high_s,
            limit=1e3 * floor_s,
        )
    )
    if ttft_ms is not None:
        yield judged(_whole_request(row, s, found, ttft_ms, floor_s, kind))


def _whole_request(row: SpeedRow, s: Scenario, found: Estimate, ttft_ms: float, floor_s: float, kind: str) -> Check:
    """End-to-end latency: the split between TTFT and TPOT depends on the client, the sum hardly does."""
    return Check(
        row.id,
        f"e2e-{kind}",
        "e2e_ms",
        ttft_ms + s.output_tokens * row.value,
        predicted=1e3 * (found.ttft_s + s.output_tokens * found.tpot_s),
        limit=1e3 * s.output_tokens * floor_s,
    )


# --- one figure ---------------------------------------------------------------------------------------------


def _one_check(row: SpeedRow, group: str) -> Check:
    """The check of a row that has one; what it lacks is the reason."""
    try:
        if group == "max-load":
            return judged(_load_check(row))
        return judged({"single-stream": _step_check, "prefill": _first_token_check}[group](row, single_scenario(row)))
    except InfoptError as error:
        return _skipped(row, group, str(error).split("; nearest")[0][:160])


def _step_check(row: SpeedRow, s: Scenario) -> Check:
    found = step_clock(s)
    if isinstance(found, NoEstimate):
        raise InfoptError(found.reason)
    terms = step_terms_s(found.shape, found.constants, 1, s.decode_context_tokens, s.input_tokens, s.output_tokens)
    floor_s, band = bandwidth_ledger(s).tpot_floor_s, band_of(found.constants, 1)
    step_s = max(float(sum(terms.values())), floor_s)
    times_s = (step_s, max(step_s * band.low, floor_s), step_s * band.high, floor_s)
    return _timed(row, "single-stream", 1 if row.metric == "tg_tok_s" else None, times_s)


def _first_token_check(row: SpeedRow, s: Scenario) -> Check:
    device = s.accelerator
    constants = step_constants(
        s.engine.engine, device.memory_class, device.vendor, device.cuda_capability, s.model.experts > 0
    )
    shape = step_shape(s, constants) if constants is not None else None
    if constants is None or shape is None:
        raise InfoptError(f"no measurements of {s.engine.engine} on {device.name} are in the step-time data")
    first = first_token_of(constants)
    tokens, cached = row.input_tokens or 1, cached_tokens(row)
    time_s = float(first_token_s(shape, constants, 0.0, 1, tokens, cached))
    floor_s = float(prefill_flop(s.model, tokens)) / (s.tp * s.pp * max(device.peak_flop_per_s.values()))
    low_s, high_s = max(time_s * first.low, floor_s), time_s * first.high
    measured_ms = 1e3 * first_token_seconds(row)
    return Check(
        row.id, "prefill", "ttft_ms", measured_ms, 1e3 * time_s, 1e3 * low_s, 1e3 * high_s, limit=1e3 * floor_s
    )


def _load_check(row: SpeedRow) -> Check:
    s = load_scenario(row)
    constants, parts = load_constants(s.engine.engine, s.accelerator.vendor), load_parts(s)
    if constants is None or parts is None:
        raise InfoptError(f"no maximal load of {s.engine.engine} on {s.accelerator.name} was measured")
    token_s = max(sum(load_terms_s(parts, s.model.experts > 0, constants).values()), parts.floor_s)
    times_s = (token_s, max(token_s * constants.low, parts.floor_s), token_s * constants.high, parts.floor_s)
    return _timed(row, "max-load", s.batch, times_s)


def _timed(row: SpeedRow, group: str, tokens: int | None, times_s: tuple[float, float, float, float]) -> Check:
    """A check in the row's own unit: milliseconds, or tokens per second where it counts `tokens`."""
    time, low, high, floor = times_s
    if tokens is None:
        shown = (1e3 * time, 1e3 * low, 1e3 * high, 1e3 * floor)
    else:
        shown = (tokens / time, tokens / high, tokens / low, tokens / floor)
    return Check(row.id, group, row.metric, row.value, predicted=shown[0], low=shown[1], high=shown[2], limit=shown[3])


def _estimated(s: Scenario) -> tuple[Estimate | NoEstimate, float]:
    bandwidth = bandwidth_ledger(s)
    return estimate(s, memory_ledger(s), bandwidth), bandwidth.tpot_floor_s


def judged(check: Check) -> Check:
    """A figure that beats the floor is not scored."""
    return replace(check, reason=SUSPECT) if check.beyond_limit(check.measured) else check
