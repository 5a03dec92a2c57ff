"""Singular vectors of large matrices, by random projections."""

from __future__ import annotations

from tritorch.core import published
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.qr import linalg_qr
from tritorch.ops.linalg.spectra import svd


def _range_basis(A: Tensor, q: int, n_iterations: int) -> Tensor:
    """Orthonormal columns that span most of A's range (Halko, Martinsson and Tropp, 2009)."""
    probe = published.public.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis: Tensor = linalg_qr(A @ probe).Q
    for _ in range(n_iterations):
        basis = linalg_qr(A @ linalg_qr(A.mH @ basis).Q).Q
    return basis


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """About the q greatest singular values of A - M, and their vectors U and V."""
    q = 6 if q is None else q
    x = A if M is None else A - M.expand(A.shape)
    m, n = x.shape[-2:]
    wide = m < n
    if wide:
        x = x.mH
    basis = _range_basis(x, q, 2 if niter is None else niter)
    u, s, vh = svd(basis.mH @ x, False)
    left, right = basis @ u, vh.mH
    return (right, s, left) if wide else (left, s, right)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """The principal components of rows: svd_lowrank of A less the means of its columns."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not (0 <= q <= min(m, n)):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if not (niter >= 0):
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not (A.is_floating_point() or A.is_complex()):
        raise ValueError(f"Expected a floating point or complex tensor, got {A.dtype}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


for _function in (svd_lowrank, pca_lowrank):
    PUBLIC[_function.__name__] = _function
