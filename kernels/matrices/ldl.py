"""A = L D L^H of symmetric or Hermitian matrices, and systems by its factors; PAIR: complex ones.

D has blocks of one and two columns (Bunch and Kaufman's).
"""

import triton
import triton.language as tl

from ..scalar import numbers as of
from ..scalar.elementary import negated
from .factor import matrix


@triton.jit
def adjoint(x, HERMITIAN: tl.constexpr):
    """What stands on the other side of the diagonal."""
    return of.conj(x) if HERMITIAN else x


@triton.jit
def real_if(x, HERMITIAN: tl.constexpr):
    """A number of the diagonal, which is real in Hermitian matrices."""
    if HERMITIAN and len(x) == 2:
        return (x[0], tl.zeros_like(x[1]))
    else:
        return x


@triton.jit
def largest(a, line, first, beside, n, PAIR: tl.constexpr, BLOCK: tl.constexpr):
    """The greatest magnitude in a row of a from a place on (but for one place), and where it is."""
    best = tl.full([BLOCK], -1.0, a.dtype.element_ty)
    where = tl.full([BLOCK], 0, tl.int32)
    for start in range(first, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = (at < n) & (at != beside)
        x = of.height(of.load(a, line.to(tl.int64) * n + at, mask, PAIR))
        x = tl.where(mask, tl.where(x == x, x, float("inf")), -1.0)
        better = x > best
        best = tl.where(better, x, best)
        where = tl.where(better, at, where)
    top = tl.max(best, 0)
    return tl.maximum(top, 0.0), tl.min(tl.where(best == top, where, 2147483647), 0)


@triton.jit
def swap(a, one, other, first, n, step, line_step, PAIR: tl.constexpr, BLOCK: tl.constexpr):
    """Swaps two lines from a place on; step: from one of a line's numbers to the next."""
    for start in range(first, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x_at = one.to(tl.int64) * line_step + at.to(tl.int64) * step
        y_at = other.to(tl.int64) * line_step + at.to(tl.int64) * step
        x = of.load(a, x_at, at < n, PAIR)
        y = of.load(a, y_at, at < n, PAIR)
        of.store(a, x_at, y, at < n)
        of.store(a, y_at, x, at < n)


@triton.jit
def subtract(a, k, last, two, n, PAIR: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Subtracts what a block of one or two columns explains of the rest, and leaves L there."""
    d00 = of.load(a, k.to(tl.int64) * (n + 1), None, PAIR)
    d11 = of.load(a, last.to(tl.int64) * (n + 1), None, PAIR)
    d01 = of.load(a, k.to(tl.int64) * n + last, None, PAIR)
    d10 = of.load(a, last.to(tl.int64) * n + k, None, PAIR)
    det = of.where(two, of.minus(of.times(d00, d11), of.times(d01, d10)), d00)
    for start in range(last + 1, n, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = rows < n
        first_at = rows.to(tl.int64) * n + k
        second_at = rows.to(tl.int64) * n + last
        c0 = of.load(a, first_at, inside, PAIR)
        c1 = of.load(a, second_at, inside, PAIR)
        l0 = of.over(of.where(two, of.minus(of.times(c0, d11), of.times(c1, d10)), c0), det)
        l1 = of.over(of.minus(of.times(c1, d00), of.times(c0, d01)), det)
        l1 = of.where(two, l1, of.number_of(tl.zeros([ROWS], a.dtype.element_ty), PAIR))
        for start_col in range(last + 1, n, COLS):
            cols = start_col + tl.arange(0, COLS)
            mask = inside[:, None] & (cols < n)[None, :]
            r0 = of.load(a, k.to(tl.int64) * n + cols, cols < n, PAIR)
            r1 = of.load(a, last.to(tl.int64) * n + cols, cols < n, PAIR)
            at = rows.to(tl.int64)[:, None] * n + cols[None, :]
            x = of.load(a, at, mask, PAIR)
            x = of.minus(x, of.times(of.column(l0), of.row(r0)))
            x = of.minus(x, of.times(of.column(l1), of.row(r1)))
            of.store(a, at, x, mask)
        tl.debug_barrier()  # all have read both columns
        of.store(a, first_at, l0, inside)
        of.store(a, second_at, l1, inside & two)


@triton.jit
def ldl_factor(
    a_ptr, pivots_ptr, info_ptr, n, HERMITIAN: tl.constexpr, PAIR: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Factors whole matrices, both triangles, in place; one program a matrix.

    pivots: the row swapped with, from 1; negative for both of a block of two.  info: the first
    column that is zero, from 1.
    """
    a = matrix(a_ptr, n, n, PAIR)
    pivots = pivots_ptr + tl.program_id(0).to(tl.int64) * n
    k = tl.full([], 0, tl.int32)
    info = tl.full([], 0, tl.int32)
    while k < n:
        here = of.height(real_if(of.load(a, k.to(tl.int64) * (n + 1), None, PAIR), HERMITIAN))
        most, best = largest(a, k, k + 1, n, n, PAIR, BLOCK)
        best = tl.where(most > 0, best, k)
        beside, _ = largest(a, best, k, best, n, PAIR, BLOCK)
        there = of.load(a, best.to(tl.int64) * (n + 1), None, PAIR)
        there = of.height(real_if(there, HERMITIAN))
        alpha = 0.6403882032022076  # (1 + sqrt(17)) / 8, which bounds how numbers grow
        stays = (here >= alpha * most) | (here * beside >= alpha * most * most)
        two = ((stays | (there >= alpha * beside)) == 0) & (k + 1 < n)
        with_row = tl.where(stays, k, best)
        last = tl.where(two, k + 1, k)
        zero = tl.maximum(here, most) == 0
        info = tl.where(zero & (info == 0), k + 1, info)
        tl.debug_barrier()  # all have read the columns
        if with_row != last:
            swap(a, last, with_row, k, n, 1, n, PAIR, BLOCK)
            tl.debug_barrier()
            swap(a, last, with_row, k, n, n, 1, PAIR, BLOCK)
            tl.debug_barrier()
        signed = tl.where(two, negated(with_row + 1), with_row + 1)
        tl.store(pivots + k, signed)
        tl.store(pivots + last, signed)
        if zero == 0:
            subtract(a, k, last, two, n, PAIR, ROWS, COLS)
        tl.debug_barrier()
        k = last + 1
    tl.store(info_ptr + tl.program_id(0), info)


@triton.jit
def swap_rows(b, one, other, n_cols, col, mask, PAIR: tl.constexpr):
    """Swaps two rows of some columns."""
    x_at = one.to(tl.int64) * n_cols + col
    y_at = other.to(tl.int64) * n_cols + col
    x = of.load(b, x_at, mask, PAIR)
    y = of.load(b, y_at, mask, PAIR)
    of.store(b, x_at, y, mask)
    of.store(b, y_at, x, mask)


@triton.jit
def below(
    a, b, j, first, n, n_cols, col, mask, HERMITIAN: tl.constexpr, PAIR: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The sum of L[i, j] (conjugated) b[i] of rows i from a place on."""
    sums = of.number_of(tl.zeros([COLS], b.dtype.element_ty), PAIR)
    for start in range(first, n, ROWS):
        rows = start + tl.arange(0, ROWS)
        x = of.load(a, rows.to(tl.int64) * n + j, rows < n, PAIR)
        at = rows.to(tl.int64)[:, None] * n_cols + col[None, :]
        y = of.load(b, at, (rows < n)[:, None] & mask[None, :], PAIR)
        sums = of.plus(sums, of.total(of.times(of.column(adjoint(x, HERMITIAN)), y), 0))
    return sums


@triton.jit
def row_of(pivot, n):
    """The row that a pivot names; one that names none reads no other memory."""
    return tl.minimum(tl.maximum(tl.abs(pivot) - 1, 0), n - 1)


@triton.jit
def ldl_solve(
    a_ptr, pivots_ptr, b_ptr, n, n_cols, HERMITIAN: tl.constexpr, PAIR: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """b becomes x of a x = b by the factors of a.  One program solves COLS columns of a matrix."""
    a = matrix(a_ptr, n, n, PAIR)
    b = matrix(b_ptr, n, n_cols, PAIR)
    pivots = pivots_ptr + tl.program_id(0).to(tl.int64) * n
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    mask = col < n_cols
    k = tl.full([], 0, tl.int32)
    while k < n:
        pivot = tl.load(pivots + k).to(tl.int32)
        two = (pivot < 0) & (k + 1 < n)
        last = tl.where(two, k + 1, k)
        swap_rows(b, last, row_of(pivot, n), n_cols, col, mask, PAIR)
        tl.debug_barrier()
        x0 = of.load(b, k.to(tl.int64) * n_cols + col, mask, PAIR)
        x1 = of.load(b, last.to(tl.int64) * n_cols + col, mask, PAIR)
        x1 = of.where(two, x1, of.number_of(tl.zeros([COLS], b_ptr.dtype.element_ty), PAIR))
        for start in range(last + 1, n, ROWS):
            rows = start + tl.arange(0, ROWS)
            inside = rows < n
            l0 = of.load(a, rows.to(tl.int64) * n + k, inside, PAIR)
            l1 = of.load(a, rows.to(tl.int64) * n + last, inside, PAIR)
            at = rows.to(tl.int64)[:, None] * n_cols + col[None, :]
            y = of.load(b, at, inside[:, None] & mask[None, :], PAIR)
            y = of.minus(y, of.times(of.column(l0), of.row(x0)))
            y = of.minus(y, of.times(of.column(l1), of.row(x1)))
            of.store(b, at, y, inside[:, None] & mask[None, :])
        d0 = real_if(of.load(a, k.to(tl.int64) * (n + 1), None, PAIR), HERMITIAN)
        d1 = real_if(of.load(a, last.to(tl.int64) * (n + 1), None, PAIR), HERMITIAN)
        off = of.load(a, last.to(tl.int64) * n + k, None, PAIR)
        other = adjoint(off, HERMITIAN)
        det = of.minus(of.times(d0, d1), of.times(off, other))
        top = of.over(of.minus(of.times(d1, x0), of.times(other, x1)), of.where(two, det, d0))
        low = of.over(of.minus(of.times(d0, x1), of.times(off, x0)), of.where(two, det, d0))
        top = of.where(two, top, of.over(x0, d0))
        tl.debug_barrier()  # all have read the block's rows
        of.store(b, k.to(tl.int64) * n_cols + col, top, mask)
        of.store(b, last.to(tl.int64) * n_cols + col, low, mask & two)
        tl.debug_barrier()
        k = last + 1
    k = n - 1
    while k >= 0:
        pivot = tl.load(pivots + k).to(tl.int32)
        first = tl.where((pivot < 0) & (k > 0), k - 1, k)
        one = below(a, b, k, k + 1, n, n_cols, col, mask, HERMITIAN, PAIR, ROWS, COLS)
        other = below(a, b, first, k + 1, n, n_cols, col, mask, HERMITIAN, PAIR, ROWS, COLS)
        x = of.load(b, k.to(tl.int64) * n_cols + col, mask, PAIR)
        y = of.load(b, first.to(tl.int64) * n_cols + col, mask, PAIR)
        tl.debug_barrier()  # all have read both rows
        of.store(b, k.to(tl.int64) * n_cols + col, of.minus(x, one), mask)
        of.store(b, first.to(tl.int64) * n_cols + col, of.minus(y, other), mask & (first < k))
        tl.debug_barrier()
        swap_rows(b, k, row_of(pivot, n), n_cols, col, mask, PAIR)
        tl.debug_barrier()
        k = first - 1
