"""Systems of equations, inverses, determinants, least squares."""

from __future__ import annotations

import math
from typing import Any

from tritorch.arrays.meta import MetaArray
from tritorch.core import published
from tritorch.core.dtype import int32, int64
from tritorch.core.info import finfo
from tritorch.core.promotion import scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.common import (
    SINGULAR_INVERSE,
    SINGULAR_SYSTEM,
    check_info,
    eye_like,
    factorisation,
    linalg,
    named_results,
    require_float,
    require_matrix,
    require_square,
    require_system,
    with_batch,
)
from tritorch.ops.linalg.spectra import pinv, pinv_gradient
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.record.checks import host_values
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import same
from tritorch.ops.record.operator import laid_out
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.record.sizes import cubes
from tritorch.ops.shape.factory import make_complex

# ---- systems -------------------------------------------------------------------------------------


def _solve_results(a: MetaArray, b: MetaArray) -> tuple[MetaArray, MetaArray]:
    return b.new(b.shape), a.new(a.shape[:-2], int32)


_solve: Any = factorisation(
    "linalg_solve_ex", "a b",
    cpu="linalg.solve_ex",
    grad=Gradient(
        (
            lambda g, a, out: -(_solved(a.mH, g[0]) @ out[0].mH),
            lambda g, a: _solved(a.mH, g[0]),
        ),
        outputs=0b01,
    ),
    layout="column-major",
    rules=Rules(
        infer=_solve_results,
        cost=lambda outs, a, b, *rest: 2 * cubes(a) // 3 + 2 * a.shape[-1] * b.numel(),
    ),
)  # fmt: skip
_SolveEx = named_results("linalg_solve_ex", "result", "info")


def _solved(a: Tensor, b: Tensor) -> Tensor:
    return _solve.call(with_batch(a, b))[0]


def _solve_any(A: Tensor, B: Tensor, left: bool) -> Any:
    name = "linalg.solve"
    require_matrix(name, A, True)
    require_float(name, A)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type "
            f"{scalar_name(A.dtype)} and B of type {scalar_name(B.dtype)} instead"
        )
    given = B
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector:
        if not left:
            raise RuntimeError(
                f"{name}: Vector broadcasting of the left hand side is not supported for "
                f"left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
            )
        B = B.unsqueeze(-1)
    require_system(name, A, B, left)
    pair = with_batch(A, B) if left else with_batch(A.mT, B.mT)
    result, info = _solve.call(pair)
    if not left:
        result = result.mT
    if vector:  # PyTorch lays vectors out as matrices too
        result = result.squeeze(-1)
        if result.ndim > 1:
            result = laid_out("column-major", result.clone(), given)
    return _SolveEx(result, info)


@linalg()
@exact_out("structured")
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """linalg.solve with an info instead of an error."""
    found = _solve_any(A, B, left)
    if check_errors:
        check_info("torch.linalg.solve_ex", found.info, SINGULAR_SYSTEM)
    return found


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B (left) or X A = B; B may be a vector of each batch."""
    found = _solve_any(A, B, left)
    check_info("torch.linalg.solve", found.info, SINGULAR_SYSTEM)
    return found.result


# ---- inverses ------------------------------------------------------------------------------------

_inverse = factorisation(
    "linalg_inv_ex", "x",
    cpu="linalg.inv_ex",
    grad=Gradient(lambda g, out: -(out[0].mH @ (g[0] @ out[0].mH)), outputs=0b01),
    layout="column-major",
    rules=Rules(
        infer=lambda x: (x.new(x.shape), x.new(x.shape[:-2], int32)),
        cost=lambda outs, x, *rest: 2 * cubes(x),
    ),
)  # fmt: skip
_InvEx = named_results("linalg_inv_ex", "inverse", "info")


@linalg()
@autocast("cpu:float32")
@exact_out("structured")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """linalg.inv with an info instead of an error."""
    require_square("linalg.inv", A)
    found = _InvEx(*_inverse.call((A,)))
    if check_errors:
        check_info("linalg.inv_ex", found.info, SINGULAR_INVERSE)
    return found


@linalg(also=("inverse",))
@autocast("cpu:float32")
@exact_out("structured")
def inv(A: Tensor) -> Tensor:
    """The inverse."""
    require_square("linalg.inv", A)
    inverse, info = _inverse.call((A,))
    check_info("linalg.inv", info, SINGULAR_INVERSE)
    return inverse


@linalg()
@autocast("cpu:float32")
@ends_with("_reshape_alias")
def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the map that tensordot with A's dims from ind on is."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    rows, columns = tuple(input.shape[ind:]), tuple(input.shape[:ind])
    if math.prod(rows) != math.prod(columns):
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(rows)} != {math.prod(columns)}"
        )
    flat = input.reshape(math.prod(rows), math.prod(rows))
    inverse, info = inv_ex(flat)
    check_info("inv", info, SINGULAR_INVERSE)
    return inverse.reshape(*rows, *columns)


@linalg()
@autocast("cpu:float32")
def tensorsolve(input: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X of tensordot(A, X, X.ndim) = B; dims are moved to A's end first."""
    if dims is not None:
        places = [int(dim) for dim in dims]
        input = input.movedim(places, list(range(input.ndim - len(places), input.ndim)))
    rows, columns = tuple(input.shape[: B.ndim]), tuple(input.shape[B.ndim :])
    if math.prod(columns) != B.numel():
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {math.prod(columns)} != {B.numel()}"
        )
    flat = input.reshape(math.prod(rows), math.prod(rows))
    return solve(flat, B.reshape(-1)).reshape(columns)


# ---- determinants --------------------------------------------------------------------------------


def _adjugate_gradient(x: Tensor) -> Tensor:
    """The cofactors, conjugated, by operators that differentiate at singular matrices too."""
    det_, info = _det.call((x,)), _inverse.call((x.detach(),))[1]
    singular = (info != 0).reshape(*x.shape[:-2], 1, 1)
    safe = where(singular, eye_like(x), x)
    regular = det_[..., None, None].conj() * _inverse.call((safe,))[0].mH
    if not host_values(info).any():
        return regular
    return where(singular, _faddeev_le_verrier(x), regular)


def _faddeev_le_verrier(x: Tensor) -> Tensor:
    """The cofactors, conjugated, as a polynomial of the matrix."""
    n = x.shape[-1]
    eye = eye_like(x)
    m, power = eye.expand(x.shape), x
    for k in range(1, n):
        power = x @ m
        trace = power.diagonal(0, -2, -1).sum(-1)[..., None, None]
        m = power - eye * (trace / k)
    return (m if n % 2 else -m).mH if n else m


_cofactor = factorisation(
    "linalg_cofactor", "x",
    schema="(Tensor x) -> Tensor", cpu="linalg.cofactor", composed=_adjugate_gradient,
    rules=Rules(infer=same),
)  # fmt: skip


def _det_gradient(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    inverse, info = _inverse.call((x,))
    if host_values(info).any():
        return g[..., None, None] * _cofactor.call((x,))
    return (g * out.conj())[..., None, None] * inverse.mH


_det: Any = factorisation(
    "linalg_det",
    "x",
    cpu="linalg.det",
    grad=_det_gradient,
    rules=Rules(infer=lambda x: x.new(x.shape[:-2]), cost=lambda outs, x, *rest: 2 * cubes(x) // 3),
)


def _slogdet_gradient(g: Any, x: Tensor, out0: Tensor) -> Tensor:
    g_sign, g_log = g
    if g_log is None and not x.is_complex():  # a sign does not move
        return published.public.zeros_like(x)
    weight = published.public.zeros_like(out0) if g_log is None else g_log
    if x.is_complex():
        weight = weight.to(x.dtype)
        if g_sign is not None:  # a phase turns with the imaginary part
            turn = (g_sign.conj() * out0).imag
            weight = weight - make_complex(published.public.zeros_like(turn), turn)
    return weight[..., None, None] * _inverse.call((x,))[0].mH


def _slogdet_results(x: MetaArray) -> tuple[MetaArray, MetaArray]:
    return x.new(x.shape[:-2]), x.new(x.shape[:-2], x.dtype.to_real())


_slogdet = factorisation(
    "linalg_slogdet",
    "x",
    cpu="linalg.slogdet",
    grad=Gradient(_slogdet_gradient, outputs=0b11),
    rules=Rules(infer=_slogdet_results, cost=lambda outs, x, *rest: 2 * cubes(x) // 3),
)
_LinalgSlogdet = named_results("linalg_slogdet", "sign", "logabsdet")
_Slogdet = named_results("slogdet", "sign", "logabsdet")


@linalg(also=("det",))
@exact_out("structured")
def det(input: Tensor) -> Tensor:
    """The determinant."""
    require_matrix("linalg.det", input, True)
    require_float("linalg.det", input, "lu_cpu")
    return _det.call((input,))


@linalg()
@exact_out("structured")
def slogdet(A: Tensor) -> Any:
    """The sign (or phase) of the determinant, and the logarithm of its magnitude."""
    require_square("linalg.slogdet", A)
    return _LinalgSlogdet(*_slogdet.call((A,)))


def _old_slogdet(input: Tensor) -> Any:
    """linalg.slogdet, by its old name."""
    return _Slogdet(*slogdet(input))


_old_slogdet.__name__ = "slogdet"
public(out=True)(_old_slogdet)


@public()
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN where that is negative."""
    require_square("logdet", input)
    sign, log = _slogdet.call((input,))
    if input.is_complex():
        return sign.log() + log
    return where(sign == -1, math.nan, log)


# ---- least squares -------------------------------------------------------------------------------


def _lstsq_joint(g: Any, a: Tensor, b: Tensor, out: Any, needs: Any) -> Any:
    (g_x, g_rest), x = g[:2], out[0]
    g_a: Any = None
    g_b: Any = None
    if g_x is not None:
        inverse = pinv(a)
        g_a = pinv_gradient(g_x @ b.mH, inverse, a) if needs[0] else None
        g_b = inverse.mH @ g_x
    if g_rest is not None and g_rest.numel():  # x itself moves it by nothing: it is least
        slope = 2 * g_rest.unsqueeze(-2) * (a @ x - b)
        g_a = slope @ x.mH if g_a is None else g_a + slope @ x.mH
        g_b = -slope if g_b is None else g_b - slope
    return g_a, g_b


def _lstsq_results(a: MetaArray, b: MetaArray, rcond: Any, driver: str) -> tuple[Any, ...]:
    *lead, m, n = a.shape
    k = b.shape[-1]
    rank = a.new((0,) if driver == "gels" else lead, int64)
    residuals = a.new((*lead, k) if m > n and driver != "gelsy" else (0,), a.dtype.to_real())
    values = a.new((*lead, min(m, n)) if driver in ("gelsd", "gelss") else (0,), a.dtype.to_real())
    return b.new((*lead, n, k)), residuals, rank, values


_lstsq = factorisation(
    "linalg_lstsq",
    "a b",
    "rcond driver",
    cpu="linalg.lstsq",
    grad=Gradient(joint=_lstsq_joint, outputs=0b0011),
    rules=Rules(
        infer=_lstsq_results,
        cost=lambda outs, a, b, *rest: 2 * cubes(a) + 4 * a.shape[-1] * b.numel(),
    ),
)
_Lstsq = named_results("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _require_lstsq(A: Tensor, B: Tensor, vector: bool) -> None:
    name = "torch.linalg.lstsq"
    if not 0 <= A.ndim - B.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            f"other.dim()) <= 1"
        )
    if A.shape[-2] != B.shape[-1 if vector else -2]:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size({-1 if vector else -2})"
        )
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype "
            f"{scalar_name(A.dtype)} and other's dtype {scalar_name(B.dtype)}"
        )
    if not (A.is_floating_point() or A.is_complex()) or A.dtype.itemsize < 4:
        raise RuntimeError("This function doesn't handle types other than float and double")


def _driver(given: str | None, x: Tensor) -> str:
    if given is not None and given not in _DRIVERS:
        raise RuntimeError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    return given or ("gels" if x.is_cuda else "gelsy")


@linalg()
@autocast("cpu:float32")
def lstsq(
    input: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> Any:
    """X that makes |A X - B| least (of several, the least X), and what is left over.

    gels: A has full rank.  The others find the rank: by rcond, relative to the greatest singular
    value; gelsd and gelss give the singular values too.
    """
    for x, least, name in ((input, 2, "input"), (B, 1, "other")):
        if x.ndim < least:
            raise RuntimeError(
                f"torch.linalg.lstsq: {name} must have at least {least} "
                f"dimension{'s' * (least > 1)}."
            )
    vector = B.ndim == 1 or (B.ndim == input.ndim - 1 and tuple(B.shape) == tuple(input.shape[:-1]))
    _require_lstsq(input, B, vector)
    driver = _driver(driver, input)
    if rcond is None:
        rcond = finfo(input.dtype).eps * max(input.shape[-2:])
    a, b = with_batch(input, B.unsqueeze(-1) if vector else B)
    x, *rest = _lstsq.call((a, b), (float(rcond), driver))
    return _Lstsq(x.squeeze(-1) if vector else x, *rest)
