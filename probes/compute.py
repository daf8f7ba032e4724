"""`probe compute`: how fast the device multiplies matrices, by number type, at the shapes of a model.

    y[m, n] = x[m, k] w[n, k]'        2 m n k FLOP

Rows m of a prompt (thousands) are bound by arithmetic and give `matmul`; few rows, as in decoding, are bound by reading
w and give `matmul_rows`. Data is random, since a chip draws less power on zeros and clocks higher, and weights rotate
over more than the last cache holds. `matmul_best` is the best shape of a number type.

On a GPU `burst` is taken with pauses, at the clock a short kernel meets; `sustained` runs seconds without one, at the
clock the power limit leaves, and is what a loaded server gets.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import Measurement
from infopt.probes.decoder import shape_of
from infopt.probes.findings import Findings, Part, rate
from infopt.probes.runtime import Runtime, capture
from infopt.probes.sampling import Operation, Sampling, Timing, measure, sample
from infopt.probes.setting import Setting
from infopt.profiles.geometry import ModelProfile
from infopt.units import format_share

FORMATS = ("bf16", "fp16", "fp8", "int8", "tf32", "fp32")
# Compute capability from which tensor cores multiply a format, CUDA C++ programming guide, "Tensor Core" tables.
OFFERED_FROM = {"bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9)}
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "tf32": 4, "fp32": 4}
RESULT_BYTES = 4  # the widest result: int32 of int8

MOST_ROWS = {"cpu": 4096, "cuda": 8192}
LEAST_ROWS = 128  # fewer are no prompt
LEAST_COLUMNS = 64
FEW_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
FEW_ROWS_QUICK = (1, 8, 64)
CUBES = {"cpu": (4096, 2048, 1024, 512, 256), "cuda": (8192, 4096)}
SQUARE = {"cpu": 2048, "cuda": 8192}  # of the few rows where no model is given
TRIAL = {"cpu": (128, 512, 512), "cuda": (2048, 2048, 2048)}
INT8_ROWS = 17  # the least torch._int_mm takes on a GPU
MULTIPLE = 16  # of the sides of fp8 and int8 matrices

BLOCK = 1_000_003  # a prime: rows of a matrix do not repeat each other
# The longest a single product should take; on a busy host a long one is always interrupted.
SAMPLE_S = {"cpu": 0.02, "cuda": 0.1}
CPU_BUDGET_S = 4.0  # of one group of products
CPU_BUDGET_QUICK_S = 0.6
QUICK_MATRICES = ("out", "gate_up")  # on a CPU: most of the FLOP, and the one of few rows
PAUSE_S = 0.005  # after each burst: keeps a B200 at its full clock (flashinfer-ai/flashinfer pull 2899)
SUSTAINED_S = 10.0
SUSTAINED_QUICK_S = 3.0
SUSTAINED_SAMPLE_S = 0.25


@dataclass(frozen=True, slots=True)
class Product:
    """One product: `matrix` says whose shape it has (qkv, out, gate_up, down, cube, square)."""

    matrix: str
    format: str
    m: int
    n: int
    k: int

    @property
    def flop(self) -> float:
        return 2.0 * self.m * self.n * self.k

    def copies(self, cache_bytes: int) -> int:
        """Matrices that together are twice the last cache."""
        return max(1, math.ceil(2 * cache_bytes / (self.n * self.k * ELEMENT_BYTES[self.format])))

    def held_bytes(self, cache_bytes: int) -> int:
        """Memory of weights, rows and result."""
        numbers = self.n * self.k * self.copies(cache_bytes) + self.m * self.k
        return numbers * ELEMENT_BYTES[self.format] + self.m * self.n * RESULT_BYTES


def compute(setting: Setting, model: ModelProfile | None = None, formats: Sequence[str] | None = None) -> Part:
    """Rates of matrix products in FLOP/s, one part for each number type and mode.

    model    whose matrices are multiplied; a cube without one.  formats  of FORMATS; all the device offers without it
    Errors: InfoptError for an unknown format, or a model that is not dense.
    """
    unknown = [f for f in formats or () if f not in FORMATS]
    if unknown:
        raise InfoptError(f"unknown format {unknown[0]!r}; known: {', '.join(FORMATS)}")
    matrices = model_matrices(model) if model else {}
    if setting.quick and setting.runtime.kind == "cpu":
        matrices = {name: sides for name, sides in matrices.items() if name in QUICK_MATRICES}
    torch = setting.runtime.torch
    precision = torch.get_float32_matmul_precision()
    try:
        for name in formats or FORMATS:
            reason = not_offered(setting.runtime, name)
            if reason:
                yield Findings(notes=(f"{name}: {reason}",))
            else:
                yield from _of_format(setting, name, matrices)
    finally:
        torch.set_float32_matmul_precision(precision)


def model_matrices(model: ModelProfile) -> dict[str, tuple[int, int]]:
    """Rows and columns of the matrices of a layer, [out, in], as engines fuse them."""
    shape = shape_of(model)
    return {
        "qkv": (shape.qkv, shape.hidden),
        "out": (shape.hidden, shape.q_heads * shape.head_dim),
        "gate_up": (2 * shape.intermediate, shape.hidden),
        "down": (shape.hidden, shape.intermediate),
    }


def not_offered(runtime: Runtime, name: str) -> str | None:
    """Why a format is not multiplied here; None where it is."""
    if runtime.kind == "cpu" and name in ("tf32", "fp8"):
        return "a format of GPUs"
    needed = OFFERED_FROM.get(name)
    if runtime.kind == "cuda" and needed and runtime.torch.cuda.get_device_capability(runtime.index) < needed:
        return f"this GPU has no tensor cores for it (compute capability {needed[0]}.{needed[1]} or later has)"
    try:
        operation_of(runtime, Product("trial", name, 64, 64, 64), 0).run(0)
        runtime.synchronize()
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        if runtime.out_of_memory(error):
            raise
        return f"torch {runtime.torch.__version__} does not multiply it here ({_first_line(error)})"
    return None


def _of_format(setting: Setting, name: str, matrices: dict[str, tuple[int, int]]) -> Part:
    """Burst rates of prompts and of few rows; on a GPU the sustained one of the best shape."""
    runtime = setting.runtime
    speed_flop_per_s = _trial_flop_per_s(runtime, name)

    def taken(most_rows: int) -> tuple[list[tuple[Product, Timing]], list[str]]:
        return _timed(setting, prompts(setting, name, matrices, speed_flop_per_s, most_rows))

    (large, notes), shrunk = setting.shrinking(MOST_ROWS[runtime.kind], LEAST_ROWS, f"matmul {name}", taken)
    if not large:
        yield Findings(notes=tuple(notes))
        return
    best, timing = max(large, key=lambda pair: pair[1].per_s)
    figures = [_figure(setting, "matmul", p, t, "burst") for p, t in large]
    yield Findings((*figures, _best(setting, best, timing, "burst")), notes=(*shrunk, *notes))
    runtime.release()
    asked = few_rows(setting, name, matrices, speed_flop_per_s)
    placed = with_room(setting, asked)
    short = [f"matmul_rows {name}: {len(placed)} of {len(asked)} numbers of rows, memory is short"]
    few, notes = _timed(setting, placed)
    said = (*(short if len(placed) < len(asked) else ()), *notes)
    yield Findings(tuple(_figure(setting, "matmul_rows", p, t, "burst") for p, t in few), notes=said)
    runtime.release()
    if runtime.kind == "cuda":
        yield sustained(setting, best, timing, SUSTAINED_QUICK_S if setting.quick else SUSTAINED_S)


def prompts(
    setting: Setting, name: str, matrices: dict[str, tuple[int, int]], speed_flop_per_s: float, most_rows: int
) -> list[Product]:
    """Products of many rows: a cube, and each matrix with as many rows as `SAMPLE_S` and the memory allow.

    Where even `LEAST_ROWS` take too long, the first rows of the matrix stand for it.
    """
    kind, cache = setting.runtime.kind, setting.runtime.last_cache_bytes()
    most_flop = speed_flop_per_s * SAMPLE_S[setting.runtime.kind]
    most_bytes = setting.room_bytes() / (2 * len(matrices) + 2)

    def fits(product: Product) -> bool:
        return product.flop <= most_flop and product.held_bytes(cache) <= most_bytes

    found = []
    for matrix, (n, k) in matrices.items():
        product = Product(matrix, name, most_rows, n, k)
        while product.m > LEAST_ROWS and not fits(product):
            product = replace(product, m=product.m // 2)
        while product.n // 2 >= LEAST_COLUMNS and not fits(product):
            product = replace(product, n=product.n // 2 // MULTIPLE * MULTIPLE)
        found.append(product)
        if kind == "cuda" and product.m == MOST_ROWS[kind]:
            found.append(replace(product, m=product.m // 2))
    cubes = [Product("cube", name, edge, edge, edge) for edge in CUBES[kind] if edge <= most_rows]
    fitting = [p for p in cubes if fits(p)] or cubes[-1:]
    if not matrices or kind == "cuda":
        found += fitting if kind == "cuda" else fitting[:1]
    setting.need(sum(p.held_bytes(cache) for p in found), f"matmul {name}")
    return found


def few_rows(
    setting: Setting, name: str, matrices: dict[str, tuple[int, int]], speed_flop_per_s: float
) -> list[Product]:
    """Products of few rows with one matrix: from where reading decides to where arithmetic does."""
    edge = SQUARE[setting.runtime.kind]
    n, k = matrices.get("out", (edge, edge))
    most_flop = speed_flop_per_s * SAMPLE_S[setting.runtime.kind]
    while n // 2 >= LEAST_COLUMNS and 2.0 * LEAST_ROWS * n * k > most_flop:
        n = n // 2 // MULTIPLE * MULTIPLE
    least = INT8_ROWS if name == "int8" and setting.runtime.kind == "cuda" else 1
    rows = FEW_ROWS_QUICK if setting.quick else FEW_ROWS
    found = [Product("out" if matrices else "square", name, m, n, k) for m in rows if m >= least]
    return [p for p in found if p.flop <= most_flop] or found[:1]


def with_room(setting: Setting, products: Sequence[Product]) -> list[Product]:
    """As many of these as there is memory for, since each has weights of its own; InfoptError where not one has."""
    cache, room, kept = setting.runtime.last_cache_bytes(), setting.room_bytes(), list[Product]()
    for product in products:
        room -= product.held_bytes(cache)
        if room < 0:
            break
        kept.append(product)
    if not kept:
        setting.need(products[0].held_bytes(cache), f"matmul_rows {products[0].format}")
    return kept


def sustained(setting: Setting, product: Product, burst: Timing, wanted_s: float) -> Findings:
    """The rate of one product without pauses for `wanted_s`, and how far below the burst it is."""
    operation = operation_of(setting.runtime, product, setting.runtime.last_cache_bytes())
    repeats = max(1, round(SUSTAINED_SAMPLE_S / burst.median_s))
    count = max(1, math.ceil(wanted_s / (repeats * burst.median_s)))
    sampling = Sampling(fewest=count, most=count, budget_s=wanted_s)
    (timing,) = measure(setting.runtime, [replace(operation, repeats=repeats)], sampling, setting.tell)
    share = timing.per_s / burst.per_s
    notes = (f"{product.format}: sustained is {format_share(share)} of the burst rate",) if share < 0.9 else ()
    figure = _figure(setting, "matmul", product, timing, "sustained")
    return Findings((figure, _best(setting, product, timing, "sustained")), notes=notes)


def _timed(setting: Setting, products: Sequence[Product]) -> tuple[list[tuple[Product, Timing]], list[str]]:
    """Timings of products taken in turn, and a note for each that torch refuses."""
    runtime, kept, operations, notes = setting.runtime, [], [], []
    for product in products:
        try:
            operation = operation_of(runtime, product, runtime.last_cache_bytes())
            operation.run(0)
            runtime.synchronize()
        except RuntimeError as error:
            if runtime.out_of_memory(error):
                raise
            notes.append(f"{product.format}, {product.m} x {product.n} x {product.k}: {_first_line(error)}")
            continue
        kept.append(product)
        operations.append(operation)
    if not operations:
        return [], notes
    sampling = setting.sampling
    if runtime.kind == "cuda":
        sampling = replace(sampling, pause_s=PAUSE_S)
    else:
        sampling = replace(sampling, budget_s=CPU_BUDGET_QUICK_S if setting.quick else CPU_BUDGET_S)
    timings = measure(runtime, operations, sampling, setting.tell)
    return [(p, _without_weights(t)) for p, t in zip(kept, timings, strict=True)], notes


def _without_weights(timing: Timing) -> Timing:
    """The figures alone: what the operation ran on is given back."""
    return replace(timing, operation=replace(timing.operation, run=lambda number: None))


def operation_of(runtime: Runtime, product: Product, cache_bytes: int) -> Operation:
    """The product over rotating weights; on a GPU, few rows are a captured pass over all, or launching would show."""
    multiply = _multiplication(runtime, product.format)
    x = _repeated(_block(runtime, product.format, 0), product.m, product.k)
    block = _block(runtime, product.format, 1)
    count = product.copies(cache_bytes) if cache_bytes else 1
    weights = [_repeated(block, product.n, product.k) for _ in range(count)]
    name = f"matmul {product.format}"
    if runtime.kind == "cuda" and product.m <= FEW_ROWS[-1] and cache_bytes:
        replay = capture(runtime, lambda: [multiply(x, w) for w in weights])
        return Operation(name, lambda i: replay(), product.flop * count, "flop")
    return Operation(name, lambda i: multiply(x, weights[i % count]), product.flop, "flop")


def _multiplication(runtime: Runtime, name: str) -> Callable[[Any, Any], Any]:
    """x w' in one number type."""
    torch = runtime.torch
    if name == "fp8":
        one = torch.ones((), dtype=torch.float32, device=runtime.device)
        # Fast accumulation is the rate vendors print, and what engines use on Hopper.
        return lambda x, w: torch._scaled_mm(x, w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    if name == "int8":
        return lambda x, w: torch._int_mm(x, w.t())
    linear = torch.nn.functional.linear
    if name in ("tf32", "fp32"):
        precision = "high" if name == "tf32" else "highest"
        return lambda x, w: (torch.set_float32_matmul_precision(precision), linear(x, w))[1]
    return lambda x, w: linear(x, w)


def _block(runtime: Runtime, name: str, seed: int) -> Any:
    """A million random numbers; matrices repeat them, since drawing them all would take longer than the probe."""
    torch = runtime.torch
    dtype = runtime.dtype("fp32" if name == "tf32" else name)
    generator = torch.Generator(device=runtime.device).manual_seed(seed)
    if name == "int8":
        return torch.randint(-127, 128, (BLOCK,), generator=generator, device=runtime.device, dtype=dtype)
    return torch.randn(BLOCK, generator=generator, device=runtime.device).to(dtype)


def _repeated(block: Any, rows: int, columns: int) -> Any:
    flat = block.new_empty(rows * columns)
    for start in range(0, flat.numel(), block.numel()):
        piece = flat[start : start + block.numel()]
        piece.copy_(block[: piece.numel()])
    return flat.view(rows, columns)


def _trial_flop_per_s(runtime: Runtime, name: str) -> float:
    """About how fast a format is here: the best of three products of moderate size."""
    operation = operation_of(runtime, Product("trial", name, *TRIAL[runtime.kind]), 0)
    operation.run(0)
    return operation.amount / min(sample(runtime, operation, i).seconds for i in range(3))


def _figure(setting: Setting, name: str, product: Product, timing: Timing, mode: str) -> Measurement:
    return rate(
        "compute",
        name,
        timing,
        product.format,
        _peak(setting, product.format),
        matrix=product.matrix,
        m=product.m,
        n=product.n,
        k=product.k,
        mode=mode,
        threads=setting.runtime.threads,
    )


def _best(setting: Setting, product: Product, timing: Timing, mode: str) -> Measurement:
    """Without a shape: two devices are compared by the best of each."""
    peak = _peak(setting, product.format)
    return rate("compute", "matmul_best", timing, product.format, peak, mode=mode, threads=setting.runtime.threads)


def _peak(setting: Setting, name: str) -> float | None:
    return setting.accelerator.peak_flop_per_s.get(name) if setting.accelerator else None


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
