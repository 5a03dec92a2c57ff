"""Pointwise functions of one tensor; what torch.special has besides is in special.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.arrays.sparse import SparseArray
from tritorch.core import defaults, published
from tritorch.core.dtype import bool_
from tritorch.core.info import finfo
from tritorch.core.promotion import category, not_implemented
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.host import loops
from tritorch.host.pointwise import pointwise as cpu
from tritorch.ops.interpret.sparse.pointwise import on_values
from tritorch.ops.record.apply import widened
from tritorch.ops.record.checks import require_kernel
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Gradient, Rules, Without
from tritorch.ops.record.kinds import unary
from tritorch.ops.record.operator import Operator, laid_out, lies
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.pointwise import ALWAYS_BOOL, COMPLEX_TO_REAL, INT_TO_FLOAT, SAME
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.factory import make_complex

TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
LN2, LN10 = math.log(2), math.log(10)

# ---- sign and magnitude --------------------------------------------------------------------------

neg = unary(
    "neg", np.negative,
    grad=lambda g: -g, zero="linear",
    without=Without(
        "bool",
        says="Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.",
    ),
    aliases=("negative",), exact="found",
)  # fmt: skip
abs = unary("abs", np.absolute, rule=COMPLEX_TO_REAL, without="bool", aliases=("absolute",),
            layout="magnitude",
            grad=lambda g, x: g * x.sgn(), exact="found", zero="kept")  # fmt: skip
del PUBLIC["absolute_"]  # a method alone
_NO_SIGN = NotImplementedError(
    "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn "
    "instead."
)
sign = unary(
    "sign", cpu.sign,
    grad=lambda g: g.new_zeros(g.shape), zero="kept", without=Without("complex", says=_NO_SIGN),
    exact="found", inplace="method",
)  # fmt: skip
sgn = unary(
    "sgn",
    cpu.sgn,
    direct=False,
    grad=lambda g, out, x: _sgn_grad(g, out, x),
    exact="found",
    inplace="method",
    zero="kept",
)
_square = unary(
    "square",
    np.square,
    composed=lambda x: x * x,
    grad=Gradient(lambda g, x: g * (2 * x.conj()), node="Pow"),
    zero="kept",
    inplace=False,
    method=False,
    public=False,
)
sqrt = unary("sqrt", np.sqrt, rule=INT_TO_FLOAT, domain=(0.1, 3),
             grad=lambda g, out: g / (2 * out.conj()), zero="kept")  # fmt: skip
rsqrt = unary("rsqrt", cpu.rsqrt, rule=INT_TO_FLOAT, domain=(0.1, 3),
              grad=lambda g, out: -0.5 * g * (out * out * out).conj(),
              autocast="cuda:float32")  # fmt: skip
reciprocal = unary(
    "reciprocal",
    cpu.reciprocal,
    composed=lambda x: 1 / x,
    rule=INT_TO_FLOAT,
    domain=(0.5, 3),
    grad=lambda g, out: -g * (out * out).conj(),
    autocast="cuda:float32",
)
_BOOLEAN = "{name} does not support non-boolean outputs."
signbit = unary(
    "signbit",
    cpu.signbit,
    rule=ALWAYS_BOOL,
    without="complex",
    inplace=False,
    direct=False,
    exact=_BOOLEAN,
    zero="kept",
)


def _sgn_grad(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    if not x.is_complex():
        return g.new_zeros(g.shape)
    magnitude = x.abs()
    part = (g.conj() * out).real * out
    zero = magnitude == 0
    return ((g - part) / magnitude.masked_fill(zero, 1)).masked_fill(zero, 0)


# ---- exponentials and logarithms -----------------------------------------------------------------

exp = unary(
    "exp", loops.exp, rule=INT_TO_FLOAT, grad=lambda g, out: g * out.conj(), autocast="cuda:float32"
)
exp2 = unary(
    "exp2",
    cpu.exp2,
    rule=INT_TO_FLOAT,
    aliases=(),
    without="chalf",
    grad=lambda g, out: g * out.conj() * LN2,
    special=True,
)
expm1 = unary(
    "expm1",
    loops.expm1,
    rule=INT_TO_FLOAT,
    grad=lambda g, out: g * (out.conj() + 1),
    autocast="cuda:float32",
    zero="kept",
    special=True,
)
log = unary(
    "log",
    loops.log,
    rule=INT_TO_FLOAT,
    domain=(0.1, 3),
    grad=lambda g, x: g / x.conj(),
    autocast="cuda:float32",
)
log2 = unary("log2", cpu.log2, rule=INT_TO_FLOAT, domain=(0.1, 3),
             grad=lambda g, x: g / (x.conj() * LN2), autocast="cuda:float32")  # fmt: skip
log10 = unary("log10", cpu.log10, rule=INT_TO_FLOAT, domain=(0.1, 3),
              grad=lambda g, x: g / (x.conj() * LN10), autocast="cuda:float32")  # fmt: skip
log1p = unary("log1p", cpu.log1p, rule=INT_TO_FLOAT, domain=(-0.5, 3),
              grad=lambda g, x: g / (x + 1).conj(),
              autocast="cuda:float32", zero="kept", special=True)  # fmt: skip

# ---- trigonometry --------------------------------------------------------------------------------

sin = unary("sin", np.sin, rule=INT_TO_FLOAT, grad=lambda g, x: g * x.cos().conj(), zero="kept")
cos = unary("cos", np.cos, rule=INT_TO_FLOAT, grad=lambda g, x: -g * x.sin().conj())
tan = unary("tan", cpu.tan, rule=INT_TO_FLOAT, domain=(-1, 1),
            grad=lambda g, out: g * (1 + out * out).conj(),
            autocast="cuda:float32", zero="kept")  # fmt: skip
asin = unary("asin", cpu.arcsin, rule=INT_TO_FLOAT, domain=(-0.9, 0.9), aliases=("arcsin",),
             grad=lambda g, x: g * (1 - x * x).rsqrt().conj(),
             autocast="cuda:float32", zero="kept")  # fmt: skip
acos = unary("acos", np.arccos, rule=INT_TO_FLOAT, domain=(-0.9, 0.9), aliases=("arccos",),
             grad=lambda g, x: -g * (1 - x * x).rsqrt().conj(),
             autocast="cuda:float32")  # fmt: skip
atan = unary("atan", np.arctan, rule=INT_TO_FLOAT, aliases=("arctan",),
             grad=lambda g, x: g / (x * x + 1).conj(), zero="kept")  # fmt: skip
sinh = unary(
    "sinh",
    np.sinh,
    rule=INT_TO_FLOAT,
    grad=lambda g, x: g * x.cosh().conj(),
    autocast="cuda:float32",
    zero="kept",
)
cosh = unary(
    "cosh",
    cpu.cosh,
    rule=INT_TO_FLOAT,
    grad=lambda g, x: g * x.sinh().conj(),
    autocast="cuda:float32",
)
tanh = unary(
    "tanh",
    loops.tanh,
    rule=INT_TO_FLOAT,
    grad=lambda g, out: g * (1 - out * out).conj(),
    zero="kept",
)
asinh = unary("asinh", np.arcsinh, rule=INT_TO_FLOAT, aliases=("arcsinh",), inplace="constant",
              grad=lambda g, x: g * (x * x + 1).rsqrt().conj(), zero="kept")  # fmt: skip
acosh = unary("acosh", np.arccosh, rule=INT_TO_FLOAT, domain=(1.1, 3), aliases=("arccosh",),
              inplace="constant",
              grad=lambda g, x: g * (x * x - 1).rsqrt().conj())  # fmt: skip
atanh = unary("atanh", np.arctanh, rule=INT_TO_FLOAT, domain=(-0.9, 0.9), aliases=("arctanh",),
              inplace="constant",
              grad=lambda g, x: g / (1 - x * x).conj(), zero="kept")  # fmt: skip
sinc = unary(
    "sinc",
    cpu.sinc,
    composed=lambda x: ((x * math.pi).sin() / (x * math.pi)).masked_fill(x == 0, 1),
    rule=INT_TO_FLOAT,
    direct=False,
    grad=lambda g, x: g * _sinc_grad(x).conj(),
    special=True,
)
deg2rad = unary(
    "deg2rad",
    np.deg2rad,
    rule=INT_TO_FLOAT,
    composed=lambda x: x * (math.pi / 180),
    grad=lambda g: g * (math.pi / 180),
    zero="linear",
    layout="copy",
    without=Without("complex", says="deg2rad is not supported for complex tensors."),
)
rad2deg = unary(
    "rad2deg",
    cpu.rad2deg,
    rule=INT_TO_FLOAT,
    composed=lambda x: x * (180 / math.pi),
    grad=lambda g: g * (180 / math.pi),
    zero="linear",
    layout="copy",
    without=Without("complex", says="rad2deg is not supported for complex tensors."),
)


def _sinc_grad(x: Tensor) -> Tensor:
    pi_x = x * math.pi
    zero = x == 0
    safe = pi_x.masked_fill(zero, 1)
    return ((safe.cos() * safe - safe.sin()) / (safe * safe) * math.pi).masked_fill(zero, 0)


# ---- special -------------------------------------------------------------------------------------

sigmoid = unary("sigmoid", cpu.sigmoid, rule=INT_TO_FLOAT,
                grad=lambda g, out: g * (out * (1 - out)).conj())  # fmt: skip
erf = unary("erf", cpu.erf, rule=INT_TO_FLOAT, without="complex",
            grad=lambda g, x: g * (-x * x).exp() * TWO_OVER_SQRT_PI,
            zero="kept", special=True)  # fmt: skip
erfc = unary("erfc", cpu.erfc, rule=INT_TO_FLOAT, without="complex",
             grad=lambda g, x: g * (-x * x).exp() * -TWO_OVER_SQRT_PI, special=True)  # fmt: skip
erfinv = unary("erfinv", cpu.erfinv, rule=INT_TO_FLOAT, without="complex", domain=(-0.9, 0.9),
               grad=lambda g, x: g * x.erfinv().square().exp() / TWO_OVER_SQRT_PI,
               autocast="cuda:float32", inplace="method", zero="kept", special=True)  # fmt: skip
lgamma = unary("lgamma", cpu.lgamma, rule=INT_TO_FLOAT, without="complex", domain=(0.5, 3),
               grad=lambda g, x: g * x.digamma(), inplace="method")  # fmt: skip
digamma = unary("digamma", cpu.digamma, rule=INT_TO_FLOAT, without="complex", domain=(0.5, 3),
                grad=lambda g, x: g * _trigamma(x), inplace="method",
                special=True, long=True)  # fmt: skip
i0 = unary("i0", cpu.i0, rule=INT_TO_FLOAT, without="complex",
           grad=lambda g, x: g * _i1(x), special=True)  # fmt: skip


def _i1(x: Tensor) -> Tensor:
    from tritorch.ops.pointwise.special import i1

    return i1(x)


def _trigamma(x: Tensor) -> Tensor:
    return published.public.polygamma(1, x)


# ---- rounding ------------------------------------------------------------------------------------

_flat = lambda g: g.new_zeros(g.shape)


def _to_integers(name: str, function: Any, *aliases: str) -> Any:
    """A rounding of which PyTorch refuses complex numbers in words of its own."""
    words = NotImplementedError(f"{name} is not supported for complex inputs")
    return unary(
        name, cpu.on_floats(function),
        grad=_flat, zero="kept", without=Without("complex bool", says=words), aliases=aliases,
        exact="found",
    )  # fmt: skip


floor, ceil = _to_integers("floor", np.floor), _to_integers("ceil", np.ceil)
trunc = _to_integers("trunc", np.trunc, "fix")
frac = unary(
    "frac",
    cpu.frac,
    composed=lambda x: x - x.trunc(),
    without="bool int complex",
    grad=lambda g: g,
    exact="found",
    zero="kept",
)
_round = unary("round", cpu.on_floats(np.rint), without="bool complex", grad=_flat, zero="kept")


@public(out=True, inplace=True, special=True)
@lies("elementwise")
@exact_out("found")
def round(input: Tensor, *, decimals: int | None = None) -> Tensor:
    """Rounds to the nearest integer (or multiple of 10^-decimals), half to even."""
    if decimals is None:
        return _round(input)
    require_kernel("round_cpu" if decimals else "round_vml_cpu", input, "bool int")
    if decimals == 0:
        return ends_as("round.decimals", _round(input))
    return _round_decimals.call((input,), (decimals,))


def _rounded(x: Tensor, decimals: int) -> Tensor:
    scale = 10.0 ** builtin_abs(decimals)
    return _round(x * scale) / scale if decimals > 0 else _round(x / scale) * scale


_round_decimals = Operator(
    "round_decimals",
    "x",
    "decimals",
    schema="round.decimals(x, decimals=decimals)",
    composed=widened(_rounded),
    grad=Gradient(_flat, node="Round1"),
    layout="elementwise",
    rules=Rules(axes="...->..."),
)


builtin_abs = __builtins__["abs"] if isinstance(__builtins__, dict) else __builtins__.abs

# ---- predicates ----------------------------------------------------------------------------------

isnan = unary("isnan", np.isnan, rule=ALWAYS_BOOL, inplace=False, out=False, zero="kept")
isinf = unary("isinf", np.isinf, rule=ALWAYS_BOOL, inplace=False, out=False, zero="kept")
isfinite = unary("isfinite", np.isfinite, rule=ALWAYS_BOOL, inplace=False, out=False)
isposinf = unary(
    "isposinf",
    np.isposinf,
    rule=ALWAYS_BOOL,
    direct=False,
    composed=lambda x: x == math.inf,
    zero="kept",
    without=Without("complex", says="isposinf does not support complex inputs."),
    inplace=False,
    exact=_BOOLEAN,
)
isneginf = unary(
    "isneginf",
    np.isneginf,
    rule=ALWAYS_BOOL,
    direct=False,
    composed=lambda x: x == -math.inf,
    zero="kept",
    without=Without("complex", says="isneginf does not support complex inputs."),
    inplace=False,
    exact=_BOOLEAN,
)
logical_not = unary("logical_not", np.logical_not, rule=ALWAYS_BOOL, inplace="method")
bitwise_not = unary(
    "bitwise_not", np.invert, without="float complex", exact="found", inplace="method"
)

# ---- complex -------------------------------------------------------------------------------------

_conj_physical = unary("conj_physical", cpu.conj_physical, direct=False, method=False,
                       layout="copy", grad=lambda g: g.conj(), zero="linear")  # fmt: skip


@public()
@exact_out("found")
def conj_physical(input: Tensor, *, out: Any = None) -> Tensor:
    """The complex conjugate in new memory; the tensor itself when it is real."""
    return input if out is None and not input.is_complex() else _conj_physical(input, out=out)


_angle = unary("angle", cpu.angle, rule=COMPLEX_TO_REAL, direct=False, inplace=False,
               method=False, public=False,
               grad=lambda g, x: _angle_grad(g, x), zero="kept")  # fmt: skip


@public(out=True, inplace="public")
def square(input: Tensor) -> Tensor:
    """The square of each element; bools are squared as integers."""
    return _square(input.long() if input.dtype is bool_ else input)


@public(out=True)
def angle(input: Tensor) -> Tensor:
    """The argument of complex numbers; 0 or pi for real ones."""
    if input.is_complex():
        return laid_out("row-major", _angle(input))
    return _angle(input.to(defaults.dtype()) if category(input.dtype) < 2 else input)


def _angle_grad(g: Tensor, x: Tensor) -> Tensor:
    if not x.is_complex():
        return x.new_zeros(x.shape)
    squared = x.real * x.real + x.imag * x.imag
    zero = squared == 0
    scaled = (g / squared.masked_fill(zero, 1)).masked_fill(zero, 0)
    return make_complex(-x.imag * scaled, x.real * scaled)


@public()
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; the tensor itself when it is real."""
    return ends_as("_conj", conj_physical(input)) if input.is_complex() else input


@public()
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugation is never pending."""
    return input


@public()
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negation is never pending."""
    return input


@public()
def positive(input: Tensor) -> Tensor:
    """The tensor itself; not for bools."""
    if input.dtype.name == "bool":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@public()
def isreal(input: Tensor) -> Tensor:
    """Whether each element's imaginary part is 0."""
    if input.is_complex():
        return input.imag == 0
    return published.public.ones_like(input, dtype=bool_)


@public(out=True, inplace="public")
@lies("copy")
@exact_out("nan_to_num: dtype of out: {Out} should be same as input: {Result}")
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """NaN and infinities replaced by numbers (the dtype's largest by default)."""
    for argument, number in (("nan", nan), ("posinf", posinf), ("neginf", neginf)):
        if isinstance(number, complex):
            raise TypeError(f"nan_to_num(): argument '{argument}' must be float, not complex")
    if not (input.is_floating_point() or input.is_complex()):
        return input.clone()
    if type(input._array) is SparseArray:
        return on_values(lambda x: nan_to_num(x, nan, posinf, neginf), input, "NanToNum")
    if input.is_complex():
        return make_complex(
            nan_to_num(input.real, nan, posinf, neginf), nan_to_num(input.imag, nan, posinf, neginf)
        )
    return _nan_to_num.call((input,), (nan, posinf, neginf))


def _finite(input: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    limits = finfo(input.dtype)
    out = input.masked_fill(input.isnan(), 0.0 if nan is None else nan)
    out = out.masked_fill(input == math.inf, limits.max if posinf is None else posinf)
    return out.masked_fill(input == -math.inf, limits.min if neginf is None else neginf)


_nan_to_num = Operator("nan_to_num", "x", "nan posinf neginf", composed=_finite,
                       layout="elementwise",
                       grad=lambda g, x: g * x.isfinite())  # fmt: skip


@public(out=True, inplace="public", special=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); eps: x is clamped to [eps, 1 - eps] before."""
    if not (input.is_floating_point() or input.is_complex()):
        input = input.to(defaults.dtype())
    if input.is_complex():
        raise not_implemented("logit", input.dtype)
    return _logit.call((input,), (eps,))


def _log_odds(x: Tensor, eps: float | None) -> Tensor:
    if eps is not None:
        x = x.clamp(eps, 1 - eps)
    return (x / (1 - x)).log()


def _logit_grad(g: Tensor, x: Tensor, eps: float | None) -> Tensor:
    low, outside = (0.0, math.nan) if eps is None else (eps, 0.0)
    return (g / (x * (1 - x))).masked_fill(~((x >= low) & (x <= 1 - low)), outside)


_logit = Operator("logit", "x", "eps", composed=_log_odds, grad=_logit_grad, layout="elementwise")


def _invert(self: Tensor) -> Tensor:
    if category(self.dtype) > 1:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return bitwise_not(self)


def _operators() -> None:
    tensor_type: Any = Tensor
    tensor_type.__neg__ = neg
    tensor_type.__pos__ = positive
    tensor_type.__abs__ = abs
    tensor_type.__invert__ = _invert


_operators()

__all__: list[Any] = []
assert SAME == 0
