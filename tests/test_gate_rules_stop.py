"""Rules about memory, shapes, formats and versions: their fixtures, and what they do where a fact is missing."""

from pathlib import Path

import pytest

from infopt.errors import InfoptError
from infopt.gate.check import Checked, gate
from infopt.gate.models import model_named, without_format
from infopt.gate.policy import Policy, RulePolicy

FIXTURES = Path(__file__).parent / "gate" / "rules"
RULES = [
    "does-not-fit",
    "no-full-request",
    "tight",
    "placement",
    "gpus-granted",
    "flags",
    "unpinned-image",
    "heads-divide",
    "kv-heads-divide",
    "kv-heads-replicated",
    "group-divides",
    "pipeline-uneven",
    "engine-refuses",
    "engine-accepts",
    "context-above-model",
    "batch-budget",
    "dtype-capability",
    "weights-capability",
    "awq-dtype",
    "cache-type",
    "cache-capped",
    "block-size",
    "utilization-high",
    "warmup-logits",
    "graphs-outside-budget",
    "free-memory",
    "host-memory",
    "shm-size",
    "lora-rank",
    "lora-memory",
    "draft-memory",
    "expert-copies",
    "latent-replicated",
    "encoder-memory",
    "quantization-mismatch",
]
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: one}}
spec:
  {extra}
  containers:
    - name: engine
      image: {image}
      args: [{args}]
      env: [{env}]
      resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
"""


def checked(path: Path, policy: Policy | None = None) -> Checked:
    (one,) = gate([str(path)], policy or Policy()).checked
    return one


def pod(
    folder: Path, *args: str, gpu: str | None = "NVIDIA-H100-80GB-HBM3", image: str = "vllm/vllm-openai:v0.19.1",
    gpus: int = 1, env: str = "", policy: Policy | None = None,
) -> Checked:  # fmt: skip
    """A pod that serves with these arguments, checked."""
    extra = f"nodeSelector: {{nvidia.com/gpu.product: {gpu}}}" if gpu else "restartPolicy: Always"
    words = ", ".join(f"'{word}'" for word in args)
    path = folder / "pod.yaml"
    path.write_text(POD.format(extra=extra, image=image, args=words, gpus=gpus, env=env))
    return checked(path, policy)


def said(one: Checked) -> dict[str, str]:
    """Rule -> severity of what was found."""
    return {f.rule: f.severity for f in one.findings}


@pytest.mark.parametrize("rule", RULES)
def test_the_bad_fixture_is_found_and_the_good_one_is_not(rule: str) -> None:
    bad, good = checked(FIXTURES / rule / "bad.yaml"), checked(FIXTURES / rule / "good.yaml")
    assert rule in said(bad)
    assert rule not in said(good)
    assert good.verdict == "pass"


@pytest.mark.parametrize("rule", RULES)
def test_findings_stand_in_a_line_and_say_what_to_do(rule: str) -> None:
    for finding in checked(FIXTURES / rule / "bad.yaml").findings:
        if finding.rule == rule:
            assert finding.line > 1
            assert finding.remedy
            assert "\n" not in finding.message


def test_shapes_are_checked_without_a_device(tmp_path: Path) -> None:
    one = pod(tmp_path, "--model", "Qwen/Qwen2.5-7B-Instruct", "--tensor-parallel-size", "8", gpu=None, gpus=8)
    assert one.verdict == "fail"
    assert said(one)["heads-divide"] == "error"
    assert "placement" not in said(one)


def test_auto_takes_the_longest_that_fits(tmp_path: Path) -> None:
    one = pod(tmp_path, "--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "auto", gpu="NVIDIA-L4")
    assert one.case.shortened_from == 131072
    assert one.case.plan is not None
    assert one.case.plan.fits is True
    assert said(one)["engine-accepts"] == "warning"


def test_a_fixed_cache_takes_the_place_of_utilization(tmp_path: Path) -> None:
    model = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192")
    one = pod(tmp_path, *model, "--kv-cache-memory-bytes", "2G", "--gpu-memory-utilization", "0.5")
    assert one.case.plan is not None
    assert one.case.plan.memory.kv_pool_bytes_per_gpu == pytest.approx(2 * 2**30, rel=0.01)
    assert "utilization-high" not in said(one)


def test_rope_scaling_lengthens_the_model(tmp_path: Path) -> None:
    scaled = '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}'
    long = ("--model", "meta-llama/Meta-Llama-3-8B-Instruct", "--max-model-len", "16384")
    assert said(pod(tmp_path, *long))["context-above-model"] == "error"
    assert "context-above-model" not in said(pod(tmp_path, *long, "--hf-overrides", scaled.replace("'", "")))
    allowed = "{name: VLLM_ALLOW_LONG_MAX_MODEL_LEN, value: '1'}"
    assert said(pod(tmp_path, *long, env=allowed))["context-above-model"] == "warning"


def test_a_checkpoint_type_falls_back_in_newer_versions(tmp_path: Path) -> None:
    args = ("--model", "Qwen/Qwen2.5-3B-Instruct", "--max-model-len", "4096")
    old = pod(tmp_path, *args, gpu="Tesla-T4", image="vllm/vllm-openai:v0.6.6")
    new = pod(tmp_path, *args, gpu="Tesla-T4", image="vllm/vllm-openai:v0.11.0")
    asked = pod(tmp_path, *args, "--dtype", "bfloat16", gpu="Tesla-T4", image="vllm/vllm-openai:v0.11.0")
    assert [said(one).get("dtype-capability") for one in (old, new, asked)] == ["error", None, "error"]


def test_cache_of_8_bit_on_older_devices_depends_on_the_version(tmp_path: Path) -> None:
    args = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192", "--kv-cache-dtype", "fp8")
    for version, asked, found in (
        ("0.7.3", "1", None),
        ("0.9.2", "1", "error"),
        ("0.9.2", "0", "warning"),  # V0 may be started for it
        ("0.11.0", "1", None),
    ):
        env = f"{{name: VLLM_USE_V1, value: '{asked}'}}"
        one = pod(tmp_path, *args, gpu="NVIDIA-A100-SXM4-80GB", image=f"vllm/vllm-openai:v{version}", env=env)
        assert said(one).get("engine-refuses") == found, version


@pytest.mark.parametrize("version", ["0.13.0", "0.17.1", "0.19.1"])
def test_other_versions_compare_each_stage_with_its_own_cache(tmp_path: Path, version: str) -> None:
    args = ("--model", "meta-llama/Llama-3.3-70B-Instruct", "--pipeline-parallel-size", "4")
    one = pod(tmp_path, *args, gpu="NVIDIA-A100-SXM4-80GB", gpus=4, image=f"vllm/vllm-openai:v{version}")
    assert "engine-refuses" not in said(one)


def test_a_partition_of_layers_is_added_up(tmp_path: Path) -> None:
    args = ("--model", "meta-llama/Llama-3.3-70B-Instruct", "--pipeline-parallel-size", "4", "--max-model-len", "8192")
    wrong = pod(tmp_path, *args, gpus=4, env="{name: VLLM_PP_LAYER_PARTITION, value: '20,20,20,19'}")
    right = pod(tmp_path, *args, gpus=4, env="{name: VLLM_PP_LAYER_PARTITION, value: '21,21,20,18'}")
    assert said(wrong)["pipeline-uneven"] == "error"
    assert "pipeline-uneven" not in said(right)


def test_a_rank_nobody_knows_says_nothing_and_the_policy_can_say_it(tmp_path: Path) -> None:
    args = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192", "--enable-lora")
    modules = (*args, "--lora-modules", "support=/adapters/support")
    assert "lora-rank" not in said(pod(tmp_path, *modules))
    known = Policy(rules={"lora-rank": RulePolicy(parameters={"ranks": {"support": 32}})})
    assert said(pod(tmp_path, *modules, policy=known))["lora-rank"] == "error"


def test_a_draft_is_counted_with_its_weights_and_cache(tmp_path: Path) -> None:
    args = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "24000")
    draft = '{"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 3}'
    alone, beside = (pod(tmp_path, *args, *more, gpu="NVIDIA-L4") for more in ((), ("--speculative-config", draft)))
    assert alone.verdict == "pass"
    assert beside.verdict == "fail"
    assert said(beside)["draft-memory"] == "error"


def test_weights_left_in_host_memory_make_room(tmp_path: Path) -> None:
    args = ("--model", "mistralai/Mistral-Small-24B-Instruct-2501", "--max-model-len", "8192")
    alone, offloaded = (pod(tmp_path, *args, *more, gpu="NVIDIA-L4") for more in ((), ("--cpu-offload-gb", "36")))
    assert alone.verdict == "fail"
    assert offloaded.verdict == "pass"


def test_names_that_promise_fewer_bits(tmp_path: Path) -> None:
    args = ("--model", "Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "8192", "--served-model-name")
    assert said(pod(tmp_path, *args, "qwen-7b-awq"))["quantization-mismatch"] == "warning"
    assert "quantization-mismatch" not in said(pod(tmp_path, *args, "qwen-7b"))


def test_a_folder_is_in_the_format_that_an_option_says(tmp_path: Path) -> None:
    def served(model: str, method: str) -> Checked:
        return pod(tmp_path, "--model", model, "--max-model-len", "8192", "--quantization", method, gpu="NVIDIA-L4")

    folder = served("/models/Qwen2.5-14B-Instruct", "awq")
    assert folder.verdict == "pass"
    stored = folder.case.model.quantization if folder.case.model is not None else None
    assert stored is not None
    assert stored.format == "int4_awq"
    assert said(served("Qwen/Qwen2.5-14B-Instruct", "awq"))["quantization-mismatch"] == "error"
    assert served("/models/Qwen2.5-14B-Instruct", "compressed-tensors").verdict == "undetermined"


@pytest.mark.parametrize(("model", "sure"), [("Qwen/Qwen3-8B", "certain"), ("/models/Qwen3-8B", "likely")])
def test_a_folder_may_say_more_positions_than_its_name(tmp_path: Path, model: str, sure: str) -> None:
    one = pod(tmp_path, "--model", model, "--max-model-len", "90000", gpu="NVIDIA-L4")
    assert [hit.confidence for hit in one.findings if hit.rule == "context-above-model"] == [sure]


def test_ipc_of_the_host_has_no_small_shared_memory(tmp_path: Path) -> None:
    text = (FIXTURES / "shm-size" / "bad.yaml").read_text()
    path = tmp_path / "shared.yaml"
    path.write_text(text.replace("    spec:\n", "    spec:\n      hostIPC: true\n", 1))
    assert "shm-size" not in said(checked(path))


@pytest.mark.parametrize(
    ("name", "model", "weights"),
    [
        ("modelscope/Qwen2.5-72B-Instruct-AWQ", "Qwen/Qwen2.5-72B-Instruct-AWQ", "int4_awq"),
        ("TheBloke/Llama-2-70B-GPTQ", "meta-llama/Llama-2-70b-hf", "int4_gptq"),
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8", "meta-llama/Llama-3.1-70B", "fp8"),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", "meta-llama/Llama-3.3-70B-Instruct", "nvfp4"),
        ("unsloth/DeepSeek-R1-BF16", "deepseek-ai/DeepSeek-R1", None),
        ("hf://Qwen/Qwen3-8B", "Qwen/Qwen3-8B", None),
        ("/models/Qwen3-32B", "Qwen/Qwen3-32B", None),
        ("/cache/hub/models--Qwen--Qwen3-8B/snapshots/0a1b", "Qwen/Qwen3-8B", None),
        ("s3://bucket/models/Llama-3.1-70B-Instruct/", "meta-llama/Llama-3.1-70B", None),
        ("bartowski/Llama-3.3-70B-Instruct-GGUF:Q4_K_M", "meta-llama/Llama-3.3-70B-Instruct", "q4_k_m"),
    ],
)
def test_a_name_tells_the_model_and_its_format(name: str, model: str, weights: str | None) -> None:
    named = model_named(name)
    stored = named.model.quantization
    assert named.model.id == model
    assert (stored.format if stored is not None else None) == weights
    assert named.assumed


@pytest.mark.parametrize("name", ["acme/secret-13b", "/mnt/models", "Qwen/Qwen-14B", "llama", "s3://bucket/weights/"])
def test_a_name_that_tells_nothing_is_no_model(name: str) -> None:
    with pytest.raises(InfoptError, match=r"--model|several"):
        model_named(name)


def test_nothing_a_deployment_names_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "org" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InfoptError, match="not in the catalogue"):
        model_named("org/tiny")


def test_a_format_at_the_end_of_a_name() -> None:
    assert without_format("Llama-3.1-8B-Instruct") == ("Llama-3.1-8B-Instruct", None)
    assert without_format("x/Meta-Llama-3.1-70B-Instruct-AWQ-INT4") == ("x/Meta-Llama-3.1-70B-Instruct", "int4_awq")


H200 = "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}"
TGI = "ghcr.io/huggingface/text-generation-inference:2.3.1"


def test_the_launcher_of_tgi_compares_its_budgets(tmp_path: Path) -> None:
    args = ("--model-id", "meta-llama/Llama-3.1-8B-Instruct", "--max-input-tokens", "4096")
    for more, found in (
        (("--max-total-tokens", "4096"), "error"),
        (("--max-total-tokens", "8192", "--max-batch-total-tokens", "4096"), "error"),
        (("--max-total-tokens", "8192", "--max-batch-prefill-tokens", "2048"), "error"),
        (("--max-total-tokens", "8192", "--max-batch-total-tokens", "16384"), None),
    ):
        assert said(pod(tmp_path, *args, *more, image=TGI)).get("batch-budget") == found, more


def test_tgi_takes_every_device_and_a_share_of_what_is_free(tmp_path: Path) -> None:
    args = ("--model-id", "meta-llama/Llama-3.3-70B-Instruct", "--quantize", "bitsandbytes-nf4")
    one = pod(tmp_path, *args, "--max-total-tokens", "4096", image=TGI, gpu="NVIDIA-L4", gpus=2)
    assert one.case.placed.tp == 2
    assert one.case.plan is not None
    assert one.case.plan.scenario.utilization == pytest.approx(0.9)
    assert one.verdict == "pass"
    assert said(one)["tight"] == "warning"


def test_replicas_of_vllm_cut_experts_over_all_devices(tmp_path: Path) -> None:
    args = ("--model", "Qwen/Qwen3-30B-A3B-FP8", "--max-model-len", "8192", "--data-parallel-size", "4")
    assert said(pod(tmp_path, *args, gpus=4))["group-divides"] == "error"
    assert "group-divides" not in said(pod(tmp_path, *args, "--enable-expert-parallel", gpus=4))


def test_attention_replicas_inside_tp_take_no_devices(tmp_path: Path) -> None:
    serve = "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --context-length 16384 --tp-size 8"
    for more, replicas in (("", 1), (" --dp-size 8 --enable-dp-attention", 8)):
        text = POD.format(
            extra=H200, image="lmsysorg/sglang:v0.5.5", args="", env="",
            gpus=8,
        ).replace("args: []", f"command: ['sh', '-c', '{serve}{more}']")  # fmt: skip
        path = tmp_path / "pod.yaml"
        path.write_text(text)
        one = checked(path)
        assert one.case.needed == 8
        assert one.case.plan is not None
        assert one.case.plan.scenario.dp == replicas
        assert one.case.plan.scenario.expert_shards == 8
        assert one.verdict == "pass"


def test_a_second_cache_is_sized_by_the_first(tmp_path: Path) -> None:
    serve = ["python3", "-m", "sglang.launch_server", "--model-path", "meta-llama/Llama-3.1-8B-Instruct"]
    text = POD.format(
        extra="nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}",
        image="lmsysorg/sglang:v0.5.5",
        args="",
        env="",
        gpus=1,
    ).replace("args: []", f"command: {[*serve, '--context-length', '8192', '--enable-hierarchical-cache']}")
    path = tmp_path / "pod.yaml"
    path.write_text(text.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 1, memory: 128Gi"))
    one = checked(path)
    (found,) = [f for f in one.findings if f.rule == "host-memory"]
    assert found.severity == "error"
    assert "2 x the device's" in found.detail


def test_the_wider_of_two_cache_types_counts(tmp_path: Path) -> None:
    args = ("-hf", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M", "-c", "8192", "-fa", "on")
    image = "ghcr.io/ggml-org/llama.cpp:server-cuda-b8500"
    one, both = (
        pod(tmp_path, *args, "-ctk", "q8_0", *more, image=image, gpu="NVIDIA-L4") for more in ((), ("-ctv", "q8_0"))
    )
    assert one.case.plan is not None
    assert both.case.plan is not None
    assert (one.case.plan.scenario.kv_format, both.case.plan.scenario.kv_format) == ("fp16", "q8_0")


def test_a_format_nobody_described_is_unknown_and_no_failure(tmp_path: Path) -> None:
    args = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192", "--quantization", "torchao")
    one = pod(tmp_path, *args)
    assert one.verdict == "undetermined"
    assert "memory" in {u.fact for u in one.case.unknown}
    assert "placement" not in said(one)


@pytest.mark.parametrize("number", ["0", "-3", "1000000000", "99999999999999999999", "9" * 5000, "\u00b2"])
@pytest.mark.parametrize(
    "flag", ["--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--max-model-len",
             "--block-size", "--max-num-seqs", "--max-lora-rank", "--max-loras", "--num-gpu-blocks-override",
             "--cpu-offload-gb"],
)  # fmt: skip
def test_no_number_breaks_a_rule(tmp_path: Path, flag: str, number: str) -> None:
    args = ("--model", "Qwen/Qwen3-30B-A3B-FP8", "--enable-lora", flag, number)
    one = pod(tmp_path, *args, env="{name: VLLM_PP_LAYER_PARTITION, value: '\u00b2,3'}")
    assert one.verdict in ("pass", "fail", "undetermined")


@pytest.mark.parametrize(
    "said", ['{"model": 7}', '{"method": []}', '{"num_speculative_tokens": "x", "model": "ngram"}', "[]"]
)
def test_no_draft_breaks_a_rule(tmp_path: Path, said: str) -> None:
    args = ("--model", "Qwen/Qwen3-8B", "--max-model-len", "8192", "--speculative-config", said)
    assert pod(tmp_path, *args).verdict in ("pass", "fail", "undetermined")
