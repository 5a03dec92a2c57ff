"""Interpolation on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, compare, numbers
from tritorch.cuda import from_numpy
from tritorch.gpu.nn import pooling, upsample

pytestmark = pytest.mark.device

# spatial, size, scales
CASES = {
    "1d": ((5,), (12,), (None,)),
    "1d, fewer": ((11,), (4,), (0.4,)),
    "twice": ((3, 4), (6, 8), (2.0, 2.0)),
    "2d": ((5, 4), (7, 3), (None, None)),
    "by a scale": ((4, 5), (10, 6), (2.6, 1.35)),
    "one": ((3, 1), (1, 5), (None, None)),
    "the same": ((3, 4), (3, 4), (1.2, 1.1)),
    "3d": ((2, 3, 4), (3, 5, 2), (None, None, 0.6)),
}


def check_nearest(x, case, exact, back=True):
    _, size, scales = CASES[case]
    out = compare("upsample", "nearest", x, size, scales, exact)
    if back:
        g = numbers(out.shape, x.dtype, 1)
        compare("upsample", "nearest_backward", g, x.shape, scales, exact)


def check_linear(x, case, align, back=True):
    _, size, scales = CASES[case]
    out = compare("upsample", "linear", x, size, scales, align)
    if back:
        g = numbers(out.shape, x.dtype, 1)
        compare("upsample", "linear_backward", g, x.shape, scales, align)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("flag", [False, True])
def test_forward_and_gradients(case, flag):
    x = numbers((2, 3, *CASES[case][0]))
    check_nearest(x, case, flag)
    check_linear(x, case, flag)


@pytest.mark.parametrize("kind", [*FLOATS, np.complex64])
def test_types(kind):
    x = numbers((2, 2, *CASES["2d"][0]), kind)
    check_nearest(x, "2d", False)
    check_linear(x, "2d", False)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int8, np.int32, np.int64])
def test_integers(kind):
    x = numbers((2, 2, *CASES["twice"][0]), kind)
    check_nearest(x, "twice", True, False)
    if kind is not np.bool_:
        check_linear(x, "twice", False, False)


@pytest.mark.parametrize("exact", [False, True])
def test_sources_round_as_float32(exact):
    """The product of an index and a scale that float32 rounds to an integer, or just below."""
    for n, m in ((3, 41), (41, 9), (10, 97)):
        x = numbers((1, 1, n))
        for scale in (None, m / n, m / n + 1e-3):
            compare("upsample", "nearest", x, (m,), (scale,), exact)
            compare("upsample", "nearest_backward", numbers((1, 1, m)), x.shape, (scale,), exact)


@pytest.mark.parametrize("case", ["2d", "3d"])
def test_reads_any_strides_and_keeps_channels_last(case):
    spatial, size, scales = CASES[case]
    x = numbers((2, 3, *spatial))
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    check_nearest(np.moveaxis(last, -1, 1), case, False)
    check_linear(np.moveaxis(last, -1, 1), case, True)
    on_gpu = from_numpy(last).permute(0, x.ndim - 1, *range(1, x.ndim - 1))
    for name in ("nearest", "linear"):
        function, back = getattr(upsample, name), getattr(upsample, f"{name}_backward")
        out = function(on_gpu, size, scales, False)
        g = back(out, x.shape, scales, False)
        assert pooling.is_channels_last(out) and pooling.is_channels_last(g)
        every_second = from_numpy(np.repeat(x, 2, axis=-1))[..., ::2]
        got = function(every_second, size, scales, False).numpy()
        np.testing.assert_array_equal(got, out.numpy())
        one = from_numpy(np.ones((1,) * x.ndim, np.float32)).expand(*out.shape)
        full = from_numpy(np.ones(out.shape, np.float32))
        got = back(one, x.shape, scales, False).numpy()
        np.testing.assert_array_equal(got, back(full, x.shape, scales, False).numpy())


def test_64_bit_offsets_and_places(monkeypatch):
    monkeypatch.setattr(upsample, "is_wide", lambda *arrays: True)
    monkeypatch.setattr(upsample, "_LONG", 0)
    monkeypatch.setattr(upsample, "_margin", lambda size: 3)
    for case in ("3d", "by a scale"):
        x = numbers((2, 3, *CASES[case][0]))
        check_nearest(x, case, False)
        check_linear(x, case, False)


def test_empty():
    x = numbers((0, 3, 4, 4))
    check_nearest(x, "twice", False)
    check_linear(x, "twice", False)
