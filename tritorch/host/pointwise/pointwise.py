"""Pointwise functions that NumPy lacks, or has with other rules than PyTorch's.

Arguments are arrays of one dtype, and Python numbers; float16 and its like were widened before.
Large arrays are computed in blocks that stay in the cache, over threads (`mapped`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.arrays.arrays import add, by_steps, seen
from tritorch.host import loops
from tritorch.host.chains.steps import ARRAYS, repaired
from tritorch.host.pointwise.bessel import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from tritorch.host.pointwise.gamma import igamma, igammac, polygamma, zeta
from tritorch.host.pointwise.narrow import like, widen
from tritorch.host.pointwise.special import (
    digamma,
    erf,
    erf64,
    erfc,
    erfcx,
    erfinv,
    i0,
    i0e,
    i1,
    i1e,
    lgamma,
    log_ndtr,
    ndtri,
)
from tritorch.host.threads import BLOCK, mapped

Array = np.ndarray[Any, Any]
_multiply = seen(np.multiply)


def _kind(*values: Any) -> Any:
    """The dtype of the arrays; of the numbers if there are none."""
    for value in values:
        if type(value) in ARRAYS:
            return value.dtype
    return np.result_type(*values)


def _blocked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Computes in blocks; the result has the arguments' dtype.  Small arrays of one shape, and
    numbers, go to the function as they are.  A function that has `out` may compute in it."""
    code = function.__code__
    into = function if "out" in code.co_varnames[: code.co_argcount] else None

    def run(*values: Any) -> Any:
        x = values[0]
        if type(x) is not np.ndarray or not 0 < x.size <= BLOCK or not x.ndim:
            return mapped(function, _kind(*values), *values, into=into)
        if len(values) > 1:
            shape = x.shape
            for value in values:
                if type(value) is np.ndarray and value.shape != shape:
                    return mapped(function, x.dtype, *values)
        out = function(*values)
        return out if out.dtype is x.dtype else out.astype(x.dtype, copy=False)

    run.__name__ = run.__qualname__ = function.__name__.lstrip("_")
    run.__doc__ = function.__doc__
    run.into = into  # type: ignore[attr-defined]
    run.plain = function  # type: ignore[attr-defined]
    return run


# NumPy takes longer to convert a Python number than to add it to a small array.
_ONE = {np.dtype(code): np.ones((), code) for code in "efdFD"}


_FLOAT = np.dtype(np.float32)


def _in_float64(ufunc: np.ufunc) -> Callable[..., Any]:
    """A ufunc, of float32 computed in float64 and rounded once: NumPy's own loops for float32 are
    off by up to four units in the last place on some machines."""

    def one(x: Any) -> Any:
        return ufunc(x, dtype=np.float64) if x.dtype is _FLOAT else ufunc(x)

    def two(a: Any, b: Any) -> Any:
        kind = _kind(a, b)
        if kind is not _FLOAT:
            return ufunc(a, b)
        a, b = (x if type(x) in ARRAYS else kind.type(x) for x in (a, b))
        return ufunc(a, b, dtype=np.float64)

    function = one if ufunc.nin == 1 else two
    function.__name__ = ufunc.__name__
    function.__doc__ = f"NumPy's {ufunc.__name__}; of float32 rounded once."
    return _blocked(function)


# ---- one argument ----

arcsin, cosh, log2, log10, tan = (
    _in_float64(ufunc) for ufunc in (np.arcsin, np.cosh, np.log2, np.log10, np.tan)
)
_DEGREE = np.float32(math.pi / 180)  # which rounding moves less than its inverse


def rad2deg(x: Array) -> Array:
    """180 x / pi."""
    return np.divide(x, _DEGREE) if x.dtype is _FLOAT else np.rad2deg(x)


def on_floats(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rounding function, which leaves integers as they are."""
    return lambda x: function(x) if x.dtype.kind in "fc" else x.copy()


def sign(x: Array) -> Array:
    """-1, 0 or 1; 0 for NaN."""
    out = np.sign(x) if x.dtype.kind != "b" else x.copy()
    return np.nan_to_num(out) if x.dtype.kind == "f" else out


def conj_physical(x: Array) -> Array:
    """The conjugate, as a new array."""
    return np.conjugate(x) if x.dtype.kind == "c" else x.copy()


def sgn(x: Array) -> Array:
    """x / |x|, and 0 for 0."""
    if x.dtype.kind != "c":
        return sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size)).astype(x.dtype, copy=False)


def signbit(x: Array) -> Array:
    """Whether the sign bit is set."""
    return np.signbit(x) if x.dtype.kind == "f" else np.less(x, 0)


@_blocked
def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    y = np.sqrt(x)
    return np.divide(_ONE[x.dtype], y, out=y)


@_blocked
def log1p(x: Any) -> Any:
    """log(1 + x); NumPy's loses the real part of small complex numbers."""
    if getattr(x, "dtype", None) is None or x.dtype.kind != "c":
        return loops.log1p(x)
    re, im = x.real, x.imag
    r = re * (2 + re) + im * im
    small = np.where(r == 0, re, 0.5 * np.log1p(r))
    near = np.hypot(re, im) < 0.5
    out = np.empty_like(x)
    out.real = np.where(near, small, np.log(np.hypot(re + 1, im)))
    out.imag = np.arctan2(im, re + 1)
    return out


def exp2(x: Array) -> Array:
    """2 to the power of x."""
    if x.dtype.kind != "c":
        return np.exp2(x) if x.dtype.kind == "f" else np.exp(x * math.log(2))
    scaled = np.empty_like(x)  # part by part: a complex factor would make NaN of infinities
    scaled.real, scaled.imag = x.real * math.log(2), x.imag * math.log(2)
    return np.exp(scaled)


def reciprocal(x: Array) -> Array:
    """1 / x; NumPy's own of complex numbers divides otherwise than its division."""
    return np.reciprocal(x) if x.dtype.kind != "c" else np.true_divide(np.ones_like(x), x)


def zero_where(x: Array, drop: Array) -> Array:
    """x, but 0 where `drop` is set: by bits, six times as fast as np.where."""
    bits = np.dtype(f"i{x.itemsize}")
    keep = np.subtract(drop.view(np.int8), 1, dtype=np.int8).astype(bits)  # all ones, or none
    if x.shape != drop.shape:
        return np.where(drop, x.dtype.type(0), x)
    keep &= np.ascontiguousarray(x).view(bits)
    return keep.view(x.dtype)


@_blocked
def sigmoid(x: Array, out: Array | None = None) -> Array:
    """1 / (1 + exp(-x))."""
    if x.dtype == np.float32:
        return loops.sigmoid(x, out=out)
    one = _ONE[x.dtype]
    y = np.negative(x, out=out)
    np.exp(y, out=y)
    np.add(y, one, out=y)
    return np.divide(one, y, out=y)


@_blocked
def logsigmoid(x: Array) -> Array:
    """log(sigmoid(x)), without overflow."""
    y = np.abs(x)
    np.negative(y, out=y)
    return np.minimum(x, 0) - loops.log1p(loops.exp(y, out=y), out=y)


@_blocked
def sinc(x: Array) -> Array:
    """sin(pi x) / (pi x), and 1 at 0."""
    zero = x == 0
    y = x * x.dtype.type(math.pi)
    y[zero] = 1
    y = np.sin(y) / y
    y[zero] = 1
    return y


def frac(x: Array) -> Array:
    """What follows the point."""
    return np.zeros_like(x) if x.dtype.kind in "biu" else x - np.trunc(x)


def angle(x: Array) -> Array:
    """The argument of a complex number; of a real one, 0 or pi."""
    if x.dtype.kind == "c":
        return np.arctan2(x.imag, x.real)
    kind = x.dtype if x.dtype.kind == "f" else np.dtype(np.float32)
    out = np.where(x < 0, kind.type(math.pi), kind.type(0))
    return np.where(np.isnan(x), kind.type(math.nan), out) if x.dtype.kind == "f" else out


def nan_to_num(x: Array, nan: float, posinf: float, neginf: float) -> Array:
    """x with numbers for NaN and the infinities."""
    if x.dtype.kind == "c":
        out = np.empty_like(x)
        out.real = nan_to_num(x.real, nan, posinf, neginf)
        out.imag = nan_to_num(x.imag, nan, posinf, neginf)
        return out
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def logit(x: Array, eps: float | None = None) -> Array:
    """log(x / (1 - x)); eps: x is clamped to [eps, 1 - eps] before."""

    def compute(x: Array) -> Array:
        y = x if eps is None else np.clip(x, x.dtype.type(eps), 1 - x.dtype.type(eps))
        return loops.log(y / (1 - y))

    return mapped(compute, x.dtype, x)


# ---- activations and their gradients ----

_INV_SQRT2 = 1 / math.sqrt(2)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
_KAPPA = math.sqrt(2 / math.pi)


def _cdf(x: Array) -> Array:
    """The normal distribution function."""
    if x.dtype == np.float32:
        return loops.normal(x)
    y = erf64(x * _INV_SQRT2)
    y += 1
    y *= 0.5
    return y


def relu(x: Array, out: Array | None = None) -> Array:
    """max(x, 0)."""
    if _is_float(x):
        return x.clip(0, math.inf, out=out)  # faster than np.maximum with a number
    return np.maximum(x, 0, out=out)


relu.into = relu  # type: ignore[attr-defined]


def relu_backward(g: Array, y: Array) -> Array:
    """The gradient of relu, whose result was y."""
    return zero_where(g, y <= 0)


relu_backward.plain = lambda g, y: np.where(y <= 0, 0, g)  # type: ignore[attr-defined]


@_blocked
def gelu(x: Array, out: Array | None = None) -> Array:
    """x times the normal distribution function."""
    return np.multiply(_cdf(x), x, out=out)  # -0 far below 0


def _gelu_slope(g: Array, x: Array, cdf: Array) -> Array:
    y = x * x
    y *= -0.5
    loops.exp(y, out=y)
    y *= x
    y *= _INV_SQRT_2PI
    y += cdf
    y *= g
    return y


@_blocked
def gelu_backward(g: Array, x: Array) -> Array:
    """The gradient of gelu."""
    return _gelu_slope(g, x, _cdf(x))


@_blocked
def gelu_backward_of(g: Array, x: Array, result: Array) -> Array:
    """The gradient of gelu, whose distribution function is result / x."""
    tiny = x.dtype.type(1e-30)  # the quotient at 0 is 1 / 2
    cdf = result + tiny * x.dtype.type(0.5)
    cdf /= x + tiny
    return _gelu_slope(g, x, repaired(cdf, _cdf, x))


def _gelu_inner(x: Array) -> Array:
    y = x * x
    y *= 0.044715
    y += 1
    y *= x
    y *= _KAPPA
    return loops.tanh(y, out=y)


@_blocked
def gelu_tanh(x: Array) -> Array:
    """gelu, its distribution function by tanh."""
    y = _gelu_inner(x)
    y += 1
    y *= 0.5
    y *= x
    return y


@_blocked
def gelu_tanh_backward(g: Array, x: Array) -> Array:
    """The gradient of gelu_tanh."""
    t = _gelu_inner(x)
    slope = x * x
    slope *= 3 * 0.044715
    slope += 1
    slope *= x
    slope *= _KAPPA
    slope *= 1 - t * t
    slope += t
    slope += 1
    slope *= 0.5
    slope *= g
    return slope


@_blocked
def silu(x: Array, out: Array | None = None) -> Array:
    """x * sigmoid(x); of float64 x / (1 + exp(-x)), which rounds less often."""
    if x.dtype == np.float64:
        y = np.negative(x)
        np.exp(y, out=y)
        np.add(y, _ONE[x.dtype], out=y)
        return np.divide(x, y, out=out)
    return np.multiply(sigmoid(x), x, out=out)


@_blocked
def log_sigmoid(x: Array) -> Array:
    """log(sigmoid(x))."""
    y = np.abs(x)
    np.negative(y, out=y)
    loops.exp(y, out=y)
    loops.log1p(y, out=y)
    return np.subtract(np.minimum(x, 0), y, out=y)


@_blocked
def silu_backward(g: Array, x: Array) -> Array:
    """The gradient of silu."""
    s = sigmoid(x)
    y = 1 - s
    y *= x
    y += 1
    y *= s
    y *= g
    return y


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """log(1 + exp(beta x)) / beta, and x where beta x passes the threshold."""

    def compute(x: Array) -> Array:
        y = x * x.dtype.type(beta)
        linear = y > threshold
        loops.exp(y, out=y)
        loops.log1p(y, out=y)
        y /= x.dtype.type(beta)
        np.copyto(y, x, where=linear)
        return y

    return mapped(compute, x.dtype, x)


# ---- two arguments ----


def _integers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A division, which refuses the integer 0."""

    def divide(a: Any, b: Any) -> Any:
        if _kind(a, b).kind in "biu" and np.any(np.equal(b, 0)) and np.size(a):
            raise RuntimeError("ZeroDivisionError")
        return function(a, b)

    divide.__name__ = divide.__qualname__ = function.__name__
    divide.__doc__ = function.__doc__
    divide.raises = True  # type: ignore[attr-defined]
    return divide


@_integers
def floor_divide(a: Any, b: Any) -> Any:
    """The quotient, rounded down."""
    return mapped(np.floor_divide, _kind(a, b), a, b)


@_integers
def trunc_divide(a: Any, b: Any) -> Any:
    """The quotient, rounded towards 0."""
    if _kind(a, b).kind == "f":
        out = np.true_divide(a, b)
        return np.trunc(out, out=out) if type(out) in ARRAYS else np.trunc(out)
    out, rest = np.divmod(a, b)
    return out + ((rest != 0) & (np.less(a, 0) != np.less(b, 0))).astype(out.dtype)


@_integers
def remainder(a: Any, b: Any) -> Any:
    """The rest of the division that rounds down: it has b's sign, or is a zero with a's."""
    if _kind(a, b).kind != "f":
        return np.remainder(a, b)
    return mapped(_float_remainder, _kind(a, b), a, b)


def _float_remainder(a: Any, b: Any) -> Any:
    rest = np.fmod(a, b)
    crosses = (rest != 0) & ((rest < 0) != np.less(b, 0))
    return np.add(rest, b, out=rest, where=crosses)


@_integers
def fmod(a: Any, b: Any) -> Any:
    """The rest of the division that rounds towards 0: it has a's sign."""
    return mapped(np.fmod, _kind(a, b), a, b)


def _complex_power(a: Any, b: Any) -> Any:
    """Powers of 0 are those of C: exp(b log 0), where NumPy has values of its own."""
    out = np.asarray(np.power(a, b))
    zero = np.broadcast_to(np.equal(a, 0), out.shape)
    if zero.any():
        log = np.log(np.zeros((), out.dtype))
        out[zero] = np.exp(np.broadcast_to(np.asarray(b, out.dtype), out.shape)[zero] * log)
    return out


def _power_of(a: Any, b: float) -> Any:
    """Floats to the power of a number, which is not rounded to their type: in float64 if it would
    be."""
    rounded = a.dtype.type(b)
    if a.dtype is _FLOAT and float(rounded) != b and abs(b) < np.inf:
        return np.power(a, np.float64(b), dtype=np.float64).astype(_FLOAT)
    return np.power(a, rounded)


def pow(a: Any, b: Any) -> Any:
    """a to the power of b; integers to a negative power are what an integer division leaves."""
    kind = _kind(a, b)
    if kind.kind == "f" and type(b) in (float, int) and a.size <= BLOCK:
        power = _POWERS.get(b)
        return power(a) if power is not None else _power_of(a, b)
    if kind.kind in "iu" and np.any(np.less(b, 0)):
        negative = np.less(b, 0)
        odd = np.not_equal(np.bitwise_and(b, 1), 0)
        left = np.where(np.equal(a, 1), 1, np.where(np.equal(a, -1), np.where(odd, -1, 1), 0))
        return np.where(negative, left, np.power(a, np.maximum(b, 0))).astype(kind)
    if kind.kind in "fc" and type(b) not in ARRAYS and isinstance(b, (int, float)):
        power = _POWERS.get(float(b))
        if power is not None:
            return mapped(power, kind, a)
    if kind.kind == "f" and type(b) in (float, int):
        return mapped(lambda x: _power_of(x, b), kind, a)
    if kind.kind == "f" and type(b) not in ARRAYS:
        b = kind.type(b)  # rounded, not by way of a wider type
    if kind.kind == "c" and type(b) not in ARRAYS and b == 0:
        return np.ones(a.shape, kind)
    function: Any = _complex_power if kind.kind == "c" else np.power
    if max(getattr(a, "size", 1), getattr(b, "size", 1)) > 1 << 15:
        return mapped(function, kind, a, b)
    return function(a, b)


_POWERS: dict[float, Callable[[Array], Array]] = {
    0.5: np.sqrt,
    1.0: np.positive,
    2.0: np.square,
    3.0: lambda x: x * x * x,
    -0.5: lambda x: 1 / np.sqrt(x),
    -1.0: lambda x: 1 / x,
    -2.0: lambda x: 1 / (x * x),
}


def _logaddexp_complex(a: Any, b: Any) -> Any:
    swap = np.real(a) < np.real(b)
    low, high = np.where(swap, a, b), np.where(swap, b, a)
    same = np.isneginf(np.real(high))  # both are log(0)
    difference = np.where(same, 0, low - high)
    return np.where(same, high, high + np.log1p(np.exp(difference)))


def logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)), without overflow."""
    kind = _kind(a, b)
    return mapped(_logaddexp_complex if kind.kind == "c" else np.logaddexp, kind, a, b)


arctan2, logaddexp2 = _in_float64(np.arctan2), _in_float64(np.logaddexp2)
gcd, lcm = np.gcd, np.lcm


def nextafter(a: Any, b: Any) -> Any:
    """The number next to a towards b."""
    out = np.nextafter(a, b)
    if out.dtype == np.float16:  # NumPy keeps the sign of a zero there
        out = np.where(np.equal(a, b), b, out)
    return out


def heaviside(a: Any, b: Any) -> Any:
    """b at 0, then 1, before it 0."""
    kind = _kind(a, b)
    return np.where(np.equal(a, 0), b, np.greater(a, 0)).astype(kind, copy=False)


@_blocked
def xlogy(a: Any, b: Any) -> Any:
    """a log(b), and 0 where a is 0."""
    return np.where(np.equal(a, 0) & ~np.isnan(b), 0, a * loops.log(b))


@_blocked
def xlog1py(a: Any, b: Any) -> Any:
    """a log(1 + b), and 0 where a is 0."""
    return np.where(np.equal(a, 0) & ~np.isnan(b), 0, a * loops.log1p(b))


def entr(x: Array) -> Array:
    """-x log(x), 0 at 0, -inf below."""
    safe = np.where(x > 0, x, 1)
    return np.where(x > 0, -x * loops.log(safe), np.where(x == 0, 0, np.where(x < 0, -np.inf, x)))


def frexp(x: Array) -> tuple[Array, Array]:
    """x = mantissa 2^exponent, 0.5 <= |mantissa| < 1; infinities and NaN have the exponent 0."""
    mantissa, exponent = np.frexp(widen(x))
    exponent = np.where(np.isfinite(x), exponent, 0).astype(np.int32)
    return like(mantissa, x), exponent


# ---- three arguments ----


@_blocked
def lerp(a: Any, b: Any, w: Any, out: Array | None = None) -> Any:
    """a + w (b - a), exact at both ends."""
    span = np.subtract(b, a, out=out)
    if type(w) not in ARRAYS and type(span) in ARRAYS:
        if abs(w) < 0.5:
            span *= w
            return np.add(span, a, out=span)  # a row of arithmetic: Note [Accumulator]
        span *= 1 - w
        return np.subtract(b, span, out=span)
    return np.where(np.abs(w) < 0.5, a + w * span, b - span * (1 - w))


@_blocked
def addcmul(x: Any, a: Any, b: Any, value: Any) -> Any:
    """x + value * a * b."""
    if _is_one(value):
        return _added(x, a * b)
    new = value * a
    if type(new) in ARRAYS and new.shape == getattr(b, "shape", ()) and new.dtype == b.dtype:
        new *= b
        return _added(x, new)
    return _added(x, new * b)


@_blocked
def addcdiv(x: Any, a: Any, b: Any, value: Any) -> Any:
    """x + value * a / b."""
    return _added(x, a / b if _is_one(value) else value * a / b)


@functools.lru_cache(256)
def _factor(kind: Any, factor: float) -> Array:
    """A number as an array, which NumPy multiplies by sooner."""
    found = np.array(factor, kind)
    found.setflags(write=False)
    return found


_SCALED = 4096  # elements from which one pass over memory saves more than it costs to be called


@by_steps
def add_scaled_(x: Array, y: Array, factor: float) -> None:
    """x += factor y, of two arrays of one shape and dtype, of floats."""
    if x.size >= _SCALED and x.flags.c_contiguous and y.flags.c_contiguous:
        if x is y or not np.may_share_memory(x, y):
            loops.add_scaled(x, y, factor, x.dtype.char)
            return
    scale = _factor(x.dtype, factor) if factor else x.dtype.type(factor)  # zeros have signs
    add(x, _multiply(y, scale), out=x)


def _added(x: Any, new: Any) -> Any:
    """x + new, in new's memory if it is an array."""
    return np.add(x, new, out=new) if type(new) in ARRAYS else x + new


def _is_one(value: Any) -> bool:
    return type(value) not in ARRAYS and value == 1


def clamp(x: Any, low: Any, high: Any, out: Array | None = None) -> Any:
    """Each element, at least low and at most high, which wins; NaN stays, in bounds too."""
    if _is_float(x) and _is_number(low) and _is_number(high):
        return x.clip(low, high, out=out)  # several times as fast
    return np.minimum(np.maximum(x, low), high, out=out)


clamp.into = clamp  # type: ignore[attr-defined]


def clamp_min(x: Any, low: Any) -> Any:
    """Each element, at least low."""
    return x.clip(low, math.inf) if _is_float(x) and _is_number(low) else np.maximum(x, low)


def clamp_max(x: Any, high: Any) -> Any:
    """Each element, at most high."""
    return x.clip(-math.inf, high) if _is_float(x) and _is_number(high) else np.minimum(x, high)


def _is_float(x: Any) -> bool:
    return type(x) in ARRAYS and x.ndim > 0 and x.dtype.kind == "f"


def _is_number(x: Any) -> bool:
    return type(x) not in ARRAYS and x == x


# ---- choices ----


def where(mask: Array, a: Any, b: Any) -> Array:
    """a where mask is set, else b."""
    kind = _kind(a, b)
    if mask.size < 256 or kind.itemsize not in (1, 2, 4, 8):
        return np.where(mask, a, b)
    return mapped(_pick, kind, mask, a, b)


where.plain = lambda mask, a, b: np.where(mask, a, b)  # type: ignore[attr-defined]


def _pick(mask: Array, a: Any, b: Any) -> Array:
    """By bits: np.where misses a branch for every other element of a random mask."""
    kind = _kind(a, b)
    bits = np.dtype(f"i{kind.itemsize}")
    first, second = (
        x.view(bits) if type(x) is np.ndarray else kind.type(x).view(bits) for x in (a, b)
    )
    chosen = np.negative(mask.view(np.int8)).astype(bits, copy=False)  # all ones, or none
    chosen &= first ^ second
    chosen ^= second
    return chosen.view(kind)


__all__ = [
    "addcdiv", "addcmul", "airy_ai", "angle", "bessel_j0", "bessel_j1", "bessel_y0",
    "bessel_y1", "clamp", "clamp_max", "clamp_min", "digamma", "entr", "erf", "erfc", "erfcx",
    "erfinv", "exp2", "floor_divide", "fmod", "frac", "frexp", "gcd", "gelu", "gelu_backward",
    "gelu_tanh", "gelu_tanh_backward", "heaviside", "i0", "i0e", "i1", "i1e", "igamma",
    "igammac", "lcm", "lerp", "lgamma", "log_ndtr", "logaddexp", "logaddexp2", "logit",
    "logsigmoid", "modified_bessel_k0", "modified_bessel_k1", "nan_to_num", "ndtri",
    "nextafter", "on_floats", "polygamma", "pow", "reciprocal", "relu", "relu_backward",
    "remainder", "rsqrt", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sgn",
    "sigmoid", "sign",
    "signbit", "silu", "silu_backward", "sinc", "softplus", "spherical_bessel_j0",
    "trunc_divide", "where", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
