"""Sums, norms and softmax of sparse tensors."""

from __future__ import annotations

from typing import Any

from tritorch.arrays.sparse import SHOWN
from tritorch.core import layout as layouts, published
from tritorch.core.dims import wrap_dim, wrap_dims
from tritorch.core.dtype import dtype as Dtype
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.convert import compress
from tritorch.ops.interpret.sparse.record import (
    SparseOperator,
    cannot_run,
    coalesced,
    coo,
    filled,
    flat_keys,
    flat_values,
    in_coo,
    is_sparse,
    layout_of,
    rule,
    values_of,
)
from tritorch.ops.record.groups import Gradient

# ---- sums ----------------------------------------------------------------------------------------

# PyTorch's sum has the dense gradient of any other sum; torch.sparse.sum's has the entries' places.
_total = SparseOperator(
    "sparse_total", "x", "kind",
    schema="sum(x, dtype=kind)", cpu=lambda a, kind: a.values.sum(dtype=kind),
    grad=Gradient(lambda g, x_shape: g.expand(x_shape), node="Sum"),
)  # fmt: skip


@rule("sum")
def total(x: Tensor, dims: Any, keepdim: bool, kind: Any) -> Tensor:
    """The sum of all entries."""
    if keepdim:
        return sum_dims(x, tuple(range(x.ndim)), True, kind, "Sum1")
    return _total.call((x,), (kind,))


@rule("sum_dim")
def partial(x: Tensor, dims: Any, keepdim: bool, kind: Any) -> Tensor:
    """Sums over dims."""
    return sum_dims(x, dims, keepdim, kind, "Sum1")


def sum_dims(x: Tensor, dims: Any, keepdim: bool, kind: Any, title: str) -> Tensor:
    """Sums over dims: dense when no sparse dim is left, else sparse."""
    array = x._array
    if array.plain is not None:
        if not keepdim or array.batch_dims:
            raise RuntimeError(
                "reduction operations on CSR tensors with keepdim=False is unsupported"
            )
        out = sum_dims(in_coo(x), dims, True, kind, title)
        out = out if is_sparse(out) else out.to_sparse()
        return compress(coalesced(out), layouts.sparse_csr, None)
    dims = tuple(dim % max(x.ndim, 1) for dim in dims)
    k, values = array.sparse_dims, values_of(x)
    if kind is not None:
        values = values.to(kind)
    inner = [dim - k + 1 for dim in dims if dim >= k]
    if inner:
        values = values.sum(inner, keepdim=keepdim, dtype=kind)
    outer = [dim for dim in range(k) if dim in dims]
    shape = [1 if dim in dims else n for dim, n in enumerate(array.shape)]
    if len(outer) == k:
        out = values.sum(0, dtype=kind)
        return out.reshape(shape) if keepdim else out
    if keepdim:
        indices = array.indices.clone()
        indices[outer] = 0
    else:
        shape = [n for dim, n in enumerate(array.shape) if dim not in dims]
        indices = array.indices[[dim for dim in range(k) if dim not in outer]]
    ordered = array.coalesced and not outer
    summed = coalesced(coo(indices, values, shape, ordered))
    return filled(summed._array, values_of(summed), title)


def sparse_sum(input: Tensor, dim: Any = None, dtype: Dtype | None = None) -> Tensor:
    """Sums over dims of a sparse tensor; its gradient has the tensor's places."""
    if not is_sparse(input):
        raise RuntimeError(
            f"coalesce expected sparse coordinate tensor layout but got {SHOWN[layout_of(input)]}"
        )
    x = coalesced(in_coo(input)) if input._array.plain is None else input
    if dim is None or (not isinstance(dim, int) and not len(tuple(dim))):
        if dim is not None:
            return x.to(dtype) if dtype is not None else x
        return flat_values(values_of(x), x._array).sum(dtype=dtype)
    if x._array.plain is not None:
        x = in_coo(x)
    return sum_dims(x, wrap_dims(dim, x.ndim), False, dtype, "SparseSum")


@rule("any")
def any_(x: Tensor, dims: Any, keepdim: bool) -> Tensor:
    """Whether any entry is not 0."""
    if keepdim or len(dims) != x.ndim:
        raise cannot_run("any.dim", x)
    return values_of(x).any()


@rule("vector_norm")
def vector_norm(x: Tensor, order: Any, dims: Any, keepdim: bool, kind: Any) -> Tensor:
    """The norm of all entries."""
    if keepdim or len(dims) != x.ndim:
        raise RuntimeError("norm_sparse currently only supports full reductions, so 'dim' must be "
                           "empty or all dims")  # fmt: skip
    if kind is not None:
        x = x.to(kind)
    x = coalesced(x) if x._array.plain is None else x
    return published.public.norm(flat_values(values_of(x), x._array).reshape(-1), order)


# ---- softmax -------------------------------------------------------------------------------------


def softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None) -> Tensor:
    """softmax over the entries along a dim; what has no entry counts as minus infinity."""
    return _softmax("_sparse_softmax", input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None) -> Tensor:
    """The logarithm of softmax over the entries along a dim."""
    return _softmax("_sparse_log_softmax", input, dim, dtype, True)


def _softmax(name: str, x: Tensor, dim: int, dtype: Dtype | None, log: bool) -> Tensor:
    if layout_of(x) is not layouts.sparse_coo:
        raise cannot_run(name, x)
    dim = wrap_dim(dim, x.ndim)
    x = coalesced(x if dtype is None else x.to(dtype))
    if not x.is_floating_point():
        raise NotImplementedError(f"\"{name[1:]}\" not implemented for '{x.dtype}'")
    array, values = x._array, values_of(x)
    k = array.sparse_dims
    title = "SparseLogSoftmax" if log else "SparseSoftmax"
    if dim >= k:
        function = published.public.log_softmax if log else published.public.softmax
        return filled(array, function(values, dim - k + 1), title)
    if not array.nnz:
        return filled(array, values.clone(), title)
    rest = [d for d in range(k) if d != dim]
    keys = flat_keys(array.indices[rest], [array.shape[d] for d in rest])
    _, group = published.public.unique(keys, return_inverse=True)
    n = int(group.max()) + 1
    index = group.reshape(-1, *(1,) * (values.ndim - 1)).expand(values.shape)
    shape = (n, *values.shape[1:])
    largest = values.detach().new_zeros(shape)
    largest = largest.scatter_reduce(0, index, values.detach(), "amax", include_self=False)
    shifted = values - largest.index_select(0, group)
    e = shifted.exp()
    sums = e.new_zeros(shape).index_add(0, group, e).index_select(0, group)
    return filled(array, shifted - sums.log() if log else e / sums, title)
