"""Steps of a running engine as records of a calibration: what `observe --calibrate FILE` adds for later plans.

    decode    t = median between two outputs, of a client; else their mean, where prompts cannot have moved it by much
              batch n: the client's, else (tokens / tokens a sequence emits a step) / steps, else the mean observed
              context = prompt + answer / 2
    prompt    t = mean prefill time of requests that ran alone (n = 1) with nothing cached, context 0
    mixed     of a mean: prompts (n - 1) prefill / (intervals mean), of a median: (n - 1) / (answer - 1); the most that
              prompts of others can be of it, each of them met by all other answers; above the limit it is refused.
              A median whose 90th percentile is near has none in nine steps of ten: steps with prompts are long
    floor     t >= 0.8 (weights + cache) / bandwidth: what is faster is of another model, format or device
Bytes, FLOP and kernels are the ledger's. A step is of one engine, format and launch: compiled and eager servers are two
devices in this, so keep a record each. Errors: InfoptError says why an observation is no step, and what to do.
"""

from datetime import UTC, datetime
from pathlib import Path

from infopt import __version__
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.calibrate import device_of, same_kind
from infopt.hardware.calibration import METHOD, Calibration, State, Step, load_calibration
from infopt.hardware.calibration_store import save
from infopt.ledgers.compute import decode_flop_per_token, prefill_flop
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.traffic import traffic
from infopt.observing.observation import Observation, Spread
from infopt.profiles.engines import engine_name
from infopt.profiles.step_constants import kernels_per_step
from infopt.units import format_seconds, format_share

MIXED_MEAN = 0.10  # most that prompts may be of a mean
CLOSE = 1.3  # times the median that the 90th percentile of plain steps may be
MIXED_MEDIAN = 0.25  # most steps with prompts: a median is then at most that of the slower third
APART = 0.10  # how far a batch may be from a whole number of sequences
PLAIN = 1.02  # tokens a step of a sequence: more are drafts
FLOOR_SHARE = 0.8  # of the floor by rated bandwidth that a step takes at least
ALONE = 1.05  # sequences at once that count as one


@dataclass(frozen=True, slots=True)
class Observed:
    """Steps of one observation, and what they rest on."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def steps_from(o: Observation, s: Scenario, batch: int | None = None) -> Observed:
    """The decode step of an observation, and its prompt where requests ran alone.

    s      model, formats, engine and placement that were observed; its lengths where the observation has none
    batch  sequences the client kept at once, where the observation cannot tell
    Errors: InfoptError as the module says.
    """
    _same_engine(o, s)
    if (o.tokens_per_step or 1.0) > PLAIN:
        raise _refused(o, "its steps verify drafts: observe the server without speculation")
    if o.preemptions:
        raise _refused(o, f"{o.preemptions:g} requests were preempted: keep fewer at once, or give a larger pool")
    sequences = _sequences(o, batch)
    prompt_tokens, answer_tokens = o.input_tokens_mean or s.input_tokens, o.output_tokens_mean or s.output_tokens
    decode = _decode(o, s, sequences, prompt_tokens, answer_tokens)
    _above_floor(o, s, decode)
    prompt, why = _prompt(o, s, sequences, prompt_tokens)
    context = f"step of {sequences} sequences at {decode.context_tokens} tokens: {decode.median_s * 1e3:.4g} ms"
    return Observed((decode, *([prompt] if prompt else [])), (context, *([why] if why else [])))


def calibrate(
    o: Observation, s: Scenario, hardware: HardwareChoice, path: Path, batch: int | None = None
) -> tuple[Calibration, Observed]:
    """The record of a file with the steps of an observation added, written.

    A file that is not there is begun: it has no bandwidth then, which `infopt probe bandwidth --out FILE` adds.
    Errors: InfoptError as `steps_from`, for a file of another device, and where it cannot be written.
    """
    found = steps_from(o, s, batch)
    unit = hardware.units[0] if len(hardware.units) == 1 else None
    device = load_calibration(path).device if path.exists() else device_of(hardware.accelerator, unit)
    if not same_kind(device, hardware.accelerator):
        asked = hardware.accelerator.name or hardware.accelerator.id
        raise InfoptError(f"--calibrate {path}: it is of {device.name}, not of {asked}; name another file")
    record = Calibration(
        schema="infopt/calibration/1",
        method=METHOD,
        created=_now(),
        infopt=__version__,
        complete=True,
        device=device,
        state=State(notes=[f"steps of {s.engine.engine}, observed: {o.source or 'no source named'}"]),
        software={s.engine.engine: s.engine_version},
        steps=list(found.steps),
    )
    return save(record, path), found


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _refused(o: Observation, why: str) -> InfoptError:
    return InfoptError(f"{o.source or 'this observation'}: no step to calibrate with: {why}")


def _same_engine(o: Observation, s: Scenario) -> None:
    if o.engine is None:
        return
    try:
        named = engine_name(o.engine)
    except InfoptError as error:
        raise _refused(o, f"steps of {o.engine} are not planned with ({error})") from error
    if named != s.engine.engine:
        raise _refused(o, f"it is of {named}, the scenario of {s.engine.engine}: --engine {named}")


def _above_floor(o: Observation, s: Scenario, decode: Step) -> None:
    """Nothing reads faster than the device does; the figure of its bandwidth may be a little off."""
    floor_s = (decode.weight_bytes + decode.kv_bytes) / s.accelerator.bandwidth_bytes_per_s
    if decode.median_s < FLOOR_SHARE * floor_s:
        raise _refused(
            o,
            f"a step of {format_seconds(decode.median_s)} is below what reading the model takes here "
            f"({format_seconds(floor_s)}): name the --model, formats, placement and --hw that were observed",
        )


def _sequences(o: Observation, batch: int | None) -> int:
    """Sequences of a decode step."""
    if batch is not None:
        return batch
    found = o.effective_batch
    if o.steps and o.output_tokens:
        found = o.output_tokens / (o.tokens_per_step or 1.0) / o.steps
    elif o.kind == "benchmark" and (found is None or found > ALONE):
        # By Little's law sequences in their prompts are left out: fewer than a step holds.
        raise _refused(o, "a client's file does not say how many sequences a step held: --batch N, its concurrency")
    if found is None:
        raise _refused(o, "how many sequences a step held is not known: --batch N, the client's concurrency")
    nearest = max(1, round(found))
    if found > ALONE and abs(found - nearest) > APART * nearest:
        raise _refused(
            o, f"its steps held {found:.3g} sequences on average, so their number moved: keep it still, or --batch N"
        )
    return nearest


def _decode(o: Observation, s: Scenario, sequences: int, prompt_tokens: float, answer_tokens: float) -> Step:
    spread = o.itl_s if o.itl_s is not None else o.tpot_s
    if spread is None:
        raise _refused(o, "it has no time between outputs: let the client stream, or look at the server's /metrics")
    if not isinstance(spread, Spread):
        spread = Spread(mean=spread)
    if answer_tokens < 2:
        raise _refused(o, "answers of one token have no decode step")
    is_median = spread.p50 is not None and not spread.is_bucket and o.itl_s is not None
    share = _mixed(o, sequences, (prompt_tokens, answer_tokens), spread, is_median)
    if share > (MIXED_MEDIAN if is_median else MIXED_MEAN):
        what = f"{format_share(min(1.0, share))} of the {'steps' if is_median else 'mean step'}"
        raise _refused(
            o,
            f"prompts of others may be {what}: ask for longer answers to shorter prompts, one request at a time, or "
            "read a client's result that has the median between outputs",
        )
    middle = spread.p50 if is_median else spread.mean
    if not middle:
        raise _refused(o, "its time between outputs is zero or missing")
    upper = max(middle, spread.p90) if is_median and spread.p90 is not None else middle
    context = round(prompt_tokens + answer_tokens / 2)
    kv_bytes = sum(float(stage.kv_bytes(sequences, context)) for stage in traffic(s))
    flop = sequences * float(decode_flop_per_token(s.model, context))
    count = int(spread.count or (o.output_tokens or 0)) or 1
    return _step(o, s, sequences, 1, context, (kv_bytes, flop), (middle, max(0.0, 2 * middle - upper), upper), count)


def _mixed(o: Observation, sequences: int, lengths: tuple[float, float], spread: Spread, is_median: bool) -> float:
    """The most that prompts of others can be of a time between outputs: of its mean, or of the steps of its median."""
    prompt_tokens, answer_tokens = lengths
    if sequences == 1 or o.prompt_tokens == 0:
        return 0.0
    if is_median and spread.p50 and spread.p90 is not None and spread.p90 <= CLOSE * spread.p50:
        return 0.0
    if is_median:
        return (sequences - 1) / (answer_tokens - 1)
    prefill_s = o.mean_s("prefill_s") or o.mean_s("ttft_s")
    if prefill_s is None or not spread.mean:
        return 1.0
    counted = o.prompt_tokens is not None and spread.count
    prompts = o.prompt_tokens / prompt_tokens if counted and o.prompt_tokens else 1.0
    intervals = spread.count if counted and spread.count else answer_tokens - 1
    return prompts * (sequences - 1) * prefill_s / (intervals * spread.mean)


def _prompt(o: Observation, s: Scenario, sequences: int, prompt_tokens: float) -> tuple[Step | None, str]:
    """The prompt of requests that ran alone, or why there is none."""
    if sequences > 1:
        return None, "no prompt: requests shared steps; observe one at a time for it"
    if o.prefix_hit_share:
        return None, f"no prompt: {format_share(o.prefix_hit_share)} of prompt tokens were cached"
    # A client's time holds the way to the server too, a few milliseconds.
    seconds = o.mean_s("prefill_s") or (o.mean_s("ttft_s") if (o.effective_batch or 1.0) <= ALONE else None)
    tokens = round(prompt_tokens)
    if seconds is None or tokens < 2:
        return None, "no prompt: its time is not known"
    flop = float(prefill_flop(s.model, tokens))
    return _step(o, s, 1, tokens, 0, (0.0, flop), (seconds,) * 3, int(o.requests or 1)), ""


def _step(
    o: Observation,
    s: Scenario,
    sequences: int,
    tokens: int,
    context: int,
    moved: tuple[float, float],
    times_s: tuple[float, float, float],
    count: int,
) -> Step:
    median_s, p10_s, p90_s = times_s
    return Step(
        engine=s.engine.engine,
        engine_version=o.version_guess or s.engine_version,
        eager=s.eager or s.accelerator.processor,  # nothing is captured on a processor
        model=s.model.id,
        weights=s.weight_format,
        kv=s.kv_format,
        batch=sequences,
        tokens=tokens,
        context_tokens=context,
        tp=s.tp,
        weight_bytes=sum(float(stage.weight_bytes(1)) for stage in traffic(s)),
        kv_bytes=moved[0],
        flop=moved[1],
        kernels=kernels_per_step(s.model),
        layers=s.model.layers,
        layers_run=s.model.layers,
        hidden=s.model.hidden,
        median_s=median_s,
        p10_s=p10_s,
        p90_s=p90_s,
        n=count,
        n_clean=count,
        contended=False,
        taken=o.taken or _now(),
    )
