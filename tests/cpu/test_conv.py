"""Convolution against loops over every output element."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tritorch.host import conv

CASES = [  # input, weight, stride, padding, dilation, groups
    ((2, 3, 7), (4, 3, 3), (2,), (1,), (1,), 1),
    ((2, 3, 6, 5), (4, 3, 3, 2), (1, 1), (1, 0), (1, 1), 1),
    ((1, 4, 7, 6), (6, 2, 3, 3), (2, 1), (2, 3), (2, 1), 2),
    ((3, 4, 5, 5), (8, 1, 3, 3), (1, 2), (1, 1), (1, 1), 4),
    ((2, 4, 5, 5), (6, 2, 1, 1), (1, 1), (0, 0), (1, 1), 2),
    ((2, 4, 5, 5), (3, 4, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((1, 2, 4, 5, 3), (2, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 1), 1),
]


def taps(x, w, stride, padding, dilation, groups):
    """(output index, input index, weight index) of every product."""
    n, o = x[0], w[0]
    out = [
        (m + 2 * p - d * (k - 1) - 1) // s + 1
        for m, k, s, p, d in zip(x[2:], w[2:], stride, padding, dilation)
    ]
    per = o // groups
    for i, c, *at in itertools.product(range(n), range(o), *map(range, out)):
        for k, *tap in itertools.product(range(w[1]), *map(range, w[2:])):
            place = [a * s - p + t * d for a, s, p, t, d in zip(at, stride, padding, tap, dilation)]
            if all(0 <= q < m for q, m in zip(place, x[2:])):
                yield (i, c, *at), (i, c // per * w[1] + k, *place), (c, k, *tap)


def reference(x, w, g, *parameters):
    """y, dx, dw."""
    y, dx, dw = np.zeros_like(g), np.zeros_like(x), np.zeros_like(w)
    for a, b, c in taps(x.shape, w.shape, *parameters):
        y[a] += x[b] * w[c]
        dx[b] += g[a] * w[c]
        dw[c] += g[a] * x[b]
    return y, dx, dw


@pytest.fixture(params=CASES, ids=str)
def case(request):
    x_shape, w_shape, *parameters = request.param
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    stride, padding, dilation, groups = parameters
    y = conv.convolution(x, w, None, stride, padding, dilation, False, (0,) * (x.ndim - 2), groups)
    g = rng.standard_normal(y.shape)
    return x, w, g, parameters, reference(x, w, g, *parameters)


def test_convolution_and_gradients(case):
    x, w, g, (stride, padding, dilation, groups), (y, dx, dw) = case
    rest = (stride, padding, dilation, False, (0,) * len(stride), groups)
    bias = np.arange(w.shape[0], dtype=float)
    out = conv.convolution(x, w, bias, *rest)
    np.testing.assert_allclose(out, y + bias.reshape(-1, *[1] * len(stride)), atol=1e-12)
    np.testing.assert_allclose(conv.convolution_input(g, x.shape, w, *rest), dx, atol=1e-12)
    np.testing.assert_allclose(conv.convolution_weight(g, x, w.shape, *rest), dw, atol=1e-12)


def test_transposed_is_the_gradient(case):
    x, w, g, (stride, padding, dilation, groups), (y, dx, dw) = case
    extra = tuple(
        n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
        for n, m, s, p, d, k in zip(
            x.shape[2:], g.shape[2:], stride, padding, dilation, w.shape[2:]
        )
    )
    rest = (stride, padding, dilation, True, extra, groups)
    np.testing.assert_allclose(conv.convolution(g, w, None, *rest), dx, atol=1e-12)
    np.testing.assert_allclose(conv.convolution_input(x, g.shape, w, *rest), y, atol=1e-12)
    np.testing.assert_allclose(conv.convolution_weight(x, g, w.shape, *rest), dw, atol=1e-12)


@pytest.mark.parametrize("limit", ["PATCHES", "COLUMNS"])
def test_blocks_give_the_same(case, limit, monkeypatch):
    x, w, g, (stride, padding, dilation, groups), (y, _, dw) = case
    monkeypatch.setattr(conv, "COLUMNS", 1)
    if limit == "PATCHES":
        monkeypatch.setattr(conv, "PATCHES", 1)
    rest = (stride, padding, dilation, False, (0,) * len(stride), groups)
    np.testing.assert_allclose(conv.convolution(x, w, None, *rest), y, atol=1e-12)
    np.testing.assert_allclose(conv.convolution_weight(g, x, w.shape, *rest), dw, atol=1e-12)


@pytest.mark.parametrize(
    "kind", [np.float32, np.float16, ml_dtypes.bfloat16, np.complex128, np.int64]
)
def test_dtypes(kind):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 2, 5, 5)).astype(kind)
    w = rng.integers(-3, 4, (3, 2, 3, 3)).astype(kind)
    out = conv.convolution(x, w, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    exact = reference(
        x.astype(complex),
        w.astype(complex),
        np.zeros(out.shape, complex),
        (1, 1),
        (1, 1),
        (1, 1),
        1,
    )[0]
    assert out.dtype == kind
    np.testing.assert_array_equal(out.astype(complex), exact)  # small integers are exact


def test_nothing():
    rest = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    x, w = np.ones((0, 2, 5, 5)), np.ones((3, 2, 3, 3))
    assert conv.convolution(x, w, np.ones(3), *rest).shape == (0, 3, 5, 5)
    assert conv.convolution_input(np.ones((0, 3, 5, 5)), x.shape, w, *rest).shape == x.shape
    assert (conv.convolution_weight(np.ones((0, 3, 5, 5)), x, w.shape, *rest) == 0).all()
    none = conv.convolution(np.ones((1, 0, 5, 5)), np.ones((3, 0, 3, 3)), np.ones(3), *rest)
    assert (none == 1).all()  # no input channels: the bias alone
