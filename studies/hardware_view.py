"""What `hardware list` shows."""

from typing import Any

from infopt.errors import unknown_name
from infopt.hardware.catalogue import accelerator_summary, hardware_names


def find_hardware(pattern: str | None) -> list[dict[str, Any]]:
    """Summaries of the accelerators whose id holds every word of `pattern`; all of them without one.

    Raises InfoptError, with the nearest ids, where none does.
    """
    words = (pattern or "").lower().split()
    found = [id for id in hardware_names() if all(word in id for word in words)]
    if not found:
        raise unknown_name("accelerator", pattern or "", hardware_names(), "`infopt hardware list` shows all")
    return [accelerator_summary(id) for id in found]
