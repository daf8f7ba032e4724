"""How fast `infopt gate` is: a folder of deployment files of several forms, checked on one core.

    python bench/gate.py [--files 1000] [--profile]

Without a policy, and with one that has a workload and targets; exit status 1 where the slower takes more than TARGET_S
for a thousand files. Models, devices and lengths differ from file to file: hardly a plan is asked for twice.
"""

import argparse
import cProfile
import itertools
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET_S = 10.0
MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-32B", "Qwen/Qwen3-8B")
DEVICES = ("nvidia-l4", "nvidia-h100-80gb", "nvidia-a100-80gb", "nvidia-h200-141gb")
VERSIONS = ("v0.8.5", "v0.10.0", "v0.11.0", "latest")
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: chat-{number}, labels: {{app: chat}}}}
spec:
  replicas: 2
  template:
    metadata: {{labels: {{app: chat}}}}
    spec:
      nodeSelector: {{cloud.google.com/gke-accelerator: {device}}}
      containers:
      - name: server
        image: vllm/vllm-openai:{version}
        args:
        - --model={model}
        - --tensor-parallel-size={tp}
        - --max-model-len={length}
        - --gpu-memory-utilization=0.9
        - --enable-prefix-caching
        env:
        - name: HF_TOKEN
          valueFrom: {{secretKeyRef: {{name: hub, key: token}}}}
        resources: {{limits: {{nvidia.com/gpu: {tp}, memory: 64Gi}}}}
        volumeMounts: [{{name: shm, mountPath: /dev/shm}}]
      volumes: [{{name: shm, emptyDir: {{medium: Memory, sizeLimit: 8Gi}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: chat-{number}}}
spec: {{selector: {{app: chat}}, ports: [{{port: 80, targetPort: 8000}}]}}
"""
SCRIPTED = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: script-{number}}}
spec:
  template:
    spec:
      nodeSelector: {{cloud.google.com/gke-accelerator: {device}}}
      containers:
      - name: server
        image: lmsysorg/sglang:v0.4.9
        command: [bash, -c]
        args:
        - |
          export CONTEXT={length}  # infopt: ignore[tight] this is a test bed
          python3 -m sglang.launch_server --model-path {model} \\
            --tp {tp} --context-length $CONTEXT --mem-fraction-static 0.85
        resources: {{limits: {{nvidia.com/gpu: {tp}}}}}
"""
GROUP = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: group-{number}}}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        nodeSelector: {{cloud.google.com/gke-accelerator: {device}}}
        containers:
        - name: leader
          image: vllm/vllm-openai:{version}
          command: [sh, -c, "vllm serve {model} -tp {tp} -pp 2 --max-model-len {length}"]
          resources: {{limits: {{nvidia.com/gpu: {tp}}}}}
    workerTemplate:
      spec:
        containers:
        - name: worker
          image: vllm/vllm-openai:{version}
          resources: {{limits: {{nvidia.com/gpu: {tp}}}}}
"""
COMPOSE = """\
services:
  chat-{number}:
    image: vllm/vllm-openai:{version}
    command: --model {model} --tensor-parallel-size {tp} --max-model-len {length}
    environment: {{HF_TOKEN: "${{HF_TOKEN}}"}}
    deploy:
      resources: {{reservations: {{devices: [{{driver: nvidia, count: {tp}, capabilities: [gpu]}}]}}}}
  proxy:
    image: nginx:1.27
"""
SERVED = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {{name: served-{number}}}
spec:
  predictor:
    nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
    containers:
    - name: kserve-container
      image: vllm/vllm-openai:{version}
      args: [--model, {model}, --max-model-len, "{length}", --tensor-parallel-size, "{tp}"]
      resources: {{limits: {{nvidia.com/gpu: "{tp}"}}}}
"""
POLICY = """\
workload: {rate: 2/s, input_tokens: 1500, output_tokens: 400, concurrency: 32, prefix_share: 40%}
targets: {ttft: 1s, tpot: 40ms, start: 10min, usd_per_million_output_tokens: 2}
"""
FORMS = (DEPLOYMENT, SCRIPTED, GROUP, COMPOSE, SERVED)


def write(folder: Path, count: int) -> None:
    """Files of every form in turn; lengths are all different."""
    facts = itertools.cycle(itertools.product(MODELS, DEVICES, VERSIONS, (1, 2, 4, 8)))
    for number, (model, device, version, tp) in zip(range(count), facts, strict=False):
        text = FORMS[number % len(FORMS)].format(
            number=number, model=model, device=device, version=version, tp=tp, length=2048 + 16 * number
        )
        (folder / f"{number:05}.yaml").write_text(text)


def profiled(folder: Path, policy: Path) -> None:
    from infopt.gate.check import gate
    from infopt.gate.policy_file import read_policy

    with cProfile.Profile() as profile:
        gate([str(folder)], read_policy(policy))
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def timed(folder: Path, files: int, *options: str) -> float:
    """Processor seconds of the command, which other programs on the core do not change; its figures are printed."""
    before, started = os.times(), time.perf_counter()
    command = [sys.executable, "-m", "infopt", "gate", str(folder), "--json", *options]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    wall_s, after = time.perf_counter() - started, os.times()
    found = json.loads(done.stdout)
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    deployments = len(found["deployments"])
    if deployments < files or found["unreadable"]:
        sys.exit(f"{deployments} deployments of {files} files were checked: {found['unreadable'][:3]}")
    print(f"{files} files, {deployments} deployments, {len(found['findings'])} findings {' '.join(options)}")
    print(f"  {cpu_s:.2f} s of one core ({wall_s:.2f} s by the clock): {1e3 * cpu_s / files:.2f} ms a file")
    return cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast infopt gate is on one core.")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="infopt-gate-") as name:
        folder, policy = Path(name) / "files", Path(name) / "policy.yaml"
        folder.mkdir()
        write(folder, options.files)
        policy.write_text(POLICY)
        if options.profile:
            profiled(folder, policy)
            return
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        slowest_s = max(timed(folder, options.files), timed(folder, options.files, "--policy", str(policy)))
    sys.exit(0 if slowest_s <= TARGET_S * options.files / 1000 else 1)


if __name__ == "__main__":
    main()
