"""Spectra of batches of small matrices by Jacobi's rotations, one program a matrix.

A sweep lets each pair of columns meet once: in each of its steps all columns are paired with others
(as in a tournament), so that a step's rotations are independent of each other.
"""

import triton
import triton.language as tl

from .elementary import quotient, sqrt
from .factor import matrix


@triton.jit
def pairs_of(step, players, HALF: tl.constexpr):
    """Who meets whom in a step: the last of an even number stays, the others go round it."""
    k = tl.arange(0, HALF)
    round = players - 1
    p = tl.where(k == 0, round, (step + k) % round)
    q = (step + round - k) % round
    return tl.minimum(p, q), tl.maximum(p, q), 2 * k < players


@triton.jit
def rotation(app, aqq, apq):
    """cos and sin of the angle that makes a pair's product 0; none where it is nothing beside
    both."""
    none = apq == 0
    ratio = quotient(aqq - app, tl.where(none, 1.0, 2 * apq))
    sign = tl.where(ratio < 0, -1.0, 1.0)
    large = tl.abs(ratio) > 1e15  # whose square may be none
    safe = tl.where(large, 1.0, ratio)
    tan = quotient(sign, tl.where(large, 2 * tl.abs(ratio), tl.abs(safe) + sqrt(1 + safe * safe)))
    tan = tl.where(none, 0.0, tan)
    cos = quotient(tl.full(tan.shape, 1.0, tan.dtype), sqrt(1 + tan * tan))
    return cos.to(app.dtype), (tan * cos).to(app.dtype)


@triton.jit
def rotate(x, p, q, mask, cos, sin, size, stride, other_stride, BLOCK: tl.constexpr):
    """Lines p and q of a matrix (other_stride from one line to the next, stride within it)."""
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = mask[None, :] & (at < size)[:, None]
        first = x + at[:, None] * stride + p[None, :] * other_stride
        second = x + at[:, None] * stride + q[None, :] * other_stride
        a = tl.load(first, mask=inside, other=0.0)
        b = tl.load(second, mask=inside, other=0.0)
        tl.store(first, cos[None, :] * a - sin[None, :] * b, mask=inside)
        tl.store(second, sin[None, :] * a + cos[None, :] * b, mask=inside)


@triton.jit
def jacobi_svd(
    a_ptr, v_ptr, n_rows, n_cols, eps, BLOCK: tl.constexpr, HALF: tl.constexpr,
    SWEEPS: tl.constexpr,
):  # fmt: skip
    """Rotates columns until they are orthogonal: a becomes U S, and v, a given one, v V.

    eps: how near to 0 a cosine of two columns has to be, bits of a float64.
    """
    a = matrix(a_ptr, n_rows, n_cols)
    v = matrix(v_ptr, n_cols, n_cols)
    KIND: tl.constexpr = a_ptr.dtype.element_ty
    near = eps.to(tl.int64).to(tl.float64, bitcast=True).to(KIND)
    players = n_cols + n_cols % 2
    worst = near + near
    for _ in range(SWEEPS):
        if worst > near:
            worst = near * 0
            for step in range(players - 1):
                p, q, mask = pairs_of(step, players, HALF)
                mask = mask & (q < n_cols)
                app = tl.zeros([HALF], KIND)
                aqq = tl.zeros([HALF], KIND)
                apq = tl.zeros([HALF], KIND)
                for start in range(0, n_rows, BLOCK):
                    rows = start + tl.arange(0, BLOCK)
                    inside = mask[None, :] & (rows < n_rows)[:, None]
                    x = tl.load(a + rows[:, None] * n_cols + p[None, :], mask=inside, other=0.0)
                    y = tl.load(a + rows[:, None] * n_cols + q[None, :], mask=inside, other=0.0)
                    app += tl.sum(x * x, 0)
                    aqq += tl.sum(y * y, 0)
                    apq += tl.sum(x * y, 0)
                size = sqrt(app) * sqrt(aqq)
                cosine = quotient(tl.abs(apq), tl.where(size == 0, 1.0, size).to(KIND))
                cosine = tl.where(size == 0, 0.0, cosine).to(KIND)
                worst = tl.maximum(worst, tl.max(cosine, 0))
                apq = tl.where(cosine > near * 0.5, apq, 0.0)
                cos, sin = rotation(app, aqq, apq)
                tl.debug_barrier()  # all have read the columns
                rotate(a, p, q, mask, cos, sin, n_rows, n_cols, 1, BLOCK)
                rotate(v, p, q, mask, cos, sin, n_cols, n_cols, 1, BLOCK)
                tl.debug_barrier()


@triton.jit
def jacobi_eigh(
    a_ptr, v_ptr, n, eps, BLOCK: tl.constexpr, HALF: tl.constexpr, SWEEPS: tl.constexpr
):
    """Rotates rows and columns until a, symmetric, is diagonal, and the columns of v with them.

    eps: how small what is beside the diagonal has to be beside the whole's norm, bits of a float64.
    """
    a = matrix(a_ptr, n, n)
    v = matrix(v_ptr, n, n)
    KIND: tl.constexpr = a_ptr.dtype.element_ty
    near = eps.to(tl.int64).to(tl.float64, bitcast=True).to(KIND)
    players = n + n % 2
    total = near * 0
    for start in range(0, n * n, 1024):
        at = start + tl.arange(0, 1024)
        x = tl.load(a + at, mask=at < n * n, other=0.0)
        total += tl.sum(x * x, 0)
    least = near * sqrt(total)
    worst = least + near
    for _ in range(SWEEPS):
        if worst > least:
            worst = near * 0
            for step in range(players - 1):
                p, q, mask = pairs_of(step, players, HALF)
                mask = mask & (q < n)
                app = tl.load(a + p * n + p, mask=mask, other=0.0)
                aqq = tl.load(a + q * n + q, mask=mask, other=0.0)
                apq = tl.load(a + p * n + q, mask=mask, other=0.0)
                worst = tl.maximum(worst, tl.max(tl.abs(apq), 0))
                cos, sin = rotation(app, aqq, apq)
                tl.debug_barrier()  # all have read the diagonal
                rotate(a, p, q, mask, cos, sin, n, n, 1, BLOCK)
                rotate(v, p, q, mask, cos, sin, n, n, 1, BLOCK)
                tl.debug_barrier()
                rotate(a, p, q, mask, cos, sin, n, 1, n, BLOCK)
                tl.debug_barrier()
