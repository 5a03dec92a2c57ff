"""Reductions and scans against loops over lists."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tritorch.core import dtype as D
from tritorch.host import threads
from tritorch.host.reduce import reduction as R, scan as S

RNG = np.random.default_rng(0)


def slices(x, dims):
    """Result index -> the flat list of elements over dims, in order."""
    kept = [i for i in range(x.ndim) if i not in dims]
    moved = np.transpose(x, [*kept, *dims]).reshape(*[x.shape[i] for i in kept], -1)
    return moved


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (70, 60, 50), (1, 3, 1)])
def test_floats(shape, dims):
    x = RNG.standard_normal(shape)
    rows = slices(x, dims)
    flat = rows.reshape(-1, rows.shape[-1]).tolist()
    expect = lambda f: np.array([f(row) for row in flat]).reshape(rows.shape[:-1])
    n = len(flat[0])
    args = (x, dims, False)
    np.testing.assert_allclose(R.sum(*args, D.float64), expect(math.fsum), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        R.mean(*args, D.float64), expect(lambda r: math.fsum(r) / n), rtol=1e-9, atol=1e-14
    )
    np.testing.assert_array_equal(R.amax(*args), expect(max))
    np.testing.assert_array_equal(R.amin(*args), expect(min))
    np.testing.assert_array_equal(
        R.any(x > 1, dims, False), expect(lambda r: any(v > 1 for v in r))
    )
    np.testing.assert_array_equal(
        R.count_nonzero(x > 1, dims), expect(lambda r: sum(v > 1 for v in r))
    )
    for ord, f in (
        (2, lambda r: math.sqrt(math.fsum(v * v for v in r))),
        (1, lambda r: math.fsum(map(abs, r))),
        (3, lambda r: math.fsum(abs(v) ** 3 for v in r) ** (1 / 3)),
        (math.inf, lambda r: max(map(abs, r))),
        (-math.inf, lambda r: min(map(abs, r))),
        (0, lambda r: sum(v != 0 for v in r)),
    ):
        np.testing.assert_allclose(
            R.vector_norm(x, ord, dims, False, D.float64), expect(f), rtol=1e-12
        )
    np.testing.assert_allclose(
        R.logsumexp(*args), expect(lambda r: math.log(math.fsum(map(math.exp, r)))), rtol=1e-11
    )
    if n > 1:

        def variance(row):
            mean = math.fsum(row) / n
            return math.fsum((v - mean) ** 2 for v in row) / (n - 1)

        np.testing.assert_allclose(R.var(x, dims, 1, False), expect(variance), rtol=1e-11)
    keep = tuple(1 if i in dims else m for i, m in enumerate(shape))
    assert R.sum(x, dims, True, D.float64).shape == keep
    assert R.var_mean(x, dims, 0, True)[1].shape == keep


def test_dtypes():
    x = np.array([[100, 100, 100]], np.int8)
    assert R.sum(x, (1,), False, D.int64).tolist() == [300]
    assert R.sum(x, (1,), False, D.int8).tolist() == [44]  # wraps
    assert R.sum(x > 0, (1,), False, D.int64).tolist() == [3]
    assert R.prod(x, (1,), False, D.int64).tolist() == [10**6]
    half = np.full((1, 4096), 1.0, ml_dtypes.bfloat16)
    out = R.sum(half, (1,), False, D.bfloat16)
    assert out.dtype == ml_dtypes.bfloat16 and out == 4096  # accumulated wider
    z = np.array([[1 + 1j, 3 - 1j]])
    var = R.var(z, (1,), 0, False)
    assert var.dtype == np.float64 and var == 2
    assert R.vector_norm(z, 2, (1,), False, D.float64).dtype == np.float64


def test_empty():
    x = np.empty((2, 0))
    assert R.sum(x, (1,), False, D.float64).tolist() == [0, 0]
    assert R.prod(x, (1,), False, D.float64).tolist() == [1, 1]
    assert np.isnan(R.mean(x, (1,), False, D.float64)).all()
    assert np.isneginf(R.logsumexp(x, (1,), False)).all()
    assert type(R.sum(np.ones(3), (0,), False, D.float64)) is np.ndarray


def test_ties_and_nan():
    x = np.array([[1.0, 3, 3, 0], [np.nan, 5, np.nan, 1]])
    assert R.argmax(x, 1, False).tolist() == [1, 0]
    assert R.argmin(x, 1, False).tolist() == [3, 0]
    values, index = R.max_with_index(x, 1, True)
    assert index.tolist() == [[1], [0]] and values[0] == 3 and np.isnan(values[1])
    assert np.isnan(R.amax(x, (1,), False)[1]) and np.isnan(R.amin(x, (1,), False)[1])


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_threads_give_the_same_bits(dims):
    x = RNG.standard_normal((1500, 300)).astype(np.float32)
    count, results = threads.get_num_threads(), []
    for n in (1, 3):
        threads.set_num_threads(n)
        results.append(R.sum(x, dims, False, D.float32))
    threads.set_num_threads(count)
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], x.astype(np.float64).sum(dims), rtol=1e-5, atol=1e-3)


def test_scans():
    x = RNG.integers(-3, 4, (4, 6))
    for dim in (0, 1):
        total, product = np.zeros_like(x), np.zeros_like(x)
        best, where = np.zeros_like(x), np.zeros_like(x)
        for i in range(4):
            for j in range(6):
                row = (x[: i + 1, j] if dim == 0 else x[i, : j + 1]).tolist()
                total[i, j], product[i, j], best[i, j] = sum(row), math.prod(row), max(row)
                where[i, j] = len(row) - 1 - row[::-1].index(max(row))  # the last of equals
        assert (S.cumsum(x, dim, D.int64) == total).all()
        assert (S.cumprod(x, dim, D.int64) == product).all()
        values, index = S.cummax(x, dim)
        assert (values == best).all() and (index == where).all()
        values, index = S.cummin(-x, dim)
        assert (values == -best).all() and (index == where).all()
    wide = RNG.standard_normal((3, 5))
    np.testing.assert_allclose(S.logcumsumexp(wide, 1), np.log(np.cumsum(np.exp(wide), axis=1)))
    assert S.cumsum(np.array([1.7, 1.7]), 0, D.int64).tolist() == [1, 2]  # converted first
    values, index = S.cummax(np.array([1.0, np.nan, 2.0]), 0)
    assert np.isnan(values[1:]).all() and index.tolist() == [0, 1, 1]
    half = S.cumsum(np.ones(1000, np.float16), 0, D.float16)
    assert half.dtype == np.float16 and half[-1] == 1000


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape, dims",
    [((100_000, 9), (0,)), ((3, 1000, 65), (1,)), ((129, 8), (0,)), ((30, 20, 50), (0, 2)),
     ((9, 8, 7, 6, 5), (0, 2, 4)), ((300, 24), (1,))],
)  # fmt: skip
def test_down_columns_and_of_dims_that_lie_apart(kind, shape, dims):
    x = (RNG.standard_normal(shape) / 100 + 1).astype(kind)
    wide, within = x.astype(np.longdouble), 64 * np.finfo(kind).eps
    name = D.float32 if kind is np.float32 else D.float64
    for keep in (False, True):
        how = {"axis": dims, "keepdims": keep}
        found = R.sum(x, dims, keep, name)
        assert found.dtype == kind
        np.testing.assert_allclose(found, wide.sum(**how).astype(kind), rtol=within)
        rounded = wide.prod(**how).astype(kind)  # an error for each of many factors
        np.testing.assert_allclose(R.prod(x, dims, keep, name), rounded, rtol=300 * within)
        np.testing.assert_array_equal(R.amax(x, dims, keep), x.max(**how))
        np.testing.assert_array_equal(R.amin(x, dims, keep), x.min(**how))
    x.reshape(-1)[x.size // 2] = np.nan
    np.testing.assert_array_equal(R.amax(x, dims, False), x.max(dims))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_running_sums(kind, dim):
    x = RNG.standard_normal((30, 40, 300)).astype(kind)
    name = D.float32 if kind is np.float32 else D.float64
    expected = np.cumsum(x.astype(np.longdouble), dim)
    np.testing.assert_allclose(S.cumsum(x, dim, name), expected.astype(kind), atol=1e-6)


@pytest.mark.parametrize("ord", [0, 1, 2, 3, math.inf, -math.inf])
@pytest.mark.parametrize("dims", [(1,), (0,), (1, 2), (0, 2)])
def test_norms_over_dims(ord, dims):
    x = RNG.standard_normal((20, 30, 40)).astype(np.float32)
    size, axis = np.abs(x.astype(np.float64)), dims
    if ord == 0:
        expected = (size != 0).sum(axis)
    elif math.isinf(ord):
        expected = size.max(axis) if ord > 0 else size.min(axis)
    else:
        expected = (size**ord).sum(axis) ** (1 / ord)
    found = R.vector_norm(x, ord, dims, False, D.float32)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)
