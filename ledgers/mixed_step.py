"""How long one engine step takes that decodes some sequences and computes pieces of prompts beside them.

    decode(B, c)  = max(terms of step_time.py without the stall, floor)        floor = (W + K) / BW, as of a plan
    chunk(n, m)   = what n prompt tokens behind m computed or cached ones add: prompt_work_s, additive over pieces
    prompts alone = fixed + sum of chunks             fixed: a step in which nobody decodes, its weights read once
    delay         = max(0, first token of a prompt alone - the time its own steps take)   nobody else waits for it
B  sequences that decode, c their mean context, W weight and K cached bytes, BW bandwidth.
Where prompts were measured as steps of their own, reading the weights is in their time, so a chunk adds what is beyond
it: a device's own steps take kernels, weights and products one after the other; of engines whose prompts were measured
alone a step takes its kernels and the longer of weights and products. Where prompts were fitted as what others wait for
(classes of servers), all of it adds to a step that reads the weights anyway.
So a request alone takes a plan's TPOT, and in a steady batch of B that are out of step each token waits for
(B - 1) / OSL prompts, the stall of a plan. Alone it takes a plan's TTFT too, but for servers of dense models: there the
steps of latency in the fitted TTFT are those of clients who wait for each other's prompts (none was measured alone),
which a simulation has as steps, and what is left of the delay are the N kernels of a prompt's step that no graph holds.
Against load tests that nothing was fitted to (docs/served_rates.md) first tokens with those steps came 2.2 to 2.8 times
too late, without them 1.1 to 1.2 times. In mixtures the same steps also stand for the experts that a prompt reads and a
token does not; they stay. Experts: a step reads those that its decoding tokens hit; more that prompts
hit are in the fitted work of prompts. Replicas that share experts step together: they are one engine here, B counts all
and is spread evenly.
Ignored: what decoding could hide in the spare units of a prompt's products (boundaries/steps.py mixed_s has it).
"""

from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import larger
from infopt.ledgers.bandwidth import step_bytes
from infopt.ledgers.estimate import Clock
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import (
    first_token_of,
    first_token_s,
    prompt_fill_ratio,
    prompt_work_s,
    step_terms_s,
    weights_once_s,
)


@dataclass(frozen=True, slots=True)
class MixedStep:
    """A compiled placement and what a step of it depends on beside its load.

    clock                  constants and shape
    bandwidth_bytes_per_s  of the floor: the measured one where a calibration has it
    step_tokens            most prompt tokens of one request in one step
    answer_tokens          by which the mean context of an answer is above its prompt
    """

    clock: Clock
    bandwidth_bytes_per_s: float
    step_tokens: int
    answer_tokens: float


def mixed_step(s: Scenario, clock: Clock, step_tokens: int) -> MixedStep:
    """The steps of a scenario; its lengths count only for the first token of a prompt alone."""
    answer_tokens = s.decode_context_tokens - s.input_tokens
    return MixedStep(clock, s.accelerator.bandwidth_bytes_per_s, step_tokens, max(0.0, answer_tokens))


def decode_parts_s(m: MixedStep, sequences: Any, context_tokens: Any) -> tuple[Any, Any]:
    """Expected seconds of a step of so many sequences of this mean context, and its floor."""
    shape, c = m.clock.shape, m.clock.constants
    terms = step_terms_s(shape, c, sequences, context_tokens, 1, 1, with_stall=False)
    strict, kv = step_bytes(shape.stages, sequences / shape.dp, context_tokens)
    return sum(terms.values()), (strict + kv) / m.bandwidth_bytes_per_s


def decode_step_s(m: MixedStep, sequences: Any, context_tokens: Any) -> Any:
    """Seconds of a step in which all of so many sequences of this mean context get a token."""
    return larger(*decode_parts_s(m, sequences, context_tokens))


def has_own_steps(m: MixedStep) -> bool:
    """Whether prompts were measured as steps of their own, which read the weights."""
    c = m.clock.constants
    return c.of_device or not (c.prefill_ratio or c.prefill_token_s)


def piece_s(m: MixedStep, new_tokens: Any, cached_tokens: Any) -> Any:
    """What a piece of a prompt takes beyond reading the weights; below zero where it takes less."""
    shape, c = m.clock.shape, m.clock.constants
    if not has_own_steps(m):
        return prompt_work_s(shape, c, new_tokens + cached_tokens, cached_tokens)
    f = first_token_of(c)
    whole = first_token_s(shape, c, 0.0, 1, new_tokens, cached_tokens) - shape.kernels * f.kernel_s
    # Filling a pipeline is latency of the prompt's own.
    fill = 1.0 if f.chunk_tokens is None else prompt_fill_ratio(shape, f.chunk_tokens, new_tokens)
    return whole / fill - weights_once_s(shape)


def chunk_step_s(m: MixedStep, new_tokens: Any, cached_tokens: Any) -> Any:
    """What so many prompt tokens, behind tokens computed or cached before, add to a step."""
    return larger(0.0, piece_s(m, new_tokens, cached_tokens))


def prompt_step_s(m: MixedStep, requests: Any) -> Any:
    """What a step takes beside its chunks in which prompts of so many requests are computed and nobody decodes."""
    shape, c = m.clock.shape, m.clock.constants
    once_s = weights_once_s(shape)
    if has_own_steps(m):
        return shape.kernels * first_token_of(c).kernel_s + once_s + 0.0 * requests
    alone = sum(step_terms_s(shape, c, 1, 0, 1, 1, with_stall=False).values())
    return alone + c.request_s * (requests - 1) / shape.dp


def meets_others(m: MixedStep) -> bool:
    """Whether the measured first tokens have waits for other clients in them, which a simulation has as steps."""
    return not has_own_steps(m) and not m.clock.constants.mixture


def first_token_alone_s(m: MixedStep, input_tokens: int, cached_tokens: int) -> float:
    """Time to the first token of a prompt that nobody else is beside."""
    shape, c = m.clock.shape, m.clock.constants
    if meets_others(m):
        return own_steps_s(m, input_tokens, cached_tokens) + shape.kernels * first_token_of(c).kernel_s
    steps, new_tokens = first_token_of(c).steps, input_tokens - cached_tokens
    tpot_s = decode_step_s(m, 1, input_tokens + m.answer_tokens) if steps else 0.0
    return float(first_token_s(shape, c, tpot_s, 1, new_tokens, cached_tokens))


def first_token_delay_s(m: MixedStep, input_tokens: int, cached_tokens: int) -> float:
    """Time between the end of a prompt's last step and its first token at the client, of a prompt alone."""
    return max(0.0, first_token_alone_s(m, input_tokens, cached_tokens) - own_steps_s(m, input_tokens, cached_tokens))


def own_steps_s(m: MixedStep, input_tokens: int, cached_tokens: int) -> float:
    """Seconds that the steps of a prompt alone take."""
    places = range(cached_tokens, input_tokens, m.step_tokens)
    chunks = (chunk_step_s(m, min(m.step_tokens, input_tokens - done), done) for done in places)
    return len(places) * float(prompt_step_s(m, 1)) + float(sum(chunks))
