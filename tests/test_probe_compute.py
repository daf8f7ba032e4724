"""`probe compute`: sizes by exact arithmetic, products against torch, real runs, and the GPU's path on the CPU."""

import pytest
from gpu_fakes import GIB, Graph, fake_runtime, gpu_on_cpu

from infopt.errors import InfoptError
from infopt.hardware.catalogue import load_accelerator
from infopt.probes import compute as module
from infopt.probes.compute import Product, compute, few_rows, model_matrices, not_offered, prompts, sustained
from infopt.probes.runtime import open_runtime
from infopt.probes.sampling import Operation, Sampling, Timing
from infopt.probes.setting import Setting
from infopt.profiles.catalogue import load_catalogue_model

pytestmark = pytest.mark.xdist_group("torch")
torch = pytest.importorskip("torch")

LLAMA = load_catalogue_model("meta-llama/Llama-3.1-8B")


@pytest.fixture(scope="module")
def cpu():
    return open_runtime("cpu", 1)


@pytest.fixture(autouse=True)
def precision():
    """Every test begins and ends with torch's own precision."""
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.fixture
def small(monkeypatch):
    """Sizes of the GPU's path that a CPU computes in a moment."""
    monkeypatch.setattr(module, "MOST_ROWS", {"cpu": 256, "cuda": 256})
    monkeypatch.setattr(module, "CUBES", {"cpu": (128,), "cuda": (128, 64)})
    monkeypatch.setattr(module, "SQUARE", {"cpu": 128, "cuda": 64})
    monkeypatch.setattr(module, "TRIAL", {"cpu": (64, 64, 64), "cuda": (64, 64, 64)})
    monkeypatch.setattr(module, "SUSTAINED_QUICK_S", 0.1)
    monkeypatch.setattr(module, "SUSTAINED_SAMPLE_S", 0.01)
    monkeypatch.setattr(Setting, "sampling", property(lambda self: Sampling(fewest=6, most=6)))


def figures(parts):
    return [m for part in parts for m in part.measurements]


# ---- sizes


def test_matrices_of_a_model():
    assert model_matrices(LLAMA) == {
        "qkv": (6144, 4096),
        "out": (4096, 4096),
        "gate_up": (28672, 4096),
        "down": (4096, 14336),
    }


def test_a_fast_gpu_takes_whole_matrices_at_two_depths_and_cubes():
    setting = Setting(fake_runtime())
    found = prompts(setting, "bf16", model_matrices(LLAMA), 700e12, 8192)
    assert [(p.matrix, p.m) for p in found] == [
        (name, m) for name in ("qkv", "out", "gate_up", "down") for m in (8192, 4096)
    ] + [("cube", 8192), ("cube", 4096)]
    assert {(p.matrix, p.n, p.k) for p in found if p.matrix != "cube"} == {
        (name, n, k) for name, (n, k) in model_matrices(LLAMA).items()
    }


def test_a_slow_device_takes_fewer_rows_then_a_piece_of_the_matrix():
    setting = Setting(fake_runtime())
    n, k = model_matrices(LLAMA)["gate_up"]
    for rows in (4096, 1024, 256):
        speed = 2 * rows * n * k / module.SAMPLE_S["cuda"]
        (product, *_) = prompts(setting, "bf16", {"gate_up": (n, k)}, speed, 8192)
        assert (product.m, product.n) == (rows, n)
    (product, *_) = prompts(setting, "bf16", {"gate_up": (n, k)}, 2 * 128 * (n / 4) * k / module.SAMPLE_S["cuda"], 8192)
    assert (product.m, product.n, product.k) == (128, n // 4, k)


def test_a_device_with_little_memory_takes_less():
    roomy, tight = (
        prompts(Setting(fake_runtime(free_bytes=free)), "bf16", model_matrices(LLAMA), 700e12, 8192)
        for free in (78 * GIB, 3 * GIB)
    )
    cache = fake_runtime().last_cache_bytes()
    assert sum(p.held_bytes(cache) for p in tight) <= 1.5 * GIB < sum(p.held_bytes(cache) for p in roomy)


def test_a_device_without_memory_is_refused():
    with pytest.raises(InfoptError, match="more than the"):
        prompts(Setting(fake_runtime(free_bytes=2**20)), "bf16", model_matrices(LLAMA), 700e12, 8192)


def test_weights_rotate_over_twice_the_cache():
    cube = Product("cube", "bf16", 8, 1024, 1024)  # 2 MiB
    assert [cube.copies(mib * 2**20) for mib in (0, 1, 50)] == [1, 1, 50]
    assert cube.flop == 2 * 8 * 1024 * 1024
    assert cube.held_bytes(50 * 2**20) == 2 * (50 * 1024 * 1024 + 8 * 1024) + 4 * 8 * 1024


def test_few_rows_end_where_time_does():
    setting = Setting(fake_runtime())
    found = few_rows(setting, "bf16", model_matrices(LLAMA), 700e12)
    assert [p.m for p in found] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert {(p.n, p.k) for p in found} == {(4096, 4096)}
    assert [p.m for p in few_rows(setting, "bf16", model_matrices(LLAMA), 2 * 128 * 4096 * 4096 / 0.1)][-1] == 128
    # torch._int_mm takes no fewer than 17 rows on a GPU.
    assert few_rows(setting, "int8", model_matrices(LLAMA), 700e12)[0].m == 32


# ---- what is computed


@pytest.mark.parametrize("name", ["fp32", "tf32", "bf16", "fp16", "int8", "fp8"])
def test_products_are_the_products_they_say(name, cpu):
    runtime = gpu_on_cpu() if name in ("fp8", "tf32") else cpu
    x = module._repeated(module._block(runtime, name, 0), 32, 64)
    w = module._repeated(module._block(runtime, name, 1), 48, 64)
    found = module._multiplication(runtime, name)(x, w)
    assert found.shape == (32, 48)
    wanted = x.double() @ w.double().t()
    assert float((found.double() - wanted).abs().max()) <= 0.02 * float(wanted.abs().max())


def test_data_is_random(cpu):
    for name in ("fp32", "int8"):
        block = module._block(cpu, name, 0)
        assert len(block[:1000].unique()) > 200
        # The block repeats at no row's length: rows differ.
        matrix = module._repeated(block, 2048, 1024)
        assert not torch.equal(matrix[0], matrix[1000])
        assert len({bytes(matrix[i].numpy().tobytes()) for i in range(0, 2048, 97)}) == len(range(0, 2048, 97))


def test_weights_lie_in_their_own_places(cpu, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "_multiplication", lambda runtime, name: lambda x, w: seen.append(w.data_ptr()))
    operation = module.operation_of(cpu, Product("cube", "fp32", 8, 64, 64), 4 * 64 * 64 * 2)
    for i in range(8):
        operation.run(i)
    assert len(set(seen[:4])) == 4
    assert seen[:4] == seen[4:]
    assert operation.amount == 2 * 8 * 64 * 64


# ---- runs


def test_a_run_on_the_cpu(cpu, monkeypatch):
    monkeypatch.setattr(module, "CPU_BUDGET_QUICK_S", 0.1)
    setting = Setting(cpu, load_accelerator("epyc-9654"), quick=True)
    parts = list(compute(setting, None, ["fp32"]))
    large, few = parts
    cube, best = large.measurements
    assert (cube.name, best.name, cube.unit, cube.format) == ("matmul", "matmul_best", "flop/s", "fp32")
    n = cube.conditions["n"]
    assert cube.conditions == {"matrix": "cube", "m": n, "n": n, "k": n, "mode": "burst", "threads": 1}
    assert cube.moved == 2 * n**3
    assert best.value == cube.value
    assert best.conditions == {"mode": "burst", "threads": 1}
    assert cube.share_of_peak == pytest.approx(cube.value / 5e12)
    assert cube.p10 <= cube.value <= cube.p90
    assert [m.conditions["m"] for m in few.measurements][:2] == [1, 8]
    assert all(m.name == "matmul_rows" for m in few.measurements)


def test_a_model_on_the_cpu(cpu, small):
    (large, _) = compute(Setting(cpu, quick=True), LLAMA, ["fp32"])
    *each, best = large.measurements
    assert [m.conditions["matrix"] for m in each] == ["out", "gate_up"]
    assert best.value == max(m.value for m in each)
    assert all(m.conditions["k"] == 4096 for m in each)


def test_the_path_of_a_gpu(small):
    before = Graph.replays
    runtime = gpu_on_cpu()
    parts = list(compute(Setting(runtime, load_accelerator("h100-sxm-80gb"), quick=True)))
    taken = figures(parts)
    assert {m.format for m in taken} == set(module.FORMATS)
    for name in module.FORMATS:
        mine = [m for m in taken if m.format == name]
        modes = [(m.name, m.conditions["mode"]) for m in mine if m.name != "matmul_rows"]
        assert modes == [
            ("matmul", "burst"),
            ("matmul", "burst"),
            ("matmul_best", "burst"),
            ("matmul", "sustained"),
            ("matmul_best", "sustained"),
        ]
        burst = [m for m in mine if m.name == "matmul" and m.conditions["mode"] == "burst"]
        (held,) = [m for m in mine if m.name == "matmul" and m.conditions["mode"] == "sustained"]
        fastest = max(burst, key=lambda m: m.value)
        assert held.conditions["m"] == fastest.conditions["m"]
        assert held.share_of_peak == held.value / load_accelerator("h100-sxm-80gb").peak_flop_per_s[name]
    # Few rows are replayed graphs of a pass over all weights.
    assert Graph.replays > before
    one = next(m for m in taken if m.name == "matmul_rows" and m.format == "bf16")
    assert one.moved == 2 * 64 * 64 * Product("square", "bf16", 1, 64, 64).copies(runtime.last_cache_bytes())
    assert torch.get_float32_matmul_precision() == "highest"


def burst_of(product, median_s):
    operation = Operation("matmul", lambda i: None, product.flop, "flop")
    return Timing(operation, median_s, median_s, median_s, 9, 9, 0.0, False)


def test_sustained_runs_as_long_as_it_says(cpu):
    product = Product("cube", "fp32", 64, 64, 64)
    found = sustained(Setting(cpu), product, burst_of(product, 0.25), 10.0)
    assert [m.n for m in found.measurements] == [40, 40]  # 10 s of 0.25 s
    assert [m.name for m in found.measurements] == ["matmul", "matmul_best"]
    assert found.notes == ()  # no CPU takes 0.25 s for this


def test_sustained_below_the_burst_is_said(cpu, monkeypatch):
    monkeypatch.setattr(module, "SUSTAINED_SAMPLE_S", 1e-9)
    product = Product("cube", "fp32", 64, 64, 64)
    (note,) = sustained(Setting(cpu), product, burst_of(product, 1e-9), 9e-9).notes
    assert note.startswith("fp32: sustained is ")


def test_what_a_device_does_not_offer(cpu):
    parts = list(compute(Setting(cpu, quick=True), None, ["fp8", "tf32"]))
    assert [part.notes for part in parts] == [("fp8: a format of GPUs",), ("tf32: a format of GPUs",)]
    assert not_offered(cpu, "bf16") is None
    turing = gpu_on_cpu(capability=(7, 5))
    assert "8.0 or later" in not_offered(turing, "bf16")
    assert "8.9 or later" in not_offered(gpu_on_cpu(capability=(8, 6)), "fp8")
    assert not_offered(turing, "fp16") is None


def test_what_torch_refuses(cpu, monkeypatch):
    def refuse(runtime, name):
        raise RuntimeError("no kernel for this\nand a long tale")

    monkeypatch.setattr(module, "_multiplication", refuse)
    (part,) = compute(Setting(cpu, quick=True), None, ["int8"])
    (note,) = part.notes
    assert "(no kernel for this)" in note
    assert "\n" not in note


def test_a_shape_torch_refuses_is_left_out(cpu, small, monkeypatch):
    real = module._multiplication

    def picky(runtime, name):
        multiply = real(runtime, name)

        def run(x, w):
            if len(x) == 8:
                raise RuntimeError("not with 8 rows")
            return multiply(x, w)

        return run

    monkeypatch.setattr(module, "_multiplication", picky)
    _, few = compute(Setting(cpu, quick=True), None, ["fp32"])
    assert [m.conditions["m"] for m in few.measurements] == [1, 64]
    assert few.notes == ("fp32, 8 x 128 x 128: not with 8 rows",)


def test_memory_that_runs_out_halves_the_rows(cpu, small, monkeypatch):
    real, tried = module._timed, []

    def short(setting, products):
        tried.append(products[0].m)
        if products[0].m == 256:
            raise MemoryError
        return real(setting, products)

    monkeypatch.setattr(module, "_timed", short)
    monkeypatch.setattr(module, "_trial_flop_per_s", lambda runtime, name: 1e15)
    monkeypatch.setattr(module, "model_matrices", lambda model: {"out": (64, 64)})
    (large, _) = compute(Setting(cpu, quick=True), LLAMA, ["fp32"])
    assert tried[:2] == [256, 128]
    assert large.notes == ("matmul fp32: size 128 instead of 256, memory ran out",)


def test_an_unknown_format(cpu):
    with pytest.raises(InfoptError, match="unknown format 'fp7'"):
        list(compute(Setting(cpu), None, ["fp7"]))


def test_a_model_that_is_not_dense(cpu):
    with pytest.raises(InfoptError, match="probes build dense models"):
        list(compute(Setting(cpu), load_catalogue_model("mistralai/Mixtral-8x7B-v0.1")))


def test_a_run_that_is_stopped_leaves_the_precision_alone(cpu, small):
    torch.set_float32_matmul_precision("medium")
    stopped = compute(Setting(cpu, quick=True), None, ["fp32"])
    next(stopped)
    assert torch.get_float32_matmul_precision() == "highest"
    stopped.close()
    assert torch.get_float32_matmul_precision() == "medium"
