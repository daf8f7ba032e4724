"""What is printed for people is what `--json` has, rounded as its unit is: one is read, the other is looked up."""

import csv
import io
import re
from typing import Any

import pytest
from html_page import at
from hypothesis import given
from properties.asking import ask, planned, typed, words
from properties.worlds import examples

# A number as it is printed, and what its unit is worth.
UNITS = {
    "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "GiB": 2**30,
    "s": 1, "ms": 1e-3, "us": 1e-6,
    "FLOP": 1, "kFLOP": 1e3, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15, "": 1,
}  # fmt: skip
NUMBER = r"\$?(?P<number>[0-9][0-9,]*(?:\.[0-9]+)?)"
# Where a line of the page has a figure: heading, label, text around the number; and its place in the JSON.
FIGURES: dict[str, tuple[str, str]] = {
    "memory.weights_bytes_per_gpu": (r"^  weights +{} ", "GiB"),
    "memory.activation_bytes": (r"^  activation +{} ", "GiB"),
    "memory.graph_bytes": (r"^  CUDA graphs +{} ", "GiB"),
    "memory.engine_bytes": (r"^  engine +{} +\S", "GiB"),
    "memory.kv_bytes_per_gpu": (r"^  KV cache +{} ", "GiB"),
    "memory.margin_bytes": (r"^  margin +{} ", "GiB"),
    "memory.capacity_bytes_per_gpu": (r"^  usable +{} (GiB)", ""),
    "memory.kv_pool_bytes_per_gpu": (r"^  KV pool +{} (GiB)", ""),
    "memory.kv_pool_tokens": (r"^  KV pool .* prints {} tokens", ""),
    "memory.kv_bytes_per_token": (r"^  KV, logical +{} (B) per token", ""),
    "memory.kv_bytes_per_sequence": (r"^  KV, logical .*; {} (\S+) \(", ""),
    "bandwidth.weight_bytes_per_step": (r"^  weights read +{} (\S+), ", ""),
    "bandwidth.kv_bytes_per_step": (r"^  KV read +{} (\S+), ", ""),
    "bandwidth.step_floor_s": (r"^  step +at least {} (\S+) =", ""),
    "bandwidth.tpot_floor_s": (r"^  TPOT +at least {} (\S+) for", ""),
    "bandwidth.amortized_s_per_token": (r"^  amortized +at least {} (\S+) per", ""),
    "compute.prefill_flop": (r"^  prefill +{} (\S+) for", ""),
    "compute.ttft_floor_s": (r"^  TTFT +at least {} (\S+) =", ""),
    "compute.decode_flop_per_token": (r"^  decode +{} (\S+) per token", ""),
    "estimate.tpot_s": (r"^  TPOT +{} (\S+) \(", ""),
    "estimate.ttft_s": (r"^  TTFT +{} (\S+) \(", ""),
    "cost.usd_per_hour": (r"^  cost +{} per hour", ""),
}
ALWAYS = {key for key in FIGURES if key.startswith("bandwidth.")} | {"memory.capacity_bytes_per_gpu"}


def lines(page: str) -> list[str]:
    """Lines of a page, those that go on joined to what they belong to."""
    found: list[str] = []
    for line in page.splitlines():
        if re.match(r" {17}\S", line) and found:
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    return found


def printed(key: str, page: list[str]) -> tuple[float, float] | None:
    """A figure in base units as the page has it, and what its last digit is worth; None where it is not there."""
    pattern, unit = FIGURES[key]
    for line in page:
        if found := re.search(pattern.replace("{}", NUMBER), line):
            text = found["number"]
            worth = UNITS[unit or (found.group(2) if found.re.groups > 1 else "")]
            decimals = len(text.partition(".")[2])
            return float(text.replace(",", "")) * worth, worth * 10**-decimals
    return None


@examples()
@given(typed())
def test_every_figure_of_the_page_is_that_of_json(options: dict[str, Any]) -> None:
    found = planned(options)
    page = lines(ask("plan", *words(options)).out)
    seen = set()
    for key in FIGURES:
        value, shown = at(found, key), printed(key, page)
        if shown is None:
            continue
        seen.add(key)
        assert value is not None, key
        number, digit = shown
        assert abs(number - value) <= digit / 2 * (1 + 1e-9) + 1e-9 * abs(value), (key, number, value)
    assert seen >= ALWAYS


@examples()
@given(typed())
def test_csv_has_every_figure_of_json(options: dict[str, Any]) -> None:
    found = planned(options)
    (row,) = csv.DictReader(io.StringIO(ask("plan", *words(options), "--format", "csv").out))
    numbers = 0
    for section in ("workload", "memory", "bandwidth", "compute", "estimate"):
        for name, value in found[section].items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers += 1
                assert float(row[f"{section}.{name}"]) == pytest.approx(value, rel=1e-15, abs=0)
            elif value is None:
                assert row[f"{section}.{name}"] == ""
    assert numbers > 25
