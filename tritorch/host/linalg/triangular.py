"""Triangular systems, LU and LDL of batches of matrices: blocks, whose work is in matmul.

NumPy shows neither.  Its `solve` of an upper triangular matrix, though, is back substitution: with
zeros below the diagonal there is nothing to eliminate and no row to swap.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_BLOCK = 48  # rows that are solved at once
_PANEL = 8  # columns that are eliminated one by one


def magnitude(x: Array) -> Array:
    """What pivots are chosen by, as LAPACK does: |re| + |im|."""
    return np.abs(x) if x.dtype.kind == "f" else np.abs(x.real) + np.abs(x.imag)


# ---- triangular systems --------------------------------------------------------------------------


def solve_triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """x of a x = b; of a, the triangle (unit: without its diagonal) is read."""
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    x = np.empty(shape, b.dtype)
    if 0 in shape:
        return x
    x[...] = b
    rows = x if upper else x[..., ::-1, :]  # lower triangles are upper ones, read backwards
    a = a if upper else a[..., ::-1, ::-1]
    for high in range(a.shape[-1], 0, -_BLOCK):
        low = max(high - _BLOCK, 0)
        part = rows[..., low:high, :]
        part[...] = _back_substituted(a[..., low:high, low:high], part, unit)
        if low:
            rows[..., :low, :] -= a[..., :low, low:high] @ part
    return x


def _back_substituted(a: Array, b: Array, unit: bool) -> Array:
    a = np.triu(a)
    n = a.shape[-1]
    if unit:
        a[..., np.arange(n), np.arange(n)] = 1
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:  # zeros on the diagonal: infinities and NaN
        x = np.array(b)
        for k in range(n - 1, -1, -1):
            x[..., k, :] /= a[..., k, k, None]
            x[..., :k, :] -= a[..., :k, k, None] * x[..., k, None, :]
        return x


def inverse(a: Array, upper: bool, unit: bool) -> Array:
    """The inverse of a triangle (unit: without its diagonal)."""
    eye = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    return solve_triangular(a, eye, upper, unit)


# ---- LU ------------------------------------------------------------------------------------------


def lu_factor(a: Array) -> tuple[Array, Array, Array]:
    """L below the diagonal and U in one matrix; the swaps of rows, from 1; which pivot is zero."""
    m, n = a.shape[-2:]
    k, batch = min(m, n), a.shape[:-2]
    x = np.array(a, order="C").reshape(math.prod(batch), m, n)
    pivots = np.empty((len(x), k), np.int32)
    if x.size:
        _factor(x, pivots, 0)
    zero = np.diagonal(x, 0, 1, 2) == 0
    info = np.where(zero.any(1), zero.argmax(1) + 1, 0) if k else np.zeros(len(x))
    return (
        x.reshape(a.shape),
        pivots.reshape(*batch, k),
        info.astype(np.int32).reshape(batch),
    )


def _factor(x: Array, pivots: Array, start: int) -> Array:
    """Factors (batch, m, n) in place, by halves; gives the order its rows came into."""
    m, n = x.shape[1:]
    k = min(m, n)
    if n <= _PANEL:
        return (_one_panel if len(x) == 1 else _panels)(x, pivots, start)
    half = k // 2 if k > 1 else 1
    if half >= n:
        return _panels(x, pivots, start)
    left, right = x[:, :, :half], x[:, :, half:]
    order = _factor(left, pivots, start)
    right[...] = _rows(right, order)
    right[:, :half] = solve_triangular(left[:, :half], right[:, :half], False, True)
    if half == m:
        return order
    right[:, half:] -= left[:, half:] @ right[:, :half]
    then = _factor(right[:, half:], pivots, start + half)
    left[:, half:] = _rows(left[:, half:], then)
    order[:, half:] = np.take_along_axis(order[:, half:], then, 1)
    return order


def _rows(x: Array, order: Array) -> Array:
    if len(x) == 1:
        return x[:, order[0]]
    return x[np.arange(len(x))[:, None], order]


def _one_panel(batch: Array, pivots: Array, start: int) -> Array:
    """Some columns of one matrix, one after the other, as rows of a copy: those are dense."""
    x = np.ascontiguousarray(batch[0].T)
    n, m = x.shape
    order = list(range(m))
    complex_ = x.dtype.kind == "c"
    for j in range(min(m, n)):
        column = x[j, j:]
        p = j + int((magnitude(column) if complex_ else np.abs(column)).argmax())
        pivots[0, start + j] = start + p + 1
        if p != j:
            order[j], order[p] = order[p], order[j]
            x[:, [j, p]] = x[:, [p, j]]
        pivot = x[j, j]
        below = x[j, j + 1 :]
        if pivot != 0:
            below /= pivot
        if j + 1 < n:
            x[j + 1 :, j + 1 :] -= x[j + 1 :, j, None] * below
    batch[0] = x.T
    return np.array(order)[None]


def _panels(x: Array, pivots: Array, start: int) -> Array:
    """Some columns of many matrices, one after the other."""
    count, m, n = x.shape
    order = np.broadcast_to(np.arange(m), (count, m)).copy()
    every = np.arange(count)
    for j in range(min(m, n)):
        p = j + magnitude(x[:, j:, j]).argmax(1)
        pivots[:, start + j] = start + p + 1
        for swapped in (x, order):
            row = swapped[every, p]
            swapped[every, p] = swapped[:, j]
            swapped[:, j] = row
        pivot = x[:, j, j]
        below = x[:, j + 1 :, j]
        below /= np.where(pivot == 0, 1, pivot)[:, None]
        x[:, j + 1 :, j + 1 :] -= below[:, :, None] * x[:, j, None, j + 1 :]
    return order


def permutation(pivots: Array, m: int) -> Array:
    """The order that rows come into by swaps (counted from 1)."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.broadcast_to(np.arange(m), (len(flat), m)).copy()
    every = np.arange(len(flat))
    for j in range(flat.shape[1]):
        p = flat[:, j] - 1
        row = order[every, p]
        order[every, p] = order[:, j]
        order[:, j] = row
    return order.reshape(*pivots.shape[:-1], m)


def lu_solve(lu: Array, pivots: Array, b: Array) -> Array:
    """x of a x = b, by the factors of a."""
    order = permutation(pivots, lu.shape[-1])[..., None]
    b = np.broadcast_to(b, (*lu.shape[:-2], *b.shape[-2:]))
    y = solve_triangular(lu, np.take_along_axis(b, order, -2), False, True)
    return solve_triangular(lu, y, True, False)


# ---- LDL -----------------------------------------------------------------------------------------

_ALPHA = (1 + 17**0.5) / 8  # which bounds the growth of the elements


def ldl_factor(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """Bunch and Kaufman's L and D (blocks of 1 and 2) in one matrix, the swaps, which pivot is 0.

    The matrices of a batch go in step, each with its own position.
    """
    n, batch = a.shape[-1], a.shape[:-2]
    lower = np.tril(a).reshape(math.prod(batch), n, n)
    mirrored = np.swapaxes(np.tril(lower, -1), -1, -2)
    x = lower + (mirrored.conj() if hermitian else mirrored)
    count, every, positions = len(x), np.arange(len(x)), np.arange(n)
    pivots = np.zeros((count, n), np.int32)
    info = np.zeros(count, np.int32)
    k = np.zeros(count, np.int64)
    while count and (k < n).any():
        at = np.minimum(k, n - 1)
        active = k < n
        swap, two, zero = _choose(x, at, every, positions, hermitian)
        two &= active
        info[active & zero & (info == 0)] = at[active & zero & (info == 0)] + 1
        last = at + two
        _swap(x, every, positions, at, last, np.where(active, swap, last))
        signed = np.where(two, -swap - 1, swap + 1)
        pivots[every[active], at[active]] = signed[active]
        pivots[every[two], last[two]] = signed[two]
        _eliminate(x, every, positions, at, last, two, active & ~zero, int(at.min()))
        k = k + np.where(active, 1 + two, 0)
    x = np.tril(x)
    if hermitian and n:
        x[:, positions, positions] = x[:, positions, positions].real
    return x.reshape(a.shape), pivots.reshape(*batch, n), info.reshape(batch)


def _choose(x: Array, at: Array, every: Array, positions: Array, hermitian: bool) -> Any:
    """The row to swap with, whether the block is 2 by 2, and whether the column is zero."""
    diagonal = x[every, at, at]
    here = np.abs(diagonal.real) if hermitian else magnitude(diagonal)
    column = np.where(positions > at[:, None], magnitude(x[every, :, at]), -1.0)
    best = column.argmax(1)
    most = np.maximum(column.max(1), 0)
    row = magnitude(x[every, best])
    row = np.where((positions >= at[:, None]) & (positions != best[:, None]), row, 0).max(1)
    other = x[every, best, best]
    there = np.abs(other.real) if hermitian else magnitude(other)
    stays = (here >= _ALPHA * most) | (here * row >= _ALPHA * most * most)
    alone = stays | (there >= _ALPHA * row)
    return np.where(stays, at, best), ~alone, np.maximum(here, most) == 0


def _swap(x: Array, every: Array, positions: Array, at: Array, one: Array, two: Array) -> None:
    """Swaps rows and columns of what is left of each matrix."""
    moved = one != two
    if not moved.any():
        return
    every, at, one, two = every[moved], at[moved], one[moved], two[moved]
    left = positions >= at[:, None]
    for view in (x, np.swapaxes(x, 1, 2)):
        first, second = view[every, one], view[every, two]
        view[every, one] = np.where(left, second, first)
        view[every, two] = np.where(left, first, second)


def _eliminate(
    x: Array, every: Array, positions: Array, at: Array, last: Array, two: Array, active: Array,
    start: int,
) -> None:  # fmt: skip
    """Subtracts what one block explains of the rest."""
    rest = (positions > last[:, None]) & active[:, None]
    c0, c1 = x[every, :, at], x[every, :, last]
    r0, r1 = np.where(rest, x[every, at], 0), np.where(rest, x[every, last], 0)
    d00, d11 = x[every, at, at], x[every, last, last]
    d01, d10 = x[every, at, last], x[every, last, at]
    det = np.where(two, d00 * d11 - d01 * d10, d00)[:, None]
    pair = two[:, None]
    l0 = np.where(pair, c0 * d11[:, None] - c1 * d10[:, None], c0) / det
    l1 = np.where(pair, c1 * d00[:, None] - c0 * d01[:, None], 0) / det
    l0, l1 = np.where(rest, l0, 0), np.where(rest & pair, l1, 0)
    trailing = x[:, start:, start:]
    trailing -= l0[:, start:, None] * r0[:, None, start:]
    if two.any():
        trailing -= l1[:, start:, None] * r1[:, None, start:]
        x[every, :, last] = np.where(rest & pair, l1, x[every, :, last])
    x[every, :, at] = np.where(rest, l0, x[every, :, at])


def ldl_solve(ld: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """x of a x = b, by the factors of a."""
    n = ld.shape[-1]
    if 0 in ld.shape or 0 in b.shape:
        return np.zeros(b.shape, b.dtype)
    flat, swaps = ld.reshape(-1, n, n), pivots.reshape(-1, n)
    right = b.reshape(len(flat), n, -1)
    lower, order, first = _unswapped(flat, swaps)
    y = solve_triangular(lower, np.take_along_axis(right, order[..., None], 1), False, True)
    y = _solve_blocks(flat, y, first, hermitian)
    turned = np.swapaxes(lower, 1, 2)
    y = solve_triangular(turned.conj() if hermitian else turned, y, True, True)
    out = np.empty_like(y)
    np.put_along_axis(out, order[..., None], y, 1)
    return out.reshape(b.shape)


def _unswapped(ld: Array, pivots: Array) -> tuple[Array, Array, Array]:
    """L with every swap applied to all its columns, the order of rows, where blocks of 2 begin."""
    count, n = pivots.shape
    every, positions = np.arange(count), np.arange(n)
    first = np.zeros((count, n), bool)
    for i in range(n - 1):
        first[:, i] = (pivots[:, i] < 0) & ~(first[:, i - 1] if i else False)
    lower = np.tril(ld, -1)
    lower[:, 1:][first[:, :-1], positions[None, :-1].repeat(count, 0)[first[:, :-1]]] = 0
    order = np.broadcast_to(positions, (count, n)).copy()
    for i in range(n):
        swap = np.where(first[:, i], i, np.abs(pivots[:, i]) - 1)
        if (swap == i).all():
            continue
        begin = i - (first[:, i - 1] if i else 0)
        before = positions < np.asarray(begin).reshape(-1, 1)
        one, two = lower[:, i].copy(), lower[every, swap]
        lower[every, swap] = np.where(before, one, two)
        lower[:, i] = np.where(before, np.where((swap == i)[:, None], one, two), one)
        held = order[every, swap]
        order[every, swap] = order[:, i]
        order[:, i] = held
    return lower, order, first


def _solve_blocks(ld: Array, y: Array, first: Array, hermitian: bool) -> Array:
    """Divides by the block diagonal."""
    n = ld.shape[-1]
    d = np.diagonal(ld, 0, 1, 2)
    out = y / d[..., None]
    if n > 1:
        pair = first[:, :-1, None]
        off = np.where(first[:, :-1], np.diagonal(ld, -1, 1, 2), 0)[..., None]
        over = off.conj() if hermitian else off
        a, c = d[:, :-1, None], d[:, 1:, None]
        det = a * c - off * over
        top = (c * y[:, :-1] - over * y[:, 1:]) / det
        low = (a * y[:, 1:] - off * y[:, :-1]) / det
        out[:, :-1] = np.where(pair, top, out[:, :-1])
        out[:, 1:] = np.where(pair, low, out[:, 1:])
    return out
