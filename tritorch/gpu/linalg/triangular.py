"""Triangles, LU and LDL factors of batches of matrices on the GPU."""

from __future__ import annotations

import math

from tritorch import _C
from tritorch.core.dtype import int32, int64
from tritorch.gpu.index import indexing
from tritorch.gpu.linalg import factor
from tritorch.gpu.linalg.factor import adjoint, flat, of_type, reals
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.shape import shaping
from tritorch.triton.kernel import kernel

Array = _C.Array


def inverse(a: Array, upper: bool, unit: bool) -> Array:
    """The inverse of a triangle of at most 64 rows (unit: without its diagonal)."""
    out = _C.empty(a.shape, a.dtype, a.device_index)
    factor.solve_rows(flat(a), flat(out), upper, unit, True)
    return out


def lu_factor(a: Array) -> tuple[Array, Array, Array]:
    """L below the diagonal and U in one matrix; the swaps of rows, from 1; which pivot is zero."""
    x = factor.stack(a)
    pivots, info = factor.lu(x)
    batch = a.shape[:-2]
    return x.reshape(a.shape), pivots.reshape((*batch, pivots.shape[1])), info.reshape(batch)


def permutation(pivots: Array, m: int) -> Array:
    """The order that rows come into by swaps (counted from 1)."""
    *batch, n = pivots.shape
    count = math.prod(batch)
    order = _C.empty((*batch, m), int64, pivots.device_index)
    if order.numel():
        kernel("factor", "order_of_swaps")(
            (count,), pivots.contiguous(), order, n, m, BLOCK=1024, num_warps=4
        )
    return order


def lu_solve(lu: Array, pivots: Array, b: Array) -> Array:
    """x of a x = b, by the factors of a, all dense."""
    order = permutation(pivots, lu.shape[-1]).unsqueeze(-1).expand(b.shape)
    x = indexing.gather(b, b.ndim - 2, order)
    if x.numel():
        factor.solve(flat(lu), flat(x), False, True)
        factor.solve(flat(lu), flat(x), True, False)
    return x


def ldl_factor(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """Bunch and Kaufman's L and D (blocks of 1 and 2) in one matrix, swaps, which pivot is 0."""
    kind, n, batch = a.dtype, a.shape[-1], a.shape[:-2]
    below = shaping.tril(a, -1)
    mirrored = adjoint(below) if hermitian else below.transpose(-2, -1)
    x = factor.stack(pointwise.call("add", (shaping.tril(a, 0), mirrored), kind, kind))
    pivots = _C.empty((x.shape[0], n), int32, a.device_index)
    info = factor.zero_info(x)
    if x.numel():
        kernel("ldl", "ldl_factor")(
            (x.shape[0],), reals(x), pivots, info, n, HERMITIAN=hermitian, **of_type(kind),
            BLOCK=256, ROWS=16 if kind.is_complex else 32, COLS=32, num_warps=4,
        )  # fmt: skip
    x = shaping.tril(x, 0)
    if hermitian and kind.is_complex and x.numel():
        factor.diagonal_part(x, 1).zero_()
    return x.reshape(a.shape), pivots.reshape((*batch, n)), info.reshape(batch)


def ldl_solve(ld: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """x of a x = b, by the factors of a."""
    x = factor.stack(b)
    count, n, n_cols = x.shape
    if x.numel():
        kernel("ldl", "ldl_solve")(
            (count, -(-n_cols // 16)), reals(flat(ld.contiguous())), pivots.contiguous(), reals(x),
            n, n_cols, HERMITIAN=hermitian, **of_type(b.dtype), ROWS=32, COLS=16, num_warps=4,
        )  # fmt: skip
    return x.reshape(b.shape)
