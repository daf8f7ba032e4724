"""How long a replica takes from its start to its first answer, and what launching kernels one by one costs a step.

    cold  = boot + bytes / BW_load + profile + compile(L) + capture(L)     nothing cached
    warm  = boot + bytes / BW_load + profile + cached(L) + capture(L)      compiled code found on disk
    eager = boot + bytes / BW_load + profile                               neither compiled nor captured
    eager step = max(step + N g, N l)                                      the host launches while the device works
L layers, N kernels of a step, l host time of one launch, g gap on the device between kernels that a graph closes.
Times are linear in the layers (profiled starts of 11 dense models, data/cold_start.yaml of boundaries).
Ignored: pulling the image, downloading weights, kernel tuning that some formats do at every start.
"""

from infopt.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """A figure and the range it was seen in."""

    value: float
    low: float
    high: float

    def __add__(self, other: "Range") -> "Range":
        """Sum; both ends may come together.

        >>> Range(2.0, 1.0, 3.0) + Range(1.0, 1.0, 4.0)
        Range(value=3.0, low=2.0, high=7.0)
        """
        return Range(self.value + other.value, self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds of each part of a start."""

    boot_s: Range
    load_s: Range
    profile_s: Range
    compile_s: Range
    compile_cached_s: Range
    capture_s: Range

    @property
    def eager_s(self) -> Range:
        return self.boot_s + self.load_s + self.profile_s

    @property
    def warm_s(self) -> Range:
        return self.eager_s + self.compile_cached_s + self.capture_s

    @property
    def cold_s(self) -> Range:
        return self.eager_s + self.compile_s + self.capture_s


def load_s(stored_bytes: float, bytes_per_s: Range) -> Range:
    """Seconds to read the weights.

    >>> load_s(10e9, Range(2e9, 1e9, 5e9))
    Range(value=5.0, low=2.0, high=10.0)
    """
    return Range(stored_bytes / bytes_per_s.value, stored_bytes / bytes_per_s.high, stored_bytes / bytes_per_s.low)


def eager_step_s(step_s: float, kernels: float, launch_s: float, gap_s: float) -> float:
    """A step whose kernels the host launches one by one: as long as the device or the host takes.

    >>> round(eager_step_s(0.005, 320, 30e-6, 2e-6), 4), round(eager_step_s(0.053, 320, 30e-6, 2e-6), 5)
    (0.0096, 0.05364)
    """
    return max(step_s + kernels * gap_s, kernels * launch_s)
