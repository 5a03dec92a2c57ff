"""Helpers of products with matrices that may be sparse or absent, as in torch._linalg_utils."""

from __future__ import annotations

from typing import Any

from tritorch import linalg
from tritorch.core.dtype import bfloat16, float16, float32, float64
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.products import mm as sparse_mm


def is_sparse(A: Any) -> bool:
    """Whether a tensor keeps some elements only; an error for what is no tensor."""
    if isinstance(A, Tensor):
        return A.layout.name == "sparse_coo"
    error = str(A) + " is not a Tensor"
    raise TypeError(error)


def get_floating_dtype(A: Tensor) -> Any:
    """The tensor's dtype if it is a floating-point one, else float32."""
    return A.dtype if A.dtype in (float16, float32, float64, bfloat16) else float32


def matmul(A: Tensor | None, B: Tensor) -> Tensor:
    """A @ B; None is the identity."""
    if A is None:
        return B
    return sparse_mm(A, B) if is_sparse(A) else A @ B


def bform(X: Tensor, A: Tensor | None, Y: Tensor) -> Tensor:
    """X^T A Y."""
    return matmul(X.mT, matmul(A, Y))


def qform(A: Tensor | None, S: Tensor) -> Tensor:
    """S^T A S."""
    return bform(S, A, S)


def basis(A: Tensor) -> Tensor:
    """An orthogonal basis of the columns."""
    return linalg.qr(A).Q


def symeig(A: Tensor, largest: bool | None = False) -> tuple[Tensor, Tensor]:
    """Eigenvalues, in order, and eigenvectors of a symmetric matrix."""
    values, vectors = linalg.eigh(A, UPLO="U")
    if largest or largest is None:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values, vectors
