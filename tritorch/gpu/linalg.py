"""Factorisations of batches of matrices on the GPU, and what follows from them.

Cofactors, spectra of larger matrices and of general ones go through the host, and so
do complex matrices.
"""

from __future__ import annotations

from tritorch import _C
from tritorch.core.dtype import bool_, int32, int64
from tritorch.gpu import factor, indexing, pointwise, reduction, shaping, sorting
from tritorch.gpu.by_host import through_host
from tritorch.gpu.layout import INT32_MAX
from tritorch.gpu.matmul import product
from tritorch.gpu.triangular import lu_factor, lu_solve
from tritorch.host import linalg as on_cpu

Array = _C.Array


# ---- QR ------------------------------------------------------------------------------------------


@factor.of_reals("linalg.geqrf", on_cpu.geqrf)
def geqrf(x: Array) -> tuple[Array, Array]:
    """R above the diagonal, the Householder vectors below it, and their factors."""
    a = factor.stack(x)
    tau = factor.qr(a)
    return a.reshape(x.shape), tau.reshape((*x.shape[:-2], tau.shape[1]))


@factor.of_reals("linalg.qr", on_cpu.qr)
def qr(x: Array, mode: str) -> tuple[Array, Array]:
    """Q and R of matrices; mode r: Q is empty."""
    *batch, m, n = x.shape
    k, rows = min(m, n), m if mode == "complete" else min(m, n)
    a = factor.stack(x)
    tau = factor.qr(a)
    r = shaping.triu(a[:, :rows], 0).reshape((*batch, rows, n))
    if mode == "r":
        return _C.empty((0,), x.dtype, x.device_index), r
    eye = shaping.eye(m, rows, x.dtype, x.device_index)
    q = eye.expand((a.shape[0], m, rows)).clone()
    factor.reflect(a, tau, q, 0, 0, k, True)
    return q.reshape((*batch, m, rows)), r


# ---- systems -------------------------------------------------------------------------------------


@factor.of_reals("linalg.solve_ex", on_cpu.solve_ex)
def solve_ex(a: Array, b: Array) -> tuple[Array, Array]:
    """x of a x = b, and for each matrix which pivot is zero (0: none)."""
    lu, pivots, info = lu_factor(a)
    return lu_solve(lu, pivots, b), info


@factor.of_reals("linalg.inv_ex", on_cpu.inv_ex)
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


@factor.of_reals("linalg.det", on_cpu.det)
def det(x: Array) -> Array:
    """The determinant."""
    # Of the transpose, as PyTorch: it decides the sign of a zero.
    diagonal, sign = _diagonal_and_sign(x.transpose(-2, -1))
    product = reduction.prod(diagonal, (x.ndim - 2,), False, x.dtype)
    return pointwise.call("mul", (product, sign), x.dtype, x.dtype)


@factor.of_reals("linalg.slogdet", on_cpu.slogdet)
def slogdet(x: Array) -> tuple[Array, Array]:
    """The sign of the determinant, and the logarithm of its magnitude."""
    diagonal, sign = _diagonal_and_sign(x)
    one = lambda name, y: pointwise.call(name, (y,), x.dtype, x.dtype)
    signs = reduction.prod(one("sgn", diagonal), (x.ndim - 2,), False, x.dtype)
    logs = reduction.sum(one("log", one("abs", diagonal)), (x.ndim - 2,), False, x.dtype)
    return pointwise.call("mul", (signs, sign), x.dtype, x.dtype), logs


@factor.of_reals("linalg.cholesky_ex", on_cpu.cholesky_ex)
def cholesky_ex(x: Array, upper: bool) -> tuple[Array, Array]:
    """L of x = L L^T (or U of U^T U), and which leading minor is not positive (0: none)."""
    given = x.transpose(-2, -1) if upper else x
    a = factor.stack(given)
    info = factor.cholesky(a).reshape(x.shape[:-2])
    lower = shaping.tril(a, 0).reshape(x.shape)
    return (lower.transpose(-2, -1) if upper else lower), info


# ---- least squares -------------------------------------------------------------------------------


def lstsq(a: Array, b: Array, rcond: float, driver: str) -> tuple[Array, Array, Array, Array]:
    """The least x that makes |a x - b| least, what is left over of tall systems; for matrices of
    full rank (gels).  The other drivers, of which PyTorch's GPU has none, go through the host."""
    if driver != "gels" or a.dtype.is_complex or 0 in (*a.shape, *b.shape):
        return through_host("linalg.lstsq", _C.Quiet(on_cpu.lstsq))(a, b, rcond, driver)
    *batch, m, n = a.shape
    given, right, kind = factor.stack(a), factor.stack(b), a.dtype
    none = _C.empty((0,), kind, a.device_index)
    left_over = none
    if m >= n:
        q, r = qr(given, "reduced")
        x = product(q.transpose(1, 2), right, kind, how="ieee")
        factor.solve(r, x, True, False)
        if m > n:
            off = right.clone()
            factor.subtract_product(off, given, x)
            square = pointwise.call("square", (off,), kind, kind)
            left_over = reduction.sum(square, (1,), False, kind).reshape((*batch, b.shape[-1]))
    else:
        q, r = qr(given.transpose(1, 2), "reduced")
        factor.solve(r.transpose(1, 2), right, False, False)
        x = product(q, right, kind, how="ieee")
    rank = _C.empty((0,), int64, a.device_index)
    return x.reshape((*batch, n, b.shape[-1])), left_over, rank, none


# ---- spectra -------------------------------------------------------------------------------------


def _finite(name: str, x: Array) -> None:
    """PyTorch's complaint about matrices that are not; the host waits for the answer."""
    wrong = pointwise.call("logical_not", (pointwise.call("isfinite", (x,), x.dtype, bool_),),
                           bool_, bool_)  # fmt: skip
    on_cpu.require_finite(name, reduction.any(wrong, (x.ndim - 2, x.ndim - 1), False).numpy())


def _scaled(x: Array) -> tuple[Array, Array]:
    """Matrices by their largest number, and that number: squares of both are finite."""
    top = reduction.amax(pointwise.call("abs", (x,), x.dtype, x.dtype), (1, 2), True)
    zero = pointwise.call("eq", (top, 0.0), x.dtype, bool_)
    top = pointwise.call("where", (zero, 1.0, top), x.dtype, x.dtype)
    return pointwise.call("div", (x, top), x.dtype, x.dtype), top.reshape((x.shape[0], 1))


def _columns(x: Array, order: Array) -> Array:
    """The columns of matrices in an order of their own."""
    return indexing.gather(x, 2, order.unsqueeze(1).expand((*x.shape[:2], order.shape[-1])))


def _identity(count: int, n: int, like: Array) -> Array:
    return shaping.eye(n, n, like.dtype, like.device_index).expand((count, n, n)).clone()


def _small(x: Array) -> bool:
    """Whether one program goes through a matrix and there is one."""
    fits = min(x.shape[-2:]) <= factor.SMALL and x.shape[-2] * x.shape[-1] <= INT32_MAX
    return fits and x.numel() > 0 and not x.dtype.is_complex


def _by_rotations(x: Array, uplo: str) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of a stack."""
    lower = x if uplo == "L" else x.transpose(-2, -1)
    below = shaping.tril(lower, -1).transpose(-2, -1)
    a = pointwise.call("add", (shaping.tril(lower, 0), below), x.dtype, x.dtype)
    a, top = _scaled(factor.stack(a))
    count, n, _ = a.shape
    v = _identity(count, n, a)
    factor.rotate_symmetric(a, v)
    values, order = sorting.sort(a.as_strided((count, n), (n * n, n + 1), 0), 1, False)
    return pointwise.call("mul", (values, top), x.dtype, x.dtype), _columns(v, order)


def eigh(x: Array, uplo: str) -> tuple[Array, Array]:
    """The eigenvalues, ascending, and eigenvectors of symmetric matrices, given as one triangle."""
    if not _small(x):
        return through_host("linalg.eigh", _C.Quiet(on_cpu.eigh))(x, uplo)
    _finite("linalg.eigh", x)
    values, vectors = _by_rotations(x, uplo)
    return values.reshape(x.shape[:-1]), vectors.reshape(x.shape)


def eigvalsh(x: Array, uplo: str) -> Array:
    """The eigenvalues of symmetric matrices, ascending."""
    if not _small(x):
        return through_host("linalg.eigvalsh", _C.Quiet(on_cpu.eigvalsh))(x, uplo)
    return eigh(x, uplo)[0]


def svd(x: Array, full: bool) -> tuple[Array, Array, Array]:
    """U, the singular values, and V^T."""
    if not _small(x):
        return through_host("linalg.svd", _C.Quiet(on_cpu.svd))(x, full)
    _finite("linalg.svd", x)
    *batch, m, n = x.shape
    a, top = _scaled(factor.stack(x if m >= n else x.transpose(-2, -1)))
    count, _, columns = a.shape
    v = _identity(count, columns, a)
    factor.rotate_columns(a, v)
    sizes = reduction.vector_norm(a, 2, (1,), False, x.dtype)
    values, order = sorting.sort(sizes, 1, True)
    # U S has orthogonal columns: R is diagonal, and Q fills up what is of no size.
    u, r = qr(_columns(a, order), "complete" if full else "reduced")
    diagonal = r.as_strided((count, 1, columns), (r.shape[1] * columns, columns, columns + 1), 0)
    negative = pointwise.call("lt", (diagonal, 0.0), x.dtype, bool_)
    signs = pointwise.call("where", (negative, -1.0, 1.0), x.dtype, x.dtype)
    u[:, :, :columns].copy_(pointwise.call("mul", (u[:, :, :columns], signs), x.dtype, x.dtype))
    v = _columns(v, order)
    values = pointwise.call("mul", (values, top), x.dtype, x.dtype).reshape((*batch, columns))
    left, right = (u, v) if m >= n else (v, u)
    right = right.transpose(1, 2).contiguous()
    return (left.reshape((*batch, *left.shape[1:])), values,
            right.reshape((*batch, *right.shape[1:])))  # fmt: skip


def svdvals(x: Array) -> Array:
    """The singular values."""
    if not _small(x):
        return through_host("linalg.svdvals", _C.Quiet(on_cpu.svdvals))(x)
    return svd(x, False)[1]
