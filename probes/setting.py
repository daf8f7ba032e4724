"""Where and how thoroughly a probe measures, and how much memory it may take."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator
from infopt.probes.runtime import Runtime
from infopt.probes.sampling import Sampling, Told, quiet
from infopt.units import format_bytes

MOST_SHARE = 0.5  # of the free memory a probe takes
FORCED_SHARE = 0.9  # with --force
MOST_SHARE_BUSY = 0.2  # of a GPU's memory that others may hold before a probe refuses

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """What every probe is given.

    accelerator  the device's record in the catalogue, None where it has none: for shares of the vendor's peak
    quick        sizes and repetitions for a check of two minutes instead of a calibration
    force        take more of the memory, and measure a busy device
    tell         what a progress bar is told
    begun_free_bytes  free memory when the probe that runs now began, None outside of one
    """

    runtime: Runtime
    accelerator: Accelerator | None = None
    quick: bool = False
    force: bool = False
    tell: Told = quiet
    begun_free_bytes: int | None = None

    def begun(self) -> "Setting":
        """The setting of a probe that begins now."""
        return replace(self, begun_free_bytes=self.runtime.memory_bytes()[0])

    @property
    def sampling(self) -> Sampling:
        """How long to sample one group of operations."""
        return Sampling(width=0.1, fewest=7, budget_s=2.0) if self.quick else Sampling()

    def room_bytes(self) -> int:
        """Memory a probe may still take: its share of what was free when it began, without what it holds by now."""
        free, _ = self.runtime.memory_bytes()
        begun = max(free, self.begun_free_bytes or 0)
        kept = begun * (1 - (FORCED_SHARE if self.force else MOST_SHARE))
        return max(0, int(free - kept))

    def need(self, wanted_bytes: float, what: str) -> None:
        """Refuse what would take more than its share of the free memory."""
        room = self.room_bytes()
        if wanted_bytes <= room:
            return
        free, _ = self.runtime.memory_bytes()
        remedy = (
            "free some, or take a smaller size" if self.force else "--force takes up to 90 %, or take a smaller size"
        )
        raise InfoptError(
            f"{what} needs {format_bytes(wanted_bytes)}, more than the {format_bytes(room)} a probe may take of the "
            f"{format_bytes(free)} free on {self.runtime.name}; {remedy}"
        )

    def fitting_bytes(self, wanted_bytes: int, least_bytes: int, what: str) -> int:
        """`wanted_bytes` halved until it has room; refuses below `least_bytes`, where the figure would be a cache's."""
        size = wanted_bytes
        while size > self.room_bytes() and size // 2 >= least_bytes:
            size //= 2
        self.need(size, what)
        return size

    def shrinking(self, size: int, least: int, what: str, run: Callable[[int], T]) -> tuple[T, tuple[str, ...]]:
        """`run(size)`, again with half where memory runs out; and a note where that happened."""
        wanted = size
        while True:
            try:
                result = run(size)
                break
            except Exception as error:
                self.runtime.release()
                if not self.runtime.out_of_memory(error):
                    raise
                if size // 2 < least:
                    raise InfoptError(
                        f"{what}: out of memory even at size {size}; free memory on the device"
                    ) from error
                size //= 2
        return result, (() if size == wanted else (f"{what}: size {size} instead of {wanted}, memory ran out",))


@contextmanager
def scoped(setting: Setting) -> Iterator[None]:
    """Memory of a part goes back when it ends, however it ends."""
    try:
        yield
    finally:
        setting.runtime.release()
