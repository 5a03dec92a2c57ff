"""Factorisations of batches of dense matrices: panels of some columns, one program a matrix.

A panel is factored in place, column by column: each column's pass goes through the panel's rows in
blocks.  What one thread stores and another reads again stands on two sides of a barrier.  What lies
beside a panel is `solve_rows` and a product (gpu/factor.py).
"""

import triton
import triton.language as tl

from .elementary import negated, quotient, sqrt
from .pointwise import maximum


@triton.jit
def matrix(ptr, n_rows, n_cols):
    """This program's matrix."""
    return ptr + tl.program_id(0).to(tl.int64) * n_rows * n_cols


@triton.jit
def eliminate(
    a, j, scale, first_row, n_rows, n_cols, row, col, end, LOWER: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """a[i, j] /= scale, and a[i, c] -= a[i, j] row[c] for the panel's columns c after j.

    LOWER: of c up to i.
    """
    for start in range(first_row, n_rows, BLOCK_ROWS):
        rows = start + tl.arange(0, BLOCK_ROWS)
        inside = rows < n_rows
        below = quotient(tl.load(a + rows.to(tl.int64) * n_cols + j, mask=inside, other=0.0), scale)
        at = a + rows.to(tl.int64)[:, None] * n_cols + col[None, :]
        mask = inside[:, None] & ((col > j) & (col < end))[None, :]
        if LOWER:
            mask = mask & (col[None, :] <= rows[:, None])
        x = tl.load(at, mask=mask, other=0.0)
        tl.debug_barrier()  # all have read column j
        tl.store(a + rows.to(tl.int64) * n_cols + j, below, mask=inside)
        tl.store(at, x - below[:, None] * row[None, :], mask=mask)


@triton.jit
def lu_panel(
    a_ptr, pivots_ptr, info_ptr, n_rows, n_cols, n_pivots, start, end, BLOCK_ROWS: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Columns start to end of P a = L U, with the largest of each column as pivot.

    Rows are swapped whole.  pivots: the rows swapped with, from 1; info: the first pivot that is 0,
    from 1.  One program factors one matrix's panel of at most WIDTH columns.
    """
    a = matrix(a_ptr, n_rows, n_cols)
    col = start + tl.arange(0, WIDTH)
    info = tl.load(info_ptr + tl.program_id(0))
    for j in range(start, end):
        best = tl.full([BLOCK], -1.0, a_ptr.dtype.element_ty)
        where = tl.full([BLOCK], 0, tl.int32)
        for first in range(j, n_rows, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            x = tl.abs(tl.load(a + rows.to(tl.int64) * n_cols + j, mask=rows < n_rows, other=-1.0))
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
            here = tl.load(a + j.to(tl.int64) * n_cols + at, mask=mask)
            there = tl.load(a + pivot.to(tl.int64) * n_cols + at, mask=mask)
            tl.store(a + j.to(tl.int64) * n_cols + at, there, mask=mask)
            tl.store(a + pivot.to(tl.int64) * n_cols + at, here, mask=mask)
        tl.debug_barrier()
        diagonal = tl.load(a + j.to(tl.int64) * n_cols + j)
        info = tl.where((info == 0) & (diagonal == 0), j + 1, info)
        row = tl.load(a + j.to(tl.int64) * n_cols + col, mask=(col > j) & (col < end), other=0.0)
        scale = tl.where(diagonal == 0, 1.0, diagonal).to(a_ptr.dtype.element_ty)
        eliminate(a, j, scale, j + 1, n_rows, n_cols, row, col, end, False, BLOCK_ROWS, WIDTH)
        tl.debug_barrier()
    tl.store(info_ptr + tl.program_id(0), info)


@triton.jit
def cholesky_panel(a_ptr, info_ptr, n, start, end, BLOCK_ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Columns start to end of a = L L^T, of the lower triangle.

    info: the first leading minor that is not positive, from 1; from there on nothing is stored.
    """
    a = matrix(a_ptr, n, n)
    col = start + tl.arange(0, WIDTH)
    info = tl.load(info_ptr + tl.program_id(0))
    for j in range(start, end):
        diagonal = tl.load(a + j.to(tl.int64) * n + j)
        info = tl.where((info == 0) & ((diagonal > 0) == 0), j + 1, info)
        if info == 0:
            root = sqrt(diagonal)
            row = tl.load(a + col.to(tl.int64) * n + j, mask=(col > j) & (col < end), other=0.0)
            tl.debug_barrier()  # all have read column j
            tl.store(a + j.to(tl.int64) * n + j, root)
            eliminate(
                a, j, root, j + 1, n, n, quotient(row, root), col, end, True, BLOCK_ROWS, WIDTH
            )
        tl.debug_barrier()
    tl.store(info_ptr + tl.program_id(0), info)


@triton.jit
def solve_rows(
    a_ptr, b_ptr, size, n_cols, a_batch_stride, a_row_stride, a_col_stride, b_batch_stride,
    b_row_stride, b_col_stride, UPPER: tl.constexpr, UNIT: tl.constexpr, EYE: tl.constexpr,
    SIZE: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """b becomes x of a x = b, a triangle of at most SIZE rows (UNIT: with ones on its diagonal).

    EYE: of the identity, whatever was in b.  One program solves BLOCK_COLS columns of one matrix,
    in registers, row after row.
    """
    batch = tl.program_id(0).to(tl.int64)
    a = a_ptr + batch * a_batch_stride
    rows = tl.arange(0, SIZE)
    cols = tl.program_id(1) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    at = (
        b_ptr
        + batch * b_batch_stride
        + rows.to(tl.int64)[:, None] * b_row_stride
        + cols.to(tl.int64)[None, :] * b_col_stride
    )
    mask = (rows < size)[:, None] & (cols < n_cols)[None, :]
    if EYE:
        x = tl.where(rows[:, None] == cols[None, :], 1.0, 0.0).to(b_ptr.dtype.element_ty)
    else:
        x = tl.load(at, mask=mask, other=0.0)
    for step in range(size):
        i = size - 1 - step if UPPER else step
        row = tl.sum(tl.where(rows[:, None] == i, x, 0.0), 0)
        column = a + rows.to(tl.int64) * a_row_stride + i.to(tl.int64) * a_col_stride
        if not UNIT:
            row = quotient(row, tl.load(a + i.to(tl.int64) * (a_row_stride + a_col_stride)))
            x = tl.where(rows[:, None] == i, row[None, :], x)
        if UPPER:
            rest = rows < i
        else:
            rest = (rows > i) & (rows < size)
        factors = tl.load(column, mask=rest, other=0.0)
        x = tl.where(rest[:, None], x - factors[:, None] * row[None, :], x)
    tl.store(at, x, mask=mask)


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
        here = tl.load(order + j)
        there = tl.load(order + pivot)
        tl.store(order + j, there)
        tl.store(order + pivot, here)


@triton.jit
def reflect_panel(
    a_ptr, tau_ptr, n_rows, n_cols, n_taus, start, end, BLOCK_ROWS: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Columns start to end of a = Q R by Householder's reflections 1 - tau v v^T, as LAPACK's.

    v (its first number is 1) stays below the diagonal.  One program factors one matrix's panel.
    """
    a = matrix(a_ptr, n_rows, n_cols)
    col = start + tl.arange(0, WIDTH)
    for j in range(start, end):
        largest = tl.zeros([BLOCK], a_ptr.dtype.element_ty)
        for first in range(j + 1, n_rows, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            x = tl.load(a + rows.to(tl.int64) * n_cols + j, mask=rows < n_rows, other=0.0)
            largest = maximum(largest, tl.abs(x))
        alpha = tl.load(a + j.to(tl.int64) * n_cols + j)
        top = maximum(tl.max(largest, 0), tl.abs(alpha))
        top = tl.where(top == 0, 1.0, top).to(a_ptr.dtype.element_ty)
        total = tl.zeros([BLOCK], a_ptr.dtype.element_ty)
        for first in range(j + 1, n_rows, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            x = tl.load(a + rows.to(tl.int64) * n_cols + j, mask=rows < n_rows, other=0.0)
            x = quotient(x, top)
            total += x * x
        rest = tl.sum(total, 0)
        scaled = quotient(alpha, top)
        norm = sqrt(scaled * scaled + rest) * top
        beta = tl.where(alpha < 0, norm, negated(norm))
        none = rest == 0  # nothing to reflect
        beta = tl.where(none, alpha, beta)
        tau = tl.where(none, 0.0, quotient(beta - alpha, tl.where(none, 1.0, beta)))
        tau = tau.to(a_ptr.dtype.element_ty)
        scale = tl.where(none, 1.0, alpha - beta).to(a_ptr.dtype.element_ty)
        tl.debug_barrier()  # all have read alpha
        tl.store(tau_ptr + tl.program_id(0).to(tl.int64) * n_taus + j, tau)
        tl.store(a + j.to(tl.int64) * n_cols + j, beta)
        for first in range(j + 1, n_rows, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            at = a + rows.to(tl.int64) * n_cols + j
            x = tl.load(at, mask=rows < n_rows, other=0.0)
            tl.store(at, quotient(x, scale), mask=rows < n_rows)
        tl.debug_barrier()
        reflect(a, a, j, tau, n_rows, n_cols, n_cols, col, (col > j) & (col < end), BLOCK_ROWS)
        tl.debug_barrier()


@triton.jit
def reflect(v, c, j, tau, n_rows, v_cols, c_cols, col, mask, BLOCK_ROWS: tl.constexpr):
    """Rows j on of some columns of c, reflected by column j of v."""
    top = c + j.to(tl.int64) * c_cols + col
    total = tl.load(top, mask=mask, other=0.0)
    for first in range(j + 1, n_rows, BLOCK_ROWS):
        rows = first + tl.arange(0, BLOCK_ROWS)
        inside = rows < n_rows
        x = tl.load(v + rows.to(tl.int64) * v_cols + j, mask=inside, other=0.0)
        at = c + rows.to(tl.int64)[:, None] * c_cols + col[None, :]
        y = tl.load(at, mask=inside[:, None] & mask[None, :], other=0.0)
        total += tl.sum(x[:, None] * y, 0)
    total = total * tau
    tl.debug_barrier()  # all have read row j
    tl.store(top, tl.load(top, mask=mask, other=0.0) - total, mask=mask)
    for first in range(j + 1, n_rows, BLOCK_ROWS):
        rows = first + tl.arange(0, BLOCK_ROWS)
        inside = rows < n_rows
        x = tl.load(v + rows.to(tl.int64) * v_cols + j, mask=inside, other=0.0)
        at = c + rows.to(tl.int64)[:, None] * c_cols + col[None, :]
        y = tl.load(at, mask=inside[:, None] & mask[None, :], other=0.0)
        tl.store(at, y - x[:, None] * total[None, :], mask=inside[:, None] & mask[None, :])


@triton.jit
def reflect_columns(
    v_ptr, tau_ptr, c_ptr, n_rows, v_cols, c_cols, n_taus, first_col, start, end,
    BACKWARDS: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Columns of c from first_col on, reflected by columns start to end of v (BACKWARDS: the last
    one first).  One program reflects BLOCK_COLS columns of one matrix."""
    v = matrix(v_ptr, n_rows, v_cols)
    c = matrix(c_ptr, n_rows, c_cols)
    col = first_col + tl.program_id(1) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    for step in range(start, end):
        j = start + end - 1 - step if BACKWARDS else step
        tau = tl.load(tau_ptr + tl.program_id(0).to(tl.int64) * n_taus + j)
        reflect(v, c, j, tau, n_rows, v_cols, c_cols, col, col < c_cols, BLOCK_ROWS)
        tl.debug_barrier()
