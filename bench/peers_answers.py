"""What a tool answered, read as bench/peers.yaml says: a path into its JSON or a pattern in its text, and a unit."""

import json
import re
from dataclasses import dataclass
from typing import Any

GIB = 2**30
BYTES = {"bytes": 1.0, "MiB": 2.0**20, "GiB": 2.0**30, "GB": 1e9}
SECONDS = {"s": 1.0, "ms": 1e-3}
UNITS = {**BYTES, **SECONDS, "count": 1.0}


@dataclass(frozen=True)
class Output:
    """All that a command printed, and its exit status."""

    out: str
    err: str
    status: int

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.err


def found(spec: dict[str, Any], output: Output) -> Any:
    """The value that `json:` or `text:` names; ValueError where it is not there."""
    if "json" in spec:
        value = json.loads(output.out)
        for key in spec["json"].split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value
    match = re.search(spec["text"], f"{output.out}\n{output.err}", re.MULTILINE)
    if match is None:
        raise ValueError(f"nothing like {spec['text']!r} in what was printed")
    return match[1]


def number(spec: dict[str, Any], output: Output, gpus: int = 1) -> float:
    """In bytes or seconds, whatever the tool prints; of all devices, where it prints the share of one."""
    return float(found(spec, output)) * UNITS[spec["unit"]] * (gpus if spec.get("per_gpu") else 1)


def read(answer: dict[str, Any], output: Output, gpus: int) -> dict[str, float | bool]:
    """Every figure of `answer`, by name: numbers in base units, `fits` as yes or no."""
    return {
        name: found(spec, output) in spec["yes"] if "yes" in spec else number(spec, output, gpus)
        for name, spec in answer.items()
    }
