"""Items to batches: what a loader does with the items unless told otherwise."""

from __future__ import annotations

import collections.abc
import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core.dtype import float64, from_numpy_dtype
from tritorch.core.tensor import Tensor
from tritorch.ops.shape import factory
from tritorch.ops.shape.factory import as_tensor
from tritorch.ops.shape.joining import stack
from tritorch.utils.data._utils import transport

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, within lists, tuples and dicts too."""
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)) and not isinstance(data, (np.str_, np.bytes_)):
        if isinstance(data, np.ndarray) and np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def _like_mapping(original: Any, items: dict[Any, Any]) -> Any:
    """Items in a mapping of the original's class, with its other attributes."""
    try:
        if isinstance(original, collections.abc.MutableMapping):
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)
    except TypeError:  # no copy, or no such constructor
        return items


def _like_sequence(original: Any, items: list[Any]) -> Any:
    """Items in a sequence of the original's class, with its other attributes."""
    try:
        if type(original) is list:
            return items
        if isinstance(original, collections.abc.MutableSequence):
            clone = copy.copy(original)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(original)(items)
    except TypeError:
        return items


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Items of one kind as one: by the function for their type, else member by member."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for types, function in collate_fn_map.items():
            if isinstance(first, types):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        joined = {
            key: collate([item[key] for item in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return _like_mapping(first, joined)
    if isinstance(first, collections.abc.Sequence):
        size = len(first)
        if isinstance(first, tuple) and hasattr(first, "_fields"):
            return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)))
        if not all(len(item) == size for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else _like_sequence(first, columns)
    raise TypeError(default_collate_err_msg_format.format(kind))


def stack_arrays(arrays: list[np.ndarray[Any, Any]]) -> Tensor | None:
    """Arrays of one shape and dtype as a tensor, in a worker in shared memory; None otherwise."""
    first = arrays[0]
    shape, kind = first.shape, first.dtype
    if len({array.shape for array in arrays}) > 1 or len({array.dtype for array in arrays}) > 1:
        return None
    out = transport.empty((len(arrays), *shape), kind)
    if not shape:
        out[...] = arrays
    elif first.size:
        np.concatenate(arrays, out=out.reshape(-1, *shape[1:]))
    return _C.wrap(out)


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Tensors stacked."""
    if {type(tensor) for tensor in batch} == {Tensor} and not _C.any_requires_grad(*batch):
        arrays = [tensor._array for tensor in batch]
        if {type(array) for array in arrays} == {np.ndarray}:
            out = stack_arrays(arrays)
            if out is not None:
                return out
    return stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """NumPy arrays stacked."""
    first = batch[0]
    if np_str_obj_array_pattern.search(first.dtype.str) is not None:
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    if all(type(array) is np.ndarray for array in batch):
        from_numpy_dtype(first.dtype)  # an error where there is no such dtype
        out = stack_arrays(list(batch))
        if out is not None:
            return out
    return collate([as_tensor(a) for a in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """NumPy's numbers as a vector."""
    return as_tensor(np.asarray(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Floats as a vector of float64."""
    return factory.tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Ints as a vector of int64."""
    return factory.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Strings as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Items to a batch: tensors, arrays and numbers stacked, dicts and sequences member by member.

    In a worker process the result is written straight into the shared memory that it is sent in.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
