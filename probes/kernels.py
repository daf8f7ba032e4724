# mypy: ignore-errors
"""Triton kernels that read memory as fast as a GPU can: sum, copy, triad, and matrix times vector in 16, 8, 4 bits.

    read   sum of x                        n elements read, one number a program written
    copy   y = x                           n read, n written
    triad  c = a + s b                     2n read, n written
    gemv   y[r] = sum_k W[r, k] x[k]                            W 16 bit [rows, columns]
    gemv8  y[r] = s[r] sum_k W[r, k] x[k]                       W int8 [rows, columns], s [rows]
    gemv4  y[r] = sum_g s[r, g] sum_{k in g} (q[r, k] - 8) x[k]   q 0..15, two a byte, s [rows, columns / group]

Sums are f32. Of a group of 4-bit numbers the low nibbles of its bytes are the first half, the high nibbles the second:
both halves of `x` are then read in one piece. Offsets are 64 bit, since a buffer may hold more than 2^31 elements.

Triton may be absent: then `triton` is None, and `usable_kernels` says so. Not yet run on a GPU: checked against torch
in Triton's interpreter, and compiled for three generations of GPUs, where matrices are read 128 bits at a time
(tests/test_probe_kernels.py). What mypy cannot read here is Triton's language, not Python's.
"""

import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from infopt.probes.runtime import Runtime

try:
    import triton
    import triton.language as tl
except ImportError:
    triton, tl = None, SimpleNamespace(constexpr=int)  # what the kernels below name before they run

INSTALL = "pip install 'infopt[probe]', or pip install triton (Linux; torch for CUDA brings it)"
ALONE = "torch's operations alone measure the memory"
GROUP = 128  # 4-bit numbers that share a scale: what GPTQ and AWQ checkpoints mostly have
ZERO = 8  # what a 4-bit number that stands for 0 is stored as

READ_BLOCK, READ_BLOCKS, WRITE_BLOCK = 4096, 8, 4096  # elements a program takes at once, and how often
GEMV_ROWS, GEMV_COLUMNS = 8, 512  # of a tile; 8-bit tiles are twice as wide
GEMV4_ROWS, GEMV4_GROUPS = 4, 16
WARPS = 4
# Of a sum, relative to the largest: 16-bit inputs are exact, so only the order of f32 additions differs.
CLOSE = 1e-2


def jit(function: Callable[..., None]) -> Any:
    """Compiled by Triton where there is one."""
    return function if triton is None else triton.jit(function)


@jit
def _read(x, partial, n, block: tl.constexpr, blocks: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    start = program * block * blocks
    total = tl.zeros((block,), tl.float32)
    for i in range(blocks):
        at = start + i * block + tl.arange(0, block)
        total += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(partial + program, tl.sum(total, 0))


@jit
def _copy(x, y, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@jit
def _triad(a, b, c, factor, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    tl.store(c + at, tl.load(a + at, mask=inside) + factor * tl.load(b + at, mask=inside), mask=inside)


@jit
def _gemv(w, x, scale, y, rows, columns, stride, scaled: tl.constexpr, tile: tl.constexpr, width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    start = w + row[:, None] * stride
    total = tl.zeros((tile, width), tl.float32)
    for first in range(0, columns, width):
        at = first + tl.arange(0, width)
        inside = (row < rows)[:, None] & (at < columns)[None, :]
        weights = tl.load(start + at[None, :], mask=inside, other=0).to(tl.float32)
        total += weights * tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)[None, :]
    result = tl.sum(total, 1)
    if scaled:
        result *= tl.load(scale + row, mask=row < rows, other=0.0).to(tl.float32)
    tl.store(y + row, result, mask=row < rows)


@jit
def _gemv4(
    w, x, scale, y, rows, groups, group: tl.constexpr, zero: tl.constexpr, tile: tl.constexpr, wide: tl.constexpr
):
    half: tl.constexpr = group // 2
    row = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    byte = tl.arange(0, half)
    total = tl.zeros((tile, wide, half), tl.float32)
    for first in range(0, groups, wide):
        at = first + tl.arange(0, wide)
        inside = (row < rows)[:, None] & (at < groups)[None, :]
        in_row = row[:, None] * groups + at[None, :]
        packed = tl.load(w + in_row[:, :, None] * half + byte[None, None, :], mask=inside[:, :, None], other=0)
        scales = tl.load(scale + in_row, mask=inside, other=0.0).to(tl.float32)
        place = at[:, None] * group + byte[None, :]
        known = (at < groups)[:, None] & (byte >= 0)[None, :]
        low = tl.load(x + place, mask=known, other=0.0).to(tl.float32)
        high = tl.load(x + place + half, mask=known, other=0.0).to(tl.float32)
        product = ((packed & 15).to(tl.float32) - zero) * low[None, :, :]
        product += ((packed >> 4).to(tl.float32) - zero) * high[None, :, :]
        total += product * scales[:, :, None]
    tl.store(y + row, tl.sum(tl.sum(total, 2), 1), mask=row < rows)


def _programs(work: int, each: int) -> tuple[int]:
    return (-(-work // each),)


def partial_sums(elements: int) -> int:
    """How many numbers `read` writes."""
    return _programs(elements, READ_BLOCK * READ_BLOCKS)[0]


def read(x: Any, partial: Any) -> None:
    """Sums of pieces of x into `partial` [partial_sums(n)]; together the sum of x."""
    grid = _programs(x.numel(), READ_BLOCK * READ_BLOCKS)
    _read[grid](x, partial, x.numel(), block=READ_BLOCK, blocks=READ_BLOCKS, num_warps=8)


def copy(x: Any, y: Any) -> None:
    """y = x."""
    _copy[_programs(x.numel(), WRITE_BLOCK)](x, y, x.numel(), block=WRITE_BLOCK, num_warps=8)


def triad(a: Any, b: Any, c: Any, factor: float) -> None:
    """c = a + factor b."""
    _triad[_programs(a.numel(), WRITE_BLOCK)](a, b, c, factor, a.numel(), block=WRITE_BLOCK, num_warps=8)


def gemv(w: Any, x: Any, y: Any) -> None:
    """y[rows] = W[rows, columns] x[columns], W of 16 (or 32) bit numbers; rows may lie apart."""
    rows, columns = w.shape
    grid, stride = _programs(rows, GEMV_ROWS), w.stride(0)
    _gemv[grid](w, x, x, y, rows, columns, stride, False, tile=GEMV_ROWS, width=GEMV_COLUMNS, num_warps=WARPS)


def gemv8(w: Any, scale: Any, x: Any, y: Any) -> None:
    """y[rows] = scale[rows] (W[rows, columns] x[columns]), W int8; rows may lie apart."""
    rows, columns = w.shape
    grid, stride = _programs(rows, GEMV_ROWS), w.stride(0)
    _gemv[grid](w, x, scale, y, rows, columns, stride, True, tile=GEMV_ROWS, width=2 * GEMV_COLUMNS, num_warps=WARPS)


def gemv4(w: Any, scale: Any, x: Any, y: Any, group: int = GROUP) -> None:
    """y[rows] from uint8 [rows, columns / 2] as `pack4` makes them, and scale [rows, columns / group]."""
    rows, groups = scale.shape
    grid = _programs(rows, GEMV4_ROWS)
    _gemv4[grid](
        w, x, scale, y, rows, groups, group=group, zero=ZERO, tile=GEMV4_ROWS, wide=GEMV4_GROUPS, num_warps=WARPS
    )


def pack4(numbers: Any, group: int = GROUP) -> Any:
    """uint8 [rows, columns / 2] of 4-bit numbers 0..15 [rows, columns]; columns is a multiple of the (even) group."""
    rows, columns = numbers.shape
    halves = numbers.reshape(rows, columns // group, 2, group // 2)
    return (halves[:, :, 0] | halves[:, :, 1] << 4).reshape(rows, columns // 2).contiguous()


def errors(
    torch: Any, device: Any, rows: int = 37, groups: int = 9, group: int = GROUP, dtype: Any = None
) -> dict[str, float]:
    """Largest error of each kernel against torch on random numbers, relative to the largest result."""
    random = torch.Generator().manual_seed(rows)
    columns, dtype = groups * group, dtype or torch.float16

    def numbers(*size: int) -> Any:
        return (torch.rand(size, generator=random) - 0.5).to(dtype)

    def off(mine: Any, theirs: Any) -> float:
        return float((mine.float() - theirs.float()).abs().max() / theirs.float().abs().max())

    w, x, flat = numbers(rows, columns).to(device), numbers(columns).to(device), numbers(rows * columns + 1)
    flat = flat.float().abs().to(device)  # a sum far from zero, so that its error means something
    w8 = torch.randint(-127, 128, (rows, columns), generator=random, dtype=torch.int8).to(device)
    w4 = torch.randint(0, 16, (rows, columns), generator=random, dtype=torch.uint8).to(device)
    scale8, scale4 = numbers(rows).to(device), numbers(rows, groups).to(device)
    partial = torch.empty(partial_sums(flat.numel()), device=device)
    read(flat, partial)
    found = {"read": off(partial.double().sum(), flat.double().sum())}
    c, y = torch.empty_like(flat), torch.empty(rows, device=device)
    copy(flat, c)
    found["copy"] = off(c, flat)
    other = flat.flip(0).contiguous()
    triad(flat, other, c, 0.75)
    found["triad"] = off(c, flat + 0.75 * other)
    gemv(w, x, y)
    found["gemv"] = off(y, w.float() @ x.float())
    gemv8(w8, scale8, x, y)
    found["gemv8"] = off(y, scale8.float() * (w8.float() @ x.float()))
    gemv4(pack4(w4, group), scale4, x, y, group)
    exact = (w4.float() - ZERO) * scale4.float().repeat_interleave(group, 1)
    found["gemv4"] = off(y, exact @ x.float())
    return found


def usable_kernels(runtime: Runtime) -> tuple[Any, tuple[str, ...]]:
    """This module where its kernels run on the GPU and agree with torch there; else None and a note that says why.

    None without a note on a CPU, which has no need of them.
    """
    if runtime.kind == "cpu":
        return None, ()
    if triton is None:
        return None, (f"no Triton here, {ALONE}; {INSTALL}",)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Triton announces its next defaults when it first compiles
            wrong = [name for name, error in errors(runtime.torch, runtime.device).items() if not error < CLOSE]
    except Exception as error:  # whatever a compiler refuses: Triton's errors have no common base
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return None, (f"Triton cannot compile here ({first}), {ALONE}",)
    if wrong:
        return None, (f"Triton's kernels disagree with torch here ({', '.join(wrong)}), {ALONE}",)
    return sys.modules[__name__], ()
