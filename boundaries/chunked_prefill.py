"""Chunked prefill: how long a step with prompt tokens in it holds up those who decode.

    ITL(c)  = step of the others with min(c, waiting prompts) tokens of prompts in it     (steps.mixed_s)
    gain    = ITL(whole prompt) / ITL(c)                                worst gap between two tokens, not its mean
    TTFT(c) = n ITL(new / n),  n = ceil(new / c)                        each chunk reads the weights again
    ridge   = W F / (2 P BW)                                            below it a chunk does not fill the units
    needed  = B new / OSL                                               prompt tokens a step that keep the batch full
c  prompt tokens of a step: what the batch budget leaves beside the decoding sequences, or what the TPOT target, taken
as one of ITL, allows. Short prompts share a step up to c. The mean TPOT does not gain: the same work lies between the
tokens, spread evenly. Ignored: queueing for a chunk.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from infopt.boundaries.deciding import by_gain, checked_yaml, measured_by, on_by_default
from infopt.boundaries.quantities import BATCH, CONTEXT, Quantity
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps, variants
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.arrays import ceil_div
from infopt.ledgers.compute import all_weights_read_bytes
from infopt.profiles.engines import in_versions
from infopt.units import format_seconds

RULE = "chunks too large hold up decoding, too small ones add scheduling and kernels: TTFT against TPOT"
WHY = "it names the balance, without a number"


@dataclass(frozen=True, slots=True)
class Split:
    """Prompts in chunks, with certain step times.

    chunk_tokens    of prompts in a step: as asked, else the default, or less where the target needs it
    most_tokens     keep the longest step within the TPOT target; None without one, 0 where nothing does
    needed_tokens   a step must take to replace the sequences that end: with less the batch cannot stay full
    itl_s, whole_s  longest step with such chunks, and with whole prompts in the engine's budget
    """

    chunk_tokens: float
    most_tokens: int | None
    needed_tokens: float
    itl_s: float
    whole_s: float


def judge(situation: Situation) -> Judgement:
    """Prompts in chunks against prompts in one step."""
    _check(situation)
    steps, rule = situation.steps, Rule(2, RULE, None, WHY)
    offered = _offered(situation)
    if offered is not None and not offered["flag"]:
        return Judgement("impossible", None, offered["text"], rule=rule)
    if steps.shape is None and not steps.curve:
        reason = f"the work of a prompt is not known: {steps.reason}"
        return Judgement("measure", None, reason, rule=rule, settle="--step-curve 1=TIME,512=TIME")
    if resident(situation) < 2 or new_tokens(situation) < 1:
        alone = "one sequence at a time" if resident(situation) else "not one sequence fits"
        return Judgement("skip", None, f"{alone}: no answer waits for the prompt of another", rule=rule)
    here = split(situation, steps)
    gain = situation.gain("itl", lambda other: _gain(situation, other, here.chunk_tokens))
    verdict = _verdict(situation, here, gain)
    figures, costs = _figures(situation, here), _costs(situation, here)
    settle = measured_by([situation.scenario], by_curve=True) if verdict == "measure" else ""
    return Judgement(verdict, gain, _reason(situation, here), figures, costs, rule, settle)


def split(situation: Situation, steps: Steps) -> Split:
    """The chunk that is asked for or needed, and what it does to the others."""
    s, target_s, asked = situation.scenario, situation.load.targets.tpot_s, situation.load.chunk_tokens
    default = default_tokens(situation)
    most = None if target_s is None else largest_chunk(situation, steps, target_s)
    chunk = float(asked) if asked is not None else default
    if asked is None and most:
        chunk = min(chunk, float(most))
    return Split(
        chunk_tokens=chunk,
        most_tokens=most,
        needed_tokens=resident(situation) * new_tokens(situation) / s.output_tokens,
        itl_s=itl_s(situation, steps, chunk),
        whole_s=itl_s(situation, steps, max(new_tokens(situation), default)),
    )


def _gain(situation: Situation, steps: Steps, chunk: float) -> float:
    whole = max(new_tokens(situation), default_tokens(situation))
    return itl_s(situation, steps, whole) / itl_s(situation, steps, chunk)


def new_tokens(situation: Situation) -> float:
    """Tokens of a prompt that are not in the prefix cache."""
    return situation.scenario.input_tokens - situation.cached_tokens


def default_tokens(situation: Situation) -> float:
    """Prompt tokens the engine's budget leaves in a step beside one token of every sequence."""
    return max(1.0, situation.scenario.max_num_batched_tokens - _others(situation))


def resident(situation: Situation) -> float:
    """Sequences that meet in a step: the batch, as far as it fits."""
    s = situation.scenario
    return float(min(s.sharing_batch, situation.memory.max_sequences * s.sharing_replicas))


def _others(situation: Situation) -> float:
    return max(1.0, resident(situation) - 1)


def itl_s(situation: Situation, steps: Steps, chunk: float) -> float:
    """The longest step: as many prompt tokens as may be in it and wait at most, the last of their prompts."""
    s, new = situation.scenario, new_tokens(situation)
    tokens = min(chunk, _others(situation) * new)
    prompts, rest = divmod(tokens, new)
    work_s = prompts * steps.prompt_s(s.input_tokens, situation.cached_tokens)
    if rest:
        work_s += steps.prompt_s(s.input_tokens, s.input_tokens - rest)
    return steps.mixed_s(_others(situation), s.decode_context_tokens, tokens, work_s)


def ttft_s(situation: Situation, steps: Steps, chunk: float) -> float:
    """First token of one prompt in equal chunks beside the others' steps; attention grows in proportion to what came
    before, so that all chunks take n times the middle one."""
    s, new = situation.scenario, new_tokens(situation)
    chunks = ceil_div(new, min(chunk, new))
    part = new / chunks
    before = situation.cached_tokens + (chunks - 1) / 2 * part
    work_s = steps.prompt_s(before + part, before)
    return float(chunks * steps.mixed_s(_others(situation), s.decode_context_tokens, part, work_s))


def largest_chunk(situation: Situation, steps: Steps, target_s: float) -> int:
    """Most prompt tokens that keep the longest step within the target; 0 where the others alone miss it."""
    low, high = 0, int(_others(situation) * new_tokens(situation))
    while low < high:
        middle = (low + high + 1) // 2
        if itl_s(situation, steps, middle) <= target_s:
            low = middle
        else:
            high = middle - 1
    return low


def ridge_tokens(situation: Situation) -> float | None:
    """Tokens of a step whose products take as long at peak as reading all weights; None where no peak is known."""
    s, peak = situation.scenario, situation.compute.peak_flop_per_s
    if not peak:
        return None
    weights = all_weights_read_bytes(s, situation.bandwidth)
    return weights * peak / (2.0 * s.model.params_active * s.accelerator.bandwidth_bytes_per_s)


def _verdict(situation: Situation, here: Split, gain: Gain) -> Verdict:
    """By the target where there is one, else by the gain."""
    steps = situation.steps
    if here.most_tokens is None:
        verdict = by_gain(gain, steps.basis)
        hurts = here.chunk_tokens < here.needed_tokens or _late(situation, steps, here.chunk_tokens)
        return "limited" if verdict == "use" and hurts else verdict
    best = _by_target(situation, steps, here)
    if steps.basis != "assumed":
        return best
    ends = {_by_target(situation, other, split(situation, other)) for other in variants(steps)}
    return best if ends == {best} else "measure"


def _by_target(situation: Situation, steps: Steps, here: Split) -> Verdict:
    target_s = situation.load.targets.tpot_s or 0.0
    if here.whole_s <= target_s or not here.most_tokens:
        return "skip"
    short = here.itl_s > target_s or here.chunk_tokens < here.needed_tokens
    return "limited" if short or _late(situation, steps, here.chunk_tokens) else "use"


def _late(situation: Situation, steps: Steps, chunk: float) -> bool:
    target_s = situation.load.targets.ttft_s
    return target_s is not None and ttft_s(situation, steps, chunk) > target_s


def _reason(situation: Situation, here: Split) -> str:
    steps, targets = situation.steps, situation.load.targets
    chunk, held, whole = f"{here.chunk_tokens:,.0f}", format_seconds(here.itl_s), format_seconds(here.whole_s)
    if targets.tpot_s is not None:
        target = format_seconds(targets.tpot_s)
        if here.whole_s <= targets.tpot_s:
            return f"even with whole prompts the worst ITL is {whole}, within the target of {target}"
        if not here.most_tokens:
            alone = steps.step_s(_others(situation), situation.scenario.decode_context_tokens)
            return f"no chunk is small enough: a step without prompts takes {format_seconds(alone)}, target {target}"
        if here.itl_s > targets.tpot_s:
            return (
                f"chunks of {chunk} tokens make the worst ITL {held}; the target allows chunks of {here.most_tokens:,}"
            )
    elif here.whole_s == here.itl_s:
        return f"worst ITL {held}: prompts fit in one step of {chunk} tokens; --tpot finds the chunk a target needs"
    if here.chunk_tokens < here.needed_tokens:
        return f"chunks of {chunk} are too small: this batch brings {here.needed_tokens:,.0f} prompt tokens a step"
    if _late(situation, steps, here.chunk_tokens):
        late = format_seconds(ttft_s(situation, steps, here.chunk_tokens))
        return f"TTFT {late} with chunks of {chunk} misses its target"
    return f"worst ITL {held} with chunks of {chunk} tokens, {whole} with whole prompts"


def _costs(situation: Situation, here: Split) -> tuple[str, ...]:
    steps, chunk, new, costs = situation.steps, here.chunk_tokens, new_tokens(situation), []
    chunks = ceil_div(new, min(chunk, new))
    if chunks > 1:
        parts, whole = ttft_s(situation, steps, chunk), ttft_s(situation, steps, new)
        costs.append(f"TTFT {format_seconds(parts)} in {chunks:,.0f} chunks, {format_seconds(whole)} in one step")
    ridge = ridge_tokens(situation)
    if ridge is not None and chunk + _others(situation) < ridge:
        costs.append(f"a step of fewer than {ridge:,.0f} tokens does not fill the units, so prefill slows down")
    if chunk < default_tokens(situation):
        budget = chunk + _others(situation)
        costs.append(
            f"set a batch budget of {budget:,.0f} tokens instead of {situation.scenario.max_num_batched_tokens:,}"
        )
    offered = _offered(situation)
    if offered is not None:
        costs.append(f"{offered['text']}: {offered['flag']}")
    else:
        s = situation.scenario
        costs.append(f"{on_by_default(s)}, with a batch budget of {s.max_num_batched_tokens:,} tokens a step")
    return tuple(costs)


def _figures(situation: Situation, here: Split) -> tuple[Figure, ...]:
    steps, new, chunk = situation.steps, new_tokens(situation), here.chunk_tokens
    ridge, most = ridge_tokens(situation), here.most_tokens
    least = None if ridge is None else max(1.0, ridge - _others(situation))
    alone = steps.step_s(_others(situation), situation.scenario.decode_context_tokens)
    split_s = ttft_s(situation, steps, chunk)
    default_s = itl_s(situation, steps, default_tokens(situation))
    return (
        Figure("chunk_tokens", chunk, "tokens", "chunk: prompt tokens in one step"),
        Figure("chunks", ceil_div(new, min(chunk, new)), "chunks", "that one prompt is split into"),
        Figure("step_s", alone, "s", "ITL of the others in a step without prompts"),
        Figure("itl_chunk_s", here.itl_s, "s", "worst ITL of the others with such chunks"),
        Figure("itl_default_s", default_s, "s", "worst ITL of the others with the engine's batch budget"),
        Figure("itl_whole_s", here.whole_s, "s", "worst ITL of the others with whole prompts"),
        Figure("largest_chunk_tokens", most, "tokens", "largest chunk that keeps the TPOT target (--tpot)"),
        Figure("needed_chunk_tokens", here.needed_tokens, "tokens", "smallest chunk that keeps the batch full"),
        Figure("smallest_chunk_tokens", least, "tokens", "smallest chunk whose step waits for FLOP, not for bytes"),
        Figure("ttft_chunk_s", split_s, "s", "TTFT with such chunks"),
        Figure("ttft_whole_s", ttft_s(situation, steps, new), "s", "TTFT with the prompt in one step"),
        Figure("prefill_per_s", new / split_s, "tokens/s", "prefill speed of one prompt in such chunks"),
    )


def _offered(situation: Situation) -> dict[str, Any] | None:
    """How this engine and version differ from having it on by default; None where they do not."""
    s = situation.scenario
    for row in _rows():
        if row["engine"] == s.engine.engine and in_versions(s.engine_version, row.get("since"), row.get("until")):
            return row
    return None


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(checked_yaml("chunked_prefill"))


def _check(situation: Situation) -> None:
    load = situation.load
    if load.chunk_tokens is not None and load.chunk_tokens < 1:
        raise InfoptError(f"--chunk {load.chunk_tokens}: at least 1 token")
    for name, seconds in (("--tpot", load.targets.tpot_s), ("--ttft", load.targets.ttft_s)):
        if seconds is not None and seconds <= 0:
            raise InfoptError(f"{name} {seconds:g} s: it must be above 0")


def _chunk_here(situation: Situation) -> float:
    if resident(situation) < 2 or new_tokens(situation) < 1:
        return float(situation.load.chunk_tokens or default_tokens(situation))
    return split(situation, situation.steps).chunk_tokens


def _with_chunk(situation: Situation, value: float) -> Situation:
    return situation.changed(load=replace(situation.load, chunk_tokens=int(value)))


CHUNK = Quantity(
    name="chunk",
    unit="tokens",
    whole=True,
    low=1,
    high=lambda situation: float(max(situation.scenario.input_tokens, situation.scenario.max_num_batched_tokens)),
    get=_chunk_here,
    set=_with_chunk,
)
TECHNIQUE = Technique(
    id="chunked-prefill",
    name="Chunked prefill",
    ledger="worst ITL",
    order=None,
    judge=judge,
    quantities=(CONTEXT, CHUNK, BATCH),
    plane=(CONTEXT, CHUNK),
    aliases=("chunking",),
)
