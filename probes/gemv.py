"""Matrix times vector by number format, as decoding one sequence does it: y[r] = sum_k W[r, k] x[k].

Matrices are distinct and together several times the last cache, so that every product reads memory. Bytes counted are
those of the weights with their scales; the vector stays in the cache.

On a CPU the products are what torch has: F.linear in fp32 and bf16, and packed ones in int8 and int4. On a GPU they are
F.linear and the kernels of kernels.py (not yet run on a GPU). Each is first checked against the weights it stands for;
one that this torch lacks or computes wrongly is noted. torch._int_mm is left out: with one row it reads a tenth of what
the others do (1.5 GB/s beside 10 to 14, one thread of a Zen 3), and no engine decodes with it.
"""

import platform
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.hardware.calibration import Measurement, Value
from infopt.probes.findings import Findings, rate
from infopt.probes.runtime import Runtime, inference
from infopt.probes.sampling import Operation
from infopt.probes.setting import Setting
from infopt.probes.streams import BUFFER_CACHES, LEAST_CACHES, MIB, operation, peak_bytes_per_s, random_numbers, timed
from infopt.units import format_bytes

COLUMNS = {"cpu": 4096, "cuda": 8192}
MATRIX_BYTES = {"cpu": 8 * MIB, "cuda": 256 * MIB}  # on a CPU for each thread (a sample is a millisecond), up to
MOST_MATRIX_BYTES = 128 * MIB  # there; on a GPU for 16 bits: other formats have as many rows
ROWS_MULTIPLE = 64  # what every kernel can divide
GROUP = 128  # 4-bit weights that share a scale
ZERO = 8  # what a 4-bit weight of 0 is stored as
FEWEST = 4  # distinct matrices
FORMAT_BYTES = {"cpu": 128 * MIB, "cuda": 1024 * MIB}  # of all matrices of one format, and at least
FORMAT_CACHES = {"cpu": LEAST_CACHES, "cuda": BUFFER_CACHES}  # of all formats, of one: this many times the last cache
CHECKED = (64, 1024)  # rows and columns
WRONG = 0.03  # of the norm of a product: a vector rounded to 7 bits leaves 0.01


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix as one kernel wants it.

    size_bytes  of weights and scales;  multiply  x [1, columns] and a matrix to y [rows]
    exact       f32 [rows, columns] of what the stored numbers stand for;  again  the same in another place
    """

    matrix: Any
    size_bytes: int
    multiply: Callable[[Any, Any], Any]
    exact: Callable[[], Any]
    again: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Product:
    """One way to multiply: number format, kernel, bits of a weight, type of the vector, and how a matrix is made.

    group  of 4-bit weights that share a scale, None elsewhere
    """

    format: str
    kernel: str
    bits: int
    vector: str
    pack: Callable[[Runtime, int, int], Packed]
    group: int | None = None


def gemv(setting: Setting, kernels: Any = None) -> Findings:
    """Bytes a second of every product this device has.

    Errors: InfoptError where memory has no room for matrices that a cache does not hold.
    """
    runtime = setting.runtime
    products = cpu_products(runtime) if runtime.kind == "cpu" else gpu_products(runtime, kernels)
    with inference(runtime):
        reasons = [refusal(runtime, product) for product in products]
    usable = [product for product, reason in zip(products, reasons, strict=True) if not reason]
    # A CPU reads formats in turn, so that all together must pass its caches; a GPU repeats one format.
    alone = runtime.last_cache_bytes() * (1 if runtime.kind == "cpu" else len(usable))
    least, what = LEAST_CACHES * alone, "bandwidth: its matrices"
    wanted = max(FORMAT_BYTES[runtime.kind] * len(usable), FORMAT_CACHES[runtime.kind] * alone)
    total = setting.fitting_bytes(wanted, least, what)
    short = f"{what} take {format_bytes(total)} in all instead of {format_bytes(wanted)}, memory is short"
    figures, notes = setting.shrinking(
        total // len(usable), least // len(usable), what, lambda size: measured(setting, size, usable)
    )
    said = [reason for reason in reasons if reason] + ([short] if total < wanted else [])
    return Findings(tuple(figures), notes=(*said, *notes))


def refusal(runtime: Runtime, product: Product) -> str:
    """Why a product cannot be measured here; empty where its result is that of the weights it stands for."""
    rows, columns = CHECKED
    version = runtime.torch.__version__
    x = vector(runtime, product, columns)
    try:
        packed = product.pack(runtime, rows, columns)
        result = packed.multiply(x, packed.matrix)
    except (AttributeError, RuntimeError, TypeError) as error:  # no such operation, or not for this device or type
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"bandwidth: no {product.format} product {product.kernel} in torch {version} here ({first})"
    right = packed.exact() @ x[0].float()
    error_ratio = float((result.reshape(rows).float() - right).norm() / right.norm())
    if error_ratio < WRONG:
        return ""
    return (
        f"bandwidth: {product.format} product {product.kernel} of torch {version} is off by {error_ratio:.0%} of its "
        "result here and is left out"
    )


def measured(setting: Setting, format_bytes: int, products: Sequence[Product]) -> list[Measurement]:
    """Every product over matrices that take `format_bytes` in each format, timed in turn."""
    runtime = setting.runtime
    operations: list[Operation] = []
    conditions: list[dict[str, Value]] = []
    started, columns = time.perf_counter(), COLUMNS[runtime.kind]
    with inference(runtime):
        for number, product in enumerate(products):
            done = time.perf_counter() - started
            setting.tell("bandwidth: packing matrices", done, done * len(products) / number if number else 1.0)
            rows = rows_of(runtime, product, format_bytes)
            packed = product.pack(runtime, rows, columns)
            count = max(FEWEST, -(-format_bytes // packed.size_bytes))
            matrices = [packed.matrix, *(packed.again() for _ in range(count - 1))]
            x, multiply = vector(runtime, product, columns), packed.multiply

            def run(i: int, x: Any = x, multiply: Any = multiply, matrices: Any = matrices) -> Any:
                return multiply(x, matrices[i])

            name = f"gemv {product.format} ({product.kernel})"
            operations.append(operation(runtime, name, run, count, packed.size_bytes))
            conditions.append(
                {
                    "size_bytes": packed.size_bytes,
                    "threads": runtime.threads,
                    "kernel": product.kernel,
                    "rows": rows,
                    "columns": columns,
                    "matrices": count,
                    "vector": product.vector,
                    "group": product.group,
                }
            )
        timings = timed(setting, operations)
    peak = peak_bytes_per_s(setting)
    return [
        rate("bandwidth", "gemv", timing, product.format, peak, **condition)
        for product, timing, condition in zip(products, timings, conditions, strict=True)
    ]


def rows_of(runtime: Runtime, product: Product, format_bytes: int) -> int:
    """Rows of a matrix; fewer where FEWEST matrices would take more than `format_bytes`."""
    matrix_bytes = MATRIX_BYTES[runtime.kind]
    if runtime.kind == "cpu":
        matrix_bytes = min(matrix_bytes * runtime.threads, MOST_MATRIX_BYTES)
    else:
        matrix_bytes = matrix_bytes * product.bits // 16
    rows = min(matrix_bytes, format_bytes // FEWEST) * 8 // (COLUMNS[runtime.kind] * product.bits)
    return max(ROWS_MULTIPLE, rows // ROWS_MULTIPLE * ROWS_MULTIPLE)


def vector(runtime: Runtime, product: Product, columns: int) -> Any:
    """x [1, columns]."""
    return random_numbers(runtime, columns, runtime.dtype(product.vector), seed=11).view(1, columns)


def cpu_products(runtime: Runtime) -> list[Product]:
    """What torch offers on a processor."""
    engine = runtime.torch.backends.quantized.engine
    found = [
        plain("fp32"),
        plain("bf16"),
        Product("int8", "_weight_int8pack_mm", 8, "bf16", pack_int8),
        Product("int8", f"quantized.linear_dynamic ({engine})", 8, "fp32", pack_int8_dynamic),
        Product("int4", "_weight_int4pack_mm_for_cpu", 4, "bf16", pack_int4, GROUP),
    ]
    # Only Arm has vector code for it: the loop that stands in for it elsewhere reads 0.2 GB/s.
    if platform.machine().lower() in ("aarch64", "arm64"):
        found.append(Product("int4", "_dyn_quant_matmul_4bit", 4, "fp32", pack_int4_dynamic, GROUP))
    return found


def plain(format: str) -> Product:
    """torch's own product of unquantized weights."""

    def pack(runtime: Runtime, rows: int, columns: int) -> Packed:
        matrix, linear = numbers16(runtime, rows, columns, format), runtime.torch.nn.functional.linear
        return Packed(matrix, matrix.nbytes, linear, matrix.float, matrix.clone)

    return Product(format, "F.linear", 32 if format == "fp32" else 16, format, pack)


def pack_int8(runtime: Runtime, rows: int, columns: int) -> Packed:
    """int8 weights, bf16 vector: torch._weight_int8pack_mm."""
    numbers, scale = int8_numbers(runtime, rows, columns)
    scale = scale.bfloat16()
    return Packed(
        numbers,
        numbers.nbytes + scale.nbytes,
        lambda x, matrix: runtime.torch._weight_int8pack_mm(x, matrix, scale),
        lambda: numbers.float() * scale.float()[:, None],
        numbers.clone,
    )


def pack_int8_dynamic(runtime: Runtime, rows: int, columns: int) -> Packed:
    """int8 weights, f32 vector rounded to 7 bits on the way: the dynamically quantized linear of torch."""
    torch = runtime.torch
    numbers, scale = int8_numbers(runtime, rows, columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that it will drop these tensors: until then they are measured
        zeros = torch.zeros(rows, dtype=torch.long)
        quantized = torch._make_per_channel_quantized_tensor(numbers, scale.double(), zeros, 0)

    def again() -> Any:
        return torch.ops.quantized.linear_prepack(quantized, None)

    def multiply(x: Any, matrix: Any) -> Any:
        # Seven bits: with eight, sums of two products overflow 16 bits on processors without VNNI.
        return torch.ops.quantized.linear_dynamic(x, matrix, True)

    return Packed(again(), numbers.nbytes + scale.nbytes, multiply, lambda: numbers.float() * scale[:, None], again)


def pack_int4(runtime: Runtime, rows: int, columns: int) -> Packed:
    """int4 weights in groups, bf16 vector: torch's _weight_int4pack_mm_for_cpu."""
    torch = runtime.torch
    numbers, scales = int4_numbers(runtime, rows, columns)
    # [groups, rows, 2]: the scale, and what is added to (number - 8) times it.
    scales_added = torch.stack((scales.T, torch.zeros_like(scales.T)), -1).contiguous().bfloat16()
    matrix = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers.int(), 1)
    return Packed(
        matrix,
        matrix.nbytes + scales_added.nbytes,
        lambda x, matrix: torch.ops.aten._weight_int4pack_mm_for_cpu(x, matrix, GROUP, scales_added),
        lambda: int4_exact(numbers, scales_added[:, :, 0].T),
        matrix.clone,
    )


def pack_int4_dynamic(runtime: Runtime, rows: int, columns: int) -> Packed:
    """int4 weights in groups, f32 vector rounded to 8 bits on the way: torch's _dyn_quant_matmul_4bit."""
    aten = runtime.torch.ops.aten
    numbers, scales = int4_numbers(runtime, rows, columns)
    pairs = numbers[:, ::2] | numbers[:, 1::2] << 4
    matrix = aten._dyn_quant_pack_4bit_weight(pairs, scales, None, GROUP, columns, rows)
    return Packed(
        matrix,
        pairs.nbytes + scales.nbytes,
        lambda x, matrix: aten._dyn_quant_matmul_4bit(x, matrix, GROUP, columns, rows),
        lambda: int4_exact(numbers, scales),
        matrix.clone,
    )


def gpu_products(runtime: Runtime, kernels: Any) -> list[Product]:
    """F.linear and Triton's kernels, in the GPU's own 16-bit format (bf16 from compute capability 8 on)."""
    torch = runtime.torch
    format = "bf16" if torch.cuda.get_device_capability(runtime.index)[0] >= 8 else "fp16"
    if kernels is None:
        return [plain(format)]

    def written(rows: int, launch: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any], Any]:
        y = torch.empty(rows, device=runtime.device)  # in one place, as a captured graph wants it

        def multiply(x: Any, matrix: Any) -> Any:
            launch(matrix, x[0], y)
            return y

        return multiply

    def pack16(runtime: Runtime, rows: int, columns: int) -> Packed:
        matrix = numbers16(runtime, rows, columns, format)
        return Packed(matrix, matrix.nbytes, written(rows, kernels.gemv), matrix.float, matrix.clone)

    def pack8(runtime: Runtime, rows: int, columns: int) -> Packed:
        matrix, scale = int8_numbers(runtime, rows, columns)
        multiply = written(rows, lambda matrix, x, y: kernels.gemv8(matrix, scale, x, y))
        exact = lambda: matrix.float() * scale[:, None]  # noqa: E731
        return Packed(matrix, matrix.nbytes + scale.nbytes, multiply, exact, matrix.clone)

    def pack4(runtime: Runtime, rows: int, columns: int) -> Packed:
        numbers, scales = int4_numbers(runtime, rows, columns)
        scales, matrix = scales.to(runtime.dtype(format)), kernels.pack4(numbers, GROUP)
        multiply = written(rows, lambda matrix, x, y: kernels.gemv4(matrix, scales, x, y, GROUP))
        size_bytes = matrix.nbytes + scales.nbytes
        return Packed(matrix, size_bytes, multiply, lambda: int4_exact(numbers, scales), matrix.clone)

    return [
        plain(format),
        Product(format, "triton", 16, format, pack16),
        Product("int8", "triton", 8, format, pack8),
        Product("int4", "triton", 4, format, pack4, GROUP),
    ]


def numbers16(runtime: Runtime, rows: int, columns: int, format: str) -> Any:
    """Weights [rows, columns] that are not quantized."""
    return random_numbers(runtime, rows * columns, runtime.dtype(format), seed=3).view(rows, columns)


def int8_numbers(runtime: Runtime, rows: int, columns: int) -> tuple[Any, Any]:
    """Weights int8 [rows, columns] and a f32 scale for each row."""
    numbers = random_numbers(runtime, rows * columns, runtime.torch.int8, seed=4, span=254)
    return numbers.view(rows, columns), scales_of(runtime, rows, seed=5)


def int4_numbers(runtime: Runtime, rows: int, columns: int) -> tuple[Any, Any]:
    """Weights 0..15 uint8 [rows, columns] and a f32 scale [rows, columns / GROUP] for each group of a row."""
    numbers = random_numbers(runtime, rows * columns, runtime.torch.uint8, seed=6, span=16, middle=ZERO)
    groups = columns // GROUP
    return numbers.view(rows, columns), scales_of(runtime, rows * groups, seed=7).view(rows, groups)


def int4_exact(numbers: Any, scales: Any) -> Any:
    """f32 weights: (number - 8) times the scale of its group."""
    return (numbers.float() - ZERO) * scales.float().repeat_interleave(GROUP, 1)


def scales_of(runtime: Runtime, count: int, seed: int) -> Any:
    """Scales between 0.001 and 0.003, f32."""
    return random_numbers(runtime, count, runtime.torch.float32, seed, span=0.002, middle=0.002)
