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
class Span:
    """A figure and the range it was seen in."""

    value: float
    low: float
    high: float

    def __add__(self, other: "Span") -> "Span":
        """Sum; both ends may come together.

        >>> Span(2.0, 1.0, 3.0) + Span(1.0, 1.0, 4.0)
        Span(value=3.0, low=2.0, high=7.0)
        """
        return Span(self.value + other.value, self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds of each part of a start."""

    boot: Span
    load: Span
    profile: Span
    compile: Span
    compile_cached: Span
    capture: Span

    @property
    def eager_s(self) -> Span:
        return self.boot + self.load + self.profile

    @property
    def warm_s(self) -> Span:
        return self.eager_s + self.compile_cached + self.capture

    @property
    def cold_s(self) -> Span:
        return self.eager_s + self.compile + self.capture


def load_s(stored_bytes: float, bytes_per_s: Span) -> Span:
    """Seconds to read the weights.

    >>> load_s(10e9, Span(2e9, 1e9, 5e9))
    Span(value=5.0, low=2.0, high=10.0)
    """
    return Span(stored_bytes / bytes_per_s.value, stored_bytes / bytes_per_s.high, stored_bytes / bytes_per_s.low)


def eager_step_s(step_s: float, kernels: float, launch_s: float, gap_s: float) -> float:
    """A step whose kernels the host launches one by one: as long as the device or the host takes.

    >>> eager_step_s(0.005, 320, 30e-6, 2e-6), eager_step_s(0.053, 320, 30e-6, 2e-6)
    (0.0096, 0.05364)
    """
    return max(step_s + kernels * gap_s, kernels * launch_s)
