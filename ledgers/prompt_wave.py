"""Requests that start together: how long prompts wait for each other, and how long they stop each other's answers.

    first    one prompt is computed alone: the others come while it runs
    then     n = B - 1 share steps of at most T tokens, m = max(1, T / p) prompts each, in J = ceil(n / m) steps
    a step   of k prompts: f + k (1 - f)             f what it takes once for all of them: weights, kernels
    wait     [1 + sum_{j<J} m (1 + j (f + m (1 - f))) + (n - (J - 1) m)(1 + J f + n (1 - f))] / B
                                                     mean time until a first token
    stall    (B - wait at f = 0) / (o - 1)           mean prompts of others for each further token of an answer
B sequences, p tokens of a prompt, o of an answer, T max_num_batched_tokens; in units of one prompt's own time, so that
with f = 0 and B <= 1 + T / p the wait is [1 + (B - 1) B] / B. All prompts are computed, whoever waits: what is not
waited before the first token stops an answer after it, by 1 - f of a prompt's time, for the step gives that answer a
token too. A closed loop whose requests are equally long stays in step like this; where requests come apart, first
tokens come earlier and answers are stopped (B - 1) / o prompts a token instead.
Ignored: prompts cut between two steps.
Source: derived from vLLM v1/core/sched/scheduler.py; held against measured loads in tests/test_prompt_wave.py.
"""

from typing import Any

from infopt.ledgers.arrays import ceil_div, larger

# Part of the range of a first token beside that of the fit, so that high / low stays below 3. Low, since requests that
# come apart, or all before a step begins, wait less: four at once took 0.57 of this in one run of seven (tests/engine).
WAVE_LOW, WAVE_HIGH = 0.62, 1.3


def mean_wait(sequences: Any, prompt_tokens: Any, batched_tokens: Any, once_share: Any = 0.0) -> Any:
    """Mean time to a first token over the time of one prompt; numbers or arrays.

    once_share  f: part of a prompt's own time that a step takes once, however many prompts it holds

    >>> mean_wait(1, 256, 2048), mean_wait(4, 256, 2048), mean_wait(3, 5000, 2048), mean_wait(4, 256, 2048, 0.5)
    (1.0, 3.25, 2.0, 2.5)
    """
    others = larger(sequences, 1) - 1
    shared = larger(1.0, batched_tokens / larger(prompt_tokens, 1))
    before = larger(ceil_div(others, shared), 1) - 1
    each = 1 - once_share
    whole = shared * before + shared * (once_share + shared * each) * before * (before + 1) / 2
    last = (others - before * shared) * (1 + (before + 1) * once_share + others * each)
    return (1 + whole + last) / larger(sequences, 1)


def mean_stall(sequences: Any, prompt_tokens: Any, output_tokens: Any, batched_tokens: Any) -> Any:
    """Mean prompts of others that a token after the first waits for; numbers or arrays."""
    waited = mean_wait(sequences, prompt_tokens, batched_tokens)
    return (larger(sequences, 1) - waited) / larger(output_tokens - 1, 1)
