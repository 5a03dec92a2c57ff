"""Views of arrays against NumPy's: shapes, strides and offsets are pure functions."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tritorch
from tritorch import _C

shapes = st.lists(st.integers(0, 4), max_size=5)


def pair(shape, data=None):
    """A GPU array and an int32 ndarray of the same contents."""
    host = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int32).reshape(shape)
    return tritorch.cuda.from_numpy(host), host


def same_view(array, host, base):
    assert array.shape == host.shape
    if host.size and isinstance(host, np.ndarray):  # NumPy copies single elements
        start = host.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        assert array.storage_offset() == start // 4
        for size, ours, theirs in zip(host.shape, array.stride(), host.strides):
            assert size == 1 or ours == theirs // 4
    np.testing.assert_array_equal(array.numpy(), host)


@st.composite
def keys(draw, shape):
    out = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kinds = ["slice", "none"] + (["int"] if size else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "int":
            out.append(draw(st.integers(-size, size - 1)))
        elif kind == "none":
            out.extend([None, slice(None)])
        else:
            bound = st.none() | st.integers(-size - 1, size + 1)
            out.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3))))
    if draw(st.booleans()):
        out.append(...)
    return tuple(out)


@given(st.data(), shapes)
def test_indexing(data, shape):
    array, host = pair(shape)
    key = data.draw(keys(shape))
    same_view(array[key], host[key], host)


@given(st.data(), shapes)
def test_permute_and_transpose(data, shape):
    array, host = pair(shape)
    dims = data.draw(st.permutations(range(len(shape))))
    same_view(array.permute(*dims), host.transpose(dims), host)
    if shape:
        first, second = (data.draw(st.integers(-len(shape), len(shape) - 1)) for _ in "ab")
        same_view(array.transpose(first, second), host.swapaxes(first, second), host)


@given(st.data(), shapes)
def test_reshape_is_a_view_exactly_when_numpys_is(data, shape):
    array, host = pair(shape)
    dims = data.draw(st.permutations(range(len(shape))))
    array, view = array.permute(*dims), host.transpose(dims)
    cuts = data.draw(st.lists(st.integers(1, 4), max_size=3))
    total = int(np.prod(shape, dtype=np.int64))
    known = int(np.prod(cuts, dtype=np.int64))
    wanted = (*cuts, total // known) if known and total % known == 0 else (total,)
    ours = array.reshape_view(wanted)
    theirs = view.reshape(wanted)
    shares = np.shares_memory(theirs, host) or theirs.size <= 1
    if theirs.size > 1:
        assert (ours is not None) == shares
    np.testing.assert_array_equal(array.reshape(*wanted).numpy(), theirs)


@given(st.data(), st.lists(st.integers(1, 4), max_size=4))
def test_expand(data, shape):
    narrow = [data.draw(st.sampled_from([1, size])) for size in shape]
    array, host = pair(narrow)
    wanted = (*data.draw(st.lists(st.integers(1, 3), max_size=2)), *shape)
    same_view(array.expand(*wanted), np.broadcast_to(host, wanted), host)


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_collapse_keeps_every_offset(data, shape):
    strides = [
        tuple(data.draw(st.integers(0, 7)) for _ in shape)
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    merged, merged_strides = _C.collapse(shape, [list(s) for s in strides])
    assert len(merged) <= len(shape)
    offsets = lambda sizes, steps: [
        sum(i * s for i, s in zip(index, steps)) for index in np.ndindex(*sizes)
    ]
    for before, after in zip(strides, merged_strides):
        assert offsets(shape, before) == offsets(merged, after)


def test_collapse_merges_dense_dims_to_one():
    assert _C.collapse((2, 3, 4), [[12, 4, 1], [12, 4, 1]]) == ((24,), ((1,), (1,)))
    assert _C.collapse((2, 3, 4), [[12, 4, 1], [3, 1, 6]]) == ((6, 4), ((4, 1), (1, 6)))
    assert _C.collapse((1, 1), [[5, 9]]) == ((), ((),))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda a: a[5], IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (lambda a: a[0, 0, 0], IndexError, "too many indices for tensor of dimension 2"),
        (lambda a: a[::-1], ValueError, "step must be greater than zero"),
        (lambda a: a[..., ...], IndexError, "single ellipsis"),
        (lambda a: a["x"], TypeError, "indexed by integers"),
        (
            lambda a: a.transpose(0, 2),
            IndexError,
            r"expected to be in range of \[-2, 1\], but got 2",
        ),
        (lambda a: a.permute(0, 0), RuntimeError, "duplicate dims"),
        (lambda a: a.expand(2, 5), RuntimeError, r"must match the existing size \(3\)"),
        (lambda a: a.view(7), RuntimeError, "is invalid for input of size 6"),
        (lambda a: a.T.view(6), RuntimeError, r"Use .reshape\(...\) instead"),
        (lambda a: a.as_strided((3, 3), (3, 1)), IndexError, "need 9 elements; the storage has 6"),
        (lambda a: a.as_strided((2,), (-1,)), RuntimeError, "Negative strides are not supported"),
        (lambda a: tritorch.cuda.empty(-1), RuntimeError, "negative dimension -1"),
        (lambda a: tritorch.cuda.empty(2**40, 2**40), RuntimeError, "does not fit 64 bits"),
    ],
)
def test_errors_name_what_was_wrong(make, error, message):
    array, _ = pair((2, 3))
    with pytest.raises(error, match=message):
        make(array)


def test_view_dtype():
    array, host = pair((2, 4))
    np.testing.assert_array_equal(array.view(tritorch.int8).numpy(), host.view(np.int8))
    np.testing.assert_array_equal(array.view(tritorch.int64).numpy(), host.view(np.int64))
    np.testing.assert_array_equal(array.view(tritorch.float32).numpy(), host.view(np.float32))


def test_more_than_six_dims_and_at_most_64():
    array, host = pair((1, 2, 1, 2, 1, 2, 1, 2))
    same_view(array.permute(*reversed(range(8))), host.T, host)
    array, host = pair((1,) * 64)
    assert array.shape == (1,) * 64
    with pytest.raises(RuntimeError, match="at most 64"):
        array.unsqueeze(0)
