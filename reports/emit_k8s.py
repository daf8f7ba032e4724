"""A deployment as Kubernetes objects: a Deployment, or a LeaderWorkerSet over several machines, and its Service."""

from typing import Any

from infopt.errors import InfoptError
from infopt.hardware.product_labels import LABEL
from infopt.profiles.engines import version_key
from infopt.studies.emit import CACHE, CONFIG, MODELS, Launch

PROBE_PERIOD_S = 10
LEADER = {"role": "leader"}


def documents(found: Launch) -> list[dict[str, Any]]:
    """All objects, in the order in which they are needed."""
    labels = {"app": found.name}
    if found.machines > 1:
        return [_group(found, labels), _service(found, labels | LEADER)]
    config = [_config_map(found)] if found.config else []
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": found.name, "labels": labels},
        "spec": {
            "replicas": found.replicas,
            "selector": {"matchLabels": labels},
            # A new pod finds no free devices before an old one has left.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": _pod(found, labels, found.args, probed=True),
        },
    }
    return [*config, deployment, _service(found, labels)]


def probes(found: Launch) -> dict[str, Any]:
    """Start, readiness and liveness; a cold start downloads and loads the model."""
    asked = {"httpGet": {"path": found.images.health, "port": found.images.port}, "periodSeconds": PROBE_PERIOD_S}
    return {
        "startupProbe": {**asked, "failureThreshold": found.start_s // PROBE_PERIOD_S},
        "readinessProbe": {**asked, "failureThreshold": 3},
        "livenessProbe": {**asked, "timeoutSeconds": 5, "failureThreshold": 6},
    }


def tolerations(found: Launch) -> list[dict[str, str]]:
    """Nodes with devices are often kept free of other pods."""
    return [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def _service(found: Launch, selector: dict[str, str]) -> dict[str, Any]:
    port = found.images.port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": found.name, "labels": {"app": found.name}},
        "spec": {
            "type": "ClusterIP",
            "selector": selector,
            "ports": [{"name": "http", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }


def _group(found: Launch, labels: dict[str, str]) -> dict[str, Any]:
    """One group of pods a replica; each holds whole pipeline stages."""
    nodes = found.images.nodes
    if nodes is None or version_key(found.version) < version_key(nodes.since):
        since = f"; {found.images.engine} from {nodes.since} on is, with --engine-version" if nodes else ""
        raise InfoptError(
            f"--emit: a replica spans {found.machines} machines, which is not written for {found.images.engine} "
            f"{found.version}{since}; choose a row of one machine with --row"
        )
    shared = (nodes.count, str(found.machines), nodes.address, "$(LWS_LEADER_ADDRESS)", nodes.rank)
    worker = (*found.args, *shared, "$(LWS_WORKER_INDEX)", *nodes.worker)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": found.name, "labels": labels},
        "spec": {
            "replicas": found.replicas,
            "leaderWorkerTemplate": {
                "size": found.machines,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _pod(found, labels | LEADER, (*found.args, *shared, "0"), probed=True),
                "workerTemplate": _pod(found, labels, worker, probed=False),
            },
        },
    }


def _pod(found: Launch, labels: dict[str, str], args: tuple[str, ...], probed: bool) -> dict[str, Any]:
    devices = str(found.gpus_per_machine)
    container: dict[str, Any] = {
        "name": "engine",
        "image": found.image,
        "command": list(found.command),
        # Kubernetes replaces $(NAME) in arguments: the model's name is not meant.
        "args": [word.replace("$(", "$$(") if word == found.model else word for word in args],
        "env": _environment(found),
        "ports": [{"name": "http", "containerPort": found.images.port}],
        "resources": {
            "requests": {"cpu": str(found.cpus), "memory": f"{found.host_gib}Gi", found.resource: devices},
            "limits": {found.resource: devices},
        },
        **(probes(found) if probed else {}),
        "volumeMounts": [mount for _, mount in _volumes(found)],
    }
    selected = {"nodeSelector": {LABEL: found.product}} if found.product else {}
    spec = {
        # The variables Kubernetes makes of services would begin with the engine's own prefix.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        **selected,
        "tolerations": tolerations(found),
        "containers": [container],
        "volumes": [volume for volume, _ in _volumes(found)],
    }
    return {"metadata": {"labels": labels}, "spec": spec}


def _environment(found: Launch) -> list[dict[str, Any]]:
    if found.local:
        return []
    secret = {"name": "hf-token", "key": "token", "optional": True}
    return [{"name": "HF_HOME", "value": CACHE}, {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": secret}}]


def _volumes(found: Launch) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each volume with its mount."""
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if found.shm_gib:
        memory = {"medium": "Memory", "sizeLimit": f"{found.shm_gib}Gi"}
        pairs.append(({"name": "shm", "emptyDir": memory}, {"name": "shm", "mountPath": "/dev/shm"}))
    if found.local:
        claim = {"claimName": "models", "readOnly": True}
        pairs.append(({"name": "models", "persistentVolumeClaim": claim}, {"name": "models", "mountPath": MODELS}))
    else:
        storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": f"{found.disk_gib}Gi"}}}
        cache = {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": storage}}}
        pairs.append((cache, {"name": "cache", "mountPath": CACHE}))
    if found.config:
        volume = {"name": "config", "configMap": {"name": found.name}}
        pairs.append((volume, {"name": "config", "mountPath": CONFIG.rpartition("/")[0]}))
    return pairs


def _config_map(found: Launch) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": found.name, "labels": {"app": found.name}},
        "data": {CONFIG.rpartition("/")[2]: found.config},
    }
