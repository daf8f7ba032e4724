"""Encoders of other modalities: counted where the tower is a known kind, else named as not counted."""

from collections.abc import Mapping
from typing import Any

from infopt.profiles.hf_keys import Keys


def other_modalities(config: Mapping[str, Any], keys: Keys) -> tuple[dict[str, int], tuple[str, ...]]:
    """Parameters of encoders and projectors by part, and notes on what is not counted."""
    present = [name for name in ("vision_config", "audio_config") if isinstance(config.get(name), Mapping)]
    return {}, tuple(f"{name} is present; its parameters are not counted" for name in present)
