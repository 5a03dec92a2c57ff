"""Pooling and its gradients; see kernels/images/pooling.py.

# Note [Bounds of indices]
The gradient of a maximum knows indices, not the windows that they were found in.  So that an input
element need not look at all windows of its plane, a first kernel bounds how far indices are from
their windows; where windows are those of a pooling, few remain to look at.
"""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.core.dtype import dtype, float32, float64, int64
from tritorch.gpu.linalg.matmul import triton_name
from tritorch.gpu.nn.images import empty_images, five_strides, is_channels_last, is_wide, three
from tritorch.gpu.pointwise.layout import INT32_MAX
from tritorch.gpu.reduce import reduction
from tritorch.host.nn.pooling import out_size
from tritorch.triton.kernel import kernel

Array = _C.Array
Ints = tuple[int, ...]

_PROGRAMS = 256  # that look for bounds
_MANY_TAPS = 32


def block_of(n_elements: int) -> int:
    """How many elements one program computes."""
    return 256 if n_elements <= 2**16 else 512


def tile(n_windows: int, taps: int, across: bool) -> tuple[int, int]:
    """Windows of one program, and how many elements of each it looks at together.

    across: elements of a window lie closer in memory than those of the next window.
    """
    if taps < _MANY_TAPS or not (across or n_windows <= 2**14):
        return block_of(n_windows), 1
    together = min(1 << (taps - 1).bit_length(), 256)
    return 1024 // together, together


def _sum_type(kind: dtype) -> Any:
    if not kind.is_floating_point:
        return triton_name(int64)
    return triton_name(float64 if kind is float64 else float32)


def _lowest(kind: dtype) -> Any:
    if kind.is_floating_point:
        return -math.inf
    return 0 if kind.name.startswith("u") else -(2 ** (8 * kind.itemsize - 1))


def _adaptive(spatial: Ints, size: Ints) -> Ints:
    """The most elements of a window, per dim."""
    return tuple(n // m if n % m == 0 else min(n, n // m + 2) for n, m in zip(spatial, size))


def _has_large_products(spatial: Ints, size: Ints) -> bool:
    """Whether the product of two places, and a little, needs 64 bits."""
    return any(4 * n * m > INT32_MAX for n, m in zip(spatial, size))


def _tiles(x: Array, out: Array, taps: Ints, step: Ints) -> tuple[int, int]:
    across = x.strides[1] != 1 and step[-1] >= taps[-1]
    return tile(out.numel(), math.prod(taps), across)


# ---- the largest --------------------------------------------------------------------------------


def _largest(
    x: Array, size: Ints, taps: Ints, stride: Ints, padding: Ints, dilation: Ints, adaptive: bool
) -> tuple[Array, Array]:
    shape, spatial = (*x.shape[:2], *size), x.shape[2:]
    out, indices = empty_images(shape, x.dtype, x), empty_images(shape, int64, x)
    if out.numel() == 0:
        return out, indices
    block, together = _tiles(x, out, taps, stride)
    kernel("pooling", "max_pool")(
        (-(-out.numel() // block),), x, out, indices, out.numel(), x.shape[1], three(spatial),
        three(size), three(taps), three(stride), three(padding, 0), three(dilation),
        five_strides(x), VALUE=_value_type(x.dtype), LOWEST=_lowest(x.dtype), ADAPTIVE=adaptive,
        CHANNELS_LAST=is_channels_last(out),
        WIDE=is_wide(x, out) or (adaptive and _has_large_products(spatial, size)),
        BLOCK=block, TAPS=together, num_warps=4,
    )  # fmt: skip
    return out, indices


def _value_type(kind: dtype) -> Any:
    return _sum_type(kind) if kind.is_floating_point else triton_name(kind)


def max_pool(
    x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    """The largest of each window (the first of equals), and where in the plane."""
    places = zip(x.shape[2:], kernel, stride, padding, dilation)
    size = tuple(out_size(*place, ceil_mode) for place in places)
    return _largest(x, size, kernel, stride, padding, dilation, False)


def adaptive_max_pool(x: Array, size: Ints) -> tuple[Array, Array]:
    """Maxima over windows so chosen that the spatial dims become `size`."""
    taps = _adaptive(x.shape[2:], tuple(max(m, 1) for m in size))
    ones = (1,) * len(size)
    step = tuple(n // max(m, 1) for n, m in zip(x.shape[2:], size))
    return _largest(x, size, taps, step, (0,) * len(size), ones, True)


def max_pool_backward(g: Array, indices: Array, shape: Ints) -> Array:
    """Each output's gradient at its window's largest."""
    out = empty_images(shape, g.dtype, g)
    if out.numel() == 0 or g.numel() == 0:
        return out.zero_()
    spatial, size = shape[2:], g.shape[2:]
    wide = is_wide(g, indices, out) or _has_large_products(spatial, size)
    block = block_of(g.numel())
    programs = min(-(-g.numel() // block), _PROGRAMS)
    bounds = _C.empty((programs, 6), int64, g.device_index)
    kernel("pooling", "index_bounds")(
        (programs,), indices, bounds, g.numel(), math.prod(spatial), shape[1], three(spatial),
        three(size), five_strides(indices), CHANNELS_LAST=is_channels_last(indices), WIDE=wide,
        BLOCK=block, num_warps=4,
    )  # fmt: skip
    if programs > 1:
        bounds = reduction.amin(bounds, (0,), False)
    block = 256  # 512 would spill registers
    kernel("pooling", "max_pool_backward")(
        (-(-out.numel() // block),), g, indices, bounds, out, out.numel(), shape[1],
        three(spatial), three(size), five_strides(g), five_strides(indices),
        ACCUMULATE=_sum_type(g.dtype), CHANNELS_LAST=is_channels_last(out), WIDE=wide,
        BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out


# ---- the mean -----------------------------------------------------------------------------------


def _mean(
    x: Array, size: Ints, taps: Ints, stride: Ints, padding: Ints, count_include_pad: bool,
    divisor: int | None, adaptive: bool,
) -> Array:  # fmt: skip
    spatial = x.shape[2:]
    out = empty_images((*x.shape[:2], *size), x.dtype, x)
    if out.numel() == 0:
        return out
    block, together = _tiles(x, out, taps, stride)
    kernel("pooling", "avg_pool")(
        (-(-out.numel() // block),), x, out, out.numel(), x.shape[1], divisor or 0,
        three(spatial), three(size), three(taps), three(stride), three(padding, 0),
        five_strides(x), ACCUMULATE=_sum_type(x.dtype), ADAPTIVE=adaptive,
        COUNT_PADDING=count_include_pad, HAS_DIVISOR=bool(divisor),
        CHANNELS_LAST=is_channels_last(out),
        WIDE=is_wide(x, out) or (adaptive and _has_large_products(spatial, size)),
        BLOCK=block, TAPS=together, num_warps=4,
    )  # fmt: skip
    return out


def _mean_backward(
    g: Array, shape: Ints, taps: Ints, stride: Ints, padding: Ints, count_include_pad: bool,
    divisor: int | None, adaptive: bool,
) -> Array:  # fmt: skip
    spatial, size = shape[2:], g.shape[2:]
    out = empty_images(shape, g.dtype, g)
    if out.numel() == 0 or g.numel() == 0:
        return out.zero_()
    block = block_of(out.numel())
    kernel("pooling", "avg_pool_backward")(
        (-(-out.numel() // block),), g, out, out.numel(), shape[1], divisor or 0, three(spatial),
        three(size), three(taps), three(stride), three(padding, 0), five_strides(g),
        ACCUMULATE=_sum_type(g.dtype), ADAPTIVE=adaptive, COUNT_PADDING=count_include_pad,
        HAS_DIVISOR=bool(divisor), CHANNELS_LAST=is_channels_last(out),
        WIDE=is_wide(g, out) or (adaptive and _has_large_products(spatial, size)),
        BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out


def avg_pool(
    x: Array, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool,
    divisor: int | None,
) -> Array:  # fmt: skip
    """The mean of each window."""
    places = zip(x.shape[2:], kernel, stride, padding)
    size = tuple(out_size(*place, 1, ceil_mode) for place in places)
    return _mean(x, size, kernel, stride, padding, count_include_pad, divisor, False)


def avg_pool_backward(
    g: Array, shape: Ints, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None,
) -> Array:  # fmt: skip
    """Each output's gradient, spread over its window."""
    return _mean_backward(g, shape, kernel, stride, padding, count_include_pad, divisor, False)


def adaptive_avg_pool(x: Array, size: Ints) -> Array:
    """Means over windows so chosen that the spatial dims become `size`."""
    taps = _adaptive(x.shape[2:], tuple(max(m, 1) for m in size))
    step = tuple(n // max(m, 1) for n, m in zip(x.shape[2:], size))
    return _mean(x, size, taps, step, (0,) * len(size), False, None, True)


def adaptive_avg_pool_backward(g: Array, shape: Ints) -> Array:
    """Each output's gradient, spread over its window."""
    ones = (1,) * (g.ndim - 2)
    return _mean_backward(g, shape, ones, ones, (0,) * len(ones), False, None, True)
