"""Copies between arrays that lie otherwise, against NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tritorch import _C
from tritorch.arrays.arrays import put
from tritorch.host.shape import shaping

RNG = np.random.default_rng(0)


def numbers(shape, kind):
    return RNG.integers(0, 100, shape).astype(kind)


def sources(x):
    """Arrays that lie in many ways."""
    for order in itertools.permutations(range(x.ndim)):
        yield x.transpose(order)
        yield x.transpose(order)[::-1, ..., ::2]
    yield np.broadcast_to(x[:, :1], x.shape)
    yield np.broadcast_to(x[..., :1], (*x.shape[:-1], 40))
    yield np.broadcast_to(x[..., None], (*x.shape, 2))
    yield x.reshape(-1)[::-1]


def targets(shape, kind):
    """Arrays to copy into."""
    yield np.zeros(shape, kind)
    yield np.zeros(shape, kind, order="F")
    yield np.zeros(shape, kind)[::-1]
    yield np.zeros((*shape[:-1], 2 * shape[-1]), kind)[..., ::2]


@pytest.mark.parametrize("kind", ["u1", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(70, 33, 17), (3, 128, 64), (2, 1, 40_000), (16, 48, 32)])
def test_as_numpy_copies(kind, shape):
    for source in sources(numbers(shape, kind)):
        for target in targets(source.shape, kind):
            assert _C.copy_elements(target, source, source.itemsize)
            np.testing.assert_array_equal(target, source)


def test_what_lies_beside_is_left_alone():
    room = np.zeros((300, 301), np.float32)
    put(room[1:-1, 3:-5], np.ones((298, 293), np.float32))
    expected = np.zeros_like(room)
    expected[1:-1, 3:-5] = 1
    np.testing.assert_array_equal(room, expected)


def test_memory_in_common_is_numpys_to_copy():
    often = np.lib.stride_tricks.as_strided(np.zeros(200, np.float32), (200, 200), (0, 4))
    assert not _C.copy_elements(often, numbers((200, 200), "f4"), 4)
    x = numbers((200, 200), "f4")
    expected = x.T.copy()
    assert not _C.copy_elements(x, x.T, 4)
    put(x, x.T)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("dims", [(0,), (1,), (-1,), (0, 2), (0, 1, 2)])
def test_rolls_and_flips(dims):
    x = numbers((40, 30, 21), "f4")
    for by in (0, 1, -3, 1000):
        shifts = tuple(by + i for i in range(len(dims)))
        np.testing.assert_array_equal(shaping.roll(x, shifts, dims), np.roll(x, shifts, dims))
    np.testing.assert_array_equal(shaping.roll(x, (1, 2), (1, 1)), np.roll(x, 3, 1))
    positive = tuple(dim % 3 for dim in dims)
    for y in (x, x.transpose(2, 0, 1)):
        np.testing.assert_array_equal(shaping.flip(y, positive), np.flip(y, positive))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_joins(dim):
    parts = [numbers((50, 60, 40), "f4") for _ in range(3)]
    np.testing.assert_array_equal(shaping.cat(parts, dim), np.concatenate(parts, dim))
    turned = [x.T for x in parts]
    np.testing.assert_array_equal(shaping.cat(turned, dim), np.concatenate(turned, dim))
    with pytest.raises(ValueError):
        shaping.cat([parts[0], parts[1][:, :, 1:, None]], 0)
