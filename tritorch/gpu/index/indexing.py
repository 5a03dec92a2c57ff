"""Gathering and scattering, always in index order: the same inputs give the same bits.

# Note [Keys]
What is written by index is described once, as keys: key[i] is the number of the place that the
i-th index points to, and each place holds `inner` elements.  Plain writes let the largest i of a
key win, which integer atomics find.  Reductions sort the keys, stably, and walk through runs of
equal ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritorch import _C
from tritorch.core.dtype import (
    dtype,
    float32,
    float64,
    int32,
    int64,
    uint64,
)
from tritorch.gpu import errors
from tritorch.gpu.arrays import _as_bits
from tritorch.gpu.index import radix
from tritorch.gpu.linalg.matmul import parts, triton_name
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.pointwise.layout import INT32_MAX, block_size, broadcast_strides, reach
from tritorch.gpu.reduce import scan
from tritorch.triton.kernel import kernel

Array = _C.Array
Ints = tuple[int, ...]


def _strides(shape: Sequence[int]) -> Ints:
    """Of a row-major array."""
    out, step = [0] * len(shape), 1
    for dim in reversed(range(len(shape))):
        out[dim] = step
        step *= max(shape[dim], 1)
    return tuple(out)


def _collapse(shape: Sequence[int], strides: list[Sequence[int]]) -> tuple[Ints, list[Ints]]:
    """Joined dims, at least one."""
    dims, joined = _C.collapse(tuple(shape), [tuple(s) for s in strides])
    return (dims, list(joined)) if dims else ((1,), [(0,)] * len(strides))


def _insert(strides: Sequence[int], dim: int, value: int = 0) -> Ints:
    return (*strides[:dim], value, *strides[dim + 1 :])


# ---- gathering -----------------------------------------------------------------------------------


FEW_KEYS = 1024  # that are sorted by comparing each with all
_BOUNDS = "index {value} is out of bounds for dimension {0} with size {1}"
_BOUNDS_OF_SEVERAL = "index {value} is out of bounds for dimensions {0} with sizes {1}"


def _mark(operator: str, index: int, dims: Sequence[int], sizes: Ints) -> tuple[Array, int]:
    if len(dims) == 1:
        return errors.mark(index, operator, _BOUNDS, (dims[0], sizes[0]))
    return errors.mark(index, operator, _BOUNDS_OF_SEVERAL, (tuple(dims), sizes))


def _gather(
    operator: str,
    dims_named: Sequence[int],
    x: Array,
    indices: Sequence[Array],
    shape: Ints,
    x_strides: Sequence[int],
    index_strides: Sequence[Ints],
    sizes: Ints,
    steps: Ints,
    wrap: bool,
) -> Array:
    """A dense array of a shape; strides say how x and the indices are read along it."""
    out = _C.empty(shape, x.dtype, x.device_index)
    if out.numel() == 0:
        return out
    bits, y = _as_bits(x), _as_bits(out)
    if bits.ndim > x.ndim:  # complex128: two words an element
        shape = (*shape, 2)
        x_strides = (*(2 * s for s in x_strides), 1)
        index_strides = [(*s, 0) for s in index_strides]
        steps = tuple(2 * s for s in steps)
    n = math.prod(shape)
    far = reach(shape, x_strides) + sum(size * step for size, step in zip(sizes, steps))
    wide = max(n, far, *(reach(shape, s) for s in index_strides)) > INT32_MAX
    dims, (x_joined, *joined) = _collapse(shape, [x_strides, *index_strides])
    block, warps = block_size(n)
    kernel("indexing", "gather")(
        (-(-n // block),), bits, tuple(indices), y, n, dims, x_joined, tuple(joined), sizes, steps,
        *_mark(operator, x.device_index, dims_named, sizes),
        NDIM=len(dims), N_INDEX=len(indices), WRAP=wrap, WIDE=wide, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return out


def gather(x: Array, dim: int, index: Array) -> Array:
    """x[index[i, j], j]."""
    return _gather(
        "gather",
        (dim,),
        x,
        (index,),
        index.shape,
        _insert(x.strides, dim),
        (index.strides,),
        (x.shape[dim],),
        (x.strides[dim],),
        False,
    )


def index_select(x: Array, dim: int, index: Array) -> Array:
    """Entries of a dim."""
    shape = _insert(x.shape, dim, index.numel())
    along = _insert((0,) * x.ndim, dim, index.strides[0] if index.ndim else 0)
    return _gather(
        "index_select",
        (dim,),
        x,
        (index,),
        shape,
        _insert(x.strides, dim),
        (along,),
        (x.shape[dim],),
        (x.strides[dim],),
        False,
    )


def take(x: Array, index: Array) -> Array:
    """Elements of the flattened array."""
    flat = x.contiguous()  # one index counts through all dims
    return _gather(
        "take", (0,), flat, (index,), index.shape, (0,) * index.ndim, (index.strides,),
        (x.numel(),), (1,), True,
    )  # fmt: skip


@dataclass
class _Advanced:
    """An advanced index: the dims it indexes, the others, and where its own dims come."""

    dims: list[int]
    others: list[int]
    arrays: list[Array]
    shape: Ints  # of the index arrays, broadcast
    lead: int  # how many of the other dims come first

    def __init__(self, x: Array, indices: tuple[Array | None, ...]) -> None:
        self.dims = [dim for dim, index in enumerate(indices) if index is not None]
        self.others = [dim for dim in range(x.ndim) if dim not in self.dims]
        self.arrays = [index for index in indices if index is not None]
        self.shape = pointwise.broadcast_shape(self.arrays)
        adjacent = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        self.lead = self.dims[0] if adjacent else 0

    def arrange(self, inner: Sequence[int], own: Sequence[int]) -> Ints:
        """What belongs to the other dims and to the index's, in the order of the result."""
        return (*inner[: self.lead], *own, *inner[self.lead :])

    def array_strides(self) -> list[Ints]:
        return [broadcast_strides(a.shape, a.strides, self.shape) for a in self.arrays]


def index(x: Array, indices: tuple[Array | None, ...]) -> Array:
    """x[indices]."""
    key = _Advanced(x, indices)
    none = (0,) * len(key.others)
    return _gather(
        "index",
        key.dims,
        x,
        key.arrays,
        key.arrange([x.shape[dim] for dim in key.others], key.shape),
        key.arrange([x.strides[dim] for dim in key.others], (0,) * len(key.shape)),
        [key.arrange(none, strides) for strides in key.array_strides()],
        tuple(x.shape[dim] for dim in key.dims),
        tuple(x.strides[dim] for dim in key.dims),
        True,
    )


# ---- scattering ----------------------------------------------------------------------------------


@dataclass
class Writes:
    """What goes where: see Note [Keys].  Strides of y, which is written, and of x, the source."""

    keys: Array
    n_keys: int
    key_shape: Ints
    y_key: Ints
    outer_shape: Ints
    x_outer: Ints
    inner_shape: Ints
    x_inner: Ints
    y_inner: Ints

    def launch_layout(self, x: Array, y: Array, n_parts: int) -> tuple[Any, ...]:
        """Joined dims; with an element of n_parts words as one more dim of each place."""
        scale = lambda strides: tuple(n_parts * s for s in strides)
        key_shape, (y_key,) = _collapse(self.key_shape, [scale(self.y_key)])
        outer_shape, (x_outer,) = _collapse(self.outer_shape, [scale(self.x_outer)])
        inner_shape, (x_inner, y_inner) = _collapse(
            (*self.inner_shape, n_parts), [(*scale(self.x_inner), 1), (*scale(self.y_inner), 1)]
        )
        width = math.prod(self.inner_shape) * n_parts
        far = max(
            self.keys.numel() * width,
            reach(key_shape, y_key) + reach(inner_shape, y_inner),
            reach(outer_shape, x_outer) + reach(inner_shape, x_inner),
        )
        layout = (key_shape, y_key, outer_shape, x_outer, inner_shape, x_inner, y_inner)
        return width, layout, far > INT32_MAX


def _make_keys(
    operator: str,
    dims_named: Sequence[int],
    arrays: Sequence[Array],
    shape: Ints,
    key_strides: Sequence[int],
    array_strides: Sequence[Sequence[int]],
    sizes: Ints,
    steps: Ints,
    n_keys: int,
    wrap: bool,
) -> Array:
    n = math.prod(shape)
    keys = _C.empty((n,), int64, arrays[0].device_index)
    if n:
        dims, (joined, *others) = _collapse(shape, [key_strides, *array_strides])
        block, warps = block_size(n)
        kernel("indexing", "index_keys")(
            (-(-n // block),),
            tuple(arrays),
            keys,
            n,
            dims,
            joined,
            tuple(others),
            sizes,
            steps,
            n_keys,
            *_mark(operator, keys.device_index, dims_named, sizes),
            NDIM=len(dims),
            N_INDEX=len(arrays),
            WRAP=wrap,
            BLOCK=block,
            num_warps=warps,
        )
    return keys


def _elementwise(x: Array, dim: int, index: Array, source: Array) -> Writes:
    """Writes of single elements at index[i, j], j into a dense array like x."""
    n, strides = x.numel(), _strides(x.shape)
    keys = _make_keys(
        "scatter",
        (dim,),
        (index,),
        index.shape,
        _insert(strides, dim),
        (index.strides,),
        (x.shape[dim],),
        (strides[dim],),
        n,
        False,
    )
    return Writes(keys, n, (n,), (1,), index.shape, source.strides, (), (), ())


def _along(operator: str, y: Array, dim: int, index: Array, source: Array) -> Writes:
    """Writes of slices of a dim of y."""
    keys = _make_keys(
        operator,
        (dim,),
        (index,),
        (index.numel(),),
        (0,),
        (index.strides or (0,),),
        (y.shape[dim],),
        (1,),
        y.shape[dim],
        False,
    )
    without = lambda values: (*values[:dim], *values[dim + 1 :])
    return Writes(
        keys, y.shape[dim], (y.shape[dim],), (y.strides[dim],), (index.numel(),),
        (source.strides[dim],), without(y.shape), without(source.strides), without(y.strides),
    )  # fmt: skip


def _write(y: Array, x: Array, writes: Writes, same: bool = False) -> Array:
    """y[key[i]] = x[i], the last i wins; same: all that go to one place are equal."""
    n = writes.keys.numel()
    if n == 0 or y.numel() == 0 or math.prod(writes.inner_shape) == 0:
        return y
    winner = writes.keys
    if not same:
        winner = _C.empty((writes.n_keys,), int32 if n <= INT32_MAX else int64, y.device_index)
        winner.fill_(-1)
        block, warps = block_size(n)
        kernel("indexing", "claim")(
            (-(-n // block),), writes.keys, winner, n, writes.n_keys, BLOCK=block, num_warps=warps
        )
    source, target = _as_bits(x), _as_bits(y)
    width, layout, wide = writes.launch_layout(x, y, 1 + target.ndim - y.ndim)
    block, warps = block_size(n * width)
    kernel("indexing", "scatter")(
        (-(-n * width // block),), writes.keys, winner, source, target, n * width, writes.n_keys,
        width, *layout, CLAIMED=not same, N_KEY=len(layout[0]), N_OUTER=len(layout[2]),
        N_INNER=len(layout[4]), WIDE=wide, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return y


def sort_keys(keys: Array, n_keys: int) -> tuple[Array, Array]:
    """Keys in 0 .. n_keys in order, and where each was: a stable radix sort, if they are many."""
    n, index = keys.numel(), keys.device_index
    fresh = lambda: (_C.empty((n,), int64, index), _C.empty((n,), int64, index))
    if n <= FEW_KEYS:
        target = fresh()
        kernel("indexing", "sort_few")(
            (-(-n // 32),), keys, *target, n, PART=128, BLOCK=32, num_warps=4
        )
        return target
    shifts = list(range(0, max(n_keys.bit_length(), 1), 8))
    in_order, order = radix.sort_rows(keys.reshape((1, n)), shifts, False, False, int64, int64)
    return in_order.reshape((n,)), order.reshape((n,))


def compute_type(kind: dtype) -> dtype:
    """The type that reductions of a real type compute in."""
    if kind.is_floating_point:
        return float64 if kind is float64 else float32
    return kind if kind in (int64, uint64) else int64 if kind.itemsize == 4 else int32


def reduce_into(y: Array, x: Array, writes: Writes, op: str, include_self: bool = True) -> Array:
    """y[key] = op of y[key] (unless include_self is false) and all x[i] with that key, in order."""
    n = writes.keys.numel()
    if n == 0 or y.numel() == 0 or math.prod(writes.inner_shape) == 0:
        return y
    n_parts = 1
    if y.dtype.is_complex:
        y, x, n_parts, whole = parts(y), parts(x), 2, y
    else:
        whole = y
    keys, order = sort_keys(writes.keys, writes.n_keys)
    width, layout, wide = writes.launch_layout(x, y, n_parts)
    chunk = min(max(1 << (n.bit_length() // 2), 32), 1024)
    n_chunks = -(-n // chunk)
    compute = compute_type(y.dtype)
    partial = _C.empty((n_chunks, 2, width), compute, y.device_index)
    counts = _C.empty((n_chunks, 2), int64, y.device_index)
    block_cols = min(1 << (width - 1).bit_length(), 512)
    block_rows = max(128 // block_cols, 1)
    n_col_blocks = -(-width // block_cols)
    kernel("indexing", "segment_reduce")(
        (-(-n // block_rows) * n_col_blocks,), keys, order, x, y, partial, counts, n,
        writes.n_keys, width, chunk, *layout, OP=op, SELF=include_self,
        COMPUTE=triton_name(compute), N_KEY=len(layout[0]), N_OUTER=len(layout[2]),
        N_INNER=len(layout[4]), WIDE=wide, BLOCK_ROWS=block_rows, BLOCK_COLS=block_cols,
        num_warps=4,
    )  # fmt: skip
    if n_chunks > 1:
        key_shape, y_key, _, _, inner_shape, _, y_inner = layout
        kernel("indexing", "segment_finish")(
            (-(-n_chunks // block_rows) * n_col_blocks,), keys, y, partial, counts, n,
            writes.n_keys, n_chunks, width, chunk, key_shape, y_key, inner_shape, y_inner, OP=op,
            SELF=include_self, N_KEY=len(key_shape), N_INNER=len(inner_shape), WIDE=wide,
            BLOCK_ROWS=block_rows, BLOCK_COLS=block_cols, num_warps=4,
        )  # fmt: skip
    return whole


def _number(value: Any, kind: dtype, index: int) -> Array:
    return _C.empty((), kind, index).fill_(value)


def scatter(x: Array, dim: int, index: Array, src: Array) -> Array:
    """x with src at index; the last write wins."""
    return _write(x.clone(), src, _elementwise(x, dim, index, src))


def scatter_value(x: Array, dim: int, index: Array, value: Any) -> Array:
    """x with a number at index."""
    src = _number(value, x.dtype, x.device_index).expand(index.shape)
    return _write(x.clone(), src, _elementwise(x, dim, index, src), same=True)


def scatter_add(x: Array, dim: int, index: Array, src: Array) -> Array:
    """x with src added at index."""
    return reduce_into(x.clone(), src, _elementwise(x, dim, index, src), "sum")


def scatter_reduce(
    x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> Array:
    """x with src reduced into it at index."""
    writes = _elementwise(x, dim, index, src)
    return reduce_into(x.clone(), src, writes, reduce, include_self)


def index_add(x: Array, dim: int, index: Array, source: Array, alpha: Any) -> Array:
    """x with alpha * source added at indices of a dim."""
    out = x.clone()
    if alpha != 1:
        wide = x.dtype if x.dtype.is_complex else compute_type(x.dtype)
        source = pointwise.call("mul", (source, alpha), wide, wide)
    return reduce_into(out, source, _along("index_add", out, dim, index, source), "sum")


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool
) -> Array:
    """x with slices of source reduced into those at indices of a dim."""
    out = x.clone()
    writes = _along("index_reduce", out, dim, index, source)
    return reduce_into(out, source, writes, reduce, include_self)


def index_copy(x: Array, dim: int, index: Array, source: Array) -> Array:
    """x with source at indices of a dim."""
    out = x.clone()
    return _write(out, source, _along("index_copy", out, dim, index, source))


def index_fill(x: Array, dim: int, index: Array, value: Any) -> Array:
    """x with a number at indices of a dim."""
    out = x.clone()
    source = _number(value, x.dtype, x.device_index).expand(_insert(x.shape, dim, index.numel()))
    return _write(out, source, _along("index_fill", out, dim, index, source), same=True)


def put(x: Array, index: Array, source: Array, accumulate: bool) -> Array:
    """x with source at indices of the flattened array."""
    out, n = x.clone(), x.numel()
    source = source.reshape((source.numel(),))
    index = index.reshape((index.numel(),))
    keys = _make_keys(
        "put", (0,), (index,), index.shape, (0,), (index.strides,), (n,), (1,), n, True
    )
    writes = Writes(keys, n, (n,), (1,), index.shape, source.strides, (), (), ())
    return reduce_into(out, source, writes, "sum") if accumulate else _write(out, source, writes)


def index_put_(
    x: Array, indices: tuple[Array | None, ...], values: Array, accumulate: bool
) -> Array:
    """x[indices] = values, or += values."""
    key = _Advanced(x, indices)
    inner_shape = tuple(x.shape[dim] for dim in key.others)
    whole = key.arrange(inner_shape, key.shape)
    strides = broadcast_strides(values.shape, values.strides, whole)
    if values.dtype is not x.dtype:
        values = values.astype(x.dtype)
        strides = broadcast_strides(values.shape, values.strides, whole)
    if values.shares_storage(x):
        values = values.clone()
        strides = broadcast_strides(values.shape, values.strides, whole)
    sizes = tuple(x.shape[dim] for dim in key.dims)
    n_keys = math.prod(sizes)
    keys = _make_keys(
        "index_put",
        key.dims,
        key.arrays,
        key.shape,
        (0,) * len(key.shape),
        key.array_strides(),
        sizes,
        _strides(sizes),
        n_keys,
        True,
    )
    own = slice(key.lead, key.lead + len(key.shape))
    writes = Writes(
        keys, n_keys, sizes, tuple(x.strides[dim] for dim in key.dims), key.shape, strides[own],
        inner_shape, (*strides[: own.start], *strides[own.stop :]),
        tuple(x.strides[dim] for dim in key.others),
    )  # fmt: skip
    if accumulate:
        return reduce_into(x, values, writes, "sum")
    return _write(x, values, writes, same=values.numel() == 1)


# ---- masks ---------------------------------------------------------------------------------------


def _mask_starts(mask: Array, shape: Ints, strides: Ints) -> tuple[Array, Any, int, bool]:
    """Where each block's first set element goes, and how the mask is launched over."""
    n = math.prod(shape)
    pair = mask.dtype.is_complex
    if pair:
        mask, strides = parts(mask), tuple(2 * s for s in strides)
    dims, (joined,) = _collapse(shape, [strides])
    wide = max(n, reach(shape, strides)) > INT32_MAX
    n_blocks = -(-n // 1024)
    starts = _C.empty((n_blocks + 1,), int64, mask.device_index)
    kernel("indexing", "mask_count")(
        (n_blocks,), mask, starts, n, dims, joined, NDIM=len(dims), COMPLEX=pair, WIDE=wide,
        BLOCK=1024, num_warps=4,
    )  # fmt: skip
    scan.sums_before(starts, n_blocks)
    return starts, (mask, dims, joined), n_blocks, wide


def _total(starts: Array, n_blocks: int) -> int:
    return int(starts.as_strided((1,), (1,), n_blocks).numpy()[0])


def nonzero(x: Array) -> Array:
    """The indices of elements that are not 0, in order (waits for the device)."""
    if x.numel() == 0:
        return _C.empty((0, x.ndim), int64, x.device_index)
    starts, (view, dims, joined), n_blocks, wide = _mask_starts(x, x.shape, x.strides)
    out = _C.empty((_total(starts, n_blocks), x.ndim), int64, x.device_index)
    if out.numel():
        kernel("indexing", "nonzero")(
            (n_blocks,), view, starts, out, x.numel(), dims, joined, x.shape, NDIM=len(dims),
            N_DIMS=x.ndim, COMPLEX=x.dtype.is_complex, WIDE=wide, BLOCK=1024, num_warps=4,
        )  # fmt: skip
    return out


def masked_select(x: Array, mask: Array) -> Array:
    """Elements where the mask holds (waits for the device)."""
    shape = pointwise.broadcast_shape((x, mask))
    n = math.prod(shape)
    if n == 0:
        return _C.empty((0,), x.dtype, x.device_index)
    mask_strides = broadcast_strides(mask.shape, mask.strides, shape)
    starts, (view, _, _), n_blocks, wide = _mask_starts(mask, shape, mask_strides)
    out = _C.empty((_total(starts, n_blocks),), x.dtype, x.device_index)
    if out.numel():
        bits = _as_bits(x)
        n_parts = 1 + bits.ndim - x.ndim
        x_strides = tuple(n_parts * s for s in broadcast_strides(x.shape, x.strides, shape))
        dims, (a, b) = _collapse(shape, [mask_strides, x_strides])
        kernel("indexing", "masked_select")(
            (n_blocks,), view, starts, bits, _as_bits(out), n, dims, a, b, n_parts,
            NDIM=len(dims), WIDE=wide or reach(shape, x_strides) > INT32_MAX, BLOCK=1024,
            num_warps=4,
        )  # fmt: skip
    return out


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """x with source's elements, in order, where the mask holds."""
    out = x.clone()
    if out.numel() == 0:
        return out
    strides = broadcast_strides(mask.shape, mask.strides, x.shape)
    starts, (view, dims, joined), n_blocks, wide = _mask_starts(mask, x.shape, strides)
    dense = _as_bits(source.contiguous())  # its elements are taken in order
    bits = _as_bits(out)
    kernel("indexing", "masked_scatter")(
        (n_blocks,), view, starts, dense, bits, out.numel(), source.numel(), dims, joined,
        1 + bits.ndim - out.ndim,
        *errors.mark(
            x.device_index, "masked_scatter",
            "the mask asks for element {value} of a source with {0}", (source.numel(),),
            RuntimeError,
        ), NDIM=len(dims), WIDE=wide, BLOCK=1024, num_warps=4,
    )  # fmt: skip
    return out
