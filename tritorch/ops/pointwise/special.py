"""What torch.special has besides the pointwise operators of the other files, gamma's family first.

Records are called special_<name>, as in PyTorch; `FUNCTIONS` is what tritorch.special publishes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tritorch.core import defaults, published
from tritorch.core.dtype import bool_, float64, int32
from tritorch.core.info import finfo
from tritorch.core.promotion import category, not_implemented
from tritorch.core.published import PUBLIC, SPECIAL
from tritorch.core.tensor import Tensor, attach
from tritorch.gpu.pointwise.layout import LONG
from tritorch.host.pointwise import pointwise as cpu
from tritorch.host.pointwise.gamma import factorial
from tritorch.host.pointwise.narrow import like, widen
from tritorch.host.pointwise.polynomials import FUNCTIONS as POLYNOMIALS
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.pointwise.pointwise import sigmoid
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import same
from tritorch.ops.record.kinds import binary, unary
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.pointwise import INT_TO_FLOAT
from tritorch.ops.record.publishing import in_place_of, public, with_out
from tritorch.ops.reduce.reduction import named_results
from tritorch.ops.shape.ranges import arange

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _not_differentiable(what: str) -> Callable[..., Any]:
    def refuse(g: Tensor) -> Tensor:
        raise NotImplementedError(f"the derivative for '{what}' is not implemented.")

    return refuse


# ---- gamma's family ------------------------------------------------------------------------------

LONG.add("polygamma")
_polygamma = Operator(
    "polygamma",
    "x",
    "n",
    schema="polygamma(n, x)",
    cpu=lambda x, n: like(cpu.polygamma(n, widen(x)), x),
    gpu=lambda x, n: backend("gpu", "pointwise").call(
        "polygamma", (x, float(n), (-1) ** (n + 1) * factorial(n)), float64, x.dtype
    ),
    grad=lambda g, x, n: g * polygamma(n + 1, x),
    layout="elementwise",
    rules=Rules(infer=same, axes="...->...", batch="elementwise"),
)


@with_out
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma."""
    require_tensor(input, "polygamma", "input", 2)
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if input.is_complex():
        raise not_implemented("polygamma", input.dtype)
    if not input.is_floating_point():
        input = input.to(defaults.dtype())
    return published.public.digamma(input) if n == 0 else _polygamma.call((input,), (int(n),))


PUBLIC["polygamma"] = polygamma


def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return polygamma(n, self)


attach(polygamma=_polygamma_method)
attach(polygamma_=in_place_of(ends_with("polygamma_")(_polygamma_method), "polygamma_"))


@public(out=True, inplace=True)
@ends_with("mvlgamma")
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
    require_tensor(input, "mvlgamma", "input", 1)
    if input.dtype is bool_:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if not input.is_floating_point():
        input = input.to(defaults.dtype())
    steps = arange(p, dtype=input.dtype, device=input.device) * -0.5
    terms = published.public.lgamma(input.unsqueeze(-1) + steps)
    return terms.sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


def _density(g: Tensor, a: Tensor, x: Tensor) -> Tensor:
    """The gamma distribution's density at x, times g."""
    return g * ((a - 1) * x.log() - x - a.lgamma()).exp()


_gamma_parts = {
    name: binary(
        name, getattr(cpu, name), without="bool int complex", domain=(0.1, 6), export=False,
        long=True,
        grad=(_not_differentiable(f"{name}: input"), slope),
    )
    for name, slope in (
        ("igamma", lambda g, a, b: _density(g, a, b)),
        ("igammac", lambda g, a, b: _density(-g, a, b)),
    )
}  # fmt: skip


def _incomplete(name: str, input: Tensor, other: Tensor) -> Tensor:
    require_tensor(input, name, "input", 1)
    require_tensor(other, name, "other", 2)
    return _gamma_parts[name](input, other)


@public(out=True, inplace=True)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The regularised lower incomplete gamma function of other, with the parameter input."""
    return _incomplete("igamma", input, other)


@public(out=True, inplace=True)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """The regularised upper incomplete gamma function of other, with the parameter input."""
    return _incomplete("igammac", input, other)


# ---- functions of one number ---------------------------------------------------------------------


def _special(
    name: str, *, of: str = "", without: str = "complex half", **options: Any
) -> Callable[..., Tensor]:
    """A record special_<name> of the backends' function <name>, published in tritorch.special."""
    function = unary(
        f"special_{name}", getattr(cpu, of or name), gpu=of or name, rule=INT_TO_FLOAT,
        without=without, method=False, public=False, inplace=False, **options,
    )  # fmt: skip
    FUNCTIONS[name] = function
    return function


i0e = _special("i0e", without="complex", grad=lambda g, x, out: g * (i1e(x) - x.sgn() * out))
i1 = _special("i1", without="complex", grad=lambda g, x, out: g * _i1_slope(x, out))
i1e: Any = _special("i1e", without="complex", grad=lambda g, x, out: g * _i1e_slope(x, out))
erfcx = _special("erfcx", grad=lambda g, x, out: g * (2 * x * out - 2 / math.sqrt(math.pi)))
ndtri = _special("ndtri", domain=(0.05, 0.95), grad=lambda g, out: (
    g * math.sqrt(2 * math.pi) * (out * out / 2).exp()))  # fmt: skip
log_ndtr = _special("log_ndtr", grad=lambda g, x: (
    g / erfcx(x / -math.sqrt(2)) * math.sqrt(2 / math.pi)))  # fmt: skip
entr = _special("entr", without="complex", domain=(0.1, 3), grad=lambda g, x: g * (-1 - x.log()))
for _name, _domain in {
    "airy_ai": (-8, 4), "bessel_j0": (-12, 12), "bessel_j1": (-12, 12), "bessel_y0": (0.1, 12),
    "bessel_y1": (0.1, 12), "modified_bessel_k0": (0.1, 6), "modified_bessel_k1": (0.1, 6),
    "scaled_modified_bessel_k0": (0.1, 6), "scaled_modified_bessel_k1": (0.1, 6),
    "spherical_bessel_j0": (-12, 12),
}.items():  # fmt: skip
    _special(_name, domain=_domain, long=_name == "spherical_bessel_j0")
_special("modified_bessel_i0", of="i0")
_special("modified_bessel_i1", of="i1")


def _away_from_zero(slope: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A slope, which is 1/2 at 0 and (as in PyTorch) at NaN."""
    tiny = ~(x.abs() > finfo(x.dtype).eps)
    return slope(x.masked_fill(tiny, 1)).masked_fill(tiny, 0.5)


def _i1_slope(x: Tensor, out: Tensor) -> Tensor:
    return _away_from_zero(lambda safe: safe.i0() - out / safe, x)


def _i1e_slope(x: Tensor, out: Tensor) -> Tensor:
    return _away_from_zero(lambda safe: i0e(safe) - out * (safe.sgn() + 1 / safe), x)


@with_out
def ndtr(input: Tensor) -> Tensor:
    """The standard normal distribution function."""
    require_tensor(input, "special_ndtr", "input", 1)
    return published.public.erfc(input / -math.sqrt(2)) * 0.5


# ---- functions of two numbers --------------------------------------------------------------------


# Which overload it is, by which operand is a number.
_SCALARS = (
    "{'.self_scalar' if not hasattr(a, 'shape') else '' if hasattr(b, 'shape') else "
    "'.other_scalar'}"
)


def _pair(
    name: str, function: Any, gpu: str, without: str = "complex half", grad: Any = None,
    **options: Any,
) -> Callable[..., Tensor]:  # fmt: skip
    made = binary(
        f"special_{name}", function,
        rule=INT_TO_FLOAT, gpu=gpu, grad=Gradient(grad, node=f"special_{name}" + _SCALARS),
        without=without, method=False, public=False, inplace=False, **options,
    )  # fmt: skip
    FUNCTIONS[name] = made
    return made


def _log1p_where_used(a: Any, b: Any) -> Tensor:
    """log(1 + b), 0 where a is 0 and b not above -1."""
    like_both = a if isinstance(a, Tensor) else b
    b = b if isinstance(b, Tensor) else like_both.new_full((), b)
    return where((a == 0) & (b <= -1), 0.0, b.log1p())


xlog1py = _pair(
    "xlog1py", cpu.xlog1py, "xlog1py", "complex",
    grad=(lambda g, a, b: g * _log1p_where_used(a, b), lambda g, a, b: g * a / (b + 1)),
)  # fmt: skip
zeta: Any = _pair(
    "zeta", cpu.zeta, "zeta", domain=(1.1, 9), long=True,
    grad=(_not_differentiable("zeta"), lambda g, a, b: g * -a * zeta(a + 1, b)),
)  # fmt: skip


def _polynomial(name: str) -> Callable[..., Tensor]:
    evaluate = _pair(name, POLYNOMIALS[name], name)

    def function(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(n, Tensor):
            require_tensor(x, f"special_{name}", "x", 1)
        return evaluate(x, n, out=out)

    family, kind = name.replace("_polynomial_", " ").rsplit(" ", 1)
    function.__doc__ = (
        f"The {family.replace('_', ' ')} polynomials {kind.title()} of degree n at x."
    )
    function.__name__ = function.__qualname__ = f"special_{name}"
    function.op = evaluate.op  # type: ignore[attr-defined]
    return function


FUNCTIONS.update({name: _polynomial(name) for name in POLYNOMIALS})

# ---- aliases -------------------------------------------------------------------------------------


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) over a dim."""
    return published.public.softmax(input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax."""
    return published.public.log_softmax(input, dim, dtype=dtype)


FUNCTIONS.update(
    SPECIAL,
    polygamma=polygamma,
    expit=sigmoid, gammainc=igamma, gammaincc=igammac, gammaln=PUBLIC["lgamma"],
    log_softmax=log_softmax, multigammaln=mvlgamma, ndtr=ndtr, psi=PUBLIC["digamma"],
    softmax=softmax,
)  # fmt: skip

# ---- mantissa and exponent -----------------------------------------------------------------------


def _frexp_on_gpu(x: Any) -> tuple[Any, Any]:
    call = backend("gpu", "pointwise").call
    compute = x.dtype
    return (
        call("mantissa", (x,), compute, x.dtype), call("exponent", (x,), compute, int32),
    )  # fmt: skip


_frexp = Operator(
    "frexp", "x",
    cpu=cpu.frexp, gpu=_frexp_on_gpu,
    grad=Gradient(lambda g, out: g[0] / out[1].exp2().to(g[0].dtype), outputs=0b01), layout="copy",
    rules=Rules(
        infer=lambda x: (x.new(x.shape), x.new(x.shape, int32)), axes="...->...,...",
        batch="elementwise",
    ),
)  # fmt: skip
_parts = named_results("frexp", "mantissa", "exponent")


@public(out=True)
def frexp(input: Tensor) -> Any:
    """The mantissa, from 1/2 up to 1, and the exponent with input = mantissa 2^exponent."""
    require_tensor(input, "frexp", "input", 1)
    if category(input.dtype) != 2:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return _parts(*_frexp.call((input,)))
