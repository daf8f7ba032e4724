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
