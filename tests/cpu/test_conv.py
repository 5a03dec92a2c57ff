"""Convolution against loops over every output element."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tritorch.host import threads
from tritorch.host.nn import conv

CASES = [  # input, weight, stride, padding, dilation, groups
    ((2, 3, 7), (4, 3, 3), (2,), (1,), (1,), 1),
    ((2, 3, 6, 5), (4, 3, 3, 2), (1, 1), (1, 0), (1, 1), 1),
    ((1, 4, 7, 6), (6, 2, 3, 3), (2, 1), (2, 3), (2, 1), 2),
    ((3, 4, 5, 5), (8, 1, 3, 3), (1, 2), (1, 1), (1, 1), 4),
    ((2, 4, 5, 5), (6, 2, 1, 1), (1, 1), (0, 0), (1, 1), 2),
    ((2, 4, 5, 5), (3, 4, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((1, 2, 4, 5, 3), (2, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 1), 1),
    ((2, 12, 9, 8), (10, 6, 3, 3), (3, 2), (1, 4), (2, 3), 2),
    ((2, 3, 11), (6, 1, 4), (5,), (0,), (2,), 3),
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


def all_three(x, w, g, stride, padding, dilation, groups):
    rest = (stride, padding, dilation, False, (0,) * len(stride), groups)
    y = conv.convolution(x, w, None, *rest)
    return (
        y, conv.convolution_input(g, x.shape, w, *rest),
        conv.convolution_weight(g, x, w.shape, *rest),
    )  # fmt: skip


@pytest.fixture
def by_numpy(monkeypatch):
    monkeypatch.setattr(conv, "_is_native", lambda *arrays: False)


@pytest.mark.parametrize("limit", ["PATCHES", "COLUMNS", None])
def test_numpys_blocks_give_the_same(case, limit, by_numpy, monkeypatch):
    x, w, g, parameters, expected = case
    if limit:
        monkeypatch.setattr(conv, "COLUMNS", 1)
    if limit == "PATCHES":
        monkeypatch.setattr(conv, "PATCHES", 1)
    for found, exact in zip(all_three(x, w, g, *parameters), expected):
        np.testing.assert_allclose(found, exact, atol=1e-12)


# Several blocks of an image: planes, rows, and parts of a row; of several images; rows shifted.
LARGE = [
    ((3, 9, 30, 31), (8, 9, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((40, 33, 7, 6), (20, 33, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 40, 3000), (12, 40, 5), (1,), (2,), (3,), 1),
    ((2, 16, 9, 10, 11), (8, 16, 3, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 1), 1),
    ((2, 64, 40, 41), (8, 32, 5, 3), (2, 3), (2, 5), (2, 1), 2),
    ((3, 10, 70, 71), (10, 1, 3, 5), (1, 1), (1, 3), (1, 1), 10),
    ((2, 6, 70, 33), (12, 2, 3, 3), (2, 2), (1, 2), (1, 2), 3),
    ((2, 6, 9001), (6, 1, 4), (3,), (2,), (2,), 6),
    ((2, 128, 20, 20), (3, 128, 3, 3), (1, 1), (1, 1), (1, 1), 1),
]


@pytest.mark.parametrize("parameters", LARGE, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_native_convolutions(parameters, kind, monkeypatch):
    x_shape, w_shape, *rest = parameters
    rng, dims = np.random.default_rng(0), len(x_shape) - 2
    x, w = rng.standard_normal(x_shape).astype(kind), rng.standard_normal(w_shape).astype(kind)
    bias = rng.standard_normal(w_shape[0]).astype(kind)
    y = conv.convolution(x, w, None, *rest[:3], False, (0,) * dims, rest[3])
    g = rng.standard_normal(y.shape).astype(kind)
    found, count = [], threads.get_num_threads()
    for n in (1, 2, 3):
        threads.set_num_threads(n)
        found.append(all_three(x, w, g, *rest))
    threads.set_num_threads(count)
    assert conv._is_native(x, w) and conv._is_native(g, x)
    for each in zip(*found):
        assert each[0].tobytes() == each[1].tobytes() == each[2].tobytes()
    strided = [np.repeat(v, 2, axis=1)[:, ::2] for v in (x, w, g)]
    for a, b in zip(found[0], all_three(*strided, *rest)):
        np.testing.assert_array_equal(a, b)
    shifted = conv.convolution(x, w, bias, *rest[:3], False, (0,) * dims, rest[3])
    np.testing.assert_array_equal(shifted, y + bias.reshape(-1, *[1] * dims))
    monkeypatch.setattr(conv, "_is_native", lambda *arrays: False)
    wide = [v.astype(np.float64) for v in (x, w, g)]
    step = np.finfo(kind).eps
    for a, b in zip(found[0], all_three(*wide, *rest)):
        assert a.dtype == kind
        np.testing.assert_allclose(a, b, atol=16 * step * np.abs(b).max())


def test_random_convolutions(monkeypatch):
    rng = np.random.default_rng(0)
    native = conv._is_native
    for _ in range(200):
        dims, groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        pick = lambda low, high, n=dims: tuple(int(v) for v in rng.integers(low, high, n))
        kernel, stride, padding, dilation = pick(1, 5), pick(1, 4), pick(0, 4), pick(1, 4)
        n, channels, outputs = pick(1, 4, 3)
        size = tuple(
            max(1, d * (k - 1) + 1 - 2 * p) + int(rng.integers(0, 9))
            for d, k, p in zip(dilation, kernel, padding)
        )
        rest = stride, padding, dilation, groups
        x = rng.standard_normal((n, groups * channels, *size))
        w = rng.standard_normal((groups * outputs, channels, *kernel))
        monkeypatch.setattr(conv, "_is_native", lambda *arrays: False)
        y = conv.convolution(x, w, None, *rest[:3], False, (0,) * dims, groups)
        g = rng.standard_normal(y.shape)
        expected = all_three(x, w, g, *rest)
        extra = tuple(int(rng.integers(0, max(s, d))) for s, d in zip(stride, dilation))
        bias = rng.standard_normal(groups * channels)
        turned = (g, w, bias, *rest[:3], True, extra, groups)
        if min(conv._transposed_size(g, w, stride, padding, dilation, extra)) > 0:
            expected = (*expected, conv.convolution(*turned))
        monkeypatch.setattr(conv, "_is_native", native)
        found = all_three(x, w, g, *rest)
        if len(expected) > len(found):
            found = (*found, conv.convolution(*turned))
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, atol=1e-11, err_msg=f"{x.shape} {w.shape} {rest}")


def test_patches_are_looked_at():
    x, w, out = np.ones((1, 1, 5)), np.ones((1, 1, 3)), np.ones((1, 1, 3))
    good = conv._patches_of(x.shape, 1, (1, 1), (3,), (3,), (0,), (1,), (1,))
    conv._C.convolve(x, w, None, out, "d", good)
    assert (out == 3).all()
    for wrong in (
        (0, *good[1:]), (*good[:-1], (1, 1, 2)), (*good[:-2], (0, 0, 1), good[-1]),
        (*good[:4], (1, 1, 0), *good[5:]), (*good[:8], (1, 1, 0), *good[9:]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="patches"):
            conv._C.convolve(x, w, None, out, "d", wrong)
    with pytest.raises(SystemError, match="weight"):
        conv._C.convolve(x, w[..., :2], None, out, "d", good)
    with pytest.raises(ValueError, match="dtype"):
        conv._C.convolve(x, w, None, out, "i", good)


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
