"""Samples whose parameters are arrays, by rejection.

Each element has its own counter of Philox's sequence; tries count in its third word.
"""

import triton
import triton.language as tl

from .copy import convert
from .random import normal, to_unit, to_wide_unit
from .scalar.elementary import negated
from .scalar.special import lgamma

TRIES = tl.constexpr(1000)  # a try fails with a chance below 1/2

# ---- samples -------------------------------------------------------------------------------------


@triton.jit
def uniforms(seed, counter, attempt, WIDE: tl.constexpr):
    """Four uniform numbers of an attempt; float64 ones take their low halves from a second key."""
    low = counter.to(tl.uint32)
    high = (counter >> 32).to(tl.uint32)
    third = low * 0 + attempt.to(tl.uint32)
    zero = low * 0
    a, b, c, d = tl.philox(seed.to(tl.uint64), low, high, third, zero)
    if WIDE:
        e, f, g, h = tl.philox(seed.to(tl.uint64) ^ 0x5851F42D4C957F2D, low, high, third, zero)
        return to_wide_unit(a, e), to_wide_unit(b, f), to_wide_unit(c, g), to_wide_unit(d, h)
    else:
        return to_unit(a), to_unit(b), to_unit(c), to_unit(d)


@triton.jit
def standard_gamma(a, b, seed, counter, active):
    """Marsaglia and Tsang's; below 1 that of a + 1, times a power of a uniform number."""
    WIDE: tl.constexpr = a.dtype == tl.float64
    least = 2.2250738585072014e-308 if WIDE else 1.17549435082228750797e-38
    good = a > 0
    a = tl.where(good, a, 1.0)
    raised = tl.where(a < 1, a + 1, a)
    d = raised - 1 / 3
    c = 1 / tl.sqrt(9 * d)
    out = tl.zeros_like(a)
    power = tl.zeros_like(a)
    attempt = tl.full((), 0, tl.int32)
    going = active & good
    while (tl.max(going.to(tl.int32), 0) > 0) & (attempt < TRIES):
        u0, u1, u2, u3 = uniforms(seed, counter, attempt, WIDE)
        x = normal(u0, u1, 0.0, 1.0)
        root = 1 + c * x
        safe = tl.maximum(root, least)
        v = safe * safe * safe
        bound = 0.5 * x * x + d - d * v + 3 * d * tl.log(safe)
        taken = going & (root > 0) & (tl.log(1 - u2) < bound)
        out = tl.where(taken, d * v, out)
        power = tl.where(taken, tl.log(1 - u3), power)
        going = going & (taken == 0)
        attempt += 1
    out = tl.where(a < 1, out * tl.exp(power / a), out)
    return tl.maximum(tl.where(good, out, 0.0), least)


@triton.jit
def poisson(rate, b, seed, counter, active):
    """Below 10 by adding probabilities up, else Hormann's transformed rejection; in float64."""
    rate = rate.to(tl.float64)
    small = rate < 10
    u0, _o, _p, _q = uniforms(seed, counter, tl.full((), 0, tl.int32), True)
    low = tl.where(small & (rate > 0), rate, 0.0)
    part = tl.exp(negated(low))
    total = part
    k = tl.zeros_like(rate)
    count = tl.full((), 0, tl.int32)
    going = active & small & (u0 > total)
    while (tl.max(going.to(tl.int32), 0) > 0) & (count < 200):
        k = tl.where(going, k + 1, k)
        part = tl.where(going, part * low / k, part)
        total += tl.where(going, part, 0.0)
        going = going & (u0 > total)
        count += 1
    mean = tl.where(small | (rate != rate), 10.0, rate)
    log_mean = tl.log(mean)
    b = 0.931 + 2.53 * tl.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)
    attempt = tl.full((), 1, tl.int32)
    going = active & (small == 0) & (rate == rate)
    while (tl.max(going.to(tl.int32), 0) > 0) & (attempt < TRIES):
        u0, v, _p, _q = uniforms(seed, counter, attempt, True)
        u = u0 - 0.5
        us = 0.5 - tl.abs(u)
        at = tl.floor((2 * a / us + b) * u + mean + 0.43)
        outside = (at < 0) | ((us < 0.013) & (v > us))
        inside = tl.maximum(at, 0.0)
        height = tl.log(v * inverse_alpha / (a / (us * us) + b))
        fits = height <= inside * log_mean - mean - lgamma(inside + 1)
        taken = going & (((us >= 0.07) & (v <= quick)) | ((outside == 0) & fits))
        k = tl.where(taken, at, k)
        going = going & (taken == 0)
        attempt += 1
    return tl.where(rate != rate, rate, k)


@triton.jit
def binomial(count, p, seed, counter, active):
    """Below a mean of 10 by adding probabilities up, else Hormann's rejection; in float64."""
    wrong = (count != count) | (p != p)
    n = tl.floor(tl.maximum(tl.where(wrong, 0.0, count).to(tl.float64), 0.0))
    given = tl.where(wrong, 0.0, p).to(tl.float64)
    given = tl.minimum(tl.maximum(given, 0.0), 1.0)
    flipped = given > 0.5
    q = tl.where(flipped, 1 - given, given)
    small = n * q < 10
    u0, _o, _p, _q = uniforms(seed, counter, tl.full((), 0, tl.int32), True)
    few = tl.where(small, n, 1.0)
    odds = q / (1 - q)
    part = tl.exp(few * tl.log(1 - q))
    total = part
    k = tl.zeros_like(n)
    steps = tl.full((), 0, tl.int32)
    going = active & small & (u0 > total)
    while (tl.max(going.to(tl.int32), 0) > 0) & (steps < 200):
        part = tl.where(going, part * odds * (few - k) / (k + 1), part)
        k = tl.where(going, k + 1, k)
        total += tl.where(going, part, 0.0)
        going = going & (u0 > total) & (k < few)
        steps += 1
    n_large = tl.where(small, 40.0, n)
    q_large = tl.where(small, 0.5, q)
    log_odds = tl.log(q_large / (1 - q_large))
    spread = tl.sqrt(n_large * q_large * (1 - q_large))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q_large
    quick = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    mode = tl.floor((n_large + 1) * q_large)
    at_mode = lgamma(mode + 1) + lgamma(n_large - mode + 1)
    attempt = tl.full((), 1, tl.int32)
    going = active & (small == 0)
    while (tl.max(going.to(tl.int32), 0) > 0) & (attempt < TRIES):
        u0, v, _p, _q = uniforms(seed, counter, attempt, True)
        u = u0 - 0.5
        us = 0.5 - tl.abs(u)
        at = tl.floor((2 * a / us + b) * u + n_large * q_large + 0.5)
        inside = tl.minimum(tl.maximum(at, 0.0), n_large)
        height = tl.log(v * alpha / (a / (us * us) + b))
        bound = at_mode - lgamma(inside + 1) - lgamma(n_large - inside + 1)
        fits = (at == inside) & (height <= bound + (inside - mode) * log_odds)
        taken = going & (((us >= 0.07) & (v <= quick)) | fits)
        k = tl.where(taken, inside, k)
        going = going & (taken == 0)
        attempt += 1
    return tl.where(wrong, float("nan"), tl.where(flipped, n - k, k))


@triton.jit
def share(part, total, low, high):
    """A part of a total, from low to high."""
    return tl.minimum(tl.maximum(part / total, low), high)


@triton.jit(do_not_specialize=["seed", "offset"])
def draw_by(
    a_ptr, b_ptr, y_ptr, n_elements, seed, offset, OP: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y[e] = OP(a[e], b[e], the random numbers of e).  One program draws BLOCK elements."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    active = at < n_elements
    a = convert(tl.load(a_ptr + at, mask=active, other=1), COMPUTE)
    b = convert(tl.load(b_ptr + at, mask=active, other=0), COMPUTE)
    value = OP(a, b, seed, offset // 4 + at, active)
    tl.store(y_ptr + at, convert(value, y_ptr.dtype.element_ty), mask=active)
