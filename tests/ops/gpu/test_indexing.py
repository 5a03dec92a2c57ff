"""Gathering and scattering on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import bfloat16, compare, numbers, on_device
from tritorch.gpu.index import indexing

pytestmark = pytest.mark.device

KINDS = [
    np.float32,
    bfloat16,
    np.float64,
    np.bool_,
    np.uint8,
    np.int64,
    np.complex64,
    np.complex128,
]
SHAPE = (4, 5, 3)


def indices(high, shape, seed=1, low=0):
    return np.random.default_rng(seed).integers(low, high, shape)


def operands(kind):
    """A dense array and one with its dims turned."""
    yield numbers(SHAPE, kind)
    yield numbers(SHAPE[::-1], kind).transpose(2, 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_elements(kind):
    for x in operands(kind):
        for dim in range(3):
            index = indices(SHAPE[dim], (3, 4, 2))
            src = numbers(index.shape, kind, 2)
            compare("indexing", "gather", x, dim, index)
            compare("indexing", "scatter", x, dim, index, src)
            compare("indexing", "scatter_value", x, dim, index, 1)
            compare("indexing", "scatter_add", x, dim, index, src)


@pytest.mark.parametrize("kind", KINDS)
def test_slices(kind):
    for x in operands(kind):
        for dim in range(3):
            index = indices(SHAPE[dim], 7)
            source = numbers((*SHAPE[:dim], 7, *SHAPE[dim + 1 :]), kind, 2)
            compare("indexing", "index_select", x, dim, index)
            compare("indexing", "index_copy", x, dim, index, source)
            compare("indexing", "index_fill", x, dim, index, 1)
            compare("indexing", "index_add", x, dim, index, source, 1)


@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("kind", [np.float32, bfloat16, np.int64, np.int8, np.bool_])
def test_scatter_reduce(reduce, kind):
    if kind is np.bool_ and reduce == "mean":
        pytest.skip("no mean of bools")
    x, index = numbers((6, 3), kind), indices(6, (20, 3))
    src = numbers((20, 3), kind, 2)
    for include_self in (True, False):
        compare("indexing", "scatter_reduce", x, 0, index, src, reduce, include_self)


def test_scatter_reduce_keeps_nan():
    x = np.zeros(3, np.float32)
    src = np.array([1, np.nan, 2, 3], np.float32)
    index = np.array([0, 0, 0, 1])
    got = compare("indexing", "scatter_reduce", x, 0, index, src, "amax", True)
    assert np.isnan(got[0]) and got[1] == 3


@pytest.mark.parametrize("kind", [np.float32, np.complex64, np.int32])
@pytest.mark.parametrize("accumulate", [False, True])
def test_put_and_index_put(kind, accumulate):
    for x in operands(kind):
        source = numbers(10, kind, 2)
        compare("indexing", "put", x, indices(60, 10, low=-60), source, accumulate)
        a, b = indices(4, (3, 1), low=-4), indices(3, (6,), low=-3)
        for key in [(a, None, b), (None, None, b), (None, indices(5, (2, 2)), b[:2])]:
            result = x[tuple(slice(None) if k is None else k for k in key)]
            compare("indexing", "index", x, key)
            y = on_device(x)
            values = numbers(result.shape, kind, 3)
            indexing.index_put_(y, on_device(key), on_device(values), accumulate)
            want = np.array(x)
            at = tuple(slice(None) if k is None else k for k in key)
            if accumulate:
                np.add.at(want, at, values)
            else:
                want[at] = values
            np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-5)


def test_values_are_broadcast():
    y = on_device(np.zeros((3, 4), np.float32))
    indexing.index_put_(y, on_device((np.array([0, 2]),)), on_device(np.float32([[1], [2]])), False)
    assert y.numpy().tolist() == [[1] * 4, [0] * 4, [2] * 4]


@pytest.mark.parametrize("kind", KINDS)
def test_masks(kind):
    mask = numbers(SHAPE, np.bool_, 5)
    for x in operands(kind):
        compare("indexing", "masked_select", x, mask)
        compare("indexing", "masked_scatter", x, mask, numbers(60, kind, 4))
        compare("indexing", "nonzero", x)
    compare("indexing", "take", x, indices(60, (2, 7), low=-60))


def test_more_than_one_block_of_a_mask():
    x = np.zeros(2500, np.float32)
    x[[0, 1023, 1024, 2499]] = 1
    assert compare("indexing", "nonzero", x)[:, 0].tolist() == [0, 1023, 1024, 2499]


def test_long_runs_are_cut_and_joined():
    index = indices(50, 400)
    index[100:330] = 3  # goes through several chunks
    x, source = numbers((50, 2), np.float64), numbers((400, 2), np.float64, 2)
    compare("indexing", "index_add", x, 0, index, source, 0.5)
    for reduce in ("mean", "amin"):
        columns = np.broadcast_to(index[:, None], (400, 2)).copy()
        compare("indexing", "scatter_reduce", x, 0, columns, source, reduce, False)


@pytest.mark.parametrize("n", [1, 33, indexing.FEW_KEYS, indexing.FEW_KEYS + 1, 2500])
def test_keys_are_sorted_stably(n):
    keys = indices(70_000, n)
    keys[::7] = 5
    ordered, order = (a.numpy() for a in indexing.sort_keys(on_device(keys), 70_000))
    want = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(order, want)
    np.testing.assert_array_equal(ordered, keys[want])


def test_empty():
    x, none = numbers((3, 4)), np.zeros(0, np.int64)
    compare("indexing", "index_select", x, 0, none)
    compare("indexing", "index_add", x, 0, none, numbers((0, 4)), 1)
    compare("indexing", "gather", x, 0, np.zeros((0, 4), np.int64))
    compare("indexing", "nonzero", numbers((0, 2)))
    compare("indexing", "nonzero", np.array(3.0))
    compare("indexing", "masked_select", x, np.zeros((3, 4), bool))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("gather", (0, np.full((1, 1), 9))),
        ("gather", (0, np.full((1, 1), -1))),
        ("index_select", (1, np.array([0, 4]))),
        ("index", ((np.array([-4]),),)),
        ("take", (np.array([12]),)),
        ("scatter_add", (0, np.full((1, 1), 3), np.ones((1, 1), np.float32))),
        ("index_copy", (1, np.array([-1]), np.ones((3, 1), np.float32))),
    ],
)
def test_bad_indices_are_reported_and_nothing_else_changes(name, args):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    on_gpu = on_device(x)
    out = getattr(indexing, name)(on_gpu, *map(on_device, args))
    with pytest.raises(IndexError, match=r"index -?\d+ is out of bounds for dimension"):
        out.numpy()
    np.testing.assert_array_equal(on_gpu.numpy(), x)
    if out.shape == x.shape:
        np.testing.assert_array_equal(out.numpy(), x)


def test_a_source_that_is_too_short_is_reported():
    out = indexing.masked_scatter(
        on_device(np.zeros(3, np.float32)), on_device(np.ones(3, bool)), on_device(numbers(2))
    )
    with pytest.raises(RuntimeError, match="element 2 of a source with 2"):
        out.numpy()
