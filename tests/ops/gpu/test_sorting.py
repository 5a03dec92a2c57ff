"""Sorting and searching on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import bfloat16, compare, numbers, on_device
from tritorch.gpu.index import radix, sorting
from tritorch.host.index import sorting as cpu

pytestmark = pytest.mark.device

KINDS = [np.float32, np.float16, bfloat16, np.float64, np.int64, np.uint32, np.uint8, np.bool_]
FLOATS = KINDS[:4]


def rounded(shape, kind, nans=True):
    """Numbers with many equals, both zeros, infinities and NaN among them."""
    kind = np.dtype(kind)
    x = numbers(shape, kind, 3)
    if kind.kind in "biu":
        return x
    x = np.round(x.astype(np.float64) * 2).astype(kind)
    flat = x.reshape(-1)
    if nans and flat.size > 4:
        flat[::7] = np.nan
        flat[1::11] = np.inf
        flat[3::13] = -np.inf
    return x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(kind, descending):
    for x in (rounded((3, 21), kind), rounded((21, 3), kind).T):
        compare("sorting", "sort", x, 1, descending)
        compare("sorting", "sort", x, 0, descending)
    compare("sorting", "sort", rounded((2, 3, 5), kind).transpose(2, 0, 1), 1, descending)


@pytest.mark.parametrize("shape", [(1,), (0,), (3, 0), (0, 3), (1025,)])
def test_sort_sizes(shape):
    compare("sorting", "sort", rounded(shape, np.float32), len(shape) - 1, False)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_sort_merges(kind):
    compare("sorting", "sort", numbers((2, 2500), kind), 1, True)


INTEGERS = [np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS, np.uint8, np.bool_])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_by_digits(kind, descending):
    """The radix sort gives the keys and places of the merges, whatever the strides."""
    if kind in INTEGERS:
        info, rng = np.iinfo(kind), np.random.default_rng(0)
        whole = rng.integers(info.min, info.max, (2, 1300), kind, endpoint=True)
    else:
        whole = rounded((2, 1300), kind)
    for x in (on_device(whole), on_device(np.ascontiguousarray(whole.T[:700]).T)):
        kinds = sorting._kinds(x)
        got = radix.sort_rows(x, *radix.passes(x.dtype), descending, *kinds)
        for a, b in zip(got, sorting.sort_last(x, descending)):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(("kind", "n"), [(np.uint8, 2100), (bfloat16, 4200), (np.float32, 16_500)])
def test_long_rows_are_sorted_by_digits(kind, n, monkeypatch):
    called = []
    rows = radix.sort_rows
    monkeypatch.setattr(radix, "sort_rows", lambda *given: called.append(1) or rows(*given))
    compare("sorting", "sort", rounded((1, n // 3), kind), 1, True)
    assert not called
    compare("sorting", "sort", rounded((1, n), kind), 1, True)
    assert called


def test_sort_extremes():
    for kind in (np.int64, np.uint64, np.int32, np.uint32, np.int8):
        info = np.iinfo(kind)
        x = np.array([info.max, 0, info.min, info.max, 1, info.max - 1], kind)
        compare("sorting", "sort", x, 0, False)
        compare("sorting", "sort", x, 0, True)


@pytest.mark.parametrize("kind", KINDS)
def test_topk(kind):
    x = rounded((4, 19), kind)
    for k in (0, 1, 5, 19):
        for largest in (False, True):
            got = [a.numpy() for a in sorting.topk(on_device(x), k, 1, largest)]
            want = cpu.sort(x, 1, largest)
            np.testing.assert_array_equal(got[1], want[1][:, :k])
            assert got[0].tobytes() == np.ascontiguousarray(want[0][:, :k]).tobytes()


def test_topk_of_long_rows():
    """Blocks pass on their first k, twice."""
    x = np.round(numbers((1, 5000)) * 9)
    got = [a.numpy() for a in sorting.topk(on_device(x), 300, 1, True)]
    want = cpu.sort(x, 1, True)
    np.testing.assert_array_equal(got[1], want[1][:, :300])
    np.testing.assert_array_equal(got[0], want[0][:, :300])


def test_topk_with_a_short_last_block():
    x = np.round(numbers((2, 1030)) * 9)
    x[:, -3:] = 99
    for largest in (False, True):
        got = sorting.topk(on_device(x), 10, 1, largest)[1].numpy()
        np.testing.assert_array_equal(got, cpu.sort(x, 1, largest)[1][:, :10])


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_each_row(kind):
    x = rounded((5, 12, 3), kind)
    x[0] = x[1] if np.dtype(kind).kind in "biu" else 1
    for dim in range(3):
        for k in (1, 3):
            values, places = (a.numpy() for a in sorting.kthvalue(on_device(x), k, dim))
            ordered = cpu.sort(x, dim, False)
            np.testing.assert_array_equal(places, np.take(ordered[1], k - 1, dim))
            assert values.tobytes() == np.take(ordered[0], k - 1, dim).tobytes()
        for name in ("median", "nanmedian", "mode"):
            compare("sorting", name, x, dim)


def test_medians_of_nans():
    x = np.array([[np.nan, 1, 2, 3], [np.nan] * 4, [4, 3, 2, 1]], np.float32)
    for name in ("median", "nanmedian", "mode"):
        compare("sorting", name, x, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
def test_unique(kind, name):
    for n in (0, 1, 50):
        compare("sorting", name, rounded((n,), kind))
    compare("sorting", name, np.repeat(rounded((9,), kind, nans=False), 3))
    x = rounded((40,), kind)
    got = getattr(sorting, name)(on_device(x)[::2])
    for a, b in zip(got, getattr(cpu, name)(x[::2])):
        assert a.numpy().tobytes() == b.tobytes()


def test_unique_over_blocks():
    compare("sorting", "unique", numbers((2100,), np.uint8))
    compare("sorting", "unique_consecutive", np.sort(numbers((2100,), np.uint8)))


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(kind, right):
    x = np.sort(rounded((3, 17), kind).astype(np.float64), axis=1).astype(kind)
    values = rounded((3, 6), kind)
    compare("sorting", "searchsorted", x, values, right)
    compare("sorting", "searchsorted", x[0], values, right)
    compare("sorting", "searchsorted", x[0], np.array(values[0, 0]), right)
    compare("sorting", "searchsorted", x[0, :0], values, right)


def test_searchsorted_of_other_types():
    x = np.arange(9)
    compare("sorting", "searchsorted", x, np.array([2.5, 3, -1], np.float32), False)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_bincount(kind):
    x = np.abs(numbers((500,), np.int64)).astype(kind)
    compare("sorting", "bincount", x, None, 0)
    compare("sorting", "bincount", x, None, 20)
    compare("sorting", "bincount", x[:0], None, 3)
    for weights in (np.float32, np.float64, np.int64):
        compare("sorting", "bincount", x, numbers((500,), weights), 2)


@pytest.mark.parametrize("kind", FLOATS)
def test_histc(kind):
    for x in (rounded((7, 30), kind), numbers((30, 7), kind).T, numbers((0,), kind)):
        compare("sorting", "histc", x, 6, -1.5, 2.0)
