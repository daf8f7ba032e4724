"""Cached tokens in host memory, on NVMe or in a remote store: a prefix is brought back instead of computed again.

    gain    = TTFT(computed) / (restore + TTFT(rest))        of a prompt of which the reuse share is found there
    u       = rate x restored bytes / bandwidth of a device's way to the tier    from 1 on the link is the bottleneck
    written = rate x new prompt tokens x bytes of a token on all ranks              wears NVMe drives
Only what has left the device's own pool is worth bringing back: the reuse share counts that and nothing else. Without
it the answer is the ceiling, a prompt restored whole: where even that gains nothing the verdict is `skip`, else it is
to be measured. Bandwidths, latencies and drives are data (data/offload.yaml). Arithmetic: ledgers/offload.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, cast

from infopt.boundaries.deciding import by_gain, checked_yaml, measured_by, unsure
from infopt.boundaries.load import Offload, OffloadTier
from infopt.boundaries.quantities import CONTEXT, RATE, Quantity, of_load
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.offload import (
    break_even_tokens,
    drive_years,
    least_bytes_per_s,
    rank_bytes,
    replica_bytes,
    restore_s,
    weights_step_s,
)
from infopt.ledgers.scenario import Scenario

GIB = 2**30
# Devices whose own memory is the host's: host memory is no second home there.
HOST_MEMORY = frozenset({"lpddr", "ddr"})
NAMES = {"dram": "host memory", "nvme": "NVMe", "remote": "the remote store"}
MEASURE_REUSE = "--reuse-share SHARE (external prefix hits over queries, without hits in the device's own pool)"
MEASURE_PROMPTS = "time to the first token of a prompt that comes twice, measured with this tier and without"
COSTS = (
    "measure tail latency of restores while others decode, and what else the link carries",
    "settle what is kept when a machine fails, and who may read prompts that lie there",
)
NVME_COSTS = ("write amplification wears drives faster than these figures", "prompts stay on persistent media")


@dataclass(frozen=True, slots=True)
class Tier:
    """A second home as this situation has it.

    bytes_per_s     what one device reads from it; writes_bytes_per_s what it can be sent, None where not limited
    capacity_bytes  of all devices together, by default a multiple of their pools or what the drives hold
    endurance_bytes of all its drives, None where nothing wears
    """

    name: str
    bytes_per_s: float
    latency_s: float
    capacity_bytes: float
    write_bytes_per_s: float | None = None
    endurance_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What restores at a reuse share ask for.

    tokens     of every prompt that come from the tier, whole blocks
    seconds    of one restore, the wait for others' included
    link       share of a device's way that restores take, None without a rate
    written    bytes a second of the whole deployment, None without a rate
    """

    tokens: float
    seconds: float
    link: float | None
    written: float | None


def judge(situation: Situation) -> Judgement:
    """Restoring beside computing again."""
    offload = checked(situation)
    refused = _refused(situation, offload)
    if refused is not None:
        return refused
    tier = tier_of(situation.scenario, offload, situation.memory.kv_pool_bytes_per_gpu)
    if not situation.steps.prompt_s(situation.scenario.input_tokens):
        return Judgement(
            "measure", None, "how long a prompt takes to compute here is not known", settle=MEASURE_PROMPTS
        )
    use = use_of(situation, tier, 1.0 if offload.reuse_share is None else offload.reuse_share)
    gain = _gain(situation, use) if use.link is None or use.link < 1 else None
    verdict, reason = _verdict(situation, tier, use, gain)
    rule = Rule(
        2, "offload makes the cache larger at a price; PCIe or the network must not become the bottleneck", None
    )
    costs = (*COSTS, _data()["numa"]["text"]) + (NVME_COSTS if tier.name == "nvme" else ())
    settle = ""
    if verdict == "measure":
        settle = MEASURE_REUSE if offload.reuse_share is None else measured_by([situation.scenario])
    return Judgement(verdict, gain, reason, tuple(_figures(situation, tier, use)), costs, rule, settle)


def checked(situation: Situation) -> Offload:
    """The offload of the load; InfoptError names the option of a value that cannot be."""
    offload = situation.load.offload
    if offload.reuse_share is not None and not 0 <= offload.reuse_share <= 1:
        raise InfoptError(f"--reuse-share {offload.reuse_share:g}: a share lies between 0 and 1")
    for option, value in (
        ("--offload-bandwidth", offload.bytes_per_s),
        ("--offload-capacity", offload.capacity_bytes),
        ("--endurance", offload.endurance_bytes),
        ("--rate", situation.load.traffic.rate_per_s),
    ):
        if value is not None and value <= 0:
            raise InfoptError(f"{option} {value:g}: must be above 0")
    return offload


def _refused(situation: Situation, offload: Offload) -> Judgement | None:
    """Where there is nothing to bring back, or nowhere to bring it from."""
    s, memory = situation.scenario, situation.memory
    if memory.max_sequences == 0:
        over = max(0.0, memory.used_bytes_per_gpu - memory.capacity_bytes_per_gpu)
        step_s = weights_step_s(over, link_bytes_per_s(s))
        text = f"it does not fit: offload holds KV cache; weights read from the host would add {step_s:.1f} s to a step"
        return Judgement("impossible", None, text)
    if all(kind.state_slots for kind, _ in memory.layout.kinds):
        return Judgement("skip", None, "the model keeps no keys and values, only a state")
    if offload.tier == "dram" and (s.accelerator.processor or s.accelerator.memory_class in HOST_MEMORY):
        return Judgement("skip", None, "the device's memory is the host's own: try --offload nvme or remote")
    circulating, free = circulating_tokens(situation), free_tokens(situation)
    if offload.reuse_share is None and circulating is not None and circulating <= free:
        text = f"all {circulating:,} tokens of shared prefixes fit into the pool ({free:,.0f} free): none leaves it"
        return Judgement("skip", None, text)
    return None


def circulating_tokens(situation: Situation) -> int | None:
    """Tokens of all prefixes that prompts share, None where that is not known."""
    prefix = situation.load.prefix
    return prefix.shared_tokens * prefix.prefixes if prefix.shared_tokens and prefix.prefixes else None


def free_tokens(situation: Situation) -> float:
    """What running sequences leave of one replica's pool: a prefix lies in every replica that serves it."""
    s = situation.scenario
    return max(0.0, situation.memory.kv_pool_tokens - s.batch_per_replica * s.context_tokens)


def link_bytes_per_s(s: Scenario) -> float:
    """What copies reach between one device and its host: as measured where it is no PCIe, else a share of that."""
    own, link = s.accelerator.measured.get("host_copy_bytes_per_s"), s.accelerator.pcie
    if own is not None:
        return own
    return link.bytes_per_s * _value("pcie_share") if link is not None else _value("device_bytes_per_s")


def tier_of(s: Scenario, offload: Offload, pool_bytes: float) -> Tier:
    """The tier asked about, with its defaults where nothing was given."""
    data, link = _data()["tiers"][offload.tier], link_bytes_per_s(s)
    latency_s = float(data["latency_s"]["value"])
    if offload.tier == "nvme":
        drives = s.gpus * data["drives_per_device"]["value"]
        own = min(link, data["bytes_per_s"]["value"] * data["drives_per_device"]["value"])
        life = offload.endurance_bytes or data["endurance_bytes"]["value"]
        held = offload.capacity_bytes or drives * data["drive_bytes"]["value"]
        writes = drives * data["write_bytes_per_s"]["value"]
        return Tier("nvme", offload.bytes_per_s or own, latency_s, held, writes, drives * life)
    if offload.tier == "remote":
        own = min(link, data["bytes_per_s"]["value"])
        return Tier("remote", offload.bytes_per_s or own, latency_s, offload.capacity_bytes or 0.0)
    held = offload.capacity_bytes or data["pool_ratio"]["value"] * pool_bytes * s.gpus
    return Tier("dram", offload.bytes_per_s or link, latency_s, held)


def use_of(situation: Situation, tier: Tier, share: float) -> Use:
    """Restores of `share` of every prompt; at least one token of a prompt is always computed."""
    s, rate = situation.scenario, situation.load.traffic.rate_per_s
    block = max(1, situation.memory.layout.block_tokens)
    tokens = float(min(share * s.input_tokens, s.input_tokens - 1) // block * block)
    stored = float(rank_bytes(s, tokens)) if tokens else 0.0
    if rate is None:
        return Use(tokens, restore_s(stored, tier.bytes_per_s, tier.latency_s) if tokens else 0.0, None, None)
    link = rate / s.dp * stored / tier.bytes_per_s
    written = rate * (replica_bytes(s, s.input_tokens) - (replica_bytes(s, tokens) if tokens else 0.0))
    seconds = restore_s(stored, tier.bytes_per_s, tier.latency_s, link) if tokens else 0.0
    return Use(tokens, seconds, link, written)


def _gain(situation: Situation, use: Use) -> Gain:
    """First token of a prompt with its part restored, against all of it computed; prompts are off by what measured
    first tokens were off."""
    s, batch, before = situation.scenario, situation.batch, situation.cached_tokens
    after = situation.changed(cached_tokens=min(s.input_tokens - 1.0, before + use.tokens))

    def gain(prompts: float) -> Gain:
        def ratio(steps: Steps) -> float:
            now = steps.ttft_s(situation.tpot_s(steps), batch, s.input_tokens, before)
            rest = steps.ttft_s(after.tpot_s(steps), batch, s.input_tokens, after.cached_tokens)
            return prompts * now / (use.seconds + prompts * rest)

        return situation.gain("ttft", ratio)

    constants = situation.steps.constants
    band = constants.first_token if constants is not None else None
    if band is None:
        return gain(1.0)
    ends = gain(1.0), gain(band.low), gain(band.high)
    return replace(ends[0], low=min(end.low for end in ends), high=max(end.high for end in ends))


def _verdict(situation: Situation, tier: Tier, use: Use, gain: Gain | None) -> tuple[Verdict, str]:
    """The link first, then the gain, then the drives."""
    share, name = situation.load.offload.reuse_share, NAMES[tier.name]
    if gain is None:
        prompts = "" if share is not None else " (every prompt found whole)"
        return "skip", f"at this rate restores need {use.link:.1f} times what the link to {name} moves{prompts}"
    by_itself = by_gain(gain, situation.steps.basis)
    if share is None:
        if by_itself == "skip":
            return "skip", _whole_prompt(name, gain.value)
        if gain.value < 1:
            lent = unsure(gain, situation.steps.basis)
            return "measure", f"a prompt found whole in {name}: TTFT gains {lent}; reuse is not known"
        return "measure", f"TTFT gains up to {gain.value:.1f}x from {name}; how much of prompts is reused is not known"
    if not use.tokens:
        return "skip", f"less than one block ({situation.memory.layout.block_tokens} tokens) of a prompt is reused"
    taken = f"{use.tokens:,.0f} prompt tokens from {name} take {_time(use.seconds)}"
    gained = f"TTFT gains {gain.value:.2f}x"
    if by_itself == "measure":
        return "measure", f"{taken}: {gained}; {unsure(gain, situation.steps.basis)}"
    if by_itself != "use":
        return by_itself, f"{taken}{', computing them less' if gain.value < 1 else ''}: {gained}"
    if use.link is not None and use.link > _value("busy_link"):
        return "limited", f"TTFT gains {gain.value:.2f}x, but restores fill {use.link:.0%} of the link to {name}"
    return _wear(tier, use, gain.value) or ("use", f"{taken}: {gained}")


def _whole_prompt(name: str, ratio: float) -> str:
    """Why not even a prompt found whole pays."""
    if ratio < 1:
        return f"even a prompt found whole in {name} comes later than it is computed: TTFT gains {ratio:.2f}x"
    return f"even a prompt found whole in {name} gains {ratio:.2f}x in TTFT only"


def _wear(tier: Tier, use: Use, gain: float) -> tuple[Verdict, str] | None:
    """What writing does to drives."""
    if use.written is None or tier.write_bytes_per_s is None or tier.endurance_bytes is None:
        return None
    if use.written > tier.write_bytes_per_s:
        return (
            "limited",
            f"{use.written / 1e9:.1f} GB/s would be written, the drives take {tier.write_bytes_per_s / 1e9:.1f} GB/s",
        )
    years = drive_years(tier.endurance_bytes, use.written)
    if years is not None and years < _value("least_years"):
        return "limited", f"TTFT gains {gain:.2f}x, but the drives are worn out after {years:.1f} years at this rate"
    return None


def _figures(situation: Situation, tier: Tier, use: Use) -> Iterator[Figure]:
    s, name, steps = situation.scenario, NAMES[tier.name], situation.steps
    prompt, pool = s.input_tokens, situation.memory.kv_pool_tokens
    recompute_s, stored = steps.prompt_s(prompt), float(rank_bytes(s, prompt))
    shortest = break_even_tokens(
        lambda n: restore_s(float(rank_bytes(s, n)), tier.bytes_per_s, tier.latency_s), steps.prompt_s, s.context_tokens
    )
    per_token = replica_bytes(s, prompt) / prompt
    yield Figure(
        "break_even_prefix_tokens", shortest, "tokens", "shortest prefix that is restored sooner than computed again"
    )
    least = least_bytes_per_s(stored, recompute_s, tier.latency_s)
    yield Figure("break_even_bytes_per_s", least, "bytes/s", "one device must read for a whole prompt to come sooner")
    yield Figure("offload_bytes_per_s", tier.bytes_per_s, "bytes/s", f"one device reads from {name}")
    yield Figure(
        "restore_s",
        restore_s(stored, tier.bytes_per_s, tier.latency_s),
        "s",
        f"to restore a whole prompt from {name}, link idle",
    )
    yield Figure("recompute_s", recompute_s, "s", "to compute a whole prompt")
    yield Figure("pool_tokens", pool * s.dp, "tokens", "of KV cache in the devices' own pools")
    held = tier.capacity_bytes / per_token if tier.capacity_bytes else None
    yield Figure("offload_tokens", held, "tokens", f"of KV cache in {name}, all devices together")
    yield Figure("offload_bytes", tier.capacity_bytes or None, "bytes", f"taken of {name}, all devices together")
    if tier.name == "dram":
        yield Figure(
            "host_bytes_per_rank", tier.capacity_bytes / s.gpus, "bytes", "of host memory pinned for each device"
        )
    yield from _rate_figures(situation, tier, use, held)
    yield Figure(
        "weights_step_s_per_gib",
        weights_step_s(GIB, link_bytes_per_s(s)),
        "s",
        "added to every step by each GiB of weights kept in the host instead",
    )


def _rate_figures(situation: Situation, tier: Tier, use: Use, held: float | None) -> Iterator[Figure]:
    s, rate = situation.scenario, situation.load.traffic.rate_per_s
    new_bytes = replica_bytes(s, s.input_tokens) - (replica_bytes(s, use.tokens) if use.tokens else 0.0)
    if situation.load.offload.reuse_share is None:
        new_bytes = replica_bytes(s, s.input_tokens)
    yield Figure("written_bytes_per_request", new_bytes, "bytes", "written per request: prompt tokens not stored yet")
    if rate is not None:
        new_tokens_per_s = rate * (s.input_tokens + s.output_tokens - situation.cached_tokens)
        text = "until the devices' own pools are overwritten (reuse before: no offload)"
        yield Figure("pool_lifetime_s", situation.memory.kv_pool_tokens * s.dp / new_tokens_per_s, "s", text)
        if held is not None:
            yield Figure("offload_lifetime_s", held / new_tokens_per_s, "s", f"until {NAMES[tier.name]} is overwritten")
        known = use.link if situation.load.offload.reuse_share is not None else None
        yield Figure("link_share", known, "share", f"of the link to {NAMES[tier.name]} that restores fill at this rate")
    if tier.endurance_bytes is not None:
        years = drive_years(tier.endurance_bytes, rate * new_bytes) if rate is not None else None
        yield Figure("drive_years", years, "years", "until the drives are worn out at this rate (--rate)")
        life = tier.endurance_bytes / new_bytes if new_bytes > 0 else None
        yield Figure("requests_per_drive_life", life, "requests", "until the drives are worn out")


def apply(situation: Situation, argument: str) -> Situation:
    """The reused part of every prompt found instead of computed, none without a reuse share; the tier may be named
    (`offload=nvme`)."""
    offload = checked(situation)
    if argument:
        if argument not in NAMES:
            raise InfoptError(f"--with offload={argument}: choose one of {', '.join(NAMES)}")
        load = replace(situation.load, offload=replace(offload, tier=cast(OffloadTier, argument)))
        situation = situation.changed(load=load)
    s = situation.scenario
    tier = tier_of(s, situation.load.offload, situation.memory.kv_pool_bytes_per_gpu)
    use = use_of(situation, tier, offload.reuse_share or 0.0)
    cached = min(s.input_tokens - 1.0, situation.cached_tokens + use.tokens)
    return situation.changed(cached_tokens=cached, used=(*situation.used, TECHNIQUE.id))


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _value(name: str) -> float:
    return float(_data()[name]["value"])


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = checked_yaml("offload")
    return data


REUSE_SHARE = Quantity(
    name="reuse-share",
    unit="share",
    whole=False,
    low=0.0,
    high=lambda _: 1.0,
    get=lambda situation: situation.load.offload.reuse_share,
    set=of_load("offload", "reuse_share"),
    share=True,
)
OFFLOAD_BANDWIDTH = Quantity(
    name="offload-bandwidth",
    unit="bytes/s",
    whole=False,
    low=1e8,
    high=lambda _: 1e12,
    get=lambda situation: tier_of(situation.scenario, situation.load.offload, 0.0).bytes_per_s,
    set=of_load("offload", "bytes_per_s"),
)
TECHNIQUE = Technique(
    id="kv-offload",
    name="KV offload",
    ledger="prefill compute, cache capacity",
    order=None,
    judge=judge,
    quantities=(REUSE_SHARE, OFFLOAD_BANDWIDTH, RATE, CONTEXT),
    plane=(REUSE_SHARE, OFFLOAD_BANDWIDTH),
    apply=apply,
    aliases=("offload",),
)
