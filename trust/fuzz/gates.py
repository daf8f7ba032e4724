"""What the gate reads: deployment files of every form, what lies beside them, and its own policy and baseline."""

import contextlib
import zlib
from collections.abc import Iterator
from functools import partial

from fuzz.target import BrokenError, Target, file_of, text_of

from infopt.errors import InfoptError
from infopt.gate.check import Gate, gate
from infopt.gate.policy import Policy

FORMS = ("table", "json", "sarif", "junit", "github", "gitlab", "md")
RULES = ("tests/gate/rules/*/bad.yaml", "tests/gate/bugs/[ab]*.yaml", "docs/examples/vllm.yaml")
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
  containers:
  - name: server
    image: vllm/vllm-openai:v0.10.0
    args: [--model, meta-llama/Llama-3.1-8B-Instruct, --config, config.yaml]
    resources: {limits: {nvidia.com/gpu: 1}}
"""
COMPOSE = """\
services:
  chat:
    image: vllm/vllm-openai:v0.10.0
    env_file: chat.env
    command: --model ${MODEL:-meta-llama/Llama-3.1-8B-Instruct} --max-model-len ${LENGTH}
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}
"""


def targets() -> Iterator[Target]:
    yield Target("gate-yaml", "lines", partial(of_file, "values.yaml"), RULES)
    yield Target("gate-json", "json", partial(of_file, "pod.json"))
    yield Target("gate-text", "lines", of_standard_input, RULES[:1])
    yield Target("gate-readers", "lines", of_readers, RULES)
    yield Target("gate-shell", "lines", partial(of_file, "start.sh"))
    yield Target("gate-slurm", "lines", partial(of_file, "job.sbatch"))
    yield Target("gate-python", "lines", partial(of_file, "serve.py"))
    yield Target("gate-dockerfile", "lines", partial(of_file, "Dockerfile"))
    yield Target("gate-modelfile", "lines", partial(of_file, "Modelfile"))
    yield Target("gate-compose", "lines", partial(of_file, "docker-compose.yaml"))
    yield Target("gate-config", "lines", of_config)
    yield Target("gate-variables", "lines", of_variables)
    yield Target("gate-policy", "lines", of_policy)
    yield Target("gate-baseline", "json", of_baseline)


def checked(found: Gate, data: bytes) -> None:
    """A gate in one of its forms; an error that hides a bug, or has several lines, breaks the rule."""
    from infopt.reports.gate_words import Strictness
    from infopt.reports.render_gate import render_gate

    for error in found.errors:
        if "a bug of infopt" in error:
            raise BrokenError(error.partition("cannot be checked: ")[2])
        if len(error.splitlines()) > 1:
            raise BrokenError(f"gate: an error of several lines: {error.splitlines()[0][-60:]}")
    render_gate(found, FORMS[zlib.crc32(data) % len(FORMS)], Strictness())
    if found.errors and not found.checked:
        raise InfoptError(found.errors[0])


def of_file(name: str, data: bytes) -> None:
    path = file_of(f"gate/{name}", data)
    checked(gate([str(path)], Policy(hardware=(None, "h100", "l4")[zlib.crc32(data) % 3])), data)


def of_standard_input(data: bytes) -> None:
    checked(gate(["-"], Policy(), standard_input=text_of(data)), data)


def of_readers(data: bytes) -> None:
    """Every reader that takes a document, not the first alone."""
    from infopt.gate.nodes import documents
    from infopt.gate.outside import Outside, unlisted
    from infopt.gate.reading import READERS, config_maps, deployment

    nodes = [one for node in documents(data.decode("utf-8", "replace"), "all.yaml") for one in unlisted(node)]
    outside = Outside(config_maps(nodes), nodes, None, "all.yaml")
    for node in nodes:
        for reader in READERS:
            if not reader.recognises(node):
                continue
            with contextlib.suppress(InfoptError):  # a form that is not this reader's: the others are asked too
                for found in reader.read(node, outside):
                    deployment("all.yaml", found, {}, outside)


def of_config(data: bytes) -> None:
    """The options file that a deployment names."""
    file_of("options/config.yaml", data)
    checked(gate([str(file_of("options/pod.yaml", POD.encode()))], Policy()), data)


def of_variables(data: bytes) -> None:
    """The variables file that a service names."""
    file_of("variables/chat.env", data)
    checked(gate([str(file_of("variables/docker-compose.yaml", COMPOSE.encode()))], Policy()), data)


def of_policy(data: bytes) -> None:
    from infopt.gate.policy_file import read_policy

    policy = read_policy(file_of("infopt.yaml", data))
    checked(gate([str(file_of("policy/pod.yaml", POD.encode()))], policy), data)


def of_baseline(data: bytes) -> None:
    from infopt.gate.check import with_baseline

    found = gate([str(file_of("baseline/pod.yaml", POD.replace("8B", "70B").encode()))], Policy())
    checked(with_baseline(found, file_of("baseline.json", data)), data)
