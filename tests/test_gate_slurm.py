"""Slurm batch scripts: what `#SBATCH` lines ask for."""

from pathlib import Path

import pytest
from gate_files import checked, only

JOB = """#!/bin/bash
#SBATCH --job-name=serve
%s
export RANKS=$SLURM_GPUS_ON_NODE
srun vllm serve Qwen/Qwen3-32B --tensor-parallel-size $RANKS --pipeline-parallel-size $SLURM_NNODES
"""


@pytest.mark.parametrize(
    ("lines", "of_node", "nodes", "device"),
    [
        ("#SBATCH --gres=gpu:h100:4", 4, 1, "h100-sxm-80gb"),
        ("#SBATCH --gres gpu:2", 2, 1, None),
        ("#SBATCH --gres=shard:1,gpu:l40s:2", 2, 1, "l40s"),
        ("#SBATCH -N 2\n#SBATCH --gpus-per-node=h200:8", 8, 2, "h200-sxm-141gb"),
        ("#SBATCH --nodes=2-4\n#SBATCH -G 8", 4, 2, None),
        ("#SBATCH --gpus=l4:2", 2, 1, "l4"),
        ("#SBATCH --ntasks-per-node=4 --gpus-per-task=1", 4, 1, None),
        ("#SBATCH -n8\n#SBATCH -N2\n#SBATCH --gpus-per-task=1", 4, 2, None),
        ("#SBATCH --gres=gpu", 1, 1, None),
        ("#SBATCH --gres=gpu:a100:2 --constraint=a100-80g", 2, 1, "a100-sxm-80gb"),
        ("#SBATCH --gpus=2\n#SBATCH -C 'h100&fast'", 2, 1, "h100-sxm-80gb"),
        ("#SBATCH --gpus=2\n#SBATCH -C h100|l40s", 2, 1, None),
    ],
)
def test_devices_of_a_job(tmp_path: Path, lines: str, of_node: int, nodes: int, device: str | None) -> None:
    case = only(tmp_path, "serve.sh", JOB % lines).case
    assert (case.deployment.value("tp"), case.deployment.value("pp")) == (of_node, nodes)
    assert (case.granted, case.needed) == (of_node * nodes, of_node * nodes)
    assert (case.device.accelerator.id if case.device else None) == device


@pytest.mark.parametrize(
    "command", ["nvidia-smi --list-gpus", "nvidia-smi -L", "nvidia-smi --query-gpu=name --format=csv,noheader"]
)
def test_a_job_that_has_its_devices_counted(tmp_path: Path, command: str) -> None:
    script = f"#!/bin/bash\n#SBATCH --gres=gpu:h100:4\nN=$({command} | wc -l)\nvllm serve Qwen/Qwen3-32B -tp $N\n"
    assert only(tmp_path, "serve.sh", script).case.deployment.value("tp") == 4


def test_a_job_that_counts_nothing(tmp_path: Path) -> None:
    case = only(tmp_path, "serve.sbatch", JOB % "#SBATCH --mem=64G\n#SBATCH --gres=lustre:1").case
    assert case.granted is None
    assert "tensor parallel" in {unknown.fact for unknown in case.unknown}
    assert case.deployment.found.host.memory_bytes == 64 * 2**30


def test_servers_of_a_job_share_its_devices(tmp_path: Path) -> None:
    script = """#!/bin/bash
#SBATCH --gres=gpu:a10g:4
CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --port 8000 &
vllm serve Qwen/Qwen3-4B --port 8001
"""
    found = checked(tmp_path, {"two.sh": script}, "two.sh")
    assert [one.case.granted for one in found] == [2, None]
    assert {one.case.device.accelerator.id for one in found if one.case.device} == {"a10g"}


def test_eager_engines_capture_nothing(tmp_path: Path) -> None:
    script = JOB % "#SBATCH --gres=gpu:h100:2"
    graphs = only(tmp_path, "a.sh", script).case.plan
    eager = only(tmp_path, "b.sh", script.replace("Qwen3-32B", "Qwen3-32B --enforce-eager")).case.plan
    assert graphs is not None
    assert eager is not None
    assert (graphs.memory.graph_bytes > 0, eager.memory.graph_bytes) == (True, 0)
    assert eager.memory.kv_pool_bytes_per_gpu >= graphs.memory.kv_pool_bytes_per_gpu


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve Qwen/Qwen3-8B --device cpu",
        "docker run vllm/vllm-openai-cpu:latest --model Qwen/Qwen3-8B",
        "docker run public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.9.2 --model Qwen/Qwen3-8B",
        "llama-server -m /x/Qwen3-8B-Q4_K_M.gguf -ngl 0",
    ],
)
def test_engines_on_the_processor_are_not_planned(tmp_path: Path, line: str) -> None:
    case = only(tmp_path, "run.sh", line).case
    assert case.needs_bytes_per_gpu is None
    assert any("processor" in unknown.settle for unknown in case.unknown)
