"""Rotary frequencies as a config scales them: factors that each of the head_dim / 2 frequencies is divided by.

    default  1        linear  factor
    llama3   1 where the wavelength is below original / high, `factor` where it is above original / low, and between:
             1 / ((1 - s) / factor + s),  s = (original / wavelength - low) / (high - low)

Source: transformers 5, modeling_rope_utils.py (`_compute_llama3_parameters`); llama.cpp's rope_freqs.weight are these.
"""

import math
from collections.abc import Mapping
from typing import Any

from infopt.errors import InfoptError

Factors = tuple[float, ...] | None
MOST = 1e15


def rotary_factors(config: Mapping[str, Any], head_dim: int, theta: float, where: str) -> tuple[float, Factors]:
    """Base and factors of a config.json; `theta` where it names no base.

    Errors: InfoptError for a scaling that is not one of default, linear and llama3.
    """
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise InfoptError(f"{where}: rope_scaling is no JSON object")
    base = _positive(config.get("rope_theta") or scaling.get("rope_theta") or theta, "rope_theta", where)
    partial = config.get("partial_rotary_factor", scaling.get("partial_rotary_factor", 1.0))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in ("default", "linear", "llama3") or partial != 1.0:
        what = f"rope type {str(kind)[:40]}" if partial == 1.0 else "partly rotated heads"
        raise InfoptError(f"{where}: {what}; draft probes rotate whole heads by default, linear or llama3")
    if kind == "default":
        return base, None
    factor = _number(scaling, "factor", where)
    if kind == "linear":
        return base, (factor,) * (head_dim // 2)
    low, high = _number(scaling, "low_freq_factor", where), _number(scaling, "high_freq_factor", where)
    original_tokens = _number(scaling, "original_max_position_embeddings", where)
    wavelengths = (2 * math.pi * base ** (2 * i / head_dim) for i in range(head_dim // 2))
    return base, tuple(_llama3(original_tokens / wave, factor, low, high) for wave in wavelengths)


def _llama3(turns: float, factor: float, low: float, high: float) -> float:
    """What a frequency that turns so often within the original context is divided by."""
    if turns >= high:
        return 1.0
    if turns <= low:
        return factor
    smooth = (turns - low) / (high - low)
    return 1 / ((1 - smooth) / factor + smooth)


def _number(scaling: Mapping[str, Any], key: str, where: str) -> float:
    if scaling.get(key) is None:
        raise InfoptError(f"{where}: rope_scaling has no {key}")
    return _positive(scaling[key], key, where)


def _positive(value: Any, key: str, where: str) -> float:
    """A number above 0 whose powers are numbers, too."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise InfoptError(f"{where}: {key} is {str(value)[:40]!r}, not a number above 0 and at most {MOST:g}")
    return float(value)
