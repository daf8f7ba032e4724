"""A deployment as values of the vLLM production-stack chart."""

from typing import Any

from infopt.errors import InfoptError
from infopt.hardware.product_labels import LABEL
from infopt.profiles.engine_images import Chart
from infopt.reports.emit_k8s import probes, tolerations
from infopt.studies.emit import MODELS, Launch, slug

# Helm reads numbers of values as floats and prints those from a million on with an exponent, which engines refuse.
LARGEST_NUMBER = 1_000_000
# The chart makes a host name of release, name and its own name.
LONGEST_NAME = 30


def documents(found: Launch) -> list[dict[str, Any]]:
    """The values; raises InfoptError where the chart cannot say the deployment."""
    chart = found.images.chart
    if chart is None:
        raise InfoptError(
            f"--emit helm: its chart serves vllm only, not {found.images.engine}; use --emit k8s or --emit compose"
        )
    if found.machines > 1:
        raise InfoptError(
            f"--emit helm: a replica spans {found.machines} machines, which its chart starts over Ray only; use "
            "--emit k8s, or choose a row of one machine with --row"
        )
    asked = probes(found)
    return [
        {
            "servingEngineSpec": {
                "runtimeClassName": "",
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
                "tolerations": tolerations(found),
                "startupProbe": asked["startupProbe"],
                "livenessProbe": {k: v for k, v in asked["livenessProbe"].items() if k != "timeoutSeconds"},
                "modelSpec": [_model(found, chart)],
            }
        }
    ]


def _model(found: Launch, chart: Chart) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "name": slug(found.model.rpartition("/")[2], LONGEST_NAME),
        "repository": found.images.repository,
        "tag": found.tag,
        "modelURL": found.model,
        "replicaCount": found.replicas,
        "requestCPU": found.cpus,
        "requestMemory": f"{found.host_gib}Gi",
        "requestGPU": found.gpus,
    }
    if found.sliced:
        spec["requestGPUType"] = found.resource
    if found.local:
        spec["extraVolumes"] = [{"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}}]
        spec["extraVolumeMounts"] = [{"name": "models", "mountPath": MODELS}]
    else:
        spec["pvcStorage"] = f"{found.disk_gib}Gi"
        # One claim for all replicas, which may be on several nodes.
        spec["pvcAccessMode"] = ["ReadWriteOnce" if found.replicas == 1 else "ReadWriteMany"]
        spec["hf_token"] = {"secretName": "hf-token", "secretKey": "token"}
    spec["vllmConfig"] = _config(found, chart)
    if found.shm_gib:
        spec["shmSize"] = f"{found.shm_gib}Gi"
    if found.product:
        chosen = {"key": LABEL, "operator": "In", "values": [found.product]}
        spec["nodeSelectorTerms"] = [{"matchExpressions": [chosen]}]
    return spec


def _config(found: Launch, chart: Chart) -> dict[str, Any]:
    """The chart's own keys where it has one, and the other options as they are."""
    keyed: dict[str, Any] = {"enablePrefixCaching": found.prefix_caching}
    if found.gpus > 1:
        # The chart mounts shared memory only where this key stands.
        keyed["tensorParallelSize"] = found.tp
    extra: list[str] = []
    for option, value in found.options.items():
        key = chart.keys.get(option)
        if key is None or value is None or float(value) >= LARGEST_NUMBER:
            extra += [option] if value is None else [option, value]
        else:
            keyed[key] = float(value) if "." in value else int(value)
    return {**keyed, "extraArgs": extra} if extra else keyed
