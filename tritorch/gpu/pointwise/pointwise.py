"""Pointwise launches: one kernel for any operator, dtypes, broadcasting and strides."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.core.dtype import dtype
from tritorch.gpu.arrays import overlaps
from tritorch.gpu.pointwise.layout import (
    INT32_MAX,
    LONG,
    block_size,
    broadcast_strides,
    float_bits,
    reach,
)
from tritorch.triton import names
from tritorch.triton.kernel import kernel

Array = _C.Array
_NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


@functools.cache
def scalar_function(name: Any) -> Any:
    """The jit function of a name in kernels/pointwise.py, or the one given."""
    return names.function("pointwise", name) if isinstance(name, str) else name


@functools.cache
def triton_type(kind: dtype) -> Any:
    """The type that a kernel computes in: narrow floats compute in float32."""
    return names.element_type("float32" if kind.name in _NARROW else kind.name)


def _bits(value: Any, kind: dtype) -> int:
    """A number as the kernel takes it: the bits of a float64, or an integer."""
    if kind.is_floating_point:
        return float_bits(float(value))
    value = int(value)
    return value if -(2**63) <= value < 2**63 else value - 2**64


def call(
    name: Any,
    arguments: tuple[Any, ...],
    compute: dtype,
    out_dtype: dtype,
    out: Array | None = None,
) -> Array:
    """y = name(*arguments), broadcasting arrays and numbers; computed as `compute`.

    name: a function of kernels/pointwise.py, or a jit function itself.
    """
    if compute.is_complex or out_dtype.is_complex:
        from tritorch.gpu.pointwise import complex as complex_launches

        return complex_launches.call(name, arguments, compute, out_dtype, out)
    first = arguments[0]
    if len(arguments) == 2:
        second = arguments[1]
        if type(first) is Array and type(second) is Array:
            if first.shape == second.shape and first.is_contiguous() and second.is_contiguous():
                return flat2(name, first, second, compute, out_dtype, out)
    elif len(arguments) == 1 and first.is_contiguous():
        return flat1(name, first, compute, out_dtype, out)
    return _general(name, arguments, compute, out_dtype, out)


_MANY = 2**20  # elements that are 512 programs


def flat1(name: Any, a: Array, compute: dtype, kind: dtype, out: Array | None = None) -> Array:
    """y = name(a), a contiguous."""
    y = _C.empty(a.shape, kind, a.device_index) if out is None else out
    if not y.is_contiguous():
        return _general(name, (a,), compute, kind, y)
    n = a.numel()
    if n:
        block, warps = _block(name, n, y.itemsize)
        _kernel("map1_flat")(
            (-(-n // block),), a, y, n, OP=scalar_function(name), COMPUTE=triton_type(compute),
            A_NUMBER=False, WIDE=n > INT32_MAX, BLOCK=block, num_warps=warps,
        )  # fmt: skip
    return y


def flat2(
    name: Any, a: Array, b: Array, compute: dtype, kind: dtype, out: Array | None = None
) -> Array:
    """y = name(a, b), both contiguous and of one shape."""
    y = _C.empty(a.shape, kind, a.device_index) if out is None else out
    if not y.is_contiguous():
        return _general(name, (a, b), compute, kind, y)
    n = a.numel()
    if n:
        block, warps = _block(name, n)
        _kernel("map2_flat")(
            (-(-n // block),), a, b, y, n, OP=scalar_function(name), COMPUTE=triton_type(compute),
            WIDE=n > INT32_MAX, BLOCK=block, num_warps=warps,
        )  # fmt: skip
    return y


def may_write(out: Array, operands: Sequence[Any]) -> bool:
    """Whether a launch may write `out` while it reads the operands: each is it, or apart."""
    return all(
        type(x) is not Array
        or (x.data_ptr() == out.data_ptr() and x.strides == out.strides and x.shape == out.shape)
        or not overlaps(out, x)
        for x in operands
    )


def flat2_number(
    name: Any, a: Any, b: Any, compute: dtype, kind: dtype, out: Array | None = None
) -> Array:
    """y = name(a, b), one a contiguous array, the other a number."""
    a_number = type(a) is not Array
    array = b if a_number else a
    y = _C.empty(array.shape, kind, array.device_index) if out is None else out
    n = array.numel()
    if n:
        block, warps = _block(name, n, y.itemsize)
        _kernel("map2_flat_number")(
            (-(-n // block),), _bits(a, compute) if a_number else a,
            b if a_number else _bits(b, compute), y, n, OP=scalar_function(name),
            COMPUTE=triton_type(compute), A_NUMBER=a_number, B_NUMBER=not a_number,
            WIDE=n > INT32_MAX, BLOCK=block, num_warps=warps,
        )  # fmt: skip
    return y


def _block(name: Any, n: int, only: int = 4) -> tuple[int, int]:
    """Elements and warps of a program; only: the item size where one operand alone is read.

    A thread that reads one operand of 16 bits takes two loads of 16 bytes, where programs abound.
    """
    if name in LONG:
        return 256, 4
    return (2048, 4) if only <= 2 and n >= _MANY else block_size(n)


@functools.cache
def _kernel(name: str) -> _C.Kernel:
    return kernel("pointwise", name)


def broadcast_shape(arguments: Sequence[Any]) -> tuple[int, ...]:
    """The shape that all arrays broadcast to (they are known to)."""
    shapes = [argument.shape for argument in arguments if type(argument) is Array]
    ndim = max(map(len, shapes))
    out = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, start=ndim - len(shape)):
            if n != 1:
                out[i] = n
    return tuple(out)


def output_like(arguments: Sequence[Any], shape: tuple[int, ...], kind: dtype) -> Array:
    """A new output, in the memory order that the operands ask for."""
    given = [a for a in arguments if type(a) is Array]
    index = given[0].device_index
    lies = [(a.shape, a.strides) for a in given if a.shape]
    if len(lies) == 1 and given[0].is_contiguous() and given[0].shape == shape:
        return _C.empty(shape, kind, index)
    numbers = len(lies) < len(arguments)
    return _C.empty_strided(shape, _C.result_strides(shape, lies, numbers), kind, index)


def _general(
    name: str, arguments: tuple[Any, ...], compute: dtype, kind: dtype, out: Array | None
) -> Array:
    shape = broadcast_shape(arguments) if out is None else out.shape
    y = output_like(arguments, shape, kind) if out is None else out
    n = math.prod(shape)
    if n == 0:
        return y
    numbers = [type(a) is not Array for a in arguments]
    if len(arguments) == 2 and any(numbers) and y.is_contiguous():
        array = arguments[0] if numbers[1] else arguments[1]
        if array.shape == shape and array.is_contiguous():
            return flat2_number(name, *arguments, compute, kind, y)
    values = [_bits(a, compute) if is_number else a for a, is_number in zip(arguments, numbers)]
    block, warps = _block(name, n)
    grid = (-(-n // block),)
    strides = [
        (0,) * len(shape) if is_number else broadcast_strides(a.shape, a.strides, shape)
        for a, is_number in zip(arguments, numbers)
    ]
    dims, all_strides = launch_layout(shape, [*strides, y.strides])
    wide = max(n, *(reach(dims, s) for s in all_strides)) > INT32_MAX
    flags = dict(zip(("A_NUMBER", "B_NUMBER", "C_NUMBER", "D_NUMBER"), numbers))
    _kernel(f"map{len(arguments)}_strided")(
        grid, *values, y, n, dims, *all_strides, OP=scalar_function(name),
        COMPUTE=triton_type(compute), NDIM=len(dims), WIDE=wide, BLOCK=block, num_warps=warps,
        **flags,
    )  # fmt: skip
    return y


def launch_layout(
    shape: tuple[int, ...], strides: list[tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Dims in the order of the last one's (the output's) memory, adjacent ones joined where all
    operands allow."""
    order = sorted(range(len(shape)), key=lambda dim: (-strides[-1][dim], dim))
    permuted = tuple(shape[dim] for dim in order)
    moved = [tuple(s[dim] for dim in order) for s in strides]
    dims, joined = _C.collapse(permuted, moved)
    if not dims:
        return (1,), tuple((0,) for _ in strides)
    return dims, joined
