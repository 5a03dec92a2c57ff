"""Convolutions whose groups have one channel of the input, and their gradients."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.gpu.linalg import matmul
from tritorch.gpu.linalg.matmul import machine
from tritorch.gpu.nn.images import is_wide
from tritorch.triton.kernel import kernel

Array = _C.Array
Ints = tuple[int, ...]

_TAPS = 16  # of a row, at most: loops over them are unrolled


def fits(x: Array, weight: Array) -> bool:
    """Whether these kernels compute convolutions of x by a weight (O, 1, ...)."""
    return x.ndim <= 4 and weight.shape[-1] <= _TAPS


def tile(dense_channels: bool, n_channels: int, h: int, w: int, itemsize: int) -> Ints:
    """Rows, columns and channels of a box, and warps."""
    power = lambda n: 1 << (max(n, 1) - 1).bit_length()
    if dense_channels:
        channels = min(power(n_channels), 128 // itemsize)
        most = 4096 // itemsize // max(channels, 8)
        cols = min(power(w), 8 if h > 1 else most)
        rows = min(power(h), max(most // cols, 1))
        return rows, cols, channels, 4
    cols = min(power(w), 128)
    return min(power(h), max(1024 // cols, 1)), cols, 1, 4


def _flat(x: Array) -> tuple[Array, Ints, Ints]:
    """Images with two spatial dims: their sizes and four strides."""
    if x.ndim == 3:
        x = x.unsqueeze(2)
    return x, x.shape[2:], x.strides


def _dense_channels(*arrays: Array) -> bool:
    return all(x.strides[1] == 1 for x in arrays) and arrays[0].shape[1] > 1


def gather(
    x: Array,
    weight: Array,
    bias: Array | None,
    out: Array,
    geometry: tuple[Ints, ...],
    accumulate: Any,
    transposed: bool,
) -> None:
    """The convolution of x, or its transpose, into `out`; geometry: (phases, padding, dilation,
    period, pos_step, tap_step), each of two dims."""
    x, x_sizes, x_strides = _flat(x)
    target, y_sizes, y_strides = _flat(out)
    w, taps, w_strides = _flat(weight)
    phases, padding, dilation, period, *steps = geometry
    grid = tuple(-(-n // p) for n, p in zip(y_sizes, phases))
    n_images, n_channels = target.shape[:2]
    rows, cols, channels, warps = tile(
        _dense_channels(x, target), n_channels, grid[0], grid[1], x.itemsize
    )
    programs = -(-n_channels // channels) * -(-grid[0] // rows) * -(-grid[1] // cols)
    kernel("depthwise", "depthwise")(
        (programs * n_images * math.prod(phases),), x, w, x if bias is None else bias, target,
        n_images, n_channels, n_channels // x.shape[1], x_sizes, y_sizes, grid, taps, phases,
        padding, dilation, period, *steps, x_strides, (w_strides[0], *w_strides[2:]), y_strides,
        ACCUMULATE=accumulate, TRANSPOSED=transposed, HAS_BIAS=bias is not None,
        WIDE=is_wide(x, w, target), TAPS=-(-taps[1] // period[1]), BOX_H=rows, BOX_W=cols,
        BLOCK=channels, num_warps=warps,
    )  # fmt: skip


def reduce(
    g: Array, x: Array, out: Array, stride: Ints, padding: Ints, dilation: Ints, accumulate: Any
) -> None:
    """The gradient of the weight, into `out`."""
    floating = g.dtype.is_floating_point
    g, g_sizes, g_strides = _flat(g)
    x, x_sizes, x_strides = _flat(x)
    taps = (1, *out.shape[2:])[-2:]
    width = 1 << (taps[1] - 1).bit_length()
    n_channels = g.shape[1]
    n_pixels = g.shape[0] * math.prod(g_sizes)
    if _dense_channels(g, x):
        channels = min(1 << (n_channels - 1).bit_length(), 128 // g.itemsize)
    else:
        channels = 1
    pixels = max(4096 // (channels * width), 4)
    programs = -(-n_channels // channels) * taps[0]
    steps = -(-n_pixels // pixels)
    wanted = 8 * machine(g.device_index)[1] // programs if floating else 1
    per_split = -(-steps // max(min(wanted, steps // 4, 256), 1))
    splits = -(-steps // per_split)
    partial, split_stride = matmul._partial(out, splits)
    _, _, dw_strides = _flat(partial)
    kernel("depthwise", "depthwise_weight")(
        (programs, splits), g, x, partial, n_pixels, n_channels, n_channels // x.shape[1], splits,
        split_stride, x_sizes, g_sizes, taps, stride, padding, dilation, g_strides, x_strides,
        (dw_strides[0], *dw_strides[2:]), ACCUMULATE=accumulate,
        WIDE=is_wide(g, x, partial), TAPS=width, BLOCK_PIXELS=pixels, BLOCK=channels, num_warps=4,
    )  # fmt: skip
    matmul._finish(out, partial, splits)
