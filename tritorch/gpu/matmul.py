"""Matrix products of arrays with any strides."""

from __future__ import annotations

import functools
from typing import Any

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import dtype, float32, float64
from tritorch.gpu.layout import INT32_MAX, reach

Array = _C.Array

# How float32 is multiplied: "ieee" on plain cores; on tensor cores, "tf32x3" nearly as exactly, or
# "tf32" with 10 bits of mantissa.
precision = "ieee"

_PROGRAMS = 128  # enough to fill a device: below that, the inner dim is split
_THIN = 8  # at most so many columns are multiplied without tensor cores


def parts(x: Array) -> Array:
    """Complex numbers as pairs of reals: one more dim, of size 2, at the end."""
    kind = x.dtype.to_real()
    flat = x.as_strided((x.storage_nbytes // x.itemsize,), (1,), 0).view_dtype(kind)
    strides = [*(2 * stride for stride in x.strides), 1]
    return flat.as_strided((*x.shape, 2), strides, 2 * x.storage_offset())


def accumulator(kind: dtype) -> dtype:
    """The type in which products of a real type are summed."""
    return float64 if kind is float64 else float32


@functools.cache
def triton_name(kind: dtype) -> Any:
    """A dtype as Triton's type."""
    import triton.language as tl

    return tl.int1 if kind.name == "bool" else getattr(tl, kind.name)


def tile(
    m: int, n: int, k: int, itemsize: int, fast: bool, is_complex: bool = False
) -> tuple[int, int, int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K, warps and stages; fast: on tensor cores in 16 bits or tf32.

    What tests/cuda/test_compile.py compiles for real targets without spilling registers.
    """
    if is_complex:  # four products at a time
        return 32 if m > 16 else 16, 32 if n > 16 else 16, 16, 4, 2
    if not fast:  # registers hold the operands too
        block_m = 64 if m > 32 else 32 if m > 16 else 16
        block_n = 64 if n > 32 else 32 if n > 16 else 16
        return block_m, block_n, 16, 4, 2
    block_m = 128 if m > 64 else 64 if m > 32 else 32 if m > 16 else 16
    block_n = 128 if n > 64 else 64 if n > 32 else 32 if n > 16 else 16
    if block_m == block_n == 128 and -(-m // 128) * -(-n // 128) < _PROGRAMS:
        block_m = 64  # smaller tiles fill the device before the inner dim is split
    block_k = 128 // itemsize
    warps = 8 if block_m * block_n >= 128 * 128 else 4
    return block_m, block_n, block_k, warps, 4 if itemsize == 2 else 3


def split(programs: int, k: int, block_k: int) -> tuple[int, int]:
    """How many parts of the inner dim, and how long each is (a multiple of block_k)."""
    steps = -(-k // block_k)
    wanted = min(max(_PROGRAMS // max(programs, 1), 1), steps // 8, 32)
    if wanted < 2:
        return 1, max(steps, 1) * block_k
    per = -(-steps // wanted)
    return -(-steps // per), per * block_k


def mm(a: Array, b: Array) -> Array:
    """The product of two matrices."""
    return bmm(a.unsqueeze(0), b.unsqueeze(0)).reshape_view((a.shape[0], b.shape[1]))  # type: ignore[return-value]


def bmm(a: Array, b: Array) -> Array:
    """The products of two stacks of matrices."""
    (batch, m, k), n, kind = a.shape, b.shape[2], a.dtype
    out = _C.empty((batch, m, n), kind, a.device_index)
    if out.numel() == 0:
        return out
    if k == 0:
        return out.zero_()
    if kind.is_complex:
        _tiled(parts(a), parts(b), parts(out), True)
    elif not kind.is_floating_point:
        _integers(a, b, out)
    elif n <= _THIN:
        _thin(a, b, out)
    elif m <= _THIN:
        _thin(b.transpose(1, 2), a.transpose(1, 2), out.transpose(1, 2))
    else:
        _tiled(a, b, out, False)
    return out


def _is_wide(*arrays: Array) -> bool:
    return max(reach(x.shape, x.strides) + 1024 * max(x.strides) for x in arrays) > INT32_MAX


def _partial(out: Array, splits: int) -> tuple[Array, int]:
    """Where to write: the output, or one dense float array for each part of the inner dim."""
    if splits == 1:
        return out, 0
    kind = accumulator(out.dtype)
    order = sorted(range(out.ndim), key=lambda dim: (-out.strides[dim], dim))
    shape = [out.shape[dim] for dim in order]  # laid out like the output, to be summed flat
    stacked = _C.empty((splits, *shape), kind, out.device_index)
    back = [order.index(dim) for dim in range(out.ndim)]
    strides = [stacked.strides[1 + place] for place in back]
    return stacked.as_strided(out.shape, strides), stacked.strides[0]


def _finish(out: Array, partial: Array, splits: int) -> None:
    if splits > 1:
        n = out.numel()
        block = 256 if n <= 2**16 else 1024
        kernel("matmul", "sum_splits")((-(-n // block),), partial, out, n, splits, BLOCK=block)


def _tiled(a: Array, b: Array, out: Array, is_complex: bool) -> None:
    batch, m, k = a.shape[:3]
    n, kind = b.shape[2], a.dtype
    how = precision if kind is float32 else "ieee"
    fast = (kind.itemsize == 2 or how != "ieee") and not is_complex
    block_m, block_n, block_k, warps, stages = tile(m, n, k, kind.itemsize, fast, is_complex)
    programs = batch * -(-m // block_m) * -(-n // block_n)
    splits, per = split(programs, k, block_k)
    partial, split_stride = _partial(out, splits)
    wide = _is_wide(a, b, partial) or split_stride * splits > INT32_MAX
    kernel("matmul", "matmul")(
        (programs, splits), a, b, partial, m, n, k, per, *a.strides[:3], *b.strides[:3],
        split_stride, *partial.strides[:3], ACCUMULATE=triton_name(accumulator(kind)),
        PRECISION=how, COMPLEX=is_complex, WIDE=wide, GROUP=8, BLOCK_M=block_m, BLOCK_N=block_n,
        BLOCK_K=block_k, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    _finish(out, partial, splits)


def _thin(a: Array, b: Array, out: Array) -> None:
    batch, m, k = a.shape
    n = b.shape[2]
    block_n = 1 << (n - 1).bit_length()
    if a.strides[2] <= a.strides[1]:  # rows are dense: programs read along them
        block_k = 32 if k <= 32 else 128 if k <= 128 else 256
        block_m = max(4096 // (block_k * block_n), 1)
    else:
        block_m, block_k = max(256 // block_n, 32), 16
    programs = batch * -(-m // block_m)
    splits, per = split(programs, k, block_k)
    partial, split_stride = _partial(out, splits)
    wide = _is_wide(a, b, partial) or split_stride * splits > INT32_MAX
    kernel("matmul", "matmul_thin")(
        (programs, splits), a, b, partial, m, n, k, per, *a.strides, *b.strides, split_stride,
        *partial.strides, ACCUMULATE=triton_name(accumulator(a.dtype)), WIDE=wide, BLOCK_M=block_m,
        BLOCK_N=block_n, BLOCK_K=block_k, num_warps=4,
    )  # fmt: skip
    _finish(out, partial, splits)


def _integers(a: Array, b: Array, out: Array) -> None:
    import triton.language as tl

    batch, m, k = a.shape
    n = b.shape[2]
    block_m, block_n = 64 if m > 32 and a.itemsize < 8 else 16, 64 if n > 32 else 16
    programs = batch * -(-m // block_m) * -(-n // block_n)
    kernel("matmul", "matmul_integers")(
        (programs,), a, b, out, m, n, k, *a.strides, *b.strides, *out.strides,
        ACCUMULATE=tl.int64 if a.itemsize == 8 else tl.int32, WIDE=_is_wide(a, b, out),
        BLOCK_M=block_m, BLOCK_N=block_n, num_warps=4,
    )  # fmt: skip
