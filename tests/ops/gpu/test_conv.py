"""Convolutions on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, compare, numbers
from tritorch.cuda import from_numpy
from tritorch.gpu.linalg import matmul
from tritorch.gpu.nn import conv

pytestmark = pytest.mark.device

# channels in, out, groups, spatial, kernel, stride, padding, dilation
CASES = {
    "1d": (3, 5, 1, (11,), (3,), (2,), (1,), (1,)),
    "2d": (3, 5, 1, (9, 7), (3, 2), (1, 2), (1, 0), (1, 1)),
    "3d": (2, 10, 1, (4, 5, 6), (2, 3, 1), (2, 1, 1), (1, 1, 0), (1, 2, 1)),
    "many channels": (34, 18, 1, (5, 6), (3, 3), (2, 1), (1, 1), (1, 1)),
    "pointwise": (20, 17, 1, (4, 5), (1, 1), (1, 1), (0, 0), (1, 1)),
    "groups": (36, 34, 2, (5, 4), (2, 3), (1, 1), (1, 1), (2, 1)),
    "depthwise": (6, 12, 6, (7, 6), (3, 3), (2, 1), (1, 1), (1, 2)),
    "depthwise of few": (2, 4, 2, (5, 4), (3, 3), (2, 1), (1, 1), (1, 2)),
    "stride beyond the kernel": (18, 20, 1, (7, 8), (2, 1), (3, 2), (0, 0), (1, 1)),
    "stride and dilation": (4, 6, 1, (13,), (4,), (4,), (3,), (2,)),
}


def arguments(case, kind, transposed, extra=0):
    c, o, groups, spatial, kernel, stride, padding, dilation = CASES[case]
    if transposed:
        weight = numbers((c, o // groups, *kernel), kind, 1)
    else:
        weight = numbers((o, c // groups, *kernel), kind, 1)
    x = numbers((2, c, *spatial), kind)
    bias = numbers((o,), kind, 2)
    padded = tuple(min(extra, s - 1) for s in stride)
    return x, weight, bias, (stride, padding, dilation, transposed, padded, groups)


def check_all(x, weight, bias, params, without_bias=True):
    tolerance = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4}.get(x.dtype.name)
    out = compare("conv", "convolution", x, weight, bias, *params, tolerance=tolerance)
    if without_bias:
        compare("conv", "convolution", x, weight, None, *params, tolerance=tolerance)
    g = numbers(out.shape, x.dtype, 3)
    compare("conv", "convolution_input", g, x.shape, weight, *params, tolerance=tolerance)
    compare("conv", "convolution_weight", g, x, weight.shape, *params, tolerance=tolerance)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_forward_and_gradients(case, transposed):
    check_all(*arguments(case, np.float32, transposed, extra=1))


@pytest.mark.parametrize("kind", [*FLOATS, np.complex64, np.int64])
@pytest.mark.parametrize("case", ["2d", "many channels", "depthwise of few"])
def test_types(case, kind):
    if np.dtype(kind).kind == "i" and case == "many channels":
        case = "1d"
    for transposed in (False, True):
        check_all(*arguments(case, kind, transposed), without_bias=False)


@pytest.mark.parametrize("case", ["2d", "many channels", "depthwise", "groups"])
def test_reads_any_strides_and_keeps_channels_last(case):
    x, weight, bias, params = arguments(case, np.float32, False)
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    check_all(np.moveaxis(last, -1, 1), weight, bias, params)
    out = conv.convolution(from_numpy(last).permute(0, 3, 1, 2), from_numpy(weight), None, *params)
    assert out.permute(0, 2, 3, 1).is_contiguous() and not out.is_contiguous()
    every_second = from_numpy(np.repeat(x, 2, axis=3))[..., ::2]
    got = conv.convolution(every_second, from_numpy(weight), None, *params).numpy()
    np.testing.assert_allclose(got, out.numpy(), rtol=1e-4, atol=1e-4)


def test_few_tiles_split_the_sum(monkeypatch):
    seen = []
    finish = matmul._finish

    def spy(out, partial, splits):
        seen.append(splits)
        finish(out, partial, splits)

    monkeypatch.setattr(matmul, "_finish", spy)
    x, w = numbers((1, 64, 3, 3)), numbers((17, 64, 3, 3), seed=1)
    params = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    check_all(x, w, numbers((17,)), params)
    assert max(seen) > 1
    del seen[:]
    x, w = numbers((3, 5, 20, 20)), numbers((4, 5, 1, 1), seed=1)
    compare("conv", "convolution_weight", numbers((3, 4, 20, 20)), x, w.shape, (1, 1), (0, 0),
            (1, 1), False, (0, 0), 1, tolerance=1e-4)  # fmt: skip
    assert max(seen) > 1


@pytest.mark.parametrize("shapes", [
    ((0, 3, 4, 4), (5, 3, 2, 2)), ((2, 0, 4, 4), (5, 0, 2, 2)), ((2, 3, 4, 4), (0, 3, 2, 2)),
])  # fmt: skip
def test_empty(shapes):
    x, w = (numbers(shape) for shape in shapes)
    check_all(x, w, numbers((w.shape[0],)), ((1, 1), (0, 0), (1, 1), False, (0, 0), 1))


def test_tiles_are_powers_of_two():
    for n_out in (1, 16, 100, 2048):
        for n_cols in (1, 50, 10**6):
            for by_tap, fast in ((True, True), (False, True), (True, False)):
                block_out, block_cols, warps, _ = conv.blocks(n_out, n_cols, by_tap, fast)
                for block in (block_out, block_cols):
                    assert 16 <= block <= 128 and block & (block - 1) == 0
                assert warps in (4, 8)
