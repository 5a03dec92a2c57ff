"""Factorisations of batches of dense matrices: panels of some columns, one program a matrix.

A panel is factored in place, column by column: each column's pass goes through the panel's rows in
blocks.  What one thread stores and another reads again stands on two sides of a barrier.  What lies
beside a panel is `solve_rows` and a product (gpu/linalg/factor.py).  Numbers are those of
`numbers.py`: PAIR says that they are complex.
"""

import triton
import triton.language as tl

from ..pointwise import maximum
from ..scalar import numbers as of
from ..scalar.elementary import negated, sqrt


@triton.jit
def matrix(ptr, n_rows, n_cols, PAIR: tl.constexpr):
    """This program's matrix."""
    first = tl.program_id(0).to(tl.int64) * n_rows * n_cols
    return ptr + 2 * first if PAIR else ptr + first


@triton.jit
def eliminate(
    a, j, scale, first_row, n_rows, n_cols, row, col, end, LOWER: tl.constexpr,
    PAIR: tl.constexpr, BLOCK_ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """a[i, j] /= scale, and a[i, c] -= a[i, j] row[c] for the panel's columns c after j.

    LOWER: of c up to i.
    """
    for start in range(first_row, n_rows, BLOCK_ROWS):
        rows = start + tl.arange(0, BLOCK_ROWS)
        inside = rows < n_rows
        beside = rows.to(tl.int64) * n_cols + j
        below = of.over(of.load(a, beside, inside, PAIR), scale)
        at = rows.to(tl.int64)[:, None] * n_cols + col[None, :]
        mask = inside[:, None] & ((col > j) & (col < end))[None, :]
        if LOWER:
            mask = mask & (col[None, :] <= rows[:, None])
        x = of.load(a, at, mask, PAIR)
        tl.debug_barrier()  # all have read column j
        of.store(a, beside, below, inside)
        of.store(a, at, of.minus(x, of.times(of.column(below), of.row(row))), mask)


@triton.jit
def lu_panel(
    a_ptr, pivots_ptr, info_ptr, n_rows, n_cols, n_pivots, start, end, PAIR: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Columns start to end of P a = L U, with the largest of each column as pivot.

    Rows are swapped whole.  pivots: the rows swapped with, from 1; info: the first pivot that is 0,
    from 1.  One program factors one matrix's panel of at most WIDTH columns.
    """
    a = matrix(a_ptr, n_rows, n_cols, PAIR)
    col = start + tl.arange(0, WIDTH)
    info = tl.load(info_ptr + tl.program_id(0))
    for j in range(start, end):
        best = tl.full([BLOCK], -1.0, a_ptr.dtype.element_ty)
        where = tl.full([BLOCK], 0, tl.int32)
        for first in range(j, n_rows, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            x = of.height(of.load(a, rows.to(tl.int64) * n_cols + j, rows < n_rows, PAIR))
            x = tl.where(rows < n_rows, tl.where(x == x, x, float("inf")), -1.0)
            better = x > best
            best = tl.where(better, x, best)
            where = tl.where(better, rows, where)
        top = tl.max(best, 0)
        pivot = tl.min(tl.where(best == top, where, 2147483647), 0)
        tl.store(pivots_ptr + tl.program_id(0).to(tl.int64) * n_pivots + j, pivot + 1)
        tl.debug_barrier()  # all have read column j
        for first in range(0, n_cols, BLOCK):
            at = first + tl.arange(0, BLOCK)
            mask = at < n_cols
            here = of.load(a, j.to(tl.int64) * n_cols + at, mask, PAIR)
            there = of.load(a, pivot.to(tl.int64) * n_cols + at, mask, PAIR)
            of.store(a, j.to(tl.int64) * n_cols + at, there, mask)
            of.store(a, pivot.to(tl.int64) * n_cols + at, here, mask)
        tl.debug_barrier()
        diagonal = of.load(a, j.to(tl.int64) * n_cols + j, None, PAIR)
        zero = of.is_zero(diagonal)
        info = tl.where((info == 0) & zero, j + 1, info)
        row = of.load(a, j.to(tl.int64) * n_cols + col, (col > j) & (col < end), PAIR)
        one = of.number_of(tl.full([], 1.0, a_ptr.dtype.element_ty), PAIR)
        scale = of.where(zero, one, diagonal)
        eliminate(a, j, scale, j + 1, n_rows, n_cols, row, col, end, False, PAIR, BLOCK_ROWS, WIDTH)
        tl.debug_barrier()
    tl.store(info_ptr + tl.program_id(0), info)


@triton.jit
def cholesky_panel(
    a_ptr, info_ptr, n, start, end, PAIR: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Columns start to end of a = L L^H, of the lower triangle.

    info: the first leading minor that is not positive, from 1; from there on nothing is stored.
    """
    a = matrix(a_ptr, n, n, PAIR)
    col = start + tl.arange(0, WIDTH)
    info = tl.load(info_ptr + tl.program_id(0))
    for j in range(start, end):
        diagonal = of.load(a, j.to(tl.int64) * n + j, None, PAIR)[0]
        info = tl.where((info == 0) & ((diagonal > 0) == 0), j + 1, info)
        if info == 0:
            root = of.number_of(sqrt(diagonal), PAIR)
            row = of.load(a, col.to(tl.int64) * n + j, (col > j) & (col < end), PAIR)
            tl.debug_barrier()  # all have read column j
            of.store(a, j.to(tl.int64) * n + j, root, None)
            row = of.conj(of.shrunk(row, root[0]))
            eliminate(a, j, root, j + 1, n, n, row, col, end, True, PAIR, BLOCK_ROWS, WIDTH)
        tl.debug_barrier()
    tl.store(info_ptr + tl.program_id(0), info)


@triton.jit
def solve_rows(
    a_ptr, b_ptr, size, n_cols, a_batch_stride, a_row_stride, a_col_stride, b_batch_stride,
    b_row_stride, b_col_stride, UPPER: tl.constexpr, UNIT: tl.constexpr, EYE: tl.constexpr,
    PAIR: tl.constexpr, SIZE: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """b becomes x of a x = b, a triangle of at most SIZE rows (UNIT: with ones on its diagonal).

    EYE: of the identity, whatever was in b.  One program solves BLOCK_COLS columns of one matrix,
    in registers, row after row.
    """
    KIND: tl.constexpr = b_ptr.dtype.element_ty
    batch = tl.program_id(0).to(tl.int64)
    a_first = batch * a_batch_stride
    rows = tl.arange(0, SIZE)
    cols = tl.program_id(1) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    at = (
        batch * b_batch_stride
        + rows.to(tl.int64)[:, None] * b_row_stride
        + cols.to(tl.int64)[None, :] * b_col_stride
    )
    mask = (rows < size)[:, None] & (cols < n_cols)[None, :]
    if EYE:
        one = tl.where(rows[:, None] == cols[None, :], 1.0, 0.0).to(KIND)
        x = of.number_of(one, PAIR)
    else:
        x = of.load(b_ptr, at, mask, PAIR)
    none = of.number_of(tl.zeros([SIZE, BLOCK_COLS], KIND), PAIR)
    for step in range(size):
        i = size - 1 - step if UPPER else step
        row = of.total(of.where(rows[:, None] == i, x, none), 0)
        if not UNIT:
            diagonal = a_first + i.to(tl.int64) * (a_row_stride + a_col_stride)
            row = of.over(row, of.load(a_ptr, diagonal, None, PAIR))
            x = of.where(rows[:, None] == i, of.row(row), x)
        if UPPER:
            rest = rows < i
        else:
            rest = (rows > i) & (rows < size)
        column = a_first + rows.to(tl.int64) * a_row_stride + i.to(tl.int64) * a_col_stride
        factors = of.column(of.load(a_ptr, column, rest, PAIR))
        x = of.where(rest[:, None], of.minus(x, of.times(factors, of.row(row))), x)
    of.store(b_ptr, at, x, mask)


@triton.jit
def order_of_swaps(pivots_ptr, order_ptr, n_pivots, n_rows, BLOCK: tl.constexpr):
    """Where the rows came from that were swapped one after the other; one program a matrix."""
    order = order_ptr + tl.program_id(0).to(tl.int64) * n_rows
    pivots = pivots_ptr + tl.program_id(0).to(tl.int64) * n_pivots
    for first in range(0, n_rows, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        tl.store(order + rows, rows.to(tl.int64), mask=rows < n_rows)
    tl.debug_barrier()
    for j in range(n_pivots):
        pivot = tl.load(pivots + j) - 1
        pivot = tl.minimum(tl.maximum(pivot, 0), n_rows - 1)  # a wrong one reads no other memory
        here = tl.load(order + j)
        there = tl.load(order + pivot)
        tl.store(order + j, there)
        tl.store(order + pivot, here)


@triton.jit
def reflect_panel(
    a_ptr, tau_ptr, n_rows, n_cols, n_taus, start, end, PAIR: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Columns start to end of a = Q R by Householder's reflections 1 - tau v v^H, as LAPACK's.

    v (its first number is 1) stays below the diagonal, which is real.  One program factors one
    matrix's panel.
    """
    KIND: tl.constexpr = a_ptr.dtype.element_ty
    a = matrix(a_ptr, n_rows, n_cols, PAIR)
    col = start + tl.arange(0, WIDTH)
    for j in range(start, end):
        largest = tl.zeros([BLOCK], KIND)
        for first in range(j + 1, n_rows, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            x = of.load(a, rows.to(tl.int64) * n_cols + j, rows < n_rows, PAIR)
            largest = maximum(largest, of.top_of(x))
        corner = j.to(tl.int64) * n_cols + j
        alpha = of.load(a, corner, None, PAIR)
        top = maximum(tl.max(largest, 0), of.top_of(alpha))
        top = tl.where(top == 0, 1.0, top).to(KIND)
        total = tl.zeros([BLOCK], KIND)
        for first in range(j + 1, n_rows, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            x = of.load(a, rows.to(tl.int64) * n_cols + j, rows < n_rows, PAIR)
            total += of.square(of.shrunk(x, top))
        rest = tl.sum(total, 0)
        norm = sqrt(of.square(of.shrunk(alpha, top)) + rest) * top
        beta = tl.where(alpha[0] < 0, norm, negated(norm))
        none = rest == 0  # nothing to reflect
        if PAIR:
            none = none & (alpha[1] == 0)
        beta = tl.where(none, alpha[0], beta).to(KIND)
        real = of.number_of(beta, PAIR)
        zero = of.number_of(tl.zeros([], KIND), PAIR)
        one = of.number_of(tl.full([], 1.0, KIND), PAIR)
        safe = tl.where(none, 1.0, beta).to(KIND)
        tau = of.where(none, zero, of.shrunk(of.neg(of.minus(alpha, real)), safe))
        scale = of.where(none, one, of.minus(alpha, real))
        tl.debug_barrier()  # all have read alpha
        of.store(tau_ptr, tl.program_id(0).to(tl.int64) * n_taus + j, tau, None)
        of.store(a, corner, real, None)
        for first in range(j + 1, n_rows, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            at = rows.to(tl.int64) * n_cols + j
            x = of.load(a, at, rows < n_rows, PAIR)
            of.store(a, at, of.over(x, scale), rows < n_rows)
        tl.debug_barrier()
        reflect(
            a, a, j, of.conj(tau), n_rows, n_cols, n_cols, col, (col > j) & (col < end), PAIR,
            BLOCK_ROWS,
        )  # fmt: skip
        tl.debug_barrier()


@triton.jit
def reflect(
    v, c, j, tau, n_rows, v_cols, c_cols, col, mask, PAIR: tl.constexpr, BLOCK_ROWS: tl.constexpr
):
    """Rows j on of some columns of c, times 1 - tau v v^H of column j of v."""
    top = j.to(tl.int64) * c_cols + col
    sums = of.load(c, top, mask, PAIR)
    for first in range(j + 1, n_rows, BLOCK_ROWS):
        rows = first + tl.arange(0, BLOCK_ROWS)
        inside = rows < n_rows
        x = of.column(of.conj(of.load(v, rows.to(tl.int64) * v_cols + j, inside, PAIR)))
        at = rows.to(tl.int64)[:, None] * c_cols + col[None, :]
        y = of.load(c, at, inside[:, None] & mask[None, :], PAIR)
        sums = of.plus(sums, of.total(of.times(x, y), 0))
    sums = of.times(sums, tau)
    tl.debug_barrier()  # all have read row j
    of.store(c, top, of.minus(of.load(c, top, mask, PAIR), sums), mask)
    for first in range(j + 1, n_rows, BLOCK_ROWS):
        rows = first + tl.arange(0, BLOCK_ROWS)
        inside = rows < n_rows
        x = of.column(of.load(v, rows.to(tl.int64) * v_cols + j, inside, PAIR))
        at = rows.to(tl.int64)[:, None] * c_cols + col[None, :]
        y = of.load(c, at, inside[:, None] & mask[None, :], PAIR)
        of.store(c, at, of.minus(y, of.times(x, of.row(sums))), inside[:, None] & mask[None, :])


@triton.jit
def reflect_columns(
    v_ptr, tau_ptr, c_ptr, n_rows, v_cols, c_cols, n_taus, first_col, start, end,
    BACKWARDS: tl.constexpr, PAIR: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Columns of c from first_col on, reflected by columns start to end of v: Q^H c (BACKWARDS: the
    last one first, Q c).  One program reflects BLOCK_COLS columns of one matrix."""
    v = matrix(v_ptr, n_rows, v_cols, PAIR)
    c = matrix(c_ptr, n_rows, c_cols, PAIR)
    col = first_col + tl.program_id(1) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    for step in range(start, end):
        j = start + end - 1 - step if BACKWARDS else step
        tau = of.load(tau_ptr, tl.program_id(0).to(tl.int64) * n_taus + j, None, PAIR)
        if not BACKWARDS:
            tau = of.conj(tau)
        reflect(v, c, j, tau, n_rows, v_cols, c_cols, col, col < c_cols, PAIR, BLOCK_ROWS)
        tl.debug_barrier()


@triton.jit
def joined_reflections(
    g_ptr, tau_ptr, t_ptr, size, n_taus, start, PAIR: tl.constexpr, SIZE: tl.constexpr
):
    """T of the product of a panel's reflections, 1 - V T V^H, of g = V^H V and their factors.

    One program makes one matrix's in registers, by columns: T[:j, j] = -tau T[:j, :j] g[:j, j].
    """
    KIND: tl.constexpr = g_ptr.dtype.element_ty
    g = matrix(g_ptr, size, size, PAIR)
    rows = tl.arange(0, SIZE)
    cols = rows[None, :]
    t = of.number_of(tl.zeros([SIZE, SIZE], KIND), PAIR)
    for j in range(size):
        tau = of.load(tau_ptr, tl.program_id(0).to(tl.int64) * n_taus + start + j, None, PAIR)
        known = of.load(g, rows * size + j, rows < j, PAIR)
        made = of.total(of.times(t, of.row(known)), 1)
        made = of.where(rows == j, tau, of.neg(of.times(tau, made)))
        t = of.where((cols == j) & (rows[:, None] <= j), of.column(made), t)
    at = rows[:, None] * size + cols
    of.store(matrix(t_ptr, size, size, PAIR), at, t, (rows < size)[:, None] & (cols < size))
