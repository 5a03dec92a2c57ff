"""Tensors of a sparse tensor's shape and layout."""

from __future__ import annotations

from typing import Any

from tritorch.arrays.sparse import SparseArray
from tritorch.core import layout as layouts, published
from tritorch.core.dtype import dtype
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.build import empty, wrap
from tritorch.ops.interpret.sparse.record import cannot_run, is_sparse


def make_like(
    x: Tensor, number: Any, kind: dtype, device: Any, layout: Any, requires_grad: bool
) -> Tensor:
    """zeros_like and empty_like, where the tensor, or what is asked for, is sparse."""
    array = x._array
    wanted = layout if layout is not None else array.layout
    if wanted is layouts.strided:
        function = published.public.empty if number is None else published.public.full
        rest = () if number is None else (number,)
        return function(tuple(x.shape), *rest, dtype=kind, device=device,
                        requires_grad=requires_grad)  # fmt: skip
    if number:
        raise cannot_run("fill_.Scalar", x)
    if not is_sparse(x) or wanted is not array.layout:
        return empty(x.shape, wanted, kind, device, requires_grad)
    values, indices = array.values, array.indices
    if array.plain is None:
        k = array.sparse_dims
        none = values.new_zeros((0, *array.shape[k:]), dtype=kind, device=device)
        places = indices.new_zeros((k, 0), device=device)
        return wrap(SparseArray(wanted, array.shape, places, none, None, True), requires_grad)
    n = array.batch_dims
    none = values.new_zeros((*values.shape[:n], 0, *values.shape[n + 1 :]), dtype=kind,
                            device=device)  # fmt: skip
    pointers = indices.new_zeros(indices.shape, device=device)
    plain = array.plain.new_zeros((*array.plain.shape[:n], 0), device=device)
    return wrap(SparseArray(wanted, array.shape, pointers, none, plain), requires_grad)
