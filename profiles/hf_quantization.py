"""`quantization_config` of a checkpoint: which format covers which parts."""

from collections.abc import Mapping
from typing import Any

from infopt.profiles.geometry import Quantization
from infopt.profiles.hf_keys import Keys

MATRICES = frozenset({"attention", "mlp", "expert", "shared_expert", "mtp"})


def quantization(config: Mapping[str, Any], keys: Keys) -> Quantization | None:
    """How the checkpoint is stored, or None when it is in its compute type."""
    declared = config.get("quantization_config") or keys.config.get("quantization_config")
    if declared is None:
        return None
    if not isinstance(declared, Mapping):
        raise keys.error("quantization_config is not an object")
    method = declared.get("quant_method")
    if method == "fp8":
        return Quantization("fp8_block" if declared.get("weight_block_size") else "fp8", MATRICES)
    if method == "mxfp4":
        return Quantization("mxfp4", frozenset({"expert"}))
    raise keys.error(f"quant_method {str(method)[:40]!r} is not known")
