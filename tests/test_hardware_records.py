"""Accelerator records: they load, every figure says where it came from, and published figures come out."""

import csv
import re
from pathlib import Path

import pytest

from infopt.errors import InfoptError
from infopt.hardware import instances
from infopt.hardware.accelerator import Accelerator
from infopt.hardware.catalogue import (
    ACCELERATORS,
    DATA,
    FORMATS,
    GIB,
    AcceleratorRecord,
    accelerator_summary,
    common_accelerators,
    hardware_names,
    load_accelerator,
)
from infopt.hardware.instances import instance_names, read_instance
from infopt.hardware.mig import cut_slice, profiles
from infopt.records import ROOT, load_record

FACTS = list(csv.DictReader((Path(__file__).parent / "data" / "hardware_facts.csv").read_text("utf-8").splitlines()))
NAMES = hardware_names()
MIB = 2**20


def figure(accelerator: Accelerator, name: str) -> float | None:
    """One figure of an accelerator by the name the facts file uses."""
    scaled = {"driver_memory_mib": ("driver_memory_bytes", MIB), "usable_memory_gib": ("usable_memory_bytes", GIB)}
    scaled["memory_gib"] = ("memory_bytes", GIB)
    field, unit = scaled.get(name, (name, 1))
    value: object = accelerator
    for part in field.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return None if value is None else float(value) / unit  # type: ignore[arg-type]


def test_the_catalogue_has_at_least_seventy_accelerators() -> None:
    assert len(NAMES) >= 70


@pytest.mark.parametrize("fact", FACTS, ids=lambda f: f"{f['accelerator']}-{f['field']}")
def test_published_figures(fact: dict[str, str]) -> None:
    assert figure(load_accelerator(fact["accelerator"]), fact["field"]) == pytest.approx(float(fact["value"]), rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_sound(name: str) -> None:
    accelerator = load_accelerator(name)
    record = load_record(AcceleratorRecord, ACCELERATORS, name, "accelerator", "")
    assert record.id == name
    assert accelerator.memory_bytes > 0
    assert 0 < accelerator.bandwidth_bytes_per_s < 10e12
    assert set(accelerator.peak_flop_per_s) <= set(FORMATS)
    assert all(peak > 0 for peak in accelerator.peak_flop_per_s.values())
    assert not accelerator.link or accelerator.link.bytes_per_s >= (accelerator.link.peer_bytes_per_s or 0)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_a_kind_and_a_source(name: str) -> None:
    accelerator = load_accelerator(name)
    figures = {"memory_bytes", "usable_memory_bytes", "bandwidth_bytes_per_s"}
    figures |= {f"peak_flop_per_s.{format}" for format in accelerator.peak_flop_per_s}
    figures |= {f"measured.{field}" for field in accelerator.measured}
    optional = ("driver_memory_bytes", "link", "pcie", "tdp_watts", "usd_per_hour")
    figures |= {field for field in optional if getattr(accelerator, field) is not None}
    assert figures <= set(accelerator.data)
    assert all(accelerator.data[field].source for field in figures)
    assert all(accelerator.data[field].kind in ("vendor", "measured", "assumed") for field in figures)


@pytest.mark.parametrize("name", NAMES)
def test_the_marketing_figure_is_never_the_usable_one(name: str) -> None:
    accelerator = load_accelerator(name)
    nameplate_gib = round(accelerator.memory_bytes / (GIB if accelerator.memory_bytes % GIB == 0 else 1e9))
    assert accelerator.usable_memory_bytes != accelerator.memory_bytes
    assert accelerator.usable_memory_bytes < nameplate_gib * GIB
    if accelerator.driver_memory_bytes is not None:
        assert accelerator.usable_memory_bytes < accelerator.driver_memory_bytes


@pytest.mark.parametrize("name", NAMES)
def test_a_price_has_a_date_and_a_source(name: str) -> None:
    accelerator = load_accelerator(name)
    assert (accelerator.usd_per_hour is None) == (accelerator.price_date is None)
    assert name != "v100-sxm-32gb" or accelerator.usd_per_hour is None


def test_recalled_figures_are_assumed_and_say_so() -> None:
    recalled = set()
    for name in NAMES:
        record = load_record(AcceleratorRecord, ACCELERATORS, name, "accelerator", "")
        sizes = [load_accelerator(f"{name}-{option.memory_bytes // GIB}gb") for option in record.memory_options]
        for accelerator in (load_accelerator(name), *sizes):
            for field, datum in accelerator.data.items():
                if "recall" in datum.source:
                    recalled.add(name)
                    assert datum.kind == "assumed", (accelerator.id, field)
        if any("recalled" in note for note in record.notes):
            assert name in recalled
    assert {"a30", "mi350x", "tpu7x", "apple-m3-max"} <= recalled


def test_no_module_takes_the_marketing_figure_for_capacity() -> None:
    modules = [ROOT / "cli.py", *(p for f in ("ledgers", "studies", "reports") for p in (ROOT / f).rglob("*.py"))]
    assert len(modules) > 10
    readers = {p.name for p in modules if re.search(r"\.memory_bytes\b", p.read_text("utf-8"))}
    assert readers <= {"table_hardware.py"}  # shows it, as sold
    h100 = load_accelerator("h100-sxm-80gb")
    assert h100.usable_memory_bytes > h100.memory_bytes == 80e9  # "80 GB" is 80 GiB of chips


def test_sixteen_bit_peaks_of_tensor_cards_exceed_their_shader_rate() -> None:
    for name in NAMES:
        peaks = load_accelerator(name).peak_flop_per_s
        if "bf16" in peaks and "fp32" in peaks:
            assert peaks["bf16"] > peaks["fp32"], name


def test_common_accelerators_exist() -> None:
    assert set(common_accelerators()) <= set(NAMES)
    assert {"h100-sxm-80gb", "mi300x", "rtx-4090"} <= set(common_accelerators())


def test_summary_has_what_a_listing_shows() -> None:
    summary = accelerator_summary("h100-sxm-80gb")
    assert summary["bf16_flop_per_s"] == 989.4e12
    assert summary["usable_kind"] == "measured"
    assert summary["link_bytes_per_s"] == 450e9


def test_overrides_are_the_users() -> None:
    accelerator = load_accelerator("h100-sxm-80gb", usable_memory_bytes=70 * GIB, bf16=700e12, usd_per_hour=2.5)
    assert accelerator.usable_memory_bytes == 70 * GIB
    assert accelerator.peak_flop_per_s["bf16"] == 700e12
    assert accelerator.data["peak_flop_per_s.bf16"].kind == "user"
    assert accelerator.data["bandwidth_bytes_per_s"].kind == "vendor"


@pytest.mark.parametrize(
    "figures", [{"colour": 1.0}, {"bf16": -1.0}, {"bf16": float("nan")}, {"usd_per_hour": float("inf")}]
)
def test_bad_overrides_are_refused(figures: dict[str, float]) -> None:
    with pytest.raises(InfoptError):
        load_accelerator("h100-sxm-80gb", **figures)


def test_a_chip_sold_in_sizes_comes_in_the_one_named() -> None:
    assert load_accelerator("apple-m3-max").id == "apple-m3-max-36gb"
    assert load_accelerator("apple-m3-max-128gb").memory_bytes == 128 * GIB
    assert load_accelerator("apple-m3-max-36gb").bandwidth_bytes_per_s == 300e9
    assert load_accelerator("apple-m3-max-128gb").bandwidth_bytes_per_s == 400e9
    with pytest.raises(InfoptError, match="sold with 36GB, 48GB"):
        load_accelerator("apple-m3-max-40gb")


def test_a_processor_has_the_memory_its_host_has() -> None:
    assert load_accelerator("epyc-9654").data["memory_bytes"].kind == "assumed"
    fitted = load_accelerator("epyc-9654-1024gb")
    assert fitted.memory_bytes == 1024 * GIB
    assert fitted.data["memory_bytes"].kind == "user"
    assert fitted.usable_memory_bytes == pytest.approx(0.9 * 1024 * GIB)


def test_an_unknown_accelerator_lists_the_nearest() -> None:
    with pytest.raises(InfoptError, match="h100-sxm-80gb"):
        load_accelerator("h100-smx-80gb")


def test_names_lead_to_records() -> None:
    rows = list(csv.DictReader((DATA / "names.csv").read_text("utf-8").splitlines()))
    assert {row["accelerator"] for row in rows} == set(NAMES)
    assert all(row["size_gb"] == "any" or int(row["size_gb"]) > 0 for row in rows)


def test_every_instance_names_a_record() -> None:
    read = [read_instance(name) for name in instance_names()]
    assert len(read) >= 100
    for instance in read:
        assert instance is not None
        assert instance.accelerator in NAMES
        assert 1 <= instance.gpus <= 16
        assert instance.source
        assert (instance.usd_per_hour is None) == (not instance.date) == (not instance.price_source)
        assert (instance.usd_per_hour is None) == (not instance.region)
        assert instance.usd_per_hour is None or 0.1 < instance.usd_per_hour / instance.gpus < 20


def test_a_recalled_instance_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "heading\nx9.large,l4,1,,,,,,,somewhere (recalled)\nx9.xlarge,l4,2,,,2.5,here,2026-01-02,a list,a page\n"
    (tmp_path / "cloud.csv").write_text(lines, encoding="utf-8")
    monkeypatch.setattr(instances, "INSTANCES", tmp_path)
    recalled, read = instances.find_instance("x9.large"), instances.find_instance("x9.xlarge")
    assert recalled
    assert read
    assert recalled.resolved_as == "x9.large (cloud) = 1 x NVIDIA L4, recalled, not read"
    assert read.resolved_as == "x9.xlarge (cloud) = 2 x NVIDIA L4, 2.5 $/h in here (2026-01-02)"
    assert read.accelerator.data["usd_per_hour"].source == "a list: x9.xlarge in here"


def test_slices_are_shares_of_their_gpu() -> None:
    for profile in profiles():
        whole, part = load_accelerator(profile.accelerator), cut_slice(profile)
        assert 0 < profile.compute_share <= 1
        assert part.bandwidth_bytes_per_s <= whole.bandwidth_bytes_per_s
        assert part.usable_memory_bytes <= whole.usable_memory_bytes
        assert part.usable_memory_bytes < float(profile.memory_share) * (whole.driver_memory_bytes or 1e15)
        assert part.link is None
        assert part.usd_per_hour is None
    slice_ = next(cut_slice(p) for p in profiles() if (p.accelerator, p.name) == ("h100-sxm-80gb", "3g.40gb"))
    assert slice_.usable_memory_bytes / GIB == pytest.approx(39.50, abs=0.01)
    assert slice_.data["usable_memory_bytes"].kind == "measured"
    assert slice_.peak_flop_per_s["bf16"] == pytest.approx(989.4e12 * 3 / 7)
    assert slice_.bandwidth_bytes_per_s == pytest.approx(3.35e12 / 2)


def test_a_slice_is_known_no_better_than_its_share_and_its_gpu() -> None:
    for profile in profiles():
        whole, part = load_accelerator(profile.accelerator), cut_slice(profile)
        assert profile.shares.source
        assert profile.listed_gib is None or (profile.listed and profile.listed.source)
        for field, datum in part.data.items():
            assert datum.source
            assert "recall" not in datum.source or datum.kind == "assumed"
            if field.startswith("peak") or field == "bandwidth_bytes_per_s":
                assumed = "assumed" in (whole.data[field].kind, profile.shares.kind)
                assert datum.kind == ("assumed" if assumed else whole.data[field].kind)
    b300 = next(cut_slice(p) for p in profiles() if p.accelerator == "b300-sxm-288gb")
    assert b300.data["bandwidth_bytes_per_s"].kind == "assumed"
