"""Convolution, its transpose and their gradients: implicit products that read images as they
are."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import float32, float64
from tritorch.gpu import matmul, pointwise
from tritorch.gpu.images import empty_images, five_strides, is_wide, three
from tritorch.gpu.matmul import parts, triton_name

Array = _C.Array
Ints = tuple[int, ...]

precision: str | None = None  # of float32; None: as matrices are multiplied
_DIRECT = 16  # a group with at most so many pairs of channels is not worth a tile


# Channels of the input at a time, on tensor cores: (one tap at a time, bytes of an element).
DEEPEST = {(True, 2): 64, (False, 2): 32, (True, 4): 32, (False, 4): 16}


def blocks(n_out: int, n_cols: int, itemsize: int, fast: bool) -> tuple[int, int, int, int]:
    """Channels, columns, warps and stages of one tile; fast: on tensor cores."""
    top_out, top_cols = (128, 128) if fast else (64, 64)
    block_out = min(max(1 << (n_out - 1).bit_length(), 16), top_out)
    block_cols = min(max(1 << (n_cols - 1).bit_length(), 16), top_cols)
    tiles = lambda: -(-n_out // block_out) * -(-n_cols // block_cols)
    while tiles() < 128 and block_out * block_cols > 64 * 64:  # fill the device first
        if block_out >= block_cols:
            block_out //= 2
        else:
            block_cols //= 2
    warps = 8 if block_out * block_cols > 64 * 128 else 4
    return block_out, block_cols, warps, 3 if fast else 2


def _how(kind: Any) -> tuple[Any, str, bool]:
    """The accumulator's type, the precision of products, whether they are fast."""
    if not kind.is_floating_point:
        import triton.language as tl

        return tl.int64, "ieee", False
    how = (precision or matmul.precision) if kind is float32 else "ieee"
    fast = kind.itemsize == 2 or how != "ieee"
    return triton_name(float64 if kind is float64 else float32), how, fast


def _grouped(weight: Array, groups: int, swap: bool) -> Array:
    """The weight as (group, out, in, three spatial dims); swap: its first dim is `in`."""
    rows = weight.shape[0] // groups
    strides, spatial = weight.strides, three(weight.shape[2:])
    shape, steps = (rows, weight.shape[1]), strides[:2]
    if swap:
        shape, steps = (shape[1], shape[0]), (steps[1], steps[0])
    return weight.as_strided(
        (groups, *shape, *spatial), (rows * strides[0], *steps, *three(strides[2:], 0))
    )


def _gather(
    x: Array, weight: Array, bias: Array | None, shape: Ints, stride: Ints, padding: Ints,
    dilation: Ints, groups: int, transposed: bool,
) -> Array:  # fmt: skip
    """The convolution of x, or its transpose, with an output of a given shape."""
    out = empty_images(shape, x.dtype, x)
    if out.numel() == 0:
        return out
    w = _grouped(weight, groups, transposed)
    _, n_out, n_in, *_ = w.shape
    taps = math.prod(w.shape[3:])
    strides, pads, dilations = three(stride), three(padding, 0), three(dilation)
    sizes = three(shape[2:])
    if transposed:  # see Note [Phases]
        common = [math.gcd(s, d) for s, d in zip(strides, dilations)]
        phases, pos_step = strides, (1, 1, 1)
        period = tuple(s // c for s, c in zip(strides, common))
        tap_step = tuple(-(d // c) for d, c in zip(dilations, common))
    else:
        phases = period = (1, 1, 1)
        pos_step, tap_step = strides, dilations
    grid_sizes = tuple(-(-n // p) for n, p in zip(sizes, phases))
    n_pixels, n_phases = shape[0] * math.prod(grid_sizes), math.prod(phases)
    geometry = (three(x.shape[2:]), sizes, grid_sizes, w.shape[3:], phases, pads, dilations,
                period, pos_step, tap_step)  # fmt: skip
    accumulate, precision, fast = _how(x.dtype)
    has_bias = bias is not None
    bias = x if bias is None else bias.contiguous()
    if n_in * n_out <= _DIRECT or not x.dtype.is_floating_point:
        block = 256 if n_pixels * groups * n_out < 2**18 else 1024
        kernel("conv", "conv_direct")(
            (-(-n_pixels // block) * groups * n_out * n_phases,), x, w, bias, out, n_pixels, n_out,
            n_in, groups, *geometry, five_strides(x), w.strides, five_strides(out),
            ACCUMULATE=accumulate, TRANSPOSED=transposed, HAS_BIAS=has_bias,
            WIDE=is_wide(x, w, out), BLOCK_PIXELS=block, num_warps=4,
        )  # fmt: skip
        return out
    by_tap = n_in >= 16
    if by_tap and taps > 1 and 1 not in w.strides[1:3]:
        # A tap's channels side by side: else each one would be a memory access of its own.
        w = w.permute(0, 1, 3, 4, 5, 2).clone().permute(0, 1, 5, 2, 3, 4)
    block_out, block_pixels, warps, stages = blocks(n_out, n_pixels, x.itemsize, fast)
    deepest = DEEPEST[by_tap and not transposed, x.itemsize] if fast else 16
    depth = n_in if by_tap else n_in * taps
    block_in = min(max(1 << (depth - 1).bit_length(), 16), deepest)
    tiles = -(-n_out // block_out) * -(-n_pixels // block_pixels) * groups * n_phases
    splits, _ = matmul.split(tiles, n_in * taps // n_phases, block_in)
    partial, split_stride = matmul._partial(out, splits)
    kernel("conv", "conv")(
        (tiles, splits), x, w, bias, partial, n_pixels, n_out, n_in, groups, splits, split_stride,
        *geometry, five_strides(x), w.strides, five_strides(partial), ACCUMULATE=accumulate,
        PRECISION=precision, TRANSPOSED=transposed, BY_TAP=by_tap, HAS_BIAS=has_bias,
        WIDE=is_wide(x, w, partial) or is_wide(out), BLOCK_OUT=block_out,
        BLOCK_PIXELS=block_pixels, BLOCK_IN=block_in, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    matmul._finish(out, partial, splits)
    return out


def _reduce(
    g: Array, x: Array, shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """The weight (O, C / groups, ...) by which x sees g: sums over the pixels of g."""
    out = _C.empty(shape, g.dtype, g.device_index)
    if out.numel() == 0:
        return out
    n_pixels = g.shape[0] * math.prod(g.shape[2:])
    if n_pixels == 0 or x.numel() == 0:
        return out.zero_()
    dw = _grouped(out, groups, False)
    _, n_out, n_in, *_ = dw.shape
    taps = math.prod(dw.shape[3:])
    accumulate, precision, fast = _how(g.dtype)
    direct = n_in * n_out <= _DIRECT or not g.dtype.is_floating_point
    by_tap = n_in >= 16 and not direct
    if direct:
        block_in, block_pixels = min(1 << (n_in * taps - 1).bit_length(), 16), 256
        tiles = -(-n_in * taps // block_in) * groups * n_out
    else:
        block_out, block_in, warps, stages = blocks(
            n_out, n_in if by_tap else n_in * taps, g.itemsize, fast
        )
        block_pixels = 64 if fast and g.itemsize == 2 else 16
        across = -(-n_in // block_in) * taps if by_tap else -(-n_in * taps // block_in)
        tiles = -(-n_out // block_out) * across * groups
    splits = 1
    if g.dtype.is_floating_point:  # parts are added as floats
        splits, _ = matmul.split(tiles, n_pixels, block_pixels)
    partial, split_stride = matmul._partial(out, splits)
    steps = _grouped(partial, groups, False).strides
    common = (
        (tiles, splits), g, x, partial, n_pixels, n_out, n_in, splits, split_stride,
        three(x.shape[2:]), three(g.shape[2:]), dw.shape[3:], three(stride), three(padding, 0),
        three(dilation), five_strides(g), five_strides(x), steps,
    )  # fmt: skip
    wide = is_wide(g, x, partial) or split_stride * splits > 2**31 - 1
    if direct:
        kernel("conv", "conv_weight_direct")(
            *common, ACCUMULATE=accumulate, WIDE=wide, BLOCK_IN=block_in,
            BLOCK_PIXELS=block_pixels, num_warps=4,
        )  # fmt: skip
    else:
        kernel("conv", "conv_weight")(
            *common, ACCUMULATE=accumulate, PRECISION=precision, BY_TAP=by_tap, WIDE=wide,
            BLOCK_OUT=block_out, BLOCK_IN=block_in, BLOCK_PIXELS=block_pixels, num_warps=warps,
            num_stages=stages,
        )  # fmt: skip
    matmul._finish(out, partial, splits)
    return out


# ---- complex numbers ----------------------------------------------------------------------------
# A complex channel is two real ones, and a complex weight a 2 x 2 real one.  Copies, since the two
# parts of a channel and its neighbours do not lie at one stride.


def _two_channels(x: Array, dim: int = 1) -> Array:
    """Dim `dim` doubled: real and imaginary parts in turn."""
    both = parts(x)
    moved = both.permute(*range(dim + 1), x.ndim, *range(dim + 1, x.ndim))
    shape = (*x.shape[:dim], 2 * x.shape[dim], *x.shape[dim + 1 :])
    return moved.reshape(*shape)


def _one_channel(x: Array, kind: Any) -> Array:
    """The inverse of `_two_channels` for dim 1."""
    split = x.contiguous().reshape(x.shape[0], x.shape[1] // 2, 2, *x.shape[2:])
    out = _C.empty((*split.shape[:2], *split.shape[3:]), kind, x.device_index)
    parts(out).copy_(split.permute(0, 1, *range(3, split.ndim), 2))
    return out


def _blocks_of(matrix: Array) -> Array:
    """A real weight (2 O, 2 C, ...) as (2, 2, O, C, ...)."""
    rows, cols, *spatial = matrix.shape
    split = matrix.reshape(rows // 2, 2, cols // 2, 2, *spatial)
    return split.permute(1, 3, 0, 2, *range(4, split.ndim))


def _matrix(w: Array, transposed: bool) -> Array:
    """The real weight that acts on pairs of channels."""
    kind = w.dtype.to_real()
    out = _C.empty((2 * w.shape[0], 2 * w.shape[1], *w.shape[2:]), kind, w.device_index)
    both, place = parts(w), _blocks_of(out)
    real, imaginary = both.select(w.ndim, 0), both.select(w.ndim, 1)
    to, other = ((0, 1), (1, 0)) if transposed else ((1, 0), (0, 1))
    place[0, 0].copy_(real)
    place[1, 1].copy_(real)
    place[to].copy_(imaginary)
    place[other].copy_(pointwise.call("neg", (imaginary,), kind, kind))
    return out


# ---- the three kernels --------------------------------------------------------------------------


def convolution(
    x: Array, weight: Array, bias: Array | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Array:  # fmt: skip
    """Convolution, or its transpose."""
    if x.dtype.is_complex:
        shift = None if bias is None else _two_channels(bias, 0)
        out = convolution(_two_channels(x), _matrix(weight, transposed), shift, stride, padding,
                          dilation, transposed, output_padding, groups)  # fmt: skip
        return _one_channel(out, x.dtype)
    values = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding)
    if transposed:
        size = [(n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, k, s, p, d, e in values]
        channels = weight.shape[1] * groups
    else:
        size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, e in values]
        channels = weight.shape[0]
    shape = (x.shape[0], channels, *size)
    return _gather(x, weight, bias, shape, stride, padding, dilation, groups, transposed)


def convolution_input(
    g: Array, shape: Ints, weight: Array, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Array:  # fmt: skip
    """The gradient of the input."""
    if g.dtype.is_complex:  # the real weight's transpose conjugates
        doubled = (shape[0], 2 * shape[1], *shape[2:])
        out = convolution_input(_two_channels(g), doubled, _matrix(weight, transposed), stride,
                                padding, dilation, transposed, output_padding, groups)  # fmt: skip
        return _one_channel(out, g.dtype)
    return _gather(g, weight, None, shape, stride, padding, dilation, groups, not transposed)


def convolution_weight(
    g: Array, x: Array, shape: Ints, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Array:  # fmt: skip
    """The gradient of the weight."""
    if g.dtype.is_complex:
        kind = g.dtype.to_real()
        doubled = (2 * shape[0], 2 * shape[1], *shape[2:])
        matrix = convolution_weight(_two_channels(g), _two_channels(x), doubled, stride, padding,
                                    dilation, transposed, output_padding, groups)  # fmt: skip
        place = _blocks_of(matrix)
        to, other = ((0, 1), (1, 0)) if transposed else ((1, 0), (0, 1))
        out = _C.empty(shape, g.dtype, g.device_index)
        both = parts(out)
        pointwise.call("add", (place[0, 0], place[1, 1]), kind, kind, both[..., 0])
        pointwise.call("sub", (place[to], place[other]), kind, kind, both[..., 1])
        return out
    if transposed:
        g, x = x, g
    return _reduce(g, x, shape, stride, padding, dilation, groups)
