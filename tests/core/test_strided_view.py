"""Views that the native half makes of ndarrays: where they lie, and what they refuse."""

import gc

import ml_dtypes
import numpy as np
import pytest

import tritorch
from tritorch import _C
from tritorch.func import vmap


def strides_of(view):
    return tuple(step // view.itemsize for step in view.strides)


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.complex128, ml_dtypes.float8_e5m2])
def test_a_view_is_what_as_strided_says(kind):
    memory = np.arange(24).astype(kind)  # float8 rounds some
    view = _C.strided_view(memory, (2, 3), (12, 2), 5)
    assert view.dtype == memory.dtype
    assert view.shape == (2, 3)
    assert strides_of(view) == (12, 2)
    assert (view == memory[[[5, 7, 9], [17, 19, 21]]]).all()
    assert np.shares_memory(view, memory)


def test_a_view_keeps_its_memory():
    view = _C.strided_view(np.full(1000, 7.0), (3,), (400,), 0)
    gc.collect()
    np.full(1000, 1.0)
    assert view.tolist() == [7, 7, 7]


def test_a_view_is_writable_as_its_array_is():
    memory = np.zeros(4)
    _C.strided_view(memory, (2,), (2,), 1)[...] = 1
    assert memory.tolist() == [0, 1, 0, 1]
    memory.flags.writeable = False
    assert not _C.strided_view(memory, (2,), (2,), 1).flags.writeable


def test_a_view_may_reach_over_its_array_but_not_over_the_memory():
    memory = np.arange(10)
    part = memory[2:4]
    assert _C.strided_view(part, (2,), (5,), -2).tolist() == [0, 5]
    assert _C.strided_view(part, (2,), (7,), 0).tolist() == [2, 9]
    for shape, stride, offset in (((2,), (8,), 0), ((1,), (1,), -3), ((2,), (-3,), 0)):
        with pytest.raises(RuntimeError, match="outside of its memory"):
            _C.strided_view(part, shape, stride, offset)


def test_a_view_without_elements_is_a_place():
    memory = np.arange(4.0)
    view = _C.strided_view(memory, (0, 3), (3, 1), 100)
    assert view.shape == (0, 3)
    assert strides_of(view) == (3, 1)


def test_what_is_no_view_is_refused():
    with pytest.raises(TypeError):
        _C.strided_view([1, 2], (1,), (1,), 0)
    with pytest.raises(ValueError, match="as many strides"):
        _C.strided_view(np.arange(4), (1, 1), (1,), 0)
    with pytest.raises(ValueError, match="64 dims"):
        _C.strided_view(np.arange(4), (1,) * 65, (1,) * 65, 0)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(), lambda x: x[1:, None], lambda x: x.unsqueeze(-1), lambda x: x.view(12),
        lambda x: x.expand(2, 3, 4), lambda x: x[2, ::2], lambda x: x.as_strided((2, 2), (4, 1)),
    ],
)  # fmt: skip
def test_a_view_under_vmap_lies_as_one_of_the_batch(view):
    x = tritorch.arange(60.0).reshape(5, 3, 4)
    found, strides = vmap(view)(x), []

    def note(example):
        strides.append(view(example).stride())
        return view(example)

    vmap(note)(x)
    one = view(x[0])
    assert strides == [one.stride()]
    assert found.stride() == (12, *one.stride())
    assert found.data_ptr() - x.data_ptr() == one.data_ptr() - x[0].data_ptr()
    assert all(tritorch.equal(found[i], view(x[i])) for i in range(5))


def test_a_function_with_named_arguments_is_mapped_in_chunks():
    x, y = tritorch.arange(6.0).reshape(3, 2), tritorch.arange(2.0)
    scaled = vmap(lambda x, *, by: {"product": x * by}, chunk_size=2)(x, by=y)  # by: not mapped
    assert tritorch.equal(scaled["product"], x * y)
