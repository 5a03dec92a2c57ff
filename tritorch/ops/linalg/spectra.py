"""Singular values and eigenvalues, and what follows from them: pseudo-inverse, rank, condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.core import published
from tritorch.core.info import finfo
from tritorch.core.promotion import scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.common import (
    LINALG,
    factorisation,
    linalg,
    named_results,
    require_computable,
    require_float,
    require_matrix,
    require_phase_free,
)
from tritorch.ops.pointwise.arithmetic import maximum, where
from tritorch.ops.record.checks import looks_at_values, on_host, values
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.record.sizes import cubes
from tritorch.ops.shape.ranges import eye

# ---- singular values -----------------------------------------------------------------------------


def _differences(x: Tensor) -> Tensor:
    """x_j - x_i, and 1 on the diagonal, where nothing is divided."""
    return x.unsqueeze(-2) - x.unsqueeze(-1) + eye(x.shape[-1], dtype=x.dtype, device=x.device)


def _diagonal(x: Tensor) -> Tensor:
    return x.diagonal(0, -2, -1)


def _with_diagonal(x: Tensor, values: Tensor) -> Tensor:
    """x with another diagonal."""
    return x - _diagonal(x).diag_embed() + values.to(x.dtype).diag_embed()


def _svd_gradient(g: Any, out: Any, full: bool) -> Tensor:
    (g_u, g_s, g_vh), (u, s, vh) = g, out
    m, n = u.shape[-2], vh.shape[-1]
    k = min(m, n)
    if full:
        u, vh = u[..., :k], vh[..., :k, :]
        g_u = None if g_u is None else g_u[..., :k]
        g_vh = None if g_vh is None else g_vh[..., :k, :]
    if g_u is None and g_vh is None:
        if m >= n:
            return u @ (g_s.to(u.dtype).unsqueeze(-1) * vh)
        return (u * g_s.to(u.dtype).unsqueeze(-2)) @ vh
    return _svd_of_vectors(g_u, g_s, g_vh, u, s.to(u.dtype), vh)


def _svd_of_vectors(g_u: Any, g_s: Any, g_vh: Any, u: Tensor, s: Tensor, vh: Tensor) -> Tensor:
    """The gradient by all three; differences of singular values are divided by."""
    square = s * s
    gaps = _differences(square)
    inner: Any = 0
    turn: Any = 0
    if g_u is not None:
        skew = u.mH @ g_u
        skew = skew - skew.mH
        turn = _diagonal(skew)
        inner = (skew / gaps) * s.unsqueeze(-2)
    if g_vh is not None:
        skew = vh @ g_vh.mH
        skew = skew - skew.mH
        turn = turn + _diagonal(skew)
        inner = inner + s.unsqueeze(-1) * (skew / gaps)
    along = 0 if g_s is None else g_s
    if u.is_complex():
        require_phase_free("svd_backward", turn.imag)
        if g_u is not None:
            along = along + _diagonal(u.mH @ g_u - g_u.mH @ u) / (2 * s)
    diagonal = along.to(u.dtype) if isinstance(along, Tensor) else published.public.zeros_like(s)
    inner = _with_diagonal(inner, diagonal)
    total = u @ inner
    k = s.shape[-1]
    if g_u is not None and u.shape[-2] > k:
        total = total + (g_u - u @ (u.mH @ g_u)) / s.unsqueeze(-2)
    total = total @ vh
    if g_vh is not None and vh.shape[-1] > k:
        total = total + u @ ((g_vh - (g_vh @ vh.mH) @ vh) / s.unsqueeze(-1))
    return total


def _svd_results(x: MetaArray, full: bool) -> tuple[MetaArray, ...]:
    *lead, m, n = x.shape
    k = min(m, n)
    values = x.new((*lead, k), x.dtype.to_real())
    return x.new((*lead, m, m if full else k)), values, x.new((*lead, n if full else k, n))


_svd = factorisation(
    "linalg_svd",
    "x",
    "full",
    cpu="linalg.svd",
    grad=Gradient(_svd_gradient, outputs=0b111),
    layout="column-major",
    rules=Rules(infer=_svd_results, cost=lambda outs, x, *rest: 22 * cubes(x)),
)
_svdvals = factorisation(
    "linalg_svdvals",
    "x",
    cpu="linalg.svdvals",
    rules=Rules(
        infer=lambda x: x.new((*x.shape[:-2], min(x.shape[-2:])), x.dtype.to_real()),
        cost=lambda outs, x, *rest: 4 * cubes(x),
    ),
)
_LinalgSVD = named_results("linalg_svd", "U", "S", "Vh")
_SVD = named_results("svd", "U", "S", "V")


def _needs_vectors(x: Tensor) -> bool:
    """Whether values need vectors, for their gradient."""
    return (x._requires_grad and _C.is_grad_enabled()) or x._tangent is not None


def _require_driver(name: str, x: Tensor, driver: str | None) -> None:
    if driver is not None and not x.is_cuda:
        raise RuntimeError(
            f"torch.linalg.{name}: keyword argument `driver=` is only supported on CUDA inputs "
            f"with cuSOLVER backend."
        )


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """U, the singular values (descending) and V^H with A = U diag(S) V^H."""
    require_matrix("linalg.svd", A)
    require_float("linalg.svd", A, "linalg_svd_cpu")
    _require_driver("svd", A, driver)
    return _LinalgSVD(*_svd.call((A,), (bool(full_matrices),)))


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, descending."""
    require_matrix("linalg.svd", A)
    require_float("linalg.svd", A, "linalg_svd_cpu")
    _require_driver("svd", A, driver)
    if _needs_vectors(A):
        return _svd.call((A,), (False,))[1]
    return _svdvals.call((A,))


def _old_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """linalg.svd by its old name, with V; some: not the full matrices; compute_uv: else zeros."""
    if input.ndim < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {input.ndim} dimensions "
            f"instead"
        )
    if compute_uv:
        u, s, vh = svd(input, not some)
        return _SVD(u, s, vh.mH)
    m, n = input.shape[-2:]
    batch = input.shape[:-2]
    return _SVD(input.new_zeros((*batch, m, m)), svdvals(input), input.new_zeros((*batch, n, n)))


_old_svd.__name__ = "svd"
public(out=True)(_old_svd)

# ---- eigenvalues ---------------------------------------------------------------------------------


def _eigh_gradient(g: Any, out: Any) -> Tensor:
    (g_l, g_v), (values, vectors) = g, out
    if g_v is None:
        return vectors @ (g_l.to(vectors.dtype).unsqueeze(-1) * vectors.mH)
    inner = vectors.mH @ g_v
    if vectors.is_complex():
        require_phase_free("linalg_eigh_backward", _diagonal(inner).imag)
    along = published.public.zeros_like(values) if g_l is None else g_l
    inner = _with_diagonal(inner / _differences(values), along)
    return vectors @ (inner @ vectors.mH)


def _eig_gradient(g: Any, out: Any) -> Tensor:
    (g_l, g_v), (values, vectors) = g, out
    if g_v is None:
        inner = g_l.unsqueeze(-1) * vectors.mH
    else:
        turned = vectors.mH @ g_v
        along = _diagonal(turned)
        require_phase_free("linalg_eig_backward", along.imag)
        turned = turned - vectors.mH @ (vectors * along.real.unsqueeze(-2))
        turned = turned / _differences(values).conj()
        inner = _with_diagonal(turned, published.public.zeros_like(values) if g_l is None else g_l)
        inner = inner @ vectors.mH
    return LINALG["solve"](vectors.mH, inner)  # of a real matrix, the engine takes the real part


_eigh = factorisation(
    "linalg_eigh",
    "x",
    "uplo",
    cpu="linalg.eigh",
    grad=Gradient(_eigh_gradient, outputs=0b11),
    layout="column-major",
    rules=Rules(
        infer=lambda x, uplo: (x.new(x.shape[:-1], x.dtype.to_real()), x.new(x.shape)),
        cost=lambda outs, x, *rest: 9 * cubes(x),
    ),
)
_eigvalsh = factorisation(
    "linalg_eigvalsh",
    "x",
    "uplo",
    cpu="linalg.eigvalsh",
    rules=Rules(
        infer=lambda x, uplo: x.new(x.shape[:-1], x.dtype.to_real()),
        cost=lambda outs, x, *rest: 4 * cubes(x) // 3,
    ),
)
_eig = factorisation(
    "linalg_eig",
    "x",
    cpu="linalg.eig",
    grad=Gradient(_eig_gradient, outputs=0b11),
    layout="column-major",
    rules=Rules(
        infer=lambda x: tuple(
            x.new(shape, x.dtype.to_complex()) for shape in (x.shape[:-1], x.shape)
        ),
        cost=lambda outs, x, *rest: 25 * cubes(x),
    ),
)
_eigvals = factorisation(
    "linalg_eigvals",
    "x",
    cpu="linalg.eigvals",
    rules=Rules(
        infer=lambda x: x.new(x.shape[:-1], x.dtype.to_complex()),
        cost=lambda outs, x, *rest: 10 * cubes(x),
    ),
)
_Eigh = named_results("linalg_eigh", "eigenvalues", "eigenvectors")
_Eig = named_results("linalg_eig", "eigenvalues", "eigenvectors")


def _triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def eigh(input: Tensor, UPLO: str = "L") -> Any:
    """The eigenvalues, ascending, and eigenvectors of a Hermitian A; UPLO: its triangle to read."""
    require_matrix("linalg.eigh", input, True)
    uplo = _triangle(UPLO)
    require_computable("linalg_eigh_cpu", input)
    return _Eigh(*_eigh.call((input,), (uplo,)))


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of a Hermitian A, ascending."""
    if _needs_vectors(input):
        return eigh(input, UPLO)[0]
    require_matrix("linalg.eigh", input, True)
    uplo = _triangle(UPLO)
    require_computable("linalg_eigh_cpu", input)
    return _eigvalsh.call((input,), (uplo,))


def _require_eig(name: str, A: Tensor) -> None:
    require_matrix(name, A, True)
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(f"Unknown Complex ScalarType for {scalar_name(A.dtype)}")
    require_float(name, A)
    values(_require_finite, (A.detach(),), name)


@looks_at_values
def _require_finite(matrix: Any, name: str) -> None:
    if not np.isfinite(on_host(matrix)).all():
        raise RuntimeError(f"torch.{name}: input tensor should not contain infs or NaNs.")


@linalg()
@autocast("cpu:float32")
def eig(input: Tensor) -> Any:
    """The eigenvalues and eigenvectors of any square matrix; complex."""
    _require_eig("linalg.eig", input)
    return _Eig(*_eig.call((input,)))


@linalg()
@autocast("cpu:float32")
def eigvals(input: Tensor) -> Tensor:
    """The eigenvalues of any square A; complex."""
    _require_eig("linalg.eigvals", input)
    if _needs_vectors(input):
        return _eig.call((input,))[0]
    return _eigvals.call((input,))


# ---- tolerances ----------------------------------------------------------------------------------


def _tolerances(name: str, A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerance; numbers, or tensors with a dim for the values."""
    for value, argument in ((atol, "atol"), (rtol, "rtol")):
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(
                f"torch.linalg.{name}: {argument} tensor of complex type is not supported. Got "
                f"{scalar_name(value.dtype)}"
            )
    usual = finfo(A.dtype).eps * max(A.shape[-2:])
    if rtol is None:  # the usual one, where no absolute one is asked for
        if isinstance(atol, Tensor):
            rtol = (atol <= 0).to(atol.dtype) * usual
        else:
            rtol = 0.0 if atol else usual
    atol = 0.0 if atol is None else atol
    pair = [x.unsqueeze(-1) if isinstance(x, Tensor) else x for x in (atol, rtol)]
    return pair[0], pair[1]


def _threshold(values: Tensor, atol: Any, rtol: Any) -> Any:
    if not values.shape[-1]:
        return 0.0
    relative = rtol * values.amax(-1, keepdim=True)
    if isinstance(atol, Tensor):
        return maximum(atol.to(relative.dtype), relative)
    return relative.clamp(min=atol)


@linalg()
@autocast("cpu:float32")
def matrix_rank(
    input: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False, tol: Any = None
) -> Tensor:
    """How many singular values are greater than max(atol, rtol * the greatest)."""
    if tol is not None:  # NumPy's name
        atol, rtol = tol, 0.0
    require_matrix("torch.linalg.matrix_rank", input, argument="input")
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError("This function doesn't handle types other than float and double")
    atol, rtol = _tolerances("matrix_rank", input, atol, rtol)
    x = input.detach()
    values = eigvalsh(x).abs() if hermitian else svdvals(x)
    return (values > _threshold(values, atol, rtol)).sum(-1)


# ---- pseudo-inverse ------------------------------------------------------------------------------


def _pinv(x: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    if hermitian:
        values, vectors = eigh(x)
        u, size, vh = vectors, values.abs(), vectors.mH
    else:
        u, values, vh = svd(x, False)
        size = values
    kept = size > _threshold(size, atol, rtol)
    inverse = where(kept, values, 1).reciprocal() * kept
    return (vh.mH * inverse.to(u.dtype).unsqueeze(-2)) @ u.mH


def pinv_gradient(g: Tensor, inverse: Tensor, x: Tensor) -> Tensor:
    """A pseudo-inverse's gradient, where the rank does not change."""
    inverse_h, g_h = inverse.mH, g.mH
    if x.shape[-2] <= x.shape[-1]:
        k = g_h @ inverse
        through = k @ inverse_h
        rest = (inverse_h @ inverse) @ (g_h - k @ x)
        return rest - (inverse @ k).mH + through - (x @ inverse) @ through
    k = inverse @ g_h
    through = inverse_h @ k
    rest = (g_h - x @ k) @ inverse @ inverse_h
    return rest - (k @ inverse).mH + through - (through @ inverse) @ x


_pinv_record = factorisation(
    "linalg_pinv", "x", "atol rtol hermitian",
    by=_pinv, grad=lambda g, x, out: pinv_gradient(g, out, x),
    rules=Rules(
        infer=lambda x, *rest: x.new((*x.shape[:-2], x.shape[-1], x.shape[-2])),
        cost=lambda outs, x, *rest: 24 * cubes(x),
    ),
)  # fmt: skip


@linalg()
@autocast("cpu:float32")
def pinv(
    input: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The pseudo-inverse; singular values up to max(atol, rtol * the greatest) count as zero."""
    if input.ndim < 2 or not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"linalg.pinv({scalar_name(input.dtype)}{{{list(input.shape)}}}): expected a tensor "
            f"with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if rcond is not None:  # NumPy's name
        atol, rtol = 0.0, rcond
    if not input.numel():
        return input.mH.clone()
    if hermitian:
        require_matrix("linalg.eigh", input, True)
    atol, rtol = _tolerances("pinv", input, atol, rtol)
    return _pinv_record.call((input,), (atol, rtol, bool(hermitian)))


@public()
@autocast("cpu:float32")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """linalg.pinv, by its old name."""
    return pinv(input, rcond)
