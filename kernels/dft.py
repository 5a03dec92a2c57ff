"""Fourier transforms of few points, in registers: tuples of real and of imaginary parts."""

import triton
import triton.language as tl

from .scalar.elementary import negated

# ---- numbers ------------------------------------------------------------------------------------


@triton.jit
def times(a, b, c, d):
    """(a + ib) (c + id)."""
    return a * c - b * d, a * d + b * c


@triton.jit
def load_pair(ptr, at, mask):
    """Both parts of complex numbers: those of 8 bytes come as one integer each."""
    if ptr.dtype.element_ty == tl.int64:
        both = tl.load(ptr + at, mask=mask, other=None if mask is None else 0)
        re = both.to(tl.int32).to(tl.float32, bitcast=True)
        im = (both >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    else:
        re = tl.load(ptr + 2 * at, mask=mask, other=None if mask is None else 0.0)
        im = tl.load(ptr + 2 * at + 1, mask=mask, other=None if mask is None else 0.0)
    return re, im


@triton.jit
def store_pair(ptr, at, mask, re, im):
    if ptr.dtype.element_ty == tl.int64:
        low = re.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
        both = (im.to(tl.int32, bitcast=True).to(tl.int64) << 32) | low
        tl.store(ptr + at, both, mask=mask)
    else:
        tl.store(ptr + 2 * at, re, mask=mask)
        tl.store(ptr + 2 * at + 1, im, mask=mask)


# ---- small transforms, of tuples -----------------------------------------------------------------


@triton.jit
def dft2(re, im):
    return (re[0] + re[1], re[0] - re[1]), (im[0] + im[1], im[0] - im[1])


@triton.jit
def dft4(re, im):
    """Two of two points, and two of those."""
    a, b = re[0] + re[2], im[0] + im[2]
    c, d = re[0] - re[2], im[0] - im[2]
    e, f = re[1] + re[3], im[1] + im[3]
    g, h = re[1] - re[3], im[1] - im[3]
    return (a + e, c + h, a - e, c - h), (b + f, d - g, b - f, d + g)


@triton.jit
def eighth(re, im):
    """Times exp(-i pi / 4)."""
    return (re + im) * 0.70710678118654752440, (im - re) * 0.70710678118654752440


@triton.jit
def dft8(re, im):
    """Four points of the even ones and four of the odd ones."""
    e, f = dft4((re[0], re[2], re[4], re[6]), (im[0], im[2], im[4], im[6]))
    g, h = dft4((re[1], re[3], re[5], re[7]), (im[1], im[3], im[5], im[7]))
    a1, b1 = eighth(g[1], h[1])
    a3, b3 = eighth(h[3], negated(g[3]))
    odd = (g[0], a1, h[2], a3)
    odd_im = (h[0], b1, negated(g[2]), b3)
    out, out_im = (), ()
    for k in tl.static_range(8):
        if k < 4:
            out += (e[k] + odd[k],)
            out_im += (f[k] + odd_im[k],)
        else:
            out += (e[k - 4] - odd[k - 4],)
            out_im += (f[k - 4] - odd_im[k - 4],)
    return out, out_im


@triton.jit
def turned(re, im, COS: tl.constexpr, SIN: tl.constexpr):
    """Times COS - i SIN."""
    return re * COS + im * SIN, im * COS - re * SIN


@triton.jit
def dft16(re, im):
    """Four by four."""
    a, b = dft4((re[0], re[4], re[8], re[12]), (im[0], im[4], im[8], im[12]))
    c, d = dft4((re[1], re[5], re[9], re[13]), (im[1], im[5], im[9], im[13]))
    e, f = dft4((re[2], re[6], re[10], re[14]), (im[2], im[6], im[10], im[14]))
    g, h = dft4((re[3], re[7], re[11], re[15]), (im[3], im[7], im[11], im[15]))
    c1, d1 = turned(c[1], d[1], 0.92387953251128675613, 0.38268343236508977173)
    c2, d2 = eighth(c[2], d[2])
    c3, d3 = turned(c[3], d[3], 0.38268343236508977173, 0.92387953251128675613)
    e1, f1 = eighth(e[1], f[1])
    e3, f3 = eighth(f[3], negated(e[3]))
    g1, h1 = turned(g[1], h[1], 0.38268343236508977173, 0.92387953251128675613)
    g2, h2 = eighth(h[2], negated(g[2]))
    g3, h3 = turned(g[3], h[3], -0.92387953251128675613, -0.38268343236508977173)
    p, s = dft4((a[0], c[0], e[0], g[0]), (b[0], d[0], f[0], h[0]))
    q, t = dft4((a[1], c1, e1, g1), (b[1], d1, f1, h1))
    u, v = dft4((a[2], c2, f[2], g2), (b[2], d2, negated(e[2]), h2))
    x, y = dft4((a[3], c3, e3, g3), (b[3], d3, f3, h3))
    out = (p[0], q[0], u[0], x[0], p[1], q[1], u[1], x[1])
    out += (p[2], q[2], u[2], x[2], p[3], q[3], u[3], x[3])
    out_im = (s[0], t[0], v[0], y[0], s[1], t[1], v[1], y[1])
    out_im += (s[2], t[2], v[2], y[2], s[3], t[3], v[3], y[3])
    return out, out_im


@triton.jit
def dft_odd(re, im, table, R: tl.constexpr, N: tl.constexpr):
    """R points, by sums and differences of x[r] and x[R - r]; table has w_N^k."""
    HALF: tl.constexpr = (R - 1) // 2
    cos, sin = (), ()
    for m in tl.static_range(R):
        c, s = load_pair(table, m * (N // R), None)
        cos += (c,)
        sin += (s,)
    first, first_im = re[0], im[0]
    for r in tl.static_range(1, HALF + 1):
        first += re[r] + re[R - r]
        first_im += im[r] + im[R - r]
    low, low_im, high, high_im = (), (), (), ()
    for k in tl.static_range(1, HALF + 1):
        a, b = re[0], im[0]
        c, d = tl.zeros_like(a), tl.zeros_like(b)
        for r in tl.static_range(1, HALF + 1):
            a += (re[r] + re[R - r]) * cos[r * k % R]
            b += (im[r] + im[R - r]) * cos[r * k % R]
            c += (re[r] - re[R - r]) * sin[r * k % R]
            d += (im[r] - im[R - r]) * sin[r * k % R]
        low += (a - d,)
        low_im += (b + c,)
        high = (a + d,) + high
        high_im = (b - c,) + high_im
    return (first,) + low + high, (first_im,) + low_im + high_im


@triton.jit
def dft(re, im, table, R: tl.constexpr, N: tl.constexpr):
    """The transform of R points in registers, in order."""
    if R == 1:
        return re, im
    elif R == 2:
        return dft2(re, im)
    elif R == 4:
        return dft4(re, im)
    elif R == 8:
        return dft8(re, im)
    elif R == 16:
        return dft16(re, im)
    else:
        return dft_odd(re, im, table, R, N)
