"""`checklist`: every item answered by a number, an observation or a person; bad files are one line."""

import csv
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from html_page import check_figures, read_page

from infopt.boundaries.load import Adapters, Draft, Links, Load, Offload, Prefix, Targets, Traffic
from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.observing.observation import Observation, read_observation
from infopt.profiles.checklists import WORDS, commands, shipped
from infopt.profiles.engines import engine_names
from infopt.profiles.resolve import resolve_model
from infopt.reports.checklist_report import value_words
from infopt.reports.schemas import schema_text
from infopt.studies.checklist import Checked, Entry, Typed, checklist, command_words, lists_of
from infopt.studies.checklist_answers import Signature, read_answers
from infopt.studies.checklist_checks import checks, function, refuse_unknown
from infopt.studies.checklist_context import FEATURE_WORDS, FEATURES, Context, Deployment
from infopt.studies.checklist_latency import times
from infopt.studies.scenarios import Request

GOLDEN = Path(__file__).resolve().parent / "golden"
ROOT = Path(__file__).resolve().parent.parent
SMALL = ("checklist", "--model", "8b", "--hw", "h100", "--isl", "2000", "--osl", "300", "--batch", "16")
TYPED = Typed("--all", "--plan", "--without-kv", "--without-weights")
KV_8B_BYTES = 2 * 32 * 8 * 128 * 2  # keys and values, layers, heads, width, 16 bit


def deployment(hw: str = "h100", model: str = "8b", **given: Any) -> Deployment:
    """A deployment of 2,000 tokens in and 300 out."""
    own = {name: given.pop(name) for name in ("load", "observed", "applied", "curve") if name in given}
    request = Request(**{"input_tokens": 2000, "output_tokens": 300, "batch": 16, **given})
    return Deployment(resolve_model(model), resolve_hardware(hw), request, **{"load": Load(), **own})


def checked(d: Deployment, answers: dict[str, Signature] | None = None) -> Checked:
    return checklist(d, shipped(), answers or {}, TYPED)


def found(d: Deployment, id: str, answers: dict[str, Signature] | None = None) -> Entry:
    return next(entry for entry in checked(d, answers).entries if entry.item.id == id)


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, statuses: tuple[int, ...] = (0, 1, 4)) -> Any:
    assert run([*arguments, "--json"]) in statuses
    return json.loads(capsys.readouterr().out)


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


# The lists themselves.


def test_the_documents_items_are_all_there() -> None:
    """Document 1 has five, document 2 ten and eight anti-optimizations; the issue names ten that no ledger computes."""
    assert [(len(one.items), one.source) for one in shipped()] == [
        (5, "document 1, section 6"),
        (10, "document 2, section 18"),
        (8, "document 2, section 17"),
        (10, "document 2, sections 4, 5, 6, 7, 10, 12, 13"),
    ]
    people = {item.id for item in shipped()[-1].items}
    assert people == {
        *("quality", "tool-calling", "calibration-data", "tenant-isolation", "prefix-privacy", "persistent-prompts"),
        *("artefact-binding", "rollback", "node-failure", "numa-topology"),
    }
    assert all(item.check is None for item in shipped()[-1].items)


def test_every_name_in_the_lists_is_known_and_every_check_used() -> None:
    for one in shipped():
        for item in one.items:
            refuse_unknown(item, one.title)
    used = {item.check for one in shipped() for item in one.items}
    assert set(checks()) - {"figure"} == used - {None}
    assert all(callable(function(name)) for name in checks())
    assert set(FEATURES) == set(FEATURE_WORDS)


def test_every_word_of_a_command_stands_for_something() -> None:
    for engine in engine_names():
        words = command_words(Context(deployment(engine=engine)), TYPED)
        assert set(WORDS) <= set(words)
        assert all("{" not in text for text in words.values())
        for word in ("batch_metrics", "prefix_metrics", "preemption_metrics"):
            assert words[word].startswith(f"infopt observe {commands().server} ")
        assert words["acceptance_metrics"].startswith(f"infopt probe draft --endpoint {commands().server} ")
    assert "--showtopo" in command_words(Context(deployment("mi300x")), TYPED)["topology"]


def test_the_page_names_every_check_with_its_thresholds_and_features() -> None:
    page = (ROOT / "docs" / "checklist.md").read_text(encoding="utf-8")
    for name, check in checks().items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert check.text in row
        for limit, value in check.limits.items():
            assert f"`{limit}` {value.value:g}" in row
    for word in (*FEATURES, *(f"{{{word}}}" for word in WORDS)):
        assert f"`{word}`" in page


def test_the_example_lists_of_the_page_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "checklist.md").read_text(encoding="utf-8")
    blocks = [re.sub(r"^ {4}", "", block, flags=re.M) for block in re.findall(r"(?:^ {4}.*\n)+", page, re.M)]
    observed, answers, items = (next(b for b in blocks if b.startswith(start)) for start in ("{", "rollback", "title"))
    files = [
        *("--observed", written(tmp_path / "observed.json", observed)),
        *("--answers", written(tmp_path / "answers.yaml", answers)),
        *("--items", written(tmp_path / "ours.yaml", items)),
    ]
    data = as_json(capsys, *SMALL, *files)
    by_id = {item["id"]: item for item in data["items"]}
    assert by_id["our-latency"]["status"] == "pass"
    assert by_id["our-review"]["status"] == "needs-measurement"
    assert by_id["rollback"]["signed"]["by"] == "Jane Doe"
    assert by_id["numa-topology"]["status"] == "fail"


# Memory.


def test_kv_share_before_it_was_quantized() -> None:
    """16 x 2,300 tokens of 131,072 B are 4.82 GB of 85.03: 5.7 %; with 64 sequences it is 22.7 %."""
    few = found(deployment(kv="fp8"), "kv-share")
    assert few.status == "fail"
    # Whole blocks of 16 tokens: 144 of them hold 2,304.
    assert few.answer.value == pytest.approx(16 * 2304 * KV_8B_BYTES / (79.19 * 2**30), rel=1e-3)
    many = found(deployment(kv="fp8", batch=64), "kv-share")
    assert (many.status, many.answer.value) == ("pass", pytest.approx(4 * (few.answer.value or 0)))
    plain = found(deployment(), "kv-share")
    assert (plain.status, plain.applies) == ("pass", False)


def test_kernels_that_may_lose_keep_the_cache_open() -> None:
    """fp8 KV on A100: losses were measured, so a large share alone does not pass it."""
    assert found(deployment("a100-sxm-80gb", kv="fp8", batch=64), "kv-share").status == "needs-measurement"


def test_head_room_is_what_the_budget_leaves() -> None:
    usual, tight = found(deployment(), "memory-budget"), found(deployment(utilization=0.99), "memory-budget")
    assert (usual.status, tight.status) == ("pass", "fail")
    assert usual.answer.value == Context(deployment()).plan.memory.margin_bytes
    assert (usual.answer.value or 0) > (tight.answer.value or 0) >= 0
    short = found(deployment(model="70b", batch=1), "memory-budget")
    assert short.status == "fail"
    assert (short.answer.value or 0) < -50e9  # 141 GB of weights, 85 GB of memory


def test_a_context_beyond_need_costs_sequences_where_they_are_asked_for() -> None:
    asked = {"context_tokens": 131072}
    assert found(deployment(), "context-at-maximum").answer.value == 0
    fits = found(deployment(batch=2, **asked), "context-at-maximum")
    squeezed = found(deployment(batch=16, **asked), "context-at-maximum")
    assert (fits.status, squeezed.status) == ("pass", "fail")
    c = Context(deployment(**asked))
    need = Context(deployment()).plan.memory.max_sequences
    assert squeezed.answer.value == need - c.plan.memory.max_sequences > 0
    unknown = Deployment(resolve_model("8b"), resolve_hardware("h100"), Request(context_tokens=8192), Load())
    assert found(unknown, "context-at-maximum").status == "needs-measurement"


# Time.


def with_targets(batch: int = 16, **targets: float) -> Deployment:
    return deployment(batch=batch, load=Load(targets=Targets(**targets)))


def test_the_whole_interval_must_meet_the_target() -> None:
    e: Any = Context(deployment()).plan.estimate
    for target, status in (
        (e.tpot_high_s * 1.01, "pass"),
        (e.tpot_high_s * 0.99, "needs-measurement"),
        (e.tpot_low_s * 1.01, "needs-measurement"),
        (e.tpot_low_s * 0.99, "fail"),
    ):
        entry = found(with_targets(tpot_s=target), "batch-too-large")
        assert entry.status == status, target
        assert entry.answer.value == pytest.approx(e.tpot_s)
    assert found(deployment(), "batch-too-large").status == "needs-measurement"


def test_one_missed_target_fails_whatever_the_other_does() -> None:
    both = with_targets(tpot_s=1.0, ttft_s=0.001)
    assert found(both, "batch-too-large").status == "fail"
    assert found(both, "three-ledgers").status == "fail"


def test_a_tail_passes_only_where_it_was_measured() -> None:
    d = with_targets(tpot_s=0.05)
    assert found(d, "batch-and-tails").status == "needs-measurement"
    for tail_s, status in ((0.04, "pass"), (0.06, "fail")):
        o = Observation.model_validate({"effective_batch": 16, "tpot_s": {"mean": 0.02, "p99": tail_s}})
        assert found(replace(d, observed=o), "batch-and-tails").status == status
    mean = Observation(effective_batch=16, tpot_s=0.02)
    assert found(replace(d, observed=mean), "batch-and-tails").status == "needs-measurement"
    assert found(replace(d, observed=Observation(tpot_s=0.06)), "batch-and-tails").status == "fail"


def test_a_device_without_measurements_fails_only_below_the_floor() -> None:
    floor_s = Context(deployment("l40s")).plan.bandwidth.tpot_floor_s
    for target, status in ((floor_s * 0.9, "fail"), (floor_s * 1.1, "needs-measurement")):
        d = deployment("l40s", load=Load(targets=Targets(tpot_s=target)))
        assert found(d, "batch-too-large").status == status
    lent = found(deployment("l40s", load=Load(targets=Targets(tpot_s=1.0))), "batch-too-large")
    assert lent.status == "pass"
    assert "constants of other devices" in lent.answer.reason


def test_past_what_fits_no_time_is_told() -> None:
    entry = found(with_targets(batch=4000, tpot_s=1.0), "batch-too-large")
    assert (entry.status, entry.answer.value) == ("needs-measurement", None)
    most = Context(deployment("h100:4", "70b")).plan.memory.max_sequences
    drafts = speculating(0.9, batch=most, targets=Targets(tpot_s=1.0))
    entry = found(drafts, "batch-too-large")
    assert (entry.status, entry.answer.value) == ("needs-measurement", None)
    assert "fit with the draft" in entry.answer.reason


def test_a_start_passes_only_where_its_whole_range_does() -> None:
    seen = {target: found(with_targets(start_s=target), "cold-start-budget").status for target in (1, 60, 36000)}
    assert seen == {1: "fail", 60: "needs-measurement", 36000: "pass"}
    entry = found(with_targets(start_s=60), "cold-start-budget")
    assert "curl" in entry.command


# What was observed.


def test_an_observation_stands_in_for_what_was_not_given() -> None:
    o = Observation(effective_batch=13.2, tpot_s=0.02, prefix_hit_share=0.3)
    d = replace(deployment(batch=1), observed=o)
    c = Context(d)
    assert (c.scenario.batch, c.load.prefix.hit_share) == (13, 0.3)
    # Three tenths of the prompts that a token waits for are cached: the time holds with them, not without.
    assert c.situation.tpot_s() == pytest.approx(0.02, rel=2e-3)
    estimate: Any = c.plan.estimate
    assert estimate.tpot_s > 0.0202
    given = Context(replace(deployment(batch=7, load=Load(prefix=Prefix(hit_share=0.1))), observed=o))
    assert (given.scenario.batch, given.load.prefix.hit_share) == (7, 0.1)


def test_measured_batch_needs_the_utilization_or_a_time() -> None:
    """16 GB of weights and 13 caches of 2,150 tokens in 20 ms, of 67 GB that H100 reads in that time."""
    o = Observation(effective_batch=13.0)
    assert found(replace(deployment(), observed=o), "measured-batch").status == "needs-measurement"
    timed = Observation(effective_batch=13.0, tpot_s=0.02)
    entry = found(replace(deployment(), observed=timed), "measured-batch")
    read = 2 * 7_504_924_672 + 13 * 2150 * KV_8B_BYTES  # without the input embedding
    assert entry.status == "pass"
    assert f"{read / (0.02 * 3.35e12):.1%}" in entry.answer.reason
    low = Observation(effective_batch=2.0, bandwidth_utilization=0.5)
    assert "below 4" in found(replace(deployment(), observed=low), "measured-batch").answer.reason


def test_an_impossible_time_calibrates_nothing_and_says_so() -> None:
    o = Observation(effective_batch=16, tpot_s=0.001)
    c = Context(replace(deployment(), observed=o))
    assert any("calibrates nothing" in text.text for text in c.assumed)


def test_hits_far_below_what_is_shared_fail() -> None:
    def status(shared: int | None, hits: float | None) -> str:
        load = Load(prefix=Prefix(shared_tokens=shared, hit_share=hits))
        return found(deployment(load=load), "prefix-hits").status

    assert status(None, None) == "needs-measurement"
    assert status(0, None) == "pass"
    assert status(1000, None) == "needs-measurement"
    assert status(1000, 0.45) == "pass"
    assert status(1000, 0.2) == "fail"


def test_a_file_of_the_contract_is_read_strictly(tmp_path: Path) -> None:
    def read(text: str) -> Observation:
        return read_observation(Path(written(tmp_path / "o.json", text)))

    seen = read('{"effective_batch": 4, "tpot_s": {"p50": 0.02, "p99": null}, "unknown_names": ["x"], "new": 1}')
    assert (seen.effective_batch, seen.mean_s("tpot_s"), seen.tail_s("tpot_s"), seen.ignored) == (
        4,
        0.02,
        None,
        ("new",),
    )
    for text, says in (
        ('{"prefix_hit_share": 1.5}', "prefix_hit_share"),
        ('{"effective_batch": "13"}', "effective_batch"),
        ('{"effective_batch": -1}', "effective_batch"),
        ('{"acceptance_per_position": [0.4, 0.6]}', "rises"),
        ('{"tpot_s": {"p95": 1}}', "tpot_s"),
        ("[1]", "expected an object"),
        ("{", "not readable as JSON"),
        ('{"tpot_s": 1, "tpot_s": 2}', "twice"),
    ):
        with pytest.raises(InfoptError, match=says):
            read(text)


# Techniques in use.


def test_a_placement_that_is_the_best_passes() -> None:
    """70B on four H100: tensor parallel 4 is right; in two pipeline stages it is not, nor over links of 1 GB/s."""
    h100 = deployment("h100:4", "70b")
    assert found(h100, "topology").status == "pass"
    assert found(deployment("h100:4", "70b", tp=2, pp=2, batch=1), "topology").status == "fail"
    assert found(h100, "tensor-parallel-link").status == "pass"
    slow = deployment("h100:4", "70b", load=Load(links=Links(link_bytes_per_s=1e9)))
    entry = found(slow, "tensor-parallel-link")
    assert entry.status == "fail"
    assert (entry.answer.value or 9) < 1
    assert not found(deployment(), "tensor-parallel-link").applies


def test_the_worse_placement_loses_in_the_whole() -> None:
    bad = found(deployment("h100:4", "70b", tp=2, pp=2, batch=1), "three-ledgers")
    assert bad.status == "fail"
    assert "parallelism" in bad.answer.reason


def speculating(rate: float | None, batch: int = 1, **given: Any) -> Deployment:
    load = Load(draft=Draft(method="eagle", acceptance=rate, drafted_tokens=3), **given)
    return deployment("h100:4", "70b", batch=batch, load=load)


def test_speculation_by_its_acceptance() -> None:
    statuses = [found(speculating(rate), "speculation-gain").status for rate in (0.9, 0.01, None)]
    assert statuses == ["pass", "fail", "needs-measurement"]
    assert found(speculating(0.01), "three-ledgers").status == "fail"
    assert not found(deployment("h100:4", "70b"), "speculation-gain").applies


def test_what_is_in_use_is_in_the_times_and_in_memory() -> None:
    """Speculation divides the time per token by its own gain; slots of adapters and found tokens count as well."""
    targets = Targets(tpot_s=1.0, ttft_s=9.0)
    plain = Context(deployment("h100:4", "70b", batch=1, load=Load(targets=targets)))
    fast = Context(speculating(0.9, targets=targets))
    gain = fast.judgement("speculative")
    assert gain is not None
    assert gain.gain is not None
    (before, _), (after, _) = ((next(times(c))) for c in (plain, fast))
    assert before.value is not None
    assert after.value == pytest.approx(before.value / gain.gain.value, rel=1e-6)
    assert after.low < after.value < (after.high or 0)
    unknown = next(times(Context(speculating(None, targets=targets))))[0]
    assert (unknown.value, unknown.high) == (None, None)
    hits = Context(deployment("h100:4", "70b", batch=1, load=Load(targets=targets, prefix=Prefix(hit_share=0.5))))
    first, sooner = (list(times(c))[1][0].value or 0 for c in (plain, hits))
    assert 0.3 * first < sooner < 0.8 * first
    adapted = Context(deployment("h100:4", "70b", batch=1, load=Load(adapters=Adapters(slots=8, rank=64))))
    assert adapted.plan.memory.max_sequences < plain.plan.memory.max_sequences


def test_speculation_is_never_passed_for_high_concurrency_by_a_prediction() -> None:
    both = found(speculating(0.9), "speculation-both-ends")
    assert both.status == "needs-measurement"
    assert (both.answer.value or 9) < (found(speculating(0.9), "speculation-gain").answer.value or 0)
    assert found(speculating(0.01), "speculation-under-load").status == "fail"


def test_observed_acceptance_says_that_it_speculates() -> None:
    o = Observation(acceptance_per_position=(0.8, 0.6, 0.5), effective_batch=1.0)
    entry = found(
        replace(deployment("h100:4", "70b", load=Load(draft=Draft(method="eagle"))), observed=o), "speculation-gain"
    )
    assert (entry.applies, entry.status) == (True, "pass")
    assert found(replace(deployment(), observed=o), "speculation-gain").applies


def test_one_prefix_for_all_heats_one_replica() -> None:
    """By affinity all of four replicas' requests go to the one that has it; at random none is hotter."""

    def hot(prefixes: int, **how: Any) -> Entry:
        load = Load(prefix=Prefix(shared_tokens=1024, prefixes=prefixes, skew=0.0, **how))
        return found(deployment("h100:4", tp=1, dp=4, batch=64, load=load), "hot-replicas")

    assert (hot(1, routing="affinity").status, hot(1, routing="random").status) == ("fail", "pass")
    assert hot(1, routing="affinity").answer.value == pytest.approx(4)
    for many in (40, 400, 100_000):
        assert hot(many, routing="affinity").status == "pass"
    unknown = deployment("h100:4", tp=1, dp=4, load=Load(prefix=Prefix(routing="affinity")))
    assert found(unknown, "hot-replicas").status == "needs-measurement"


def test_a_link_full_of_restores_fails() -> None:
    def offloading(rate: float, share: float | None = 0.9) -> Entry:
        load = Load(traffic=Traffic(rate_per_s=rate), offload=Offload(bytes_per_s=2e9, reuse_share=share))
        return found(deployment(load=load), "offload-bottleneck")

    # A prompt of 2,000 tokens has 262 MB of cache: 236 MB at 0.9 take 118 ms of a link of 2 GB/s.
    assert offloading(9.0).status == "fail"
    assert offloading(1.0).status != "fail" or "way" not in offloading(1.0).answer.reason
    assert not found(deployment(), "offload-bottleneck").applies
    assert found(replace(deployment(), offloads=True), "offload-bottleneck").applies
    named = replace(deployment(), applied=("kv-offload",), load=Load(offload=Offload(reuse_share=0.9)))
    assert found(named, "offload-bottleneck").applies


def test_adapters_that_fit_still_need_governance() -> None:
    few, many = (
        found(deployment(load=Load(adapters=Adapters(slots=slots, rank=64))), "adapter-governance")
        for slots in (4, 2000)
    )
    assert (few.status, many.status) == ("needs-measurement", "fail")
    assert not found(deployment(), "adapter-governance").applies


def test_quantized_weights_are_judged_against_full_precision() -> None:
    fp8 = found(deployment(weights="fp8", batch=1), "slow-quantized-kernels")
    assert fp8.status == "pass"
    # Half the bytes, and what does not shrink with them.
    assert 1.2 < (fp8.answer.value or 0) < 2
    assert found(deployment(weights="fp8", batch=1), "quantization-regressions").status == "needs-measurement"
    no_kernels = found(deployment("mi300x", weights="int4"), "slow-quantized-kernels")
    assert no_kernels.status == "fail"
    stored = found(deployment("h200:8", "deepseek-v3"), "slow-quantized-kernels")
    assert (stored.applies, stored.status) == (True, "pass")


def test_at_a_rate_the_batch_is_littles() -> None:
    load = Load(traffic=Traffic(rate_per_s=3.0))
    c = Context(deployment("h100:4", "70b", batch=1, load=load))
    tpot_s = c.situation.tpot_s()
    # Requests in flight: those that decode, 3/s x 300 tokens x TPOT, and the prompt in hand.
    assert c.scenario.batch == pytest.approx(3 * 300 * tpot_s, rel=0.15)
    assert found(deployment("h100:4", "70b", load=Load(traffic=Traffic(rate_per_s=1e4))), "phases").status == "fail"
    asked = found(deployment("h100:4", "70b", batch=4, load=load), "batch-and-tails")
    assert asked.status == "needs-measurement"


def test_a_larger_target_is_never_harder() -> None:
    order = ("fail", "needs-measurement", "pass")
    targets = [0.001 * 1.3**n for n in range(20)]
    statuses = [order.index(found(with_targets(tpot_s=target), "batch-too-large").status) for target in targets]
    assert statuses == sorted(statuses)
    assert (statuses[0], statuses[-1]) == (0, 2)


# Who signs.


def test_a_signature_settles_what_is_open_and_needs_a_reason_against_a_number() -> None:
    ann = Signature(status="pass", by="Ann")
    assert found(deployment(), "rollback").status == "needs-measurement"
    assert found(deployment(), "rollback", {"rollback": ann}).status == "pass"
    with pytest.raises(InfoptError, match="the number fails it"):
        checked(deployment(kv="fp8"), {"kv-share": ann})
    reasoned = found(deployment(kv="fp8"), "kv-share", {"kv-share": Signature(status="pass", by="Ann", note="peak")})
    assert (reasoned.status, reasoned.answer.status) == ("pass", "fail")
    no = Signature(status="fail", by="Ben")
    assert found(deployment(), "memory-budget", {"memory-budget": no}).status == "fail"
    with pytest.raises(InfoptError, match="nearest: rollback"):
        checked(deployment(), {"rolback": ann})


def test_answers_files(tmp_path: Path) -> None:
    def read(text: str) -> dict[str, Signature]:
        return read_answers(Path(written(tmp_path / "a.yaml", text)))

    two = read(
        'rollback: {status: pass, by: A, date: 2026-11-20}\nquality: {status: fail, by: B, date: "2026-11-21"}\n'
    )
    assert [answer.date.isoformat() for answer in two.values() if answer.date] == ["2026-11-20", "2026-11-21"]
    for text, says in (
        ("rollback: {status: maybe, by: A}", "status"),
        ("rollback: {status: pass}", "by"),
        ('rollback: {status: pass, by: " "}', "by"),
        ("rollback: {status: pass, by: A, when: x}", "when"),
        ("rollback: {status: pass, by: A, date: soon}", "date"),
        ("rollback: {status: pass, by: A}\nrollback: {status: fail, by: B}", r"a.yaml:2: rollback is answered twice"),
        ("rollback: [", r"a.yaml:\d+:\d+: not readable"),
        ("- a", "written as ID"),
    ):
        with pytest.raises(InfoptError, match=says):
            read(text)


# Items of one's own.

ITEM = "title: T\nsource: S\nitems:\n  - {id: own, text: X, who: W, how: y, %s}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ITEM % "check: kv-shares", "nearest: kv-share"),
        (ITEM % "check: kv-share, thresholds: {share: 0.2}", "no threshold 'share', only least_share"),
        (ITEM % "thresholds: {least_share: 0.2}", "without a check"),
        (ITEM % "check: figure", "say which figure"),
        (ITEM % "check: figure, figure: memory.kv_shares, thresholds: {at_most: 1}", "nearest: memory.kv_share"),
        (ITEM % "check: figure, figure: ram.free, thresholds: {at_most: 1}", "unknown section 'ram'"),
        (ITEM % "check: figure, figure: memory.kv_share", "at_least or at_most"),
        (ITEM % "check: kv-share, figure: memory.kv_share", "check: figure"),
        (ITEM % "check: kv-share, thresholds: {least_share: .inf}", "least_share"),
        (ITEM % "applies_to: [speculating]", "applies_to"),
        (ITEM % 'command: "a {models}"', "nearest: model"),
        (ITEM % 'command: "a {model!r:>9999999}"', "a command may have"),
        (ITEM % 'command: "a {model"', "brace"),
        (ITEM % "colour: red", "colour"),
        ("title: T\nsource: S\nitems:\n  - {id: own, text: X, who: W}\n", "what would settle it"),
        ("title: T\nsource: S\nitems: []\n", "items"),
        ("title: T\nsource: S\nitems:\n  - {id: rollback, text: X, who: W, how: y}\n", "'rollback' is there twice"),
        ("title: T\nsource: S\nitems:\n  - {id: A b, text: X, who: W, how: y}\n", "lower-case"),
        ("title: T\nsource: [\n", r"ours.yaml:\d+:\d+: not readable as YAML"),
    ],
)
def test_bad_lists_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str) -> None:
    page = tmp_path / "page.html"
    assert run([*SMALL, "--items", written(tmp_path / "ours.yaml", text), "--html", str(page)]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert re.search(says, out.err), out.err
    assert out.err.count("\n") == 1
    assert "ours.yaml" in out.err
    assert not page.exists()


def test_one_id_in_two_lists_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [written(tmp_path / f"{name}.yaml", ITEM % "document: 2") for name in ("one", "two")]
    assert run([*SMALL, "--items", files[0], "--items", files[1]]) == 2
    assert re.search(r"two.yaml: item 'own' is there twice: it is also in .*one.yaml", capsys.readouterr().err)


def test_own_thresholds_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        "check: kv-share, thresholds: {least_share: 0.05}",
        "check: figure, figure: memory.kv_share, thresholds: {at_least: 0.02, at_most: 0.03}",
        "check: figure, figure: memory.kv_share, thresholds: {at_most: 0.02}",
        "check: figure, figure: observed.preemptions, thresholds: {at_most: 0}",
        "check: figure, figure: estimate.tpot_s, thresholds: {at_most: 1}",
    ]
    items = "".join(f"  - {{id: own-{i}, text: X, who: W, how: y, {row}}}\n" for i, row in enumerate(rows))
    path = written(tmp_path / "ours.yaml", f"title: T\nsource: S\nitems:\n{items}")
    data = as_json(capsys, *SMALL, "--kv", "fp8", "--items", path)
    own = [item for item in data["items"] if item["id"].startswith("own-")]
    assert [item["status"] for item in own] == ["pass", "pass", "fail", "needs-measurement", "pass"]
    assert own[1]["value"] == pytest.approx(16 * 2304 * KV_8B_BYTES / 2 / (79.19 * 2**30), rel=1e-3)
    assert own[4]["unit"] == "s"
    assert lists_of([Path(path)])[-1].title == "T"


# What is printed.


@pytest.mark.parametrize(
    "arguments",
    [
        SMALL,
        (*SMALL, "--kv", "fp8", "--weights", "int4", "--tpot", "20ms", "--rate", "2/s"),
        ("checklist", "--model", "70b", "--hw", "h100", "--ctx", "32k"),
        ("checklist", "--model", "gpt-oss-120b", "--hw", "mi300x:2", "--dp", "2", "--isl", "1k", "--osl", "200"),
        ("checklist", "--model", "deepseek-v3", "--hw", "h200:8", "--ctx", "32k", "--batch", "32", "--offload", "nvme"),
        ("checklist", "--model", "8b", "--hw", "rtx-4090", "--engine", "llama.cpp", "--weights", "q4_k_m"),
        ("checklist", "--model", "jamba", "--hw", "a100-sxm-80gb:2", "--ctx", "128k"),
    ],
    ids=lambda arguments: " ".join(arguments[2:]),
)
def test_json_follows_the_contract(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    data = as_json(capsys, *arguments)
    jsonschema.validate(data, json.loads(schema_text("checklist")), cls=jsonschema.Draft202012Validator)
    assert len(data["items"]) == 33
    counted = dict.fromkeys(("pass", "fail", "needs-measurement"), 0)
    for item in data["items"]:
        assert {"id", "status", "value", "unit", "command"} <= set(item)
        assert item["command"] or item["how"]
        assert item["value"] is None or isinstance(item["value"], int | float)
        counted[item["status"]] += 1
    assert counted == {status: data["counts"][status.replace("-", "_")] for status in counted}
    assert data["verdict"] == ("fail" if counted["fail"] else "needs-measurement")


def test_exit_statuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SMALL) == 4
    assert run([*SMALL, "--allow-undetermined"]) == 0
    assert run([*SMALL, "--kv", "fp8"]) == 1
    assert run([*SMALL, "--kv", "fp8", "--allow-undetermined"]) == 1
    capsys.readouterr()
    waiting = [i["id"] for i in as_json(capsys, *SMALL)["items"] if i["status"] == "needs-measurement"]
    answers = written(tmp_path / "a.yaml", "".join(f"{id}: {{status: pass, by: Ann}}\n" for id in waiting))
    assert run([*SMALL, "--answers", answers]) == 0
    assert run([*SMALL, *(word for id in waiting for word in ("--signed", f"{id}=Ann"))]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--signed", "rollback"), "write ITEM=NAME"),
        (("--signed", "rollback=A", "--signed", "rollback=B"), "signed twice"),
        (("--signed", "rolback=A"), "nearest: rollback"),
        (("--signed", "kv-share=A", "--kv", "fp8"), "the number fails it"),
        (("--answers", "/nowhere/a.yaml"), "cannot be read"),
        (("--observed", "/nowhere/o.json"), "cannot be opened"),
        (("--items", "/nowhere/i.yaml"), "cannot be read"),
        (("--html", "/nowhere/c.html"), "there is no folder /nowhere"),
        (("--with", "magic"), "unknown technique"),
        (("--alpha", "1.5"), "--alpha"),
    ],
)
def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str) -> None:
    assert run([*SMALL, *arguments]) == 2
    out = capsys.readouterr()
    assert (out.out, out.err.count("\n")) == ("", 1)
    assert says in out.err


def test_a_deployment_needs_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checklist", "--model", "8b"]) == 2
    assert "--hw is missing" in capsys.readouterr().err


def test_commands_carry_the_scenario_as_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*SMALL, "--rate=2/s", "--prefix-skew", "1", "--signed", "rollback=A B", "--json"]
    monkeypatch.setattr("sys.argv", ["infopt", *arguments])
    run(arguments)
    data = {item["id"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    scenario = "--model 8b --hw h100 --isl 2000 --osl 300 --batch 16"
    assert data["memory-budget"]["command"] == f"infopt plan {scenario} --explain"
    assert data["three-ledgers"]["command"] == f"infopt boundary {scenario} --rate=2/s --prefix-skew 1"
    assert "--random-input-len 2000" in data["workload-matrix"]["command"]
    # What is offered to be copied is understood.
    assert run(data["memory-budget"]["command"].split()[1:]) == 0
    assert run(["boundary", "kv-quantization", *data["three-ledgers"]["command"].split()[2:]]) == 0
    capsys.readouterr()


def test_a_technique_in_use_is_asked_about_as_it_would_be_without(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command offered for a quantized cache shows the gain the checklist judged, not "it is fp8 already"."""
    arguments = [*SMALL, "--kv", "fp8", "--weights=int4", "--json"]
    monkeypatch.setattr("sys.argv", ["infopt", *arguments])
    run(arguments)
    data = {item["id"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    for id, key, figure in (("kv-share", "value", "kv_share"), ("slow-quantized-kernels", "value", "gain_ratio")):
        command = data[id]["command"].split()
        assert run([*command[1:], "--json"]) in (0, 4)
        technique = json.loads(capsys.readouterr().out)["techniques"][0]
        figures = {one["name"]: one["value"] for one in technique["figures"]} | technique
        assert data[id][key] == pytest.approx(figures[figure], rel=1e-6)


def test_unknown_keys_of_an_observation_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "o.json", '{"effective_batch": 16, "bandwidth_utilization": 0.4, "colour": 1}')
    run([*SMALL, "--observed", path, "--json"])
    out = capsys.readouterr()
    assert "colour: not a key that is known" in out.err
    assert json.loads(out.out)["ignored"] == ["colour"]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    run([*SMALL, "--kv", "fp8", "--signed", "rollback=Jane Doe"])
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= width
    assert " ".join(text.split()).count("________________") >= 20


@pytest.mark.parametrize(("name", "form"), [("checklist_8b_80.txt", "table"), ("checklist_8b_markdown_80.txt", "md")])
def test_golden_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, form: str) -> None:
    """One GPU, so that the page depends on few techniques."""
    arguments = [*SMALL, "--kv", "fp8", "--tpot", "40ms", "--signed", "rollback=Jane Doe", "--format", form]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.argv", ["infopt", *arguments])
    assert run(arguments) == 1
    text = capsys.readouterr().out
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_csv_has_a_row_an_item(capsys: pytest.CaptureFixture[str]) -> None:
    run([*SMALL, "--signed", "rollback=Ann", "--format", "csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 33
    assert next(row for row in rows if row["id"] == "rollback")["signed.by"] == "Ann"


def test_markdown_has_a_box_for_every_item_that_applies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    item = ITEM % 'applies_to: [], command: "echo ``{model}`` <b>"'
    run([*SMALL, "--items", written(tmp_path / "i.yaml", item.replace("text: X", "text: a|b <i>")), "--format", "md"])
    text = capsys.readouterr().out
    data = as_json(capsys, *SMALL)
    assert text.count("- [ ] ") == sum(item["applies"] for item in data["items"]) + 1
    assert "a\\|b &lt;i>" in text
    assert "``` echo ``meta-llama/Llama-3.1-8B`` <b> ```" in text


def test_the_page_has_every_item_and_a_line_to_sign(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    item = ITEM.replace("text: X", "text: <script>alert(1)</script>") % "document: 2"
    target = tmp_path / "c.html"
    files = ("--items", written(tmp_path / "i.yaml", item), "--signed", "rollback=A & B")
    data = as_json(capsys, *SMALL, *files, "--html", str(target))
    page = read_page(target)
    assert page.result == data
    check_figures(page, data)
    items = {attributes["id"]: attributes["class"] for tag, attributes in page.tags if tag == "article"}
    labels = {"pass": "pass", "fail": "fail", "needs-measurement": "open"}
    shown = [one for one in data["items"] if one["applies"] or one["signed"]]
    assert items == {one["id"]: labels[one["status"]] for one in shown}
    unsigned = sum(one["signed"] is None for one in shown)
    assert sum(attributes.get("class") == "blank" for _, attributes in page.tags) == unsigned
    assert "<script>alert(1)</script>" in page.text
    assert "A & B" in page.text
    counts = [row[1] for series in page.charts["counts"]["series"] for row in series["points"]]
    assert sum(counts) == len(data["items"])
    for one in shipped():
        assert one.title in page.text
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".c.html")] == []


def test_numbers_are_printed_in_their_unit() -> None:
    c = checked(with_targets(tpot_s=0.1))
    shown = {entry.item.id: value_words(entry) for entry in c.entries}
    assert shown["memory-budget"].endswith("GiB")
    assert shown["batch-too-large"].endswith("ms")
    assert shown["rollback"] == ""
