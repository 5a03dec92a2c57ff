"""Normalisation against the formulas; gradients against differences."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tritorch.host import threads
from tritorch.host.nn import norm as N

RNG = np.random.default_rng(0)


def standard(x, axes, eps):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps), mean, 1 / np.sqrt(var + eps)


def slopes(function, g, x, h=1e-5):
    """The gradient of sum(g * function(x)) by central differences."""
    out = np.empty_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        out[i] = ((function(up) - function(down)) * g).sum() / (2 * h)
    return out


@pytest.mark.parametrize("shape, n", [((3, 5), 1), ((2, 3, 4), 2), ((400, 300), 1), ((2, 1), 1)])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(shape, n, affine):
    x = RNG.standard_normal(shape) + 3
    w, b = (RNG.standard_normal(shape[-n:]) if affine else None for _ in range(2))
    out, mean, rstd = N.layer_norm(x, n, w, b, 1e-5)
    y, m, r = standard(x, tuple(range(-n, 0)), 1e-5)
    np.testing.assert_allclose(out, y * w + b if affine else y, atol=1e-11)
    np.testing.assert_allclose(mean, m.squeeze(tuple(range(-n, 0))))
    np.testing.assert_allclose(rstd, r.squeeze(tuple(range(-n, 0))))
    g = RNG.standard_normal(shape)
    dx, dw, db = N.layer_norm_backward(g, x, n, w, mean, rstd)
    lead = tuple(range(x.ndim - n))
    np.testing.assert_allclose(dw, (g * y).sum(lead), atol=1e-10)
    np.testing.assert_allclose(db, g.sum(lead), atol=1e-10)
    if x.size < 100:
        expected = slopes(lambda v: N.layer_norm(v, n, w, b, 1e-5)[0], g, x)
        np.testing.assert_allclose(dx, expected, atol=1e-7)
    scale = np.sqrt((x * x).mean(tuple(range(-n, 0)), keepdims=True) + 1e-5)
    out, rstd = N.rms_norm(x, n, w, 1e-5)
    np.testing.assert_allclose(out, x / scale * (w if affine else 1))
    dx, dw = N.rms_norm_backward(g, x, n, w, rstd)
    np.testing.assert_allclose(dw, (g * x / scale).sum(lead), atol=1e-10)
    if x.size < 100:
        expected = slopes(lambda v: N.rms_norm(v, n, w, 1e-5)[0], g, x)
        np.testing.assert_allclose(dx, expected, atol=1e-7)


@pytest.mark.parametrize("shape, groups", [((2, 6, 3), 3), ((3, 4), 2), ((2, 4, 2, 3), 1)])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(shape, groups, affine):
    x = RNG.standard_normal(shape)
    channels = (-1, *[1] * (len(shape) - 2))
    w, b = (RNG.standard_normal(shape[1]) if affine else None for _ in range(2))
    out, mean, rstd = N.group_norm(x, groups, w, b, 1e-5)
    y = standard(x.reshape(shape[0], groups, -1), (2,), 1e-5)[0].reshape(shape)
    expected = y * w.reshape(channels) + b.reshape(channels) if affine else y
    np.testing.assert_allclose(out, expected, atol=1e-12)
    g = RNG.standard_normal(shape)
    dx, dw, db = N.group_norm_backward(g, x, groups, w, mean, rstd)
    axes = (0, *range(2, len(shape)))
    np.testing.assert_allclose(dw, (g * y).sum(axes), atol=1e-12)
    np.testing.assert_allclose(db, g.sum(axes), atol=1e-12)
    expected = slopes(lambda v: N.group_norm(v, groups, w, b, 1e-5)[0], g, x)
    np.testing.assert_allclose(dx, expected, atol=1e-7)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape, groups", [((700, 96), 0), ((8, 12, 30, 17), 3), ((9, 40, 20), 1)])
def test_narrow_rows_beside_doubles(kind, shape, groups):
    x, g = (RNG.standard_normal(shape).astype(kind) for _ in range(2))
    w, b = (RNG.standard_normal(shape[1]).astype(kind) for _ in range(2))
    forward, backward, split = N.group_norm, N.group_norm_backward, groups
    if not groups:
        forward, backward, split = N.layer_norm, N.layer_norm_backward, 1
    wide = [v.astype(np.float64) for v in (x, w, b, g)]
    out, mean, rstd = forward(x, split, w, b, 1e-5)
    expected, m, r = forward(wide[0], split, wide[1], wide[2], 1e-5)
    eps = float(ml_dtypes.finfo(kind).eps)
    np.testing.assert_allclose(out.astype(np.float64), expected, atol=8 * eps, rtol=2 * eps)
    found = backward(g, x, split, w, mean, rstd)
    right = backward(wide[3], wide[0], split, wide[1], m, r)
    for one, other in zip(found, right):
        scale = abs(other).max()
        np.testing.assert_allclose(one.astype(np.float64), other, atol=4 * eps * scale)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2, 2)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape, affine, training):
    x = RNG.standard_normal(shape)
    axes, channels = (0, *range(2, len(shape))), (-1, *[1] * (len(shape) - 2))
    w, b = (RNG.standard_normal(3) if affine else None for _ in range(2))
    given = (None, None) if training else (RNG.standard_normal(3), RNG.uniform(0.5, 2, 3))
    run = lambda v: N.batch_norm(v, w, b, *given, training, 1e-5)
    out, mean, rstd, var = run(x)
    m, v = (x.mean(axes), x.var(axes)) if training else given
    y = (x - m.reshape(channels)) / np.sqrt(v + 1e-5).reshape(channels)
    expected = y * w.reshape(channels) + b.reshape(channels) if affine else y
    np.testing.assert_allclose(out, expected, atol=1e-12)
    np.testing.assert_allclose((mean, var), (m, v), atol=1e-12)
    g = RNG.standard_normal(shape)
    dx, dw, db = N.batch_norm_backward(g, x, w, mean, rstd, training)
    np.testing.assert_allclose(dw, (g * y).sum(axes), atol=1e-12)
    np.testing.assert_allclose(db, g.sum(axes), atol=1e-12)
    np.testing.assert_allclose(dx, slopes(lambda v: run(v)[0], g, x), atol=1e-7)


@pytest.mark.parametrize("shape", [(9, 5, 4, 7), (3, 4, 50, 47), (2, 600, 11), (70, 3, 8)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_of_planes(shape, kind, training, affine, monkeypatch):
    c, columns = shape[1], (-1, *[1] * (len(shape) - 2))
    x, g = (RNG.standard_normal(shape).astype(kind) + 1 for _ in range(2))
    w, b = (RNG.standard_normal(c).astype(kind) if affine else None for _ in range(2))
    given = (None, None)
    if not training:
        given = RNG.standard_normal(c).astype(kind), RNG.uniform(0.5, 2, c).astype(kind)

    def run(x, g, w, b, *given):
        out, mean, rstd, var = N.batch_norm(x, w, b, *given, training, 1e-5)
        y = N.batch_norm(x, w, b, *given, training, 1e-5, of_relu=True)[0]
        np.testing.assert_array_equal(y, np.maximum(out, 0))
        grads = N.batch_norm_backward(g, x, w, mean, rstd, training)
        masked = N.batch_norm_backward(np.where(y <= 0, 0, g), x, w, mean, rstd, training)
        for a, b in zip(N.batch_norm_backward(g, x, w, mean, rstd, training, y), masked):
            np.testing.assert_array_equal(a, b)
        return out, mean, rstd, var, *grads, *masked

    results, count = [], threads.get_num_threads()
    for n in (1, 2, 3):
        threads.set_num_threads(n)
        results.append(run(x, g, w, b, *given))
    threads.set_num_threads(count)
    for each in zip(*results):
        assert each[0].tobytes() == each[1].tobytes() == each[2].tobytes()
    found = run(np.repeat(x, 2, 1)[:, ::2], np.repeat(g, 2, 0)[::2], w, b, *given)
    for a, b_ in zip(found, results[0]):
        np.testing.assert_array_equal(a, b_)
    assert N._is_native(x)
    monkeypatch.setattr(N, "_is_native", lambda x: False)
    wide = [None if v is None else v.astype(np.float64) for v in (x, g, w, b, *given)]
    expected = run(*wide)
    axes = (0, *range(2, len(shape)))
    mean, var = (x.mean(axes), x.var(axes)) if training else given
    y = (x - mean.reshape(columns)) / np.sqrt(var + 1e-5).reshape(columns)
    y = y * w.reshape(columns) + b.reshape(columns) if affine else y
    np.testing.assert_allclose(results[0][0], y, atol=1e-4)
    for a, exact in zip(results[0][:7], expected):
        np.testing.assert_allclose(a, exact, atol=40 * np.finfo(kind).eps * np.abs(exact).max())


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_narrow_types_round_once(kind):
    x = RNG.standard_normal((8, 64)).astype(kind)
    w = np.ones(64, kind)
    out, mean, _ = N.layer_norm(x, 1, w, w, 1e-5)
    assert out.dtype == kind and mean.dtype == np.float32
    exact = standard(x.astype(np.float64), (1,), 1e-5)[0] + 1
    step = 1e-6 if kind == np.float32 else float(ml_dtypes.finfo(kind).eps) / 2
    np.testing.assert_allclose(out.astype(np.float64), exact, rtol=step * 1.01, atol=2e-6)
    assert N.group_norm(x, 8, w, w, 1e-5)[0].dtype == kind
    assert N.batch_norm(x, w, w, None, None, True, 1e-5)[0].dtype == kind
    assert N.rms_norm(x, 1, w, 1e-5)[1].dtype == np.float32


def test_nothing():
    out, mean, _ = N.layer_norm(np.empty((0, 4), np.float32), 1, None, None, 1e-5)
    assert out.shape == (0, 4) and mean.shape == (0,)
    assert N.group_norm(np.empty((0, 4, 2)), 2, None, None, 1e-5)[1].shape == (0, 2)


def test_threads_give_the_same_bits():
    x, g = RNG.standard_normal((2, 700, 300)).astype(np.float32)
    w = RNG.standard_normal(300).astype(np.float32)
    count, results = threads.get_num_threads(), []
    for n in (1, 3):
        threads.set_num_threads(n)
        out, mean, rstd = N.layer_norm(x, 1, w, w, 1e-5)
        results.append((out, *N.layer_norm_backward(g, x, 1, w, mean, rstd)))
    threads.set_num_threads(count)
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(5, 7), (300, 65), (4, 3, 33), (3, 5000)])
@pytest.mark.parametrize("affine", [0, 1, 2])
def test_layer_norms_of_float32_are_those_of_float64(shape, affine):
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, *shape), np.float32) + 1
    given = [rng.standard_normal(shape[-1:], np.float32) if i < affine else None for i in range(2)]

    def run(kind):
        wide = [None if v is None else v.astype(kind) for v in (x, g, *given)]
        y, mean, rstd = N.layer_norm(wide[0], 1, *wide[2:], 1e-5)
        return y, mean, rstd, *N.layer_norm_backward(wide[1], wide[0], 1, wide[2], mean, rstd)

    for found, expected in zip(run(np.float32), run(np.float64)):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
