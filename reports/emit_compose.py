"""A deployment as Docker Compose services on one machine: one a replica, each with its own devices and port."""

from typing import Any

from infopt.errors import InfoptError
from infopt.studies.emit import CACHE, CONFIG, MODELS, Launch


def documents(found: Launch) -> list[dict[str, Any]]:
    """The Compose file; raises InfoptError where one machine is not enough."""
    total = found.gpus * found.replicas
    if total > found.machine_devices:
        raise InfoptError(
            f"--emit compose: {total} devices are more than the {found.machine_devices} of one machine, and compose "
            f"starts one; use --emit k8s, or --max-gpus {found.machine_devices}"
        )
    if found.sliced:
        raise InfoptError("--emit compose: slices are named by identifiers of your machine; use --emit k8s")
    services = {f"replica-{n + 1}": _service(found, n) for n in range(found.replicas)}
    file: dict[str, Any] = {"name": found.name, "services": services}
    if not found.local:
        file["volumes"] = {"cache": {}}
    if found.config:
        file["configs"] = {"engine": {"content": found.config}}
    return [file]


def _service(found: Launch, number: int) -> dict[str, Any]:
    port, first = found.images.port, number * found.gpus
    devices = [str(device) for device in range(first, first + found.gpus)]
    reserved = {"driver": "nvidia", "device_ids": devices, "capabilities": ["gpu"]}
    service: dict[str, Any] = {
        "image": found.image,
        "entrypoint": list(found.command),
        # Compose replaces $NAME: no word of the command means that.
        "command": [word.replace("$", "$$") for word in found.args],
    }
    if not found.local:
        # Taken from the shell or .env when the service starts, empty where it is not set.
        service["environment"] = {"HF_HOME": CACHE, "HF_TOKEN": "${HF_TOKEN:-}"}
    service["ports"] = [f"{port + number}:{port}"]
    service["volumes"] = [f"./models:{MODELS}:ro"] if found.local else [f"cache:{CACHE}"]
    if found.config:
        service["configs"] = [{"source": "engine", "target": CONFIG}]
    if found.shm_gib:
        service["shm_size"] = f"{found.shm_gib}gb"
    asked = [word.format(port=port, path=found.images.health) for word in found.images.healthcheck]
    service["healthcheck"] = {
        "test": ["CMD", *asked],
        "interval": "10s",
        "timeout": "5s",
        "retries": 6,
        "start_period": f"{found.start_s}s",
    }
    service["restart"] = "unless-stopped"
    service["deploy"] = {"resources": {"reservations": {"devices": [reserved]}}}
    return service
