"""Pooling on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, compare, numbers
from tritorch import _C
from tritorch.cuda import from_numpy
from tritorch.gpu.nn import pooling

pytestmark = pytest.mark.device

# spatial, kernel, stride, padding, dilation, ceil_mode
CASES = {
    "1d": ((11,), (3,), (2,), (1,), (1,), False),
    "2d": ((7, 6), (3, 2), (2, 2), (1, 0), (1, 1), False),
    "overlapping": ((6, 7), (3, 3), (1, 1), (1, 1), (1, 1), False),
    "gaps": ((8, 9), (2, 1), (3, 4), (0, 0), (1, 1), False),
    "ceil": ((6, 8), (3, 3), (2, 3), (1, 1), (1, 1), True),
    "3d": ((3, 4, 4), (2, 3, 1), (2, 1, 2), (1, 1, 0), (1, 1, 1), True),
    "dilated": ((9, 8), (2, 3), (1, 2), (1, 2), (3, 2), False),
    "dilated, ceil": ((10,), (3,), (3,), (2,), (2,), True),
    "nothing but padding": ((1, 3), (2, 2), (1, 1), (1, 1), (2, 1), False),
    "large windows": ((7, 6), (6, 6), (6, 6), (3, 2), (1, 1), True),
}
# spatial, size
ADAPTIVE = {
    "1d": ((11,), (4,)),
    "2d": ((7, 6), (3, 2)),
    "global": ((6, 6), (1, 1)),
    "to more": ((3, 5), (7, 5)),
    "3d": ((3, 4, 5), (2, 3, 5)),
}


def ties(shape, kind, seed=0):
    """Few different numbers, so that the largest is often not the only one."""
    return np.rint(numbers(shape, np.float32, seed)).astype(kind)


def check_max(x, case):
    _, *params = CASES[case]
    _, indices = compare("pooling", "max_pool", x, *params)
    if x.dtype.kind == "f" or x.dtype.name == "bfloat16":
        g = numbers(indices.shape, x.dtype, 1)
        compare("pooling", "max_pool_backward", g, indices, x.shape)


def check_avg(x, case, include=True, divisor=None):
    _, kernel, stride, padding, _, ceil_mode = CASES[case]
    params = (kernel, stride, padding, ceil_mode, include, divisor)
    out = compare("pooling", "avg_pool", x, *params)
    if x.dtype.kind != "i":
        g = numbers(out.shape, x.dtype, 1)
        compare("pooling", "avg_pool_backward", g, x.shape, *params)


def check_adaptive(x, size):
    out = compare("pooling", "adaptive_avg_pool", x, size)
    g = numbers(out.shape, x.dtype, 1)
    compare("pooling", "adaptive_avg_pool_backward", g, x.shape)
    _, indices = compare("pooling", "adaptive_max_pool", x, size)
    compare("pooling", "max_pool_backward", g, indices, x.shape)


@pytest.mark.parametrize("case", [case for case in CASES if case != "nothing but padding"])
def test_max_pool(case):
    check_max(ties((2, 3, *CASES[case][0]), np.float32), case)


@pytest.mark.parametrize("case", [case for case in CASES if max(CASES[case][4]) == 1])
def test_avg_pool(case):
    check_avg(numbers((2, 3, *CASES[case][0])), case)


@pytest.mark.parametrize("case", ["1d", "ceil", "3d"])
def test_divisors(case):
    x = numbers((2, 3, *CASES[case][0]))
    check_avg(x, case, include=False)
    check_avg(x, case, divisor=3)


@pytest.mark.parametrize("case", ADAPTIVE)
def test_adaptive(case):
    spatial, size = ADAPTIVE[case]
    check_adaptive(numbers((2, 3, *spatial)), size)


@pytest.mark.parametrize("kind", FLOATS)
def test_floats(kind):
    for case in ("2d", "large windows"):
        check_max(ties((1, 2, *CASES[case][0]), kind), case)
        check_avg(numbers((1, 2, *CASES[case][0]), kind), case, False)
    spatial, size = ADAPTIVE["1d"]
    check_adaptive(numbers((2, 2, *spatial), kind), size)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64])
def test_integers(kind):
    for case in ("2d", "large windows"):
        check_max(numbers((1, 2, *CASES[case][0]), kind), case)
        if kind is np.int64:  # PyTorch has no means of the others
            check_avg(numbers((1, 2, *CASES[case][0]), kind), case)
            check_avg(numbers((1, 2, *CASES[case][0]), kind), case, True, 4)
    lowest = np.full((1, 1, 4, 4), np.iinfo(kind).min, kind)
    compare("pooling", "max_pool", lowest, (3, 3), (1, 1), (1, 1), (1, 1), False)


@pytest.mark.parametrize("size", [3, 6])
def test_nan_wins_and_the_lowest_has_an_index(size):
    x = numbers((1, 2, 6, 5))
    x[0, 0, [1, 1, 4], [2, 3, 4]] = np.nan
    x[0, 1] = -np.inf
    compare("pooling", "max_pool", x, (size, size), (2, 2), (1, 1), (1, 1), True)


def test_windows_of_padding_alone_pass_nothing_on():
    _, kernel, stride, padding, dilation, _ = CASES["nothing but padding"]
    x = from_numpy(numbers((1, 1, 1, 3)))
    out, indices = pooling.max_pool(x, kernel, stride, padding, dilation, False)
    assert (out.numpy() == -np.inf).all()
    got = pooling.max_pool_backward(out, indices, (1, 1, 1, 3)).numpy()
    np.testing.assert_array_equal(got, 0)


def test_any_indices_have_a_gradient():
    rng = np.random.default_rng(0)
    g, indices = numbers((2, 3, 3, 4)), rng.integers(0, 35, (2, 3, 3, 4))
    compare("pooling", "max_pool_backward", g, indices, (2, 3, 5, 7))
    nowhere = from_numpy(np.full((2, 3, 3, 4), 35))
    got = pooling.max_pool_backward(from_numpy(g), nowhere, (2, 3, 5, 7)).numpy()
    np.testing.assert_array_equal(got, 0)


def test_bounds_from_many_programs():
    x = ties((6, 8, 8, 7), np.float32)
    _, indices = pooling.max_pool(from_numpy(x), (3, 3), (2, 2), (1, 1), (1, 1), False)
    g = numbers(indices.shape)
    compare("pooling", "max_pool_backward", g, indices.numpy(), x.shape)


@pytest.mark.parametrize("case", ["2d", "3d"])
def test_reads_any_strides_and_keeps_channels_last(case):
    spatial, *params = CASES[case]
    x = numbers((2, 3, *spatial))
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    x_last = np.moveaxis(last, -1, 1)
    check_max(x_last, case)
    check_avg(x_last, case, False)
    check_adaptive(x_last, (2,) * len(spatial))
    on_gpu = from_numpy(last).permute(0, x.ndim - 1, *range(1, x.ndim - 1))
    out, indices = pooling.max_pool(on_gpu, *params)
    for y in (out, indices, pooling.max_pool_backward(out, indices, x.shape)):
        assert pooling.is_channels_last(y)
    want = pooling.max_pool_backward(out.contiguous(), indices.contiguous(), x.shape).numpy()
    np.testing.assert_array_equal(pooling.max_pool_backward(out, indices, x.shape).numpy(), want)
    every_second = from_numpy(np.repeat(x, 2, axis=-1))[..., ::2]
    np.testing.assert_array_equal(pooling.max_pool(every_second, *params)[1].numpy(),
                                  indices.numpy())  # fmt: skip
    expanded = from_numpy(np.ones((1, 1, *(1,) * len(spatial)), np.float32)).expand(*out.shape)
    got = pooling.max_pool_backward(expanded, indices, x.shape).numpy()
    ones = from_numpy(np.ones(out.shape, np.float32))
    np.testing.assert_array_equal(got, pooling.max_pool_backward(ones, indices, x.shape).numpy())


def test_64_bit_offsets(monkeypatch):
    monkeypatch.setattr(pooling, "is_wide", lambda *arrays: True)
    for case in ("2d", "large windows"):
        x = numbers((1, 2, *CASES[case][0]))
        check_max(x, case)
        check_avg(x, case, False)
        check_adaptive(x, (2,) * (x.ndim - 2))


def test_empty():
    x = numbers((0, 3, 4, 4))
    compare("pooling", "max_pool", x, (2, 2), (2, 2), (0, 0), (1, 1), False)
    compare("pooling", "avg_pool", x, (2, 2), (2, 2), (0, 0), False, True, None)
    compare("pooling", "adaptive_avg_pool", numbers((2, 3, 4, 4)), (0, 2))
    g = _C.empty((2, 3, 0, 2), from_numpy(x).dtype)
    got = pooling.adaptive_avg_pool_backward(g, (2, 3, 4, 4)).numpy()
    np.testing.assert_array_equal(got, np.zeros((2, 3, 4, 4), np.float32))


def test_tiles_are_powers_of_two():
    for n_windows in (1, 100, 10**6):
        for taps in (1, 9, 49, 1000):
            for across in (True, False):
                for size in pooling.tile(n_windows, taps, across):
                    assert 1 <= size <= 512 and size & (size - 1) == 0
