"""What ndarrays and `_C.Array`s have in common, under one name each."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast as cast_type

import numpy as np

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.core import layout
from tritorch.core.device import device as Device
from tritorch.core.dtype import (
    bfloat16,
    complex32,
    complex64,
    dtype,
    float32,
    float64,
    from_numpy_dtype,
)
from tritorch.core.promotion import not_implemented

ndarray = np.ndarray
CPU = Device("cpu")
_C.register_part("ndarray", np.ndarray)
_C.register_part("generic", np.generic)
_C.register_part("asarray", np.asarray)


Function = TypeVar("Function", bound=Callable[..., Any])


def seen(function: Function) -> Function:
    """A function of arrays that is called outside of records, too: call plans call it again."""
    return cast_type(Function, _C.Seen(function))


def seen_unwritten(function: Function) -> Function:
    """The same of one whose results have no contents yet."""
    return cast_type(Function, _C.Seen(function, _C.Seen.UNWRITTEN))


def by_steps(function: Function) -> Function:
    """A function of arrays that does nothing but call seen ones, make views and decide by sizes,
    dtypes and what those functions answer: call plans have those calls in its place.

    Where it turns out to do something else, it is one call of a plan after all.  It must not decide
    by the elements of arrays."""
    return cast_type(Function, _C.Parts(function))


def seen_scratch(function: Function) -> Function:
    """A step that gives memory for other steps to write."""
    return cast_type(Function, _C.Seen(function, _C.Seen.SCRATCH))


# NumPy's functions as steps.
scratch = seen_scratch(np.empty)
asarray, take, divide = seen(np.asarray), seen(ndarray.take), seen(np.true_divide)
fold, add, subtract = seen(np.ufunc.reduce), seen(np.add), seen(np.subtract)
negative, not_equal = seen(np.negative), seen(np.not_equal)


@functools.cache
def cuda_device(index: int) -> Device:
    """The device object of a GPU."""
    return Device("cuda", index)


_C.register_part("cpu_device", CPU)
_C.register_part("cuda_device", cuda_device)


def device_of(array: Any) -> Device:
    """Where an array's memory is."""
    if type(array) is ndarray:
        return CPU
    return cuda_device(array.device_index) if type(array) is _C.Array else array.device


def dtype_of(array: Any) -> dtype:
    """An array's element type."""
    kind = array.dtype
    return kind if type(kind) is dtype else from_numpy_dtype(kind)


def dtype_of_kind(kind: Any) -> dtype:
    """The element type that an array calls `dtype`."""
    return kind if type(kind) is dtype else from_numpy_dtype(kind)


def strides_of(array: Any) -> tuple[int, ...]:
    """Strides in elements."""
    if type(array) is not ndarray:
        return array.strides
    size = array.itemsize
    return tuple(stride // size for stride in array.strides)


def address_of(array: Any) -> int:
    """Where an array's first element is."""
    if type(array) is not ndarray:
        return array.data_ptr()
    return array.__array_interface__["data"][0]


def is_contiguous(array: Any) -> bool:
    """Whether an array is dense in row-major order."""
    return array.flags.c_contiguous if type(array) is ndarray else array.is_contiguous()


def is_usual(array: Any) -> bool:
    """True if an ndarray is dense in row-major order, and its strides could be no others."""
    shape = array.shape
    return array.flags.c_contiguous and 1 not in shape and 0 not in shape


@seen_unwritten
def empty(shape: Sequence[int], kind: dtype, device: Device) -> Any:
    """An uninitialised array."""
    if device.backend == "cpu":
        return np.empty(shape, kind.numpy)
    if device.backend == "cuda":
        if not kind.native:
            raise NotImplementedError(f"{kind} is not supported on the GPU")
        return _C.empty(shape, kind, device.index)
    return MetaArray(shape, kind, None, device)


@seen_unwritten
def empty_strided(shape: Sequence[int], strides: Sequence[int], kind: dtype, device: Device) -> Any:
    """An uninitialised array with given strides."""
    if device.backend == "cuda":
        return _C.empty_strided(shape, strides, kind, device.index)
    if device.backend == "meta":
        return MetaArray(shape, kind, strides, device)
    if math.prod(shape) == 0:
        return np_strided(np.empty(0, kind.numpy), shape, strides, 0)
    # Dense in some order, as a rule: NumPy transposes faster than it makes views by strides.
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], -shape[dim]))
    dense = np.empty([shape[dim] for dim in order], kind.numpy)
    dense = dense.transpose(sorted(order, key=order.__getitem__) if order else None)
    if dense.strides == tuple(stride * dense.itemsize for stride in strides):
        return dense
    reach = sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1
    return np_strided(np.empty(reach, kind.numpy), shape, strides, 0)


def np_strided(
    root: np.ndarray[Any, Any], shape: Sequence[int], strides: Sequence[int], offset: int
) -> np.ndarray[Any, Any]:
    """A view of the memory that starts at `root`, by strides and offset in elements."""
    return _C.strided_view(root, shape, strides, offset)


@seen
def zeros(shape: Sequence[int], kind: dtype, device: Device) -> Any:
    """An array of zeros."""
    if device.backend == "cpu":
        return np.zeros(shape, kind.numpy)
    return empty(shape, kind, device).zero_()


_filled = _C.Quiet(ndarray.fill)


@seen
def full(shape: Sequence[int], value: Any, kind: dtype, device: Device) -> Any:
    """An array of one value."""
    if device.backend == "cpu":
        out = np.empty(shape, kind.numpy)
        if kind.opaque:
            _filled(out, cast(np.asarray(value, np.complex64), kind))
        else:
            _filled(out, cast_number(value, kind))
        return out
    return empty(shape, kind, device).fill_(cast_number(value, kind))


@seen
def fill(array: Any, value: Any) -> None:
    """Makes a number of its dtype every element of an array."""
    array.fill(value) if type(array) is ndarray else array.fill_(value)


def fill_unwritten(array: Any, kind: dtype) -> None:
    """Fills new memory as deterministic algorithms do: NaN, the largest integer, True."""
    if kind.opaque:
        return
    if kind.is_floating_point or kind.is_complex:
        value: Any = math.nan
    else:
        value = True if kind.name == "bool" else int(np.iinfo(kind.numpy).max)
    if type(array) is np.ndarray:
        array.fill(value)
    elif hasattr(array, "fill_"):
        array.fill_(value)


def cast_number(value: Any, kind: dtype) -> Any:
    """A Python number as C++ converts it: integers wrap, floats are cut."""
    if kind.is_floating_point or kind.is_complex:
        return value
    if kind.name == "bool":
        return bool(value)
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            return -(2**63) if kind.name == "int64" else 0
        value = int(value)
    elif isinstance(value, complex):
        value = int(value.real)
    bits = kind.itemsize * 8
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if kind.is_signed and value >> (bits - 1) else value


_converted = _C.Quiet(ndarray.astype)
_cast_halves = seen(_C.cast_halves)
_SINGLE = float32.numpy


def _cast_chain(kinds: str, old: int, new: int) -> Any:
    """A cast of dense arrays, from and to elements of so many bytes."""
    return _C.Chain(((0, -1, None, old, old), (1, -1, None, new, new)), (("cast", kinds, (0, 1)),))


_widening, _rounding = _cast_chain("Ef", 2, 4), _cast_chain("fE", 4, 2)
_MANY = 1 << 15  # elements from which threads share other conversions


@functools.lru_cache(64)
def _cast_of_many(old: Any, new: Any) -> Any:
    """The same for two dtypes; None where machines disagree, or there is no such loop."""
    if old.kind not in "biuf" or new.kind != "f" or "e" in (old.char, new.char):
        return None
    try:
        return _cast_chain(old.char + new.char, old.itemsize, new.itemsize)
    except (TypeError, ValueError):
        return None


def is_bfloat16(kind: Any) -> bool:
    """Whether a dtype of NumPy's is ml_dtypes' bfloat16; of others, that is not imported."""
    return kind.kind == "V" and kind == bfloat16.numpy


@seen
@by_steps
def convert(array: Any, kind: Any) -> Any:
    """An array or scalar of NumPy's in another of its dtypes.  ml_dtypes' own casts are slow, and
    hold Python's lock."""
    if type(array) is not ndarray:
        return array.astype(kind)
    old, kind = array.dtype, np.dtype(kind)
    if "e" in (old.char, kind.char) and _SINGLE in (old, kind):
        out = scratch(array.shape, kind)
        if array.size < _MANY and _cast_halves(array, out):
            return out
    if old is _SINGLE and is_bfloat16(kind):
        chain = _rounding
    elif kind is _SINGLE and is_bfloat16(old):
        chain = _widening
    else:
        chain = _cast_of_many(old, kind) if array.size >= _MANY else None
    if chain is None or not array.flags.c_contiguous:
        return _converted(array, kind)
    out = np.empty(array.shape, kind)
    chain(0, array.size, array, out)
    return out


@seen
@by_steps
def cast(array: Any, kind: dtype) -> Any:
    """The array itself if it has the dtype, else a converted copy that keeps the memory order."""
    if type(array) is not ndarray:
        return array.astype(kind)
    theirs = kind.numpy
    if array.dtype is theirs or array.dtype == theirs:
        return array
    if theirs.names or array.dtype.names:
        return _cast_opaque(array, kind)
    if array.dtype.kind == "c" and theirs.kind not in "cb":
        array = array.real
    elif array.dtype.kind == "f" and theirs.kind in "iu" and theirs.itemsize < 8:
        # As the processor's instruction: what no int32 holds is its least; narrower types wrap.
        wide = np.int64 if theirs == np.uint32 else np.int32
        array = _converted(array, wide)
    elif kind.name == "float8_e4m3fn":  # which has no infinity: PyTorch saturates
        array = np.clip(_converted(array, np.float32), -448, 448)
    return convert(array, theirs)


def _cast_opaque(array: Any, kind: dtype) -> Any:
    """To or from a type that NumPy lacks: of these, complex32 has numbers."""
    old = dtype_of(array)
    if old is complex32:
        wide = np.empty_like(array, np.complex64)
        wide.real, wide.imag = array["real"], array["imag"]
        return cast(wide, kind)
    if kind is not complex32:
        raise not_implemented("copy_kernel", kind if kind.opaque else old)
    wide = cast(array, complex64)
    out = np.empty_like(wide, kind.numpy)
    out["real"], out["imag"] = wide.real, wide.imag
    return out


def as_numbers(array: Any) -> Any:
    """The elements of a type that NumPy lacks as complex64; an error for those without numbers."""
    if dtype_of(array) is not complex32:
        raise not_implemented("_local_scalar_dense_cpu", dtype_of(array))
    return cast(array, complex64)


_NATIVE = 1 << 14  # bytes from which copies are ours: Note [Copies] in src/host/copies.cpp


@seen
def put(target: Any, source: Any) -> None:
    """target[...] = source, of NumPy arrays."""
    size = source.itemsize
    small = source.size * size < _NATIVE or target.dtype is not source.dtype
    if small or not _C.copy_elements(target, source, size):
        target[...] = source


def _row_major(array: Any) -> Any:
    """A row-major copy of a NumPy array."""
    if array.size * array.itemsize < _NATIVE:
        return _copied(array, order="C")
    out = scratch(array.shape, array.dtype)
    put(out, array)
    return out


_copied = seen(ndarray.copy)


def lay_out(array: Any, strides: tuple[int, ...]) -> Any:
    """A copy of an array that has given strides."""
    if type(array) is _C.Array:
        return _C.empty_strided(array.shape, strides, array.dtype, array.device_index).copy_(array)
    steps = sorted(strides, reverse=True)
    if tuple(steps) == strides:
        out = _row_major(array)
    else:  # dense in another order, as a rule
        order = sorted(range(len(strides)), key=lambda dim: (-strides[dim], -array.shape[dim]))
        out = _row_major(array.transpose(order))
        out = out.transpose(sorted(order, key=order.__getitem__))
    if _C.restride(out, strides):
        return out
    out = empty_strided(array.shape, strides, dtype_of(array), CPU)
    np.copyto(out, array)
    return out


_C.register_part("lay_out", lay_out)


@seen
def lay_out_as_copy(array: Any, original: Any) -> Any:
    """A converted array with the strides that a copy of the original has."""
    if type(original) is not ndarray or type(array) is not ndarray:
        return array
    if original.flags.c_contiguous and is_usual(array):
        return array
    strides = layout.dense_strides_like(array.shape, strides_of(original))
    return array if strides == strides_of(array) else lay_out(array, strides)


_laid_out = seen(lay_out)


@seen
@by_steps
def copy(array: Any) -> Any:
    """A dense copy that keeps the memory order."""
    if type(array) is ndarray:
        if is_usual(array):
            return _row_major(array)
        return _laid_out(array, layout.dense_strides_like(array.shape, strides_of(array)))
    strides = layout.dense_strides_like(array.shape, array.strides)
    if type(array) is MetaArray:
        return array.new(array.shape, None, strides)
    return _C.empty_strided(array.shape, strides, array.dtype, array.device_index).copy_(array)


@seen
@by_steps
def contiguous_copy(array: Any) -> Any:
    """A dense row-major copy."""
    if type(array) is not ndarray:
        return array.clone()
    return _row_major(array)


def move(array: Any, device: Device, non_blocking: bool = False) -> Any:
    """The array on another device (itself if it is there)."""
    if device.backend == "meta":
        if type(array) is MetaArray and type(array.device) is type(device):
            return array
        return MetaArray(array.shape, dtype_of(array), strides_of(array), device)
    if type(array) is ndarray:
        if device.backend == "cpu":
            return array
        dense = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        if dense.shape != array.shape:  # ascontiguousarray makes 0-d arrays 1-d
            dense = dense.reshape(array.shape)
        return _C.Array.from_numpy(dense, device.index, non_blocking)
    if device.backend == "cpu":
        return array.numpy()
    return array.to_device(device.index, non_blocking)


def strided(array: Any, shape: Sequence[int], strides: Sequence[int], skip: int) -> Any:
    """A view by strides, `skip` elements after an array's first."""
    if type(array) is not np.ndarray:
        return array.as_strided(shape, strides, array.storage_offset() + skip)
    return np_strided(array, shape, strides, skip)


def pairs(array: Any) -> Any:
    """A complex array as real pairs, in a new last dim."""
    if type(array) is np.ndarray:
        real = array["real"] if array.dtype.names else array.real
        return np_strided(real, (*real.shape, 2), (*strides_of(real), 1), 0)
    kind = float32 if array.dtype is complex64 else float64
    flat = array.as_strided((array.storage_nbytes // array.itemsize,), (1,), 0).view_dtype(kind)
    strides = [*(2 * s for s in array.strides), 1]
    return flat.as_strided((*array.shape, 2), strides, 2 * array.storage_offset())


def line_ends(start: Any, end: Any, steps: int, kind: dtype) -> tuple[Any, Any, Any]:
    """Start, end and step of linspace; of float32 each is rounded, and then each value once."""
    if kind.name != "float32":
        return start, end, (end - start) / (steps - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        first, last = np.float32(start), np.float32(end)
        step = float((last - first) / np.float32(steps - 1))
    for rounded, given in ((first, start), (last, end)):
        if np.isinf(rounded) and not math.isinf(given):
            raise RuntimeError("value cannot be converted to type float without overflow")
    return float(first), float(last), step
