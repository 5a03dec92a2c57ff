"""Convolution by products of blocks of columns that stay in the cache.

A block's patches (im2col) are copied once and one product takes all taps and channels: measured
faster than a product for each tap, whose accumulation passes over the output each time.  Transposed
convolution is the input's gradient, and the other way round.  Floats are copied and multiplied
natively (Note [Patches] in `src/host/patches.h`), what follows here of NumPy is for others.

# Note [Taps as shifts]
In the input's gradient one product gives what each tap adds where.  With stride 1, and rows of the
output as long as those of the padded input, a tap is a shift of the whole flattened image: so one
reduction over a view in which each tap lies shifted adds them, in long runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tritorch import _C
from tritorch.host import loops, threads
from tritorch.host.chains.rowwise import FLOATS
from tritorch.host.linalg import blas
from tritorch.host.pointwise.narrow import like, widen

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

COLUMNS = 1 << 10  # columns from which a product is efficient: small images are taken together
PATCHES = 1 << 21  # elements of a block of patches
PRODUCTS = 1 << 22  # multiplications from which a second thread pays for being woken
TAPS = 1 << 22  # elements of the taps of a strip of an image
IMAGES = 8  # for which one thread's buffers serve
PARTS = 8  # of the weight's gradient, at least, which are summed over some of the blocks each
SLICE = 128  # channels and taps of each of the weight gradient's slices, about
PHASES = 16  # of the input's gradient, up to which they are computed one by one


def _output_size(spatial: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Ints:
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation)
    )


def _padded(x: Array, padding: Ints, reach: Ints) -> Array:
    """x (n, C, ...) with zeros around, spatial dims at least `reach`; x itself if it will do."""
    spatial = x.shape[2:]
    need = tuple(max(n + 2 * p, r) for n, p, r in zip(spatial, padding, reach))
    if need == spatial:
        return x
    out = np.zeros((*x.shape[:2], *need), x.dtype)
    inner: tuple[Any, ...] = tuple(slice(p, p + n) for p, n in zip(padding, spatial))
    out[(..., *inner)] = x
    return out


def _patches(x: Array, kernel: Ints, stride: Ints, dilation: Ints, out: Ints) -> Array:
    """A view (C, kernel..., n, out...) of padded images (n, C, ...)."""
    steps = x.strides[2:]
    return as_strided(
        x,
        (x.shape[1], *kernel, x.shape[0], *out),
        (
            x.strides[1],
            *(s * d for s, d in zip(steps, dilation)),
            x.strides[0],
            *(s * t for s, t in zip(steps, stride)),
        ),
    )


def _blocks(n: int, rows: int, row: int, depth: int) -> Iterator[tuple[slice, slice]]:
    """Images and rows of the output for each product: many images, or a part of one."""
    plane = rows * row
    images = max(1, min(n, COLUMNS // plane)) if plane else 1
    height = max(1, min(rows, max(PATCHES // max(depth, 1), COLUMNS) // max(row * images, 1)))
    for i in range(0, n, images):
        for j in range(0, rows, height):
            yield slice(i, min(i + images, n)), slice(j, min(j + height, rows))


def _side_by_side(
    blocks: Iterable[tuple[slice, slice]], work: Callable[[slice, slice], None], products: int
) -> None:
    """work(images, rows) for each block, over threads where there is enough to do."""
    parts = list(blocks)
    threads.blocks(len(parts), 1, lambda low, high: work(*parts[low]), products >= PRODUCTS)


def _gather(
    x: Array, rows: slice, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> Array:
    """The patches (C * kernel, n * out) of some rows of the output."""
    reach = tuple(
        (m - 1) * s + d * (k - 1) + 1 for m, s, d, k in zip(out, stride, dilation, kernel)
    )
    padded = _padded(x, padding, reach)
    view = _patches(padded, kernel, stride, dilation, out)[
        (slice(None), *(slice(None) for _ in kernel), slice(None), rows)
    ]
    columns = math.prod(view.shape[1 + len(kernel) :])
    return np.ascontiguousarray(view).reshape(x.shape[1] * math.prod(kernel), columns)


def _pointwise(kernel: Ints, stride: Ints, padding: Ints, spatial: Ints, out: Ints) -> bool:
    """Whether the patches are the input."""
    return set(kernel) == {1} and set(stride) == {1} and not any(padding) and spatial == out


# ---- natively ----


@loops.gate("convolve", "convolve_weight")
def _is_native(*arrays: Array) -> bool:
    """Whether all are of the same floats, of up to three spatial dims and not empty."""
    kind = arrays[0].dtype
    same = all(x.dtype == kind and x.size and 2 < x.ndim < 6 for x in arrays)
    return same and kind in FLOATS and blas.found()


def _three(values: Ints, fill: int) -> Ints:
    return (fill,) * (3 - len(values)) + values


def _patches_of(
    x: Ints, groups: int, w: Ints, count: Ints, kernel: Ints, start: Ints, step: Ints,
    spread: Ints, result: tuple[Ints, Ints, Ints] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """What a native convolution reads, of what shape x is; w: channels and outputs of a group.  See
    Note [Patches] in `src/host/patches.h`."""
    one = (1,) * len(count)
    whole, first, every = result or (count, (0,) * len(count), one)
    ones = (_three(v, 1) for v in (x[2:], count, kernel))
    rest = (_three(step, 1), _three(spread, 1), _three(whole, 1), _three(first, 0))
    return (x[0], groups, *w, *ones, _three(start, 0), *rest, _three(every, 1))


def _row(bias: Array | None, x: Array) -> Array | None:
    return None if bias is None else np.ascontiguousarray(bias, x.dtype)


def _native_forward(
    x: Array, w: Array, bias: Array | None, result: Array, stride: Ints, padding: Ints,
    dilation: Ints, groups: int,
) -> None:  # fmt: skip
    start = tuple(-p for p in padding)
    sides = w.shape[1], w.shape[0] // groups
    patches = _patches_of(
        x.shape, groups, sides, result.shape[2:], w.shape[2:], start, stride, dilation
    )
    source, weights = np.ascontiguousarray(x), np.ascontiguousarray(w)
    _C.convolve(source, weights, _row(bias, x), result, x.dtype.char, patches)


def _in_phases(g: Array, w: Array, shape: Ints, stride: Ints) -> bool:
    return _is_native(g, w) and math.prod(shape) > 0 and math.prod(stride) <= PHASES


def _phase(r: int, n: int, k: int, s: int, p: int, d: int) -> tuple[int, slice, int, int] | None:
    """Of one dim's elements r, r + s...: how many there are, the taps that reach them, where in the
    result the first tap does, and how far from it the next one."""
    taps = range(next((t for t in range(k) if (r + p - t * d) % s == 0), k), k, s // math.gcd(s, d))
    if not taps:
        return None
    start = (r + p - taps.start * d) // s
    return len(range(r, n, s)), slice(taps.start, k, taps.step), start, -(taps.step * d // s)


def _native_input(
    g: Array, shape: Ints, w: Array, bias: Array | None, stride: Ints, padding: Ints,
    dilation: Ints, groups: int,
) -> Array:  # fmt: skip
    """The gradient of the input, by phases: elements that are as far from a multiple of the stride
    are a convolution of g with the taps that reach them."""
    source, shift, dims = np.ascontiguousarray(g), _row(bias, g), range(len(stride))
    grouped = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    result = np.empty(shape, g.dtype)
    for first in itertools.product(*(range(min(s, n)) for s, n in zip(stride, shape[2:]))):
        found = [
            _phase(first[i], shape[2 + i], w.shape[2 + i], stride[i], padding[i], dilation[i])
            for i in dims
        ]
        if not all(found):
            within = tuple(slice(r, None, s) for r, s in zip(first, stride))
            value = 0 if shift is None else shift.reshape(-1, *[1] * len(stride))
            result[(slice(None), slice(None), *within)] = value
            continue
        count, taps, start, spread = zip(*found)
        weights = np.ascontiguousarray(grouped[(..., *taps)])
        patches = _patches_of(
            g.shape, groups, (weights.shape[2], weights.shape[1]), count, weights.shape[3:], start,
            (1,) * len(stride), spread, (shape[2:], first, stride),
        )  # fmt: skip
        _C.convolve(source, weights, shift, result, g.dtype.char, patches)
    return result


def _native_weight(
    g: Array, x: Array, shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    channels, kernel, count = shape[1], shape[2:], g.shape[2:]
    depth = math.prod(shape[1:])
    # Slices of channels are computed side by side; of few channels, parts of the images.
    slices = next(i for i in range(max(1, depth // SLICE), 0, -1) if channels % i == 0)
    parts = max(1, PARTS // (slices * groups))
    sides = channels // slices, shape[0] // groups
    start = tuple(-p for p in padding)
    patches = _patches_of(x.shape, groups * slices, sides, count, kernel, start, stride, dilation)
    sums = np.zeros((parts, groups, depth, sides[1]), x.dtype)
    grad, source = np.ascontiguousarray(g), np.ascontiguousarray(x)
    _C.convolve_weight(grad, source, sums, x.dtype.char, slices, patches)
    total = np.add.reduce(sums, axis=0) if parts > 1 else sums[0]
    return np.ascontiguousarray(total.swapaxes(1, 2)).reshape(shape)


# ---- by NumPy ----


def _forward(
    x: Array,
    w: Array,
    bias: Array | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    """x (N, C, ...), w (O, C / groups, ...) -> (N, O, ...)."""
    kernel = w.shape[2:]
    out = _output_size(x.shape[2:], kernel, stride, padding, dilation)
    n, o, plane = x.shape[0], w.shape[0], math.prod(out)
    result = np.zeros((n, o, *out), x.dtype) if not w.size else np.empty((n, o, *out), x.dtype)
    shift = None if bias is None else bias.reshape(-1, 1)
    if result.size and w.size:
        if _pointwise(kernel, stride, padding, x.shape[2:], out):
            source = x.reshape(n, groups, w.shape[1], plane)
            weights = np.ascontiguousarray(w).reshape(groups, o // groups, w.shape[1])
            blas.matmul(weights, source, out=result.reshape(n, groups, o // groups, plane))
        elif _is_native(x, w):
            _native_forward(x, w, bias, result, stride, padding, dilation, groups)
            return result
        else:
            weights = w.reshape(groups, o // groups, -1)
            row = plane // out[0]
            target = result.reshape(n, groups, o // groups, plane)

            def work(images: slice, rows: slice) -> None:
                columns = _gather(x[images], rows, kernel, stride, padding, dilation, out)
                columns = columns.reshape(groups, -1, columns.shape[1])
                place = target[images, :, :, rows.start * row : rows.stop * row]
                if len(place) == 1:
                    blas.matmul(weights, columns, out=place[0])
                else:  # images side by side in the product
                    product = blas.matmul(weights, columns)
                    split = product.reshape(groups, o // groups, len(place), -1)
                    place[...] = np.moveaxis(split, 2, 0)

            _side_by_side(_blocks(n, out[0], row, w[0].size * groups), work, w.size * n * plane)
    if shift is not None:
        flat = result.reshape(n, o, plane)
        add = lambda low, high: np.add(flat[low:high], shift, out=flat[low:high])
        threads.rows(n, o * plane * result.itemsize, add)
    return result


def _planes(n: int, size: int, itemsize: int, work: Any) -> None:
    """work(low, high) over n planes, in blocks for the cache."""
    threads.rows(n, size * itemsize, work)


def _window(tap: Ints, stride: Ints, dilation: Ints, out: Ints) -> tuple[slice, ...]:
    """What a tap sees of the padded input."""
    return tuple(
        slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in zip(tap, dilation, stride, out)
    )


def _input_gradient(
    g: Array, shape: Ints, w: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """g (N, O, ...) -> the gradient of the input (N, C, ...)."""
    kernel, out, spatial = w.shape[2:], g.shape[2:], shape[2:]
    if not (g.size and w.size and math.prod(shape)):
        return np.zeros(shape, g.dtype)
    if _pointwise(kernel, stride, padding, spatial, out):
        per_out = w.shape[0] // groups
        source = g.reshape(shape[0], groups, per_out, -1)
        weights = np.swapaxes(np.ascontiguousarray(w).reshape(groups, per_out, -1), 1, 2)
        return blas.matmul(weights, source).reshape(shape)
    if _in_phases(g, w, shape, stride):
        return _native_input(g, shape, w, None, stride, padding, dilation, groups)
    if set(stride) == {1}:
        return _shifted_taps(g, shape, w, padding, dilation, groups)
    # Taps may reach past the padded input when the output had output_padding.
    reach = tuple(
        max(n + 2 * p, (m - 1) * s + d * (k - 1) + 1)
        for n, p, m, s, d, k in zip(spatial, padding, out, stride, dilation, kernel)
    )
    per_out = w.shape[0] // groups
    weights = np.swapaxes(w.reshape(groups, per_out, -1), 1, 2)
    result = np.empty(shape, g.dtype)
    inner = (slice(None), *(slice(p, p + n) for p, n in zip(padding, spatial)))
    padded = np.empty((shape[1], *reach), g.dtype)
    for image in range(shape[0]):
        taps = blas.matmul(weights, g[image].reshape(groups, per_out, -1))
        taps = taps.reshape(shape[1], *kernel, *out)

        def work(low: int, high: int, taps: Array = taps, image: int = image) -> None:
            target = padded[low:high]
            target.fill(0)
            for tap in itertools.product(*map(range, kernel)):
                window = _window(tap, stride, dilation, out)
                key: Any = (slice(low, high), *tap)
                target[(slice(None), *window)] += taps[key]
            result[image, low:high] = target[inner]

        _planes(shape[1], math.prod(reach) * 2, g.itemsize, work)
    return result


def _shifted_taps(
    g: Array, shape: Ints, w: Array, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """The gradient of the input where the stride is 1. See Note [Taps as shifts]."""
    kernel, out, spatial, o = w.shape[2:], g.shape[2:], shape[2:], w.shape[0]
    frame = tuple(
        max(n + 2 * p, m + d * (k - 1))
        for n, p, m, d, k in zip(spatial, padding, out, dilation, kernel)
    )
    weights = np.ascontiguousarray(np.swapaxes(w.reshape(groups, o // groups, -1), 1, 2))
    depth = weights.size // (o // groups)
    result = np.empty(shape, g.dtype)
    inner = (slice(None), *(slice(p, p + n) for p, n in zip(padding, spatial)))
    plane, row = math.prod(frame), math.prod(frame[1:])
    if out[0] * row * depth <= TAPS:
        images = max(1, min(shape[0], COLUMNS // plane, TAPS // (plane * depth)))
        work = lambda low, high: _whole_images(
            g[low:high], result[low:high], weights, kernel, frame, dilation, images, inner
        )
    else:
        images = 1
        work = lambda low, high: _strips(
            g[low:high], result[low:high], weights, kernel, frame, dilation, inner
        )
    products = w.size * g.shape[0] * math.prod(out)
    # Whole runs of images, so that each has as many.
    threads.blocks(shape[0], -(-IMAGES // images) * images, work, products >= PRODUCTS)
    return result


def _shifts(frame: Ints, dilation: Ints) -> list[int]:
    """How far a step of each of the kernel's dims is in a flattened image."""
    return [d * math.prod(frame[i + 1 :]) for i, d in enumerate(dilation)]


def _tap_buffer(
    channels: int, kernel: Ints, shifts: list[int], columns: int, more: int, kind: Any
) -> tuple[Array, Array]:
    """Room for what each tap adds to so many columns; and the same, each tap shifted to where it
    adds, `more` columns longer."""
    reach = sum(shift * (k - 1) for shift, k in zip(shifts, kernel))
    taps = np.zeros((channels * math.prod(kernel), reach + columns + reach), kind)
    line, size = taps.strides
    apart = [line * math.prod(kernel[i + 1 :]) for i in range(len(kernel))]
    shifted = as_strided(
        taps[:, reach:],
        (channels, *kernel, columns + more),
        (line * math.prod(kernel), *(a - shift * size for a, shift in zip(apart, shifts)), size),
    )
    return taps[:, reach : reach + columns], shifted


def _grouped(taps: Array, groups: int) -> Array:
    """The rows of a view in groups."""
    per, (line, size) = taps.shape[0] // groups, taps.strides
    return as_strided(taps, (groups, per, taps.shape[1]), (line * per, line, size))


def _whole_images(
    g: Array, result: Array, weights: Array, kernel: Ints, frame: Ints, dilation: Ints,
    images: int, inner: Any,
) -> None:  # fmt: skip
    """_shifted_taps of images that are side by side in the product: a shift from one's end reaches
    the next one's frame, where nothing is added."""
    (n, o, *out), channels, groups = g.shape, result.shape[1], weights.shape[0]
    plane, row = math.prod(frame), math.prod(frame[1:])
    rows = np.zeros((o, images, *frame), g.dtype)
    filled = rows[(slice(None), slice(None), *(slice(0, m) for m in out))]
    columns = (images - 1) * plane + out[0] * row  # what follows the last one's rows is zeros
    below = dilation[0] * (kernel[0] - 1) * row
    taps, shifted = _tap_buffer(channels, kernel, _shifts(frame, dilation), columns, below, g.dtype)
    whole = np.zeros((channels, images * plane), g.dtype)
    grouped = _grouped(taps, groups)
    axes = tuple(range(1, 1 + len(kernel)))
    source = rows.reshape(groups, o // groups, -1)[:, :, :columns]
    for low in range(0, n, images):
        have = min(images, n - low)
        filled[:, :have] = np.moveaxis(g[low : low + have], 0, 1)
        filled[:, have:] = 0
        blas.matmul(weights, source, out=grouped)
        np.add.reduce(shifted, axis=axes, out=whole[:, : shifted.shape[-1]])
        found = np.moveaxis(whole.reshape(channels, images, *frame), 0, 1)
        result[low : low + have] = found[:have][(slice(None), *inner)]


def _strips(
    g: Array, result: Array, weights: Array, kernel: Ints, frame: Ints, dilation: Ints, inner: Any
) -> None:
    """_shifted_taps of one image after the other, some rows of it at a time."""
    (n, o, *out), channels, groups = g.shape, result.shape[1], weights.shape[0]
    row = math.prod(frame[1:])
    height = max(1, min(out[0], TAPS // max(row * weights.size // (o // groups), 1)))
    below = dilation[0] * (kernel[0] - 1) * row  # how far a strip's taps reach beyond it
    rows = np.zeros((o, height, *frame[1:]), g.dtype)
    taps, shifted = _tap_buffer(
        channels, kernel, _shifts(frame, dilation), height * row, below, g.dtype
    )
    grouped = _grouped(taps, groups)
    filled = (slice(None), slice(None), *(slice(0, m) for m in out[1:]))
    axes = tuple(range(1, 1 + len(kernel)))
    whole = np.zeros((channels, frame[0] * row), g.dtype)
    reached = shifted.shape[-1]
    part = np.empty((channels, reached), g.dtype)
    for image in range(n):
        whole.fill(0)
        for top in range(0, out[0], height):
            have = min(height, out[0] - top)
            rows[filled][:, :have] = g[image, :, top : top + have]
            rows[:, have:] = 0
            blas.matmul(weights, rows.reshape(groups, o // groups, -1), out=grouped)
            np.add.reduce(shifted, axis=axes, out=part)
            target = whole[:, top * row : top * row + reached]
            target += part[:, : target.shape[1]]
        result[image] = whole.reshape(channels, *frame)[inner]


def _weight_gradient(
    g: Array, x: Array, shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """The gradient of the weight (O, C / groups, ...)."""
    kernel, out = shape[2:], g.shape[2:]
    total = np.zeros((groups, shape[0] // groups, math.prod(shape[1:])), x.dtype)
    if g.size and x.size and total.size:
        if _is_native(g, x):
            return _native_weight(g, x, shape, stride, padding, dilation, groups)
        if shape[1] == 1 and groups > 1:
            return _depthwise_weight(g, x, shape, stride, padding, dilation)
        n, plane = g.shape[0], math.prod(out)
        row = plane // out[0]
        grad = g.reshape(n, groups, shape[0] // groups, plane)
        parts = list(_blocks(n, out[0], row, math.prod(shape[1:]) * groups))
        # Transposed: BLAS is quicker at a product whose first factor is the longer one.
        sums = np.zeros((PARTS, groups, total.shape[2], total.shape[1]), x.dtype)

        def work(low: int, high: int) -> None:
            for images, rows in parts[low::PARTS]:
                columns = _gather(x[images], rows, kernel, stride, padding, dilation, out)
                columns = columns.reshape(groups, -1, columns.shape[1])
                part = grad[images, :, :, rows.start * row : rows.stop * row]
                part = part[0] if len(part) == 1 else np.moveaxis(part, 0, 2)
                part = part.reshape(groups, shape[0] // groups, -1)
                sums[low] += blas.matmul(columns, np.swapaxes(part, 1, 2))

        threads.blocks(PARTS, 1, work, total.size * n * plane >= PRODUCTS)
        total[...] = np.swapaxes(np.add.reduce(sums, axis=0), 1, 2)
    return total.reshape(shape)


def _depthwise_weight(
    g: Array, x: Array, shape: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Array:
    kernel, out = shape[2:], g.shape[2:]
    n, c = x.shape[:2]
    per = shape[0] // c
    reach = tuple(
        (m - 1) * s + d * (k - 1) + 1 for m, s, d, k in zip(out, stride, dilation, kernel)
    )
    source = _padded(x, padding, reach).reshape(n * c, 1, -1)
    spatial = _padded(x[:0], padding, reach).shape[2:]
    source = source.reshape(n * c, *spatial)
    grad = g.reshape(n * c, per, math.prod(out))
    partial = np.empty((n * c, per, *kernel), x.dtype)

    def work(low: int, high: int) -> None:
        for tap in itertools.product(*map(range, kernel)):
            within: Any = (slice(low, high), *_window(tap, stride, dilation, out))
            seen = source[within]
            columns = np.ascontiguousarray(seen).reshape(high - low, -1, 1)
            place: Any = (slice(low, high), slice(None), *tap)
            partial[place] = blas.matmul(grad[low:high], columns)[..., 0]

    _planes(n * c, math.prod(out), x.itemsize, work)
    return partial.reshape(n, *shape[:1], 1, *kernel).sum(axis=0)


def _transposed_size(
    x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, extra: Ints
) -> Ints:
    return tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(x.shape[2:], stride, padding, dilation, w.shape[2:], extra)
    )


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Array:
    """Convolution, or its transpose."""
    a, w = widen(x), widen(weight)
    b = None if bias is None else widen(bias)
    if not transposed:
        return like(_forward(a, w, b, stride, padding, dilation, groups), x)
    size = _transposed_size(a, w, stride, padding, dilation, output_padding)
    shape = (a.shape[0], w.shape[1] * groups, *size)
    if _in_phases(a, w, shape, stride):
        return like(_native_input(a, shape, w, b, stride, padding, dilation, groups), x)
    out = _input_gradient(a, shape, w, stride, padding, dilation, groups)
    if b is not None:
        out += b.reshape([-1 if i == 1 else 1 for i in range(out.ndim)])
    return like(out, x)


def convolution_input(
    g: Array,
    shape: Ints,
    weight: Array,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Array:
    """The gradient of the input."""
    a, w = widen(g), widen(weight)
    if w.dtype.kind == "c":
        w = w.conj()
    if not transposed:
        return like(_input_gradient(a, shape, w, stride, padding, dilation, groups), g)
    out = _forward(a, w, None, stride, padding, dilation, groups)
    # With output_padding, the convolution may give a row more than there was.
    inside: Any = (..., *(slice(0, n) for n in shape[2:]))
    out = out[inside]
    return like(np.ascontiguousarray(out), g)


def convolution_weight(
    g: Array,
    x: Array,
    shape: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Array:
    """The gradient of the weight."""
    a, b = widen(g), widen(x)
    if b.dtype.kind == "c":
        b = b.conj()
    if transposed:
        a, b = b, a
    return like(_weight_gradient(a, b, shape, stride, padding, dilation, groups), g)
