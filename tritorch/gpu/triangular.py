"""Triangles and LU factors of batches of matrices on the GPU; LDL factors go through the host."""

from __future__ import annotations

import math

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import int64
from tritorch.gpu import factor, indexing
from tritorch.host import triangular as on_cpu

Array = _C.Array


@factor.of_reals("triangular.inverse", on_cpu.inverse)
def inverse(a: Array, upper: bool, unit: bool) -> Array:
    """The inverse of a triangle of at most 64 rows (unit: without its diagonal)."""
    out = _C.empty(a.shape, a.dtype, a.device_index)
    shape = (math.prod(a.shape[:-2]), *a.shape[-2:])
    factor.solve_rows(a.reshape(shape), out.reshape(shape), upper, unit, True)
    return out


@factor.of_reals("triangular.lu_factor", on_cpu.lu_factor)
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
        flat = lambda y: y.reshape((math.prod(y.shape[:-2]), *y.shape[-2:]))
        factor.solve(flat(lu), flat(x), False, True)
        factor.solve(flat(lu), flat(x), True, False)
    return x
