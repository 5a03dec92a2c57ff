"""Special functions that NumPy lacks, by polynomials fitted to 40 digits (Chebyshev nodes).

All compute in float64 and round once, but erf of float32, which has a fit of its own: gelu waits
for it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.cpu.threads import mapped

Array = np.ndarray[Any, Any]
Coefficients = tuple[float, ...]

# erf(x) / x in x^2, for |x| <= 1
_ERF: Coefficients = (
    1.1283791670955126,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
)
# exp(x^2) erfc(x) (1 + 2 x) in (x - 3.75) / (x + 3.75), for x >= 0
_ERFC: Coefficients = (
    1.2375126308378275,
    -0.14024059858554702,
    0.0035854154854644583,
    0.08227673849015109,
    -0.10880393014175024,
    0.09230432116019638,
    -0.05869339858961116,
    0.02836227742154398,
    -0.009746579558275152,
    0.0017556258321915355,
    0.0002937136669846131,
    -0.0002901539781378384,
    5.1649093885821704e-05,
    2.238390827660038e-05,
    -1.1444134389658475e-05,
    -9.728413451815077e-07,
    1.7516189406943677e-06,
    -5.827501862768691e-08,
    -2.586489910718322e-07,
    2.4301839484503084e-08,
    3.866242066283792e-08,
    -4.396921916762906e-09,
    -5.169080644815932e-09,
    5.485084520083625e-10,
    4.2433038251096756e-10,
    -3.7980647235900285e-11,
)
# atanh(erf(x)) / x, of x^2 up to 16
_ERF32 = (1.1283792, 0.10277045, -1.9827159e-04, -6.0948008e-04, 8.0208061e-05, -2.9596602e-06,
          -3.7890683e-07, 5.1956313e-08, -2.4583986e-09, 4.2571193e-11)  # fmt: skip
# lgamma(x) / ((x - 1) (x - 2)) in (x - 1) / (x + 1), for 0.5 <= x <= 2.5
_LGAMMA: Coefficients = (
    0.5772156649015329,
    -0.49050273704516073,
    0.13123432641064336,
    -0.16820095064421894,
    0.08701556722776013,
    -0.10147337757861123,
    0.06462417140464521,
    -0.07249649301072318,
    0.05135998862197384,
    -0.05633659249789285,
    0.042606400066904686,
    -0.04604428620135313,
    0.03640103920818364,
    -0.03892308894124509,
    0.031768079098684246,
    -0.03366331864094725,
    0.028207202681329993,
    -0.030076788467946765,
    0.02550897830679489,
    -0.024438767640257476,
    0.020247550225481623,
    -0.029886807876443794,
    0.0344486437941167,
    -0.021578539613142586,
)
# exp(-x) I0(x) in x / 4 - 1, x <= 8; sqrt(x) exp(-x) I0(x) in 16 / x - 1 above; I1 / x and I1 alike
_I0_NEAR: Coefficients = (
    0.2070019212239867,
    -0.11300432688620549,
    0.09451562853995103,
    -0.08904344136075991,
    0.08734341617552291,
    -0.08496338091615124,
    0.07927522590716898,
    -0.06954119561742342,
    0.056777032019843215,
    -0.04298594945226738,
    0.03017791202356886,
    -0.019682654708082413,
    0.011960077903963348,
    -0.006792399792271578,
    0.0036171264596770616,
    -0.0018118870527295522,
    0.0008563152483951447,
    -0.0003829015089457559,
    0.0001624054672701359,
    -6.550956130635514e-05,
    2.5202271984440893e-05,
    -9.25059710625537e-06,
    3.2293850630678377e-06,
    -1.0891964284507317e-06,
    3.675592893288293e-07,
    -1.1339523685907105e-07,
    2.6273368345256394e-08,
    -7.860369707508212e-09,
    4.469372581856615e-09,
    -1.1662904878442954e-09,
)
_I0_FAR: Coefficients = (
    0.4021765094450081,
    0.003360551983667854,
    0.00013621607439232746,
    1.1143033791556743e-05,
    1.4838475473607391e-06,
    2.973598432479169e-07,
    8.87225351128584e-08,
    3.932602459703109e-08,
    2.1545177650836005e-08,
    7.553516470355896e-09,
    -6.729724111923548e-09,
    -1.3404241991980871e-08,
    -5.4685974495866e-09,
    7.540601378890834e-09,
    7.58022133915272e-09,
    -3.4857887470034955e-09,
    -6.188265090497361e-09,
    1.497880830187091e-09,
    3.881151253996067e-09,
    -5.562201990080394e-10,
    -1.7789375042917173e-09,
    1.4672236659214398e-10,
    5.181936971288284e-10,
    -1.9216763724933513e-11,
    -7.06893851181878e-11,
)
_I1_NEAR: Coefficients = (
    0.044687709875608835,
    -0.06112433802966629,
    0.0680575999095116,
    -0.0684826062058255,
    0.0637674037134072,
    -0.05528003922705058,
    0.044674572621255064,
    -0.03367135551994034,
    0.023686016957724227,
    -0.01557130925657511,
    0.00958396215077406,
    -0.005534567760544582,
    0.003005762419557192,
    -0.0015388749636515487,
    0.000744512345281566,
    -0.0003411747437353928,
    0.00014842124144631648,
    -6.142651349494123e-05,
    2.4233756432468166e-05,
    -9.131846315273642e-06,
    3.2938951625746042e-06,
    -1.1380759138279984e-06,
    3.759400376008922e-07,
    -1.2000364861910367e-07,
    3.8028049651067336e-08,
    -1.1191257727176943e-08,
    2.6037822441041467e-09,
    -7.379291130374042e-10,
    3.727630409237771e-10,
    -9.365751909742237e-11,
)
_I1_FAR: Coefficients = (
    0.38939845902587233,
    -0.009749577193235728,
    -0.00021923576383430274,
    -1.5038547201176271e-05,
    -1.8349101134666435e-06,
    -3.483855609009937e-07,
    -1.0001323461066435e-07,
    -4.312935369971356e-08,
    -2.337059627111857e-08,
    -8.426622829598154e-09,
    6.715795128085017e-09,
    1.4029693589852716e-08,
    6.040877342160988e-09,
    -7.630751970065577e-09,
    -8.044231276166508e-09,
    3.406636130196794e-09,
    6.4870195719816896e-09,
    -1.4171698018664596e-09,
    -4.047785403711858e-09,
    5.146498826087142e-10,
    1.8513716745511988e-09,
    -1.342266320082222e-10,
    -5.388285995923524e-10,
    1.7502497778701306e-11,
    7.347992441734663e-11,
)


def _polynomial(coefficients: Coefficients, x: Array) -> Array:
    """Horner's scheme, in place."""
    total = x * x.dtype.type(coefficients[-1])
    for c in coefficients[-2:0:-1]:
        total += x.dtype.type(c)
        total *= x
    total += x.dtype.type(coefficients[0])
    return total


def _in_double(function: Any, x: Array) -> Array:
    """A function of float64, of floats."""
    if x.dtype == np.float64:
        return mapped(function, np.float64, x)
    return mapped(lambda part: function(part.astype(np.float64)), x.dtype, x)


# ---- the error function ----


def erf32(x: Array) -> Array:
    """erf of a float32 block, within 3 units in the last place: NumPy's tanh is fast."""
    square = x * x
    np.clip(square, 0, 16, out=square)  # beyond, erf is 1
    y = _polynomial(_ERF32, square)
    y *= x
    return np.tanh(y, out=y)


def _erfc_positive(x: Array, scaled: bool = False) -> Array:
    """erfc(x), x >= 0; scaled: times exp(x^2)."""
    q = (x - 3.75) / (x + 3.75)
    q[np.isposinf(x)] = 1
    tail = _polynomial(_ERFC, q) / (1 + 2 * x)
    if scaled:
        return tail
    # x^2 = high^2 + (x - high) (x + high), the first exact: its rounding would be magnified.
    x = np.minimum(x, 30)
    high = x.astype(np.float32).astype(np.float64)
    tail *= np.exp(-high * high)
    tail *= np.exp((high - x) * (high + x))
    return tail


def erf64(x: Array) -> Array:
    """erf of a float64 block."""
    size = np.abs(x)
    near = np.minimum(size, 1)
    out = near * _polynomial(_ERF, near * near)
    far = size > 1
    if far.any():
        out[far] = 1 - _erfc_positive(size[far])
    return np.copysign(out, x, out=out)


def erfc64(x: Array) -> Array:
    """erfc of a float64 block."""
    out = 1 - erf64(x)
    far = x > 0.5
    if far.any():
        out[far] = _erfc_positive(x[far])
    return out


def erf(x: Array) -> Array:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    if x.dtype == np.float32:
        return mapped(erf32, np.float32, x)
    return _in_double(erf64, x)


def erfc(x: Array) -> Array:
    """1 - erf(x), accurate where that is small."""
    return _in_double(erfc64, x)


def erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x)."""

    def compute(x: Array) -> Array:
        out = _erfc_positive(np.abs(x), scaled=True)
        low = x < 0
        if low.any():
            y = x[low]
            out[low] = 2 * np.exp(y * y) - out[low]
        return out

    return _in_double(compute, x)


def _erfinv64(y: Array) -> Array:
    """A closed guess, then two steps of Halley's method."""
    size = np.abs(y)
    rest = 1 - size  # exact from 0.5 on
    log = np.log(np.maximum(rest * (1 + size), 1e-300))
    a = 2 / (math.pi * 0.147) + log / 2
    x = np.sqrt(np.maximum(np.sqrt(a * a - log / 0.147) - a, 0))
    for _ in range(2):
        error = np.where(size > 0.5, rest - erfc64(x), erf64(x) - size)
        step = error * np.exp(x * x) * (math.sqrt(math.pi) / 2)
        x -= step / (1 + x * step)
    x[size == 1] = np.inf
    x[size > 1] = np.nan
    return np.copysign(x, y)


def erfinv(x: Array) -> Array:
    """The y with erf(y) = x."""
    return _in_double(_erfinv64, x)


def ndtri(x: Array) -> Array:
    """The quantile of the standard normal distribution."""

    def compute(p: Array) -> Array:
        # Below one half by erfc alone, which stays accurate where 2 p - 1 would round to -1.
        out = _erfinv64(2 * p - 1) * math.sqrt(2)
        small = (p > 0) & (p < 0.02)
        if small.any():
            q = p[small]
            t = np.sqrt(-2 * np.log(q))
            z = t - np.log(t * math.sqrt(2 * math.pi)) / t
            for _ in range(6):  # Newton on log(erfc), nearly linear there
                tail = _erfc_positive(z / math.sqrt(2), scaled=True) / 2
                z += (np.log(tail) - z * z / 2 - np.log(q)) * tail * math.sqrt(2 * math.pi)
            out[small] = -z
        return out

    return _in_double(compute, x)


def log_ndtr(x: Array) -> Array:
    """The logarithm of the standard normal distribution function."""

    def compute(x: Array) -> Array:
        t = x / math.sqrt(2)
        out = np.log1p(-erfc64(t) / 2)
        low = x < 1
        if low.any():
            y = t[low]
            scaled = _erfc_positive(np.abs(y), scaled=True)
            below = np.log(scaled / 2) - y * y
            out[low] = np.where(y < 0, below, np.log(erfc64(-y) / 2))
        return out

    return _in_double(compute, x)


# ---- the gamma function ----


def _sin_pi(x: Array) -> Array:
    """sin(pi x), exactly 0 at integers."""
    r = x - 2 * np.rint(x / 2)  # in [-1, 1]
    r = np.where(np.abs(r) > 0.5, np.copysign(1, r) - r, r)
    return np.sin(math.pi * r)


_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)


def _lgamma_positive(x: Array) -> Array:
    low = np.maximum(x, 1e-308)
    base, factor = low.copy(), np.ones_like(low)
    small = low < 0.5
    base[small] += 1
    for _ in range(6):
        high = (base > 2.5) & (low < 8.5)
        if not high.any():
            break
        base[high] -= 1
        factor[high] *= base[high]
    near = np.minimum(base, 2.5)
    out = (near - 1) * (near - 2) * _polynomial(_LGAMMA, (near - 1) / (near + 1))
    out += np.log(factor)
    out[small] -= np.log(low[small])
    large = x >= 8.5
    if large.any():
        y = x[large]
        inverse = 1 / y
        out[large] = (
            (y - 0.5) * (np.log(y) - 1)
            + (0.5 * math.log(2 * math.pi) - 0.5)
            + inverse * (_polynomial(_STIRLING, inverse * inverse))
        )
        out[np.isposinf(x)] = np.inf
    return out


def _lgamma64(x: Array) -> Array:
    out = _lgamma_positive(np.abs(x))
    low = x <= 0
    if low.any():
        y = x[low]
        sine = np.abs(_sin_pi(y))
        reflected = math.log(math.pi) - np.log(sine * np.abs(y)) - out[low]
        out[low] = np.where(sine == 0, np.inf, reflected)
        out[np.isneginf(x)] = np.inf
    out[np.isnan(x)] = np.nan
    return out


def lgamma(x: Array) -> Array:
    """log |gamma(x)|."""
    return _in_double(_lgamma64, x)


_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12, 3617 / 8160)


def _digamma64(x: Array) -> Array:
    low = x <= 0
    y = np.where(low, 1 - x, x)
    out = np.zeros_like(x)
    for _ in range(10):
        small = y < 10
        if not small.any():
            break
        out[small] -= 1 / y[small]
        y[small] += 1
    inverse = 1 / y
    square = inverse * inverse
    out += np.log(y) - 0.5 * inverse + square * _polynomial(_DIGAMMA, square)
    if low.any():
        z = x[low]
        r = z - np.rint(z)
        value = out[low] - math.pi / np.tan(math.pi * r)
        value[r == 0] = np.nan
        value[z == 0] = np.copysign(np.inf, -z[z == 0])
        out[low] = value
    out[np.isposinf(x)] = np.inf
    return out


def digamma(x: Array) -> Array:
    """The derivative of lgamma."""
    return _in_double(_digamma64, x)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def _zeta64(s: Array, q: Array) -> Array:
    """Euler and Maclaurin's sum: terms up to q + 12, then the integral and its corrections."""
    s, q = np.broadcast_arrays(s, q)
    out = np.zeros(q.shape)
    for k in range(12):
        out += np.power(q + k, -s)
    a = q + 12
    power = np.power(a, -s)
    out += power * a / (s - 1) + 0.5 * power
    rising, scale = s / a, power
    factorial = 2.0
    for k, b in enumerate(_BERNOULLI, start=1):
        out += b / factorial * rising * scale
        rising = rising * (s + 2 * k - 1) * (s + 2 * k) / (a * a)
        factorial *= (2 * k + 1) * (2 * k + 2)
    out = np.where(s == 1, np.inf, np.where(s < 1, np.nan, out))
    pole = (q <= 0) & (q == np.floor(q))
    undefined = (q < 0) & (s != np.floor(s))
    return np.where(pole, np.inf, np.where(undefined, np.nan, out))


def zeta(x: Array, q: Array) -> Array:
    """The Hurwitz zeta function, sum over k of (k + q)^-x."""
    kind = np.result_type(x, q)
    wide = lambda v: np.asarray(v, np.float64)
    return mapped(lambda a, b: _zeta64(wide(a), wide(b)), kind, np.asarray(x), np.asarray(q))


def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    factor = (-1) ** (n + 1) * math.factorial(n)

    def compute(x: Array) -> Array:
        if n != 1:
            return factor * _zeta64(np.float64(n + 1), x)  # type: ignore[arg-type]
        # Reflection: the sum would need as many terms as x is negative.
        low = x < 0
        out = _zeta64(np.float64(2), np.where(low, 1 - x, x))  # type: ignore[arg-type]
        return np.where(low, (math.pi / _sin_pi(x)) ** 2 - out, out)

    return _in_double(compute, x)


# ---- Bessel functions ----


def _bessel(near: Coefficients, far: Coefficients, odd: bool, scaled: bool) -> Any:
    def compute(x: Array) -> Array:
        size = np.abs(x)
        inside = np.minimum(size, 8)
        out = _polynomial(near, inside / 4 - 1)
        if odd:
            out *= inside
        large = size > 8
        if large.any():
            y = size[large]
            out[large] = _polynomial(far, 16 / y - 1) / np.sqrt(y)
        if not scaled:
            # Half the exponent at a time: exp(x) overflows before the product does.
            half = np.exp(size / 2)
            out *= half
            out *= half
            out[np.isinf(size)] = np.inf
        out[np.isnan(x)] = np.nan
        return np.copysign(out, x, out=out) if odd else out

    return compute


def i0(x: Array) -> Array:
    """The modified Bessel function of the first kind, order 0."""
    return _in_double(_bessel(_I0_NEAR, _I0_FAR, False, False), x)


def i0e(x: Array) -> Array:
    """exp(-|x|) i0(x)."""
    return _in_double(_bessel(_I0_NEAR, _I0_FAR, False, True), x)


def i1(x: Array) -> Array:
    """The modified Bessel function of the first kind, order 1."""
    return _in_double(_bessel(_I1_NEAR, _I1_FAR, True, False), x)


def i1e(x: Array) -> Array:
    """exp(-|x|) i1(x)."""
    return _in_double(_bessel(_I1_NEAR, _I1_FAR, True, True), x)
