"""Triton's kernels against torch, in its interpreter; compiled for GPUs that are not here; and without Triton.

The interpreter must be asked for before Triton is imported, so each check is a program of its own.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("torch")
CLOSE = 1e-2  # kernels.CLOSE, without loading Triton here
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed here")

INTERPRETED = """
import json, torch
from infopt.probes import kernels
torch.set_num_threads(1)
random = torch.Generator().manual_seed(1)
found = {"right": {}}
for rows, groups, group, dtype in (
    (37, 9, 128, torch.float16),  # rows and groups that no tile divides
    (40, 16, 128, torch.bfloat16),  # those that every tile divides
    (5, 1, 32, torch.float32),
    (1, 17, 64, torch.bfloat16),
):
    found["right"][f"{rows}x{groups}x{group} {dtype}"] = kernels.errors(torch, "cpu", rows, groups, group, dtype)

# Three rows a gibibyte apart: the last begins at element 2^31. Pages that nobody touches take no memory.
apart, columns = 2**30, 700
w = torch.empty(2 * apart + columns, dtype=torch.int8).as_strided((3, columns), (apart, 1))
for row in range(3):
    w[row] = torch.randint(-127, 128, (columns,), dtype=torch.int8, generator=random)
x, y, scale = torch.rand(columns, generator=random), torch.empty(3), torch.tensor([1.0, 2.0, 3.0])
kernels.gemv8(w, scale, x, y)
found["far"] = [y.tolist(), (scale * (w.float() @ x)).tolist()]

real = kernels.gemv4
kernels.gemv4 = lambda w, scale, x, y, group: real(w, scale * 1.1, x, y, group)
found["wrong"] = kernels.errors(torch, "cpu", 8, 2)
print(json.dumps(found))
"""

COMPILED = """
import itertools, json, re
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from infopt.probes import kernels
FLAT, FLOATS = {"n": "i32"}, "*fp32"
GEMV = {"x": "*bf16", "scale": "*bf16", "y": "*fp32", "rows": "i32", "columns": "i32", "stride": "i32"}
GEMV4 = {"w": "*u8", "x": "*bf16", "scale": "*bf16", "y": "*fp32", "rows": "i32", "groups": "i32"}
TILE = {"tile": kernels.GEMV_ROWS}
CASES = {
    "read": (kernels._read, {"x": FLOATS, "partial": FLOATS, **FLAT}, {"block": 4096, "blocks": 8}, 8),
    "copy": (kernels._copy, {"x": FLOATS, "y": FLOATS, **FLAT}, {"block": 4096}, 8),
    "triad": (kernels._triad, {"a": FLOATS, "b": FLOATS, "c": FLOATS, "factor": "fp32", **FLAT}, {"block": 4096}, 8),
    "gemv": (kernels._gemv, {"w": "*bf16", **GEMV}, {"scaled": False, **TILE, "width": kernels.GEMV_COLUMNS}, 4),
    "gemv8": (kernels._gemv, {"w": "*i8", **GEMV}, {"scaled": True, **TILE, "width": 2 * kernels.GEMV_COLUMNS}, 4),
    "gemv4": (
        kernels._gemv4, GEMV4,
        {"group": 128, "zero": 8, "tile": kernels.GEMV4_ROWS, "wide": kernels.GEMV4_GROUPS}, 4,
    ),
}
found = {}
for capability, (name, (function, signature, constants, warps)) in itertools.product((80, 90), CASES.items()):
    # As at launch: buffers and lengths are multiples of 16.
    even = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind[0] in "*i"}
    source = ASTSource(function, signature | dict.fromkeys(constants, "constexpr"), constants, even)
    built = compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    wide = re.findall(r"ld\\.global[.\\w]*\\.v4\\.b32", built.asm["ptx"])
    found[f"{name} {capability}"] = [len(built.asm["cubin"]), len(wide)]
print(json.dumps(found))
"""

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None
from infopt.probes import kernels
from infopt.probes.runtime import Runtime, open_runtime
found, notes = kernels.usable_kernels(Runtime("cuda", 0, 1, None))
assert found is None and len(notes) == 1 and "pip install" in notes[0], notes
assert kernels.usable_kernels(open_runtime("cpu", 1)) == (None, ())
"""


def ran(program: str, folder: Path, interpret: bool = False) -> Any:
    """What a program printed, read as JSON; it must end well."""
    environment = os.environ | {"TRITON_INTERPRET": "1" if interpret else "0", "TRITON_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return ran(INTERPRETED, tmp_path_factory.mktemp("triton"), interpret=True)


@needs_triton
def test_kernels_agree_with_torch(interpreted: Any) -> None:
    """Sums of f32 in another order differ by rounding alone; a copy by nothing."""
    assert len(interpreted["right"]) == 4
    for case, errors in interpreted["right"].items():
        assert set(errors) == {"read", "copy", "triad", "gemv", "gemv8", "gemv4"}, case
        assert errors["copy"] == 0, case
        assert all(error < 1e-5 for error in errors.values()), (case, errors)


@needs_triton
def test_offsets_are_64_bit(interpreted: Any) -> None:
    mine, theirs = interpreted["far"]
    assert mine == pytest.approx(theirs, rel=1e-4)


@needs_triton
def test_a_wrong_kernel_is_found(interpreted: Any) -> None:
    """Scales a tenth too large in one kernel: its error, and no other, is above what `usable_kernels` accepts."""
    wrong = {name for name, error in interpreted["wrong"].items() if not error < CLOSE}
    assert wrong == {"gemv4"}


@needs_triton
def test_kernels_compile_and_read_128_bits_at_a_time(tmp_path: Path) -> None:
    """No GPU is needed to compile for one."""
    found = ran(COMPILED, tmp_path)
    assert len(found) == 12
    for name, (size, wide_loads) in found.items():
        assert size > 0, name
        assert wide_loads >= 4, (name, wide_loads)


def test_without_triton_a_note_says_how_to_install_it(tmp_path: Path) -> None:
    ran(WITHOUT_TRITON, tmp_path)
