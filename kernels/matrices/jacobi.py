"""Spectra of batches of matrices by Jacobi's rotations, one program a matrix of few columns.

A sweep lets each pair of columns meet once: in each of its steps all columns are paired with others
(as in a tournament), so that a step's rotations are independent of each other.  Of more columns,
blocks are paired in the same way (gpu/linalg/spectra.py).  PAIR: numbers are complex.
"""

import triton
import triton.language as tl

from ..pointwise import hypot
from ..scalar import numbers as of
from ..scalar.elementary import negated, quotient, sqrt
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
def size_of(x):
    """The magnitude of a number."""
    return hypot(x[0], x[1]) if len(x) == 2 else tl.abs(x[0])


@triton.jit
def rotation(app, aqq, x):
    """cos and sin of the angle that makes a pair's product x 0, and the phase by which the second
    of a pair is multiplied before (no real one is); none where x is nothing beside both."""
    if len(x) == 2:
        apq = size_of(x)
        safe = tl.where(apq == 0, 1.0, apq).to(app.dtype)
        turn = (tl.where(apq == 0, 1.0, quotient(x[0], safe)).to(app.dtype),
                negated(quotient(x[1], safe)))  # fmt: skip
    else:
        apq = x[0]
        turn = x
    none = apq == 0
    ratio = quotient(aqq - app, tl.where(none, 1.0, 2 * apq))
    sign = tl.where(ratio < 0, -1.0, 1.0)
    large = tl.abs(ratio) > 1e15  # whose square may be none
    safe = tl.where(large, 1.0, ratio)
    tan = quotient(sign, tl.where(large, 2 * tl.abs(ratio), tl.abs(safe) + sqrt(1 + safe * safe)))
    tan = tl.where(none, 0.0, tan)
    cos = quotient(tl.full(tan.shape, 1.0, tan.dtype), sqrt(1 + tan * tan))
    return cos.to(app.dtype), (tan * cos).to(app.dtype), turn


@triton.jit
def rotate(
    x, p, q, mask, cos, sin, turn, size, stride, other_stride, PAIR: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Lines p and q of a matrix (other_stride from one line to the next, stride within it)."""
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = mask[None, :] & (at < size)[:, None]
        first = at[:, None] * stride + p[None, :] * other_stride
        second = at[:, None] * stride + q[None, :] * other_stride
        a = of.load(x, first, inside, PAIR)
        b = of.load(x, second, inside, PAIR)
        if PAIR:
            b = of.times(of.row(turn), b)
        c, s = cos[None, :], sin[None, :]
        of.store(x, first, of.minus(of.scaled(a, c), of.scaled(b, s)), inside)
        of.store(x, second, of.plus(of.scaled(a, s), of.scaled(b, c)), inside)


@triton.jit
def cosine_of(app, aqq, x):
    """The cosine of two columns by their squares and product; 0 beside nothing."""
    size = sqrt(app) * sqrt(aqq)
    cosine = quotient(size_of(x), tl.where(size == 0, 1.0, size).to(app.dtype))
    return tl.where(size == 0, 0.0, cosine).to(app.dtype)


@triton.jit
def limit(eps, KIND: tl.constexpr):
    """A number of float64, given as its bits."""
    return eps.to(tl.int64).to(tl.float64, bitcast=True).to(KIND)


@triton.jit
def jacobi_svd(
    a_ptr, v_ptr, n_rows, n_cols, eps, PAIR: tl.constexpr, BLOCK: tl.constexpr,
    HALF: tl.constexpr, SWEEPS: tl.constexpr,
):  # fmt: skip
    """Rotates columns until they are orthogonal: a becomes U S, and v, a given one, v V.

    eps: how near to 0 a cosine of two columns has to be, bits of a float64.
    """
    a = matrix(a_ptr, n_rows, n_cols, PAIR)
    v = matrix(v_ptr, n_cols, n_cols, PAIR)
    KIND: tl.constexpr = a_ptr.dtype.element_ty
    near = limit(eps, KIND)
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
                apq = of.number_of(tl.zeros([HALF], KIND), PAIR)
                for start in range(0, n_rows, BLOCK):
                    rows = start + tl.arange(0, BLOCK)
                    inside = mask[None, :] & (rows < n_rows)[:, None]
                    x = of.load(a, rows[:, None] * n_cols + p[None, :], inside, PAIR)
                    y = of.load(a, rows[:, None] * n_cols + q[None, :], inside, PAIR)
                    app += tl.sum(of.square(x), 0)
                    aqq += tl.sum(of.square(y), 0)
                    apq = of.plus(apq, of.total(of.times(of.conj(x), y), 0))
                cosine = cosine_of(app, aqq, apq)
                worst = tl.maximum(worst, tl.max(cosine, 0))
                none = of.number_of(tl.zeros([HALF], KIND), PAIR)
                apq = of.where(cosine > near * 0.5, apq, none)
                cos, sin, turn = rotation(app, aqq, apq)
                tl.debug_barrier()  # all have read the columns
                rotate(a, p, q, mask, cos, sin, turn, n_rows, n_cols, 1, PAIR, BLOCK)
                rotate(v, p, q, mask, cos, sin, turn, n_cols, n_cols, 1, PAIR, BLOCK)
                tl.debug_barrier()


@triton.jit
def jacobi_eigh(
    a_ptr, v_ptr, n, eps, PAIR: tl.constexpr, BLOCK: tl.constexpr, HALF: tl.constexpr,
    SWEEPS: tl.constexpr,
):  # fmt: skip
    """Rotates rows and columns until a, Hermitian, is diagonal, and the columns of v with them.

    eps: how small what is beside the diagonal has to be beside the whole's norm, bits of a float64.
    """
    a = matrix(a_ptr, n, n, PAIR)
    v = matrix(v_ptr, n, n, PAIR)
    KIND: tl.constexpr = a_ptr.dtype.element_ty
    near = limit(eps, KIND)
    players = n + n % 2
    total = near * 0
    for start in range(0, n * n, 1024):
        at = start + tl.arange(0, 1024)
        total += tl.sum(of.square(of.load(a, at, at < n * n, PAIR)), 0)
    least = near * sqrt(total)
    worst = least + near
    for _ in range(SWEEPS):
        if worst > least:
            worst = near * 0
            for step in range(players - 1):
                p, q, mask = pairs_of(step, players, HALF)
                mask = mask & (q < n)
                app = of.load(a, p * n + p, mask, PAIR)[0]
                aqq = of.load(a, q * n + q, mask, PAIR)[0]
                apq = of.load(a, p * n + q, mask, PAIR)
                worst = tl.maximum(worst, tl.max(size_of(apq), 0))
                cos, sin, turn = rotation(app, aqq, apq)
                turn_rows_and_columns(a, v, p, q, mask, cos, sin, turn, n, PAIR, BLOCK)


@triton.jit
def turn_rows_and_columns(
    a, v, p, q, mask, cos, sin, turn, n, PAIR: tl.constexpr, BLOCK: tl.constexpr
):
    """A step's rotations of a from both sides, and of v's columns."""
    tl.debug_barrier()  # all have read the diagonal
    rotate(a, p, q, mask, cos, sin, turn, n, n, 1, PAIR, BLOCK)
    rotate(v, p, q, mask, cos, sin, turn, n, n, 1, PAIR, BLOCK)
    tl.debug_barrier()
    rotate(a, p, q, mask, cos, sin, of.conj(turn), n, 1, n, PAIR, BLOCK)
    tl.debug_barrier()


@triton.jit
def jacobi_gram(
    a_ptr, v_ptr, worst_ptr, n, eps, PAIR: tl.constexpr, BLOCK: tl.constexpr,
    HALF: tl.constexpr,
):  # fmt: skip
    """One sweep over a, the products of columns with each other: v becomes the rotations' product.

    worst: the greatest cosine before; where all are near 0 (eps, as bits of a float64), v is the
    identity.
    """
    a = matrix(a_ptr, n, n, PAIR)
    v = matrix(v_ptr, n, n, PAIR)
    KIND: tl.constexpr = a_ptr.dtype.element_ty
    near = limit(eps, KIND)
    players = n + n % 2
    cols = tl.arange(0, 2 * HALF)
    squares = of.load(a, cols * (n + 1), cols < n, PAIR)[0]
    worst = tl.zeros([2 * HALF], KIND)
    for i in range(n):
        x = of.load(a, i * n + cols, (cols < n) & (cols != i), PAIR)
        own = of.load(a, i * (n + 1), None, PAIR)[0]
        worst = tl.maximum(worst, cosine_of(tl.maximum(own, 0.0), tl.maximum(squares, 0.0), x))
        one = of.number_of(tl.where(cols == i, 1.0, 0.0).to(KIND), PAIR)
        of.store(v, i * n + cols, one, cols < n)
    top = tl.max(worst, 0)
    tl.store(worst_ptr + tl.program_id(0), top)
    if top > near:
        tl.debug_barrier()
        for step in range(players - 1):
            p, q, mask = pairs_of(step, players, HALF)
            mask = mask & (q < n)
            app = tl.maximum(of.load(a, p * n + p, mask, PAIR)[0], 0.0)
            aqq = tl.maximum(of.load(a, q * n + q, mask, PAIR)[0], 0.0)
            apq = of.load(a, p * n + q, mask, PAIR)
            none = of.number_of(tl.zeros([HALF], KIND), PAIR)
            apq = of.where(cosine_of(app, aqq, apq) > near, apq, none)
            cos, sin, turn = rotation(app, aqq, apq)
            turn_rows_and_columns(a, v, p, q, mask, cos, sin, turn, n, PAIR, BLOCK)


@triton.jit
def next_round(x_ptr, y_ptr, n_rows, width, n_panels, PAIR: tl.constexpr, BLOCK: tl.constexpr):
    """Panels of two blocks of columns each, as y, with the blocks one place on in the tournament.

    The first left one stays; left ones go right, the last one to the right side, right ones go
    left, the first one to the left side.  One program copies a part of one panel.
    """
    panel = tl.program_id(0) % n_panels
    first = tl.program_id(0) - panel
    at = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = at // (2 * width)
    col = (at % (2 * width)).to(tl.int32)
    mask = row < n_rows
    right = col >= width
    last = panel == n_panels - 1
    from_right = tl.where(right, last == 0, panel == 1)
    source = tl.where(right, tl.where(last, panel, panel + 1), tl.maximum(panel - 1, 0))
    side = tl.where(from_right, width, 0) + col % width
    whole = tl.full([], 2, tl.int64) * n_rows * width
    x = of.load(x_ptr, (first + source) * whole + row * 2 * width + side, mask, PAIR)
    of.store(y_ptr, tl.program_id(0) * whole + at, x, mask)
