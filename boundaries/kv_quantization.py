"""Fewer bits for cached keys and values: more sequences, fewer bytes per step, some precision.

    share  = KV at this batch and context / memory of the device        below 10 %: limited (document 1)
    gain   = TPOT(KV as it is) / TPOT(KV smaller)                       sequences: pool // (request in either format)
Bits are those of the format with its scales (profiles/data/kv). Whether the engine's kernels on this device keep up is
data (data/kv_kernels.yaml): where losses were measured the answer is to measure, unless memory decides.
"""

from functools import cache
from typing import Any

from infopt.boundaries.deciding import DATA, MEASURE_STEPS, threshold
from infopt.boundaries.quantities import BATCH, CONTEXT
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Figure, Judgement, Rule, Technique, Verdict
from infopt.ledgers.scenario import Scenario
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.engines import version_key
from infopt.profiles.formats import format_name, load_kv_format
from infopt.records import read_yaml

FULL_PRECISION_BITS = 16.0


def judge(situation: Situation) -> Judgement:
    """The smaller format beside the one in use."""
    s = situation.scenario
    name = target(situation, "")
    after = apply(situation, name)
    if after.scenario.kv.bits_per_element >= s.kv.bits_per_element:
        return Judgement(
            "skip", None, f"the cache is {s.kv_format} already", rule=_rule(situation.memory.kv_share, None)
        )
    if not situation.memory.layout.kinds:
        return Judgement("skip", None, "the model keeps no keys and values, only a state")
    gain = situation.gain_over(after, "tpot", lambda here, there: situation.tpot_s(here) / after.tpot_s(there))
    share = situation.memory.kv_share
    before_sequences, sequences = situation.memory.max_sequences, after.memory.max_sequences
    slow = slow_kernel(s, name)
    verdict, reason = _verdict(situation, after, share, slow)
    figures = (
        Figure("kv_share", share, "share", "KV of memory at this batch and context"),
        Figure("kv_share_of_step", situation.bandwidth.kv_share_of_step, "share", "KV of the bytes of a step"),
        Figure("max_sequences", before_sequences, "sequences", f"fit with {s.kv_format}"),
        Figure("max_sequences_after", sequences, "sequences", f"fit with {name}"),
        Figure("tpot_s", situation.tpot_s(), "s", "time per output token now"),
        Figure("tpot_after_s", after.tpot_s(), "s", f"time per output token with {name}"),
    )
    costs: tuple[str, ...] = (
        f"precision of the cache falls from {s.kv_format} to {name}: test long contexts and long answers",
    )
    if slow is not None:
        costs = (*costs, slow["text"])
    return Judgement(verdict, gain, reason, figures, costs, _rule(share, verdict), MEASURE_STEPS if slow else "")


def _verdict(situation: Situation, after: Situation, share: float, slow: dict[str, Any] | None) -> tuple[Verdict, str]:
    name, limit = after.scenario.kv_format, threshold("kv_share")
    if not situation.fits and after.fits:
        return "use", f"{situation.scenario.batch} sequences fit with {name} only"
    if share < limit:
        return "limited", f"KV is {share:.1%} of memory, below {limit:.0%}"
    if slow is not None:
        return "measure", f"KV is {share:.0%} of memory, but kernels may lose: {slow['text']}"
    return "use", f"KV is {share:.0%} of memory; {after.memory.max_sequences:,} sequences fit instead of " + (
        f"{situation.memory.max_sequences:,}"
    )


def _rule(share: float, verdict: Verdict | None) -> Rule:
    says: Verdict = "limited" if share < threshold("kv_share") else "use"
    why = "the rule has no word on kernels that lose on this device" if verdict == "measure" else ""
    return Rule(1, "below about 10 % of memory the gain is limited", says, why)


def target(situation: Situation, argument: str) -> str:
    """The format asked about: the argument, what the load names, or the engine's usual smaller one."""
    asked = argument or situation.load.kv_format or engine_flags(situation.scenario.engine.engine).small_kv
    return format_name(asked, "kv")


def apply(situation: Situation, argument: str) -> Situation:
    """The cache in the smaller format."""
    name = target(situation, argument)
    used = (*situation.used, TECHNIQUE.id)
    return situation.changed(kv_format=name, kv=load_kv_format(name), used=used)


def slow_kernel(s: Scenario, kv_format: str) -> dict[str, Any] | None:
    """The record of a measured loss of this format on this engine and device."""
    capability = s.accelerator.cuda_capability
    for row in _kernels():
        if row["engine"] != s.engine.engine or kv_format not in row["formats"] or capability is None:
            continue
        if capability < row["capability_below"] and _in_versions(row, s.engine_version):
            return row
    return None


def _in_versions(row: dict[str, Any], version: str) -> bool:
    return "until" not in row or version_key(version) < version_key(row["until"])


@cache
def _kernels() -> tuple[dict[str, Any], ...]:
    return tuple(read_yaml(DATA / "kv_kernels.yaml"))


TECHNIQUE = Technique(
    id="kv-quantization",
    name="KV quantization",
    ledger="memory, cache bandwidth",
    order=2,
    judge=judge,
    quantities=(BATCH, CONTEXT),
    apply=apply,
    aliases=("kv",),
)
