"""Scans on the GPU: tiles of rows, long rows in segments side by side."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays.arrays import pairs
from tritorch.core.dtype import dtype, float32, float64, int64
from tritorch.gpu.pointwise.layout import INT32_MAX, reach
from tritorch.gpu.pointwise.pointwise import triton_type
from tritorch.gpu.reduce.reduction import _limit, accumulator, unpaired
from tritorch.triton.kernel import kernel
from tritorch.triton.names import function

Array = _C.Array
_PROGRAMS = 528  # fill a GPU: four on each of 132 multiprocessors


class _Plan(NamedTuple):
    """How rows of n_cols elements are scanned: tiles, and segments that run side by side."""

    n_rows: int
    n_cols: int
    parts: int
    segment: int
    block_rows: int
    block_cols: int

    @property
    def grid(self) -> tuple[int, int]:
        return -(-self.n_rows // self.block_rows), self.parts


def plan(n_rows: int, n_cols: int, along: bool, tile: int = 1024) -> _Plan:
    """along: the scanned dim is dense in memory; else rows are, and a tile takes many of them."""
    if along:
        cols = min(max(16, 1 << (n_cols - 1).bit_length()), tile)
        rows = max(1, min(tile // cols, 1 << (n_rows - 1).bit_length()))
    else:
        rows = min(64, max(1, 1 << (n_rows - 1).bit_length()))
        cols = min(max(tile // rows, 16), max(16, 1 << (n_cols - 1).bit_length()))
    programs, parts = -(-n_rows // rows), 1
    if programs < _PROGRAMS and n_cols >= 4 * cols:
        parts = min(_PROGRAMS // programs, n_cols // (2 * cols))
    segment = -(-n_cols // parts)
    segment = -(-segment // cols) * cols
    return _Plan(n_rows, n_cols, -(-n_cols // segment), segment, rows, cols)


def _layout(x: Array, y: Array, dim: int) -> Any:
    """Strides of the scanned dim, and the shape and strides of the others."""
    kept = [i for i in range(x.ndim) if i != dim]
    shape = [x.shape[i] for i in kept]
    dims, (xs, ys) = _C.collapse(shape, [[a.strides[i] for i in kept] for a in (x, y)])
    return x.strides[dim], y.strides[dim], dims or (1,), xs or (0,), ys or (0,)


def _constants(p: _Plan, layout: Any, *arrays: Array) -> dict[str, Any]:
    reached = max(reach(a.shape, a.strides) + p.block_cols * max(a.strides) for a in arrays)
    return {
        "ROW_DIMS": len(layout[2]), "WIDE": max(p.n_rows * p.n_cols, reached) > INT32_MAX,
        "BLOCK_ROWS": p.block_rows, "BLOCK_COLS": p.block_cols, "num_warps": 4,
    }  # fmt: skip


def _accumulator(kind: dtype) -> dtype:
    """The dtype that holds running sums: a step in float32 would round what all later ones are
    made of."""
    return float64 if kind is float32 else accumulator(kind)


def _run(
    x: Array, dim: int, kind: dtype, combine: str, identity: Any, exclusive: bool = False,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """Long rows are cut into segments: what each comes to, the scan of that, and each with its
    carry.  out may be x."""
    y = _C.empty(x.shape, kind, x.device_index) if out is None else out
    if x.numel() == 0:
        return y
    n_cols, acc = x.shape[dim], _accumulator(kind)
    p = plan(x.numel() // n_cols, n_cols, x.strides[dim] == 1 or x.ndim == 1)
    layout = _layout(x, y, dim)
    how = {"COMBINE": function("scan", combine), "IDENTITY": identity, "ACC": triton_type(acc)}
    how |= _constants(p, layout, x, y)
    launch = kernel("scan", "scan_columns")
    carry = None
    if p.parts > 1:
        totals = _C.empty((p.n_rows, p.parts), acc, x.device_index)
        launch(p.grid, x, x, totals, p.n_rows, n_cols, p.segment, *layout, TOTALS=True,
               HAS_CARRY=False, EXCLUSIVE=False, **how)  # fmt: skip
        carry = _run(totals, 1, acc, combine, identity)
    launch(p.grid, x, x if carry is None else carry, y, p.n_rows, n_cols, p.segment, *layout,
           TOTALS=False, HAS_CARRY=carry is not None, EXCLUSIVE=exclusive, **how)  # fmt: skip
    return y


def _run_pairs(x: Array, dim: int, combine: str, identity: float) -> Array:
    """_run of complex numbers."""
    y = _C.empty(x.shape, x.dtype, x.device_index)
    if x.numel() == 0:
        return y
    n_cols = x.shape[dim]
    tile = 512 if combine == "log_plus" else 1024  # whose steps need more registers
    p = plan(x.numel() // n_cols, n_cols, x.strides[dim] == 1 or x.ndim == 1, tile)
    x_stride, y_stride, shape, *rows = _layout(x, y, dim)
    doubled = [tuple(2 * stride for stride in strides) for strides in rows]
    layout = (2 * x_stride, 2 * y_stride, shape, *doubled)
    how = {"COMBINE": function("pairs", combine), "IDENTITY": identity,
           "ACC": triton_type(x.dtype.to_real())}  # fmt: skip
    how |= _constants(p, layout, pairs(x), pairs(y)) | {"num_warps": 8}
    launch, carry = kernel("pairs", "scan_pairs"), None
    if p.parts > 1:
        totals = _C.empty((p.n_rows, p.parts), x.dtype, x.device_index)
        launch(p.grid, pairs(x), None, pairs(totals), p.n_rows, n_cols, p.segment, *layout,
               TOTALS=True, HAS_CARRY=False, **how)  # fmt: skip
        carry = pairs(_run_pairs(totals, 1, combine, identity))
    launch(p.grid, pairs(x), carry, pairs(y), p.n_rows, n_cols, p.segment, *layout, TOTALS=False,
           HAS_CARRY=carry is not None, **how)  # fmt: skip
    return y


def sums_before(counts: Array, n: int) -> None:
    """Each of n integers becomes the sum of those before it, in place; the whole sum follows."""
    if n > 8192:
        counts[n:].zero_()
        _run(counts, 0, counts.dtype, "plus", 0, exclusive=True, out=counts)
        return
    kernel("indexing", "exclusive_scan")(
        (1,), counts, n, BLOCK=min(max(1 << (n - 1).bit_length(), 16), 8192), num_warps=8
    )


def cumsum(x: Array, dim: int, dtype: dtype) -> Array:
    """The running sum."""
    if dtype.is_complex:
        wide = x if x.dtype is dtype else x.astype(dtype)
        return unpaired(cumsum(pairs(wide), dim, dtype.to_real()), dtype)
    return _run(x, dim, dtype, "plus", 0)


def cumprod(x: Array, dim: int, dtype: dtype) -> Array:
    """The running product."""
    if dtype.is_complex:
        return _run_pairs(x.astype(dtype), dim, "times", 1.0)
    return _run(x, dim, dtype, "times", 1)


def logcumsumexp(x: Array, dim: int) -> Array:
    """log(cumsum(exp(x))), without overflow."""
    if x.dtype.is_complex:
        return _run_pairs(x, dim, "log_plus", -math.inf)
    return _run(x, dim, x.dtype, "log_plus", -math.inf)


def _extreme(
    x: Array, dim: int, combine: str, lowest: bool, places: Array | None = None
) -> tuple[Array, Array]:
    """places: where the elements were, if x are extremes of segments."""
    y = _C.empty(x.shape, x.dtype, x.device_index)
    index = _C.empty(x.shape, int64, x.device_index)
    if x.numel() == 0:
        return y, index
    n_cols, acc = x.shape[dim], accumulator(x.dtype)
    p = plan(x.numel() // n_cols, n_cols, x.strides[dim] == 1 or x.ndim == 1)
    layout = _layout(x, y, dim)
    how = {"COMBINE": function("scan", combine), "IDENTITY": _limit(acc, lowest),
           "ACC": triton_type(acc), "HAS_PLACES": places is not None}  # fmt: skip
    how |= _constants(p, layout, x, y)
    where = index if places is None else places
    launch = kernel("scan", "scan_extreme")
    carry: tuple[Array, Array] | None = None
    if p.parts > 1:
        totals = _C.empty((p.n_rows, p.parts), acc, x.device_index)
        at = _C.empty((p.n_rows, p.parts), int64, x.device_index)
        launch(p.grid, x, where, x, where, totals, at, p.n_rows, n_cols, p.segment, *layout,
               TOTALS=True, HAS_CARRY=False, **how)  # fmt: skip
        carry = _extreme(totals, 1, combine, lowest, at)
    launch(p.grid, x, where, *(carry or (x, where)), y, index, p.n_rows, n_cols, p.segment,
           *layout, TOTALS=False, HAS_CARRY=carry is not None, **how)  # fmt: skip
    return y, index


def cummax(x: Array, dim: int) -> tuple[Array, Array]:
    """The running maximum, and where (the last of equals)."""
    return _extreme(x, dim, "later_larger", True)


def cummin(x: Array, dim: int) -> tuple[Array, Array]:
    """The running minimum, and where (the last of equals)."""
    return _extreme(x, dim, "later_smaller", False)
