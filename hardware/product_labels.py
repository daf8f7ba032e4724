"""What Kubernetes calls a device: the label of its nodes and the resource a container asks for."""

from functools import cache
from pathlib import Path

from infopt.hardware.accelerator import Accelerator
from infopt.hardware.catalogue import load_accelerator
from infopt.records import read_yaml

LABEL = "nvidia.com/gpu.product"
FILE = Path(__file__).resolve().parent / "data" / "product_labels.yaml"
SLICE = "-mig-"


def product_label(accelerator: str) -> str | None:
    """Value of the node label, a slice's that of its GPU; None where it is not known.

    >>> product_label("h100-sxm-80gb")
    'NVIDIA-H100-80GB-HBM3'
    """
    return _labels().get(accelerator.partition(SLICE)[0])


def device_of_product_label(label: str) -> Accelerator | None:
    """The device a node label names, None where the label is none of these.

    >>> device_of_product_label("NVIDIA-H20").id
    'h20-96gb'
    """
    known = {value: id for id, value in _labels().items()}
    return load_accelerator(known[label]) if label in known else None


def resource_name(accelerator: str) -> str:
    """The resource of NVIDIA's device plugin; a slice has its own.

    >>> resource_name("h100-sxm-80gb-mig-1g.10gb+me")
    'nvidia.com/mig-1g.10gb.me'
    """
    profile = accelerator.partition(SLICE)[2]
    return f"nvidia.com/mig-{profile.replace('+', '.')}" if profile else "nvidia.com/gpu"


@cache
def _labels() -> dict[str, str]:
    labels: dict[str, str] = read_yaml(FILE)
    return labels
