"""Interpolation and its gradients; see kernels/images/upsample.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core.dtype import dtype, float32, float64
from tritorch.gpu.linalg.matmul import parts, triton_name
from tritorch.gpu.nn.images import empty_images, five_strides, is_channels_last, is_wide, three
from tritorch.gpu.nn.pooling import block_of
from tritorch.gpu.pointwise.layout import float_bits
from tritorch.triton.kernel import kernel

Array = _C.Array
Ints = tuple[int, ...]
Scales = tuple[float | None, ...]

_LONG = 2**17  # places among so many elements are in float64


def _nearest_map(n: int, m: int, scale: float | None, exact: bool, planar: bool) -> Any:
    """ratio and shift of one dim; see Note [Sources] in kernels/images/upsample.py."""
    if planar and not exact and m in (n, 2 * n):  # PyTorch's way, whatever the scale says
        scale = None
    ratio = np.float32(1.0 / scale) if scale else np.float32(n / m)
    return float(ratio), 0.5 if exact else 0.0


def _linear_map(n: int, m: int, scale: float | None, align: bool) -> tuple[float, float]:
    """ratio and shift of one dim; see Note [Sources] in kernels/images/upsample.py."""
    if m == n:
        return 1.0, 0.0  # whatever the scale says
    if align:
        return (n - 1) / (m - 1) if m > 1 else 0.0, 0.0
    ratio = 1.0 / scale if scale else n / m
    return ratio, 0.5 * ratio - 0.5


def _maps(maps: list[tuple[float, float]]) -> tuple[Ints, Ints, Ints]:
    """Ratios, shifts and inverse ratios of three dims, as kernels take them."""
    every = three(maps, (1.0, 0.0))
    inverses = tuple(float_bits(1.0 / ratio if ratio else 0.0) for ratio, _ in every)
    return (
        tuple(float_bits(ratio) for ratio, _ in every),
        tuple(float_bits(s) for _, s in every),
        inverses,
    )


def _compute(kind: dtype) -> Any:
    return triton_name(float64 if kind is float64 else float32)


def _coordinate(kind: dtype, *shapes: Ints) -> Any:
    is_long = any(n > _LONG for shape in shapes for n in shape[2:])
    return triton_name(float64 if is_long or kind is float64 else float32)


def _margin(size: Ints) -> int:
    """How many outputs a place in float32 may be wrong by."""
    return 1 + (max(size) >> 20)


def _resample(name: str, source: Array, shape: Ints, *args: Any, **constants: Any) -> Array:
    """A launch over the elements of a new array; args: those between sizes and strides."""
    out = empty_images(shape, source.dtype, source)
    if out.numel() == 0:
        return out
    # A gradient is gathered from several places: 512 elements would spill registers.
    block = 256 if name.endswith("backward") else block_of(out.numel())
    kernel("upsample", name)(
        (-(-out.numel() // block),), source, out, out.numel(), shape[1], *args,
        five_strides(source), CHANNELS_LAST=is_channels_last(out), WIDE=is_wide(source, out),
        BLOCK=block, num_warps=4, **constants,
    )  # fmt: skip
    return out


def _of_parts(function: Any, x: Array, *args: Any) -> Array:
    """A real function of the real and of the imaginary parts."""
    pair = parts(x)
    results = [function(pair.select(x.ndim, i), *args) for i in range(2)]
    out = _C.empty(results[0].shape, x.dtype, x.device_index)
    for i, result in enumerate(results):
        parts(out).select(x.ndim, i).copy_(result)
    return out


def nearest(x: Array, size: Ints, scales: Scales, exact: bool) -> Array:
    """Each output element is the nearest input element."""
    if x.dtype.is_complex:
        return _of_parts(nearest, x, size, scales, exact)
    dims = zip(x.shape[2:], size, scales)
    ratios, shifts, _ = _maps([_nearest_map(*dim, exact, len(size) == 2) for dim in dims])
    return _resample("nearest", x, (*x.shape[:2], *size), three(x.shape[2:]), three(size), ratios,
                     shifts)  # fmt: skip


def nearest_backward(g: Array, shape: Ints, scales: Scales, exact: bool) -> Array:
    """Each input element gathers from the outputs that show it."""
    if g.dtype.is_complex:
        return _of_parts(nearest_backward, g, shape, scales, exact)
    size = g.shape[2:]
    dims = zip(shape[2:], size, scales)
    maps = _maps([_nearest_map(*dim, exact, len(size) == 2) for dim in dims])
    return _resample("nearest_backward", g, shape, _margin(size), three(shape[2:]), three(size),
                     *maps, COMPUTE=_compute(g.dtype))  # fmt: skip


def linear(x: Array, size: Ints, scales: Scales, align_corners: bool) -> Array:
    """Linear interpolation along each spatial dim."""
    if x.dtype.is_complex:
        return _of_parts(linear, x, size, scales, align_corners)
    dims = zip(x.shape[2:], size, scales)
    ratios, shifts, _ = _maps([_linear_map(*dim, align_corners) for dim in dims])
    shape = (*x.shape[:2], *size)
    return _resample("linear", x, shape, three(x.shape[2:]), three(size), ratios, shifts,
                     COMPUTE=_compute(x.dtype), COORDINATE=_coordinate(x.dtype, x.shape, shape),
                     DIMS=len(size))  # fmt: skip


def linear_backward(g: Array, shape: Ints, scales: Scales, align_corners: bool) -> Array:
    """The transpose of `linear`."""
    if g.dtype.is_complex:
        return _of_parts(linear_backward, g, shape, scales, align_corners)
    size = g.shape[2:]
    maps = _maps([_linear_map(*dim, align_corners) for dim in zip(shape[2:], size, scales)])
    return _resample("linear_backward", g, shape, 1, three(shape[2:]), three(size), *maps,
                     COMPUTE=_compute(g.dtype),
                     COORDINATE=_coordinate(g.dtype, shape, g.shape))  # fmt: skip
