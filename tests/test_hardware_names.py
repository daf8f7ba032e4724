"""Hardware as people write it."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.hardware.catalogue import hardware_names
from infopt.hardware.names import resolve_hardware
from infopt.hardware.prices import apply_prices, parse_prices

SPELLINGS = list(
    csv.DictReader((Path(__file__).parent / "data" / "hardware_names.csv").read_text("utf-8").splitlines())
)


@pytest.mark.parametrize("row", SPELLINGS, ids=lambda row: row["text"])
def test_spellings(row: dict[str, str]) -> None:
    choice = resolve_hardware(row["text"])
    assert choice.accelerator.id == row["accelerator"]
    assert choice.gpus == (int(row["gpus"]) if row["gpus"] else None)
    assert choice.resolved_as


@pytest.mark.parametrize("name", hardware_names())
def test_every_id_is_a_name_and_ids_are_stable(name: str) -> None:
    id = resolve_hardware(name).accelerator.id
    assert id.startswith(name)
    assert resolve_hardware(id).accelerator.id == id
    assert resolve_hardware(f"{name}:2").gpus == 2
    assert resolve_hardware(resolve_hardware(name).accelerator.name).accelerator.id == id


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a100", "a100-sxm-80gb"),
        ("H20", "h20-141gb"),
        ("Tesla-V100", "v100-sxm-32gb"),
        ("m2 max", "add the size"),
        ("1g.10gb", "h100-sxm-80gb-mig-1g.10gb"),
    ],
)
def test_a_name_of_several_takes_the_smallest_and_says_so(text: str, said: str) -> None:
    assert said in resolve_hardware(text).resolved_as


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h1000", "nearest: h100"),
        ("", "h100:8"),
        ("h100:0", "between 1 and"),
        ("99999999xh100", "between 1 and"),
        ("rtx 4090 48gb", "known: rtx-4090"),
        ("5090 + 3090", "5090 and 3090 separately"),
        ("h100:4,a100:4", "separately"),
        ("custom:80GB", "bandwidth"),
        ("custom:3.35TB/s:80GB", "size in bytes"),
        ("custom:80:3.35TB/s", "unit"),
        ("custom:0GB:3.35TB/s", "more than 0"),
        ("custom:80GB:3.35TB/s x0", "at least 1"),
        ("h100 9g.99gb", "no MIG profile"),
        ("l4 1g.10gb", "cannot be cut"),
        ("p5.49xlarge", "p5.48xlarge"),
        ("../../etc/passwd", "unknown hardware"),
        ("m2 max 48gb", "sold with 32GB"),
    ],
)
def test_refusals_are_one_line_that_helps(text: str, said: str) -> None:
    with pytest.raises(InfoptError) as error:
        resolve_hardware(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_custom_hardware_is_what_the_user_says() -> None:
    choice = resolve_hardware("custom:80GB:3.35TB/s:989TFLOP/s x8")
    assert choice.gpus == 8
    assert choice.accelerator.memory_bytes == choice.accelerator.usable_memory_bytes == 80_000_000_000
    assert choice.accelerator.bandwidth_bytes_per_s == 3.35e12
    assert choice.accelerator.peak_flop_per_s["bf16"] == 989e12
    assert choice.accelerator.data["bandwidth_bytes_per_s"].kind == "user"
    assert resolve_hardware("2x custom:24GiB:1TB/s").gpus == 2
    assert resolve_hardware("custom:24GiB:1TB/s").accelerator.peak_flop_per_s == {}


def test_an_instance_brings_its_price_or_none() -> None:
    lambda_ = resolve_hardware("gpu_8x_h100_sxm5")
    assert lambda_.usd_per_hour == 31.92
    assert lambda_.accelerator.usd_per_hour == pytest.approx(3.99)
    assert resolve_hardware("2x gpu_8x_h100_sxm5").usd_per_hour == pytest.approx(63.84)
    assert resolve_hardware("p5.48xlarge").accelerator.usd_per_hour == pytest.approx(6.88)
    unpriced = resolve_hardware("p5e.48xlarge")
    assert unpriced.usd_per_hour is None
    assert unpriced.accelerator.usd_per_hour is None


def test_prices_of_the_users_own() -> None:
    prices = parse_prices(["h100=2.49", "p4d.24xlarge=32", "custom=1", "m2 ultra=$0.5"])
    assert prices["h100-sxm-80gb"] == prices["h100-pcie-80gb"] == 2.49
    assert prices["a100-sxm-40gb"] == 4.0
    h100 = apply_prices(resolve_hardware("h100:8"), prices).accelerator
    assert h100.usd_per_hour == 2.49
    assert h100.data["usd_per_hour"].kind == "user"
    assert h100.price_date is None
    assert apply_prices(resolve_hardware("gpu_8x_h100_sxm5"), prices).usd_per_hour == pytest.approx(19.92)
    assert apply_prices(resolve_hardware("custom:80GB:3TB/s"), prices).accelerator.usd_per_hour == 1
    assert apply_prices(resolve_hardware("m2 ultra 192gb"), prices).accelerator.usd_per_hour == 0.5
    l4 = resolve_hardware("l4")
    assert apply_prices(l4, prices) is l4


@pytest.mark.parametrize("text", ["h100", "h100=", "=2", "h100=cheap", "h100=-1", "h100=0", "nothing=1", "h100=nan"])
def test_bad_prices_are_refused(text: str) -> None:
    with pytest.raises(InfoptError):
        parse_prices([text])


PIECES = st.lists(
    st.sampled_from(
        [
            "h100",
            "a100",
            "rtx",
            "4090",
            "ti",
            "80gb",
            "x8",
            ":",
            "8x",
            " ",
            "-",
            "+",
            ",",
            "mig",
            "1g.10gb",
            "custom:",
            "TB/s",
            "m2",
            "v5e",
            "and",
        ]
    ),
    max_size=8,
).map("".join)


@given(st.text(max_size=60) | PIECES)
def test_no_text_raises_anything_but_our_own_error(text: str) -> None:
    try:
        choice = resolve_hardware(text if text.strip().lower() != "auto" else "h100")
    except InfoptError:
        return
    assert choice.gpus is None or choice.gpus > 0
