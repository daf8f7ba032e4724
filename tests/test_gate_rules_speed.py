"""Rules about speed and money: fixtures of every rule, their numbers against the ledgers, and where they keep still."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infopt.boundaries.kv_offload import link_bytes_per_s
from infopt.boundaries.prefix_reuse import reuse_of
from infopt.gate.case import Case
from infopt.gate.check import Checked, gate
from infopt.gate.drafts import draft_of, drafting_case
from infopt.gate.finding import Finding
from infopt.gate.policy import Margins, Policy, RulePolicy, Targets, Workload
from infopt.gate.policy_file import read_policy
from infopt.gate.rules.registry import rule
from infopt.gate.situations import running_of, situation_of, tpot_seconds, ttft_seconds
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.offload import weights_step_s
from infopt.ledgers.speculation import tokens_per_cycle_at_rate

RULES = Path(__file__).parent / "gate" / "rules"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "configs"
IDS = (
    "batch-budget-large", "batch-budget-small", "chunked-prefill-off", "cold-start", "concurrency-above-memory",
    "context-above-workload", "context-below-workload", "cost-target", "draft-scheduling", "draft-too-long",
    "eager-cost", "goodput-target", "idle-devices", "idle-replicas", "kv-offload-slow", "kv-quantization-slow",
    "kv-quantization-small", "max-num-seqs-above-memory", "max-num-seqs-below-memory", "pipeline-in-machine",
    "prefix-block-too-long", "prefix-caching-off", "prefix-caching-useless", "rate-above-saturation",
    "speculative-at-concurrency", "tp-not-needed", "tp-over-nodes", "tp-over-pcie", "tpot-target", "ttft-target",
    "weight-quantization-slow", "weights-offloaded",
)  # fmt: skip
# Rules that say nothing of a file alone: they need what the policy says of the load or the targets.
NEED_POLICY = tuple(id for id in IDS if (RULES / id / "infopt.yaml").is_file())
EIGHT_B = "meta-llama/Llama-3.1-8B-Instruct"


def fixture(id: str, kind: str, policy: Policy | None = None) -> Checked:
    """The deployment of a rule's fixture under its own policy, or another."""
    own = RULES / id / "infopt.yaml"
    used = policy if policy is not None else read_policy(own) if own.is_file() else Policy()
    (checked,) = gate([str(RULES / id / f"{kind}.yaml")], used).checked
    return checked


def made(
    arguments: Sequence[str],
    policy: Policy | None = None,
    gpu: str = "NVIDIA-H100-80GB-HBM3",
    count: int = 1,
    image: str = "vllm/vllm-openai:v0.15.1",
    replicas: int = 1,
) -> Checked:
    """A deployment of these arguments."""
    lines = "\n".join(f"            - '{argument}'" for argument in arguments)
    text = f"""apiVersion: apps/v1
kind: Deployment
metadata: {{name: made}}
spec:
  replicas: {replicas}
  template:
    spec:
      nodeSelector: {{nvidia.com/gpu.product: {gpu}}}
      containers:
        - name: server
          image: {image}
          args:
{lines}
          resources: {{limits: {{nvidia.com/gpu: {count}}}}}
"""
    (checked,) = gate(["-"], policy or Policy(), standard_input=text).checked
    return checked


def of_rule(checked: Checked, id: str) -> Finding | None:
    return next((finding for finding in checked.findings if finding.rule == id), None)


def load(**given: Any) -> Policy:
    return Policy(workload=Workload(**given))


@pytest.mark.parametrize("id", IDS)
def test_the_bad_fixture_is_found_with_a_number(id: str) -> None:
    found = of_rule(fixture(id, "bad"), id)
    assert found is not None
    assert re.search(r"\d", found.message) or id == "prefix-caching-useless"
    assert found.remedy
    assert found.severity in ("error", "warning", "note")


@pytest.mark.parametrize("id", IDS)
def test_the_good_fixture_passes_it(id: str) -> None:
    checked = fixture(id, "good")
    assert checked.case.plan is not None
    assert checked.case.plan.fits is not False
    assert of_rule(checked, id) is None


@pytest.mark.parametrize("id", NEED_POLICY)
def test_without_a_policy_nothing_is_made_up(id: str) -> None:
    assert of_rule(fixture(id, "bad", Policy()), id) is None


@pytest.mark.parametrize("id", IDS)
def test_a_rule_can_be_switched_off(id: str) -> None:
    own = RULES / id / "infopt.yaml"
    policy = read_policy(own) if own.is_file() else Policy()
    off = policy.model_copy(update={"rules": {id: RulePolicy(severity="off")}})
    assert of_rule(fixture(id, "bad", off), id) is None


@pytest.mark.parametrize("id", IDS)
def test_parameters_are_numbers_a_policy_can_set(id: str) -> None:
    assert all(isinstance(value, int | float) for value in rule(id).parameters.values())


def test_a_missed_target_fails_and_a_straddled_one_warns() -> None:
    workload = {"input_tokens": 1000, "output_tokens": 200, "concurrency": 8}
    arguments = [f"--model={EIGHT_B}", "--max-model-len=8192"]
    case = made(arguments, load(**workload)).case
    situation = running_of(case)
    assert situation is not None
    seconds = tpot_seconds(situation)
    assert seconds.measured
    assert seconds.low < seconds.value < seconds.high

    def at(target_s: float, margin: float | None = None) -> Checked:
        policy = Policy(
            workload=Workload(**workload), targets=Targets(tpot_s=target_s), margins=Margins(latency_share=margin)
        )
        return made(arguments, policy)

    missed, unsure = at(0.99 * seconds.low), at(0.5 * (seconds.low + seconds.value))
    assert of_rule(missed, "tpot-target").severity == "error"  # type: ignore[union-attr]
    assert missed.verdict == "fail"
    found = of_rule(unsure, "tpot-target")
    assert found is not None
    assert (found.severity, found.confidence) == ("warning", "possible")
    assert unsure.verdict == "pass"
    assert of_rule(at(1.01 * seconds.value), "tpot-target") is None
    assert of_rule(at(1.01 * seconds.value, margin=0.1), "tpot-target") is not None


def test_times_without_measurements_are_floors() -> None:
    case = made(
        [f"--model={EIGHT_B}", "--max-model-len=4096"],
        load(input_tokens=1000, output_tokens=200, concurrency=4),
        gpu="NVIDIA-L4",
    ).case
    situation = running_of(case)
    assert situation is not None
    assert situation.steps.basis != "estimate"
    tpot, ttft = tpot_seconds(situation), ttft_seconds(situation)
    assert not tpot.measured
    assert tpot.low == pytest.approx(situation.steps.floor_s(4, 1100, 4))
    assert situation.compute.ttft_floor_s is not None
    assert ttft.low == pytest.approx(situation.compute.ttft_floor_s)
    assert ttft.value >= ttft.low


def test_the_load_is_divided_over_the_replicas_of_the_file() -> None:
    arguments = [f"--model={EIGHT_B}", "--max-model-len=8192"]
    policy = load(input_tokens=1000, output_tokens=200, concurrency=40)
    one, four = (situation_of(made(arguments, policy, replicas=n).case) for n in (1, 4))
    assert one is not None
    assert four is not None
    assert (one.scenario.batch, four.scenario.batch) == (40, 10)


def test_a_rate_keeps_sequences_by_littles_law() -> None:
    arguments = [f"--model={EIGHT_B}", "--max-model-len=8192"]
    slow, fast = (
        situation_of(made(arguments, load(input_tokens=1000, output_tokens=200, rate_per_s=rate)).case)
        for rate in (1.0, 8.0)
    )
    assert slow is not None
    assert fast is not None
    assert slow.scenario.batch < fast.scenario.batch
    stays_s = fast.scenario.output_tokens * fast.tpot_s() + fast.steps.prompt_s(1000)
    assert fast.scenario.batch == pytest.approx(8.0 * stays_s, rel=0.3)


def test_offloaded_weights_are_bytes_over_the_link() -> None:
    checked = made([f"--model={EIGHT_B}", "--max-model-len=4096", "--cpu-offload-gb=8"])
    found = of_rule(checked, "weights-offloaded")
    assert found is not None
    assert checked.case.plan is not None
    seconds = weights_step_s(8 * 2**30, link_bytes_per_s(checked.case.plan.scenario))
    assert f"{1e3 * seconds:.0f}"[:2] in found.message
    assert "the model fits without" in found.message


def test_offload_that_is_needed_is_not_called_needless() -> None:
    arguments = ["--model=meta-llama/Llama-3.1-70B-Instruct", "--max-model-len=4096", "--cpu-offload-gb=80"]
    found = of_rule(made(arguments), "weights-offloaded")
    assert found is not None
    assert "fits without" not in found.message


def test_a_coherent_host_link_is_no_pcie() -> None:
    arguments = ["--model=meta-llama/Llama-3.1-70B-Instruct", "--max-model-len=4096", "--cpu-offload-gb=60"]
    seconds = {}
    for gpu in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-GH200-480GB"):
        case = made(arguments, gpu=gpu).case
        assert case.plan is not None
        seconds[gpu] = weights_step_s(60 * 2**30, link_bytes_per_s(case.plan.scenario))
    assert seconds["NVIDIA-GH200-480GB"] < 0.2 * seconds["NVIDIA-H100-80GB-HBM3"]


def test_of_a_mixture_only_hit_experts_are_brought() -> None:
    # vllm-project/vllm issue 22692: 16 GiB at 25 GB/s would be 0.69 s a step, 6.4 tokens/s were seen.
    found = of_rule(fixture("weights-offloaded", "bad"), "weights-offloaded")
    assert found is not None
    assert re.search(r"host: \d+\.\d ms over PCIe", found.message)


def test_hits_are_whole_blocks() -> None:
    checked = fixture("prefix-block-too-long", "bad")
    situation = situation_of(checked.case)
    assert situation is not None
    reuse = reuse_of(situation)
    assert reuse is not None
    assert reuse.block_tokens > 400
    assert reuse.whole_tokens == 0
    enough = load(input_tokens=4000, output_tokens=200, shared_prefix_tokens=2 * reuse.block_tokens + 10)
    assert of_rule(fixture("prefix-block-too-long", "bad", enough), "prefix-block-too-long") is None


@pytest.mark.parametrize(
    ("image", "arguments", "off"),
    [
        ("vllm/vllm-openai:v0.6.6", [], True),
        ("vllm/vllm-openai:v0.6.6", ["--enable-prefix-caching"], False),
        ("vllm/vllm-openai:v0.15.1", [], False),
        ("vllm/vllm-openai:v0.15.1", ["--no-enable-prefix-caching"], True),
    ],
)
def test_a_prefix_cache_is_off_by_option_or_version(image: str, arguments: list[str], off: bool) -> None:
    policy = load(input_tokens=4000, output_tokens=200, concurrency=8, shared_prefix_tokens=3000)
    checked = made([f"--model={EIGHT_B}", "--max-model-len=8192", *arguments], policy, image=image)
    assert (of_rule(checked, "prefix-caching-off") is not None) is off


def test_tensor_parallelism_that_is_needed_is_not_complained_of() -> None:
    arguments = ["--model=meta-llama/Llama-3.1-70B-Instruct", "--max-model-len=8192", "--tensor-parallel-size=4"]
    assert of_rule(made(arguments, count=4), "tp-not-needed") is None


def test_tensor_parallelism_for_a_target_that_one_device_misses_is_kept() -> None:
    arguments = [f"--model={EIGHT_B}", "--max-model-len=8192", "--tensor-parallel-size=2"]
    policy = Policy(
        workload=Workload(input_tokens=1000, output_tokens=200, concurrency=2), targets=Targets(tpot_s=0.006)
    )
    assert of_rule(made(arguments, policy, count=2), "tp-not-needed") is None
    assert of_rule(made(arguments, count=2), "tp-not-needed") is not None  # nothing is known of a target


def test_tensor_parallelism_inside_a_link_domain_is_no_matter_of_pods() -> None:
    text = (RULES / "tp-over-nodes" / "bad.yaml").read_text(encoding="utf-8")
    text = text.replace("NVIDIA-H100-80GB-HBM3", "NVIDIA-GB200").replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 4")
    text = text.replace("tensor-parallel-size=16", "tensor-parallel-size=8")
    (checked,) = gate(["-"], Policy(), standard_input=text).checked
    assert checked.case.device is not None
    assert of_rule(checked, "tp-over-nodes") is None
    unknown = text.replace("nvidia.com/gpu.product: NVIDIA-GB200", "disk: fast")
    (checked,) = gate(["-"], Policy(), standard_input=unknown).checked
    assert of_rule(checked, "tp-over-nodes") is not None


def draft(method: str, tokens: int, model: str = "") -> str:
    beside = f', "model": "{model}"' if model else ""
    return f'--speculative-config={{"method": "{method}", "num_speculative_tokens": {tokens}{beside}}}'


def speedup(case: Case, acceptance: float) -> float:
    situation, asked = running_of(case), draft_of(case)
    assert situation is not None
    assert asked is not None
    assert asked.drafted_tokens is not None
    arithmetic = drafting_case(situation.changed(load=replace(situation.load, draft=asked)))
    assert arithmetic is not None
    return arithmetic.speedup(asked.drafted_tokens, tokens_per_cycle_at_rate(acceptance, asked.drafted_tokens))


def test_one_drafted_token_pays_where_thirty_two_lose() -> None:
    # vllm-project/vllm pull 24343: Llama-3.1-8B on A100, EAGLE: 1.32x with one, 0.66x with 32.
    base = [f"--model={EIGHT_B}", "--max-model-len=8192"]
    one, many = (
        made([*base, draft("eagle", tokens, "some/eagle-head")], gpu="NVIDIA-A100-SXM4-40GB") for tokens in (1, 32)
    )
    assert of_rule(one, "draft-too-long") is None
    found = of_rule(many, "draft-too-long")
    assert found is not None
    assert found.severity == "warning"
    assert speedup(one.case, 0.63) > 1.1
    assert speedup(many.case, 0.54) < 1.0


def test_the_batch_that_is_named_is_where_drafts_stop_paying() -> None:
    checked = fixture("speculative-at-concurrency", "bad")
    found = of_rule(checked, "speculative-at-concurrency")
    assert found is not None
    turn = int(re.search(r"up to (\d+) sequences", found.message).group(1))  # type: ignore[union-attr]
    policy = load(input_tokens=1000, output_tokens=500, concurrency=turn)
    below = fixture("speculative-at-concurrency", "bad", policy)
    assert of_rule(below, "speculative-at-concurrency") is None
    assert speedup(below.case, 0.5) >= 1.1
    beyond = load(input_tokens=1000, output_tokens=500, concurrency=turn + 2)
    assert speedup(fixture("speculative-at-concurrency", "bad", beyond).case, 0.5) < 1.1


@pytest.mark.parametrize(("version", "lost"), [("v0.12.0", False), ("v0.15.1", True)])
def test_scheduling_ahead_is_given_up_by_version(version: str, lost: bool) -> None:
    arguments = [f"--model={EIGHT_B}", "--max-model-len=8192", draft("ngram", 4)]
    checked = made(arguments, image=f"vllm/vllm-openai:{version}")
    assert (of_rule(checked, "draft-scheduling") is not None) is lost


def test_what_a_method_is_called_decides_only_where_it_is_known() -> None:
    base = [f"--model={EIGHT_B}", "--max-model-len=8192"]
    methods = {
        name: (one := draft_of(made([*base, draft(name, 3, "some/head")]).case)) and one.method
        for name in ("ngram", "eagle3", "medusa", "dflash")
    }
    assert methods == {"ngram": "ngram", "eagle3": "eagle", "medusa": "medusa", "dflash": None}
    beside = draft_of(made([*base, draft("draft_model", 3, "meta-llama/Llama-3.2-1B-Instruct")]).case)
    assert beside is not None
    assert beside.scenario is not None
    assert draft_of(made([*base, draft("draft_model", 3, "nobody/knows-this")]).case) is None


def test_the_length_limit_of_the_workload_fits_as_it_says() -> None:
    checked = fixture("context-above-workload", "bad")
    found = of_rule(checked, "context-above-workload")
    assert found is not None
    assert checked.case.plan is not None
    shorter = replace(checked.case.plan.scenario, context_tokens=3072)
    assert memory_ledger(shorter).max_sequences > 0
    assert "3,072" in found.remedy


def test_answers_that_end_early_are_told_from_refused_prompts() -> None:
    arguments = [f"--model={EIGHT_B}", "--max-model-len=4096"]
    cut = of_rule(made(arguments, load(input_tokens=4000, output_tokens=500)), "context-below-workload")
    refused = of_rule(made(arguments, load(input_tokens=4096, output_tokens=500)), "context-below-workload")
    assert cut is not None
    assert refused is not None
    assert "answers end after 96 tokens" in cut.message
    assert "refused" in refused.message


def test_a_limit_below_the_load_is_a_warning_and_one_that_is_not_reached_is_none() -> None:
    arguments = [f"--model={EIGHT_B}", "--max-model-len=4096", "--max-num-seqs=4"]
    busy = load(input_tokens=1000, output_tokens=200, concurrency=32)
    quiet = load(input_tokens=1000, output_tokens=200, concurrency=4)
    found = of_rule(made(arguments, busy), "max-num-seqs-below-memory")
    assert found is not None
    assert (found.severity, "28 wait" in found.message) == ("warning", True)
    assert of_rule(made(arguments, quiet), "max-num-seqs-below-memory") is None


def test_the_replicas_that_are_named_hold_the_rate() -> None:
    found = of_rule(fixture("rate-above-saturation", "bad"), "rate-above-saturation")
    assert found is not None
    needed = int(re.search(r"at least (\d+) replicas", found.remedy).group(1))  # type: ignore[union-attr]
    policy = load(input_tokens=4000, output_tokens=500, rate_per_s=40.0)
    arguments = [f"--model={EIGHT_B}", "--max-model-len=8192"]
    assert of_rule(made(arguments, policy, replicas=needed), "rate-above-saturation") is None
    assert of_rule(made(arguments, policy, replicas=needed - 1), "rate-above-saturation") is not None


def test_what_is_cached_of_prompts_shortens_the_first_token() -> None:
    arguments = [f"--model={EIGHT_B}", "--max-model-len=8192"]
    known = {"input_tokens": 4000, "output_tokens": 200, "concurrency": 4}
    plain, shared = (
        running_of(made(arguments, load(**known, shared_prefix_tokens=tokens)).case) for tokens in (0, 3200)
    )
    assert plain is not None
    assert shared is not None
    assert shared.cached_tokens == 3200
    assert ttft_seconds(shared).value < 0.6 * ttft_seconds(plain).value


def test_speculation_is_not_held_against_a_target_it_may_meet() -> None:
    base = [f"--model={EIGHT_B}", "--max-model-len=8192"]
    policy = Policy(workload=Workload(input_tokens=1000, output_tokens=200), targets=Targets(tpot_s=0.004))
    assert of_rule(made(base, policy), "tpot-target") is not None
    assert of_rule(made([*base, draft("eagle", 4, "some/eagle-head")], policy), "tpot-target") is None
    hopeless = policy.model_copy(update={"targets": Targets(tpot_s=0.0002)})
    assert of_rule(made([*base, draft("eagle", 4, "some/eagle-head")], hopeless), "tpot-target") is not None


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/configs")
@pytest.mark.parametrize(
    ("file", "id"),
    [("C06", "tp-over-pcie"), ("C84", "tp-not-needed"), ("C19", "tp-over-nodes"), ("C22", "tp-over-nodes")],
)
def test_the_warnings_that_real_files_are_due(file: str, id: str) -> None:
    (path,) = SHARED.glob(f"{file}__*")
    found = [of_rule(checked, id) for checked in gate([str(path)], Policy()).checked]
    assert found
    assert all(one is not None and one.severity == "warning" for one in found)


def test_a_latent_cache_is_divided_by_attention_in_replicas() -> None:
    # vllm-project/vllm issue 51454: tensor parallelism copies it on every rank.
    arguments = ["--model=deepseek-ai/DeepSeek-R1", "--max-model-len=8192", "--tensor-parallel-size=8"]
    policy = load(input_tokens=7000, output_tokens=1000, concurrency=256)
    found = of_rule(made(arguments, policy, gpu="NVIDIA-H200", count=8), "concurrency-above-memory")
    assert found is not None
    held = int(re.search(r"memory holds (\d+)", found.message).group(1))  # type: ignore[union-attr]
    apart = int(re.search(r"over all devices, holds ([\d,]+)", found.remedy).group(1))  # type: ignore[union-attr]
    assert apart > 4 * held


def test_what_a_prefix_cache_gains_depends_on_the_rate() -> None:
    # vllm-project/vllm pull 1983: below saturation only the first token comes sooner.
    arguments = [f"--model={EIGHT_B}", "--max-model-len=8192", "--no-enable-prefix-caching"]
    lengths = {"input_tokens": 4000, "output_tokens": 100, "shared_prefix_tokens": 3500}
    slow, fast = (
        of_rule(made(arguments, load(**lengths, rate_per_s=rate)), "prefix-caching-off") for rate in (0.5, 60.0)
    )
    assert slow is not None
    assert fast is not None
    assert "below saturation throughput stays as it is" in slow.message
    assert "saturated at" in fast.message


@pytest.mark.parametrize(
    ("model", "severity"), [("google/gemma-7b-it", "warning"), ("Qwen/Qwen2.5-14B-Instruct", "note")]
)
def test_pcie_is_a_warning_where_one_device_holds_the_weights(model: str, severity: str) -> None:
    arguments = [f"--model={model}", "--max-model-len=8192", "--tensor-parallel-size=2"]
    found = of_rule(made(arguments, gpu="NVIDIA-L4", count=2), "tp-over-pcie")
    assert found is not None
    assert found.severity == severity


def test_an_engine_planned_by_the_record_of_another_is_not_given_its_habits() -> None:
    policy = load(input_tokens=4000, output_tokens=200, concurrency=8, shared_prefix_tokens=3000)
    image = "ghcr.io/huggingface/text-generation-inference:2.3.0"
    checked = made([f"--model-id={EIGHT_B}", "--max-total-tokens=8192"], policy, image=image)
    assert checked.case.plan is not None
    for id in ("prefix-caching-off", "prefix-block-too-long", "cold-start", "eager-cost", "weight-quantization-slow"):
        assert of_rule(checked, id) is None


def test_a_cache_that_a_full_request_needs_smaller_is_not_called_needless() -> None:
    policy = load(input_tokens=1000, output_tokens=200, concurrency=2)
    arguments = [f"--model={EIGHT_B}", "--kv-cache-dtype=fp8"]
    short = made([*arguments, "--max-model-len=8192"], policy, gpu="NVIDIA-L4")
    needed = made([*arguments, "--max-model-len=40000"], policy, gpu="NVIDIA-L4")
    assert of_rule(short, "kv-quantization-small") is not None
    assert needed.case.plan is not None
    assert needed.case.plan.fits is not False
    assert of_rule(needed, "kv-quantization-small") is None


def test_the_files_own_limit_is_a_hint_where_no_load_is_given() -> None:
    arguments = [f"--model={EIGHT_B}", "--max-model-len=1024", draft("ngram", 8)]
    found = of_rule(made([*arguments, "--max-num-seqs=256"]), "speculative-at-concurrency")
    assert found is not None
    assert (found.severity, found.confidence) == ("note", "possible")
    assert of_rule(made(arguments), "speculative-at-concurrency") is None


@pytest.mark.parametrize(("connector", "found"), [("OffloadingConnector", True), ("NixlConnector", False)])
def test_a_connector_that_offloads_is_told_from_one_that_hands_over(connector: str, found: bool) -> None:
    transfer = f'--kv-transfer-config={{"kv_connector": "{connector}", "kv_role": "kv_both"}}'
    checked = made([f"--model={EIGHT_B}", "--max-model-len=4096", transfer], load(input_tokens=200, output_tokens=200))
    assert (of_rule(checked, "kv-offload-slow") is not None) is found
