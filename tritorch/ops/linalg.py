"""Decompositions of matrices and what is built on them: qr, solve, matrix_exp, Householder."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tritorch.core.dtype import float64
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.backends import backend
from tritorch.ops.declare import PUBLIC, Operator, public


class LinAlgError(RuntimeError):
    """A matrix is singular, or an algorithm did not converge."""


class _QR(NamedTuple):
    Q: Tensor
    R: Tensor


_QR.__name__ = _QR.__qualname__ = "linalg_qr"


# ---- systems -------------------------------------------------------------------------------------


def _run_solve(which: str) -> Any:
    def run(a: Any, b: Any) -> Any:
        try:
            return backend(which, "linalg").solve(a, b)
        except np.linalg.LinAlgError:
            raise LinAlgError(
                "torch.linalg.solve: The solver failed because the input matrix is singular."
            ) from None

    return run


def _summed_to(g: Tensor, like: Tensor) -> Tensor:
    return g.sum_to_size(like.shape) if g.shape != like.shape else g


_solve: Operator = Operator(
    "linalg_solve", "a b", cpu=_run_solve("cpu"), gpu=_run_solve("gpu"),
    grad=(
        lambda g, a, b, out: _summed_to(-(_solve.call((a.mH, g)) @ out.mH), a),
        lambda g, a, b: _summed_to(_solve.call((a.mH, g)), b),
    ),
)  # fmt: skip


def _require_float(name: str, x: Tensor) -> None:
    if not x.is_floating_point() and not x.is_complex():
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{scalar_name(x.dtype)}"
        )
    if x.dtype.itemsize < 4:
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported. Got {scalar_name(x.dtype)}"
        )


def _require_matrix(name: str, x: Tensor, square: bool = False, argument: str = "A") -> None:
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    if square and x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {x.shape[-2]} by "
            f"{x.shape[-1]} matrices"
        )


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B (left) or X A = B; B may be a vector of each batch."""
    _require_matrix("linalg.solve", A, True)
    _require_float("linalg.solve", A)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type "
            f"{scalar_name(A.dtype)} and B of type {scalar_name(B.dtype)} instead"
        )
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector:
        if not left:
            raise RuntimeError(
                "linalg.solve: Vector broadcasting of the left hand side is not supported for "
                "left=False."
            )
        B = B.unsqueeze(-1)
    if A.shape[-1] != B.shape[-2 if left else -1]:
        sizes = f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} {sizes}"
        )
    out = _solve.call((A, B)) if left else _solve.call((A.mT, B.mT)).mT
    return out.squeeze(-1) if vector else out


# ---- qr ------------------------------------------------------------------------------------------


def _qr_tall(g_q: Tensor | None, g_r: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    """The gradient of a matrix with at least as many rows as columns."""
    inner: Any = 0
    if g_r is not None:
        inner = g_r @ r.mH
    if g_q is not None:
        inner = inner - q.mH @ g_q
    inner = inner.triu()
    both = inner + inner.mH
    both = both - PUBLIC["diag_embed"](inner.diagonal(0, -2, -1))  # the diagonal counts once
    total = q @ both
    if g_q is not None:
        total = total + g_q
    return _solve.call((r, total.mH)).mH


def _qr_gradient(g: Any, x: Tensor, out: Any, mode: str) -> Tensor:
    (g_q, g_r), (q, r) = g, out
    m, n = x.shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
    if m >= n:
        return _qr_tall(g_q, g_r, q, r)
    if g_r is None:
        square = _qr_tall(g_q, None, q, r[..., :m])
        return PUBLIC["cat"]([square, square.new_zeros((*x.shape[:-1], n - m))], -1)
    rest = g_r[..., m:]
    through = x[..., m:] @ rest.mH  # what the columns after the square ones say about Q
    g_q = through if g_q is None else g_q + through
    square = _qr_tall(g_q, g_r[..., :m], q, r[..., :m])
    return PUBLIC["cat"]([square, q @ rest], -1)


_qr = Operator("linalg_qr", "x", "mode", cpu="linalg.qr", outputs=0b11, grad=_qr_gradient)
_geqrf = Operator("geqrf", "x", cpu="linalg.geqrf")


def linalg_qr(A: Tensor, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and an upper triangular R with A = Q R."""
    _require_matrix("linalg.qr", A)
    _require_float("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            f"or 'complete'"
        )
    return _QR(*_qr.call((A,), (mode,)))


@public()
def qr(input: Tensor, some: bool = True) -> Any:
    """linalg.qr, by its old name."""
    return linalg_qr(input, "reduced" if some else "complete")


@public()
def geqrf(input: Tensor) -> Any:
    """R above the diagonal, Householder vectors below it, and their factors."""
    _require_matrix("torch.geqrf", input, argument="input")
    return _geqrf.call((input,))


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of reflections I - tau v v^H; v is below A's diagonal."""
    _require_matrix("torch.linalg.householder_product", A, argument="input")
    m, n = A.shape[-2:]
    if n > m:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to "
            "input.shape[-1]"
        )
    if tau.shape[-1] > n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to "
            "tau.shape[-1]"
        )
    eye = PUBLIC["eye"](m, n, dtype=A.dtype, device=A.device)
    vectors = A.tril(-1) + eye
    out = A * 0 + eye
    for i in reversed(range(tau.shape[-1])):
        v = vectors[..., i : i + 1]
        out = out - tau[..., i, None, None] * v @ (v.mH @ out)
    return out


def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """linalg.householder_product, by its old name."""
    return householder_product(input, input2)


PUBLIC["orgqr"] = Tensor.orgqr = orgqr  # type: ignore[attr-defined]

# ---- the exponential -----------------------------------------------------------------------------


_DEGREE = 18


@public()
def matrix_exp(input: Tensor) -> Tensor:
    """sum of A^k / k!: of A / 2^s by Horner's rule, squared s times."""
    _require_matrix("linalg.matrix_exp", input, True)
    _require_float("linalg.matrix_exp", input)
    eye = PUBLIC["eye"](input.shape[-1], dtype=input.dtype, device=input.device)
    if not input.numel():
        return input.clone()
    norm = float(input.detach().abs().sum(-2).amax())
    wide = input.dtype is float64 or input.dtype.itemsize == 16
    most = 1.0 if wide else 3.0  # such that the sum is as exact as the numbers
    squarings = math.ceil(math.log2(norm / most)) if most < norm < math.inf else 0
    small = input / 2**squarings
    out = eye + small / _DEGREE
    for k in range(_DEGREE - 1, 0, -1):
        out = eye + small @ out / k
    for _ in range(squarings):
        out = out @ out
    return out
