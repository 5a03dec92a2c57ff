"""LU and LDL factors, and systems that are solved by them."""

from __future__ import annotations

from typing import Any

from tritorch.core import defaults
from tritorch.core.dtype import int32, int64
from tritorch.core.promotion import scalar_name
from tritorch.core.published import autocast, computes
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.common import (
    check_info,
    eye_like,
    factorisation,
    linalg,
    named_results,
    require_computable,
    require_float,
    require_matrix,
    require_solvable,
    require_square,
    require_system,
    with_batch,
)
from tritorch.ops.linalg.triangular import triangular
from tritorch.ops.record.checks import broadcast_shapes, looks_at_values, values
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import laid_out
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public, write_out
from tritorch.ops.record.sizes import cubes
from tritorch.ops.shape import ranges
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.ranges import arange

# ---- rows in another order -----------------------------------------------------------------------

_order = factorisation(
    "lu_order",
    "pivots",
    "m",
    schema="(Tensor pivots, SymInt m) -> Tensor",
    cpu="triangular.permutation",
    rules=Rules(infer=lambda pivots, m: pivots.new((*pivots.shape[:-1], m), int64)),
)


def _row_order(pivots: Tensor, m: int) -> Tensor:
    """The order that the rows of a matrix came into by swaps."""
    return _order.call((pivots,), (m,))


def _taken(x: Tensor, order: Tensor) -> Tensor:
    """The rows of matrices in an order of their own."""
    batch = broadcast_shapes(x.shape[:-2], order.shape[:-1])
    index = order.unsqueeze(-1).expand(*batch, order.shape[-1], x.shape[-1])
    return x.expand(*batch, *x.shape[-2:]).gather(-2, index)


# ---- factors -------------------------------------------------------------------------------------


def _lu_gradient(g: Any, out0: Tensor, out1: Tensor) -> Tensor:
    g_lu, lu, pivots = g[0], out0, out1
    m, n = lu.shape[-2:]
    k = min(m, n)
    square = lu[..., :k, :k]
    lower, upper = square.tril(-1) + eye_like(lu, k), square.triu()
    g_lower, g_upper = g_lu[..., :k, :k].tril(-1), g_lu[..., :k, :k].triu()
    below, above = lower.mH @ g_lower, g_upper @ upper.mH
    if n > m:  # what the columns after the square ones say
        below = below - g_lu[..., k:] @ lu[..., k:].mH
    if m > n:
        above = above - lu[..., k:, :].mH @ g_lu[..., k:, :]
    inner = below.tril(-1) + above.triu()
    middle = triangular(lower.mH, triangular(upper.mH, inner, False, left=False), True, True)
    if n > m:
        rest = triangular(lower.mH, g_lu[..., k:], True, True)
        middle = cat([middle, rest], -1)
    if m > n:
        rest = triangular(upper.mH, g_lu[..., k:, :], False, left=False)
        middle = cat([middle, rest], -2)
    return _taken(middle, _row_order(pivots, m).argsort(-1))


_factor = factorisation(
    "linalg_lu_factor_ex",
    "x",
    cpu="triangular.lu_factor",
    grad=Gradient(_lu_gradient, outputs=0b001),
    layout="column-major",
    rules=Rules(
        infer=lambda x: (
            x.new(x.shape),
            x.new((*x.shape[:-2], min(x.shape[-2:])), int32),
            x.new(x.shape[:-2], int32),
        ),
        cost=lambda outs, x, *rest: 2 * cubes(x) // 3,
    ),
)
_LUFactor = named_results("linalg_lu_factor", "LU", "pivots")
_LUFactorEx = named_results("linalg_lu_factor_ex", "LU", "pivots", "info")
_LU = named_results("linalg_lu", "P", "L", "U")
_Unpacked = named_results("lu_unpack", "P", "L", "U")
_ZERO_PIVOT = (
    "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you "
    "still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)"
)


def _factored(name: str, A: Tensor, pivot: bool, shown: str = "linalg.lu_factor") -> Any:
    if A.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )
    require_computable("lu_cpu", A)
    if not pivot:
        raise RuntimeError(f"{shown}: LU without pivoting is not implemented on the CPU")
    return _LUFactorEx(*_factor.call((A,)))


@linalg()
@exact_out("structured")
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """linalg.lu_factor with an info instead of an error."""
    found = _factored("torch.lu_factor_ex", A, pivot)
    if check_errors:
        check_info("torch.linalg.lu_factor_ex", found.info, _ZERO_PIVOT, RuntimeError)
    return found


@linalg()
@exact_out("structured")
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """L (below the diagonal, which is 1) and U in one matrix, and the rows swapped, from 1."""
    lu, pivots, info = _factored("torch.lu_factor", A, pivot)
    check_info("torch.linalg.lu_factor", info, _ZERO_PIVOT, RuntimeError)
    return _LUFactor(lu, pivots)


@linalg()
@exact_out("structured")
@ends_with("linalg_lu")
def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """A permutation P, a unit lower triangular L and an upper triangular U with A = P L U."""
    found, pivots, _ = _factored("linalg.lu", A, pivot, "linalg.lu")
    return _LU(*_unpacked(found, pivots))


def _old_lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """linalg.lu_factor, by its old name; get_infos: and its infos."""
    defaults.warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex.",
        stacklevel=2,
    )
    found = _factored("torch.lu_factor", A, pivot)
    if not get_infos:
        check_info("torch.linalg.lu_factor", found.info, _ZERO_PIVOT, RuntimeError)
    result = tuple(found) if get_infos else tuple(found)[:2]
    if out is None:
        return result
    return write_out(result, out)


_old_lu.__name__ = "lu"
computes("_lu_with_info")(_old_lu)
public()(_old_lu)


# ---- taken apart ---------------------------------------------------------------------------------


def _triangles(data: Tensor) -> tuple[Tensor, Tensor]:
    m, n = data.shape[-2:]
    k = min(m, n)
    eye = ranges.eye(m, k, dtype=data.dtype, device=data.device)
    return data[..., :k].tril(-1) + eye, data[..., :k, :].triu()


def _permutation(data: Tensor, pivots: Tensor) -> Tensor:
    m = data.shape[-2]
    order = _row_order(pivots, m)
    places = arange(m, device=data.device).unsqueeze(-1)
    return (order.unsqueeze(-2) == places).to(data.dtype)


def _unpacked(data: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _permutation(data, pivots), *_triangles(data)


@public(method=False, out=True)
@exact_out("structured")
@ends_with("lu_unpack")
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """P, L and U of what lu_factor gives; what is not asked for is empty."""
    if LU_pivots.dtype is not int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
        )
    require_matrix("torch.lu_unpack", LU_data)
    m, n = LU_data.shape[-2:]
    empty = LU_data.new_empty((0,))
    p, lower, upper = empty, empty, empty
    if unpack_pivots:
        if LU_pivots.shape[-1] != min(m, n):
            raise RuntimeError(_WRONG_PIVOTS)
        values(_require_pivots, (LU_pivots,), m, _WRONG_PIVOTS)
        p = _permutation(LU_data, LU_pivots)
    if unpack_data:
        lower, upper = _triangles(LU_data)
    return _Unpacked(p, lower, upper)


_WRONG_PIVOTS = (
    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
    "Did you properly pass the result of lu_factor?"
)


@looks_at_values(cpu_only=True)
def _require_pivots(pivots: Any, rows: int, text: str) -> None:
    if pivots.size and not (pivots.min() >= 1 and pivots.max() <= rows):
        raise RuntimeError(text)


# ---- systems -------------------------------------------------------------------------------------


def by_factors(data: Tensor, order: Tensor, b: Tensor, adjoint: bool = False) -> Tensor:
    """A^-1 b (or A^-H b) by A's factors."""
    if adjoint:
        y = triangular(data.mH, triangular(data.mH, b, False), True, True)
        return _taken(y, order.argsort(-1))
    return triangular(data, triangular(data, _taken(b, order), False, True), True)


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
@ends_with("linalg_lu_solve")
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X of A X = B (left) or X A = B, or of A^H, by the factors of A."""
    name = "linalg.lu_solve"
    require_float(name, LU)
    if LU.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: Expected LU and B to have the same dtype, but found LU of type "
            f"{scalar_name(LU.dtype)} and B of type {scalar_name(B.dtype)} instead"
        )
    if pivots.dtype is not int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    require_matrix(f"torch.{name}", LU, True)
    require_system(name, LU, B, left)
    if pivots.ndim < 1 or LU.shape[-1] != pivots.shape[-1]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix"
        )
    if LU.shape[:-2] != pivots.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    text = (
        "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). "
        "Did you properly pass the result of lu_factor?"
    )
    values(_require_pivots, (pivots,), LU.shape[-1], text)
    order = _row_order(pivots, LU.shape[-1])
    if left:
        return laid_out("column-major", by_factors(LU, order, B, adjoint), B)
    return laid_out("column-major", by_factors(LU, order, B.mH, not adjoint), B).mH


def _old_lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """linalg.lu_solve, by its old name and order."""
    defaults.warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solve, whose first arguments are "
        "LU and pivots.",
        stacklevel=2,
    )
    return lu_solve(LU_data, LU_pivots, b)


_old_lu_solve.__name__ = "lu_solve"
public(out=True)(_old_lu_solve)

# ---- LDL -----------------------------------------------------------------------------------------

_ldl = factorisation(
    "linalg_ldl_factor_ex",
    "x",
    "hermitian",
    cpu="triangular.ldl_factor",
    grad=Gradient(outputs=0),
    layout="column-major",
    rules=Rules(
        infer=lambda x, hermitian: (
            x.new(x.shape),
            x.new(x.shape[:-1], int32),
            x.new(x.shape[:-2], int32),
        ),
        cost=lambda outs, x, *rest: cubes(x) // 3,
    ),
)
_ldl_solve = factorisation(
    "linalg_ldl_solve",
    "ld pivots b",
    "hermitian",
    cpu="triangular.ldl_solve",
    layout="column-major",
    rules=Rules(
        infer=lambda ld, pivots, b, hermitian: b.new(b.shape),
        cost=lambda outs, ld, pivots, b, *rest: 2 * b.shape[-2] * b.numel(),
    ),
)
_LDL = named_results("linalg_ldl_factor", "LD", "pivots")
_LDLEx = named_results("linalg_ldl_factor_ex", "LD", "pivots", "info")
_ZERO_BLOCK = (
    "D[{info},{info}] is zero and using it on ldl_solve would result in a division by zero."
)


def _ldl_factored(name: str, A: Tensor, hermitian: bool, check: bool) -> Any:
    require_square("torch.linalg.ldl_factor_ex", A)
    found = _LDLEx(*_ldl.call((A,), (bool(hermitian and A.is_complex()),)))
    if check:
        check_info(name, found.info, _ZERO_BLOCK, RuntimeError)
    return found


@linalg()
@exact_out("structured")
def ldl_factor_ex(input: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """linalg.ldl_factor with an info instead of an error."""
    return _ldl_factored("torch.linalg.ldl_factor_ex", input, hermitian, check_errors)


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def ldl_factor(input: Tensor, *, hermitian: bool = False) -> Any:
    """L and D (blocks of size 1 and 2) of A = L D L^T (or L^H) in one matrix, and the swaps.

    A is symmetric (or Hermitian), and may be indefinite; its lower triangle is read.
    """
    return _LDL(*_ldl_factored("torch.linalg.ldl_factor", input, hermitian, True)[:2])


@looks_at_values(cpu_only=True)
def _require_swaps(pivots: Any, rows: int, name: str) -> None:
    if ((pivots == 0) | (abs(pivots) > rows)).any():
        raise RuntimeError(
            f"{name}: pivots must be between 1 and {rows}, or between -{rows} and -1. Did you "
            f"properly pass the result of ldl_factor?"
        )


@linalg()
@exact_out("structured")
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X of A X = B by the factors of A."""
    name = "torch.linalg.ldl_solve"
    require_matrix(name, LD, True)
    require_float(name, LD)
    if B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    require_solvable(name, B, LD)
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    if pivots.is_floating_point() or pivots.is_complex():
        raise RuntimeError(
            f"{name}: Expected pivots to be integers. Got {scalar_name(pivots.dtype)}"
        )
    values(_require_swaps, (pivots,), LD.shape[-1], name)
    LD, B = with_batch(LD, B)
    pivots = pivots.expand(*LD.shape[:-1])
    return _ldl_solve.call((LD, pivots, B), (bool(hermitian and LD.is_complex()),))
