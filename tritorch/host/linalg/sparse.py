"""Products with sparse matrices in CSR order, and products at their places."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 16  # elements gathered at a time, which then lie in the cache
_LONG = 1 << 14  # elements of a row's product from which each row is a call of its own


def _wide(*operands: Array) -> list[Array]:
    """Operands as NumPy multiplies them; half types in float32."""
    narrow = operands[0].dtype.kind == "V" or operands[0].dtype.name in ("float16", "bfloat16")
    return [a.astype(np.float32) for a in operands] if narrow else list(operands)


def spmm(values: Array, x: Array, pattern: Any) -> Array:
    """y[r] = sum of values[k] x[col[k]] over row r's entries.

    Rows with the same number of entries are one product of small matrices.
    """
    kind = x.dtype
    values, x = _wide(values, x)
    pointers, cols = pattern.pointers._array, pattern.cols._array
    counts = np.diff(pointers)
    out = np.zeros((counts.size, x.shape[1]), x.dtype)
    if x.shape[1] == 1:
        _spmv(values, x, pointers, cols, counts, out)
        return out.astype(kind, copy=False)
    order = np.argsort(counts, kind="stable")
    order = order[np.searchsorted(counts[order], 1) :]
    edges = np.flatnonzero(np.diff(counts[order])) + 1
    for rows in np.split(order, edges) if order.size else ():
        count = int(counts[rows[0]])
        if count * x.shape[1] >= _LONG:
            for row, start in zip(rows.tolist(), pointers[rows].tolist()):
                part = slice(start, start + count)
                np.dot(values[part], x.take(cols[part], 0), out=out[row])
            continue
        step = max(1, _BLOCK // max(count * x.shape[1], 1))
        for i in range(0, rows.size, step):
            some = rows[i : i + step]
            at = pointers[some][:, None] + np.arange(count)
            out[some] = np.matmul(values[at][:, None, :], x.take(cols[at], 0))[:, 0]
    return out.astype(kind, copy=False)


def _spmv(values: Array, x: Array, pointers: Array, cols: Array, counts: Array, out: Array) -> None:
    if not cols.size:
        return
    products = x.reshape(-1).take(cols)
    products *= values
    used = counts > 0
    out[used, 0] = np.add.reduceat(products, pointers[:-1][used])


def sampled_mm(x: Array, y: Array, pattern: Any) -> Array:
    """out[k] = sum over j of x[row[k], j] y[col[k], j]."""
    kind = x.dtype
    x, y = _wide(x, y)
    rows, cols = pattern.rows._array, pattern.cols._array
    out = np.empty(rows.shape, x.dtype)
    step = max(1, _BLOCK // max(x.shape[1], 1))
    for i in range(0, rows.size, step):
        part = slice(i, i + step)
        left, right = x.take(rows[part], 0), y.take(cols[part], 0)
        out[part] = np.einsum("kj,kj->k", left, right)
    return out.astype(kind, copy=False)


def sum_runs(values: Array, starts: Array, segment: Array) -> Array:
    """Sums of runs of rows: `starts` says where one begins, `segment` which one a row is in."""
    kind = values.dtype
    (wide,) = _wide(values)
    first = np.flatnonzero(starts)
    rest = np.flatnonzero(~starts)
    if wide.ndim == 1 or rest.size > first.size:
        out = np.add.reduceat(wide, first, axis=0)
    else:  # few rows are added to others
        out = wide[first]
        np.add.at(out, segment[rest], wide[rest])
    return out.astype(kind, copy=False)
