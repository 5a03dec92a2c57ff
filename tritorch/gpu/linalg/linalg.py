"""Factorisations of batches of matrices on the GPU, and what follows from them.

Eigenvalues of general matrices go through the host.
"""

from __future__ import annotations

from tritorch import _C
from tritorch.core.dtype import bool_, int32, int64
from tritorch.gpu.linalg import factor
from tritorch.gpu.linalg.matmul import product
from tritorch.gpu.linalg.spectra import eigh, eigvalsh, svd, svdvals
from tritorch.gpu.linalg.triangular import lu_factor, lu_solve
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.reduce import reduction
from tritorch.gpu.shape import shaping

__all__ = ["eigh", "eigvalsh", "svd", "svdvals"]

Array = _C.Array


# ---- QR ------------------------------------------------------------------------------------------


def geqrf(x: Array) -> tuple[Array, Array]:
    """R above the diagonal, the Householder vectors below it, and their factors."""
    a = factor.stack(x)
    tau, _ = factor.qr(a)
    return a.reshape(x.shape), tau.reshape((*x.shape[:-2], tau.shape[1]))


qr = factor.orthogonal


# ---- systems -------------------------------------------------------------------------------------


def solve_ex(a: Array, b: Array) -> tuple[Array, Array]:
    """x of a x = b, and for each matrix which pivot is zero (0: none)."""
    lu, pivots, info = lu_factor(a)
    return lu_solve(lu, pivots, b), info


def inv_ex(x: Array) -> tuple[Array, Array]:
    """The inverse, and for each matrix which pivot is zero (0: none)."""
    eye = shaping.eye(x.shape[-1], x.shape[-1], x.dtype, x.device_index)
    return solve_ex(x, eye.expand(x.shape))


def _diagonal_and_sign(x: Array) -> tuple[Array, Array]:
    """U's diagonal, and the sign of the permutation."""
    lu, pivots, _ = lu_factor(x)
    n = x.shape[-1]
    strides = (*lu.strides[:-2], lu.strides[-2] + lu.strides[-1])
    own = shaping.arange(1, 1, n, int32, x.device_index)
    swapped = pointwise.call("ne", (pivots, own), int32, bool_)
    odd = pointwise.call(
        "remainder", (reduction.sum(swapped, (x.ndim - 2,), False, int64), 2), int64, int64
    )
    sign = pointwise.call("sub", (1, pointwise.call("mul", (odd, 2), int64, int64)), int64, x.dtype)
    return lu.as_strided(x.shape[:-1], strides, 0), sign


def cofactor(x: Array) -> Array:
    """The matrix of cofactors, the determinant's gradient; conjugated."""
    if not x.numel():
        return x.clone()
    kind, n = x.dtype, x.shape[-1]
    u, s, vh = svd(x, False)
    phase = pointwise.call("mul", (det(u), det(vh)), kind, kind)  # det x is that times prod s
    phase = pointwise.call("conj_physical", (phase,), kind, kind) if kind.is_complex else phase
    eye = shaping.eye(n, n, bool_, x.device_index)
    others = pointwise.call("where", (eye, 1.0, s.unsqueeze(-2)), s.dtype, s.dtype)
    others = reduction.prod(others, (x.ndim - 1,), False, s.dtype)
    weights = pointwise.call("mul", (others, phase.unsqueeze(-1)), kind, kind)
    u = pointwise.call("mul", (u, weights.unsqueeze(-2)), kind, kind)
    return product(factor.flat(u), factor.flat(vh), kind, how="ieee").reshape(x.shape)


def det(x: Array) -> Array:
    """The determinant."""
    # Of the transpose, as PyTorch: it decides the sign of a zero.
    diagonal, sign = _diagonal_and_sign(x.transpose(-2, -1))
    product = reduction.prod(diagonal, (x.ndim - 2,), False, x.dtype)
    return pointwise.call("mul", (product, sign), x.dtype, x.dtype)


def slogdet(x: Array) -> tuple[Array, Array]:
    """The sign of the determinant, and the logarithm of its magnitude."""
    diagonal, sign = _diagonal_and_sign(x)
    kind, real = x.dtype, x.dtype.to_real()
    signs = pointwise.call("sgn", (diagonal,), kind, kind)
    signs = reduction.prod(signs, (x.ndim - 2,), False, kind)
    logs = pointwise.call("log", (pointwise.call("abs", (diagonal,), kind, real),), real, real)
    logs = reduction.sum(logs, (x.ndim - 2,), False, real)
    return pointwise.call("mul", (signs, sign), kind, kind), logs


def cholesky_ex(x: Array, upper: bool) -> tuple[Array, Array]:
    """L of x = L L^H (or U of U^H U), and which leading minor is not positive (0: none)."""
    a = factor.stack(factor.adjoint(x) if upper else x)
    info = factor.cholesky(a).reshape(x.shape[:-2])
    lower = shaping.tril(a, 0).reshape(x.shape)
    return (factor.adjoint(lower) if upper else lower), info


# ---- least squares -------------------------------------------------------------------------------


def _of_full_rank(given: Array, right: Array) -> Array:
    """The least x of stacks of full rank."""
    (count, m, n), kind = given.shape, given.dtype
    if 0 in (*given.shape, *right.shape):
        return _C.empty((count, n, right.shape[2]), kind, given.device_index).zero_()
    if m >= n:
        q, r = qr(given, "reduced")
        x = product(factor.adjoint(q), right, kind, how="ieee")
        factor.solve(r, x, True, False)
        return x
    q, r = qr(factor.adjoint(given), "reduced")
    y = right.clone()
    factor.solve(factor.adjoint(r), y, False, False)
    return product(q, y, kind, how="ieee")


def _truncated(given: Array, right: Array, rcond: float) -> tuple[Array, Array, Array]:
    """The least x of stacks by singular values, of which those up to rcond times the largest count
    as zero: x, the ranks and the values."""
    kind, real, device = given.dtype, given.dtype.to_real(), given.device_index
    u, s, vh = svd(given, False)
    rank = _C.empty((s.shape[0],), int64, device).zero_()
    if s.numel():
        least = pointwise.call("mul", (s[:, :1], rcond), real, real)
        kept = pointwise.call("gt", (s, least), real, bool_)
        rank = reduction.sum(kept, (1,), False, int64)
        inverse = pointwise.call("reciprocal", (s,), real, real)
        inverse = pointwise.call("where", (kept, inverse, 0.0), real, real).unsqueeze(-1)
    rows = product(factor.adjoint(u), right, kind, how="ieee")
    if rows.numel():
        rows = pointwise.call("mul", (rows, inverse), kind, kind)
    return product(factor.adjoint(vh), rows, kind, how="ieee"), rank, s


def _is_full(rank: Array, n: int) -> bool:
    """Whether all ranks are: what is left over has a size that depends on it."""
    return bool((rank.numpy() == n).all())


def lstsq(a: Array, b: Array, rcond: float, driver: str) -> tuple[Array, Array, Array, Array]:
    """The least x that makes |a x - b| least, what is left over of tall systems of full rank, the
    rank, the singular values.

    gels, the only driver that PyTorch's GPU has: matrices have full rank, and the host waits for
    nothing.
    """
    *batch, m, n = a.shape
    kind, real, device = a.dtype, a.dtype.to_real(), a.device_index
    given, right = factor.stack(a), factor.stack(b)
    rank, values = _C.empty((0,), int64, device), _C.empty((0,), real, device)
    left_over = _C.empty((0,), real, device)
    if driver != "gels":
        x, rank, s = _truncated(given, right, rcond)
        if driver in ("gelsd", "gelss"):
            values = s.reshape((*batch, s.shape[1]))
        tall = m > n and driver != "gelsy" and _is_full(rank, n)
        rank = rank.reshape(tuple(batch))
    else:
        x, tall = _of_full_rank(given, right), m > n
    if tall:
        off = right.clone()
        factor.subtract_product(off, given, x)
        square = pointwise.call("square", (pointwise.call("abs", (off,), kind, real),), real, real)
        left_over = reduction.sum(square, (1,), False, real).reshape((*batch, b.shape[-1]))
    return x.reshape((*batch, n, b.shape[-1])), left_over, rank, values
