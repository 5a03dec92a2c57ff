"""Scalar Bessel functions and Airy's, by fitted polynomials (fits.py)."""

import triton
import triton.language as tl

from . import fits
from .elementary import exp, like, negated, odd, polynomial, quotient, sqrt

I0_NEAR, I0_FAR = tl.constexpr(fits.counted(fits.I0_NEAR)), tl.constexpr(fits.counted(fits.I0_FAR))
I1_NEAR, I1_FAR = tl.constexpr(fits.counted(fits.I1_NEAR)), tl.constexpr(fits.counted(fits.I1_FAR))
J0_ROOTS, J1_ROOTS = tl.constexpr(fits.J0_ROOTS), tl.constexpr(fits.J1_ROOTS)
J0_NEAR, J1_NEAR = (
    tl.constexpr(fits.counted(fits.J0_NEAR)),
    tl.constexpr(fits.counted(fits.J1_NEAR)),
)
Y0_NEAR, Y1_NEAR = (
    tl.constexpr(fits.counted(fits.Y0_NEAR)),
    tl.constexpr(fits.counted(fits.Y1_NEAR)),
)
JY0_P, JY0_Q = tl.constexpr(fits.counted(fits.JY0_P)), tl.constexpr(fits.counted(fits.JY0_Q))
JY1_P, JY1_Q = tl.constexpr(fits.counted(fits.JY1_P)), tl.constexpr(fits.counted(fits.JY1_Q))
K0_NEAR, K0_FAR = tl.constexpr(fits.counted(fits.K0_NEAR)), tl.constexpr(fits.counted(fits.K0_FAR))
K1_NEAR, K1_FAR = tl.constexpr(fits.counted(fits.K1_NEAR)), tl.constexpr(fits.counted(fits.K1_FAR))
AIRY_NEAR, AIRY_ABOVE = (
    tl.constexpr(fits.counted(fits.AIRY_NEAR)),
    tl.constexpr(fits.counted(fits.AIRY_ABOVE)),
)
J0_SERIES = tl.constexpr(fits.counted(fits.J0_SERIES))
AIRY_F, AIRY_G = tl.constexpr(fits.counted(fits.AIRY_F)), tl.constexpr(fits.counted(fits.AIRY_G))
AIRY_P, AIRY_Q = tl.constexpr(fits.counted(fits.AIRY_P)), tl.constexpr(fits.counted(fits.AIRY_Q))

# ---- modified, first kind ------------------------------------------------------------------------


@triton.jit
def over_root(t, TABLE: tl.constexpr, x):
    """A polynomial of t / sqrt(x), with what the roundings of all three lose."""
    N: tl.constexpr = TABLE[0]
    rest = like(t, TABLE[N])
    for i in tl.static_range(1, N - 1):
        rest = rest * t + TABLE[N - i]
    rest = rest * t
    y = rest + TABLE[1]
    lost = (TABLE[1] - y) + rest
    root = sqrt(x)
    lacks = quotient(tl.fma(negated(root), root, x), 2 * root)
    found = quotient(y, root)
    more = quotient((tl.fma(negated(found), root, y) + lost) - found * lacks, root)
    return found + tl.where(tl.abs(more) < float("inf"), more, 0.0)


@triton.jit
def bessel_i(x, NEAR: tl.constexpr, FAR: tl.constexpr, ORDER: tl.constexpr, SCALED: tl.constexpr):
    """I0 or I1; SCALED: times exp(-|x|)."""
    a = tl.abs(x)
    inside = tl.minimum(a, 8.0)
    near = polynomial(inside * 0.25 - 1, NEAR)
    if ORDER == 1:
        near = near * inside
    outside = tl.maximum(a, 8.0)
    y = tl.where(a <= 8, near, over_root(quotient(16, outside) - 1, FAR, outside))
    if not SCALED:
        half = exp(0.5 * a)  # twice, so that it overflows no earlier than the result
        y = tl.where(a == float("inf"), float("nan"), y * half * half)  # as in PyTorch
    y = tl.where(x == x, y, x).to(x.dtype)
    return tl.where(x < 0, negated(y), y) if ORDER == 1 else y  # 0 for both zeros


@triton.jit
def i0(x):
    return bessel_i(x, I0_NEAR, I0_FAR, 0, False)


@triton.jit
def i0e(x):
    return bessel_i(x, I0_NEAR, I0_FAR, 0, True)


@triton.jit
def i1(x):
    return bessel_i(x, I1_NEAR, I1_FAR, 1, False)


@triton.jit
def i1e(x):
    return bessel_i(x, I1_NEAR, I1_FAR, 1, True)


# ---- first and second kind -----------------------------------------------------------------------


@triton.jit
def root_factor(x, ROOT: tl.constexpr, REST: tl.constexpr):
    """x^2 - ROOT - REST, x^2 without rounding: near its root that would be all there is."""
    square = x * x
    lost = tl.fma(x, x, negated(square))
    high = like(x, ROOT)
    low = like(x, REST)
    if x.dtype == tl.float32:
        low = (tl.full(x.shape, ROOT, tl.float64) - high.to(tl.float64)).to(tl.float32)
    return (square - high) + (lost - low)


@triton.jit
def j_near(x, TABLE: tl.constexpr, ROOTS: tl.constexpr, ORDER: tl.constexpr):
    """|x| <= 8."""
    y = polynomial(x * x * 0.03125 - 1, TABLE)
    y = y * root_factor(x, ROOTS[0], ROOTS[1]) * root_factor(x, ROOTS[2], ROOTS[3])
    if ORDER == 1:
        return y * x
    square = x * x
    return tl.where(square < 1, 1 + square * polynomial(square, J0_SERIES), y)


@triton.jit
def waves(x, P: tl.constexpr, Q: tl.constexpr, ORDER: tl.constexpr, FIRST: tl.constexpr):
    """J (FIRST) or Y for x > 8, by sines and cosines of x itself."""
    ratio = quotient(8, x)
    t = 2 * ratio * ratio - 1
    p = polynomial(t, P)
    q = quotient(polynomial(t, Q), x)
    sin = tl.sin(x)
    cos = tl.cos(x)
    if ORDER == 0:
        c = cos + sin
        s = sin - cos
    else:
        c = sin - cos
        s = negated(sin) - cos
    wave = (p * c - q * s) if FIRST else (p * s + q * c)
    wave = wave * 0.70710678118654752440 * sqrt(quotient(0.63661977236758134308, x))
    return tl.where(x == float("inf"), float("nan"), wave)  # as in PyTorch


@triton.jit
def bessel_j(
    x, NEAR: tl.constexpr, ROOTS: tl.constexpr, P: tl.constexpr, Q: tl.constexpr,
    ORDER: tl.constexpr,
):  # fmt: skip
    a = tl.abs(x)
    y = tl.where(
        a <= 8, j_near(tl.minimum(a, 8.0), NEAR, ROOTS, ORDER),
        waves(tl.maximum(a, 8.0), P, Q, ORDER, True),
    )  # fmt: skip
    y = tl.where(x == x, y, x).to(x.dtype)
    return odd(x, y) if ORDER == 1 else y


@triton.jit
def bessel_j0(x):
    return bessel_j(x, J0_NEAR, J0_ROOTS, JY0_P, JY0_Q, 0)


@triton.jit
def bessel_j1(x):
    return bessel_j(x, J1_NEAR, J1_ROOTS, JY1_P, JY1_Q, 1)


@triton.jit
def ends(x, y, at_zero):
    """y for x > 0, a value at 0, NaN below."""
    y = tl.where(x > 0, y, float("nan"))
    return tl.where(x == 0, at_zero, y).to(x.dtype)


@triton.jit
def bessel_y0(x):
    return bessel_y0_of_double(x.to(tl.float64)).to(x.dtype)


@triton.jit
def bessel_y0_of_double(x):
    a = tl.minimum(tl.maximum(x, 1e-37), 8.0)
    near = polynomial(a * a * 0.03125 - 1, Y0_NEAR)
    near += 0.63661977236758134308 * tl.log(a) * j_near(a, J0_NEAR, J0_ROOTS, 0)
    tiny = 0.63661977236758134308 * (tl.log(x) - 0.11593151565841244881)
    near = tl.where(x < 1e-37, tiny, near)  # J0 is 1
    far = waves(tl.maximum(x, 8.0), JY0_P, JY0_Q, 0, False)
    return ends(x, tl.where(x <= 8, near, far), -float("inf"))


@triton.jit
def bessel_y1(x):
    return bessel_y1_of_double(x.to(tl.float64)).to(x.dtype)


@triton.jit
def bessel_y1_of_double(x):
    a = tl.minimum(x, 8.0)
    near = polynomial(a * a * 0.03125 - 1, Y1_NEAR) * a
    log = tl.log(tl.where(x > 0, a, 1.0))
    near += 0.63661977236758134308 * (log * j_near(a, J1_NEAR, J1_ROOTS, 1) - quotient(1, a))
    far = waves(tl.maximum(x, 8.0), JY1_P, JY1_Q, 1, False)
    return ends(x, tl.where(x <= 8, near, far), -float("inf"))


# ---- modified, second kind -----------------------------------------------------------------------


@triton.jit
def bessel_k(
    x, NEAR: tl.constexpr, FAR: tl.constexpr, I_NEAR: tl.constexpr, I_FAR: tl.constexpr,
    ORDER: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """K0 or K1; SCALED: times exp(x)."""
    a = tl.minimum(x, 2.0)
    near = polynomial(a * a * 0.5 - 1, NEAR)
    log = tl.log(tl.where(x > 0, a, 1.0) * 0.5)
    i = bessel_i(a, I_NEAR, I_FAR, ORDER, False)
    if ORDER == 1:
        near = near * a + log * i + quotient(1, a)
    else:
        near = near - log * i
    b = tl.maximum(x, 2.0)
    far = over_root(quotient(4, b) - 1, FAR, b)
    if SCALED:
        near = near * exp(a)
    else:
        far = (far.to(tl.float64) * exp(negated(b.to(tl.float64)))).to(x.dtype)
    return ends(x, tl.where(x <= 2, near, far), float("inf"))


@triton.jit
def modified_bessel_k0(x):
    return bessel_k(x, K0_NEAR, K0_FAR, I0_NEAR, I0_FAR, 0, False)


@triton.jit
def modified_bessel_k1(x):
    return bessel_k(x, K1_NEAR, K1_FAR, I1_NEAR, I1_FAR, 1, False)


@triton.jit
def scaled_modified_bessel_k0(x):
    return bessel_k(x, K0_NEAR, K0_FAR, I0_NEAR, I0_FAR, 0, True)


@triton.jit
def scaled_modified_bessel_k1(x):
    return bessel_k(x, K1_NEAR, K1_FAR, I1_NEAR, I1_FAR, 1, True)


# ---- Airy's and the spherical one ----------------------------------------------------------------


@triton.jit
def airy_ai(x):
    return airy_ai_of_double(x.to(tl.float64)).to(x.dtype)


@triton.jit
def airy_ai_of_double(x):
    a = tl.abs(x)
    near = polynomial((tl.minimum(tl.maximum(x, -6.0), 2.0) + 2) * 0.25, AIRY_NEAR)
    inside = tl.minimum(tl.maximum(x, -1.0), 1.0)
    cube = inside * inside * inside
    f = polynomial(cube, AIRY_F) * cube * 0.35502805388781723926
    g = polynomial(cube, AIRY_G) * cube * inside * -0.25881940379280679840
    small = 0.35502805388781723926 + (inside * -0.25881940379280679840 + (f + g))
    near = tl.where(a < 1, small, near)
    big = tl.maximum(a, 2.0)
    z = big * sqrt(big) * 0.66666666666666666667
    root = 1.77245385090551602730 * sqrt(sqrt(big))
    above = quotient(
        polynomial(quotient(3.77123616632825344, z) - 1, AIRY_ABOVE) * exp(negated(z)), 2 * root
    )
    ratio = quotient(9.79795897113271239, tl.maximum(z, 9.79795897113271239))
    t = 2 * ratio * ratio - 1
    sin = tl.sin(z)
    cos = tl.cos(z)
    wave = polynomial(t, AIRY_P) * (cos + sin) + quotient(polynomial(t, AIRY_Q), z) * (sin - cos)
    below = quotient(wave * 0.70710678118654752440, root)
    y = tl.where(x < -6, below, tl.where(x > 2, above, near))
    return tl.where(a < float("inf"), y, float("nan")).to(x.dtype)  # infinities as in PyTorch


@triton.jit
def spherical_bessel_j0(x):
    y = quotient(tl.sin(x), tl.where(x == 0, 1.0, x))
    return tl.where(x == 0, 1.0, tl.where(tl.abs(x) == float("inf"), 0.0, y)).to(x.dtype)
