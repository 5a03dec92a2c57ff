"""Gathering and scattering against loops."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tritorch.host.index import indexing as I

RNG = np.random.default_rng(0)
KINDS = [np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.bool_, np.complex64]


def at(i, dim, k):
    return (*i[:dim], k, *i[dim + 1 :])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_and_scatter(kind, dim):
    x = RNG.integers(0, 5, (3, 4, 5)).astype(kind)
    src = RNG.integers(0, 5, (4, 5, 6)).astype(kind)  # larger than the index
    index = RNG.integers(0, x.shape[dim], (2, 4, 3))
    gathered, put, added, valued = np.empty(index.shape, kind), x.copy(), x.copy(), x.copy()
    for i in np.ndindex(index.shape):
        place = at(i, dim, index[i])
        gathered[i], put[place], valued[place] = x[place], src[i], 1
        added[place] = added[place] | src[i] if kind is np.bool_ else added[place] + src[i]
    before = x.copy()
    np.testing.assert_array_equal(I.gather(x, dim, index), gathered)
    np.testing.assert_array_equal(I.scatter(x, dim, index, src), put)
    np.testing.assert_array_equal(I.scatter_value(x, dim, index, 1), valued)
    np.testing.assert_array_equal(I.scatter_add(x, dim, index, src), added)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_scatter_reduce(reduce, include, kind):
    x = RNG.integers(1, 9, (4, 3)).astype(kind)
    index, src = RNG.integers(0, 4, (5, 3)), RNG.integers(1, 9, (5, 3)).astype(kind)
    index[index == 2] = 1  # row 2 receives nothing
    out = I.scatter_reduce(x, 0, index, src, reduce, include)
    assert out.dtype == kind
    for r, c in np.ndindex(x.shape):
        got = [src[i, c] for i in range(5) if index[i, c] == r]
        parts = [x[r, c], *got] if include or not got else got
        expected = {
            "sum": sum(parts), "prod": np.prod(parts), "amax": max(parts), "amin": min(parts),
            "mean": sum(parts) / len(parts) if kind is np.float64 else sum(parts) // len(parts),
        }[reduce]  # fmt: skip
        np.testing.assert_allclose(out[r, c], expected)


def test_narrow_sums_round_once():
    x, src = np.zeros(1, ml_dtypes.bfloat16), np.ones(1000, ml_dtypes.bfloat16)
    assert I.scatter_add(x, 0, np.zeros(1000, int), src) == 1000  # 256 + 1 would stay 256


@pytest.mark.parametrize("kind", KINDS)
def test_along_a_dim(kind):
    x = RNG.integers(0, 5, (4, 3)).astype(kind)
    index, source = np.array([2, 0, 2]), RNG.integers(0, 5, (3, 3)).astype(kind)
    np.testing.assert_array_equal(I.index_select(x, 0, index), [x[2], x[0], x[2]])
    copied, added, filled = x.copy(), x.copy(), x.copy()
    for i, k in enumerate(index):
        copied[k], filled[k] = source[i], 1
        added[k] = added[k] | source[i] if kind is np.bool_ else added[k] + source[i]
    np.testing.assert_array_equal(I.index_copy(x, 0, index, source), copied)
    np.testing.assert_array_equal(I.index_add(x, 0, index, source, 1), added)
    np.testing.assert_array_equal(I.index_fill(x, 0, index, 1), filled)
    np.testing.assert_array_equal(I.index_select(x.T, 1, index), I.index_select(x, 0, index).T)


def test_flat():
    x = np.arange(6.0).reshape(2, 3).T
    index = np.array([[0, -1], [3, 0]])
    np.testing.assert_array_equal(I.take(x, index), x.reshape(-1)[index])
    out = I.put(x, index, np.array([[1.0, 2], [3, 4]]), False)
    assert out.reshape(-1)[[0, 3, 5]].tolist() == [4, 3, 2]  # the last write wins
    out = I.put(x, index, np.ones((2, 2)), True)
    assert out.shape == (3, 2) and out.reshape(-1)[[0, 3, 5]].tolist() == [2, 5, 6]


def test_masks():
    x = np.arange(6).reshape(2, 3)
    mask = x % 2 == 1
    assert I.masked_select(x, mask).tolist() == [1, 3, 5]
    assert I.masked_scatter(x, mask, np.array([7, 8, 9, 10])).tolist() == [[0, 7, 2], [8, 4, 9]]
    assert I.nonzero(x).tolist() == [[0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert I.nonzero(np.array(1.0)).shape == (1, 0)


def test_advanced():
    x = np.arange(24.0).reshape(2, 3, 4)
    a, b = np.array([[0], [-1]]), np.array([1, -2])
    out = I.index(x, (a, None, b))
    assert out.shape == (2, 2, 3) and out[1, 0].tolist() == x[1, :, 1].tolist()
    written = I.index_put_(x.copy(), (a, None, b), np.full((2, 2, 3), -1.0), False)
    assert (written == -1).sum() == 12
    twice = I.index_put_(x.copy(), (np.array([0, 0]),), np.ones((3, 4)), True)
    np.testing.assert_array_equal(twice[0], x[0] + 2)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1 with size 3"):
        I.index(x, (None, np.array([3])))


@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "i8", "u1", "i2", "c16", "f2", "?"])
@pytest.mark.parametrize(
    ("shape", "dim", "count"), [((5,), 0, 9), ((6, 7), 1, 3), ((6, 7), 0, 4), ((300, 4, 50), 1, 9)]
)
def test_one_pass_gathers_and_adds_as_numpy_does(shape, dim, count, kind):
    rng = np.random.default_rng(0)
    sides = (*shape[:dim], count, *shape[dim + 1 :])
    x, src = ((rng.integers(0, 9, each)).astype(kind) for each in (shape, sides))
    index = rng.integers(0, shape[dim], sides)
    np.testing.assert_array_equal(I.gather(x, dim, index), np.take_along_axis(x, index, dim))
    added = x.copy()
    key = [*np.indices(sides)]
    key[dim] = index
    (np.logical_or if kind == "?" else np.add).at(added, tuple(key), src)
    np.testing.assert_array_equal(I.scatter_add(x, dim, index, src), added)
    for bad in (-1, shape[dim]):
        wrong = index.copy()
        wrong.reshape(-1)[-1] = bad
        for call in (
            lambda w=wrong: I.gather(x, dim, w),
            lambda w=wrong: I.scatter_add(x, dim, w, src),
        ):
            with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds"):
                call()
    assert I.outside(index, shape[dim]) is None


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_indices_of_any_width_are_looked_at(kind):
    index = np.array([[3, 0], [2, 1]], kind)
    assert I.outside(index.T, 4) is None and I.outside(index[:, ::2], 4) is None
    assert I.outside(index, 3) == 3 and I.outside(index - kind(1), 9) == -1
    assert I.outside(index[:0], 0) is None
