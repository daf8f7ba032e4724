"""/dev/shm against the ranks that talk through it."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.engine_defaults import default_of
from infopt.gate.finding import Hit, Rule
from infopt.gate.readers.kubernetes import GROUPED, TEMPLATES

MIB = 2**20
# Chips whose ranks are one program's, or talk by libraries of their own.
ELSEWHERE = ("aws.amazon.com/neuron", "google.com/tpu")


def check(case: Case) -> Iterator[Hit]:
    """Several ranks in a container with the runtime's own /dev/shm."""
    host, pods = case.deployment.found.host, max(1, case.deployment.found.hardware.pods)
    ranks = case.placed.tp * case.placed.pp // pods
    if not _whole(case) or host.shares_ipc or ranks < 2 or case.deployment.engine in ("llama.cpp", "ollama"):
        return
    if case.deployment.found.hardware.resource.startswith(ELSEWHERE):
        return
    have = default_of("shm_mib") * MIB if host.shm_bytes is None else host.shm_bytes
    least = case.parameter("shm-size", "least_mib")
    if have >= least * MIB:
        return
    yield Hit(
        f"{ranks} ranks share {have / MIB:.0f} MiB of /dev/shm",
        at=case.deployment.said_at("tp"),
        detail="" if host.shm_bytes is not None else "what the runtime gives where nothing is said",
        remedy="an emptyDir of medium Memory at /dev/shm (Kubernetes), shm_size or ipc: host (Compose, Docker)",
        confidence="likely",
    )


def _whole(case: Case) -> bool:
    """Whether the file has all of the container: operators and charts mount /dev/shm themselves, a patch is a part."""
    found = case.deployment.found
    return found.image is not None and found.form in (*TEMPLATES, GROUPED, "docker-compose")


RULE = Rule(
    id="shm-size",
    summary="several ranks in a container with 64 MiB of /dev/shm",
    severity="warning",
    why="NCCL and the engine's broadcast queues lie in /dev/shm: start-up hangs or dies with a bus error.",
    remedy="More shared memory, or the host's.",
    check=check,
    parameters={"least_mib": 1024},
    source="vllm-project/vllm issues 1710, 789, 1771; docs.nvidia.com NCCL troubleshooting, shared memory",
)
