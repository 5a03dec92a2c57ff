"""Decompositions of batches of matrices, by NumPy's LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.host.linalg.triangular import inverse as triangular_inverse, lu_factor, lu_solve

Array = np.ndarray[Any, Any]


class LinAlgError(RuntimeError):
    """A matrix is singular, or an algorithm did not converge."""


LinAlgError.__module__ = "tritorch._C"
LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"  # as PyTorch shows it


def element(where: Array) -> str:
    """Names the first matrix of a batch for which something holds."""
    return f"(Batch element {int(where.ravel().argmax())}): " if where.ndim else ""


def _no_info(x: Array) -> Array:
    return np.zeros(x.shape[:-2], np.int32)


def _dense(*arrays: Any) -> Any:
    return tuple(np.ascontiguousarray(a).reshape(a.shape) for a in arrays)


# ---- QR ------------------------------------------------------------------------------------------


def qr(x: Array, mode: str) -> tuple[Array, Array]:
    """Q and R of matrices; mode r: Q is empty."""
    if 0 in x.shape:
        m, n = x.shape[-2:]
        k = m if mode == "complete" else min(m, n)
        q = np.zeros((*x.shape[:-2], m, k), x.dtype)
        if m and k:
            q[...] = np.eye(m, k, dtype=x.dtype)
        return (np.zeros(0, x.dtype) if mode == "r" else q), np.zeros(
            (*x.shape[:-2], k, n), x.dtype
        )
    if mode == "r":
        return np.zeros(0, x.dtype), np.ascontiguousarray(np.linalg.qr(x, "r"))
    q, r = np.linalg.qr(x, mode)  # type: ignore[call-overload]
    return np.ascontiguousarray(q), np.ascontiguousarray(r)


def geqrf(x: Array) -> tuple[Array, Array]:
    """R above the diagonal, the Householder vectors below it, and their factors."""
    if 0 in x.shape:
        return x.copy(), np.zeros((*x.shape[:-2], min(x.shape[-2:])), x.dtype)
    h, tau = np.linalg.qr(x, "raw")
    return np.ascontiguousarray(np.swapaxes(h, -1, -2)).astype(x.dtype), tau.astype(x.dtype)


# ---- systems -------------------------------------------------------------------------------------


def solve_ex(a: Array, b: Array) -> tuple[Array, Array]:
    """x of a x = b, and for each matrix which pivot is zero (0: none)."""
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    if 0 in shape:
        return np.zeros(shape, b.dtype), np.zeros(shape[:-2], np.int32)
    try:
        return _solve(a, b).astype(b.dtype, copy=False), np.zeros(shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        lu, pivots, info = lu_factor(np.broadcast_to(a, (*shape[:-2], *a.shape[-2:])))
        return lu_solve(lu, pivots, b), info


def _solve(a: Array, b: Array) -> Array:
    if a.ndim > 2 and not any(
        stride for stride, size in zip(a.strides[:-2], a.shape[:-2]) if size > 1
    ):  # one matrix, expanded: one factorisation for all columns
        n, k = b.shape[-2:]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        wide = np.moveaxis(np.broadcast_to(b, (*batch, n, k)), -2, 0).reshape(n, -1)
        x = np.linalg.solve(a[(0,) * (a.ndim - 2)], wide)
        return np.ascontiguousarray(np.moveaxis(x.reshape(n, *batch, k), 0, -2))
    return np.linalg.solve(a, b)


def inv_ex(x: Array) -> tuple[Array, Array]:
    """The inverse, and for each matrix which pivot is zero (0: none)."""
    if 0 in x.shape:
        return x.copy(), _no_info(x)
    try:
        return np.linalg.inv(x).astype(x.dtype, copy=False), _no_info(x)
    except np.linalg.LinAlgError:
        return solve_ex(x, np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape))


def det(x: Array) -> Array:
    """The determinant."""
    out = np.asarray(np.linalg.det(x), x.dtype)
    if x.size and not out.all():  # LAPACK's factors know the sign of a zero, NumPy drops it
        factors, pivots, _ = lu_factor(x.swapaxes(-1, -2))  # of the transpose, as PyTorch
        swaps = np.count_nonzero(pivots != np.arange(1, pivots.shape[-1] + 1), -1)
        product = np.prod(np.diagonal(factors, 0, -2, -1), -1) * np.where(swaps % 2, -1, 1)
        out = np.where(out == 0, product, out).astype(x.dtype)
    return out


def slogdet(x: Array) -> tuple[Array, Array]:
    """The sign of the determinant, and the logarithm of its magnitude."""
    sign, log = np.linalg.slogdet(x)
    return np.asarray(sign, x.dtype), np.asarray(log, x.real.dtype)


def cofactor(x: Array) -> Array:
    """The matrix of cofactors, the determinant's gradient; conjugated."""
    n = x.shape[-1]
    if 0 in x.shape:
        return x.copy()
    u, s, vh = np.linalg.svd(x)
    others = np.broadcast_to(s[..., None, :], (*s.shape, n)).copy()
    others[..., np.arange(n), np.arange(n)] = 1
    phase = np.linalg.det(u) * np.linalg.det(vh)  # det x = phase * prod s
    return ((u * (phase.conj()[..., None] * others.prod(-1))[..., None, :]) @ vh).astype(x.dtype)


def cholesky_ex(x: Array, upper: bool) -> tuple[Array, Array]:
    """L of x = L L^H (or U of U^H U), and which leading minor is not positive (0: none)."""
    if 0 in x.shape:
        return x.copy(), _no_info(x)
    if upper:
        lower, info = cholesky_ex(np.swapaxes(x, -1, -2).conj(), False)
        return np.ascontiguousarray(np.swapaxes(lower, -1, -2).conj()), info
    try:
        return np.linalg.cholesky(x).astype(x.dtype, copy=False), _no_info(x)
    except np.linalg.LinAlgError:
        flat = x.reshape(-1, *x.shape[-2:])
        done = [_cholesky_of_any(matrix) for matrix in flat]
        lower = np.stack([matrix for matrix, _ in done]).reshape(x.shape)
        return lower, np.array([k for _, k in done], np.int32).reshape(x.shape[:-2])


def _cholesky_of_any(x: Array) -> tuple[Array, int]:
    try:
        return np.linalg.cholesky(x).astype(x.dtype, copy=False), 0
    except np.linalg.LinAlgError:
        pass
    lower = np.tril(x)
    for k in range(len(x)):
        pivot = lower[k, k].real - (np.abs(lower[k, :k]) ** 2).sum()
        if not pivot > 0:
            lower[k, k] = pivot
            return lower, k + 1
        lower[k, k] = np.sqrt(pivot)
        lower[k + 1 :, k] -= lower[k + 1 :, :k] @ lower[k, :k].conj()
        lower[k + 1 :, k] /= lower[k, k]
    return lower, 0


# ---- spectra -------------------------------------------------------------------------------------


def require_finite(name: str, bad: Array) -> None:
    """bad: which matrices are not."""
    if bad.any():
        raise LinAlgError(
            f"{name}: {element(bad)}The algorithm failed to converge because the input matrix "
            f"contained non-finite values."
        )


def _converged(name: str, x: Array, repeated: str, run: Any) -> Any:
    """run(), with PyTorch's complaints."""
    require_finite(name, np.asarray(~np.isfinite(x).all((-1, -2))))
    try:
        return run()
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix is ill-conditioned "
            f"or has too many repeated {repeated}."
        ) from None


def svd(x: Array, full: bool) -> tuple[Array, Array, Array]:
    """U, the singular values, and V^H."""
    m, n = x.shape[-2:]
    k, batch = min(m, n), x.shape[:-2]
    if 0 in x.shape:
        u, vh = np.zeros((*batch, m, m if full else k)), np.zeros((*batch, n if full else k, n))
        u[...], vh[...] = np.eye(*u.shape[-2:]), np.eye(*vh.shape[-2:])
        return u.astype(x.dtype), np.zeros((*batch, k), x.real.dtype), vh.astype(x.dtype)
    found = _converged("linalg.svd", x, "singular values", lambda: np.linalg.svd(x, full))
    return _dense(*found)


def svdvals(x: Array) -> Array:
    """The singular values."""
    if 0 in x.shape:
        return svd(x, False)[1]
    run = lambda: np.linalg.svd(x, compute_uv=False)
    return np.ascontiguousarray(_converged("linalg.svd", x, "singular values", run))


def eigh(x: Array, uplo: Any) -> tuple[Array, Array]:
    """The eigenvalues, ascending, and eigenvectors of Hermitian matrices, given as one triangle."""
    if 0 in x.shape:
        return np.zeros(x.shape[:-1], x.real.dtype), x.copy()
    found = _converged("linalg.eigh", x, "eigenvalues", lambda: np.linalg.eigh(x, uplo))
    return _dense(*found)


def eigvalsh(x: Array, uplo: Any) -> Array:
    """The eigenvalues of Hermitian matrices, ascending."""
    if 0 in x.shape:
        return np.zeros(x.shape[:-1], x.real.dtype)
    run = lambda: np.linalg.eigvalsh(x, uplo)
    return np.ascontiguousarray(_converged("linalg.eigh", x, "eigenvalues", run))


def eig(x: Array) -> tuple[Array, Array]:
    """The eigenvalues and eigenvectors, complex."""
    kind = np.result_type(x.dtype, np.complex64)
    if 0 in x.shape:
        return np.zeros(x.shape[:-1], kind), x.astype(kind)
    values, vectors = _converged("linalg.eig", x, "eigenvalues", lambda: np.linalg.eig(x))
    return values.astype(kind), np.ascontiguousarray(vectors.astype(kind))


def eigvals(x: Array) -> Array:
    """The eigenvalues, complex."""
    kind = np.result_type(x.dtype, np.complex64)
    if 0 in x.shape:
        return np.zeros(x.shape[:-1], kind)
    values: Array = _converged("linalg.eig", x, "eigenvalues", lambda: np.linalg.eigvals(x))
    return values.astype(kind)


# ---- least squares -------------------------------------------------------------------------------


def lstsq(a: Array, b: Array, rcond: float, driver: str) -> tuple[Array, Array, Array, Array]:
    """The least x that makes |a x - b| least, what is left over, the rank, the singular values.

    Singular values up to rcond times the largest count as zero; gels: none does, and no rank is
    given.  What is left over is given for systems of full rank with more equations than unknowns.
    """
    m, n = a.shape[-2:]
    x = None
    if 0 not in (*a.shape, *b.shape) and driver in ("gels", "gelsy"):
        q, r = np.linalg.qr(a if m >= n else _adjoint(a))
        if driver == "gels":
            _require_full_rank(r)
        if driver == "gels" or _surely_regular(r, rcond):
            x = _solve(r, _adjoint(q) @ b) if m >= n else q @ _solve(_adjoint(r), b)
            rank = np.full(a.shape[:-2], min(m, n), np.int64)
            s = np.zeros(0, a.real.dtype)
    if x is None:
        u, s, vh = svd(a, False)
        kept = s > rcond * (s[..., :1] if s.shape[-1] else 1)
        scale = np.where(kept, 1 / np.where(kept, s, 1), 0)[..., None].astype(s.dtype)
        x = _adjoint(vh) @ (scale * (_adjoint(u) @ b))
        rank = np.asarray(kept.sum(-1), np.int64)
    left_over = np.zeros(0, s.dtype)
    if m > n and driver != "gelsy" and (rank == n).all():
        left_over = np.square(np.abs(a @ x - b)).sum(-2)
    if driver == "gels":
        rank = np.zeros(0, np.int64)
    values = s if driver in ("gelsd", "gelss") else np.zeros(0, s.dtype)
    return x.astype(b.dtype, copy=False), left_over, rank, values


def _adjoint(x: Array) -> Array:
    return np.swapaxes(x, -1, -2).conj()


def _require_full_rank(r: Array) -> None:
    """Refuses a triangle with a number on its diagonal that is nothing beside the greatest."""
    sizes = np.abs(np.diagonal(r, 0, -2, -1))
    nothing = sizes <= np.finfo(sizes.dtype).eps * sizes.max(-1, keepdims=True)
    if nothing.any():
        matrix, place = np.argwhere(nothing.reshape(-1, sizes.shape[-1]))[0]
        where = f"(Batch element {matrix}): " if nothing[..., 0].size > 1 else ""
        raise LinAlgError(
            f"torch.linalg.lstsq: {where}The least squares solution could not be computed because "
            f"the input matrix does not have full rank (error code: {place + 1})."
        )


def _surely_regular(r: Array, rcond: float) -> bool:
    """Whether the least singular value is greater than rcond times the largest, by bounds."""
    if (np.diagonal(r, 0, -2, -1) == 0).any():
        return False
    inverse = triangular_inverse(r, True, False)
    return bool((_norm_bound(r) * _norm_bound(inverse) * rcond < 1).all())


def _norm_bound(x: Array) -> Array:
    """At least the largest singular value, and hardly more: of x^H x squared, the fourth root."""
    scale = np.linalg.norm(x, axis=(-2, -1))
    x = x / scale[..., None, None]
    square = _adjoint(x) @ x
    bound: Array = scale * np.sqrt(np.sqrt(np.linalg.norm(square @ square, axis=(-2, -1))))
    return bound
