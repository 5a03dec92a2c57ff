"""Joining, reordering, padding and ranges on the GPU."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.arrays import line_ends, pairs
from tritorch.core import dtype as dtypes
from tritorch.core.dtype import dtype
from tritorch.gpu.pointwise.layout import INT32_MAX, block_size, float_bits, reach
from tritorch.gpu.pointwise.pointwise import call, triton_type
from tritorch.gpu.reduce.reduction import accumulator
from tritorch.triton.kernel import kernel

Array = _C.Array
_BITS_OF = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
_MODES = {"replicate": 0, "reflect": 1, "circular": 2}


def _launch(name: str, n: int, wide: bool, *args: Any, **constants: Any) -> None:
    block, warps = block_size(n)
    grid = (-(-n // block),)
    kernel("shaping", name)(grid, *args, WIDE=wide, BLOCK=block, num_warps=warps, **constants)


def cat(arrays: Sequence[Array], dim: int) -> Array:
    """Arrays joined along a dim: each is copied into its part."""
    first = arrays[0]
    total = sum(a.shape[dim] for a in arrays)
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    out = _C.empty(shape, first.dtype, first.device_index)
    lead = (slice(None),) * dim
    start = 0
    for a in arrays:
        if a.numel():
            out[(*lead, slice(start, start + a.shape[dim]))].copy_(a)
        start += a.shape[dim]
    return out


def _bits(x: Array) -> Array:
    """The same elements as integers: data only moves.  complex128 as pairs."""
    if x.dtype.itemsize == 16:
        return pairs(x)
    return x.view_dtype(getattr(dtypes, _BITS_OF[x.itemsize]))


def _reorder(x: Array, flips: tuple[int, ...], shifts: tuple[int, ...]) -> Array:
    out = _C.empty(x.shape, x.dtype, x.device_index)
    if x.numel() == 0:
        return out
    source, target = _bits(x), _bits(out)
    if source.ndim > x.ndim:
        flips, shifts = (*flips, 0), (*shifts, 0)
    wide = max(source.numel(), reach(source.shape, source.strides)) > INT32_MAX
    _launch("reorder", target.numel(), wide, source, target, target.numel(), source.shape,
            source.strides, flips, shifts, NDIM=source.ndim)  # fmt: skip
    return out


def flip(x: Array, dims: tuple[int, ...]) -> Array:
    """Dims reversed."""
    return _reorder(x, tuple(int(i in dims) for i in range(x.ndim)), (0,) * x.ndim)


def roll(x: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    """Dims shifted around the end."""
    total = [0] * x.ndim
    for shift, dim in zip(shifts, dims):
        total[dim] += shift
    return _reorder(x, (0,) * x.ndim, tuple(s % n if n else 0 for s, n in zip(total, x.shape)))


def _triangle(x: Array, diagonal: int, upper: bool) -> Array:
    out = _C.empty(x.shape, x.dtype, x.device_index)
    n = x.numel()
    if n == 0:
        return out
    if x.dtype.itemsize == 16:
        for part in (0, 1):  # real, then imaginary parts
            pairs(out)[..., part].copy_(_triangle(pairs(x)[..., part], diagonal, upper))
        return out
    source, target = _bits(x), _bits(out)
    wide = max(n, reach(x.shape, x.strides)) > INT32_MAX
    _launch(
        "triangle",
        n,
        wide,
        source,
        target,
        n,
        x.shape[-2],
        x.shape[-1],
        diagonal,
        source.shape,
        source.strides,
        UPPER=upper,
        NDIM=x.ndim,
    )
    return out


def tril(x: Array, diagonal: int) -> Array:
    """The lower triangle."""
    return _triangle(x, diagonal, False)


def triu(x: Array, diagonal: int) -> Array:
    """The upper triangle."""
    return _triangle(x, diagonal, True)


def _sides(ndim: int, padding: tuple[int, ...]) -> list[tuple[int, int]]:
    sides = [(padding[2 * i], padding[2 * i + 1]) for i in range(len(padding) // 2)]
    return [(0, 0)] * (ndim - len(sides)) + sides[::-1]


def _inside(shape: Sequence[int], sides: Any) -> tuple[slice, ...]:
    return tuple(slice(a, a + n) for n, (a, _) in zip(shape, sides))


def dense_bits(x: Array) -> tuple[Array, int]:
    """Dense elements as integers, and how many make one element."""
    bits = _bits(x.contiguous())
    return bits, 2 if x.dtype.itemsize == 16 else 1


def pad(x: Array, padding: tuple[int, ...], mode: str, value: float) -> Array:
    """Elements added at both ends of the last dims."""
    sides = _sides(x.ndim, padding)
    if mode == "constant":
        shape = [n + a + b for n, (a, b) in zip(x.shape, sides)]
        out = _C.empty(shape, x.dtype, x.device_index).fill_(value)
        if x.numel():
            out[_inside(x.shape, sides)].copy_(x)
        return out
    for dim, (before, after) in enumerate(sides):
        if not before and not after:
            continue
        shape = [*x.shape]
        shape[dim] += before + after
        out = _C.empty(shape, x.dtype, x.device_index)
        source, each = dense_bits(x)
        target, _ = dense_bits(out)
        n = target.numel()
        if n:
            inner = math.prod(x.shape[dim + 1 :]) * each
            _launch(
                "pad_dim",
                n,
                n > INT32_MAX,
                source,
                target,
                n,
                x.shape[dim],
                shape[dim],
                before,
                inner,
                MODE=_MODES[mode],
            )
        x = out
    return x


def pad_backward(g: Array, shape: tuple[int, ...], padding: tuple[int, ...], mode: str) -> Array:
    """What each element gathers from the positions that show it."""
    sides = _sides(g.ndim, padding)
    if mode == "constant":
        return g[_inside(shape, sides)].clone()
    if g.dtype.is_complex:
        out = _C.empty(shape, g.dtype, g.device_index)
        for part in (0, 1):
            inner_pad = pad_backward(pairs(g)[..., part].clone(), shape, padding, mode)
            pairs(out)[..., part].copy_(inner_pad)
        return out
    x = g.contiguous()
    acc = triton_type(accumulator(g.dtype))
    for dim, (before, after) in enumerate(sides):
        if not before and not after:
            continue
        size = [*x.shape]
        size[dim] = shape[dim]
        out = _C.empty(size, g.dtype, g.device_index)
        n = out.numel()
        if n:
            _launch(
                "pad_dim_backward",
                n,
                x.numel() > INT32_MAX,
                x,
                out,
                n,
                shape[dim],
                x.shape[dim],
                before,
                math.prod(x.shape[dim + 1 :]),
                MODE=_MODES[mode],
                ACC=acc,
            )
        x = out
    return x


def arange(start: Any, step: Any, n: int, dtype: dtype, device: int) -> Array:
    """start + i * step, for i < n."""
    out = _C.empty((n,), dtype, device)
    if n == 0:
        return out
    floats = dtype.is_floating_point
    bits = lambda v: struct.unpack("<q", struct.pack("<d", float(v)))[0] if floats else int(v)
    _launch("arange", n, n > INT32_MAX, out, n, bits(start), bits(step), COMPUTE=triton_type(dtype))
    return out


def linspace(start: Any, end: Any, n: int, dtype: dtype, device: int) -> Array:
    """n numbers from start to end."""
    out = _C.empty((n,), dtype, device)
    if n == 0:
        return out
    start, end = (start, start) if n == 1 else (start, end)
    if not (dtype.is_floating_point or dtype.is_complex):
        start, end = int(start), int(end)
    if not dtype.is_complex:
        return _fill_line(out, *line_ends(float(start), float(end), max(n, 2), dtype))
    start, end, both = complex(start), complex(end), pairs(out)
    step = (end - start) / max(n - 1, 1)
    _fill_line(both[:, 0], start.real, end.real, step.real)
    _fill_line(both[:, 1], start.imag, end.imag, step.imag)
    return out


def _fill_line(y: Array, start: float, end: float, step: float) -> Array:
    n = y.shape[0]
    wide = n * y.strides[0] > INT32_MAX
    bits = (float_bits(start), float_bits(end), float_bits(step))
    _launch("linspace", n, wide, y, n, y.strides[0], *bits)
    return y


def logspace(start: Any, end: Any, n: int, base: float, dtype: dtype, device: int) -> Array:
    """base to the power of n numbers from start to end."""
    wide = dtypes.complex128 if dtype.is_complex else dtypes.float64
    powers = linspace(start, end, n, wide, device)
    number = complex(base) if dtype.is_complex else float(base)
    return call("pow", (number, powers), wide, wide).astype(dtype)


def eye(n: int, m: int, dtype: dtype, device: int) -> Array:
    """The identity matrix."""
    out = _C.empty((n, m), dtype, device).zero_()
    if n and m:
        out.as_strided((min(n, m),), (m + 1,), 0).fill_(1)
    return out


def tril_indices(row: int, col: int, offset: int, dtype: dtype, device: int) -> Array:
    """Rows and columns of the lower triangle."""
    return _tri_indices(row, col, offset, False, dtype, device)


def triu_indices(row: int, col: int, offset: int, dtype: dtype, device: int) -> Array:
    """Rows and columns of the upper triangle."""
    return _tri_indices(row, col, offset, True, dtype, device)


def _below(row: int, col: int, offset: int) -> int:
    """How many elements the lower triangle has in so many rows."""
    low = min(max(-offset, 0), row)
    high = min(max(col - offset, low), row)
    return (high - low) * (low + high + 1 + 2 * offset) // 2 + (row - high) * col


def _tri_indices(row: int, col: int, offset: int, upper: bool, dtype: dtype, device: int) -> Array:
    n = row * col - _below(row, col, offset - 1) if upper else _below(row, col, offset)
    out = _C.empty((2, n), dtypes.int64, device)
    if n:
        _launch("tri_indices", n, n > INT32_MAX // 2, out, n, row, col, offset, UPPER=upper,
                STEPS=row.bit_length())  # fmt: skip
    return out.astype(dtype)
