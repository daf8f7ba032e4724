"""Hardware nobody has listed: `custom:80GB:3.35TB/s[:989TFLOP/s][:cpu]`."""

import re

from infopt.errors import InfoptError
from infopt.hardware.accelerator import Accelerator, Datum, HardwareChoice, MemoryClass
from infopt.units import parse_bytes, parse_bytes_per_s, parse_flop_per_s

PROCESSOR = "cpu"
HBM_FROM_BYTES_PER_S = 2.0e12  # no GDDR card reads faster (RTX 5090: 1.79e12), no current HBM training part slower


def parse_custom(text: str) -> HardwareChoice:
    """The accelerator `text` describes: memory, bandwidth, optionally the dense 16-bit peak, then a count (`x8`).

    `cpu` as the last part says that it is a processor: engines divide its memory by other rules. The memory is taken
    as what the engine sees. A peak not given is unknown, never guessed.
    Errors: memory or bandwidth missing, a part with the wrong unit, or more than three parts.
    """
    counted = re.fullmatch(r"(.+?)(?:\s*[x×*]\s*|\s*:\s*)(\d{1,6})", text)
    text, gpus = (counted[1], int(counted[2])) if counted else (text, None)
    if gpus == 0:
        raise InfoptError(f"--hw {text}: the count must be at least 1")
    parts = [part.strip() for part in text.split(":")[1:]]
    processor = bool(parts) and parts[-1].lower() == PROCESSOR
    parts = parts[:-1] if processor else parts
    if len(parts) not in (2, 3) or not all(parts):
        raise InfoptError(
            f"--hw {text}: memory and bandwidth are needed, the dense 16-bit peak may follow: "
            "custom:80GB:3.35TB/s:989TFLOP/s; a processor ends in :cpu"
        )
    memory_bytes = parse_bytes(parts[0], "--hw custom memory")
    bandwidth = parse_bytes_per_s(parts[1], "--hw custom bandwidth")
    peak = parse_flop_per_s(parts[2], "--hw custom peak") if len(parts) == 3 else None
    if not memory_bytes:
        raise InfoptError(f"--hw {text}: memory must be more than 0 bytes")
    fields = ["memory_bytes", "usable_memory_bytes", "bandwidth_bytes_per_s"]
    peaks = {} if peak is None else {"fp16": peak, "bf16": peak}
    data = {
        name: Datum("user", "given on the command line") for name in [*fields, *(f"peak_flop_per_s.{p}" for p in peaks)]
    }
    memory_class: MemoryClass = "hbm" if bandwidth >= HBM_FROM_BYTES_PER_S else "ddr" if processor else "gddr"
    data["memory_class"] = Datum("assumed", "from the bandwidth")
    accelerator = Accelerator(
        id=re.sub(r"\s+", "", text).lower(),
        vendor="custom",
        memory_class=memory_class,
        memory_bytes=memory_bytes,
        driver_memory_bytes=None,
        usable_memory_bytes=memory_bytes,
        bandwidth_bytes_per_s=bandwidth,
        peak_flop_per_s=peaks,
        data=data,
        notes=("memory given is taken as what the engine sees",),
        name=text,
        processor=processor,
    )
    return HardwareChoice(accelerator, gpus, f"{gpus} x {text}" if gpus else text)
