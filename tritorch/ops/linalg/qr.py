"""QR and Householder's reflections."""

from __future__ import annotations

from typing import Any

from tritorch.arrays.meta import MetaArray
from tritorch.core import defaults
from tritorch.core.promotion import scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.common import (
    eye_like,
    factorisation,
    linalg,
    named_results,
    require_computable,
    require_float,
    require_matrix,
)
from tritorch.ops.linalg.triangular import triangular
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import laid_out
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.record.sizes import cubes
from tritorch.ops.shape import ranges
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.parts import diag_embed

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
    both = both - diag_embed(inner.diagonal(0, -2, -1))  # the diagonal counts once
    total = q @ both
    if g_q is not None:
        total = total + g_q
    return triangular(r, total.mH, True).mH


def _qr_gradient(g: Any, out: Any, x_shape: Any, mode: str) -> Tensor:
    (g_q, g_r), (q, r) = g, out
    m, n = x_shape[-2:]
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
        return cat([square, square.new_zeros((*x_shape[:-1], n - m))], -1)
    rest = g_r[..., m:]
    # What the columns after the square ones, Q @ r[..., m:], say about Q.
    through = q @ (r[..., m:] @ rest.mH)
    g_q = through if g_q is None else g_q + through
    square = _qr_tall(g_q, g_r[..., :m], q, r[..., :m])
    return cat([square, q @ rest], -1)


def _qr_results(x: MetaArray, mode: str) -> tuple[MetaArray, MetaArray]:
    *lead, m, n = x.shape
    k = m if mode == "complete" else min(m, n)
    return x.new((0,) if mode == "r" else (*lead, m, k)), x.new((*lead, k, n))


_qr = factorisation(
    "linalg_qr",
    "x",
    "mode",
    cpu="linalg.qr",
    grad=Gradient(_qr_gradient, outputs=0b11),
    layout="column-major",
    rules=Rules(infer=_qr_results, cost=lambda outs, x, *rest: 2 * cubes(x)),
)
_geqrf = factorisation(
    "geqrf",
    "x",
    cpu="linalg.geqrf",
    layout="column-major",
    rules=Rules(
        infer=lambda x: (x.new(x.shape), x.new((*x.shape[:-2], min(x.shape[-2:])))),
        cost=lambda outs, x, *rest: 2 * cubes(x),
    ),
)
_LinalgQR = named_results("linalg_qr", "Q", "R")
_QR = named_results("qr", "Q", "R")
_Geqrf = named_results("geqrf", "a", "tau")


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def qr(A: Tensor, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and an upper triangular R with A = Q R."""
    require_matrix("linalg.qr", A)
    require_float("linalg.qr", A, "geqrf_cpu")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            f"or 'complete'"
        )
    return _LinalgQR(*_qr.call((A,), (mode,)))


linalg_qr = qr


def _old_qr(input: Tensor, some: bool = True) -> Any:
    """linalg.qr, by its old name."""
    defaults.warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future "
        "PyTorch release.\nThe boolean parameter 'some' has been replaced with a string parameter "
        "'mode'.\nQ, R = torch.qr(A, some)\nshould be replaced with\n"
        "Q, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return _QR(*linalg_qr(input, "reduced" if some else "complete"))


_old_qr.__name__ = "qr"
public(out=True)(_old_qr)


@public(out=True)
@autocast("cpu:float32")
def geqrf(input: Tensor) -> Any:
    """R above the diagonal, Householder vectors below it, and their factors."""
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    require_computable("geqrf_cpu", input)
    return _Geqrf(*_geqrf.call((input,)))


# ---- reflections ---------------------------------------------------------------------------------


def _reflections(vectors: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """V and T of the product of all reflections I - tau v v^H, which is I - V T V^H."""
    m, k = vectors.shape[-2], tau.shape[-1]
    v = vectors[..., :k].tril(-1) + ranges.eye(m, k, dtype=tau.dtype, device=tau.device)
    scale = tau.diag_embed()
    above = eye_like(tau) + tau.unsqueeze(-1) * (v.mH @ v).triu(1)
    return v, triangular(above, scale, True, True)


def _require_factors(name: str, x: Tensor, tau: Tensor) -> None:
    if x.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {tau.ndim} and input.ndim is equal to {x.ndim}"
        )
    if x.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.shape[:-1])}"
        )


def _require_householder(x: Tensor, tau: Tensor) -> None:
    name = "torch.linalg.householder_product"
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    m, n = x.shape[-2:]
    if n > m:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if tau.ndim and tau.shape[-1] > n:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    _require_factors(name, x, tau)
    if x.dtype is not tau.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {scalar_name(tau.dtype)} does not match input dtype "
            f"{scalar_name(x.dtype)}"
        )
    require_computable("orgqr_cpu", x)


@linalg(also=("orgqr",))
@autocast("cpu:float32")
@ends_with("linalg_householder_product")
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of reflections I - tau v v^H; v is below A's diagonal."""
    _require_householder(input, tau)
    m, n = input.shape[-2:]
    v, t = _reflections(input, tau)
    eye: Tensor = ranges.eye(m, n, dtype=input.dtype, device=input.device)
    return laid_out("column-major", eye - v @ (t @ v[..., :n, :].mH), input)


def _require_ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool) -> None:
    for x, name in ((input, "input"), (other, "other")):
        if x.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {name} must have at least 2 dimensions.")
    size = -2 if left else -1
    if other.shape[size] != input.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{size}] must be equal to input.shape[-2]")
    if tau.ndim and tau.shape[-1] != min(other.shape[size], input.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{size}], input.shape[-1])"
        )
    _require_factors("torch.ormqr", input, tau)
    if other.ndim != input.ndim:
        raise RuntimeError(
            f"torch.ormqr: Expected other to have the same number of dimensions as input, but got "
            f"other.ndim equal to {other.ndim} and input.ndim is equal to {input.ndim}"
        )
    if input.shape[:-2] != other.shape[:-2]:
        raise RuntimeError(
            f"torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but "
            f"got {list(other.shape[:-2])}"
        )
    for x, name in ((tau, "tau"), (other, "other")):
        if x.dtype is not input.dtype:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {name} to have the same dtype, but input has "
                f"dtype{scalar_name(input.dtype)} and {name} has dtype {scalar_name(x.dtype)}"
            )
    require_computable("ormqr_cpu", input)


@public(out=True)
@autocast("cpu:float32")
@ends_with("ormqr")
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q @ other (left) or other @ Q, of the whole product Q of reflections or of its Q^H."""
    _require_ormqr(input, tau, other, left)
    v, t = _reflections(input, tau)
    middle = t.mH if transpose else t
    if left:
        found = other - v @ (middle @ (v.mH @ other))
    else:
        found = other - ((other @ v) @ middle) @ v.mH
    return laid_out("column-major", found, other)
