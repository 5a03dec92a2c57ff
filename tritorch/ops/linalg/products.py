"""Products and functions of matrices: powers, the exponential, chains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.core import defaults, published
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import bool_, float64, int64
from tritorch.core.promotion import promote_types, scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.common import (
    LINALG,
    eye_like,
    factorisation,
    linalg,
    require_float,
    require_matrix,
)
from tritorch.ops.linalg.matmul import matmul, vdot
from tritorch.ops.linalg.systems import inv
from tritorch.ops.linalg.vectors import linalg_cross
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.record.backends import composed_backend
from tritorch.ops.record.checks import broadcast_shapes, host_values
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.infer import same
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.record.sizes import cubes
from tritorch.ops.shape import factory, joining
from tritorch.ops.shape.factory import as_tensor
from tritorch.ops.shape.parts import diagonal as _top_diagonal

LINALG |= {"cross": linalg_cross, "matmul": matmul}


@linalg(out=False)
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as a view."""
    return _top_diagonal(A, offset, dim1, dim2)


# ---- powers --------------------------------------------------------------------------------------


@linalg(also=("matrix_power",))
def matrix_power(input: Tensor, n: int) -> Tensor:
    """A times itself, n times; of the inverse when n is negative."""
    require_matrix("linalg.matrix_power", input, True)
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    if n == 0:
        everywhere = published.public.ones_like(input.detach(), dtype=bool_)
        return input.masked_fill(everywhere, 0) + eye_like(input)
    base = inv(input) if n < 0 else input
    n, result = abs(n), None
    if n == 1:
        return base.clone() if base is input else base
    while n:  # by squaring
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        if n:
            base = base @ base
    assert result is not None
    return result


_DEGREE = 18
_CHUNK = 4  # powers that are kept; the polynomial is one of their last


def _exponential(x: Tensor) -> Tensor:
    """sum of x^k / k!: of x / 2^s by chunks, squared s times; s is each matrix's own."""
    wide = x.dtype is float64 or x.dtype.itemsize == 16
    norms = host_values(x.abs().sum(-2).amax(-1)).astype(np.float64)
    with np.errstate(all="ignore"):
        times = np.ceil(np.log2(norms / (1.0 if wide else 2.0)))
    times = np.where(np.isfinite(norms), np.clip(times, 0, 1100), 0).astype(np.int64)
    most = int(times.max())
    squarings = as_tensor(times, device=x.device).reshape(*x.shape[:-2], 1, 1)
    if most:
        x = x * as_tensor(np.ldexp(1.0, -times), device=x.device).to(x.dtype).reshape(
            *x.shape[:-2], 1, 1
        )
    powers = [eye_like(x), x]
    for _ in range(_CHUNK - 1):
        powers.append(powers[-1] @ x)
    out: Any = None
    for start in range(_DEGREE - _DEGREE % _CHUNK, -1, -_CHUNK):
        terms = range(start, min(start + _CHUNK, _DEGREE + 1))
        part: Any = 0
        for k in terms:
            part = part + powers[k - start] * (1 / math.factorial(k))
        out = part if out is None else out @ powers[_CHUNK] + part
    for i in range(most):
        out = where(squarings > i, out @ out, out)
    return out


def _matrix_exp_gradient(g: Tensor, x: Tensor) -> Tensor:
    """The upper right block of exp([[x^H, g], [0, x^H]])."""
    n, cat = x.shape[-1], joining.cat
    x_h = x.mH
    zero = published.public.zeros_like(x_h)
    both = cat([cat([x_h, g], -1), cat([zero, x_h], -1)], -2)
    return _matrix_exp.call((both,))[..., :n, n:]


def _cpu_exponential(x: Any) -> Any:
    kind = x.dtype
    wide = x.astype(np.result_type(kind, np.float64))  # squaring amplifies what is rounded
    return composed_backend(_exponential)(wide).astype(kind)


_matrix_exp: Any = factorisation(
    "linalg_matrix_exp", "x",
    cpu=_cpu_exponential, gpu=composed_backend(_exponential), grad=_matrix_exp_gradient,
    rules=Rules(infer=same, cost=lambda outs, x, *rest: 16 * cubes(x)),
)  # fmt: skip


@linalg(out=False, also=("matrix_exp",))
def matrix_exp(input: Tensor) -> Tensor:
    """sum of A^k / k!."""
    require_matrix("linalg.matrix_exp", input, True)
    if input.is_floating_point() and input.dtype.itemsize < 4:
        return matrix_exp(input.float()).to(input.dtype)
    require_float("linalg.matrix_exp", input)
    return _matrix_exp.call((input,)) if input.numel() else input.clone()


# ---- chains --------------------------------------------------------------------------------------


def _chain_order(sizes: list[int]) -> list[list[int]]:
    """Where to split each part of a chain of products, for the least work."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


def _chain(tensors: list[Tensor]) -> Tensor:
    split = _chain_order([tensors[0].shape[0], *(x.shape[1] for x in tensors)])

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return tensors[i]
        k = split[i][j]
        return matmul(product(i, k), product(k + 1, j))

    return product(0, len(tensors) - 1)


@linalg()
@autocast("lower")
@exact_out("multi_dot(): expected out tensor to have dtype {result} but got {out}")
@ends_with("view")
def multi_dot(tensors: Any) -> Tensor:
    """The product of matrices in the order of least work; the first and last may be vectors."""
    if isinstance(tensors, Tensor):
        raise TypeError(
            "linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            "Tensor"
        )
    tensors, name = list(tensors), "multi_dot()"
    if len(tensors) < 2:
        raise RuntimeError(f"{name}: expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0], tensors[-1]
    for x, which in ((first, "first"), (last, "last")):
        if x.ndim not in (1, 2):
            raise RuntimeError(f"{name}: the {which} tensor must be 1D or 2D but got {x.ndim}D")
    given = [tuple(x.shape) for x in tensors]
    chain = [first.unsqueeze(0) if first.ndim == 1 else first, *tensors[1:-1],
             last.unsqueeze(-1) if last.ndim == 1 else last]  # fmt: skip
    for i, x in enumerate(chain):
        if x.ndim != 2:
            raise RuntimeError(f"{name}: tensor {i} must be 2D but got {x.ndim}D")
        if x.dtype is not first.dtype:
            names = (_type_name(first), _type_name(x))
            raise RuntimeError(
                f"{name}: all tensors must have be the same dtype but tensor 0 is {names[0]} and "
                f"tensor {i} {names[1]}"
            )
        if x.device != first.device:
            raise RuntimeError(
                f"{name}: all tensors must be on the same device but tensor 0 is on {first.device} "
                f"and tensor {i} on {x.device}"
            )
        if i and chain[i - 1].shape[1] != x.shape[0]:
            raise RuntimeError(
                f"{name}: tensors {i - 1} and {i} with shapes {list(given[i - 1])} and "
                f"{list(given[i])} cannot be multiplied"
            )
    out = _chain(chain)
    if first.ndim == 1:
        out = out.squeeze(0)
    return out.squeeze(-1) if last.ndim == 1 else out


def _type_name(x: Tensor) -> str:
    return {"float32": "float", "float64": "double"}.get(x.dtype.name, scalar_name(x.dtype))


@public(method=False, out=True)
@autocast("lower")
@ends_with("{'view' if len(matrices) > 1 else ''}")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the order of least work."""
    defaults.warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than "
        "multiple parameters.",
        stacklevel=4,
    )
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for x in matrices:
        if x.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {x.ndim}, expected 2 instead.")
    return matrices[0] if len(matrices) == 1 else _chain(list(matrices))


# ---- vectors -------------------------------------------------------------------------------------


@linalg(out=False)
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Rows of powers: x^0 to x^(N - 1)."""
    if x.dtype is bool_:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got Bool"
        )
    n = (x.shape[-1] if x.ndim else 1) if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    x = x if x.ndim else x.unsqueeze(0)
    powers = x.unsqueeze(-1).expand(*x.shape, n - 1).cumprod(-1)
    ones = factory.ones((*x.shape, 1), dtype=powers.dtype, device=x.device)
    return joining.cat([ones, powers], -1)


def _old_vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Columns of powers of a vector, the highest first unless increasing."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    x = x.to(promote_types(x.dtype, int64))
    ones = factory.ones((x.shape[0], 1), dtype=x.dtype, device=x.device)
    columns = joining.cat([ones, x.unsqueeze(-1).expand(x.shape[0], max(n - 1, 0))], -1)
    powers = columns[:, :n].cumprod(-1)
    return powers if increasing else powers.flip(1)


_old_vander.__name__ = "vander"
public(method=False)(_old_vander)


@linalg()
@autocast("lower")
@exact_out("linalg.vecdot: Expected out of dtype{Result} but found {Out}")
@ends_with("{'vdot' if x.ndim == y.ndim == 1 else 'sum.dim_IntList'}")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums of conj(x) * y along dim."""
    name = "linalg.vecdot"
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{scalar_name(x.dtype)}"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"{name}: Expected x and y to have the same dtype, but found x of type "
            f"{scalar_name(x.dtype)} and y of type {scalar_name(y.dtype)} instead"
        )
    if x.ndim == 0 == y.ndim:
        wrap_dim(dim, 0)
        return x.conj() * y
    if x.ndim == 1 == y.ndim and x.shape == y.shape:
        return vdot(x, y)
    shape = broadcast_shapes(x.shape, y.shape)
    x, y = x.expand(shape), y.expand(shape)
    if x.dtype.itemsize < 4:
        return (x.conj() * y).sum(dim)
    a, b = x.movedim(dim, -1).conj().unsqueeze(-2), y.movedim(dim, -1).unsqueeze(-1)
    return matmul(a, b).squeeze(-1).squeeze(-1)
