"""A copy of a model with fewer bits: matrices rounded to the nearest of 2^bits levels of their group of 32.

    level = round((w - min) / s),  w' = min + s level,  s = (max - min) / (2^bits - 1)       over 32 inputs of a row

The copy is dequantized again: what it accepts is real, its time is what the full-width matrices take here. What a
kernel that reads the packed bits would take is not measured and not claimed. Embedding, head and norms stay.
"""

from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.probes.decoder import Layer, Weights

GROUP = 32
MOST_BITS = 8


def rounded(matrix: Any, bits: int) -> Any:
    """One matrix [out, in] rounded. Errors: InfoptError for widths that groups do not divide."""
    rows, columns = matrix.shape
    if columns % GROUP:
        raise InfoptError(f"--draft bits:{bits}: a matrix has {columns} columns, which groups of {GROUP} do not divide")
    groups = matrix.float().view(rows, -1, GROUP)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    # A group of equal weights has no steps: any divisor gives level 0.
    levels = ((groups - low) / step.where(step > 0, step.new_ones(()))).round_()
    return levels.mul_(step).add_(low).view(rows, columns).to(matrix.dtype)


def low_bit_copy(weights: Weights, bits: int) -> Weights:
    """The weights with rounded matrices; everything else is shared."""
    if not 1 <= bits <= MOST_BITS:
        raise InfoptError(f"--draft bits:{bits}: 1 to {MOST_BITS} bits are expected")
    return replace(weights, layers=tuple(_rounded_layer(layer, bits) for layer in weights.layers))


def _rounded_layer(layer: Layer, bits: int) -> Layer:
    return replace(
        layer,
        qkv=rounded(layer.qkv, bits),
        out=rounded(layer.out, bits),
        gate_up=rounded(layer.gate_up, bits),
        down=rounded(layer.down, bits),
    )
