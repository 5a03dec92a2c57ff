"""Convolution, its transpose and their gradients: implicit products that read images as they
are."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.core import precision
from tritorch.core.dtype import float32, float64, int64
from tritorch.core.layout import contiguous_strides
from tritorch.gpu.linalg import matmul
from tritorch.gpu.linalg.matmul import PLAIN, Epilogue, WrittenEpilogue, machine, parts, triton_name
from tritorch.gpu.nn import conv_tma, depthwise, norm
from tritorch.gpu.nn.conv_plan import worth_turning
from tritorch.gpu.nn.images import (
    channels_dense,
    five_strides,
    grouped,
    is_wide,
    last_strides,
    new_images,
    three,
)
from tritorch.gpu.pointwise import pointwise
from tritorch.triton.kernel import kernel

Array = _C.Array
Ints = tuple[int, ...]

DIRECT = 16  # a group with at most so many pairs of channels is not worth a tile


# Channels of the input at a time, on tensor cores: (one tap at a time, bytes of an element).
DEEPEST = {(True, 2): 64, (False, 2): 32, (True, 4): 32, (False, 4): 16}


def blocks(
    n_out: int, n_cols: int, by_tap: bool, fast: bool, processors: int = 132
) -> tuple[int, int, int, int]:
    """Channels, columns, warps and stages of one tile; fast: on tensor cores.

    Where taps and channels are mixed, addresses take the registers of larger tiles.
    """
    top = 128 if fast and by_tap else 64
    block_out = min(max(1 << (n_out - 1).bit_length(), 16), top)
    block_cols = min(max(1 << (n_cols - 1).bit_length(), 16), top)
    tiles = lambda: -(-n_out // block_out) * -(-n_cols // block_cols)
    while tiles() < processors and block_out * block_cols > 64 * 64:  # fill the device first
        if block_out >= block_cols:
            block_out //= 2
        else:
            block_cols //= 2
    warps = 8 if block_out * block_cols > 64 * 128 else 4
    return block_out, block_cols, warps, 3 if fast else 2


def _how(kind: Any) -> tuple[Any, str, bool]:
    """The accumulator's type, the precision of products, whether they are fast."""
    if not kind.is_floating_point:
        return triton_name(int64), "ieee", False
    how = precision.convolution if kind is float32 else "ieee"
    fast = kind.itemsize == 2 or how != "ieee"
    return triton_name(float64 if kind is float64 else float32), how, fast


def _last(x: Array, weight: Array) -> bool:
    """Whether the output has its channels last: those of images are, or of the weight."""
    return any(not y.is_contiguous() and channels_dense(y) for y in (x, weight))


def _gather(
    x: Array, weight: Array, bias: Array | None, shape: Ints, stride: Ints, padding: Ints,
    dilation: Ints, groups: int, transposed: bool, written: WrittenEpilogue | None = None,
) -> Array:  # fmt: skip
    """The convolution of x, or its transpose, with an output of a given shape.

    then: what follows, of pixels (counted as if channels were last) and channels."""
    kind = x.dtype
    last = _last(x, weight)
    if math.prod(shape) == 0:
        return new_images(shape, x, last)
    bias = None if bias is None else bias.contiguous()
    accumulate, how, fast = _how(kind)
    w = grouped(weight, groups, transposed)
    _, n_out, n_in, *kernel_size = w.shape
    taps = math.prod(kernel_size)
    if _is_product(x, kernel_size, stride, padding, groups):
        return _product(x, weight, bias, shape, transposed, written)
    if not channels_dense(x):
        pays = fast and x.itemsize == 2 and min(n_in, n_out) >= 16
        shrunk = 1 if transposed else math.prod(stride)
        if last or (pays and worth_turning(n_in, n_out, taps, shrunk)):
            out = _gather(
                _turned(x), weight, bias, shape, stride, padding, dilation, groups, transposed,
                written,
            )  # fmt: skip
            return out if last else out.contiguous()
    out = new_images(shape, x, last)
    flat_taps = n_out == 1 or weight.strides[0] == n_out * weight.strides[1]
    if (
        n_in == 1
        and n_out <= DIRECT
        and depthwise.fits(x, weight)
        and (not transposed or flat_taps)
    ):
        if transposed:
            step = weight.strides[0 if n_out == 1 else 1]
            weight = weight.as_strided((groups * n_out, 1, *weight.shape[2:]),
                                       (step, 1, *weight.strides[2:]))  # fmt: skip
        phases = _phases(stride, dilation, transposed)
        depthwise.gather(
            x, weight, bias, out,
            tuple(values[1:] for values in (phases[0], three(padding, 0), three(dilation),
                                            *phases[1:])),
            accumulate, transposed,
        )  # fmt: skip
        return _followed(out, written)
    epilogue = PLAIN if bias is None and written is None else Epilogue(bias, written=written)
    arguments = (stride, padding, dilation, groups, transposed)
    if conv_tma.convolve(x, weight, out, *arguments, how, epilogue):
        return out
    if fast and not transposed and groups == 1 and n_out >= 16:
        row = packing(n_in, weight.shape[-1], stride[-1], x.itemsize)
        if row and dilation[-1] == 1:
            x, stride, padding = _packed(x, row, stride, padding, shape[-1])
            weight = _packed_weight(weight, row)
    _by_pointers(x, weight, bias, out, stride, padding, dilation, groups, transposed, written)
    return out


def _followed(out: Array, written: WrittenEpilogue | None) -> Array:
    """A convolution with what follows it, where no kernel could go on with that."""
    if written is None:
        return out
    sizes = three(out.shape[2:])
    n_pixels, n_out = out.shape[0] * math.prod(sizes), out.shape[1]
    across = min(16, 1 << (n_out - 1).bit_length())
    kernel("conv", "follow")(
        (-(-n_pixels // (1024 // across)), -(-n_out // across)), out, n_pixels, n_out, sizes,
        five_strides(out), Epilogue(written=written).arguments((1, n_pixels, n_out))[0],
        THEN=written.function, ACCUMULATE=_how(out.dtype)[0], WIDE=is_wide(out), BLOCK_OUT=across,
        BLOCK_PIXELS=1024 // across, num_warps=4,
    )  # fmt: skip
    return out


def _turned(x: Array) -> Array:
    """The same images, dense with their channels last."""
    return x if channels_dense(x) else new_images(x.shape, x, True).copy_(x)


def _is_product(x: Array, kernel: Any, stride: Ints, padding: Ints, groups: int) -> bool:
    """Whether a convolution is a matrix product of what is in memory."""
    kind = x.dtype
    if max(kernel) > 1 or max(stride) > 1 or max(padding) > 0 or groups > 1:
        return False
    if not kind.is_floating_point or x.shape[1] == 0 or x.numel() == 0:
        return False
    return channels_dense(x) or x.is_contiguous()


def _product(
    x: Array,
    weight: Array,
    bias: Array | None,
    shape: Ints,
    transposed: bool,
    written: WrittenEpilogue | None,
) -> Array:
    """A convolution by a single tap."""
    n, c, *spatial = x.shape
    n_out, pixels = shape[1], math.prod(spatial)
    w = weight.as_strided(weight.shape[:2], weight.strides[:2])  # (out, in), or transposed
    if transposed:
        w = w.transpose(0, 1)
    if pixels == 1 or not x.is_contiguous():
        rows = x.as_strided((1, n * pixels, c), (n * pixels * c, c, 1))
        epilogue = PLAIN if bias is None and written is None else Epilogue(bias, written=written)
        columns = w.transpose(0, 1).unsqueeze(0)
        out = matmul.product(rows, columns, x.dtype, epilogue, how=precision.convolution)
        strides = contiguous_strides if x.is_contiguous() else last_strides
        return out.as_strided(shape, strides(shape))
    planes = x.as_strided((n, c, pixels), (c * pixels, pixels, 1))
    turned = None if written is None or n > 1 else written.transposed()
    addend = None if bias is None else bias.unsqueeze(1)
    epilogue = PLAIN if bias is None and turned is None else Epilogue(addend, written=turned)
    w = w.unsqueeze(0).expand(n, n_out, c)
    out = matmul.product(w, planes, x.dtype, epilogue, how=precision.convolution)
    out = out.as_strided(shape, contiguous_strides(shape))
    return out if turned is not None else _followed(out, written)


# ---- few channels -------------------------------------------------------------------------------


def packing(n_in: int, taps: int, stride: int, itemsize: int) -> tuple[int, int] | None:
    """Channels of a packed pixel and taps of a packed row; None where packing does not pay.

    A row of a filter is then one block of channels, whose elements come 16 bytes at a time.
    """
    channels = 1 << (n_in - 1).bit_length()
    while stride * channels * itemsize % 16:
        channels *= 2
    depth = max(1 << (taps * channels - 1).bit_length(), 16)
    if n_in >= 16 or taps == 1 or channels > 4 * n_in or depth > 256:
        return None
    return channels, depth // channels


def _packed(
    x: Array, row: tuple[int, int], stride: Ints, padding: Ints, out_width: int
) -> tuple[Array, Ints, Ints]:
    """Images whose channels are the elements that a row of the filter sees."""
    channels, taps = row
    n, c, *outer, width = x.shape
    step, pad = stride[-1], padding[-1]
    wide = max((out_width - 1) * step + taps, pad + width)
    packed = _C.empty((n, *outer, wide, channels), x.dtype, x.device_index)
    pixels = packed.numel() // channels
    kernel("conv_pack", "pack_rows")(
        (-(-pixels // 256),), x, packed, pixels, c, width, wide, pad, three((*outer, 1))[:2],
        five_strides(x), WIDE=is_wide(x), CHANNELS=channels, BLOCK=256, num_warps=4,
    )  # fmt: skip
    strides = packed.strides
    seen = packed.as_strided(
        (n, taps * channels, *outer, out_width), (strides[0], 1, *strides[1:-2], step * channels)
    )
    return seen, (*stride[:-1], 1), (*padding[:-1], 0)


def _row_of_weight(w: Array, row: tuple[int, int]) -> tuple[Array, Array]:
    """An array (O, ..., taps, channels) as a weight (O, in, ..., 1), and the part like w."""
    channels, taps = row
    outer = w.shape[2:-1]
    n_out = w.shape[0]
    whole = _C.empty((n_out, *outer, taps, channels), w.dtype, w.device_index)
    strides = whole.strides
    seen = whole.as_strided(
        (n_out, taps * channels, *outer, 1), (strides[0], 1, *strides[1:-2], taps * channels)
    )
    part = whole.as_strided(w.shape, (strides[0], 1, *strides[1:-1]))
    return seen, part


def _packed_weight(w: Array, row: tuple[int, int]) -> Array:
    seen, part = _row_of_weight(w, row)
    seen.zero_()
    part.copy_(w)
    return seen


# ---- through pointers ---------------------------------------------------------------------------


def _phases(stride: Ints, dilation: Ints, transposed: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """phases, period, pos_step and tap_step of three dims: see Note [Phases]."""
    strides, dilations = three(stride), three(dilation)
    ones = (1, 1, 1)
    if not transposed:
        return ones, ones, strides, dilations
    common = [math.gcd(s, d) for s, d in zip(strides, dilations)]
    period = tuple(s // c for s, c in zip(strides, common))
    return strides, period, ones, tuple(-(d // c) for d, c in zip(dilations, common))


def _by_pointers(
    x: Array, weight: Array, bias: Array | None, out: Array, stride: Ints, padding: Ints,
    dilation: Ints, groups: int, transposed: bool, written: WrittenEpilogue | None = None,
) -> None:  # fmt: skip
    """The convolution of x, or its transpose, into `out`: any strides and types."""
    w = grouped(weight, groups, transposed)
    _, n_out, n_in, *_ = w.shape
    taps = math.prod(w.shape[3:])
    sizes = three(out.shape[2:])
    phases, period, pos_step, tap_step = _phases(stride, dilation, transposed)
    grid_sizes = tuple(-(-n // p) for n, p in zip(sizes, phases))
    n_pixels, n_phases = out.shape[0] * math.prod(grid_sizes), math.prod(phases)
    geometry = (three(x.shape[2:]), sizes, grid_sizes, w.shape[3:], phases, three(padding, 0),
                three(dilation), period, pos_step, tap_step)  # fmt: skip
    accumulate, how, fast = _how(x.dtype)
    has_bias = bias is not None
    if bias is None:
        bias = x
    if n_in * n_out <= DIRECT or not x.dtype.is_floating_point:
        block = 256 if n_pixels * groups * n_out < 2**18 else 1024
        kernel("conv", "conv_direct")(
            (-(-n_pixels // block) * groups * n_out * n_phases,), x, w, bias, out, n_pixels, n_out,
            n_in, groups, *geometry, five_strides(x), w.strides, five_strides(out),
            ACCUMULATE=accumulate, TRANSPOSED=transposed, HAS_BIAS=has_bias,
            WIDE=is_wide(x, w, out), BLOCK_PIXELS=block, num_warps=4,
        )  # fmt: skip
        _followed(out, written)
        return
    by_tap = n_in >= 16
    if by_tap and taps > 1 and 1 not in w.strides[1:3]:
        # A tap's channels side by side: else each one would be a memory access of its own.
        w = w.permute(0, 1, 3, 4, 5, 2).clone().permute(0, 1, 5, 2, 3, 4)
    processors = machine(x.device_index)[1]
    block_out, block_pixels, warps, stages = blocks(n_out, n_pixels, by_tap, fast, processors)
    deepest = DEEPEST[by_tap and not transposed, x.itemsize] if fast else 16
    depth = n_in if by_tap else n_in * taps
    block_in = min(max(1 << (depth - 1).bit_length(), 16), deepest)
    tiles = -(-n_out // block_out) * -(-n_pixels // block_pixels) * groups * n_phases
    splits, _ = matmul.split(tiles, n_in * taps // n_phases, block_in, processors)
    partial, split_stride = matmul._partial(out, splits)
    whole = None if splits > 1 else written
    kernel("conv", "conv")(
        (tiles, splits), x, w, bias, partial, n_pixels, n_out, n_in, groups, splits, split_stride,
        *geometry, five_strides(x), w.strides, five_strides(partial),
        None if whole is None else Epilogue(written=whole).arguments((1, n_pixels, n_out))[0],
        THEN=whole and whole.function, ACCUMULATE=accumulate, PRECISION=how, TRANSPOSED=transposed,
        BY_TAP=by_tap, HAS_BIAS=has_bias,
        WIDE=is_wide(x, w, partial) or is_wide(out), BLOCK_OUT=block_out,
        BLOCK_PIXELS=block_pixels, BLOCK_IN=block_in, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    matmul._finish(out, partial, splits)
    if splits > 1:
        _followed(out, written)


def _reduce(
    g: Array, x: Array, shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """The weight (O, C / groups, ...) by which x sees g: sums over the pixels of g."""
    last = all(channels_dense(y) for y in (g, x))
    last = last and not (g.is_contiguous() and x.is_contiguous())
    out = new_images(shape, g, last)
    if out.numel() == 0:
        return out
    if g.shape[0] * math.prod(g.shape[2:]) == 0 or x.numel() == 0:
        return out.zero_()
    accumulate, _, fast = _how(g.dtype)
    n_out, n_in = shape[0] // groups, shape[1]
    if n_in == 1 and n_out <= DIRECT and depthwise.fits(x, out):
        depthwise.reduce(
            g, x, out, three(stride)[1:], three(padding, 0)[1:], three(dilation)[1:], accumulate
        )
        return out
    if g.itemsize == 2 and fast and min(n_in, n_out) >= 16:
        if worth_turning(n_in, n_out, math.prod(shape[2:]), math.prod(stride)):
            g, x = _turned(g), _turned(x)
    if conv_tma.reduce(g, x, out, stride, padding, dilation, groups):
        return out
    if fast and groups == 1 and n_out >= 16 and dilation[-1] == 1:
        row = packing(n_in, shape[-1], stride[-1], x.itemsize)
        if row:
            x, stride, padding = _packed(x, row, stride, padding, g.shape[-1])
            whole, part = _row_of_weight(out, row)
            _reduce_by_pointers(g, x, whole, stride, padding, dilation, 1)
            return out.copy_(part)
    _reduce_by_pointers(g, x, out, stride, padding, dilation, groups)
    return out


def _reduce_by_pointers(
    g: Array, x: Array, out: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> None:
    """The gradient of the weight, into `out`: any strides and types."""
    n_pixels = g.shape[0] * math.prod(g.shape[2:])
    dw = grouped(out, groups, False)
    _, n_out, n_in, *_ = dw.shape
    taps = math.prod(dw.shape[3:])
    accumulate, how, fast = _how(g.dtype)
    direct = n_in * n_out <= DIRECT or not g.dtype.is_floating_point
    by_tap = n_in >= 16 and not direct
    processors = machine(g.device_index)[1]
    if direct:
        block_in, block_pixels = min(1 << (n_in * taps - 1).bit_length(), 16), 256
        tiles = -(-n_in * taps // block_in) * groups * n_out
    else:
        block_out, block_in, warps, stages = blocks(
            n_out, n_in if by_tap else n_in * taps, by_tap, fast, processors
        )
        block_pixels = 64 if fast and g.itemsize == 2 else 16
        across = -(-n_in // block_in) * taps if by_tap else -(-n_in * taps // block_in)
        tiles = -(-n_out // block_out) * across * groups
    splits = 1
    if g.dtype.is_floating_point:  # parts are added as floats
        splits, _ = matmul.split(tiles, n_pixels, block_pixels, processors)
    partial, split_stride = matmul._partial(out, splits)
    steps = grouped(partial, groups, False).strides
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
            *common, ACCUMULATE=accumulate, PRECISION=how, BY_TAP=by_tap, WIDE=wide,
            BLOCK_OUT=block_out, BLOCK_IN=block_in, BLOCK_PIXELS=block_pixels, num_warps=warps,
            num_stages=stages,
        )  # fmt: skip
    matmul._finish(out, partial, splits)


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


def with_epilogue(
    x: Array, weight: Array, bias: Array | None, stride: Ints, padding: Ints, dilation: Ints,
    groups: int, shape: Ints, written: WrittenEpilogue | None,
) -> Array:  # fmt: skip
    """A convolution of real numbers, and what follows it."""
    return _gather(x, weight, bias, shape, stride, padding, dilation, groups, False, written)


def with_statistics(
    x: Array, weight: Array, bias: Array | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, eps: float,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """A convolution, and mean, 1 / std and variance of each channel of it."""
    size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(
        x.shape[2:], weight.shape[2:], stride, padding, dilation)]  # fmt: skip
    shape = (x.shape[0], weight.shape[0], *size)
    if not transposed and 0 not in shape and _last(x, weight) and channels_dense(x):
        out = new_images(shape, x, True)
        epilogue = PLAIN if bias is None else Epilogue(bias.contiguous())
        parts_of = conv_tma.convolve(
            x,
            weight,
            out,
            stride,
            padding,
            dilation,
            groups,
            False,
            _how(x.dtype)[1],
            epilogue,
            True,
        )
        if not isinstance(parts_of, bool):
            return out, *norm.joined_statistics(parts_of, out, eps)
    out = convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding,
                      groups)  # fmt: skip
    return out, *norm.batch_statistics(out, eps)


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
