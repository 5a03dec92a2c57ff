"""Parts of Triton's interpreter that took most of its time, in forms that compute the same.

It reduces and scans element by element, a Python call each; here a combine function gets blocks: of
neighbours for a reduction, which halves it in each step, and of places 1, 2, 4... apart for a scan.
Both keep the order of the operands, as Triton's code for GPUs does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

Array = np.ndarray[Any, Any]


class NeedsScalarsError(Exception):
    """A combine function asks for the truth of a value, so it takes elements only."""


combining = False  # within a combine function that got blocks


@functools.cache
def _by_name(name: str) -> Any:
    return _np_dtype(tl.dtype(name))


_np_dtype: Callable[[Any], Any] = interpreter._get_np_dtype


def _get_np_dtype(kind: Any) -> Any:
    scalar = kind.scalar
    return _POINTER if isinstance(scalar, tl.pointer_type) else _by_name(scalar.name)


_POINTER = np.dtype(np.uint64)


# Shapes of blocks and tensors are objects of the language, made anew for each value.


@functools.cache
def _of_tensor(shape: tuple[int, ...]) -> tuple[Any, Any]:
    return tl.tuple([tl.constexpr(n) for n in shape]), tl.constexpr(math.prod(shape))


def _init_block(self: Any, element_ty: Any, shape: Any) -> None:
    key = tuple([n.value if isinstance(n, tl.constexpr) else n for n in shape])
    known = _blocks.get(key)
    if known is None:
        _slow_init_block(self, element_ty, shape)
        _blocks[key] = self.shape, self.numel, str(self.shape)
        return
    self.element_ty = element_ty
    self.shape, self.numel, text = known
    self.name = f"<{text}, {element_ty}>"


_blocks: dict[tuple[int, ...], tuple[Any, int, str]] = {}
_slow_init_block: Callable[..., None] = tl.block_type.__init__


def _init_tensor(self: Any, handle: Any, type: Any) -> None:
    self.handle, self.type, self.dtype = handle, type, type.scalar
    self.shape, self.numel = _of_tensor(tuple(type.shape) if type.is_block() else ())


def _combined(op: Any, kinds: list[Any], left: list[Array], right: list[Array]) -> list[Array]:
    """What the combine function makes of two blocks."""
    global combining
    tensors = [op.to_tensor(x, kind) for side in (left, right) for x, kind in zip(side, kinds)]
    before, combining = combining, True
    try:
        made = op.combine_fn.fn(*tensors)
    finally:
        combining = before
    made = made if isinstance(made, tuple) else (made,)
    values = (x.handle.data if isinstance(x, tl.tensor) else x for x in made)
    return [np.broadcast_to(x, a.shape).astype(a.dtype) for x, a in zip(values, left)]


def _reduced(op: Any, input: Any) -> Any:
    whole = op.axis is None
    tensors, axis = op.unravel(input, op.axis)
    data = [x.handle.data for x in tensors]
    kinds = [x.dtype for x in tensors]
    shape = data[0].shape
    if shape[axis] & (shape[axis] - 1):
        return _one_by_one(op, input)
    every = (slice(None),) * axis
    even, odd = (*every, slice(0, None, 2)), (*every, slice(1, None, 2))
    try:
        while data[0].shape[axis] > 1:
            data = _combined(op, kinds, [x[even] for x in data], [x[odd] for x in data])
    except NeedsScalarsError:
        return _one_by_one(op, input)
    out = []
    for x, kind in zip(data, kinds):
        if op.keep_dims:
            x = x.reshape((1,) * len(input[0].handle.data.shape)) if whole else x
        else:
            x = x.item() if whole else x[(*every, 0)]
        out.append(op.to_tensor(x, kind))
    return out


def _scanned(op: Any, input: Any) -> Any:
    data = [x.handle.data for x in input]
    kinds = [x.dtype for x in input]
    axis = op.axis
    n = data[0].shape[axis]
    place = np.arange(n).reshape([n if i == axis else 1 for i in range(data[0].ndim)])
    apart = 1
    try:
        while apart < n:
            made = _combined(op, kinds, [np.roll(x, apart, axis) for x in data], data)
            data = [np.where(place >= apart, new, old) for new, old in zip(made, data)]
            apart *= 2
    except NeedsScalarsError:
        return _scan_one_by_one(op, input)
    return [op.to_tensor(x, kind) for x, kind in zip(data, kinds)]


_one_by_one: Callable[[Any, Any], Any] = interpreter.ReduceOps.generic_reduce
_scan_one_by_one: Callable[[Any, Any], Any] = interpreter.ScanOps.generic_scan


def patches() -> list[tuple[Any, str, Any]]:
    """(owner, name, value) of what stands in for it while a kernel runs."""
    return [
        (interpreter, "_get_np_dtype", _get_np_dtype),
        (tl.block_type, "__init__", _init_block),
        (tl.tensor, "__init__", _init_tensor),
        (interpreter.ReduceOps, "generic_reduce", _reduced),
        (interpreter.ScanOps, "generic_scan", _scanned),
    ]
