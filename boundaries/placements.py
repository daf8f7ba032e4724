"""Placements of a model on the same devices: what each holds, and its times with the links between its devices.

    pass   = step(micro, context) f + links + busiest rank         micro = B / stages, f = longest stage over the mean
    TPOT   = pass + (B - 1)/OSL (prompt + links of a prompt)
    TTFT   = first token + (stages - 1)/chunks of a prompt + links of a prompt
    waited = TPOT batch / B
    rate   = B OSL / (TTFT + OSL TPOT)      B sequences of all groups that memory and the engine hold at once
Groups that share nothing (replicas of a dense model, servers of their own) split the batch evenly; fewer sequences than
groups leave some idle. A pipeline works on as many micro-batches as it has stages. Step and first token are those of
boundaries/steps.py; links in boundaries/placement_links.py. Ignored: queueing, uneven routing of requests.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cached_property, lru_cache

from infopt.boundaries.placement_links import PlacementLinks, placement_data, slowed, wires_here
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps, steps_of
from infopt.errors import InfoptError
from infopt.ledgers.arrays import ceil_div
from infopt.ledgers.links import expert_imbalance, machine_devices
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario, allowed_tensor_parallel, stages
from infopt.ledgers.traffic import distinct_experts

Degrees = tuple[int, int, int, int, int]
PLAIN = (int, float, str, bool, tuple, type(None))


BATCH_FIELDS = frozenset({"batch"})
LOAD_FIELDS = BATCH_FIELDS | {"input_tokens", "output_tokens", "context_tokens", "decode_context_tokens"}


class Unloaded:
    """A situation's scenario as a key that its batch, or its batch and lengths, are not part of; records by identity.

    Along a quantity the same few placements are judged over and over: what does not change is asked once.
    """

    def __init__(self, situation: Situation, without: frozenset[str] = BATCH_FIELDS) -> None:
        self.situation = situation
        values = (getattr(situation.scenario, f.name) for f in fields(situation.scenario) if f.name not in without)
        self.key = (*(v if isinstance(v, PLAIN) else id(v) for v in values), id(situation.calibrated))
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unloaded) and self.key == other.key


@lru_cache(maxsize=512)
def _max_sequences(place: Unloaded) -> int:
    """Sequences one replica holds, whatever the batch."""
    return memory_ledger(place.situation.scenario).max_sequences


@lru_cache(maxsize=512)
def _steps_of_one(place: Unloaded) -> Steps:
    """Steps of the placement with one sequence in each replica, whatever the lengths."""
    s = place.situation.scenario
    return steps_of(replace(s, batch=s.dp), place.situation.calibrated)


@lru_cache(maxsize=1024)
def _prompt_s(place: Unloaded, cached_tokens: float, overhead: float, stall: float) -> float:
    """Machine time of one prompt of this placement, off by what its steps are off."""
    steps = replace(_steps_of_one(Unloaded(place.situation, LOAD_FIELDS)), overhead=overhead, stall=stall)
    return steps.prompt_s(place.situation.scenario.input_tokens, cached_tokens)


class Placed:
    """`groups` equal placements that share nothing.

    situation  of one group under its part of the batch
    batch      sequences of the whole deployment
    slow_sums  the engine leaves sums to the vendor's library
    bounded    no more sequences run than memory and the engine hold
    """

    def __init__(
        self, situation: Situation, groups: int, batch: int, slow_sums: bool = False, bounded: bool = True
    ) -> None:
        self.situation = situation
        self.groups = groups
        self.batch = batch
        self.slow_sums = slow_sums
        self.bounded = bounded

    def with_slow_sums(self) -> "Placed":
        """The same where sums have the latency of the vendor's library."""
        return Placed(self.situation, self.groups, self.batch, slow_sums=True)

    def unbounded(self) -> "Placed":
        """The same as if memory held the whole batch."""
        return Placed(self.situation, self.groups, self.batch, bounded=False)

    @property
    def scenario(self) -> Scenario:
        return self.situation.scenario

    @cached_property
    def steps(self) -> Steps:
        """Of this placement under its batch; what nobody measured at so many sequences at once is assumed."""
        known, s = _steps_of_one(Unloaded(self.situation, LOAD_FIELDS)), self.scenario
        most = known.constants.most_sequences if known.constants is not None else None
        if most is None or s.batch_per_replica <= most:
            return replace(known, scenario=s)
        return self.situation.steps

    @cached_property
    def place(self) -> Unloaded:
        return Unloaded(self.situation)

    @property
    def degrees(self) -> Degrees:
        """groups, tp, pp, dp, ep."""
        s = self.scenario
        return self.groups, s.tp, s.pp, s.dp, s.ep

    @property
    def name(self) -> str:
        """As one would say it: "4 x tp 2", "tp 8, ep 8", "dp 8 sharing experts"."""
        s = self.scenario
        parts = [f"tp {s.tp}"] if s.tp > 1 or s.pp * s.dp == 1 else []
        parts += [f"pp {s.pp}"] if s.pp > 1 else []
        parts += [f"dp {s.dp}"] if s.dp > 1 else []
        parts += [f"ep {s.ep}"] if s.ep > 1 else []
        return (f"{self.groups} x " if self.groups > 1 else "") + " ".join(parts)

    @cached_property
    def links(self) -> PlacementLinks:
        wires = wires_here(self.situation)
        return PlacementLinks(self.situation, self.steps.constants, slowed(wires) if self.slow_sums else wires)

    @property
    def connected(self) -> bool:
        """Whether it is known what joins the devices of a group; if not, its times have no value."""
        wires = self.links.wires
        return wires.inside is not None or min(self.scenario.gpus, wires.machine_devices) <= 1

    @property
    def sums_unmeasured(self) -> bool:
        """Tensor parallelism on an engine that was measured on one device only: how it sums is not known."""
        c = self.steps.constants
        return self.scenario.tp > 1 and c is not None and c.measured.devices[1] <= 1

    @cached_property
    def held_by_replica(self) -> int:
        """Sequences that one replica holds at once."""
        return _max_sequences(self.place)

    @property
    def max_sequences(self) -> int:
        """Of all groups at once, as memory allows."""
        return self.groups * self.scenario.dp * self.held_by_replica

    @property
    def holds(self) -> bool:
        """At least one sequence in every replica."""
        return self.held_by_replica >= 1

    @property
    def resident(self) -> float:
        """Sequences of one group at a time: at least one, at most what it holds."""
        s = self.scenario
        most = s.dp * min(self.held_by_replica, s.max_num_seqs) if self.bounded else self.batch
        return max(1.0, min(self.batch / self.groups, most))

    @property
    def waiting(self) -> float:
        """Sequences of the batch that do not fit at once."""
        return max(0.0, self.batch - self.resident * self.groups)

    def tpot_s(self, steps: Steps) -> float:
        """Time per output token of one user."""
        tokens, per_sequence, drafting_s = self.situation.cycle or (1.0, 1.0, 0.0)
        decode_s = (self.pass_s(steps, per_sequence) + drafting_s) / tokens
        return decode_s + self.stall_s(steps)

    def waited_s(self, steps: Steps) -> float:
        """Time per output token with the wait of those that do not fit at once: TPOT B / (sequences that run)."""
        return self.tpot_s(steps) * max(1.0, self.batch / (self.resident * self.groups))

    def linked_s(self, links: PlacementLinks) -> float:
        """The part of TPOT that waits for links, with these in place of its own."""
        s, cycle = self.scenario, self.situation.cycle or (1.0, 1.0, 0.0)
        decode_s = links.pass_s(max(1.0, self.resident / s.pp) * cycle[1]) / cycle[0]
        return decode_s + self.others_per_token * links.pass_s(s.input_tokens - self.situation.cached_tokens)

    def pass_s(self, steps: Steps, tokens_per_sequence: float = 1.0) -> float:
        """One decode step through all stages."""
        s, batch = self.scenario, self.resident
        micro = max(1.0, batch / s.pp)
        step_s = steps.step_s(micro, s.decode_context_tokens, tokens_per_sequence)
        if s.pp > 1 and batch >= s.pp:
            step_s *= longest_stage_ratio(s)
        tokens = micro * tokens_per_sequence
        least_s = steps.floor_s(micro, s.decode_context_tokens, tokens)
        return max(least_s, step_s + self.busiest_rank_s(steps, tokens) + self.links.pass_s(tokens))

    def busiest_rank_s(self, steps: Steps, tokens: float) -> float:
        """What the step waits for the rank that holds more of the hit experts than the mean of all."""
        s, shape, c = self.scenario, steps.shape, steps.constants
        if s.ep <= 1 or shape is None or c is None:
            return 0.0
        hit = distinct_experts(shape.experts, shape.experts_per_token, tokens)
        read = float(sum(block.expert_bytes * hit for stage in shape.stages for block in stage.experts))
        read_s = steps.traffic * shape.weight_ratio * read / shape.bandwidth_bytes_per_s
        work_s = float(steps.overhead * c.expert_s * shape.mixture_layers * hit / shape.expert_ranks)
        return (self.imbalance(tokens) - 1) * (read_s + work_s)

    def imbalance(self, tokens: float) -> float:
        """Hit experts of the busiest rank over the mean."""
        s = self.scenario
        first = next((run.feed_forward for run in s.model.groups if run.feed_forward.experts), None)
        if first is None:
            return 1.0
        return float(expert_imbalance(first.experts, first.experts_per_token, tokens, s.ep))

    def stall_s(self, steps: Steps) -> float:
        """Seconds per output token that prompts of others take."""
        entered = self.scenario.input_tokens - self.situation.cached_tokens
        return self.others_per_token * (self.prompt_s(steps) + self.links.pass_s(entered))

    def prompt_s(self, steps: Steps) -> float:
        """Machine time of one prompt, links left out; 0 where it is not known."""
        return _prompt_s(self.place, self.situation.cached_tokens, steps.overhead, steps.stall)

    @property
    def others_per_token(self) -> float:
        """Prompts of others that enter while one output token is made."""
        return max(0.0, self.resident - 1) / self.scenario.output_tokens

    def ttft_s(self, steps: Steps, tpot_s: float) -> float:
        """First token of a prompt, with the bubbles of a pipeline that fills with its chunks."""
        s, cached = self.scenario, self.situation.cached_tokens
        first_s = steps.ttft_s(tpot_s, self.resident, s.input_tokens, cached)
        first = steps.constants.first_token if steps.constants is not None else None
        if first is None or first.chunk_tokens is None:
            first_s += (s.pp - 1) / self.chunks * self.prompt_s(steps)
        return first_s + self.links.pass_s(s.input_tokens - cached)

    @property
    def chunks(self) -> int:
        """Pieces in which a prompt enters."""
        s = self.scenario
        pieces = ceil_div(s.input_tokens, self.situation.load.chunk_tokens or s.max_num_batched_tokens)
        return max(1, int(pieces))

    def rate_per_s(self, steps: Steps) -> float:
        """Output tokens a second of the whole deployment."""
        tpot_s = self.tpot_s(steps)
        output = self.scenario.output_tokens
        running = min(float(self.batch), self.resident * self.groups)
        return running * output / (self.ttft_s(steps, tpot_s) + output * tpot_s)


def longest_stage_ratio(s: Scenario) -> float:
    """Layers of the longest stage over the mean: what all micro-batches wait for."""
    longest = max(sum(run.layers for run in stage) for stage in stages(s.model, s.pp))
    return longest * s.pp / s.model.layers


def placed(situation: Situation, groups: int, tp: int, pp: int, dp: int, ep: int, batch: int | None = None) -> Placed:
    """A placement of one group, `groups` times."""
    total = batch or situation.scenario.batch
    each = situation.changed(
        gpus=tp * pp * dp, tp=tp, pp=pp, dp=dp, ep=ep, batch=max(dp, ceil_div(total, groups)), curve=()
    )
    return Placed(each, groups, total)


def present(situation: Situation) -> Placed:
    """The placement in use."""
    s = situation.scenario
    alone = s.sharing_replicas == 1
    return placed(situation, s.dp if alone else 1, s.tp, s.pp, 1 if alone else s.dp, s.ep)


def candidates(situation: Situation, gpus: int | None = None) -> Iterator[Placed]:
    """Every placement of `gpus` devices that an engine runs and whose weights may fit, the present one first.

    Pipelines only where devices lack a link, where they reach over machines, or where one is in use: inside a machine
    with a link tensor parallelism comes first (document 2, section 11).
    """
    s = situation.scenario
    total = gpus or s.gpus
    here = present(situation) if total == s.gpus else None
    if here is not None:
        yield here
    for degrees in _degrees(s, total):
        if here is None or degrees != here.degrees:
            try:
                other = placed(situation, *degrees)
                other.scenario.check()
            except InfoptError:
                continue
            if _may_fit(other.scenario):
                yield other


def _degrees(s: Scenario, gpus: int) -> Iterator[Degrees]:
    """(groups, tp, pp, dp, ep) whose product is `gpus`."""
    machine = machine_devices(s.accelerator)
    widest = max(min(machine, int(placement_data("widest_tensor_parallel")["value"])), s.tp)
    mixture = s.model.experts > 0
    for tp in allowed_tensor_parallel(s.model, min(widest, gpus)):
        if gpus % tp:
            continue
        rest = gpus // tp
        for pp in (pp for pp in range(1, rest + 1) if rest % pp == 0 and pp <= s.model.layers):
            weak = s.accelerator.link is None or tp * pp > machine or s.pp > 1
            if pp > 1 and not weak:
                continue
            for ep in {1, tp} if mixture and pp == 1 else {1}:
                yield rest // pp, tp, pp, 1, ep
        if mixture and rest > 1:
            yield 1, tp, 1, rest, tp * rest


def _may_fit(s: Scenario) -> bool:
    """Whether the weights, split evenly, are less than the memory: cheap, and never wrong to drop by."""
    parts = s.model.params_by_part
    least = sum(count * s.weight_bits[part] / 8 for part, count in parts.items() if part not in ("mtp", "vision"))
    return least <= s.gpus * s.accelerator.usable_memory_bytes


def fewest_devices(situation: Situation) -> int | None:
    """Devices on which some placement holds one sequence, doubling from one; None where none up to the limit does."""
    count, most = 1, int(placement_data("most_devices")["value"])
    one = situation.changed(batch=1)
    while count <= most:
        if any(option.holds for option in candidates(one, count)):
            return count
        count *= 2
    return None
