"""Storages of another size, with all tensors on them.

Shapes and strides belong to arrays here, so a tensor whose storage became too small needs memory to
point to all the same.  On the CPU that is a mapping as long as the storage was, of which only what
is used takes any memory (what lies behind the end reads as zero); on a GPU an address at which
nothing ever is.
"""

from __future__ import annotations

import gc
import mmap
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray
from tritorch.core.dtype import uint8

_NOWHERE = 1 << 56  # above all addresses of GPUs
_reserved: dict[int, int] = {}  # addresses given out above it, and how many bytes after each
_next = _NOWHERE


class _Mapping(mmap.mmap):
    """The memory of a storage that was made smaller."""


def resize(storage: Any, size: int) -> None:
    """Gives a storage so many bytes; the first ones stay what they were."""
    if storage._shared.fixed:
        raise RuntimeError("Trying to resize storage that is not resizable")
    old = storage._array
    if type(old) is MetaArray:
        old.memory.nbytes = size
        return
    start, extent = _reach(storage)
    moved = tensors_within(start, start + extent) if extent else []
    move = _on_host if type(old) is np.ndarray else _on_device
    root, views = move(storage, size, extent, moved, start)
    for tensor, view in zip(moved, views):
        shared = tensor._shared
        shared.array = root
        holder = shared.storage() if shared.storage is not None else None
        if holder is not None:
            holder._array = root
        tensor._a = view
    storage._array = storage._shared.array = root


def _reach(storage: Any) -> tuple[int, int]:
    """Where a storage's tensors may begin, and in how many bytes."""
    array = storage._array
    start = arrays.address_of(array)
    if type(array) is not np.ndarray:
        return start, _reserved.get(start, array.storage_nbytes)
    owner: Any = array
    while isinstance(owner, np.ndarray):
        memory, owner = owner, owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    return start, memory.nbytes if isinstance(owner, _Mapping) else storage.nbytes()


def _on_host(
    storage: Any, size: int, extent: int, moved: list[Any], start: int
) -> tuple[Any, list[Any]]:
    if size >= extent:
        memory = np.zeros((size,), np.uint8)
    else:
        memory = np.frombuffer(_Mapping(-1, extent), np.uint8)
    keep = min(size, storage.nbytes())
    memory[:keep] = storage._elements(uint8)[:keep]
    views = []
    for tensor in moved:
        array = tensor._array
        elements = memory[arrays.address_of(array) - start :]
        elements = elements[: elements.size // array.itemsize * array.itemsize].view(array.dtype)
        views.append(arrays.np_strided(elements, array.shape, arrays.strides_of(array), 0))
    return memory[:size], views


def _on_device(
    storage: Any, size: int, extent: int, moved: list[Any], start: int
) -> tuple[Any, list[Any]]:
    global _next
    index = storage._array.device_index
    if not size:
        base, _next = _next, _next + max(-(-extent // 4096), 1) * 4096
        _reserved[base] = extent
        views = [
            _C.adopt(None, base + a.data_ptr() - start, a.shape, a.strides, a.dtype, index)
            for a in (tensor._array for tensor in moved)
        ]
        return _C.adopt(None, base, (0,), None, uint8, index), views
    whole = max(size, extent)
    memory = arrays.zeros((whole,), uint8, storage.device)
    keep = min(size, storage.nbytes())
    if keep:
        memory[:keep].copy_(storage._elements(uint8)[:keep])
    views = []
    for array in (tensor._array for tensor in moved):
        skip = array.data_ptr() - start
        elements = memory[skip : skip + (whole - skip) // array.itemsize * array.itemsize]
        elements = elements.view_dtype(array.dtype)
        views.append(elements.as_strided(array.shape, array.strides, elements.storage_offset()))
    _reserved.pop(start, None)
    if size < extent:  # the tensors may reach further than the storage says
        return _C.adopt(memory, memory.data_ptr(), (size,), None, uint8, index), views
    return memory, views


def tensors_within(start: int, stop: int) -> list[Any]:
    """All tensors whose memory lies in a range; looks at every object, which takes a while."""
    found = []
    for each in gc.get_objects():
        if issubclass(type(each), _C.TensorBase):
            try:
                array = each._array
            except (AttributeError, RuntimeError):
                continue
            if type(array) in (np.ndarray, _C.Array) and array.size:
                if start <= arrays.address_of(array) < stop:
                    found.append(each)
    return found
