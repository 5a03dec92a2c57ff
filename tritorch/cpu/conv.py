"""Convolution by BLAS: one matrix product for each kernel tap, accumulated.

A tap's product needs no im2col: with channels last, the input shifted by the tap is a strided view
whose rows are channels.  Transposed convolution is the input's gradient, and the other way round.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def _channels_last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def _taps(kernel: Ints) -> Any:
    return itertools.product(*(range(k) for k in kernel))


def _window(tap: Ints, stride: Ints, dilation: Ints, out: Ints) -> tuple[slice, ...]:
    """What a tap sees of the padded input."""
    return (
        slice(None),
        *(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, s, n in zip(tap, dilation, stride, out)
        ),
    )


def _padded(x: Array, padding: Ints) -> Array:
    if not any(padding):
        return x
    shape = (x.shape[0], *(n + 2 * p for n, p in zip(x.shape[1:-1], padding)), x.shape[-1])
    out = np.zeros(shape, x.dtype)
    out[(slice(None), *(slice(p, p + n) for p, n in zip(padding, x.shape[1:-1])))] = x
    return out


def _forward(x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Array:
    """x (N, C, ...), w (O, C / groups, ...) -> (N, O, ...)."""
    kernel = w.shape[2:]
    out = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(x.shape[2:], padding, dilation, kernel, stride)
    )
    n, o = x.shape[0], w.shape[0]
    result = np.zeros((n, *out, o), x.dtype)
    if result.size == 0 or w.size == 0:
        return np.moveaxis(result, -1, 1)
    last = _padded(_channels_last(x), padding)
    per_in, per_out = w.shape[1], o // groups
    if groups == w.shape[0] and per_in == 1:  # depthwise
        for tap in _taps(kernel):
            result += last[_window(tap, stride, dilation, out)] * w[(slice(None), 0, *tap)]
        return np.moveaxis(result, -1, 1)
    for group in range(groups):
        source = last[..., group * per_in : (group + 1) * per_in]
        weights = w[group * per_out : (group + 1) * per_out]
        target = result[..., group * per_out : (group + 1) * per_out]
        for tap in _taps(kernel):
            rows = source[_window(tap, stride, dilation, out)]
            target += np.matmul(rows, weights[(slice(None), slice(None), *tap)].T)
    return np.moveaxis(result, -1, 1)


def _input_gradient(
    g: Array, shape: Ints, w: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """g (N, O, ...) -> the gradient of the input (N, C, ...)."""
    kernel, out = w.shape[2:], g.shape[2:]
    padded = tuple(n + 2 * p for n, p in zip(shape[2:], padding))
    # Taps may reach past the padded input when the output had output_padding.
    reach = tuple(
        max(n, (m - 1) * s + d * (k - 1) + 1)
        for n, m, s, d, k in zip(padded, out, stride, dilation, kernel)
    )
    result = np.zeros((shape[0], *reach, shape[1]), g.dtype)
    if g.size and w.size:
        last = _channels_last(g)
        per_in, per_out = w.shape[1], w.shape[0] // groups
        for group in range(groups):
            source = last[..., group * per_out : (group + 1) * per_out]
            weights = w[group * per_out : (group + 1) * per_out]
            target = result[..., group * per_in : (group + 1) * per_in]
            for tap in _taps(kernel):
                window = _window(tap, stride, dilation, out)
                target[window] += np.matmul(source, weights[(slice(None), slice(None), *tap)])
    inner = (slice(None), *(slice(p, p + n) for p, n in zip(padding, shape[2:])))
    return np.moveaxis(result[inner], -1, 1)


def _weight_gradient(
    g: Array, x: Array, shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """The gradient of the weight (O, C / groups, ...)."""
    kernel, out = shape[2:], g.shape[2:]
    result = np.zeros(shape, x.dtype)
    if g.size == 0 or x.size == 0:
        return result
    last, grad = _padded(_channels_last(x), padding), _channels_last(g)
    need = tuple((m - 1) * s + d * (k - 1) + 1 for m, s, d, k in zip(out, stride, dilation, kernel))
    if any(n > have for n, have in zip(need, last.shape[1:-1])):
        wide = np.zeros((last.shape[0], *map(max, need, last.shape[1:-1]), last.shape[-1]), x.dtype)
        wide[tuple(slice(0, n) for n in last.shape)] = last
        last = wide
    per_in, per_out = shape[1], shape[0] // groups
    for group in range(groups):
        source = last[..., group * per_in : (group + 1) * per_in]
        columns = grad[..., group * per_out : (group + 1) * per_out].reshape(-1, per_out)
        for tap in _taps(kernel):
            rows = source[_window(tap, stride, dilation, out)].reshape(-1, per_in)
            where = (slice(group * per_out, (group + 1) * per_out), slice(None), *tap)
            result[where] = columns.T @ rows
    return result


def _transposed_size(x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, extra: Ints) -> Ints:
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
    if transposed:
        size = _transposed_size(a, w, stride, padding, dilation, output_padding)
        shape = (a.shape[0], w.shape[1] * groups, *size)
        out = _input_gradient(a, shape, w, stride, padding, dilation, groups)
    else:
        out = _forward(a, w, stride, padding, dilation, groups)
    if bias is not None:
        out = out + widen(bias).reshape([-1 if i == 1 else 1 for i in range(out.ndim)])
    return like(np.ascontiguousarray(out), x)


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
    if transposed:
        out = _forward(a, w, stride, padding, dilation, groups)
        out = out[(slice(None), slice(None), *(slice(0, n) for n in shape[2:]))]
    else:
        out = _input_gradient(a, shape, w, stride, padding, dilation, groups)
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
    if transposed:
        a, b = b, a
    return like(_weight_gradient(a, b, shape, stride, padding, dilation, groups), g)
