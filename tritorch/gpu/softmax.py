"""Softmax and its gradients."""

from __future__ import annotations

import math

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import dtype, float32, float64
from tritorch.gpu.layout import INT32_MAX
from tritorch.gpu.matmul import triton_name

Array = _C.Array

_REGISTERS = 2**15  # the most elements that one program holds


def row_blocks(n_rows: int, n_cols: int, inner: int) -> tuple[bool, int, int, int]:
    """Whether rows are looped over, and rows, columns and warps of one program.

    Dense rows go several to a program when short; rows that lie next to each other (inner > 1) go
    32 to a program, so that loads are coalesced.
    """
    cols = 1 << (n_cols - 1).bit_length() if n_cols > 1 else 1
    rows = 1 << (n_rows - 1).bit_length() if n_rows > 1 else 1
    at_once = min(rows, 32 if inner > 1 else max(2048 // cols, 1))
    if at_once * cols <= _REGISTERS // (2 if inner > 1 else 1):
        size = at_once * cols
        return False, at_once, cols, min(max(size // 1024, 4), 32)
    return (True, at_once, 128, 4) if inner > 1 else (True, 1, 8192, 8)


def _launch(
    name: str, arrays: tuple[Array, ...], shape: tuple[int, ...], dim: int, log: bool
) -> None:
    n_cols, inner = shape[dim], math.prod(shape[dim + 1 :])
    n_rows = math.prod(shape[:dim]) * inner
    looped, rows, cols, warps = row_blocks(n_rows, n_cols, inner)
    is_double = any(array.dtype is float64 for array in arrays)
    which = name.format("looped" if looped else "rows")
    kernel("softmax", which)(
        (-(-n_rows // rows),), *arrays, n_rows, n_cols, inner, LOG=log,
        COMPUTE=triton_name(float64 if is_double else float32),
        WIDE=n_rows * n_cols > INT32_MAX, BLOCK_ROWS=rows, BLOCK_COLS=cols, num_warps=warps,
    )  # fmt: skip


def _forward(x: Array, dim: int, dtype: dtype, log: bool) -> Array:
    out = _C.empty(x.shape, dtype, x.device_index)
    if out.numel():
        # Dense, so that rows of any dim are two numbers; the output is dense too.
        _launch("softmax_{}", (x.contiguous(), out), x.shape, dim, log)
    return out


def _backward(g: Array, out: Array, dim: int, dtype: dtype, log: bool) -> Array:
    dx = _C.empty(out.shape, dtype, out.device_index)
    if dx.numel():
        arrays = (g.contiguous(), out.contiguous(), dx)  # as above
        _launch("softmax_{}_backward", arrays, out.shape, dim, log)
    return dx


def softmax(x: Array, dim: int, dtype: dtype) -> Array:
    """exp(x) / sum(exp(x))."""
    return _forward(x, dim, dtype, False)


def log_softmax(x: Array, dim: int, dtype: dtype) -> Array:
    """x - log(sum(exp(x)))."""
    return _forward(x, dim, dtype, True)


def softmax_backward(g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """out * (g - sum(g * out))."""
    return _backward(g, out, dim, dtype, False)


def log_softmax_backward(g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """g - exp(out) * sum(g)."""
    return _backward(g, out, dim, dtype, True)
