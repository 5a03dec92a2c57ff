"""Convolutions of channels-last images by the copy engine: sm_90 to sm_110.

`convolve` and `reduce` return False, and have done nothing, where it cannot bring the operands:
types that tensor cores do not multiply, addresses or strides that are not multiples of 16 bytes,
images whose sides the stride does not divide.
"""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.core.dtype import float32
from tritorch.gpu.linalg import matmul
from tritorch.gpu.linalg.matmul import PLAIN, Epilogue, has_engine, machine
from tritorch.gpu.nn.conv_plan import choose, choose_weight, depth_of
from tritorch.gpu.nn.images import grouped
from tritorch.gpu.pointwise.layout import INT32_MAX, reach
from tritorch.triton.kernel import kernel

Array = _C.Array
Ints = tuple[int, ...]
Pair = tuple[int, int]

_LEAST = 16  # channels from which tiles pay


def pair(values: Ints, missing: int = 1) -> Pair:
    """A value for each of two spatial dims."""
    return (missing, *values) if len(values) == 1 else values  # type: ignore[return-value]


def as_planes(x: Array) -> Array:
    """Images of one spatial dim as images of one row."""
    return x.unsqueeze(2) if x.ndim == 3 else x


def channels_dense(x: Array) -> bool:
    """Whether the channels of (N, C, H, W) lie side by side, and the images are dense."""
    return x.permute(0, *range(2, x.ndim), 1).is_contiguous()


def engine_reads(x: Array, how: str) -> bool:
    """Whether this device's copy engine and tensor cores take arrays of this type."""
    kind = x.dtype
    if not has_engine(x.device_index) or not kind.is_floating_point:
        return False
    return kind.itemsize == 2 or (kind is float32 and how == "tf32")


def _by_steps(x: Array, steps: Pair) -> Array | None:
    """(N, C, H, W) as Note [Boxes of pixels] describes it, or None if that cannot be."""
    n, c, h, w = x.shape
    outer, inner, down, across = x.strides
    size = x.itemsize
    if h % steps[0] or w % steps[1] or (inner != 1 and c > 1) or x.data_ptr() % 16:
        return None
    if steps[1] > 1 and across != c:
        return None
    if across * size % 16 or down * size % 16 or outer * size % 16:
        return None
    return x.as_strided(
        (n, h // steps[0], steps[0], w // steps[1], steps[1] * c),
        (outer, steps[0] * down, down, steps[1] * across, 1),
    )


def taps_last(w: Array) -> Array:
    """A weight (O, C, ...) with its channels side by side, as (O, taps, C)."""
    moved = w.permute(0, *range(2, w.ndim), 1)
    if not moved.is_contiguous():
        moved = moved.contiguous()
    return moved.reshape(w.shape[0], math.prod(w.shape[2:]), w.shape[1])


def convolve(
    x: Array, weight: Array, out: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int,
    transposed: bool, how: str, epilogue: Epilogue = PLAIN, statistics: bool = False,
) -> Array | bool:  # fmt: skip
    """Convolves x, or its transpose, into out, which has its channels last.

    statistics: returns count, mean and squares of each channel of each tile.
    """
    if x.ndim > 4 or not engine_reads(x, how) or not channels_dense(out):
        return False
    if transposed and x.itemsize > 2:
        return False  # tensor cores want the summed dim of tf32 side by side
    x, target = as_planes(x), as_planes(out)
    n_in, n_out = x.shape[1] // groups, out.shape[1] // groups
    size = x.itemsize
    if min(n_in, n_out) < _LEAST or n_in * size % 16 or n_out * size % 16:
        return False
    kernel_size, steps = pair(weight.shape[2:]), pair(stride)
    pads, gaps = pair(padding, 0), pair(dilation)
    taps = math.prod(kernel_size)
    phases = first_phase = (0, 0)
    if transposed:
        common = [math.gcd(s, d) for s, d in zip(steps, gaps)]
        period = tuple(s // c for s, c in zip(steps, common))
        tap_step = tuple(-(d // c) for d, c in zip(gaps, common))
        chosen = [_phases(*values) for values in zip(kernel_size, steps, pads, gaps)]
        if None in chosen:
            return False
        first_phase, phases = zip(*chosen)
        read_by, written_by = (1, 1), steps
        sizes = tuple(n // s for n, s in zip(target.shape[2:], steps))
    else:
        period = tap_step = phases = (1, 1)
        read_by, written_by = steps, (1, 1)
        sizes = target.shape[2:]
    depth = depth_of(n_in, size)
    if (groups > 1 or max(read_by) > 1) and n_in % depth:
        return False  # a block would take some of the next group's or pixel's channels
    if not transposed and taps == 1 and steps == (1, 1) and pads == (0, 0) and channels_dense(x):
        x, target = one_row(x), one_row(target)
        sizes = target.shape[2:]
    source = _by_steps(x, read_by)
    if source is None:
        return False
    capability, processors = machine(x.device_index)
    n_phases = math.prod(phases)
    exact = n_out if groups > 1 or max(written_by) > 1 else 0
    if exact and exact % 16:
        return False
    grid = (target.shape[0], *sizes)
    plan = choose(
        grid, n_out, n_in, max(taps // n_phases, 1), n_phases * groups, size, processors, exact,
        statistics, transposed, capability,
    )  # fmt: skip
    if transposed and n_phases < math.prod(steps):
        out.zero_()  # of phases without a tap
    partial, _ = matmul._partial(target, plan.splits)
    if plan.splits > 1:  # its images come after one another
        n, c, h, w = target.shape
        partial = partial.as_strided((plan.splits * n, c, h, w), (h * w * c, 1, w * c, c))
    into = _by_steps(partial, written_by)
    if into is None:
        return False
    by_tap = taps_last(weight)
    if not _is_aligned(by_tap):
        return False
    images, rows, cols = plan.box
    subtiles = 2 if plan.block_n >= 128 else 1
    block_w = (plan.block_k, 1, plan.block_n) if transposed else (plan.block_n, 1, plan.block_k)
    shape = (1, out.numel() // out.shape[1], out.shape[1])
    extra, finish = (PLAIN if plan.splits > 1 else epilogue).arguments(shape)
    constants = {name: value for name, value in finish.items() if name != "SCALED"}
    stats: Any = None
    if statistics:
        stats = _C.empty((plan.tiles // -(-n_out // plan.block_n) // groups, 3, out.shape[1]),
                         float32, out.device_index)  # fmt: skip
    kernel("conv_tma", "conv_tma")(
        (min(plan.tiles * plan.splits, processors),),
        _C.Descriptor(source, (images, rows, 1, cols, plan.block_k)),
        _C.Descriptor(by_tap, block_w),
        _C.Descriptor(into, (images, rows, 1, cols, plan.block_n // subtiles)),
        stats, grid[0], n_out, n_in, groups, plan.splits, sizes, target.shape[2:], phases,
        first_phase, kernel_size, pads, steps, gaps, period, tap_step, extra, STATS=statistics,
        TRANSPOSED=transposed, PRECISION=how, WIDE=epilogue.is_wide(), GROUP=plan.group,
        SUBTILES=subtiles, BOX_N=images, BOX_H=rows, BOX_W=cols, BLOCK_N=plan.block_n,
        BLOCK_K=plan.block_k, num_warps=plan.warps, num_stages=plan.stages, **constants,
    )  # fmt: skip
    _finish(target, partial, plan.splits, epilogue)
    return True if stats is None else stats


def _finish(target: Array, partial: Array, splits: int, epilogue: Epilogue) -> None:
    """Sums the parts as matrices of pixels by channels."""
    if splits == 1:
        return
    n, c, h, w = target.shape
    rows = target.as_strided((1, n * h * w, c), (n * h * w * c, c, 1))
    matmul._finish(rows, partial, splits, epilogue)


def _is_aligned(w: Array) -> bool:
    size = w.itemsize
    return w.data_ptr() % 16 == 0 and w.shape[2] * size % 16 == 0


def one_row(x: Array) -> Array:
    """Dense images (N, C, H, W), channels last, as one image of one row."""
    n, c, h, w = x.shape
    pixels = n * h * w
    return x.as_strided((1, c, 1, pixels), (pixels * c, 1, pixels * c, c))


def _phases(taps: int, stride: int, padding: int, dilation: int) -> Pair | None:
    """The first phase of one dim that has a tap, and how many have: all or one (else None)."""
    seen = {(tap * dilation - padding) % stride for tap in range(taps)}
    if len(seen) == stride:
        return 0, stride
    return (seen.pop(), 1) if len(seen) == 1 else None


def reduce(
    g: Array, x: Array, out: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> bool:
    """The weight's gradient, into `out`."""
    if x.ndim > 4 or x.itemsize != 2 or not engine_reads(x, "ieee"):
        return False
    g, x = as_planes(g), as_planes(x)
    n_out, n_in = out.shape[0] // groups, out.shape[1]
    kernel_size = pair(out.shape[2:])
    steps, pads, gaps = pair(stride), pair(padding, 0), pair(dilation)
    size = x.itemsize
    if min(n_in, n_out) < _LEAST or n_in * size % 16 or n_out * size % 16:
        return False
    if groups > 1 and n_out % 128:  # a tile would have some of the next group's channels
        return False
    exact = n_in if groups > 1 or max(steps) > 1 else 0
    if exact % 32:
        return False
    if not channels_dense(g) or not channels_dense(x):
        return False
    if math.prod(kernel_size) == 1 and steps == (1, 1) and pads == (0, 0):
        g, x = one_row(g), one_row(x)
    seen, given = _by_steps(x, steps), _by_steps(g, (1, 1))
    if seen is None or given is None:
        return False
    capability, processors = machine(x.device_index)
    grid = (g.shape[0], *g.shape[2:])
    plan = choose_weight(
        grid, n_out, n_in, math.prod(kernel_size), groups, size, processors, exact, capability
    )
    partial, split_stride = matmul._partial(out, plan.splits)
    images, rows, cols = plan.box
    n, h, _, w, c = given.shape
    flat = given.as_strided((n, h, w, c), (*given.strides[:2], *given.strides[3:]))
    dw_strides = grouped(partial, groups, False).strides
    wide = reach(partial.shape, partial.strides) + split_stride * plan.splits > INT32_MAX // 2
    kernel("conv_tma", "conv_weight_tma")(
        (min(plan.tiles * plan.splits, processors),),
        _C.Descriptor(flat, (images, rows, cols, plan.block_out)),
        _C.Descriptor(seen, (images, rows, 1, cols, plan.block_in)),
        partial, n, n_out, n_in, groups, plan.splits, split_stride, grid[1:], kernel_size,
        pads, steps, gaps, dw_strides, PRECISION="ieee", WIDE=wide, BOX_N=images, BOX_H=rows,
        BOX_W=cols, BLOCK_OUT=plan.block_out, BLOCK_IN=plan.block_in, num_warps=plan.warps,
        num_stages=plan.stages,
    )  # fmt: skip
    matmul._finish(out, partial, plan.splits)
    return True
