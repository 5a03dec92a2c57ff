"""Softmax and its gradients against the formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tritorch.core.dtype import bfloat16, float16, float32, float64
from tritorch.host import threads
from tritorch.host.reduce import softmax as S

TOLERANCE = {float64: 1e-12, float32: 2e-6, float16: 1e-3, bfloat16: 8e-3}
SHAPES = [(5,), (3, 4), (2, 3, 4), (300, 700), (3, 900, 2)]


def reference(x, dim):
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


@pytest.mark.parametrize("kind", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(kind, shape):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) * 3).astype(kind.numpy)
    g = rng.standard_normal(shape).astype(kind.numpy)
    wide, grad = x.astype(np.float64), g.astype(np.float64)
    for dim in range(len(shape)):
        y = reference(wide, dim)
        tight = {"rtol": TOLERANCE[kind], "atol": TOLERANCE[kind]}
        out = S.softmax(x, dim, kind)
        assert out.dtype == kind.numpy
        np.testing.assert_allclose(out.astype(np.float64), y, **tight)
        log = S.log_softmax(x, dim, kind)
        np.testing.assert_allclose(log.astype(np.float64), np.log(y), **tight)
        y = out.astype(np.float64)
        expected = y * (grad - (grad * y).sum(axis=dim, keepdims=True))
        actual = S.softmax_backward(g, out, dim, kind).astype(np.float64)
        np.testing.assert_allclose(actual, expected, **tight)
        y = np.exp(log.astype(np.float64))
        expected = grad - y * grad.sum(axis=dim, keepdims=True)
        actual = S.log_softmax_backward(g, log, dim, kind).astype(np.float64)
        np.testing.assert_allclose(actual, expected, rtol=tight["rtol"], atol=10 * tight["atol"])


def test_special_rows():
    inf = np.inf
    x = np.array([[1000.0, 1001.0], [-inf, 0.0], [-inf, -inf], [np.nan, 0.0]])
    out = S.softmax(x, 1, float64)
    np.testing.assert_allclose(out[0], reference(np.array([0.0, 1.0]), 0))
    assert out[1].tolist() == [0, 1] and np.isnan(out[2:]).all()
    assert S.log_softmax(x, 1, float64)[1].tolist() == [-inf, 0]
    assert S.softmax(np.empty((0, 3)), 1, float64).shape == (0, 3)
    assert S.softmax(np.empty((3, 0)), 1, float64).shape == (3, 0)


def test_wider_result_and_strides():
    x = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    assert S.softmax(x, 0, float64).dtype == np.float64
    np.testing.assert_array_equal(
        S.softmax(x.T[::2], 1, float32), S.softmax(x[:, ::2].T, 1, float32)
    )


def test_threads_give_the_same_bits():
    x = np.random.default_rng(0).standard_normal((700, 300)).astype(np.float32)
    count, results = threads.get_num_threads(), []
    for n in (1, 3):
        threads.set_num_threads(n)
        results.append([S.softmax(x, dim, float32) for dim in (0, 1)])
    threads.set_num_threads(count)
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)
