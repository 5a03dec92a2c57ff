"""Pooling over windows of (N, C, spatial...)."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import by_steps, scratch, seen
from tritorch.core.layout import contiguous_strides
from tritorch.host import loops, threads
from tritorch.host.chains.rowwise import FLOATS
from tritorch.host.linalg import blas
from tritorch.host.pointwise.narrow import computing, like, widen
from tritorch.host.reduce import rows

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
_pool_largest, _pool_average = seen(_C.pool_largest), seen(_C.pool_average)


def out_size(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    """How many windows fit; with ceil, the last may begin inside but never in the padding."""
    span = n + 2 * p - d * (k - 1) - 1
    count = (-(-span // s) if ceil else span // s) + 1
    return count - 1 if ceil and (count - 1) * s >= n + p else count


def _starts(n: int, s: int, p: int) -> Array:
    return np.arange(n) * s - p


def _extended(x: Array, before: Ints, sizes: Ints, value: Any) -> Array:
    """Planes (n, ...) with a border of one value, of given sizes."""
    out = np.full((x.shape[0], *sizes), value, x.dtype)
    cut = [min(n, size - b) for n, size, b in zip(x.shape[1:], sizes, before)]
    inner: Any = (slice(None), *(slice(b, b + n) for b, n in zip(before, cut)))
    out[inner] = x[(slice(None), *(slice(0, n) for n in cut))]
    return out


def _reach(out: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    return tuple((m - 1) * s + d * (k - 1) + 1 for m, k, s, d in zip(out, kernel, stride, dilation))


def _seen(tap: Ints, out: Ints, stride: Ints, dilation: Ints) -> Any:
    """What a tap sees of the extended planes."""
    return (
        slice(None),
        *(
            slice(t * d, t * d + (m - 1) * s + 1, s)
            for t, m, s, d in zip(tap, out, stride, dilation)
        ),
    )


@functools.lru_cache(64)
def _taps(kernel: Ints, stride: Ints, dilation: Ints, out: Ints) -> list[list[Any]]:
    """For each dim, what the taps of its windows see of planes (n, ...)."""
    return [
        [((slice(None),) * axis) + (slice(t, t + (m - 1) * s + 1, s),) for t in range(0, k * d, d)]
        for axis, (k, s, d, m) in enumerate(zip(kernel, stride, dilation, out), start=1)
    ]


def _fold(ufunc: Any, x: Array, taps: list[list[Any]]) -> Array:
    """ufunc over windows that lie inside of planes, one dim after the other."""
    for dim in taps:
        if len(dim) == 1:
            x = x[dim[0]]
            continue
        folded = ufunc(x[dim[0]], x[dim[1]])
        for tap in dim[2:]:
            ufunc(folded, x[tap], out=folded)
        x = folded
    return x


def _inside(spatial: Ints, kernel: Ints, stride: Ints, dilation: Ints, out: Ints) -> bool:
    return all(r <= n for r, n in zip(_reach(out, kernel, stride, dilation), spatial))


def _for_planes(planes: Array, work: Any) -> None:
    if planes.nbytes <= threads.CACHE:
        work(0, len(planes))
    else:
        threads.rows(len(planes), 2 * planes.nbytes // len(planes), work)


@loops.gate("pool_largest")
def _is_native(x: Array, out: Ints) -> bool:
    """Whether planes, or lines, are pooled window by window, natively."""
    return len(out) < 3 and x.dtype in FLOATS and x.size > 0 and x.flags.c_contiguous


def _flat(spatial: Ints, out: Ints, *sides: Ints) -> tuple[Ints, ...]:
    """What windows are of planes; of lines, as planes of one row.  Padding is the third side."""
    if len(out) == 2:
        return (spatial, out, *sides)
    one = [(0, *side) if i == 2 else (1, *side) for i, side in enumerate(sides)]
    return ((1, *spatial), (1, *out), *one)


def max_pool_values(
    x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> Array | None:
    """The largest of each window, where all lie inside; else None."""
    spatial = x.shape[2:]
    if _is_native(x, out):
        best = scratch((*x.shape[:2], *out), x.dtype)
        windows = _flat(spatial, out, kernel, stride, padding, dilation)
        _pool_largest(x, best, None, x.dtype.char, x.shape[0] * x.shape[1], *windows)
        return best
    if any(padding) or not x.size or not _inside(spatial, kernel, stride, dilation, out):
        return None
    taps, kind = _taps(kernel, stride, dilation, out), computing(x.dtype)
    planes = x.reshape(-1, *spatial)
    best = np.empty((len(planes), *out), x.dtype)

    def work(low: int, high: int) -> None:
        block = planes[low:high].astype(kind, copy=False)
        best[low:high] = _fold(np.maximum, block, taps)

    _for_planes(planes, work)
    return best.reshape(*x.shape[:2], *out)


TAPS = 16  # up to so many, windows are looked through tap by tap, not dim by dim


@functools.lru_cache(64)
def _tap_views(
    spatial: Ints, kernel: Ints, stride: Ints, dilation: Ints, out: Ints
) -> tuple[list[Any], Array, Array]:
    """What each tap of a window sees of planes; how far it is from the window's start, in elements;
    and where windows start."""
    steps = contiguous_strides(spatial)
    taps = list(itertools.product(*map(range, kernel)))
    views = [_seen(tap, out, stride, dilation) for tap in taps]
    far = np.array([sum(t * d * n for t, d, n in zip(tap, dilation, steps)) for tap in taps])
    starts = np.zeros(out, np.int64)
    for dim, (m, s, step) in enumerate(zip(out, stride, steps)):
        starts += (np.arange(m) * (s * step)).reshape(
            [-1 if i == dim else 1 for i in range(len(out))]
        )
    return views, far, starts


def _has_nan(x: Array) -> bool:
    flat = x.reshape(-1)
    return math.isnan(blas.inner(flat, flat))


def _tap_by_tap(
    planes: Array, best: Array, index: Array, views: list[Any], far: Array, starts: Array
) -> bool:
    """The largest of windows that lie inside, and where; False if there was a NaN."""
    if best.size <= rows.FEW:
        taps = np.empty((len(views), *best.shape), planes.dtype)
        for tap, view in enumerate(views):
            taps[tap] = planes[view]
        flat = taps.reshape(len(views), -1)
        np.maximum.reduce(flat, axis=0, out=best.reshape(-1))
        np.add(far.take(flat.argmax(0)).reshape(best.shape), starts, out=index)
        return not _has_nan(best)
    top = planes[views[0]].copy()
    which = np.zeros(top.shape, np.uint8)
    for tap, view in enumerate(views[1:], start=1):
        seen = planes[view]
        if not seen.flags.c_contiguous:
            seen = seen.copy()
        later = np.greater(seen, top).view(np.uint8)
        np.maximum(top, seen, out=top)
        later *= np.uint8(tap)
        np.maximum(which, later, out=which)
    if _has_nan(top):
        return False
    best[...] = top
    np.add(far.take(which), starts, out=index)
    return True


@by_steps
def max_pool(
    x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    """The largest of each window (the first of equals, the last NaN), and where in the plane."""
    spatial = x.shape[2:]
    out = tuple(out_size(*v, ceil_mode) for v in zip(spatial, kernel, stride, padding, dilation))
    if _is_native(x, out):
        values, where = (scratch((*x.shape[:2], *out), k) for k in (x.dtype, np.int64))
        windows = _flat(spatial, out, kernel, stride, padding, dilation)
        _pool_largest(x, values, where, x.dtype.char, x.shape[0] * x.shape[1], *windows)
        return values, where
    kind = computing(x.dtype)
    planes = x.reshape(-1, *spatial) if x.size else np.empty((0, *spatial), x.dtype)
    best = np.empty((math.prod(x.shape[:2]), *out), x.dtype)
    index = np.empty(best.shape, np.int64)

    quick: Any = None
    if not any(padding) and x.size and math.prod(kernel) <= TAPS and kind.kind == "f":
        if _inside(spatial, kernel, stride, dilation, out):
            quick = _tap_views(spatial, kernel, stride, dilation, out)

    def work(low: int, high: int) -> None:
        top: Any = planes[low:high].astype(kind, copy=False)
        if quick is not None and _tap_by_tap(top, best[low:high], index[low:high], *quick):
            return
        where: Any = None
        nan = kind.kind == "f" and bool(np.isnan(top.sum()))  # or both infinities: no harm
        step = 1  # elements between neighbours of a dim
        for dim in range(len(out) - 1, -1, -1):  # one dim after the other
            options = (kernel[dim], stride[dim], padding[dim], dilation[dim])
            top, where = _slide(top, where, dim + 1, out[dim], step, nan, *options)
            step *= spatial[dim]
        best[low:high] = top
        index[low:high] = where

    if best.size:
        _for_planes(planes, work)
    shape = (*x.shape[:2], *out)
    return best.reshape(shape), index.reshape(shape)


def _slide(
    x: Array, where: Array | None, axis: int, m: int, step: int, nan: bool,
    k: int, s: int, p: int, d: int,
) -> tuple[Array, Array]:  # fmt: skip
    """Windows along one dim: the largest, and its place (`where` gives x's places within rows)."""
    n = x.shape[axis]
    sides = [-1 if i == axis else 1 for i in range(x.ndim)]
    lead: Any = (slice(None),) * axis
    starts = _starts(m, s, p)
    first = starts + -(np.minimum(starts, 0) // d) * d  # of each window, not in the padding
    base: Any = (first * step).reshape(sides)
    # The first element of each window wins over what is not above it, be it -inf.
    top = np.take(x, first, axis) if p else x[(*lead, slice(0, (m - 1) * s + 1, s))].copy()
    shape = top.shape
    places = np.intp if step * n > 2**31 - 1 else np.int32
    if where is None:
        which = np.zeros(shape, np.uint8 if k < 256 else np.int32)  # the tap
    else:
        here = np.take(where, first, axis) + base.astype(places)
    for tap in range(k):
        at = tap * d - p
        low = max(-(at // s), 0)  # windows from here to there have this tap inside
        high = min((n - 1 - at) // s + 1, m)
        if low >= high or (tap == 0 and not p):
            continue
        windows = (*lead, slice(low, high))
        source = (*lead, slice(low * s + at, (high - 1) * s + at + 1, s))
        seen, held = np.ascontiguousarray(x[source]), top[windows]
        better = seen > held
        if nan:
            better |= seen != seen
        np.maximum(held, seen, out=held)
        if where is None:
            np.maximum(which[windows], better * which.dtype.type(tap), out=which[windows])
        else:
            change = where[source] + ((np.arange(low, high) * s + at) * step).reshape(sides)
            change = change.astype(places, copy=False)
            change -= here[windows]
            change *= better
            here[windows] += change
    if where is None:
        if p:  # taps count from the window's start, which may lie in the padding
            skipped = ((first - starts) // d).reshape(sides)
            which = np.maximum(which, skipped)
        here = which.astype(places)
        here *= d * step
        here += (starts * step).reshape(sides).astype(places)
    return top, here


def max_pool_backward(g: Array, indices: Array, shape: Ints) -> Array:
    """Each output's gradient at its window's largest."""
    n, size = math.prod(shape[:2]), math.prod(shape[2:])
    wide, flat = widen(g).reshape(n, -1), indices.reshape(n, -1)
    total = np.empty((n, size), g.dtype)

    def work(low: int, high: int) -> None:
        rows = high - low
        place = flat[low:high] + np.arange(0, rows * size, size)[:, None]
        sums = np.zeros(rows * size, wide.dtype)
        np.add.at(sums, place.reshape(-1), wide[low:high].reshape(-1))
        total[low:high] = sums.reshape(rows, size)

    if total.size:
        threads.rows(n, 3 * size * wide.itemsize, work)
    return total.reshape(shape)


def _divisors(
    out: Ints, spatial: Ints, kernel: Ints, stride: Ints, padding: Ints, include: bool
) -> Array:
    """How many elements each window counts."""
    total = np.ones(out)
    for dim, (m, n, k, s, p) in enumerate(zip(out, spatial, kernel, stride, padding)):
        start = _starts(m, s, p)
        end = np.minimum(start + k, n + p)
        if not include:
            start, end = np.maximum(start, 0), np.minimum(end, n)
        total = total * (end - start).reshape([-1 if i == dim else 1 for i in range(len(out))])
    return total


@loops.gate("pool_average")
def _is_averaged(x: Array, out: Ints, sides: Ints | None, scale: Any) -> bool:
    """True if windows lie inside of few planes, or lines, and are averaged natively."""
    if sides is not None or scale.ndim or x.size >= _FEW or not x.size:
        return False
    return len(out) < 3 and x.dtype in FLOATS and x.flags.c_contiguous


_FEW = 1 << 10  # elements of planes, up to which NumPy's calls would take longer than their sums


@by_steps
def avg_pool(
    x: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Array:
    """The mean of each window."""
    spatial, kind = x.shape[2:], computing(x.dtype)
    out, scale, sides, taps = _averaging(
        spatial, kernel, stride, padding, ceil_mode, count_include_pad, divisor, kind
    )
    if _is_averaged(x, out, sides, scale):
        made, ones = scratch((*x.shape[:2], *out), x.dtype), (1,) * len(out)
        windows = _flat(spatial, out, kernel, stride, padding, ones)
        _pool_average(x, made, kind.char, scale.item(), x.shape[0] * x.shape[1], *windows)
        return made
    planes = x.reshape(-1, *spatial) if x.size else np.empty((0, *spatial), x.dtype)
    result = np.empty((x.shape[0] * x.shape[1], *out), x.dtype)

    def work(low: int, high: int) -> None:
        total = planes[low:high].astype(kind, copy=False)
        if sides is not None:
            total = _extended(total, padding, sides, 0)
        total = _fold(np.add, total, taps)
        if kind.kind in "iu":
            result[low:high] = np.trunc(total / scale)
        else:
            np.divide(total, scale, out=result[low:high], casting="unsafe")

    if result.size:
        _for_planes(planes, work)
    return result.reshape(*x.shape[:2], *out)


@functools.lru_cache(64)
def _averaging(
    spatial: Ints, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool, include: bool,
    divisor: int | None, kind: np.dtype[Any],
) -> tuple[Ints, Any, Ints | None, list[list[Any]]]:  # fmt: skip
    """How many windows, what to divide by, the sides of planes with a border (if there is need of
    one), and what taps see."""
    out = tuple(out_size(*v, 1, ceil_mode) for v in zip(spatial, kernel, stride, padding))
    scale: Any = divisor or math.prod(kernel)
    if not divisor and (ceil_mode or (any(padding) and not include)):
        scale = _divisors(out, spatial, kernel, stride, padding, include)
    scale, ones = np.asarray(scale, kind if kind.kind == "f" else None), (1,) * len(out)
    sides = None
    if any(padding) or not _inside(spatial, kernel, stride, ones, out):
        sides = tuple(map(max, _reach(out, kernel, stride, ones), spatial))
    return out, scale, sides, _taps(kernel, stride, ones, out)


def avg_pool_backward(
    g: Array,
    shape: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Array:
    """Each output's gradient, spread over its window."""
    spatial, out = shape[2:], g.shape[2:]
    scale = divisor or _divisors(out, spatial, kernel, stride, padding, count_include_pad)
    wide = widen(g)
    spread = (wide / scale).astype(wide.dtype)
    for dim, (n, k, s, p) in enumerate(zip(spatial, kernel, stride, padding)):
        moved = np.moveaxis(spread, dim + 2, -1)
        total = np.zeros((*moved.shape[:-1], n), wide.dtype)
        for tap in range(k):
            at = _starts(out[dim], s, p) + tap
            inside = (at >= 0) & (at < n)
            total[..., at[inside]] += moved[..., inside]
        spread = np.moveaxis(total, -1, dim + 2)
    return like(np.ascontiguousarray(spread), g)


def _bounds(n: int, m: int) -> tuple[Array, Array]:
    """The windows by which n elements become m."""
    i = np.arange(m)
    return i * n // m, -(-(i + 1) * n // m)


def adaptive_avg_pool(x: Array, size: Ints) -> Array:
    """Means over windows so chosen that the spatial dims become `size`."""
    wide = widen(x)
    for dim, m in enumerate(size, start=2):
        n, moved = wide.shape[dim], np.moveaxis(wide, dim, -1)
        out = np.empty((*wide.shape[:dim], m, *wide.shape[dim + 1 :]), wide.dtype)
        target = np.moveaxis(out, dim, -1)
        for i, (start, end) in enumerate(zip(*_bounds(n, m))):
            np.add.reduce(moved[..., start:end], axis=-1, out=target[..., i])
            target[..., i] /= end - start
        wide = out
    return like(wide, x)


def adaptive_avg_pool_backward(g: Array, shape: Ints) -> Array:
    """Each output's gradient, spread over its window."""
    wide = widen(g)
    for dim, n in enumerate(shape[2:], start=2):
        m, moved = wide.shape[dim], np.moveaxis(wide, dim, -1)
        out = np.zeros((*wide.shape[:dim], n, *wide.shape[dim + 1 :]), wide.dtype)
        target = np.moveaxis(out, dim, -1)
        for i, (start, end) in enumerate(zip(*_bounds(n, m))):
            target[..., start:end] += moved[..., i : i + 1] / wide.dtype.type(end - start)
        wide = out
    return like(wide, g)


def adaptive_max_pool(x: Array, size: Ints) -> tuple[Array, Array]:
    """Maxima over windows so chosen that the spatial dims become `size`."""
    spatial = x.shape[2:]
    planes = widen(x).reshape(math.prod(x.shape[:2]), *spatial)
    best = np.empty((len(planes), *size), planes.dtype)
    index = np.empty(best.shape, np.int64)
    plane = np.arange(math.prod(spatial)).reshape(spatial)
    nan = np.isnan(planes) if planes.dtype.kind == "f" else np.zeros(0, bool)
    bounds = [list(zip(*_bounds(n, m))) for n, m in zip(spatial, size)]
    for at in itertools.product(*(range(m) for m in size)):
        window = tuple(slice(*bounds[dim][i]) for dim, i in enumerate(at))
        everywhere: Any = (slice(None), *window)
        flat = planes[everywhere].reshape(len(planes), plane[window].size)
        place = flat.argmax(-1)
        if nan.any():  # the last one, as PyTorch
            last = flat.shape[-1] - 1 - np.isnan(flat)[:, ::-1].argmax(-1)
            place = np.where(np.isnan(flat).any(-1), last, place)
        target: Any = (slice(None), *at)
        best[target] = np.take_along_axis(flat, place[..., None], -1)[..., 0]
        index[target] = plane[window].reshape(-1)[place]
    shape = (*x.shape[:2], *size)
    return like(best.reshape(shape), x), index.reshape(shape)
