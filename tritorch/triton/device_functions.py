"""What translated kernels call: the operations of Triton's IR, on NumPy's arrays.

Integers are signed, as in the IR they have no sign: what is unsigned there is viewed so here.
Arrays may have dims of 1 where their blocks are longer (Note [Levels]).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy import (
    absolute,
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    ceil,
    divide,
    equal,
    floor,
    fmax,
    fmin,
    fmod,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    ones,
    right_shift,
    sqrt,
    subtract,
    take_along_axis,
    where,
)  # fmt: skip

from tritorch import _C

Array = Any
_native = _C.simulator

_UNSIGNED = {np.dtype(f"i{n}"): np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
_BITS: dict[int, Any] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}
_E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
ILLEGAL_ADDRESS, ASSERT = 700, 710  # CUresult


class BadAddressError(Exception):
    """A load or store of memory that is not there."""

    def __init__(self, verb: str, size: int, address: int, element: int, shape: Any) -> None:
        super().__init__(verb, size, address, element, shape)
        self.verb, self.size, self.address = verb, size, address
        self.element, self.shape = element, shape


class FailedAssertionError(Exception):
    """tl.device_assert: (message, place of a false element, or None)."""


def is_narrow(dtype: Any) -> bool:
    """Whether NumPy has the type from ml_dtypes, and knows little of it."""
    return dtype.kind == "V" or (dtype.itemsize < 2 and dtype.kind == "f")


# ---- shapes -------------------------------------------------------------------------------------


def spread(x: Array, shape: tuple[int, ...]) -> Array:
    return x if x.shape == shape else np.broadcast_to(x, shape)


def ranked(x: Array, rank: int) -> Array:
    return np.asarray(x).reshape((1,) * rank)


def laned(x: Array, programs: int, rank: int) -> Array:
    x = np.asarray(x)
    shape = (1,) * (rank - x.ndim) + x.shape
    return np.broadcast_to(x.reshape((1, *shape)), (programs, *shape))


def merged(mask: Array, value: Array, old: Array) -> Array:
    """What the programs under the mask computed, and what others had; nothing yet is None."""
    return value if old is None else where(mask, value, old)


def stacked(parts: Any, lanes: int) -> Array:
    return np.stack(parts, axis=-1)


def concatenated(parts: Any, lanes: int) -> Array:
    return np.concatenate(parts, axis=lanes)


# ---- numbers ------------------------------------------------------------------------------------


def unsigned(x: Array) -> Array:
    kind = _UNSIGNED.get(x.dtype)
    return x if kind is None else x.view(kind)


def divsi(a: Array, b: Array) -> Array:
    """Rounded towards zero."""
    if a.dtype.kind == "b":
        return a
    if np.min(a, initial=0) >= 0 and np.min(b, initial=1) > 0:
        return a // b
    return (a - fmod(a, b)) // b


def remsi(a: Array, b: Array) -> Array:
    return fmod(a, b)


def divui(a: Array, b: Array) -> Array:
    return (unsigned(a) // unsigned(b)).view(a.dtype)


def remui(a: Array, b: Array) -> Array:
    return (unsigned(a) % unsigned(b)).view(a.dtype)


def maxui(a: Array, b: Array) -> Array:
    return maximum(unsigned(a), unsigned(b)).view(a.dtype)


def minui(a: Array, b: Array) -> Array:
    return minimum(unsigned(a), unsigned(b)).view(a.dtype)


def shli(a: Array, b: Array) -> Array:
    return np.left_shift(a, b)


def shrui(a: Array, b: Array) -> Array:
    return np.right_shift(unsigned(a), unsigned(b)).view(a.dtype)


def mulhiui(a: Array, b: Array) -> Array:
    """The upper half of a product."""
    x, y = unsigned(a), unsigned(b)
    if a.dtype.itemsize < 8:
        bits = np.uint64(8 * a.dtype.itemsize)
        product = x.astype(np.uint64) * y.astype(np.uint64)
        return (product >> bits).astype(x.dtype).view(a.dtype)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    return (x1 * y1 + (middle >> half) + (other >> half)).view(a.dtype)


def unordered(a: Array, b: Array, yes: bool) -> Array:
    either = np.isnan(a) | np.isnan(b)
    return either if yes else ~either


def _in_double(ufunc: np.ufunc) -> Callable[[Array], Array]:
    """A ufunc, of float32 computed in float64 and rounded once, as libdevice's functions: NumPy's
    own loops for float32 are off by up to four units in the last place, a GPU by one or two."""

    def function(x: Array) -> Array:
        if x.dtype != _F32:
            return ufunc(x)
        return ufunc(x, dtype=_F64).astype(_F32)

    return function


cos, exp, exp2, expm1, log, log1p, log2, sin, tanh = (
    _in_double(ufunc)
    for ufunc in (
        np.cos, np.exp, np.exp2, np.expm1, np.log, np.log1p, np.log2, np.sin, np.tanh,
    )
)  # fmt: skip


def rsqrt(x: Array) -> Array:
    root = sqrt(x)
    return divide(root.dtype.type(1), root)


def erf(x: Array) -> Array:
    from tritorch.host.pointwise import special

    if x.dtype == _F64:
        return special.erf64(np.atleast_1d(x)).reshape(x.shape)
    return special.erf64(np.atleast_1d(x).astype(np.float64)).astype(x.dtype).reshape(x.shape)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a b + c, rounded once."""
    kind = np.result_type(c)
    if kind.itemsize < 4:  # exact before the rounding
        return (a.astype(_F64) * b.astype(_F64) + c.astype(_F64)).astype(kind)
    parts = np.broadcast_arrays(a, b, c)
    x, y, z = (np.array(part, _F64, order="C", copy=True) for part in parts)
    _native.fma(x.reshape(-1), y.reshape(-1), z.reshape(-1), kind.itemsize == 4)
    return z.astype(kind)


def clamped(x: Array, low: Array, high: Array, propagates: bool) -> Array:
    return minimum(maximum(x, low), high) if propagates else fmin(fmax(x, low), high)


def cast(x: Array, dtype: Any) -> Array:
    if dtype == _E4M3:  # hardware saturates
        x = np.clip(x.astype(_F32), -448, 448)
    return x.astype(dtype)


def truncated(x: Array, dtype: Any) -> Array:
    """Rounded towards zero."""
    near = np.asarray(cast(x, dtype))
    too_far = np.abs(near.astype(_F64)) > np.abs(np.asarray(x).astype(_F64))
    bits = near.view(_BITS[dtype.itemsize])
    return (bits - too_far.astype(bits.dtype)).view(dtype)


def extsi(x: Array, dtype: Any) -> Array:
    return -x.astype(dtype) if x.dtype.kind == "b" else x.astype(dtype)


def extui(x: Array, dtype: Any) -> Array:
    return unsigned(x).astype(dtype)


def trunci(x: Array, dtype: Any) -> Array:
    return bitwise_and(x, x.dtype.type(1)).astype(dtype) if dtype.kind == "b" else x.astype(dtype)


def fptoui(x: Array, dtype: Any) -> Array:
    return (
        x.astype(np.uint64).view(np.int64)
        if dtype.itemsize == 8
        else x.astype(np.int64).astype(dtype)
    )


def bitcast(x: Array, dtype: Any) -> Array:
    return np.asarray(x).view(dtype)


# ---- whole blocks -------------------------------------------------------------------------------


def dot(a: Array, b: Array, c: Array, tf32: bool) -> Array:
    kind = c.dtype
    if a.dtype.kind == "i":  # exact in float64, whose product is a BLAS's
        return matmul(a.astype(_F64), b.astype(_F64)).astype(kind) + c
    wide = _F64 if kind == _F64 else _F32
    made = matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
    if kind == wide:
        made += c
        return made
    return (made + c.astype(wide)).astype(kind)


matmul = np.matmul
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_SCALED = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def _decoded(x: Array, kind: str, axis: int) -> Array:
    """Numbers of a scaled product's operand; those of 4 bits lie in pairs along an axis."""
    if kind == "e2m1":
        codes = np.moveaxis(x.view(np.uint8), axis, -1)
        codes = np.stack((codes & 15, codes >> 4), -1).reshape(*codes.shape[:-1], -1)
        values = _E2M1[codes & 7]
        return np.moveaxis(np.where(codes > 7, -values, values), -1, axis)
    return (x.view(_SCALED[kind]) if x.dtype.kind == "i" else x).astype(_F32)


def _scales(x: Array, count: int) -> Array:
    """One for each number: powers of two by their exponents, or numbers of 8 bits."""
    if x.dtype.kind == "i":
        exponents = x.view(np.uint8).astype(np.int32)
        x = np.where(exponents == 255, np.nan, np.ldexp(_F32.type(1), exponents - 127))
    return np.repeat(x.astype(_F32), count // x.shape[-1], axis=-1)


def dot_scaled(
    a: Array, a_scale: Array, b: Array, b_scale: Array, c: Array, a_kind: str, b_kind: str
) -> Array:
    a, b = _decoded(a, a_kind, -1), _decoded(b, b_kind, -2)
    count = a.shape[-1]
    if a_scale is not None:
        a = a * _scales(a_scale, count)
    if b_scale is not None:
        b = b * np.swapaxes(_scales(b_scale, count), -1, -2)
    return matmul(a, b) + c


def reduced(ufunc: Any, x: Array, axis: int) -> Array:
    if is_narrow(x.dtype):
        return reduced(ufunc, x.astype(_F32), axis).astype(x.dtype)
    if ufunc is np.add and x.dtype.kind == "f":
        # NumPy adds up many one after the other; threads and warps do as a tree.
        return reduced_by(lambda a, b: (a + b,), (x,), axis)[0]
    return ufunc.reduce(x, axis=axis, dtype=x.dtype)


def scanned(ufunc: Any, x: Array, axis: int, reverse: bool) -> Array:
    if reverse:
        x = np.flip(x, axis)
    if is_narrow(x.dtype):
        made = ufunc.accumulate(x.astype(_F32), axis=axis).astype(x.dtype)
    else:
        made = ufunc.accumulate(x, axis=axis, dtype=x.dtype)
    return np.flip(made, axis) if reverse else made


def reduced_by(combine: Callable[..., Any], values: tuple[Array, ...], axis: int) -> Any:
    """Neighbours are combined, which halves a block in each step and keeps the order."""
    every = (slice(None),) * axis
    even, odd = (*every, slice(0, None, 2)), (*every, slice(1, None, 2))
    while values[0].shape[axis] > 1:
        values = combine(*(x[even] for x in values), *(x[odd] for x in values))
    return tuple(x[(*every, 0)] for x in values)


def scanned_by(
    combine: Callable[..., Any], values: tuple[Array, ...], axis: int, reverse: bool
) -> Any:
    """Combines what lies 1, 2, 4... apart."""
    if reverse:
        values = tuple(np.flip(x, axis) for x in values)
    n = values[0].shape[axis]
    place = np.arange(n).reshape([n if i == axis else 1 for i in range(values[0].ndim)])
    apart = 1
    while apart < n:
        made = combine(*(np.roll(x, apart, axis) for x in values), *values)
        values = tuple(where(place >= apart, new, old) for new, old in zip(made, values))
        apart *= 2
    return tuple(np.flip(x, axis) for x in values) if reverse else values


def histogram(x: Array, mask: Array, bins: int) -> Array:
    rows = x.reshape(-1, x.shape[-1])
    counted = (rows >= 0) & (rows < bins)
    if mask is not None:
        counted &= np.broadcast_to(mask, x.shape).reshape(rows.shape)
    row, _ = np.nonzero(counted)
    places = row * bins + rows[counted]
    counts = np.bincount(places, minlength=len(rows) * bins).astype(np.int32)
    return counts.reshape(*x.shape[:-1], bins)


# ---- memory -------------------------------------------------------------------------------------


def moved(pointers: Array, offset: Array, size: Any) -> Array:
    return pointers + offset * size


# Note [Poisoned lanes]
# A masked load without `other` gives anything on a GPU where its mask is false.  Here it gives what
# shows: NaN and both infinities in turn, as maxima and minima pass over NaN; integers near both
# ends of their range; True.  A kernel that reduces such lanes has to name the reduction's identity.
_FLOATS = {
    "float64": (0x7FF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000),
    "float32": (0x7FC00000, 0x7F800000, 0xFF800000), "float16": (0x7E00, 0x7C00, 0xFC00),
    "bfloat16": (0x7FC0, 0x7F80, 0xFF80), "float8_e5m2": (0x7F, 0x7C, 0xFC),
    "float8_e4m3fn": (0x7F, 0x7E, 0xFE),
}  # fmt: skip
_INTEGERS = (0x6B6B6B6B6B6B6B6B, 0x9494949494949494)


_poison: dict[Any, Array] = {}


def poisoned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Bits of an array of which nothing is known: a copy of some that were made once."""
    count = math.prod(shape)
    known = _poison.get(dtype)
    if known is None or known.size < count:
        bits = _BITS[dtype.itemsize]
        values = (1,) if dtype.kind == "b" else _FLOATS.get(dtype.name, _INTEGERS)
        known = np.empty(max(count, 4096), bits)
        for i, value in enumerate(values):
            known[i :: len(values)] = value & (1 << 8 * bits.itemsize) - 1
        _poison[dtype] = known
    return known[:count].copy().reshape(shape)


def _contiguous(x: Array) -> Array:
    return x if x.flags.c_contiguous else x.copy()


def load(pointers: Array, mask: Array, other: Array, dtype: Any) -> Array:
    pointers = np.asarray(pointers)
    if mask is not None:
        mask = np.asarray(mask)
        if mask.shape != pointers.shape:
            pointers, mask = np.broadcast_arrays(pointers, mask)
        if other is not None and np.ndim(other) and other.shape != pointers.shape:
            pointers, mask, other = np.broadcast_arrays(pointers, mask, other)
        mask = _contiguous(mask)
    bits = _BITS[dtype.itemsize]
    if mask is None:
        out = np.empty(pointers.shape, bits)
    elif other is None:
        out = poisoned(pointers.shape, dtype)
    else:
        out = np.empty(pointers.shape, bits)
        out[...] = np.asarray(other).view(bits)
    bad = _native.load(_contiguous(pointers), mask, out)
    if bad >= 0:
        raise BadAddressError("load", dtype.itemsize, int(pointers.flat[bad]), bad, pointers.shape)
    made = out.view(dtype)
    return made if made.ndim else made[()]


def store(pointers: Array, values: Array, mask: Array) -> None:
    pointers, values = np.asarray(pointers), np.asarray(values)
    if mask is not None:
        mask = np.asarray(mask)
        if not pointers.shape == values.shape == mask.shape:
            pointers, values, mask = np.broadcast_arrays(pointers, values, mask)
        mask = _contiguous(mask)
    elif pointers.shape != values.shape:
        pointers, values = np.broadcast_arrays(pointers, values)
    values = _contiguous(values).view(_BITS[values.dtype.itemsize])
    bad = _native.store(_contiguous(pointers), mask, values)
    if bad >= 0:
        raise BadAddressError(
            "store", values.itemsize, int(pointers.flat[bad]), bad, pointers.shape
        )


def _atomic(combine: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """A read, a combination and a write that nothing comes between."""

    def atomic(pointers: Array, values: Array, mask: Array, shape: tuple[int, ...]) -> Array:
        pointers = np.broadcast_to(pointers, shape)
        values = np.broadcast_to(values, shape)
        dtype = values.dtype
        chosen = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
        try:
            out = np.asarray(load(pointers, chosen, None, dtype))
        except BadAddressError as bad:
            bad.verb = "atomic"
            raise
        places = pointers[chosen]
        if not len(places):
            return out
        operands = values[chosen]
        # The first access of each address, then the second of each...
        order = np.argsort(places, kind="stable")
        first = np.concatenate(([True], places[order][1:] != places[order][:-1]))
        start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        turns = np.empty(len(order), np.int64)
        turns[order] = np.arange(len(order)) - start
        seen = out[chosen]
        for turn in range(int(turns.max()) + 1):
            now = turns == turn
            if turn:
                seen[now] = load(places[now], None, None, dtype)
            store(places[now], combine(seen[now], operands[now]).astype(dtype), None)
        if out.ndim == 0:
            return seen[0]
        out[chosen] = seen
        return out

    return atomic


atomic_add = atomic_fadd = _atomic(add)
atomic_max = _atomic(maximum)
atomic_min = _atomic(minimum)
atomic_umax = _atomic(maxui)
atomic_umin = _atomic(minui)
atomic_and = _atomic(bitwise_and)
atomic_or = _atomic(bitwise_or)
atomic_xor = _atomic(bitwise_xor)
atomic_exch = _atomic(lambda old, new: new)


def compare_and_swap(
    pointers: Array, expected: Array, values: Array, shape: tuple[int, ...]
) -> Array:
    places, wanted, new = (
        np.broadcast_to(x, shape).reshape(-1) for x in (pointers, expected, values)
    )
    out = np.empty(len(places), new.dtype)
    for i, place in enumerate(places):
        out[i] = load(place, None, None, new.dtype)
        if out[i] == wanted[i]:
            store(place, new[i], None)
    return out.reshape(shape)[()]


# ---- messages -----------------------------------------------------------------------------------


def assert_true(condition: Array, message: str, lanes: bool) -> None:
    if not np.all(condition):
        place = (
            int(np.argmin(np.asarray(condition).reshape(len(condition), -1).all(1)))
            if lanes
            else None
        )
        raise FailedAssertionError(message, place)


def device_print(
    prefix: str, values: tuple[Array, ...], lanes: list[bool], in_hex: bool, programs: int,
    pid: Any, active: Array,
) -> None:  # fmt: skip
    """A line for each program and value, as Triton's interpreter writes them."""

    def shown(x: Any) -> str:
        if isinstance(x, np.floating):
            return float(x).hex()
        return f"0x{int(x) & (1 << 8 * x.dtype.itemsize) - 1:0{2 * x.dtype.itemsize}x}"

    form: dict[str, Any] = {"formatter": {"all": shown}} if in_hex else {}
    for program in range(programs):
        if active is not None and not active[program]:
            continue
        x, y, z = (int(i[program]) if np.ndim(i) else int(i) for i in pid)
        head = f"({x}, {y}, {z})" + (f" {prefix}" if prefix else "")
        for value, by_lane in zip(values, lanes):
            text = np.array2string(np.asarray(value[program] if by_lane else value), **form)
            print(f"{head} {text}")
        if not values:
            print(head)


NAMES = {
    name: value
    for name, value in dict(
        globals(), absolute=absolute, ceil=ceil, cos=cos, equal=equal, exp=exp, exp2=exp2,
        expm1=expm1, floor=floor, greater=greater, greater_equal=greater_equal, less=less,
        less_equal=less_equal, log=log, log1p=log1p, log2=log2, multiply=multiply,
        negative=negative, not_equal=not_equal, ones=ones, right_shift=right_shift, sin=sin,
        subtract=subtract, take_along_axis=take_along_axis, tanh=tanh,
    ).items()
    if not name.startswith("_")
}  # fmt: skip
