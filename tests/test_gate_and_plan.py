"""The gate and `infopt plan` are one answer: what a file asks for, asked of the planner, fits or does not alike."""

from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.boundaries.situation import Situation
from infopt.errors import InfoptError
from infopt.gate.check import Checked, gate
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides
from infopt.hardware.names import resolve_hardware
from infopt.profiles.catalogue import load_catalogue_model
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.3-70B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-32B",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V2-Lite",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
    "ibm-granite/granite-4.0-h-small",
    "mistralai/Mixtral-8x7B-v0.1",
)
DEVICES = ("l4", "l40s", "a100-40gb", "a100-80gb", "h100", "h200", "b200", "mi300x")
OF_MEMORY = {"does-not-fit", "no-full-request"}
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: server}}
spec:
  containers:
    - name: engine
      image: vllm/vllm-openai:v{version}
      args: [{words}]
      resources: {{limits: {{nvidia.com/gpu: "{devices}"}}}}
"""


def checked(words: list[str], version: str, devices: int, gpu: str) -> Checked:
    text = POD.format(words=", ".join(f'"{word}"' for word in words), version=version, devices=devices)
    (one,) = gate(["-"], Policy(), Overrides(gpu=gpu), standard_input=text).checked
    return one


@settings(max_examples=120)
@given(
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(DEVICES),
    tp=st.sampled_from((1, 2, 4, 8)),
    pp=st.sampled_from((1, 1, 2)),
    context_tokens=st.integers(9, 17).map(lambda power: 2**power),
    utilization=st.sampled_from((None, 0.8, 0.95)),
    kv=st.sampled_from((None, "fp8")),
    version=st.sampled_from(("0.8.5", "0.10.2", "0.19.1", "0.21.0")),
)
def test_fits_alike(
    model: str,
    gpu: str,
    tp: int,
    pp: int,
    context_tokens: int,
    utilization: float | None,
    kv: str | None,
    version: str,
) -> None:
    words = ["--model", model, "--max-model-len", str(context_tokens), f"-tp={tp}", f"--pipeline-parallel-size={pp}"]
    words += [] if utilization is None else ["--gpu-memory-utilization", str(utilization)]
    words += [] if kv is None else ["--kv-cache-dtype", kv]
    one = checked(words, version, tp * pp, gpu)
    request = Request(
        context_tokens=context_tokens,
        gpus=tp * pp,
        tp=tp,
        pp=pp,
        engine_version=version,
        utilization=utilization,
        kv=kv,
    )
    try:
        planned = plan(load_catalogue_model(model), resolve_hardware(gpu), request)
    except InfoptError as error:
        why = str(error)
        assert one.case.plan is None
        assert why in (one.case.refused, *(unknown.settle for unknown in one.case.unknown))
        return
    assert one.case.plan is not None
    assert one.case.plan.fits == planned.fits
    assert one.case.plan.memory == planned.memory
    assert Situation(one.case.plan.scenario).fits is (planned.memory.max_sequences >= 1)
    found = {finding.rule for finding in one.findings if finding.severity == "error"}
    assert bool(found & OF_MEMORY) is (planned.fits is False)
    assert one.verdict == ("fail" if found else "pass" if planned.fits else "undetermined")


PROCESSOR = """\
apiVersion: v1
kind: Pod
metadata: {{name: server}}
spec:
  containers:
    - name: engine
      image: vllm/vllm-openai-cpu:v0.32.0
      env: [{{name: VLLM_CPU_KVCACHE_SPACE, value: "{space}"}}]
      args: ["--model", "HuggingFaceTB/SmolLM2-135M", "--max-model-len", "4096", {more}]
"""


def processor_case(space: str, more: str = "") -> Checked:
    gpu = Overrides(gpu="custom:24GB:20GB/s:cpu")
    (one,) = gate(["-"], Policy(), gpu, standard_input=PROCESSOR.format(space=space, more=more)).checked
    return one


def test_a_pool_the_file_gives_is_the_plans() -> None:
    """46,592 tokens a GiB, as the server printed; the variable beats the option, and the engine's blocks are of 128."""
    for space, more, tokens in (
        ("1", "", 46592),
        ("2", "", 93184),
        ("1", '"--kv-cache-memory-bytes", "100000000"', 46592),
        ("", '"--kv-cache-memory-bytes", "100000000"', 4224),
    ):
        found = processor_case(space, more).case.plan
        assert found is not None
        assert found.memory.kv_pool_tokens == tokens


def test_a_processor_without_a_version_is_planned_by_its_own_rules() -> None:
    text = PROCESSOR.format(space="1", more="").replace(":v0.32.0", ":latest")
    (one,) = gate(["-"], Policy(), Overrides(gpu="custom:24GB:20GB/s:cpu"), standard_input=text).checked
    assert one.case.plan is not None
    assert one.case.plan.scenario.engine.known
    assert one.case.plan.scenario.block_tokens == 128


def test_a_length_the_pool_does_not_hold_is_found() -> None:
    one = processor_case("", '"--kv-cache-memory-bytes", "90000000"')
    assert [finding.rule for finding in one.findings if finding.severity == "error"] == ["no-full-request"]
    given = Overrides(gpu="h100")
    words = '["--model", "HuggingFaceTB/SmolLM2-135M", "--kv-cache-memory-bytes", "1G"]'
    text = POD.format(words=words[1:-1], version="0.32.0", devices=1)
    (other,) = gate(["-"], Policy(), given, standard_input=text).checked
    assert other.case.plan is not None
    assert other.case.plan.memory.kv_pool_bytes_per_gpu == 2**30


def test_a_pool_that_cannot_be_had_is_found() -> None:
    for more in ('"--kv-cache-memory-bytes", "23000000000"', '"--block-size", "16"'):
        one = processor_case("" if "bytes" in more else "1", more)
        rule = "does-not-fit" if "bytes" in more else "engine-refuses"
        assert [finding.rule for finding in one.findings if finding.severity == "error"] == [rule]
