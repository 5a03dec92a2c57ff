"""Orthogonal polynomials p_n(x), n cut to an integer, by the recurrences of recurrences.py."""

import triton
import triton.language as tl

from . import recurrences as r
from .elementary import acos, like, quotient

CHEBYSHEV_T, CHEBYSHEV_U = tl.constexpr(tuple(r.CHEBYSHEV_T)), tl.constexpr(tuple(r.CHEBYSHEV_U))
CHEBYSHEV_V, CHEBYSHEV_W = tl.constexpr(tuple(r.CHEBYSHEV_V)), tl.constexpr(tuple(r.CHEBYSHEV_W))
HERMITE_H, HERMITE_HE = tl.constexpr(tuple(r.HERMITE_H)), tl.constexpr(tuple(r.HERMITE_HE))
LAGUERRE_L, LEGENDRE_P = tl.constexpr(tuple(r.LAGUERRE_L)), tl.constexpr(tuple(r.LEGENDRE_P))
T_FROM, OTHERS_FROM = tl.constexpr(r.WAVE_FROM["t"]), tl.constexpr(r.WAVE_FROM["u"])
LIMIT_32, LIMIT_64 = tl.constexpr(r.HERMITE_LIMIT[4]), tl.constexpr(r.HERMITE_LIMIT[8])


@triton.jit
def wave(x, n, KIND: tl.constexpr):
    """Chebyshev's polynomials between -1 and 1, x = cos(a)."""
    a = acos(x)
    if KIND == "t":
        return tl.cos(n * a)
    elif KIND == "u":
        return quotient(tl.sin((n + 1) * a), tl.sin(a))
    elif KIND == "v":
        return quotient(tl.cos((n + 0.5) * a), tl.cos(0.5 * a))
    return quotient(tl.sin((n + 0.5) * a), tl.sin(0.5 * a))


@triton.jit
def orthogonal(x, off, degree, R: tl.constexpr):
    """All of a block climb together, until the last has its degree or is NaN.

    off: what x, of Chebyshev's, is off from 1 or -1.  Near them, and of Laguerre's, differences are
    carried on, which loses less (Reinsch); what overflows takes the recurrence's own way to NaN.
    R: first_x, first_one, x, kx, one, k, last, klast, divide, wave, is_hermite.
    """
    LIMIT: tl.constexpr = LIMIT_32 if x.dtype == tl.float32 else LIMIT_64
    kind: tl.constexpr = x.dtype
    x = x.to(tl.float64)  # rounded once: where a polynomial is small, large terms cancel
    whole = (degree == degree) & (tl.abs(degree) < 9e18)
    n = tl.where(whole, degree, -1.0).to(tl.int64)
    n = tl.where(degree < 0, tl.where(degree > -1, n, -1), n)
    before = tl.full(x.shape, 1.0, x.dtype)
    now = R[0] * x + R[1]
    out = tl.where(n < 0, 0.0, tl.where(n == 0, 1.0, now)).to(x.dtype)
    climbs = n > 1
    WAVE: tl.constexpr = R[9]  # of its own: Triton 3.6 passes a constant's entry on as a value
    if WAVE != "":
        waving = (n >= (T_FROM if WAVE == "t" else OTHERS_FROM)) & (tl.abs(x) < 1)
        out = tl.where(waving, wave(tl.where(waving, x, 0.0), n.to(x.dtype), WAVE), out).to(x.dtype)
        # At 1 and -1: p_0 + n (p_1 - p_0), with (-1)^n at -1.
        at_end = climbs & (tl.abs(x) == 1)
        value = 1 + n.to(x.dtype) * (x * now - 1)
        out = tl.where(at_end, tl.where(n % 2 == 1, x * value, value), out).to(x.dtype)
        climbs = climbs & (waving == 0) & (at_end == 0)
        side = tl.where(x < 0, like(x, -1.0), 1.0)
        near = tl.abs(x) > 0.75
        d = R[0] * off + (R[0] * side + R[1] - side)
        now = tl.where(near, d + side, now)
        out = tl.where((n == 1), now, out)
    elif R[10]:
        far = n > LIMIT
        out = tl.where(far, float("nan"), out).to(x.dtype)
        climbs = climbs & (far == 0)
    elif R[0] < 0:  # Laguerre's is 1 at 0
        out = tl.where(climbs & (x == 0), 1.0, out).to(x.dtype)
        climbs = climbs & (x != 0)
    else:  # Legendre's, at 1 and -1
        at_end = climbs & (tl.abs(x) == 1)
        out = tl.where(at_end, tl.where(n % 2 == 1, x, 1.0), out).to(x.dtype)
        climbs = climbs & (at_end == 0)
    if WAVE == "":
        side, near, d = now, climbs, now - before
    k = tl.full(x.shape, 1, tl.int64)
    climbing = climbs
    while tl.max(climbing.to(tl.int32), 0) > 0:
        step = k.to(x.dtype)
        up = R[2] * x
        if R[3] != 0:
            up += R[3] * step * x
        if R[5] != 0:
            up += R[4] + R[5] * step
        back = R[6] * before
        if R[7] != 0:
            back = R[7] * step * before
        following = up * now - back
        if R[8] != 0:
            following = quotient(following, 1 + step)
        if WAVE != "":
            d = 2 * off * now + side * d
            following = tl.where(near & (following - following == 0), d + side * now, following)
        elif R[0] < 0:  # Laguerre's
            d = quotient(step * d - x * now, 1 + step)
            following = tl.where(following - following == 0, now + d, following)
        before = now
        now = following.to(x.dtype)
        k += 1
        out = tl.where(climbing, now, out).to(x.dtype)
        climbing = climbing & (k < n) & (now == now)
    return out.to(kind)


@triton.jit
def shift(x):
    return 2 * x.to(tl.float64) - 1


@triton.jit
def off(x):
    x = x.to(tl.float64)
    return tl.where(x < 0, x + 1, x - 1)


@triton.jit
def shifted_off(x):
    """`off` of 2 x - 1, taken before that rounds."""
    x = x.to(tl.float64)
    return tl.where(x < 0.5, 2 * x, 2 * (x - 1))


@triton.jit
def chebyshev_polynomial_t(x, n):
    return orthogonal(x, off(x), n, CHEBYSHEV_T)


@triton.jit
def chebyshev_polynomial_u(x, n):
    return orthogonal(x, off(x), n, CHEBYSHEV_U)


@triton.jit
def chebyshev_polynomial_v(x, n):
    return orthogonal(x, off(x), n, CHEBYSHEV_V)


@triton.jit
def chebyshev_polynomial_w(x, n):
    return orthogonal(x, off(x), n, CHEBYSHEV_W)


@triton.jit
def shifted_chebyshev_polynomial_t(x, n):
    return orthogonal(shift(x), shifted_off(x), n, CHEBYSHEV_T).to(x.dtype)


@triton.jit
def shifted_chebyshev_polynomial_u(x, n):
    return orthogonal(shift(x), shifted_off(x), n, CHEBYSHEV_U).to(x.dtype)


@triton.jit
def shifted_chebyshev_polynomial_v(x, n):
    return orthogonal(shift(x), shifted_off(x), n, CHEBYSHEV_V).to(x.dtype)


@triton.jit
def shifted_chebyshev_polynomial_w(x, n):
    return orthogonal(shift(x), shifted_off(x), n, CHEBYSHEV_W).to(x.dtype)


@triton.jit
def hermite_polynomial_h(x, n):
    return orthogonal(x, off(x), n, HERMITE_H)


@triton.jit
def hermite_polynomial_he(x, n):
    return orthogonal(x, off(x), n, HERMITE_HE)


@triton.jit
def laguerre_polynomial_l(x, n):
    return orthogonal(x, off(x), n, LAGUERRE_L)


@triton.jit
def legendre_polynomial_p(x, n):
    return orthogonal(x, off(x), n, LEGENDRE_P)
