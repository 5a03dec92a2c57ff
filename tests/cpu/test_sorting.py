"""Sorting and searching against Python's sorted."""

from __future__ import annotations

import bisect
import collections
import math

import ml_dtypes
import numpy as np
import pytest

from tritorch.host.index import sorting as S

RNG = np.random.default_rng(0)
KINDS = [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8, np.bool_]


def key(v):
    return (v != v, 0 if v != v else v)


def draw(shape, kind):
    x = RNG.integers(0, 4, shape).astype(kind)
    if kind not in (np.int64, np.uint8, np.bool_):
        x[RNG.random(shape) < 0.2] = np.nan
    return x


def rows(x, dim):
    return np.moveaxis(x, dim, -1).reshape(-1, x.shape[dim])


def same(got, want):
    """Equal, NaNs too (NumPy compares those of ml_dtypes' types as different)."""
    if got.dtype.kind == "V":
        got, want = np.float32(got), np.float32(want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [0, 1])
def test_sort_and_selection(kind, dim):
    x = draw((7, 9), kind)
    n = x.shape[dim]
    for descending in (False, True):
        values, index = S.sort(x, dim, descending)
        top, place = S.topk(x, 3, dim, descending)
        for row, v, i, t, p in zip(*(rows(a, dim) for a in (x, values, index, top, place))):
            data = row.tolist()
            order = sorted(range(n), key=lambda j: key(data[j]), reverse=False)
            if descending:  # stable: equals stay in order
                order = sorted(range(n), key=lambda j: key(data[j]), reverse=True)
            assert i.tolist() == order
            same(v, row[order])
            assert p.tolist() == order[:3]
            same(t, row[order[:3]])
    for k in (1, 4, n):
        values, index = S.kthvalue(x, k, dim)
        for row, v, i in zip(rows(x, dim), values, index):
            same(v, np.asarray(sorted(row, key=key)[k - 1]))
            same(row[i], v)


def test_selection_in_long_rows():
    x = RNG.integers(0, 50, (3, 1000)).astype(np.float32)
    for largest in (True, False):
        values, index = S.topk(x, 10, 1, largest)
        np.testing.assert_array_equal(
            values, np.sort(x if not largest else -x, axis=1)[:, :10] * (1 - 2 * largest)
        )
        np.testing.assert_array_equal(np.take_along_axis(x, index, 1), values)
        assert all(len(set(row)) == 10 for row in index.tolist())


def test_medians():
    x = np.array([[3.0, 1, 2, 4], [5, np.nan, 1, 2], [np.nan] * 4])
    values, index = S.median(x, 1)
    assert values[0] == 2 and index[0] == 2  # the lower one
    assert np.isnan(values[1:]).all() and index[1] == 1
    values, index = S.nanmedian(x, 1)
    assert values[:2].tolist() == [2, 2] and index[:2].tolist() == [2, 3] and np.isnan(values[2])


def test_mode():
    x = RNG.integers(0, 4, (20, 9))
    values, index = S.mode(x, 1)
    for row, v, i in zip(x.tolist(), values, index):
        counts = collections.Counter(row)
        assert v == min(k for k in counts if counts[k] == max(counts.values()))
        assert i == max(j for j in range(9) if row[j] == v)


@pytest.mark.parametrize("kind", [*KINDS, np.complex64])
def test_unique(kind):
    x = RNG.integers(0, 5, 30).astype(kind)
    values, inverse, counts = S.unique(x)
    assert values.dtype == kind and inverse.dtype == counts.dtype == np.int64
    wide = x.tolist()
    assert values.tolist() == sorted(set(wide), key=lambda v: (v.real, v.imag))
    np.testing.assert_array_equal(values[inverse], x)
    assert counts.tolist() == [wide.count(v) for v in values.tolist()]
    values, inverse, counts = S.unique_consecutive(x)
    np.testing.assert_array_equal(values[inverse], x)
    assert counts.sum() == 30 and (values[1:] != values[:-1]).all()
    assert [v.size for v in S.unique(x[:0])] == [0, 0, 0]


def test_searching():
    edges = np.sort(RNG.integers(0, 9, 7)).astype(np.float32)
    x = RNG.integers(-1, 11, (3, 4)).astype(np.float32)
    for right, find in ((False, bisect.bisect_left), (True, bisect.bisect_right)):
        out = S.searchsorted(edges, x, right)
        assert out.tolist() == [[find(edges.tolist(), v) for v in row] for row in x.tolist()]
        many = np.sort(RNG.integers(0, 9, (3, 5)), axis=1)
        out = S.searchsorted(many, x.astype(int), right)
        assert out.tolist() == [
            [find(e, v) for v in row] for e, row in zip(many.tolist(), x.astype(int).tolist())
        ]


def test_counting():
    x = np.array([0, 2, 2, 5], np.int32)
    assert S.bincount(x, None, 8).tolist() == [1, 0, 2, 0, 0, 1, 0, 0]
    weights = np.array([1, 2, 3, 4], np.float32)
    out = S.bincount(x, weights, 0)
    assert out.dtype == np.float32 and out.tolist() == [1, 0, 5, 0, 0, 4]
    x = RNG.uniform(-1, 5, 200)
    expected = [0] * 4
    for v in x:
        if 0 <= v <= 4:
            expected[min(math.floor(v), 3)] += 1
    assert S.histc(x, 4, 0.0, 4.0).tolist() == expected


@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize(("shape", "dim"), [((5, 9), 1), ((700, 3, 200), 2), ((40, 6), 0)])
@pytest.mark.parametrize("largest", [False, True])
def test_the_first_few_are_those_of_a_stable_sort(shape, dim, largest, kind):
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 4, shape).astype(kind)  # many equals
    if kind[0] == "f":
        flat = x.reshape(-1)
        flat[::7], flat[1::11], flat[2::13] = np.nan, np.inf, -np.inf
    for k in {1, 3, min(shape[dim], 64)}:
        values, places = S.topk(x, k, dim, largest)
        expected = S.sort(x, dim, largest)
        first = (*[slice(None)] * dim, slice(k))
        np.testing.assert_array_equal(values, expected[0][first])
        np.testing.assert_array_equal(places, expected[1][first])
        assert values.flags.c_contiguous and places.dtype == np.int64
