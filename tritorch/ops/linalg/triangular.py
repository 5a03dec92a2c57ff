"""Triangular systems, and Cholesky's factors."""

from __future__ import annotations

from typing import Any

from tritorch.core import defaults
from tritorch.core.dtype import int32, int64
from tritorch.core.promotion import result_type
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.common import (
    NOT_POSITIVE,
    SINGULAR_INVERSE,
    check_info,
    eye_like,
    factorisation,
    linalg,
    named_results,
    require_computable,
    require_matrix,
    require_solvable,
    require_square,
    require_system,
    with_batch,
)
from tritorch.ops.record.backends import composed_backend
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import same
from tritorch.ops.record.operator import laid_out
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.record.sizes import cubes
from tritorch.ops.shape.joining import cat

# ---- triangular systems --------------------------------------------------------------------------


def _system_gradient(g: Tensor, a: Tensor, out: Tensor, upper: bool, unit: bool) -> Tensor:
    through = -(_solve.call((a.mH, g), (not upper, unit)) @ out.mH)
    return through.triu(int(unit)) if upper else through.tril(-int(unit))


_BLOCK = 64
_inverse = factorisation(
    "triangular_inverse", "a", "upper unit",
    schema="(Tensor a, bool upper, bool unit) -> Tensor", cpu="triangular.inverse",
    rules=Rules(infer=same, batch="lead", cost=lambda outs, a, *rest: cubes(a) // 3),
)  # fmt: skip


def _by_blocks(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """Products with the inverses of the blocks on the diagonal; b stays on its device."""
    n = a.shape[-1]
    edges = [*range(0, n, _BLOCK), n]
    spans = list(zip(edges, edges[1:]))
    parts: dict[int, Tensor] = {}
    for low, high in reversed(spans) if upper else spans:
        block = _inverse.call((a[..., low:high, low:high],), (upper, unit))
        rest = b[..., low:high, :]
        if parts:
            known = cat([parts[i] for i in sorted(parts)], -2)
            rows = a[..., low:high, high:] if upper else a[..., low:high, :low]
            rest = rest - rows @ known
        parts[low] = block @ rest
    return cat([parts[i] for i in sorted(parts)], -2) if parts else b.clone()


_solve: Any = factorisation(
    "linalg_solve_triangular", "a b", "upper unit",
    schema="linalg_solve_triangular(a, b, upper=upper, unitriangular=unit)",
    cpu="triangular.solve_triangular", gpu=composed_backend(_by_blocks),
    grad=(
        _system_gradient,
        lambda g, a, upper, unit: _solve.call((a.mH, g), (not upper, unit)),
    ),
    layout="column-major",
    rules=Rules(
        infer=lambda a, b, *rest: b.new(b.shape),
        cost=lambda outs, a, b, *rest: a.shape[-1] * b.numel(),
    ),
)  # fmt: skip


def triangular(a: Tensor, b: Tensor, upper: bool, unit: bool = False, left: bool = True) -> Tensor:
    """linalg.solve_triangular of checked inputs."""
    a, b = with_batch(a, b)
    if left:
        return _solve.call((a, b), (upper, unit))
    return _solve.call((a.mT, b.mT), (not upper, unit)).contiguous().mT


@linalg()
@exact_out("scalar type")
def solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X of A X = B (left) or X A = B, where A is triangular; the other triangle is not read."""
    require_system("linalg.solve_triangular", input, B, left)
    if input.dtype is not B.dtype:
        kind = result_type(input, B)
        input, B = input.to(kind), B.to(kind)
    require_computable("triangular_solve_cpu", input)
    return triangular(input, B, bool(upper), bool(unitriangular), left)


_TriangularSolve = named_results("triangular_solve", "solution", "cloned_coefficient")


@public(out=True)
@autocast("cpu:float32")
@exact_out("structured")
@ends_with("triangular_solve")
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> Any:  # fmt: skip
    """linalg.solve_triangular by its old name, with A's copy."""
    defaults.warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be "
        "removed in a future PyTorch release.\ntorch.linalg.solve_triangular has its arguments "
        "reversed and does not return a copy of one of the inputs.\n"
        "X = torch.triangular_solve(B, A).solution\nshould be replaced with\n"
        "X = torch.linalg.solve_triangular(A, B).",
        stacklevel=4,
    )
    for x, name in ((input, "b"), (A, "A")):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it "
                f"has {x.ndim} dimensions instead"
            )
    require_solvable("triangular_solve", input, A)
    require_computable("triangular_solve_cpu", A)
    A, input = with_batch(A, input)
    if transpose:
        return _TriangularSolve(triangular(A.mT, input, not upper, unitriangular), _copied(A))
    return _TriangularSolve(triangular(A, input, bool(upper), unitriangular), _copied(A))


def _copied(A: Tensor) -> Tensor:
    return laid_out("column-major", A.clone(), A)


# ---- Cholesky ------------------------------------------------------------------------------------


def _cholesky_gradient(g: Any, out: Any, upper: bool) -> Tensor:
    g_lower, lower = g[0], out[0]
    if upper:
        g_lower, lower = g_lower.mH, lower.mH
    inner = (lower.mH @ g_lower).tril()
    inner = (inner + inner.tril(-1).mH) / 2
    half = _solve.call((lower.mH, inner), (True, False))
    return _solve.call((lower.mH, half.mH), (True, False)).mH


_cholesky = factorisation(
    "linalg_cholesky_ex",
    "x",
    "upper",
    cpu="linalg.cholesky_ex",
    grad=Gradient(_cholesky_gradient, outputs=0b01),
    layout="column-major",
    rules=Rules(
        infer=lambda x, upper: (x.new(x.shape), x.new(x.shape[:-2], int32)),
        cost=lambda outs, x, *rest: cubes(x) // 3,
    ),
)
_CholeskyEx = named_results("linalg_cholesky_ex", "L", "info")


def _factored(name: str, A: Tensor, upper: bool, check: bool = True) -> Any:
    require_square(name, A)
    found = _CholeskyEx(*_cholesky.call((A,), (bool(upper),)))
    if check:
        check_info(name, found.info, NOT_POSITIVE)
    return found


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """linalg.cholesky with an info instead of an error."""
    return _factored("linalg.cholesky_ex", input, upper, check_errors)


@linalg()
@autocast("cpu:float32")
def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """L with A = L L^H (upper: U with A = U^H U); one triangle of A is read."""
    return _factored("linalg.cholesky", input, upper).L


@ends_with("cholesky")
def _old_cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """linalg.cholesky, by its old name."""
    defaults.warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be "
        "removed: use linalg.cholesky(A) for the lower factor, linalg.cholesky(A).mH for the upper "
        "one.",
        stacklevel=2,
    )
    return _factored("cholesky", input, upper).L


_old_cholesky.__name__ = "cholesky"
public(out=True)(_old_cholesky)


def _solved(b: Tensor, factor: Tensor, upper: bool) -> Tensor:
    lower = factor.mH if upper else factor
    return triangular(lower.mH, triangular(lower, b, False), True)


def _solve_joint(g: Tensor, b: Tensor, factor: Tensor, out: Tensor, upper: bool) -> Any:
    """The factor counts as a whole, not as a triangle."""
    g_b = _cholesky_solve.call((g, factor), (upper,))
    common = g_b @ out.mH
    common = -(common + common.mH)
    return g_b, factor @ common if upper else common @ factor


_cholesky_solve: Any = factorisation(
    "cholesky_solve",
    "b factor",
    "upper",
    by=_solved,
    grad=Gradient(joint=_solve_joint),
    layout="column-major",
    rules=Rules(
        infer=lambda b, factor, upper: b.new(b.shape),
        cost=lambda outs, b, *rest: 2 * b.shape[-2] * b.numel(),
    ),
)


@public(out=True)
@autocast("cpu:float32")
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X of L L^H X = B (upper: U^H U X = B)."""
    for x, name in ((input, "b"), (input2, "u")):
        if x.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead"
            )
    require_solvable("cholesky_solve", input, input2)
    require_computable("cholesky_solve_cpu", input2)
    b, factor = with_batch(input, input2)
    return _cholesky_solve.call((b, factor), (bool(upper),))


@public(out=True)
@autocast("cpu:float32")
@ends_with("cholesky_inverse")
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of L L^H (upper: U^H U)."""
    require_matrix("cholesky_inverse", input, True)
    require_computable("cholesky_inverse_out_cpu", input)
    if input.numel():
        zero = (input.detach().diagonal(0, -2, -1) == 0).to(int64)
        check_info("cholesky_inverse", (zero.argmax(-1) + 1) * zero.amax(-1), SINGULAR_INVERSE)
    return _cholesky_solve.call(with_batch(eye_like(input), input), (bool(upper),))
