"""What reuse of prompt tokens gains in time: the first token, a batch that is always full, the rate of saturation.

    W(c)       = OSL step(B) / B + prompt(ISL, c)     machine time of a request of whose prompt c tokens are cached
    throughput = W(0) / W(c) = 1 / (1 - saved share of machine time)
    saturation = replicas / W at as many sequences as fit and --tpot allows: more where they share blocks; the fullest
                 replica decides
Where prefixes have homes, one replica holds `hot_spot` times its share of the requests and the others what is left.
"""

from functools import partial

from infopt.boundaries.prefix_reuse import Reuse, running
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps
from infopt.boundaries.technique import Gain
from infopt.ledgers.queueing import largest_batch


def first_token_gain(situation: Situation, reuse: Reuse) -> Gain:
    """First token at the batch that fits, in the fullest replica."""
    after, batch = with_reuse(situation, reuse), fitting(situation)

    def ratio(steps: Steps) -> float:
        return ttft_s(situation, steps, batch) / ttft_s(after, steps, reuse.hot_spot * batch)

    return situation.gain("ttft", ratio)


def throughput_gain(situation: Situation, reuse: Reuse) -> Gain:
    """Throughput of a batch that is always full."""
    return situation.gain("throughput", lambda steps: throughput_ratio(situation, reuse, steps))


def capacity_gain(situation: Situation, reuse: Reuse) -> Gain:
    """The rate at which the deployment saturates."""

    def ratio(steps: Steps) -> float:
        before, after = saturations_per_s(situation, reuse, steps)
        return after / before

    return situation.gain("throughput", ratio)


def with_reuse(situation: Situation, reuse: Reuse) -> Situation:
    """The situation with what is found on average."""
    return situation.changed(cached_tokens=reuse.cached_tokens)


def fitting(situation: Situation) -> float:
    """Sequences of a step that fit without sharing blocks."""
    return running(situation.scenario, situation.memory.max_sequences)


def ttft_s(situation: Situation, steps: Steps, batch: float) -> float:
    """First token of a prompt with what is cached of it."""
    tpot_s = situation.tpot_s(steps, batch)
    return steps.ttft_s(tpot_s, batch, situation.scenario.input_tokens, situation.cached_tokens)


def machine_s(situation: Situation, steps: Steps, batch: float) -> float:
    """W: time one request takes of those that share a step."""
    s = situation.scenario
    steps_s = s.output_tokens * situation.token_s(steps, batch) / batch
    return steps_s + steps.prompt_s(s.input_tokens, situation.cached_tokens)


def throughput_ratio(situation: Situation, reuse: Reuse, steps: Steps) -> float:
    """Requests a second of all replicas over those without the cache, one replica fuller than the others."""
    replicas = situation.scenario.dp / situation.scenario.sharing_replicas
    after, batch, hot = with_reuse(situation, reuse), fitting(situation), reuse.hot_spot
    plain_s = machine_s(situation, steps, batch)
    if hot == 1 or replicas == 1:
        return plain_s / machine_s(after, steps, batch)
    fullest = 1 / machine_s(after, steps, hot * batch)
    left = batch * (replicas - hot) / (replicas - 1)
    others = 1 / machine_s(after, steps, left) if left > 0 else 0.0
    return plain_s * (fullest + (replicas - 1) * others) / replicas


def saturations_per_s(situation: Situation, reuse: Reuse, steps: Steps) -> tuple[float, float]:
    """Requests a second at which the deployment saturates, without the cache and with it."""
    before = saturation_per_s(situation, situation.memory.max_sequences, steps)
    return before, saturation_per_s(with_reuse(situation, reuse), reuse.sequences, steps) / reuse.hot_spot


def saturation_per_s(situation: Situation, sequences: int, steps: Steps) -> float:
    """Most requests a second of all replicas, each with `sequences` or as many as the engine and --tpot allow.

    Who asks for a batch starts the engine with as many. A target that one sequence alone misses is left out.
    """
    s, target_s = situation.scenario, situation.load.targets.tpot_s
    batch = float(max(1, min(sequences, max(s.max_num_seqs, s.batch_per_replica))) * s.sharing_replicas)
    if target_s is not None:
        marks = [tokens for tokens, _ in steps.curve]
        batch = float(largest_batch(partial(situation.tpot_s, steps), target_s, batch, marks) or batch)
    return s.dp / s.sharing_replicas / machine_s(situation, steps, batch)
