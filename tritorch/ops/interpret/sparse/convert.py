"""From dense to sparse, from one sparse layout to another, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.sparse import BLOCKED, BY_ROW, SHOWN, SparseArray
from tritorch.core import layout as layouts, published
from tritorch.core.dtype import dtype, int64
from tritorch.core.layout import layout
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.record import (
    cannot_run,
    coalesced,
    coalesced_pattern,
    coo,
    coordinates,
    dense_of,
    filled,
    flat_values,
    gather,
    gather_like,
    in_coo,
    is_sparse,
    key_shape,
    layout_of,
    values_of,
    warn_of_compressed,
)

_TITLES = {
    layouts.sparse_coo: "ToSparse1", layouts.sparse_csr: "ToSparseCsr",
    layouts.sparse_csc: "ToSparseCsc", layouts.sparse_bsr: "ToSparseBsr",
    layouts.sparse_bsc: "ToSparseBsc",
}  # fmt: skip


def to_dense(
    self: Tensor, dtype: dtype | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """The tensor with every element; itself if it is dense.

    masked_grad: whether the gradient is that of the entries alone (the default).
    """
    if not is_sparse(self):
        return self if dtype is None else self.to(dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return dense_of(self, masked_grad is not False)


# ---- to COO --------------------------------------------------------------------------------------


def _nonzero_places(x: Tensor, sparse_dim: int) -> Tensor:
    """Where the dense parts of a tensor are not all 0."""
    mask = x.detach() != 0
    for _ in range(x.ndim - sparse_dim):
        mask = mask.any(-1)
    if not sparse_dim:
        return mask.new_zeros((0, int(bool(mask))), dtype=int64)
    return mask.nonzero().t().contiguous()


def dense_to_coo(x: Tensor, sparse_dim: int | None = None) -> Tensor:
    """The elements (or, with fewer dims, the rows) that are not 0."""
    if sparse_dim is None:
        sparse_dim = x.ndim
    if sparse_dim == 0 and x.ndim:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not 0 <= sparse_dim <= x.ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{x.ndim}] range, but "
            f"{sparse_dim} is given"
        )
    places = _nonzero_places(x, sparse_dim)
    return coo(places, gather(x, places), x.shape, True, "ToSparse1")


# ---- to a compressed layout ----------------------------------------------------------------------


def _pointers(major: Tensor, n: int) -> Tensor:
    """Where each of n rows begins among sorted row numbers, and where the last one ends."""
    counts = (
        published.public.bincount(major, minlength=n) if major.numel() else major.new_zeros((n,))
    )
    return published.public.cat([counts.new_zeros((1,)), counts.cumsum(0)])


def compress(x: Tensor, kind: layout, block: Sequence[int] | None) -> Tensor:
    """A coalesced COO matrix (with any dense dims) in a compressed layout."""
    own = x._array
    rows, cols = own.indices.unbind(0)
    values, title = values_of(x), _TITLES[kind]
    if block is None:
        if kind not in BY_ROW:
            order = published.public.argsort(cols, stable=True)
            rows, cols = rows.index_select(0, order), cols.index_select(0, order)
            values = values.index_select(0, order)
        major, minor = (rows, cols) if kind in BY_ROW else (cols, rows)
        n = own.shape[0] if kind in BY_ROW else own.shape[1]
        pattern = SparseArray(kind, own.shape, _pointers(major, n), values.detach(), minor)
        return filled(pattern, values, title)
    h, w = block
    block_rows, block_cols = (
        published.public.div(i, n, rounding_mode="floor") for i, n in ((rows, h), (cols, w))
    )
    n_rows, n_cols = own.shape[0] // h, own.shape[1] // w
    if kind in BY_ROW:
        keys, n, width = block_rows * n_cols + block_cols, n_rows, n_cols
    else:
        keys, n, width = block_cols * n_rows + block_rows, n_cols, n_rows
    kept, place = published.public.unique(keys, return_inverse=True)
    major = published.public.div(kept, max(width, 1), rounding_mode="floor")
    blocks = values.new_zeros((kept.shape[0], h, w, *values.shape[1:]))
    blocks = blocks.index_put((place, rows % h, cols % w), values)
    minor = kept % max(width, 1)
    pattern = SparseArray(kind, own.shape, _pointers(major, n), blocks.detach(), minor)
    return filled(pattern, blocks, title)


def _dense_to_compressed(
    x: Tensor, kind: layout, block: Sequence[int] | None, dense_dim: int
) -> Tensor:
    batch_dims = x.ndim - dense_dim - 2
    if batch_dims < 0:
        raise RuntimeError(
            f"dense_to_sparse_{kind.name[7:]}: a tensor of {x.ndim} dims has no matrix before "
            f"{dense_dim} dense dims"
        )
    if not batch_dims:
        return compress(dense_to_coo(x, 2), kind, block)
    batch = tuple(x.shape[:batch_dims])
    matrices = x.reshape(math.prod(batch), *x.shape[batch_dims:])
    parts = [compress(dense_to_coo(m, 2), kind, block) for m in matrices.unbind(0)]
    if not parts:
        raise RuntimeError(
            f"to_sparse_{kind.name[7:]}: Expected product of batch dimensions to be non-zero."
        )
    if len({part._array.nnz for part in parts}) > 1:
        raise RuntimeError("Expect the same number of specified elements per batch.")
    stack = published.public.stack
    lead = lambda t: t.reshape(*batch, *t.shape[1:])
    values = lead(stack([values_of(part) for part in parts]))
    pattern = SparseArray(
        kind, x.shape, lead(stack([part._array.indices for part in parts])), values.detach(),
        lead(stack([part._array.plain for part in parts])),
    )  # fmt: skip
    return filled(pattern, values, _TITLES[kind])


def _check_block(x: Tensor, kind: layout, block: Any, dense_dim: int) -> tuple[int, int] | None:
    name = f"dense_to_sparse: conversion from {SHOWN[layout_of(x)]} to {SHOWN[kind]}"
    if kind not in BLOCKED:
        if block is not None:
            raise RuntimeError(f"{name} with blocksize argument given is not supported")
        return None
    if block is None:
        if is_sparse(x) and x._array.block is not None:
            return x._array.block
        raise RuntimeError(f"{name} without blocksize argument given is not supported")
    h, w = (int(n) for n in block)
    if h <= 0 or w <= 0:
        raise RuntimeError(
            f"to_sparse_{kind.name[7:]}: blocksize must be positive, but got ({h}, {w})"
        )
    rows = x.ndim - dense_dim - 2
    if x.shape[rows] % h or x.shape[rows + 1] % w:
        raise RuntimeError(
            f"tensor sparse size ({x.shape[rows]},{x.shape[rows + 1]}) must be divisible by given "
            f"blocksize ({h},{w})"
        )
    return h, w


def convert(
    x: Tensor, kind: layout, block: Sequence[int] | None = None, dense_dim: int | None = None,
    sparse_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of any layout in a sparse one."""
    array = x._array
    if not is_sparse(x):
        if kind is layouts.sparse_coo:
            if dense_dim is not None and sparse_dim is None:
                sparse_dim = x.ndim - dense_dim
            return dense_to_coo(x, sparse_dim)
        warn_of_compressed(kind)
        checked = _check_block(x, kind, block, dense_dim or 0)
        return _dense_to_compressed(x, kind, checked, dense_dim or 0)
    if sparse_dim is not None and sparse_dim != array.sparse_dims:
        raise RuntimeError(
            f"to_sparse: conversion from {SHOWN[array.layout]} to {SHOWN[kind]} with sparse_dim "
            f"argument !=self.sparse_dim() is not supported"
        )
    if dense_dim is not None and dense_dim != array.dense_dims:
        raise RuntimeError(
            f"to_sparse: conversion from {SHOWN[array.layout]} to {SHOWN[kind]} with dense_dim "
            f"argument !=self.dense_dim() is not supported"
        )
    if kind is layouts.sparse_coo:
        return in_coo(x, _TITLES[kind])
    checked = _check_block(x, kind, block, array.dense_dims)
    if array.layout is kind and array.block == checked:
        return x
    if array.batch_dims:
        return _convert_batch(x, kind, checked)
    if array.sparse_dims != 2:
        raise RuntimeError(
            f"to_sparse_{kind.name[7:]}: conversion from {SHOWN[array.layout]} to {SHOWN[kind]} "
            f"for input tensors with sparse_dim()!=2 is not supported"
        )
    return compress(coalesced(in_coo(x)), kind, checked)


def _convert_batch(x: Tensor, kind: layout, block: Sequence[int] | None) -> Tensor:
    """A batch: by the dense tensor of its pattern, whose zeros are entries too."""
    array = x._array
    places, values = coordinates(array), flat_values(values_of(x), array)
    shape, n = key_shape(array), array.batch_dims
    keys = places[0]
    for row, size in zip(places[1:n], shape[1:n]):
        keys = keys * size + row
    parts = []
    for i in range(math.prod(shape[:n])):
        at = (keys == i).nonzero().reshape(-1)
        own = places[n:].index_select(1, at)
        matrix = coo(own, values.index_select(0, at), array.shape[n:])
        parts.append(compress(coalesced(matrix), kind, block))
    if len({part._array.nnz for part in parts}) > 1:
        raise RuntimeError("Expect the same number of specified elements per batch.")
    stack, batch = published.public.stack, array.shape[:n]
    lead = lambda t: t.reshape(*batch, *t.shape[1:])
    merged = lead(stack([values_of(part) for part in parts]))
    pattern = SparseArray(
        kind, array.shape, lead(stack([part._array.indices for part in parts])), merged.detach(),
        lead(stack([part._array.plain for part in parts])),
    )  # fmt: skip
    return filled(pattern, merged, _TITLES[kind])


# ---- methods -------------------------------------------------------------------------------------


def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: layout | None = None,
    blocksize: Sequence[int] | None = None, dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """The tensor in a sparse layout, COO by default."""
    kind = layouts.sparse_coo if layout is None else layout
    if kind is layouts.strided:
        return to_dense(self)
    if sparse_dim is not None and (layout or blocksize or dense_dim is not None):
        raise TypeError("to_sparse() takes sparse_dim alone, or layout, blocksize and dense_dim")
    return convert(self, kind, blocksize, dense_dim, sparse_dim)


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in COO layout."""
    return convert(self, layouts.sparse_coo)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The tensor in CSR layout; leading dims are a batch."""
    return convert(self, layouts.sparse_csr, None, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The tensor in CSC layout; leading dims are a batch."""
    return convert(self, layouts.sparse_csc, None, dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Tensor:
    """The tensor in BSR layout, in blocks of one size."""
    return convert(self, layouts.sparse_bsr, blocksize, dense_dim)


def to_sparse_bsc(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Tensor:
    """The tensor in BSC layout, in blocks of one size."""
    return convert(self, layouts.sparse_bsc, blocksize, dense_dim)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the places that a sparse tensor has entries at."""
    if not is_sparse(mask):
        raise cannot_run("sparse_mask", mask)
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} "
            f"but mask has size {list(mask.shape)}"
        )
    pattern = mask._array
    if pattern.plain is None and not pattern.coalesced and is_sparse(self):
        pattern = coalesced_pattern(pattern)
    return filled(pattern, gather_like(self, pattern), "SparseMask")


for _method in (
    to_dense, to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc,
    sparse_mask,
):  # fmt: skip
    setattr(Tensor, _method.__name__, _method)
