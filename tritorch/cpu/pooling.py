"""Pooling over windows of (N, C, spatial...)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tritorch.cpu import threads
from tritorch.cpu.narrow import NARROW, like, widen

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


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


def max_pool(
    x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    """The largest of each window (the first of equals), and where in the plane."""
    spatial = x.shape[2:]
    out = tuple(out_size(*v, ceil_mode) for v in zip(spatial, kernel, stride, padding, dilation))
    kind = np.dtype(np.float32) if x.dtype.name in NARROW else x.dtype
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    planes = x.reshape(-1, *spatial) if x.size else np.empty((0, *spatial), x.dtype)
    best = np.empty((math.prod(x.shape[:2]), *out), x.dtype)
    index = np.empty(best.shape, np.int64)
    # Where each window begins, and its first element that is not padding: the index of a window
    # in which nothing is above the lowest.
    corner: Any = np.zeros((), np.int64)
    first: Any = np.zeros((), np.int64)
    for dim, (m, n, k, s, p, d) in enumerate(zip(out, spatial, kernel, stride, padding, dilation)):
        start = _starts(m, s, p)
        skip = -(np.minimum(start, 0) // d)
        sides = [-1 if i == dim else 1 for i in range(len(out))]
        corner = corner * n + start.reshape(sides)
        first = first * k + skip.reshape(sides)
    reach = _reach(out, kernel, stride, dilation)
    steps = [math.prod(spatial[i + 1 :]) for i in range(len(spatial))]
    offsets = np.array(
        [
            sum(t * d * step for t, d, step in zip(tap, dilation, steps))
            for tap in itertools.product(*map(range, kernel))
        ]
    )
    border = any(padding) or any(r > n for r, n in zip(reach, spatial))

    def work(low: int, high: int) -> None:
        block = planes[low:high].astype(kind, copy=False)
        if border:
            block = _extended(block, padding, tuple(map(max, reach, spatial)), lowest)
        top = np.full((high - low, *out), lowest, kind)
        which = np.broadcast_to(first, top.shape).astype(np.int32)
        for i, tap in enumerate(itertools.product(*map(range, kernel))):
            seen = block[_seen(tap, out, stride, dilation)]
            better = seen > top
            if kind.kind == "f":
                better |= seen != seen
            np.copyto(top, seen, where=better)
            np.copyto(which, i, where=better)
        best[low:high] = top
        np.add(offsets[which], corner, out=index[low:high])

    if best.size:
        threads.rows(len(planes), 2 * math.prod(spatial) * kind.itemsize, work)
    shape = (*x.shape[:2], *out)
    return best.reshape(shape), index.reshape(shape)


def max_pool_backward(g: Array, indices: Array, shape: Ints) -> Array:
    """Each output's gradient at its window's largest."""
    n, c = shape[:2]
    wide = widen(g).reshape(n * c, -1)
    size = math.prod(shape[2:])
    flat = indices.reshape(n * c, -1) + np.arange(n * c)[:, None] * size
    total = np.bincount(flat.reshape(-1), wide.reshape(-1).astype(np.float64), n * c * size)
    return total.reshape(shape).astype(g.dtype)


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
    spatial = x.shape[2:]
    out = tuple(out_size(*v, 1, ceil_mode) for v in zip(spatial, kernel, stride, padding))
    scale: Any = divisor or _divisors(out, spatial, kernel, stride, padding, count_include_pad)
    kind = np.dtype(np.float32) if x.dtype.name in NARROW else x.dtype
    planes = x.reshape(-1, *spatial) if x.size else np.empty((0, *spatial), x.dtype)
    result = np.empty((math.prod(x.shape[:2]), *out), x.dtype)
    ones = (1,) * len(out)
    reach = _reach(out, kernel, stride, ones)
    if kind.kind == "f":
        scale = np.asarray(scale, kind)
    border = any(padding) or any(r > n for r, n in zip(reach, spatial))

    def work(low: int, high: int) -> None:
        total = planes[low:high].astype(kind, copy=False)
        if border:
            total = _extended(total, padding, tuple(map(max, reach, spatial)), 0)
        for dim, (k, s, m) in enumerate(zip(kernel, stride, out), start=1):
            lead = (slice(None),) * dim
            part = lambda t: slice(t, t + (m - 1) * s + 1, s)  # noqa: B023
            sums = total[(*lead, part(0))].copy()
            for t in range(1, k):
                sums += total[(*lead, part(t))]
            total = sums
        if kind.kind in "iu":
            result[low:high] = np.trunc(total / scale)
        else:
            np.divide(total, scale, out=result[low:high], casting="unsafe")

    if result.size:
        threads.rows(len(planes), 2 * math.prod(spatial) * kind.itemsize, work)
    return result.reshape(*x.shape[:2], *out)


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
    planes = widen(x).reshape(-1, *spatial)
    best = np.empty((len(planes), *size), planes.dtype)
    index = np.empty(best.shape, np.int64)
    plane = np.arange(math.prod(spatial)).reshape(spatial)
    nan = np.isnan(planes) if planes.dtype.kind == "f" else np.zeros(0, bool)
    bounds = [list(zip(*_bounds(n, m))) for n, m in zip(spatial, size)]
    for at in itertools.product(*(range(m) for m in size)):
        window = tuple(slice(*bounds[dim][i]) for dim, i in enumerate(at))
        everywhere: Any = (slice(None), *window)
        flat = planes[everywhere].reshape(len(planes), -1)
        place = flat.argmax(-1)
        if nan.any():  # the last one, as PyTorch
            last = flat.shape[-1] - 1 - np.isnan(flat)[:, ::-1].argmax(-1)
            place = np.where(np.isnan(flat).any(-1), last, place)
        target: Any = (slice(None), *at)
        best[target] = np.take_along_axis(flat, place[..., None], -1)[..., 0]
        index[target] = plane[window].reshape(-1)[place]
    shape = (*x.shape[:2], *size)
    return like(best.reshape(shape), x), index.reshape(shape)
