"""Factorisations in panels: a launch factors some columns, products update the rest."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import dtype, int32
from tritorch.gpu.by_host import through_host
from tritorch.gpu.layout import float_bits
from tritorch.gpu.matmul import Ending, product

Array = _C.Array
WIDTH = 32  # columns of a panel
SMALL = 128  # columns that one program makes orthogonal
_SWEEPS = 20  # of rotations at most; 6 to 10 are made


def of_reals(path: str, on_host: Callable[..., Any]) -> Callable[[Any], Any]:
    """A function of real matrices, with the host's for complex ones, for which there are no kernels
    yet."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any) -> Any:
            if any(type(x) is Array and x.dtype.is_complex for x in args):
                return through_host(f"{path} (complex)", _C.Quiet(on_host))(*args)
            return function(*args)

        return run

    return decorate


def stack(x: Array) -> Array:
    """A dense copy of matrices, with one batch dim."""
    return x.clone().reshape((math.prod(x.shape[:-2]), *x.shape[-2:]))


def _power(n: int, most: int) -> int:
    return min(1 << max(n - 1, 0).bit_length(), most)


def _tiles(n_rows: int) -> dict[str, int]:
    return {"BLOCK_ROWS": max(_power(n_rows, 64), 16), "BLOCK": max(_power(n_rows, 1024), 16)}


def zero_info(x: Array) -> Array:
    """No matrix has failed."""
    return _C.empty(x.shape[:-2], int32, x.device_index).zero_()


def subtract_product(c: Array, a: Array, b: Array) -> None:
    """c -= a b, in the full precision of its type."""
    if c.numel():
        product(a, b, c.dtype, Ending(c, alpha=-1.0), out=c, how="ieee")


def lu(x: Array) -> tuple[Array, Array]:
    """Factors a stack in place: pivots, and which is zero."""
    (count, m, n), k = x.shape, min(x.shape[1:])
    pivots, info = _C.empty((count, k), int32, x.device_index), zero_info(x)
    for start in range(0, k, WIDTH) if count else ():
        end = min(start + WIDTH, k)
        kernel("factor", "lu_panel")(
            (count,), x, pivots, info, m, n, k, start, end, WIDTH=WIDTH, **_tiles(m - start),
            num_warps=4,
        )  # fmt: skip
        solve_rows(x[:, start:end, start:end], x[:, start:end, end:], False, True)
        subtract_product(x[:, end:, end:], x[:, end:, start:end], x[:, start:end, end:])
    return pivots, info


def cholesky(x: Array) -> Array:
    """Factors the lower triangles of a stack in place: which minor is not positive."""
    count, n, _ = x.shape
    info = zero_info(x)
    for start in range(0, n, WIDTH) if count else ():
        end = min(start + WIDTH, n)
        kernel("factor", "cholesky_panel")(
            (count,), x, info, n, start, end, WIDTH=WIDTH,
            BLOCK_ROWS=_tiles(n - start)["BLOCK_ROWS"], num_warps=4,
        )  # fmt: skip
        below = x[:, end:, start:end]
        subtract_product(x[:, end:, end:], below, below.transpose(1, 2))
    return info


def qr(x: Array) -> Array:
    """Factors a stack in place: the factors of Householder's reflections."""
    (count, m, n), k = x.shape, min(x.shape[1:])
    tau = _C.empty((count, k), x.dtype, x.device_index)
    for start in range(0, k, WIDTH) if count else ():
        end = min(start + WIDTH, k)
        kernel("factor", "reflect_panel")(
            (count,), x, tau, m, n, k, start, end, WIDTH=WIDTH, **_tiles(m - start), num_warps=4
        )
        reflect(x, tau, x, end, start, end, False)
    return tau


def reflect(
    v: Array, tau: Array, c: Array, first_col: int, start: int, end: int, backwards: bool
) -> None:
    """Columns of a stack from first_col on, by reflections start to end."""
    count, m, n = c.shape
    if first_col < n and count:
        block = 16
        kernel("factor", "reflect_columns")(
            (count, -(-(n - first_col) // block)), v, tau, c, m, v.shape[2], n, tau.shape[1],
            first_col, start, end, BACKWARDS=backwards,
            BLOCK_ROWS=_tiles(m - start)["BLOCK_ROWS"], BLOCK_COLS=block, num_warps=4,
        )  # fmt: skip


def solve_rows(a: Array, b: Array, upper: bool, unit: bool, eye: bool = False) -> None:
    """b becomes x of a x = b (eye: the inverse of a), of triangles of few rows; any strides."""
    (count, size, n_cols), block = b.shape, 32
    if b.numel():
        kernel("factor", "solve_rows")(
            (count, -(-n_cols // block)), a, b, size, n_cols, *a.strides, *b.strides, UPPER=upper,
            UNIT=unit, EYE=eye, SIZE=max(_power(size, 64), 16), BLOCK_COLS=block, num_warps=4,
        )  # fmt: skip


def solve(a: Array, b: Array, upper: bool, unit: bool) -> None:
    """b becomes x of a x = b, of triangles of any size."""
    n = a.shape[1]
    starts = range(0, n, WIDTH)
    for start in reversed(starts) if upper else starts:
        end = min(start + WIDTH, n)
        rows = b[:, start:end]
        solve_rows(a[:, start:end, start:end], rows, upper, unit)
        low, high = (0, start) if upper else (end, n)
        subtract_product(b[:, low:high], a[:, low:high, start:end], rows)


def _sweeps(n: int, kind: dtype) -> dict[str, int]:
    return {"BLOCK": 16, "HALF": _power((n + 1) // 2, SMALL // 2),
            "SWEEPS": _SWEEPS, "num_warps": 4 if n <= 32 else 2 * kind.itemsize,
            "maxnreg": 128}  # fmt: skip


def rotate_columns(a: Array, v: Array) -> None:
    """Makes the columns of a stack orthogonal; v is rotated with them."""
    count, m, n = a.shape
    if n > 1:
        eps = float_bits(m**0.5 * float(np.finfo(a.dtype.numpy).eps))
        kernel("jacobi", "jacobi_svd")((count,), a, v, m, n, eps, **_sweeps(n, a.dtype))


def rotate_symmetric(a: Array, v: Array) -> None:
    """Makes a stack of symmetric matrices diagonal; the columns of v are rotated with them."""
    count, n, _ = a.shape
    if n > 1:
        eps = float_bits(float(np.finfo(a.dtype.numpy).eps))
        kernel("jacobi", "jacobi_eigh")((count,), a, v, n, eps, **_sweeps(n, a.dtype))
