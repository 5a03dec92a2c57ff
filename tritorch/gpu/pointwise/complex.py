"""Pointwise launches on complex arrays: kernels see pairs of reals."""

from __future__ import annotations

import functools
import math
from typing import Any

from tritorch import _C
from tritorch.arrays.arrays import pairs
from tritorch.core.dtype import dtype
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.pointwise.layout import INT32_MAX, block_size, broadcast_strides, reach
from tritorch.triton import sources
from tritorch.triton.kernel import kernel
from tritorch.triton.names import function

Array = _C.Array


@functools.cache
def _function(name: str) -> Any:
    return function("complex", name) if sources.defines("complex", name) else None


def computes(name: Any, operands: int) -> bool:
    """Whether a kernel does: kernels/scalar/complex.py has the functions, of up to four
    operands."""
    return _function(name) is not None and operands <= 4


def _as_array(value: Any, compute: dtype, index: int) -> Array:
    """A number as an array of one element, filled on the device: a graph may do that."""
    if type(value) is Array:
        return value
    kind = compute if isinstance(value, complex) else compute.to_real()
    return _C.empty((), kind, index).fill_(value)


def call(
    name: str,
    arguments: tuple[Any, ...],
    compute: dtype,
    out_dtype: dtype,
    out: Array | None,
) -> Array:
    """pointwise.call, where something is complex."""
    if not computes(name, len(arguments)):
        raise NotImplementedError(f"no kernel computes {name} of complex numbers")
    index = next(a.device_index for a in arguments if type(a) is Array)
    shape = pointwise.broadcast_shape(arguments) if out is None else out.shape
    y = pointwise.output_like(arguments, shape, out_dtype) if out is None else out
    n = math.prod(shape)
    if n == 0:
        return y
    values, strides, flags = [], [], []
    for value in (*(_as_array(a, compute, index) for a in arguments), y):
        is_pair = value.dtype.is_complex
        steps = broadcast_strides(value.shape, value.strides, shape)
        strides.append(tuple(2 * s for s in steps) if is_pair else steps)
        values.append(pairs(value) if is_pair else value)
        flags.append(is_pair)
    dims, all_strides = pointwise.launch_layout(shape, strides)
    wide = max(n, *(reach(dims, s) for s in all_strides)) > INT32_MAX
    block, warps = block_size(n)
    names = ("A_PAIR", "B_PAIR", "C_PAIR", "D_PAIR")[: len(arguments)]
    kernel("complex", f"map{len(arguments)}")(
        (-(-n // block),), *values, n, dims, *all_strides, OP=_function(name),
        COMPUTE=pointwise.triton_type(compute.to_real()), **dict(zip(names, flags)),
        Y_PAIR=flags[-1], NDIM=len(dims), WIDE=wide, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return y
