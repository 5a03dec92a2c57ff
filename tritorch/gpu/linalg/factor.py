"""Factorisations in panels: a launch factors some columns, products update the rest."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core.dtype import dtype, float32, int32
from tritorch.gpu.linalg.matmul import Epilogue, parts, product
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.shape import shaping
from tritorch.triton.kernel import kernel

Array = _C.Array
WIDTH = 32  # columns of a panel
TALL = 256  # rows from which a panel's reflections are products with what lies beside it


def adjoint(x: Array) -> Array:
    """The transposed matrices, conjugated."""
    turned = x.transpose(-2, -1)
    if not x.dtype.is_complex:
        return turned
    return pointwise.call("conj_physical", (turned,), x.dtype, x.dtype, None)


def stack(x: Array) -> Array:
    """A dense copy of matrices, with one batch dim."""
    return x.clone().reshape((math.prod(x.shape[:-2]), *x.shape[-2:]))


def _power(n: int, most: int) -> int:
    return min(1 << max(n - 1, 0).bit_length(), most)


def flat(x: Array) -> Array:
    """Matrices with one batch dim."""
    return x.reshape((math.prod(x.shape[:-2]), *x.shape[-2:]))


def of_type(kind: dtype) -> dict[str, bool]:
    """What kernels are told of their numbers."""
    return {"PAIR": kind.is_complex}


def _panel(n_rows: int, kind: dtype) -> dict[str, Any]:
    """Constants of the programs that factor a panel; they may have registers for all of a tile."""
    options = {} if kind is float32 else {"maxnreg": 192}
    return {"WIDTH": WIDTH, **of_type(kind), **_tiles(n_rows, kind), "num_warps": 4, **options}


def reals(x: Array) -> Array:
    """An array as kernels take it: complex numbers as pairs; strides still count numbers."""
    return parts(x) if x.dtype.is_complex else x


def diagonal_part(a: Array, part: int = 0) -> Array:
    """The real (or imaginary) parts of the diagonals of a dense stack."""
    (count, n, _), x = a.shape, reals(a)
    step = 2 if a.dtype.is_complex else 1
    return x.as_strided((count, n), (step * n * n, step * (n + 1)), part)


def _tiles(n_rows: int, kind: dtype) -> dict[str, int]:
    most = 32 if kind.is_complex else 64
    return {"BLOCK_ROWS": max(_power(n_rows, most), 16), "BLOCK": max(_power(n_rows, 1024), 16)}


def zero_info(x: Array) -> Array:
    """No matrix has failed."""
    return _C.empty(x.shape[:-2], int32, x.device_index).zero_()


def subtract_product(c: Array, a: Array, b: Array) -> None:
    """c -= a b, in the full precision of its type."""
    if c.dtype.is_complex and c.numel():
        pointwise.call("sub", (c, product(a, b, c.dtype)), c.dtype, c.dtype, c)
    elif c.numel():
        product(a, b, c.dtype, Epilogue(c, alpha=-1.0), out=c, how="ieee")


def lu(x: Array) -> tuple[Array, Array]:
    """Factors a stack in place: pivots, and which is zero."""
    (count, m, n), k = x.shape, min(x.shape[1:])
    pivots, info = _C.empty((count, k), int32, x.device_index), zero_info(x)
    for start in range(0, k, WIDTH) if count else ():
        end = min(start + WIDTH, k)
        kernel("factor", "lu_panel")(
            (count,), reals(x), pivots, info, m, n, k, start, end, **_panel(m - start, x.dtype)
        )
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
            (count,), reals(x), info, n, start, end, **_panel(n - start, x.dtype)
        )
        below = x[:, end:, start:end]
        subtract_product(x[:, end:, end:], below, adjoint(below))
    return info


class Reflections(NamedTuple):
    """Some columns' reflections as one, 1 - V T V^H, of the rows from `start` on."""

    start: int
    v: Array
    t: Array

    def apply(self, c: Array, adjoint_too: bool) -> None:
        """c, from that row on, times it, or its adjoint."""
        rows = product(adjoint(self.v), c, c.dtype, how="ieee")
        t = adjoint(self.t) if adjoint_too else self.t
        subtract_product(c, self.v, product(t, rows, c.dtype, how="ieee"))


def _joined(x: Array, tau: Array, start: int, end: int) -> Reflections:
    """A factored panel's reflections."""
    (count, m, _), size, device = x.shape, end - start, x.device_index
    v = shaping.tril(x[:, start:, start:end], -1)
    v.as_strided((count, size), ((m - start) * size, size + 1), 0).fill_(1)
    gram = product(adjoint(v), v, x.dtype, how="ieee")
    t = _C.empty(gram.shape, x.dtype, device)
    kernel("factor", "joined_reflections")(
        (count,), reals(gram), reals(tau), reals(t), size, tau.shape[1], start,
        **of_type(x.dtype), SIZE=WIDTH, num_warps=4,
    )  # fmt: skip
    return Reflections(start, v, t)


def qr(x: Array) -> tuple[Array, list[Reflections]]:
    """Factors a stack in place: the factors of Householder's reflections; of tall matrices also
    each panel's as one."""
    (count, m, n), k = x.shape, min(x.shape[1:])
    tau = _C.empty((count, k), x.dtype, x.device_index)
    joined = []
    for start in range(0, k, WIDTH) if count else ():
        end = min(start + WIDTH, k)
        kernel("factor", "reflect_panel")(
            (count,), reals(x), reals(tau), m, n, k, start, end, **_panel(m - start, x.dtype)
        )
        if m > TALL:
            joined.append(_joined(x, tau, start, end))
            joined[-1].apply(x[:, start:, end:], True)
        else:
            reflect(x, tau, x, end, start, end, False)
    return tau, joined


def reflect(
    v: Array, tau: Array, c: Array, first_col: int, start: int, end: int, backwards: bool
) -> None:
    """Columns of a stack from first_col on, by reflections start to end."""
    count, m, n = c.shape
    if first_col < n and count:
        block = 16
        kernel("factor", "reflect_columns")(
            (count, -(-(n - first_col) // block)), reals(v), reals(tau), reals(c), m, v.shape[2], n,
            tau.shape[1], first_col, start, end, BACKWARDS=backwards, **of_type(c.dtype),
            BLOCK_ROWS=_tiles(m - start, c.dtype)["BLOCK_ROWS"], BLOCK_COLS=block, num_warps=4,
        )  # fmt: skip


def solve_rows(a: Array, b: Array, upper: bool, unit: bool, eye: bool = False) -> None:
    """b becomes x of a x = b (eye: the inverse of a), of triangles of few rows; any strides."""
    (count, size, n_cols), block = b.shape, 16 if b.dtype.is_complex else 32
    if b.numel():
        kernel("factor", "solve_rows")(
            (count, -(-n_cols // block)), reals(a), reals(b), size, n_cols, *a.strides, *b.strides,
            UPPER=upper, UNIT=unit, EYE=eye, **of_type(b.dtype), SIZE=max(_power(size, 64), 16),
            BLOCK_COLS=block, num_warps=4,
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


def orthogonal(x: Array, mode: str) -> tuple[Array, Array]:
    """Q and R of matrices; mode r: Q is empty."""
    *batch, m, n = x.shape
    k, rows = min(m, n), m if mode == "complete" else min(m, n)
    a = stack(x)
    tau, joined = qr(a)
    r = shaping.triu(a[:, :rows], 0).reshape((*batch, rows, n))
    if mode == "r":
        return _C.empty((0,), x.dtype, x.device_index), r
    eye = shaping.eye(m, rows, x.dtype, x.device_index)
    q = eye.expand((a.shape[0], m, rows)).clone()
    for part in reversed(joined):  # columns before it are the identity's there
        part.apply(q[:, part.start :, part.start :], False)
    if not joined:
        reflect(a, tau, q, 0, 0, k, True)
    return q.reshape((*batch, m, rows)), r
