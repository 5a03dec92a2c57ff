"""Norms of matrices, and the condition that follows from them."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core import defaults
from tritorch.core.arguments import Number
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import dtype as Dtype
from tritorch.core.promotion import scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.common import LINALG, linalg, require_matrix
from tritorch.ops.linalg.spectra import svdvals
from tritorch.ops.linalg.systems import inv_ex
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.record.checks import require_castable
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.reduce.reduction import vector_norm

LINALG["vector_norm"] = vector_norm


def _order_text(order: Any) -> str:
    return order if isinstance(order, str) else f"{order:g}"


def _checked(A: Tensor, ord: Any, dim: Any, dtype: Dtype | None) -> tuple[Tensor, tuple[int, int]]:
    name = "linalg.matrix_norm"
    require_matrix(name, A)
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{scalar_name(A.dtype)}"
        )
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    rows, columns = (wrap_dim(d, A.ndim) for d in dims)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    if dtype is not None:
        if not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(
                f"{name}: dtype should be floating point or complex, but got {scalar_name(dtype)}"
            )
        if A.is_complex() is not dtype.is_complex:
            kind = "complex" if A.is_complex() else "real"
            raise RuntimeError(
                f"{name}: dtype should be {kind} for {kind} inputs, but got {scalar_name(dtype)}"
            )
        require_castable(A.dtype, dtype)
        A = A.to(dtype)
    return A, (rows, columns)


@linalg()
@autocast("cuda:float32")
@exact_out("linalg.{name} expected out tensor dtype {Result} but got: {Out}")
@ends_with(
    "{'amax' if ord in (1, -1, float('inf'), -float('inf')) and ord and not "
    "isinstance(ord, str) else ''}"
)
def matrix_norm(
    input: Tensor, ord: Number = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
    dtype: Dtype | None = None,
) -> Tensor:  # fmt: skip
    """A norm of matrices: "fro", "nuc", or of order 1, 2 and infinity, or minus these."""
    input, (rows, columns) = _checked(input, ord, dim, dtype)
    if ord == "fro":
        return vector_norm(input, 2, (rows, columns), keepdim)
    size = abs(ord) if isinstance(ord, (int, float)) else None
    if ord != "nuc" and size not in (1, 2, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {_order_text(ord)} not supported.")
    if ord == "nuc" or size == 2:
        values = svdvals(input.movedim((rows, columns), (-2, -1)))
        found = values.sum(-1) if ord == "nuc" else _extreme(values, -1, False, ord > 0)
        return _kept(found, (rows, columns)) if keepdim else found
    summed, over = (rows, columns) if size == 1 else (columns, rows)
    sums = vector_norm(input, 1, (summed,), True)
    found = _extreme(sums, over, True, ord > 0)
    if keepdim:
        return found
    return found.squeeze((rows, columns))


def _extreme(x: Tensor, dim: int, keepdim: bool, largest: bool) -> Tensor:
    if largest and not x.shape[dim]:  # norms are never negative
        return x.sum(dim, keepdim=keepdim)
    return (x.amax if largest else x.amin)(dim, keepdim=keepdim)


def _kept(x: Tensor, dims: tuple[int, int]) -> Tensor:
    for dim in sorted(dims):
        x = x.unsqueeze(dim)
    return x


def _norm(
    input: Tensor, ord: Number | None = None, dim: Any = None, keepdim: bool = False, *,
    dtype: Dtype | None = None,
) -> Tensor:  # fmt: skip
    """A norm of vectors (one dim, or all elements) or matrices (two dims)."""
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if dim is not None:
        if len(dim) not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}"
            )
    elif input.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{input.ndim}D."
        )
    if isinstance(ord, str):
        return matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if (dim is None and input.ndim == 2) or (dim is not None and len(dim) == 2):
        return matrix_norm(input, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(input, ord, dim, keepdim, dtype=dtype)


_norm.__name__ = "norm"
autocast("cuda:float32")(exact_out("structured")(_norm))
linalg()(_norm)


# ---- older names ---------------------------------------------------------------------------------


def _old_norm(
    input: Tensor, p: Number | None = "fro", dim: Any = None, keepdim: bool = False,
    dtype: Dtype | None = None,
) -> Tensor:  # fmt: skip
    """A norm of all elements or over dims (prefer linalg.vector_norm and matrix_norm)."""
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
    if p is None or p == "fro":
        if dim is not None and len(dim) > 2 and p == "fro":
            return matrix_norm(input, p, dim, keepdim, dtype=dtype)
        return vector_norm(input, 2.0, dim, keepdim, dtype=dtype)
    if isinstance(p, str):
        if dim is None:
            dim = tuple(range(input.ndim)) if p == "nuc" else (-2, -1)
        return matrix_norm(input, p, dim, keepdim, dtype=dtype)
    return vector_norm(input, p, dim, keepdim, dtype=dtype)


_old_norm.__name__ = "norm"
public(out=True)(_old_norm)


def _former(name: str, now: str) -> None:
    defaults.warn_once(
        f"at::{name} is deprecated and it is just left for JIT compatibility. It will be removed "
        f"in a future PyTorch release. Please use `linalg.{now}` instead",
        stacklevel=4,
    )


@public(method=False, out=True)
@autocast("cuda:float32")
@ends_with("norm.ScalarOpt_dim")
def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over dims."""
    _former("frobenius_norm", "vector_norm(A, 2., dim, keepdim)")
    return vector_norm(input, 2, dim, keepdim)


@public(method=False, out=True)
@autocast("cuda:float32")
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values."""
    _former("nuclear_norm", "matrix_norm(A, 'nuc', dim, keepdim)")
    return matrix_norm(input, "nuc", dim, keepdim)


# ---- condition -----------------------------------------------------------------------------------


@linalg()
@autocast("cpu:float32")
@ends_with("{'squeeze.dim' if p in (None, 2, -2) else ''}")
def cond(input: Tensor, p: Number | None = None) -> Tensor:
    """The condition of matrices: the norm times the norm of the inverse."""
    if input.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is None or p in (2, -2):
        if not input.numel():
            return input.new_zeros(input.shape[:-2], dtype=input.dtype.to_real())
        values = svdvals(input)
        ends = values[..., 0], values[..., -1]
        return ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
    if isinstance(p, str):
        if p not in ("fro", "nuc"):
            raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    elif abs(p) not in (1, math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {_order_text(p)}")
    if not input.numel() and p != "nuc":
        return input.new_zeros(input.shape[:-2], dtype=input.dtype.to_real())
    require_matrix(f"linalg.cond(ord={_order_text(p)})", input, True)
    if p == "nuc":  # without the inverse's singular values: those are known
        values = svdvals(input)
        return values.sum(-1) * values.reciprocal().sum(-1)
    inverse, info = inv_ex(input)
    found = matrix_norm(input, p) * matrix_norm(inverse, p)
    return where(info == 0, found, math.inf)


@public(method=False)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms of the slices along a dim, which stay of size 1; dim -1: one norm of all."""
    if dim == -1:
        return v.norm(pow)
    return v.norm(pow, [d for d in range(v.ndim) if d != dim % v.ndim], keepdim=True)


@public(method=False)
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    return v * (g / norm_except_dim(v, 2, dim))
