"""Images sampled at the places of a grid; see kernels/images/grid.py."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.core.dtype import float32, float64, int64
from tritorch.gpu.index import sorting
from tritorch.gpu.linalg.matmul import triton_name
from tritorch.gpu.nn.images import five_strides, is_wide, three
from tritorch.gpu.shape.shaping import arange
from tritorch.triton.kernel import kernel

Array = _C.Array

_TAPS = (2, 1, 4)  # by mode: linear, nearest, cubic
_CHANNELS = 16  # of one program, at most
_BLOCK = 256


def _flags(x: Array, mode: int, padding: int, align: bool) -> dict[str, Any]:
    compute = float64 if x.dtype is float64 else float32
    return {
        "MODE": mode, "PADDING": padding, "ALIGN": align, "DIMS": x.ndim - 2, "TAPS": _TAPS[mode],
        "COMPUTE": triton_name(compute), "BLOCK": _BLOCK, "num_warps": 4,
    }  # fmt: skip


def _tile(channels: int) -> dict[str, int]:
    """Points and channels of one program."""
    each = min(_CHANNELS, 1 << max(channels - 1, 0).bit_length())
    return {"BLOCK": 1024 // each if each > 4 else _BLOCK, "CHANNELS": each}


def _grid_strides(grid: Array) -> tuple[int, ...]:
    return (grid.strides[0], *three(grid.strides[1:-1], 0), grid.strides[-1])


def grid_sample(x: Array, grid: Array, mode: int, padding: int, align: bool) -> Array:
    """The image at the places of the grid."""
    size = grid.shape[1:-1]
    out = _C.empty((*x.shape[:2], *size), x.dtype, x.device_index)
    if out.numel() == 0:
        return out
    plane, channels = math.prod(size), x.shape[1]
    points = x.shape[0] * plane
    flags = _flags(x, mode, padding, align) | _tile(channels)
    kernel("grid", "grid_sample")(
        (-(-points // flags["BLOCK"]), -(-channels // flags["CHANNELS"])), x, grid, out, points,
        channels, plane, three(x.shape[2:]), three(size), five_strides(x), _grid_strides(grid),
        WIDE=is_wide(x, grid, out), **flags,
    )  # fmt: skip
    return out


def grid_sample_backward(
    g: Array, x: Array, grid: Array, mode: int, padding: int, align: bool, needs_x: bool,
    needs_grid: bool,
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """The gradients of image and grid, each if it is needed."""
    flags, dx, dgrid = _flags(x, mode, padding, align), None, None
    if needs_grid:
        dgrid = _C.empty(grid.shape, grid.dtype, grid.device_index)
        if g.numel() == 0:
            dgrid.zero_()
        else:
            plane = math.prod(grid.shape[1:-1])
            points = x.shape[0] * plane
            tiled = flags | _tile(x.shape[1])
            kernel("grid", "grid_backward")(
                (-(-points // tiled["BLOCK"]),), g, x, grid, dgrid, points, x.shape[1], plane,
                three(x.shape[2:]), three(g.shape[2:]), five_strides(g), five_strides(x),
                _grid_strides(grid), WIDE=is_wide(g, x, grid, dgrid), **tiled,
            )  # fmt: skip
    if needs_x:
        dx = _image_gradient(g, x, grid, flags)
    return dx, dgrid


def _image_gradient(g: Array, x: Array, grid: Array, flags: dict[str, Any]) -> Array:
    """Each pixel gathers from the points that read it: their taps are sorted by pixel."""
    dx = _C.empty(x.shape, x.dtype, x.device_index)
    if g.numel() == 0 or dx.numel() == 0:
        return dx.zero_()
    plane, device = math.prod(grid.shape[1:-1]), x.device_index
    points, pixels = x.shape[0] * plane, x.shape[0] * math.prod(x.shape[2:])
    taps = flags["TAPS"] ** flags["DIMS"]
    keys = _C.empty((taps * points,), int64, device)
    weights = _C.empty(keys.shape, float64 if x.dtype is float64 else float32, device)
    wide = is_wide(g, x, grid, keys)
    kernel("grid", "grid_taps")(
        (-(-points // _BLOCK),), grid, keys, weights, points, plane, pixels, three(x.shape[2:]),
        three(g.shape[2:]), _grid_strides(grid), WIDE=wide, **flags,
    )  # fmt: skip
    keys, order = sorting.sort(keys, 0, False)
    begins = sorting.searchsorted(keys, arange(0, 1, pixels + 1, int64, device), False)
    kernel("grid", "grid_gather")(
        (-(-dx.numel() // _BLOCK),), g, order, begins, weights, dx, dx.numel(), x.shape[1], points,
        plane, three(x.shape[2:]), three(g.shape[2:]), five_strides(g), COMPUTE=flags["COMPUTE"],
        WIDE=wide, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return dx
