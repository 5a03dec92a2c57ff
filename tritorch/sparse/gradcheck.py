"""gradcheck for functions of sparse tensors, by way of their values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from tritorch.arrays.sparse import BY_ROW, SparseArray
from tritorch.core import layout as layouts
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.record import (
    coalesced,
    filled,
    from_keys,
    gather_like,
    is_sparse,
)
from tritorch.ops.shape import ranges


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """gradcheck (or a partial of it) that also takes functions of, and to, sparse tensors.

    With `masked=True`, derivatives by the entries are checked; otherwise, those by every element.
    """

    @functools.wraps(gradcheck)
    def with_sparse_support(
        func: Callable[..., Any], inputs: Any, *args: Any, **kwargs: Any
    ) -> bool:
        masked = kwargs.pop("masked", False)
        given = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
        patterns: dict[int, SparseArray] = {}
        flat: list[Any] = []
        for i, x in enumerate(given):
            if is_sparse(x) and x._requires_grad:
                whole = x.detach() if masked else _with_every_element(x.detach())
                whole = coalesced(whole) if whole._array.plain is None else whole
                patterns[i] = whole._array
                x = whole._array.values.clone().requires_grad_(True)
            flat.append(x)

        def on_values(*values: Any) -> Any:
            again = [filled(patterns[i], x) if i in patterns else x for i, x in enumerate(values)]
            out = func(*again)
            return tuple(map(dense, out)) if isinstance(out, (list, tuple)) else dense(out)

        def dense(out: Any) -> Any:
            if is_sparse(out):
                return out.to_dense(masked_grad=masked)
            return out

        return gradcheck(on_values, tuple(flat), *args, **kwargs)

    return with_sparse_support


def _with_every_element(x: Tensor) -> Tensor:
    """The same tensor with an entry at every place."""
    array, arange = x._array, ranges.arange
    if array.plain is None:
        shape = array.shape[: array.sparse_dims]
        places = from_keys(arange(math.prod(shape), device=x.device), shape)
        pattern = SparseArray(layouts.sparse_coo, array.shape, places, array.values, None, True)
        return filled(pattern, gather_like(x, pattern))
    n, block = array.batch_dims, array.block or (1, 1)
    rows, cols = array.shape[n] // block[0], array.shape[n + 1] // block[1]
    major, minor = (rows, cols) if array.layout in BY_ROW else (cols, rows)
    batch = array.shape[:n]
    pointers = (arange(major + 1, device=x.device) * minor).expand(*batch, major + 1)
    plain = arange(minor, device=x.device).repeat(major).expand(*batch, major * minor)
    rest = array.values.shape[n + 1 :]
    values = array.values.new_zeros((*batch, major * minor, *rest))
    pattern = SparseArray(array.layout, array.shape, pointers, values, plain)
    return filled(pattern, gather_like(x, pattern))
