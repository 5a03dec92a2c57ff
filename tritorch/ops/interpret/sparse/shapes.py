"""Copies of sparse tensors, and other orders and parts of their dims."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.sparse import BLOCKED, SHOWN, SparseArray
from tritorch.core import layout as layouts, published
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.convert import compress
from tritorch.ops.interpret.sparse.record import (
    SparseOperator,
    arange,
    cannot_run,
    coalesced,
    coo,
    filled,
    in_coo,
    is_sparse,
    layout_of,
    rule,
    values_of,
)
from tritorch.ops.record.groups import Gradient

# ---- copies --------------------------------------------------------------------------------------

_clone = SparseOperator(
    "sparse_clone",
    "x",
    schema="clone(x)",
    cpu=lambda a: a.copy(),
    grad=Gradient(lambda g: g, node="Clone"),
)


@rule("clone")
def clone(x: Tensor, format: Any) -> Tensor:
    """A copy in other memory."""
    if format is not layouts.preserve_format:
        shown = "".join(part.title() for part in format.name.removesuffix("_format").split("_"))
        raise RuntimeError(f"unsupported memory format option {shown}")
    return _clone.call((x,))


def _convert(a: SparseArray, kind: Any, device: Any, non_blocking: bool) -> SparseArray:
    values = a.values.to(device=device, dtype=kind, non_blocking=non_blocking)
    if device is None:
        return a.with_values(values)
    move = lambda t: t if t is None else t.to(device, non_blocking=non_blocking)
    return SparseArray(a.layout, a.shape, move(a.indices), values, move(a.plain), a.coalesced)


_to_copy = SparseOperator(
    "sparse_to_copy", "x", "kind device non_blocking",
    schema="_to_copy(x, dtype=kind, device=device, non_blocking=non_blocking)", cpu=_convert,
    grad=Gradient(lambda g, x_spec: g.to(device=x_spec.device, dtype=x_spec.dtype), node="ToCopy"),
)  # fmt: skip


@rule("to_copy")
def to_copy(x: Tensor, *params: Any) -> Tensor:
    """Another dtype or device."""
    return _to_copy.call((x,), params)


@rule("identity")
def identity(values: Tensor, source: Tensor) -> Tensor:
    """`values`, with gradients going to `source`."""
    return values


# ---- other orders --------------------------------------------------------------------------------


def _permute_indices(a: SparseArray, dims: Sequence[int]) -> SparseArray:
    k = a.sparse_dims
    lead, rest = list(dims[:k]), [dim - k for dim in dims[k:]]
    if sorted(lead) != list(range(k)):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not "
            "allowed.Only transpositions within sparse and dense dimensions are supported."
        )
    shape = [a.shape[dim] for dim in dims]
    values = a.values.permute(0, *(dim + 1 for dim in rest))
    identity = lead == list(range(k))
    indices = a.indices if identity else a.indices[lead]
    kept = a.coalesced and (identity or a.nnz == 0)
    return SparseArray(a.layout, shape, indices, values, None, kept)


def _inverse(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


_permute = SparseOperator(
    "sparse_permute",
    "x",
    "dims",
    schema="permute(x, dims)",
    cpu=_permute_indices,
    grad=Gradient(lambda g, dims: g.permute(_inverse(dims)), node="Permute"),
)
_transpose = SparseOperator(
    "sparse_transpose",
    "x",
    "dims",
    schema="(Tensor x, int[] dims) -> Tensor",
    cpu=_permute_indices,
    grad=Gradient(lambda g, dims: g.permute(_inverse(dims)), node="Transpose"),
)
_t = _transpose.like("sparse_t", "T", schema="(Tensor x, int[] dims) -> Tensor")

_FLIPPED = {
    layouts.sparse_csr: layouts.sparse_csc, layouts.sparse_csc: layouts.sparse_csr,
    layouts.sparse_bsr: layouts.sparse_bsc, layouts.sparse_bsc: layouts.sparse_bsr,
}  # fmt: skip


def _swap_matrix(a: SparseArray) -> SparseArray:
    """The transposed matrices: the same parts, read the other way."""
    n = a.batch_dims
    shape = (*a.shape[:n], a.shape[n + 1], a.shape[n], *a.shape[n + 2 :])
    values = a.values.transpose(n + 1, n + 2) if a.layout in BLOCKED else a.values
    return SparseArray(_FLIPPED[a.layout], shape, a.indices, values, a.plain)


_flip = SparseOperator(
    "sparse_flip",
    "x",
    schema="(Tensor x) -> Tensor",
    cpu=_swap_matrix,
    grad=Gradient(
        lambda g, x: g.transpose(x._array.batch_dims, x._array.batch_dims + 1), node="Transpose"
    ),
)


@rule("permute")
def permute(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Dims in another order."""
    array = x._array
    dims = tuple(dim % x.ndim for dim in dims) if x.ndim else ()
    if array.plain is None:
        return _permute.call((x,), (dims,))
    if list(dims) == sorted(dims):
        return x
    n = array.batch_dims
    swapped = [*range(n), n + 1, n, *range(n + 2, x.ndim)]
    if list(dims) != swapped:
        raise RuntimeError(
            f"a compressed sparse tensor can be transposed in its two sparse dims only, got the "
            f"order {list(dims)}"
        )
    return _flip.call((x,))


@rule("t")
def t(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """A matrix's two dims swapped."""
    if x._array.plain is not None:
        return transpose(x, dim0, dim1)
    return _t.call((x,), ((1, 0),))


@rule("transpose")
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dims swapped."""
    order = list(range(x.ndim))
    if x.ndim:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    if x._array.plain is not None:
        return permute(x, order)
    return _transpose.call((x,), (tuple(order),))


@rule("unsqueeze")
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A new dim of size 1."""
    array = x._array
    if array.plain is not None:
        raise cannot_run("unsqueeze", x)
    shape = (*array.shape[:dim], 1, *array.shape[dim:])
    k = array.sparse_dims
    values = values_of(x)
    if dim > k:
        return coo(
            array.indices, values.unsqueeze(dim - k + 1), shape, array.coalesced, "Unsqueeze"
        )
    row = array.indices.new_zeros((1, array.nnz))
    indices = published.public.cat([array.indices[:dim], row, array.indices[dim:]])
    return coo(indices, values, shape, array.coalesced, "Unsqueeze")


@rule("squeeze")
def squeeze(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Dims of size 1 dropped."""
    for dim in sorted(dims, reverse=True):
        if x.shape[dim] == 1:
            x = select_one(x, dim, 0)
    return x


@rule("expand")
def refuse_expand(x: Tensor, *params: Any) -> Tensor:
    """Refused: sparse tensors have no strides."""
    raise RuntimeError(f"expand is unsupported for {SHOWN[layout_of(x)]} tensors")


# ---- parts ---------------------------------------------------------------------------------------


def select_one(x: Tensor, dim: int, index: int) -> Tensor:
    """The slice at one index of a dim."""
    array = x._array
    if array.plain is not None:
        x = in_coo(x)
        array = x._array
    k, values = array.sparse_dims, values_of(x)
    shape = (*array.shape[:dim], *array.shape[dim + 1 :])
    if dim >= k:
        return coo(
            array.indices, values.select(dim - k + 1, index), shape, array.coalesced, "Select"
        )
    kept = (array.indices[dim] == index).nonzero().reshape(-1)
    values = values.index_select(0, kept)
    if k == 1:
        return values.sum(0).to(values.dtype)
    rows = [d for d in range(k) if d != dim]
    indices = array.indices[rows].index_select(1, kept)
    return coo(indices, values, shape, array.coalesced, "Select")


def narrow_one(x: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """The entries of a range of a dim."""
    array = x._array
    n = len(range(start, stop, step))
    if n == array.shape[dim] and step == 1:
        return x
    back = array.layout if array.plain is not None else None
    if back is not None:
        x = in_coo(x)
        block, array = array.block, x._array
    k, values = array.sparse_dims, values_of(x)
    shape = (*array.shape[:dim], n, *array.shape[dim + 1 :])
    if dim >= k:
        part = (*(slice(None),) * (dim - k + 1), slice(start, stop, step))
        return coo(array.indices, values[part], shape, array.coalesced, "Slice")
    row = array.indices[dim]
    mask = (row >= start) & (row < stop)
    if step != 1:
        mask = mask & ((row - start) % step == 0)
    kept = mask.nonzero().reshape(-1)
    indices = array.indices.index_select(1, kept)
    moved = indices[dim] - start
    indices[dim] = moved if step == 1 else published.public.div(moved, step, rounding_mode="floor")
    out = coo(indices, values.index_select(0, kept), shape, array.coalesced, "Slice")
    return out if back is None else compress(coalesced(out), back, block)


@rule("select")
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """The slice at one index of a dim."""
    return select_one(x, dim, int(index) % builtins.max(x.shape[dim], 1))


@rule("slice")
def slice_(x: Tensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    """The entries of a range of a dim."""
    return narrow_one(x, dim, *slice(start, end, step).indices(x.shape[dim]))


@rule("basic_index")
def basic_index(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    """x[key] for ints, (start, stop, step) and None."""
    dim = 0
    for i, part in enumerate(key):
        if part is None:
            x = x.unsqueeze(dim)
            dim += 1
        elif isinstance(part, tuple):
            x = slice_(x, dim, *part)
            dim += 1
        else:
            x = select(x, dim, part)
            if not is_sparse(x):
                rest = (slice(*k) if isinstance(k, tuple) else k for k in key[i + 1 :])
                return x[(*(slice(None),) * dim, *rest)]
    return x


@rule("index_select")
def index_select(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """The entries of a dim at indices."""
    if not is_sparse(x):
        raise cannot_run("index_select", index)
    array = x._array
    if array.plain is not None:
        block = array.block
        return compress(coalesced(index_select(in_coo(x), index, dim)), array.layout, block)
    k, values = array.sparse_dims, values_of(x)
    n = index.shape[0]
    size = (*array.shape[:dim], n, *array.shape[dim + 1 :])
    if dim >= k:
        picked = values.index_select(dim - k + 1, index)
        return coo(array.indices, picked, size, array.coalesced, "IndexSelect")
    # Each entry meets every place of the index that names its row.
    order = published.public.argsort(index, stable=True)
    wanted, row = index.index_select(0, order), array.indices[dim]
    low = published.public.searchsorted(wanted, row)
    counts = published.public.searchsorted(wanted, row, right=True) - low
    entry = arange(array.nnz, row).repeat_interleave(counts)
    begin = (counts.cumsum(0) - counts).repeat_interleave(counts)
    place = low.repeat_interleave(counts) + arange(entry.shape[0], row) - begin
    indices = array.indices.index_select(1, entry)
    indices[dim] = order.index_select(0, place)
    out = coo(indices, values.index_select(0, entry), size, False, "IndexSelect")
    if not array.coalesced:
        return out
    ordered = coalesced(out)
    return filled(ordered._array, values_of(ordered), "IndexSelect")


@rule("index")
def index(tensors: Sequence[Tensor]) -> Tensor:
    """Refused: x[tensor]."""
    raise cannot_run("index.Tensor", tensors[0])


# ---- joined --------------------------------------------------------------------------------------


@rule("cat")
def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """COO tensors joined along a dim."""
    for i, x in enumerate(tensors):
        if not is_sparse(x) or x._array.plain is not None:
            raise RuntimeError(
                f"Concatenating sparse tensors, but a tensor of another layout was found at "
                f"position {i}."
            )
    first = tensors[0]._array
    k = first.sparse_dims
    for i, x in enumerate(tensors):
        if x._array.sparse_dims != k:
            raise RuntimeError(
                f"All tensors must have the same number of sparse and dense dimensions. Expected "
                f"{k}, {first.dense_dims}, but tensor at position {i} has {x._array.sparse_dims}, "
                f"{x._array.dense_dims}."
            )
    total = sum(x.shape[dim] for x in tensors)
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    if dim < k:
        parts, start = [], 0
        for x in tensors:
            indices = x._array.indices.clone()
            indices[dim] += start
            parts.append(indices)
            start += x.shape[dim]
        values = [values_of(x) for x in tensors]
    else:
        parts = [x._array.indices for x in tensors]
        values, start = [], 0
        for x in tensors:
            own = values_of(x)
            before, after = list(own.shape), list(own.shape)
            before[dim - k + 1], after[dim - k + 1] = start, total - start - x.shape[dim]
            padded = [own.new_zeros(before), own, own.new_zeros(after)]
            values.append(published.public.cat(padded, dim - k + 1))
            start += x.shape[dim]
    joined = published.public.cat(parts, 1)
    return coo(joined, published.public.cat(values), shape, len(tensors) == 1, "Cat")


@rule("stack")
def stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """COO tensors joined along a new dim."""
    parts = [unsqueeze(x, dim) if is_sparse(x) else x.unsqueeze(dim) for x in tensors]
    joined = cat(parts, dim)
    return filled(joined._array, values_of(joined), "Stack")


# ---- dims that are summed ------------------------------------------------------------------------


def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` entries of a dim, from start, as a copy."""
    return self.narrow(dim, start, length)
