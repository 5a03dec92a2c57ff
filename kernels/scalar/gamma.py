"""The incomplete gamma functions, Hurwitz' zeta, polygamma, implicit gradients; in float64."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from . import fits
from .elementary import expm1, like, log1p, negated
from .special import digamma, erfc, lgamma

TEMME = tl.constexpr(fits.counted(fits.TEMME))
STEPS = tl.constexpr(400)
SLOPE_STEPS = tl.constexpr(20000)
NEAR = tl.constexpr(1e-3)
TINY = tl.constexpr(1e-300)
EPSILON = tl.constexpr(1.2e-16)

# ---- incomplete gamma functions ------------------------------------------------------------------


@triton.jit
def log_ratio(mu):
    """log(1 + mu) - mu, mu > -1."""
    small = mu * mu * (mu * (1 / 3 - mu * (1 / 4 - mu * (1 / 5 - mu * (1 / 6 - mu / 7)))) - 1 / 2)
    return tl.where(tl.abs(mu) < 1e-3, small, log1p(mu) - mu)


@triton.jit
def log_factor(a, x):
    """log(x^a exp(-x) / gamma(a + 1)), without the large terms that cancel."""
    small = a * tl.log(x) - x - lgamma(a + 1)
    b = tl.maximum(a, 10.0)
    r = 1 / (b * b)
    rest = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / b
    large = b * log_ratio((x - b) / b) - 0.5 * tl.log(6.28318530717958647693 * b) - rest
    return tl.where(a < 10, small, large)


@triton.jit
def lower_series(a, x, active):
    """P = x^a exp(-x) / gamma(a + 1) (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...)."""
    total = tl.full(x.shape, 1.0, tl.float64)
    term = total
    k = tl.full((), 0, tl.int32)
    going = active
    while (tl.max(going.to(tl.int32), 0) > 0) & (k < STEPS):
        k += 1
        term = term * x / (a + k)
        total += tl.where(going, term, 0.0)
        going = going & (term > EPSILON * total)
    return total * tl.exp(log_factor(a, x))


@triton.jit
def upper_fraction(a, x, active):
    """Q by Legendre's continued fraction, x > 1, by Lentz' method."""
    b = x + 1 - a
    c = tl.full(x.shape, 1e300, tl.float64)
    d = 1 / b
    h = d
    k = tl.full((), 0, tl.int32)
    going = active
    while (tl.max(going.to(tl.int32), 0) > 0) & (k < STEPS):
        k += 1
        factor = k * (a - k)
        b += 2
        d = factor * d + b
        d = 1 / tl.where(tl.abs(d) < TINY, TINY, d)
        c = b + factor / c
        c = tl.where(tl.abs(c) < TINY, TINY, c)
        step = d * c
        h = tl.where(going, h * step, h)
        going = going & (tl.abs(step - 1) > EPSILON)
    return h * a * tl.exp(log_factor(a, x))


@triton.jit
def upper_series(a, x, active):
    """Q for x <= 1.1, where it is not 1 - P: -expm1(log(x^a / gamma(a + 1))) and a sum."""
    total = tl.zeros(x.shape, tl.float64)
    term = tl.full(x.shape, 1.0, tl.float64)
    k = tl.full((), 0, tl.int32)
    going = active
    while (tl.max(going.to(tl.int32), 0) > 0) & (k < STEPS):
        k += 1
        term = term * negated(x) / k
        part = term / (a + k)
        total += tl.where(going, part, 0.0)
        going = going & (tl.abs(part) > EPSILON * tl.abs(total))
    log = a * tl.log(x) - lgamma(a + 1)
    return negated(expm1(log)) - a * tl.exp(log) * total


@triton.jit
def temme(x, ROW: tl.constexpr):
    """The polynomial of one row; Triton 3.6 would pass the row itself on as values."""
    N: tl.constexpr = TEMME[ROW][0]
    y = like(x, TEMME[ROW][N])
    for i in tl.static_range(1, N):
        y = y * x + TEMME[ROW][N - i]
    return y


@triton.jit
def uniform(a, x, UPPER: tl.constexpr):
    """Temme's expansion: erfc(+-eta sqrt(a / 2)) / 2 and a correction; x near a, a large."""
    mu = (x - a) / a
    half = negated(log_ratio(mu))
    eta = tl.sqrt(2 * half)
    eta = tl.where(mu < 0, negated(eta), eta)
    total = tl.zeros(x.shape, tl.float64)
    N: tl.constexpr = TEMME[0]
    for i in tl.static_range(N):
        total = total / a + temme(eta, N - i)
    correction = total * tl.exp(negated(a) * half) / tl.sqrt(6.28318530717958647693 * a)
    if UPPER:
        return 0.5 * erfc(eta * tl.sqrt(0.5 * a)) + correction
    return 0.5 * erfc(negated(eta) * tl.sqrt(0.5 * a)) - correction


@triton.jit
def incomplete(a, x, UPPER: tl.constexpr):
    a = a.to(tl.float64)
    x = x.to(tl.float64)
    good = (a >= 0) & (x >= 0)
    endless = a == float("inf")
    everything = x == float("inf")
    zero = 1.0 if UPPER else 0.0
    none = good & (((x == 0) & (a > 0)) | (endless & (everything == 0)))
    full = good & (endless == 0) & (((a == 0) & (x > 0)) | everything)
    rest = good & (a > 0) & (x > 0) & (endless == 0) & (everything == 0)
    a = tl.where(rest, a, 1.0)
    x = tl.where(rest, x, 1.0)
    near = (a >= 20) & (tl.abs(x - a) < 0.3 * a)
    b = tl.where(near, a, 20.0)
    out = uniform(b, tl.where(near, x, 20.0), UPPER)
    low = x <= 1.1
    if UPPER:
        by_series = tl.where(low, x < a, x <= a + 1) & (near == 0)
    else:
        by_series = (low | (x <= a + 1)) & (near == 0)
    tiny = low & (by_series == 0) & (near == 0)
    above = (low == 0) & (by_series == 0) & (near == 0)
    p = lower_series(a, x, rest & by_series)
    out = tl.where(by_series, (1 - p) if UPPER else p, out)
    if UPPER:
        out = tl.where(tiny, upper_series(a, tl.minimum(x, 1.1), rest & tiny), out)
    q = upper_fraction(tl.where(above, a, 1.0), tl.where(above, x, 2.0), rest & above)
    out = tl.where(above, q if UPPER else (1 - q), out)
    out = tl.where(rest, out, float("nan"))
    return tl.where(none, zero, tl.where(full, 1 - zero, out))


@triton.jit
def igamma(a, x):
    return incomplete(a, x, False).to(a.dtype)


@triton.jit
def igammac(a, x):
    return incomplete(a, x, True).to(a.dtype)


# ---- zeta and polygamma --------------------------------------------------------------------------


@triton.jit
def zeta_positive(s, q):
    """Euler and Maclaurin's sum: terms up to q + 12, then the integral and its corrections."""
    total = tl.zeros_like(q)
    for k in range(12):  # not unrolled: each power is long
        total += libdevice.pow(q + k, negated(s))
    a = q + 12
    power = libdevice.pow(a, negated(s))
    r = 1 / (a * a)
    total += power * a / (s - 1) + 0.5 * power
    term = s / a * power
    total += term / 12
    term = term * (s + 1) * (s + 2) * r
    total += term / -720
    term = term * (s + 3) * (s + 4) * r
    total += term / 30240
    term = term * (s + 5) * (s + 6) * r
    total += term / -1209600
    term = term * (s + 7) * (s + 8) * r
    total += term / 47900160
    term = term * (s + 9) * (s + 10) * r
    total += term / -1892437580.3183791606
    term = term * (s + 11) * (s + 12) * r
    total += term / 74724249600.0
    return total


@triton.jit
def zeta_double(s, q):
    """For q < 0 terms on both sides of zero are sums of the same kind, s being whole."""
    whole = s == tl.floor(s)
    pole = (q <= 0) & (q == tl.floor(q))
    below = q < 0
    part = tl.where(below, q - tl.floor(q), tl.where(q > 0, q, 1.0))
    part = tl.where(part == 0, 1.0, part)
    total = zeta_positive(s, part)
    if tl.max(below.to(tl.int32), 0) > 0:
        is_odd = s != 2 * tl.floor(0.5 * s)
        flipped = tl.where(below, 1 - part, 1.0)
        flipped = tl.where(flipped == 0, 1.0, flipped)
        other = zeta_positive(s, flipped) - zeta_positive(s, tl.where(below, 1 - q, 1.0))
        total += tl.where(below, tl.where(is_odd, negated(other), other), 0.0)
    defined = (s > 1) & ((q > 0) | (below & whole & (s != float("inf"))))
    out = tl.where(defined, total, float("nan"))
    out = tl.where((pole & ((s < 1) == 0)) | (s == 1), float("inf"), out)
    endless = tl.where(q == 1, 1.0, tl.where(q < 1, float("inf"), float("nan")))  # as PyTorch's
    return tl.where(s == float("inf"), endless, out)


@triton.jit
def zeta(s, q):
    return zeta_double(s.to(tl.float64), q.to(tl.float64)).to(s.dtype)


@triton.jit
def polygamma(x, order, factor):
    """factor zeta(order + 1, x), factor = (-1)^(order + 1) order!; in float64.

    For order 1, negative x are reflected.
    """
    reflected = (x < 0) & (order == 1)
    total = zeta_double(order + 1, tl.where(reflected, 1 - x, x))
    sine = tl.sin(3.14159265358979323846 * (x - tl.floor(x + 0.5))) / 3.14159265358979323846
    return factor * tl.where(reflected, 1 / (sine * sine) - total, total)


# ---- implicit gradients: see the Note in tritorch/host/random/sampling.py ------------------------


@triton.jit
def log1p_ratio(x):
    """log(1 + x) / x."""
    return tl.where(x == 0, 1.0, log1p(x) / tl.where(x == 0, 1.0, x))


@triton.jit
def off_zero(x):
    """x, not closer to 0 than NEAR."""
    return tl.where(tl.abs(x) < NEAR, NEAR, x)


@triton.jit
def standard_gamma_grad(a, x):
    """How a gamma distributed sample x moves with its parameter a."""
    LARGE = 500.0 if a.dtype == tl.float64 else 60.0
    kind = a.dtype
    a = a.to(tl.float64)
    x = x.to(tl.float64)
    infinite = (a == float("inf")) | (x == float("inf"))
    good = (a > 0) & (x > 0) & (infinite == 0)
    large = good & (a > LARGE)
    series = good & (large == 0)
    c = tl.where(series, a, 1.0)
    y = tl.where(series, x, 1.0)
    term = y / c
    weight = digamma(c + 1) - tl.log(y)
    total = term * weight
    at = c
    k = tl.full((), 0, tl.int32)
    going = series
    while (tl.max(going.to(tl.int32), 0) > 0) & (k < SLOPE_STEPS):
        at += 1
        inverse = 1 / at
        term = term * y * inverse
        weight += inverse
        step = term * weight
        total += tl.where(going, step, 0.0)
        going = going & ((tl.abs(step) > EPSILON * tl.abs(total)) | (at < y))
        k += 1
    a = tl.where(large, a, 1.0)
    r = tl.where(large, x, 1.0) / a
    d = off_zero(r - 1)
    s = 1 + d
    correction = s / d - 2 * (d - d * log1p_ratio(d)) * s * s / (d * d * d)
    wide = r * log1p_ratio(r - 1) - correction / (2 * a)
    edge = tl.where((x == 0) & (good == 0) & (infinite == 0), 0.0, float("nan"))
    return tl.where(series, total, tl.where(large, wide, edge)).to(kind)


@triton.jit
def beta_lead(a, x, d):
    return x * (1 - x) * log1p_ratio(d) / a


@triton.jit
def beta_expansion(a, b, x):
    s = a + b
    d = off_zero(x * s / a - 1)
    at = (1 + d) * a / s
    inside = (at > 0) & (at < 1)
    d = tl.where(inside, d, -NEAR)
    at = tl.where(inside, at, (1 - NEAR) * a / s)
    moves = 0.5 * (1 / a - 1 / s) - (beta_lead(a, at, d) * s + at - 1) / (a * d)
    return beta_lead(a, x, x * s / a - 1) + at * (1 - at) / (a * d) * moves


@triton.jit
def dirichlet_grad(x, a, sum):
    """How share x of a Dirichlet sample moves with its parameter a, of 1 - x."""
    LARGE = 500.0 if a.dtype == tl.float64 else 60.0
    kind = a.dtype
    x = x.to(tl.float64)
    a = a.to(tl.float64)
    b = sum.to(tl.float64) - a
    proper = (a > 0) & (b > 0) & (a < float("inf")) & (b < float("inf"))
    good = proper & (x > 0) & (x < 1)
    large = good & (a > LARGE) & (b > LARGE)
    series = good & (large == 0)
    c = tl.where(series, a, 1.0)
    e = tl.where(series, b, 1.0)
    z = tl.where(series, x, 0.25)
    low = z < 0.5
    first = tl.where(low, c, e)
    y = tl.where(low, z, 1 - z)
    top = c + e
    below = first + 1
    weight = tl.log(z) + digamma(top) - digamma(tl.where(low, below, c))
    term = tl.full(x.shape, 1.0, tl.float64)
    total = weight
    k = tl.full((), 0, tl.int32)
    going = series
    while (tl.max(going.to(tl.int32), 0) > 0) & (k < SLOPE_STEPS):
        over = 1 / below
        term = term * y * top * over
        weight += 1 / top - tl.where(low, over, 0.0)
        step = term * weight
        total += tl.where(going, step, 0.0)
        top += 1
        below += 1
        going = going & ((tl.abs(step) > EPSILON * tl.abs(total)) | (y * top > below))
        k += 1
    by_series = tl.where(low, -1.0, 1.0) * z * (1 - z) / first * total
    wide = beta_expansion(
        tl.where(large, a, 1.0), tl.where(large, b, 1.0), tl.where(large, x, 0.25)
    )
    at_end = proper & ((x == 0) | (x == 1))
    out = tl.where(series, by_series, tl.where(large, wide, tl.where(at_end, 0.0, float("nan"))))
    return (out / tl.where(x < 1, 1 - x, 1.0)).to(kind)
