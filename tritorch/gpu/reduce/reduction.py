"""Reductions on the GPU: rows are what is kept, columns what is reduced.

Few long rows are reduced in two passes, segments first: always the same segments, so always the
same bits.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from tritorch import _C
from tritorch.arrays.arrays import pairs
from tritorch.core.dtype import bool_, dtype, float32, float64, int64
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.pointwise.layout import INT32_MAX, float_bits, reach
from tritorch.triton.kernel import kernel
from tritorch.triton.names import function

Array = _C.Array
Dims = tuple[int, ...]
_ROWS_ENOUGH = 1024  # programs that fill a GPU
_SEGMENT = 1 << 14


@functools.cache
def _function(name: Any) -> Any:
    return function("reduction", name) if isinstance(name, str) else name


def accumulator(kind: dtype) -> dtype:
    """What sums of a dtype are held in."""
    if kind is float64:
        return float64
    return float32 if kind.is_floating_point else int64


def _limit(kind: dtype, lowest: bool) -> Any:
    if kind.is_floating_point:
        return -math.inf if lowest else math.inf
    return -(2**63) if lowest else 2**63 - 1


def _blocks(n_rows: int, n_cols: int, contiguous: bool) -> tuple[int, int]:
    """The tile of one program: along the dim that is dense in memory."""
    if contiguous:
        cols = min(max(16, 1 << (n_cols - 1).bit_length()), 1024)
        return max(1, min(2048 // cols, 1 << (max(n_rows, 1) - 1).bit_length())), cols
    rows = min(128, max(16, 1 << (max(n_rows, 1) - 1).bit_length()))
    return rows, min(32, max(2, 1 << (n_cols - 1).bit_length()))


@dataclasses.dataclass(frozen=True)
class Plan:
    """How an array of some shape and strides is reduced: rows are kept, columns reduced."""

    shape: tuple[int, ...]  # the result's
    n_rows: int
    n_cols: int
    parts: int  # segments of each row, reduced apart first
    segment: int
    row_shape: tuple[int, ...]
    row_strides: tuple[int, ...]
    col_shape: tuple[int, ...]
    col_strides: tuple[int, ...]
    block_rows: int
    block_cols: int
    wide: bool

    @functools.cached_property
    def grid(self) -> tuple[int, int]:
        return -(-self.n_rows // self.block_rows), self.parts

    @functools.cached_property
    def layout(self) -> tuple[Dims, Dims, Dims, Dims]:
        """Shapes and strides, as kernels take them."""
        return self.row_shape, self.row_strides, self.col_shape, self.col_strides

    @functools.cached_property
    def constants(self) -> dict[str, Any]:
        """The kernels' constants."""
        return {
            "ROW_DIMS": len(self.row_shape), "COL_DIMS": len(self.col_shape), "WIDE": self.wide,
            "BLOCK_ROWS": self.block_rows, "BLOCK_COLS": self.block_cols, "num_warps": 4,
        }  # fmt: skip


@functools.lru_cache(1 << 12)
def plan(shape: Dims, strides: Dims, dims: Dims, keepdim: bool) -> Plan:
    """The plan of a reduction; dims are joined where memory allows."""
    kept = [i for i in range(len(shape)) if i not in dims]
    pick = lambda which: _C.collapse([shape[i] for i in which], [[strides[i] for i in which]])
    (row_shape, (row_strides,)), (col_shape, (col_strides,)) = pick(kept), pick(dims)
    reduced = tuple(1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims)
    n_rows, n_cols = math.prod(reduced), math.prod(shape[dim] for dim in dims)
    contiguous = bool(col_strides) and col_strides[-1] == 1
    rows, cols = _blocks(n_rows, max(n_cols, 1), contiguous)
    programs, parts = -(-n_rows // rows), 1
    if 0 < programs < _ROWS_ENOUGH and n_cols > 2 * _SEGMENT:
        parts = min(-(-n_cols // _SEGMENT), max(1, _ROWS_ENOUGH // programs))
    segment = -(-max(n_cols, 1) // parts)
    segment = -(-segment // cols) * cols
    wide = max(n_rows * n_cols, reach(shape, strides)) > INT32_MAX
    return Plan(
        reduced, n_rows, n_cols, -(-max(n_cols, 1) // segment), segment, row_shape or (1,),
        row_strides or (0,), col_shape or (1,), col_strides or (0,), rows, cols, wide,
    )  # fmt: skip


def reduce(
    x: Array,
    dims: Dims,
    keepdim: bool,
    out_dtype: dtype,
    acc: dtype,
    pre: Any,
    combine: str,
    identity: Any,
    row: Array | None = None,
    power: float = 0.0,
) -> Array:
    """y = combine over dims of pre(x, row's number, column); acc: what is accumulated in.

    pre: a function of kernels/reduction.py, or a jit function itself.
    """
    p = plan(x.shape, x.strides, dims, keepdim)
    y = _C.empty(p.shape, out_dtype, x.device_index)
    if p.n_rows == 0:
        return y
    if p.n_cols == 0:
        return y.fill_(bool(identity) if out_dtype is bool_ else identity)
    target = y if p.parts == 1 else _C.empty((p.n_rows, p.parts), acc, x.device_index)
    kernel("reduction", "reduce_columns")(
        p.grid, x, row if row is not None else x, target, p.n_rows, p.n_cols, p.segment,
        *p.layout, float_bits(power), PRE=_function(pre), COMBINE=_function(combine),
        IDENTITY=identity, ACC=pointwise.triton_type(acc), HAS_ROW=row is not None,
        **p.constants,
    )  # fmt: skip
    if p.parts == 1:
        return y
    final = reduce(target, (1,), False, out_dtype, acc, "same", combine, identity)
    return final.reshape(p.shape)


def unpaired(y: Array, kind: dtype) -> Array:
    """The inverse of `pairs`, for a dense array."""
    return y.view_dtype(kind).reshape(y.shape[:-1])


def _to(x: Array, kind: dtype) -> Array:
    return x if x.dtype is kind else x.astype(kind)


def sum(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The sum over dims."""
    if dtype.is_complex:
        wide = pairs(_to(x, dtype))
        return unpaired(sum(wide, dims, keepdim, dtype.to_real()), dtype)
    if dtype is bool_:
        return any(x, dims, keepdim)
    if x.dtype.is_complex:
        x = x.astype(dtype)
    acc = accumulator(dtype)
    if x.dtype.is_floating_point and not dtype.is_floating_point:
        x = x.astype(dtype)
    return reduce(x, dims, keepdim, dtype, acc, "same", "plus", 0)


def mean(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The mean over dims."""
    count = math.prod(x.shape[dim] for dim in dims)
    if dtype.is_complex:
        wide = pairs(_to(x, dtype))
        return unpaired(mean(wide, dims, keepdim, dtype.to_real()), dtype)
    acc = accumulator(dtype)
    total = reduce(x, dims, keepdim, acc, acc, "same", "plus", 0)
    return pointwise.call("div", (total, float(count)), acc, dtype)


def prod(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The product over dims."""
    if dtype.is_complex:
        return _complex_prod(_to(x, dtype), dims, keepdim)
    if dtype is bool_:
        return all(x, dims, keepdim)
    return reduce(x, dims, keepdim, dtype, accumulator(dtype), "same", "times", 1)


def _complex_prod(x: Array, dims: Dims, keepdim: bool) -> Array:
    p = plan(x.shape, tuple(2 * stride for stride in x.strides), dims, keepdim)
    y = _C.empty(p.shape, x.dtype, x.device_index)
    if p.n_rows == 0:
        return y
    if p.n_cols == 0:
        return y.fill_(1)
    target = y if p.parts == 1 else _C.empty((p.n_rows, p.parts), x.dtype, x.device_index)
    kernel("pairs", "product_of_columns")(
        p.grid, pairs(x), pairs(target), p.n_rows, p.n_cols, p.segment, *p.layout,
        ACC=pointwise.triton_type(x.dtype.to_real()), **(p.constants | {"num_warps": 8}),
    )  # fmt: skip
    return y if p.parts == 1 else _complex_prod(target, (1,), False).reshape(p.shape)


def amax(x: Array, dims: Dims, keepdim: bool) -> Array:
    """The largest element over dims."""
    acc = accumulator(x.dtype)
    return reduce(x, dims, keepdim, x.dtype, acc, "same", "larger", _limit(acc, True))


def amin(x: Array, dims: Dims, keepdim: bool) -> Array:
    """The smallest element over dims."""
    acc = accumulator(x.dtype)
    return reduce(x, dims, keepdim, x.dtype, acc, "same", "smaller", _limit(acc, False))


def _truths(x: Array) -> Array:
    return pointwise.call("abs", (x,), x.dtype, x.dtype.to_real()) if x.dtype.is_complex else x


def any(x: Array, dims: Dims, keepdim: bool) -> Array:
    """Whether any element is true."""
    x = _truths(x)
    acc = accumulator(x.dtype)
    return reduce(x, dims, keepdim, bool_, acc, "truth", "larger", 0)


def all(x: Array, dims: Dims, keepdim: bool) -> Array:
    """Whether all elements are true."""
    x = _truths(x)
    acc = accumulator(x.dtype)
    return reduce(x, dims, keepdim, bool_, acc, "truth", "smaller", 1)


def _extreme(x: Array, dim: int, keepdim: bool, largest: bool) -> tuple[Array, Array]:
    """The largest or smallest along a dim, and where (the first of equals), in one read."""
    p = plan(x.shape, x.strides, (dim,), keepdim)
    acc = accumulator(x.dtype)
    best = _C.empty(p.shape, x.dtype, x.device_index)
    where = _C.empty(p.shape, int64, x.device_index)
    if p.n_rows == 0:
        return best, where
    split = (p.n_rows, p.parts)
    some = best if p.parts == 1 else _C.empty(split, acc, x.device_index)
    places = where if p.parts == 1 else _C.empty(split, int64, x.device_index)
    identity = _limit(acc, largest)

    def launch(p: Plan, x: Array, i: Array, best: Array, where: Array, has_index: bool) -> None:
        kernel("reduction", "reduce_extreme")(
            p.grid, x, i, best, where, p.n_rows, p.n_cols, p.segment, *p.layout, LARGEST=largest,
            IDENTITY=identity, ACC=pointwise.triton_type(acc), HAS_INDEX=has_index,
            **p.constants,
        )  # fmt: skip

    launch(p, x, places, some, places, False)
    if p.parts > 1:
        rest = plan(split, (p.parts, 1), (1,), False)
        launch(rest, some, places, best, where, True)
    return best, where


def max_with_index(x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The largest along a dim, and where (the first of equals)."""
    return _extreme(x, dim, keepdim, True)


def min_with_index(x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The smallest along a dim, and where (the first of equals)."""
    return _extreme(x, dim, keepdim, False)


def argmax(x: Array, dim: int, keepdim: bool) -> Array:
    """Where the largest is."""
    return max_with_index(x, dim, keepdim)[1]


def argmin(x: Array, dim: int, keepdim: bool) -> Array:
    """Where the smallest is."""
    return min_with_index(x, dim, keepdim)[1]


def var(x: Array, dims: Dims, correction: float, keepdim: bool) -> Array:
    """The variance over dims."""
    return var_mean(x, dims, correction, keepdim)[0]


def var_mean(x: Array, dims: Dims, correction: float, keepdim: bool) -> tuple[Array, Array]:
    """The variance and the mean over dims, in one read; of float32 in float64, as distances from a
    rounded mean would be those from another number."""
    acc = float64 if x.dtype is float32 else accumulator(x.dtype)
    p = plan(x.shape, x.strides, dims, keepdim)
    variance, average = (_C.empty(p.shape, x.dtype, x.device_index) for _ in range(2))
    if p.n_rows == 0:
        return variance, average
    if p.n_cols == 0:
        return variance.fill_(math.nan), average.fill_(math.nan)
    divisor = float_bits(float(max(p.n_cols - correction, 0)))
    kind = pointwise.triton_type(acc)
    split = (p.n_rows, p.parts)
    one = p.parts == 1
    mean = average if one else _C.empty(split, acc, x.device_index)
    spread = variance if one else _C.empty(split, acc, x.device_index)
    kernel("reduction", "reduce_moments")(
        p.grid, x, mean, spread, p.n_rows, p.n_cols, p.segment,
        divisor if one else float_bits(1.0), *p.layout, ACC=kind, **p.constants,
    )  # fmt: skip
    if not one:
        kernel("reduction", "merge_moments")(
            (p.n_rows,), mean, spread, average, variance, p.n_rows, p.n_cols, p.segment, p.parts,
            divisor, ACC=kind, PARTS=max(1 << (p.parts - 1).bit_length(), 2), num_warps=4,
        )  # fmt: skip
    return variance, average


def vector_norm(x: Array, ord: float, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """(sum |x|^ord)^(1/ord) over dims."""
    x = _truths(x)
    acc = accumulator(dtype)
    if math.isinf(ord):
        combine = "larger" if ord > 0 else "smaller"
        identity = 0.0 if ord > 0 else math.inf
        return reduce(x, dims, keepdim, dtype, acc, "size", combine, identity)
    if ord == 0:
        return reduce(x, dims, keepdim, dtype, acc, "truth", "plus", 0)
    if ord == 1:
        return reduce(x, dims, keepdim, dtype, acc, "size", "plus", 0)
    if ord == 2:
        total = reduce(x, dims, keepdim, acc, acc, "squared", "plus", 0)
        return pointwise.call("sqrt", (total,), acc, dtype)
    total = reduce(x, dims, keepdim, acc, acc, "size_to_power", "plus", 0, power=ord)
    return pointwise.call("pow", (total, 1 / ord), acc, dtype)


def logsumexp(x: Array, dims: Dims, keepdim: bool) -> Array:
    """log(sum(exp(x))) over dims, without overflow."""
    if x.dtype.is_complex:
        return _complex_logsumexp(x, dims, keepdim)
    acc = accumulator(x.dtype)
    p = plan(x.shape, x.strides, dims, keepdim)
    y = _C.empty(p.shape, x.dtype, x.device_index)
    if p.n_rows == 0:
        return y
    if p.n_cols == 0:
        return y.fill_(-math.inf)
    one, split = p.parts == 1, (p.n_rows, p.parts)
    top = y if one else _C.empty(split, acc, x.device_index)
    total = y if one else _C.empty(split, acc, x.device_index)
    kind = pointwise.triton_type(acc)
    kernel("reduction", "reduce_logsumexp")(
        p.grid, x, top, total, p.n_rows, p.n_cols, p.segment, *p.layout, FINAL=one, ACC=kind,
        **p.constants,
    )  # fmt: skip
    if not one:
        kernel("reduction", "merge_logsumexp")(
            (p.n_rows,), top, total, y, p.parts, ACC=kind,
            PARTS=max(1 << (p.parts - 1).bit_length(), 2), num_warps=4,
        )  # fmt: skip
    return y


def _complex_logsumexp(x: Array, dims: Dims, keepdim: bool) -> Array:
    """Shifted by the greatest real part, where that is finite."""
    kind, real = x.dtype, x.dtype.to_real()
    if 0 in (x.shape[dim] for dim in dims):
        return pointwise.call("log", (sum(x, dims, keepdim, kind),), kind, kind)
    top = amax(pairs(x)[..., 0], dims, True)
    finite = pointwise.call("isfinite", (top,), real, bool_)
    top = pointwise.call("where", (finite, top, 0.0), real, real)
    off = pointwise.call("exp", (pointwise.call("sub", (x, top), kind, kind),), kind, kind)
    logs = pointwise.call("log", (sum(off, dims, True, kind),), kind, kind)
    shape = plan(x.shape, x.strides, dims, keepdim).shape
    return pointwise.call("add", (logs, top), kind, kind).reshape(shape)
