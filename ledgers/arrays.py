"""Elementwise helpers, so that one formula serves a number and a NumPy array.

NumPy is not imported here: an array brings its own methods.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any


def smaller(a: Any, b: Any) -> Any:
    """Elementwise minimum; `b` may be None for "no cap".

    >>> smaller(3, None), smaller(3, 2)
    (3, 2)
    """
    if b is None:
        return a
    if _is_array(a) or _is_array(b):
        import numpy as np

        return np.minimum(a, b)
    return min(a, b)


def larger(a: Any, b: Any) -> Any:
    """Elementwise maximum."""
    if _is_array(a) or _is_array(b):
        import numpy as np

        return np.maximum(a, b)
    return max(a, b)


def unmeasured(a: Any, most: Any) -> Any:
    """Elementwise 0 up to `most`, NaN beyond."""
    if _is_array(a):
        import numpy as np

        return np.where(a > most, np.nan, 0.0)
    return math.nan if a > most else 0.0


def along(points: Sequence[Sequence[float]], a: Any) -> Any:
    """Elementwise value at `a` of the line through `points` (x rising): level before the first, on along the last two.

    What lies beyond the last point is never below it.

    >>> along([[1, 1.0], [3, 2.0], [4, 1.5]], 2), along([[1, 1.0], [3, 2.0]], 5), along([[3, 2.0], [4, 1.5]], 9)
    (1.5, 3.0, 1.5)
    """
    value = points[0][1] + 0.0 * a
    for i, ((x, y), (next_x, next_y)) in enumerate(itertools.pairwise(points)):
        is_last = i == len(points) - 2
        slope = (next_y - y) / (next_x - x)
        value = value + slope * (smaller(larger(a, x), next_x) - x)
        if is_last and slope > 0:
            value = value + slope * (larger(a, next_x) - next_x)
    return value


def ceil_div(a: Any, b: Any) -> Any:
    """Elementwise division rounded up, exact for integers.

    >>> ceil_div(17, 16)
    2
    """
    return -(-a // b)


def floor(a: Any) -> Any:
    """Elementwise rounding down; a plain number becomes an int."""
    if _is_array(a):
        import numpy as np

        return np.floor(a)
    return math.floor(a)


def whole(a: Any) -> Any:
    """Elementwise cut to an integer, towards zero.

    >>> whole(2.9)
    2
    """
    return a.astype("int64") if _is_array(a) else int(a)


def log2(a: Any) -> Any:
    """Elementwise logarithm to base 2."""
    if _is_array(a):
        import numpy as np

        return np.log2(a)
    return math.log2(a)


def root(a: Any) -> Any:
    """Elementwise square root."""
    if _is_array(a):
        import numpy as np

        return np.sqrt(a)
    return math.sqrt(a)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and not isinstance(value, int | float)
