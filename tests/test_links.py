"""Times of collectives by hand, their properties, and what published sums say."""

import csv
import random
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts import script

from infopt.hardware.links import LinkKind, link_kind
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.links import (
    Wire,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    batch_for_replicas,
    expert_exchange_s,
    expert_imbalance,
    group_all_reduce_s,
    group_wire,
    layer_sums_s,
    machine_devices,
    ring_all_reduce_s,
    send_s,
    sums_bytes_per_token,
    sums_s_per_token,
    wires_of,
)
from infopt.profiles.resolve import resolve_model

TRUTH = Path(__file__).parents[2] / "shared" / "truth" / "speed_truth.csv"
KIND = LinkKind(
    kind="measured", latency_s=4e-6, device_s=1e-6, direct_share=0.5, exchange_s=6e-6, ring_share=0.8, source=""
)
WIRE = Wire(KIND, 100e9)


def device(name: str):
    return resolve_hardware(name).accelerator


def test_a_small_sum_takes_one_pass() -> None:
    """4 devices, 16 KB: 4 + 1 x 3 us, and 3 x 16 KB at 50 GB/s; the ring would take 6 us more."""
    assert all_reduce_s(WIRE, 4, 16000) == pytest.approx(7e-6 + 3 * 16000 / 50e9)


def test_a_large_sum_takes_a_ring() -> None:
    """8 devices, 100 MB: 11 us, 6 us, and 1.75 x 100 MB at 80 GB/s."""
    assert all_reduce_s(WIRE, 8, 1e8) == pytest.approx(11e-6 + 6e-6 + 1.75e8 / 80e9)


def test_others_by_hand() -> None:
    assert all_gather_s(WIRE, 4, 4e6) == pytest.approx(7e-6 + 3e6 / 80e9)
    assert all_to_all_s(WIRE, 4, 4e6) == pytest.approx(4e-6 + 4e6 / 80e9)
    assert send_s(WIRE, 8e6) == pytest.approx(4e-6 + 1e-4)
    for collective in (all_reduce_s, all_gather_s, all_to_all_s):
        assert collective(WIRE, 1, 1e6) == 0


def test_scalars_and_arrays_agree() -> None:
    np = pytest.importorskip("numpy")
    sizes = np.array([1e3, 1e6, 1e9])
    assert list(all_reduce_s(WIRE, 8, sizes)) == pytest.approx([all_reduce_s(WIRE, 8, size) for size in sizes])


@given(st.floats(1e2, 1e9), st.floats(1e8, 1e12), st.integers(2, 8))
def test_more_bytes_take_longer_and_more_bandwidth_less(size: float, bandwidth: float, devices: int) -> None:
    here = all_reduce_s(Wire(KIND, bandwidth), devices, size)
    assert all_reduce_s(Wire(KIND, bandwidth), devices, 1.1 * size) > here
    assert all_reduce_s(Wire(KIND, 1.1 * bandwidth), devices, size) < here
    assert here > ring_all_reduce_s(devices, size, bandwidth)


def test_point_to_point_links_add_up() -> None:
    """MI300X: 48 GB/s of bus bandwidth between two, 313 among eight (stas00/ml-engineering)."""
    wire = wires_of(device("mi300x")).inside
    assert wire is not None
    for devices, measured in ((2, 47.671e9), (8, 312.912e9)):
        size = 4 * 2**30
        bus = 2 * (devices - 1) / devices * size / all_reduce_s(wire, devices, size)
        assert bus == pytest.approx(measured, rel=0.05)


def test_sums_over_machines_add_the_network() -> None:
    """16 H100: eight inside, then two machines with an eighth of the bytes for each adapter."""
    wires, size = wires_of(device("h100")), 8e6
    assert wires.inside is not None
    across = all_reduce_s(wires.between, 2, size / 8)
    assert group_all_reduce_s(wires, 16, size) == pytest.approx(all_reduce_s(wires.inside, 8, size) + across)
    assert group_all_reduce_s(wires, 8, size) == all_reduce_s(wires.inside, 8, size)
    assert group_wire(wires, 16) is wires.between
    assert wires.between.bytes_per_s == 50e9
    assert wires_of(device("h100"), network_bytes_per_s=1e9).between.bytes_per_s == 1e9


def test_machines_and_link_domains() -> None:
    assert machine_devices(device("h100")) == 8
    assert machine_devices(device("gb200")) == 72
    assert machine_devices(device("rtx-4090")) == 8


def test_kinds_of_links() -> None:
    assert link_kind("NVLink bridge") is link_kind("NVLink")
    assert link_kind("24x100GbE RoCE").kind == "assumed"
    assert link_kind("ICI") is link_kind("something new")
    pcie = wires_of(device("rtx-4090")).inside
    assert pcie is not None
    assert pcie.kind is link_kind("PCIe 4.0 x16")
    bare = wires_of(device("custom:80GB:3.35TB/s"))
    assert bare.inside is None
    assert group_all_reduce_s(bare, 2, 1e6) == float("inf")


def test_sums_of_a_layer() -> None:
    """70B: 2 x 80 x 8192 x 2 B = 2.62 MB a token, the figure of exllamav2 issue 734."""
    model, wires = resolve_model("70b"), wires_of(device("h100"))
    assert sums_bytes_per_token(model) == 2_621_440
    assert sums_s_per_token(model, 2, 1e9) == pytest.approx(2.62144e-3)
    assert wires.inside is not None
    one = all_reduce_s(wires.inside, 4, 8 * 8192 * 2)
    assert layer_sums_s(wires, model, 4, 8) == pytest.approx(160 * one)
    assert layer_sums_s(wires, model, 1, 8) == 0


def test_batch_for_replicas() -> None:
    """10 ms of weights, 8 devices, 1 us of sums a token: 8,750 sequences."""
    assert batch_for_replicas(10e-3, 8, 1e-6) == pytest.approx(8750)


def test_experts_reached() -> None:
    """8 ranks, 1 expert a token: it lies elsewhere in 7 of 8 cases."""
    one = expert_exchange_s(WIRE, 8, 100, 1000, 1, 1.0)
    assert one == pytest.approx(2 * 4e-6 + 100 * 7 / 8 * 1000 * 3 / 80e9)
    assert expert_exchange_s(WIRE, 8, 100, 1000, 8, 1.0) > one


@pytest.mark.parametrize(("ranks", "measured_s"), [(32, 428e-6), (64, 487e-6), (128, 561e-6), (256, 554e-6)])
def test_experts_over_a_network(ranks: int, measured_s: float) -> None:
    """DeepEP, low-latency kernels, H800 with 400 Gb/s each: 128 tokens of 7168 units out to 8 experts and back."""
    between = wires_of(device("h100")).between
    assert expert_exchange_s(between, ranks, 128, 7168, 8, 1.0) == pytest.approx(measured_s, rel=0.10)


@pytest.mark.parametrize(
    ("experts", "per_token", "tokens", "ranks"), [(256, 8, 4, 8), (256, 8, 64, 8), (128, 4, 16, 4)]
)
def test_the_busiest_rank_against_random_draws(experts: int, per_token: int, tokens: int, ranks: int) -> None:
    """Even routing, 300 draws: the mean of the largest number of experts hit on a rank over the mean of all."""
    draws, most, whole = random.Random(1), 0, 0
    for _ in range(300):
        hit = {expert for _ in range(tokens) for expert in draws.sample(range(experts), per_token)}
        counts = [sum(expert % ranks == rank for expert in hit) for rank in range(ranks)]
        most, whole = most + max(counts), whole + len(hit)
    counted = most / (whole / ranks)
    assert expert_imbalance(experts, per_token, tokens, ranks) == pytest.approx(counted, rel=0.2)


@given(st.integers(1, 5000), st.sampled_from([2, 4, 8, 16]))
def test_imbalance_is_at_least_one_and_ends(tokens: int, ranks: int) -> None:
    assert 1 <= expert_imbalance(256, 8, tokens, ranks) <= ranks
    assert expert_imbalance(256, 8, 10**6, ranks) == pytest.approx(1)


@pytest.mark.shared
@pytest.mark.skipif(not TRUTH.exists(), reason="published speed measurements are not here")
def test_published_sums() -> None:
    """Mean error of what the constants were fitted on, by kind; MI300X was not fitted."""
    fit_links = script("bench/fit_links.py")
    found = list(fit_links.samples(TRUTH))
    for kind, limit in (("nvlink", 0.21), ("pcie", 0.28)):
        used = [s for s in found if s.kind == kind and fit_links.fitted(s)]
        assert len(used) > 100
        assert mean(abs(fit_links.predicted_s(s) / s.measured_s - 1) for s in used) < limit


@pytest.mark.shared
@pytest.mark.skipif(not TRUTH.exists(), reason="published speed measurements are not here")
def test_one_decode_message_over_nvlink() -> None:
    """8 to 16 KB inside a CUDA graph: H100 and H200 were measured at 2.8 to 5.4 us."""
    with TRUTH.open(encoding="utf-8-sig", newline="") as handle:
        rows = [
            r for r in csv.DictReader(handle) if r["id"].startswith("aicar") and r["gpu"] in ("h100_sxm", "h200_sxm")
        ]
    small = [r for r in rows if r["batch_or_concurrency"] in ("8192B", "16384B")]
    wire = wires_of(device("h100")).inside
    assert wire is not None
    assert small
    assert {r["n_gpus"] for r in small} == {"2", "4", "8"}
    assert all(2.8e-6 < all_reduce_s(wire, int(r["n_gpus"]), 16384) < 5.6e-6 for r in small)
