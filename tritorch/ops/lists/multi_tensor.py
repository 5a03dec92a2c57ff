"""Changes and norms of many tensors at once: on a GPU one launch for each dtype."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import CPU, cuda_device, is_contiguous, strides_of
from tritorch.autograd import no_grad
from tritorch.core import published
from tritorch.core.promotion import promote_types
from tritorch.core.tensor import Tensor
from tritorch.gpu.pointwise.layout import memory_order
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.pointwise.pointwise import isfinite
from tritorch.ops.record.backends import backend
from tritorch.ops.shape import factory
from tritorch.ops.shape.joining import stack

NORMS = (1.0, 2.0, math.inf)  # orders


def dense(row: Sequence[Any], back: list[tuple[Any, Any]], writes: Collection[int]) -> list[Any]:
    """Arrays of one shape, or views or copies of them, dense and in the first one's order.

    `back` gets (view, copy) of what is to be copied back, of those in `writes`.
    """
    order = memory_order(row[0].shape, strides_of(row[0]))
    out: list[Any] = []
    for k, array in enumerate(row):
        if array is None:
            out.append(None)
            continue
        host = type(array) is np.ndarray
        view = array.transpose(order) if host else array.permute(order)
        copy = view
        if not is_contiguous(view):
            copy = np.ascontiguousarray(view) if host else view.contiguous()
            if k in writes:
                back.append((view, copy))
        out.append(copy)
    return out


def copy_back(back: list[tuple[Any, Any]]) -> None:
    """Writes the copies that `dense` made to what they are copies of."""
    for view, copy in back:
        np.copyto(view, copy) if type(view) is np.ndarray else view.copy_(copy)


class _Parts:
    """Tensors by device as flat arrays, and those that are no such."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.arrays: dict[int, list[Any]] = defaultdict(list)  # -1: the host
        self.others: list[Tensor] = []
        self.back: list[tuple[Any, Any]] = []
        for tensor in tensors:
            x: Any = tensor._array
            kind = type(x)
            if not tensor.dtype.is_floating_point:
                self.others.append(tensor)
            elif kind is np.ndarray:
                x = x if x.flags.c_contiguous else dense([x], self.back, (0,))[0]
                self.arrays[-1].append(x.ravel())
            elif kind is _C.Array:
                x = x if x.is_contiguous() else dense([x], self.back, (0,))[0]
                self.arrays[x.device_index].append(x)
            else:
                self.others.append(tensor)


def _on(device: int, x: Tensor | None) -> Any:
    return None if x is None else x.to(CPU if device < 0 else cuda_device(device))._array


def rescale_(tensors: Sequence[Tensor], factor: Tensor | None, found: Tensor | None) -> None:
    """Multiplies tensors by a number; `found` becomes 1 if the result is not finite somewhere.

    found, if given, is on the tensors' device.
    """
    _C.flush()  # deferred calls may read them
    parts = _Parts(tensors)
    for device, arrays in parts.arrays.items():
        family = backend("cpu" if device < 0 else "gpu", "optim")
        family.rescale(arrays, _on(device, factor), None if found is None else found._array)
    for tensor in parts.others:
        if factor is not None:
            tensor.mul_(factor.to(tensor.device, tensor.dtype))
        if found is not None:
            bad = isfinite(tensor).logical_not().any()
            found.copy_(where(bad, published.public.ones_like(found), found))
    if factor is not None:
        copy_back(parts.back)
        others = set(map(id, parts.others))
        for tensor in tensors:
            if id(tensor) not in others:
                _C.bump_version(tensor)


def total_norm(tensors: Sequence[Tensor], order: float) -> Tensor:
    """The norm of all elements, of an order in NORMS, on the first tensor's device."""
    parts = _Parts(tensors)
    place, kind = tensors[0].device, tensors[0].dtype
    for tensor in tensors:
        kind = promote_types(kind, tensor.dtype)
    kind = kind.to_real()
    norms = [
        _C.wrap(backend("cpu" if device < 0 else "gpu", "optim").norm(arrays, order, kind))
        for device, arrays in parts.arrays.items()
    ]
    norms += [tensor.norm(order) for tensor in parts.others]
    if len(norms) == 1:
        return norms[0].to(place)
    return stack([norm.to(place) for norm in norms]).norm(order)


def norm_of_all(tensors: Sequence[Tensor], order: float) -> Tensor:
    """The norm of all elements of all tensors, of any order, without a graph."""
    if not tensors:
        return factory.tensor(0.0)
    with no_grad():
        if order in NORMS:
            return total_norm(tensors, order)
        norms = [tensor.norm(order).to(tensors[0].device) for tensor in tensors]
        return stack(norms).norm(order)
