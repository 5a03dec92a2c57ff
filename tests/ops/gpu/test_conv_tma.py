"""Convolutions by the copy engine, of few channels and of one channel a group, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from tests.ops.gpu_reference import compare, numbers, on_device
from tritorch.cuda import from_numpy
from tritorch.gpu.linalg.matmul import Epilogue, machine
from tritorch.gpu.nn import conv, conv_plan, conv_tma
from tritorch.gpu.nn.images import new_images
from tritorch.host.nn import conv as cpu_conv
from tritorch.triton import kernel as kernels

pytestmark = pytest.mark.device

BF16 = np.dtype(ml_dtypes.bfloat16)

# channels in, out, groups, spatial, kernel, stride, padding, dilation
CASES = {
    "3x3": (32, 24, 1, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "stride": (64, 32, 1, (6, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
    "one tap, stride": (32, 16, 1, (6, 4), (1, 1), (2, 2), (0, 0), (1, 1)),
    "dilation": (16, 40, 1, (7, 6), (3, 2), (1, 1), (2, 0), (2, 3)),
    "two strides": (32, 32, 1, (6, 9), (4, 3), (2, 3), (1, 0), (1, 1)),
    "groups": (64, 64, 2, (4, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "1d": (32, 16, 1, (12,), (5,), (1,), (2,), (1,)),
}  # fmt: skip


def last(x):
    """The same array with its channels side by side in memory."""
    moved = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    return np.moveaxis(moved, -1, 1)


@pytest.fixture
def launched(monkeypatch):
    """The names of the kernels that were launched, in the order of their first launches."""
    seen = {}

    def spy(family, name):
        seen[name] = True
        return kernels.kernel(family, name)

    for module in (conv, conv_tma, conv.depthwise):
        monkeypatch.setattr(module, "kernel", spy)
    return seen


def arrays(case, seed=0):
    c, o, groups, spatial, kernel, stride, padding, dilation = case
    x = last(numbers((3, c, *spatial), BF16, seed))
    weight = last(numbers((o, c // groups, *kernel), BF16, seed + 1))
    return x, weight, numbers((o,), BF16, seed + 2), (stride, padding, dilation)


@pytest.mark.parametrize("case", CASES)
def test_forward_and_gradients(case, launched):
    if machine(0)[0] < 90:
        pytest.skip("this GPU has no copy engine")
    x, w, bias, geometry = arrays(CASES[case])
    params = (*geometry, False, (0,) * (x.ndim - 2), CASES[case][2])
    out = compare("conv", "convolution", x, w, bias, *params, tolerance=1e-1)
    assert list(launched) == ["conv_tma"]
    g = last(numbers(out.shape, BF16, 3))
    compare("conv", "convolution_input", g, x.shape, w, *params, tolerance=1e-1)
    compare("conv", "convolution_weight", g, x, w.shape, *params, tolerance=1e-1)
    assert list(launched) == ["conv_tma", "conv_weight" if case == "groups" else "conv_weight_tma"]


def test_odd_sides_go_through_pointers(launched):
    x, w, bias, geometry = arrays((64, 32, 1, (7, 7), (3, 3), (2, 2), (1, 1), (1, 1)))
    compare("conv", "convolution", x, w, bias, *geometry, False, (0, 0), 1, tolerance=1e-1)
    assert list(launched) == ["conv"]


@pytest.mark.parametrize("how", ["contiguous", "last"])
def test_a_single_tap_is_a_product(how, launched):
    x, w = numbers((2, 20, 3, 4)), numbers((9, 20, 1, 1), seed=1)
    x = last(x) if how == "last" else x
    params = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    compare("conv", "convolution", x, w, numbers((9,), seed=2), *params, tolerance=1e-4)
    g = numbers((2, 9, 3, 4), seed=3)
    g = last(g) if how == "last" else g
    compare("conv", "convolution_input", g, x.shape, w, *params, tolerance=1e-4)
    assert not launched
    out = conv.convolution(on_device(x), from_numpy(w), None, *params)
    assert out.is_contiguous() == (how == "contiguous")


def test_images_with_dense_columns_are_turned_where_it_pays(launched):
    x, w = numbers((1, 64, 3, 4), BF16), numbers((64, 64, 3, 3), BF16, 1)
    params = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    out = compare("conv", "convolution", x, w, None, *params, tolerance=1e-1)
    compare("conv", "convolution_weight", out, x, w.shape, *params, tolerance=2e-1)
    if machine(0)[0] >= 90:
        assert list(launched) == ["conv_tma", "conv_weight_tma"]
    assert conv.convolution(from_numpy(x), from_numpy(w), None, *params).is_contiguous()


@pytest.mark.parametrize(("kind", "case"), [
    (BF16, (3, 16, 1, (9, 8), (7, 7), (2, 2), (3, 3), (1, 1))),
    (np.float16, (3, 20, 1, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1))),
    (BF16, (2, 16, 1, (3, 4, 6), (2, 2, 3), (1, 1, 2), (1, 0, 1), (1, 1, 1))),
])  # fmt: skip
def test_rows_of_few_channels_are_packed(kind, case, launched):
    c, o, groups, spatial, kernel, stride, padding, dilation = case
    for change in (last, lambda x: x):
        x = change(numbers((2, c, *spatial), kind))
        w = numbers((o, c, *kernel), kind, 1)
        params = (stride, padding, dilation, False, (0,) * len(spatial), groups)
        out = compare("conv", "convolution", x, w, numbers((o,), kind, 2), *params, tolerance=1e-1)
        assert list(launched) == ["pack_rows", "conv"]
        compare("conv", "convolution_weight", out, x, w.shape, *params, tolerance=2e-1)
        assert list(launched) == ["pack_rows", "conv", "conv_weight"]
        launched.clear()


# channels in, out, spatial, kernel, stride, padding, dilation
SINGLE = {
    "3x3": (10, 10, (9, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "stride": (5, 5, (9, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
    "dilation": (8, 8, (9, 8), (3, 2), (2, 1), (2, 1), (1, 2)),
    "two a group": (3, 6, (6, 5), (2, 3), (1, 2), (1, 1), (1, 1)),
    "one image": (1, 4, (6, 5), (3, 3), (1, 1), (0, 1), (1, 1)),
    "1d": (6, 6, (11,), (5,), (2,), (2,), (1,)),
}  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("change", [last, np.asarray])
@pytest.mark.parametrize("case", SINGLE)
def test_one_channel_a_group(case, change, transposed, launched):
    c, o, spatial, kernel, stride, padding, dilation = SINGLE[case]
    x = change(numbers((2, c, *spatial)))
    w = numbers((c if transposed else o, o // c if transposed else 1, *kernel), seed=1)
    params = (stride, padding, dilation, transposed, (0,) * len(spatial), c)
    bias = numbers((o,), seed=2)
    out = compare("conv", "convolution", x, w, bias, *params, tolerance=1e-4)
    g = change(numbers(out.shape, seed=3))
    compare("conv", "convolution_input", g, x.shape, w, *params, tolerance=1e-4)
    compare("conv", "convolution_weight", g, x, w.shape, *params, tolerance=1e-4)
    assert next(iter(launched)) == "depthwise"
    if c == o:
        assert list(launched) == ["depthwise", "depthwise_weight"]


def test_the_layout_of_the_weight_counts():
    x, w, _, geometry = arrays(CASES["3x3"])
    out = conv.convolution(from_numpy(x), on_device(w), None, *geometry, False, (0, 0), 1)
    assert out.strides == new_images(out.shape, out, True).strides


@pytest.mark.parametrize("pixels", [64, 128, 256])
@pytest.mark.parametrize("images", [(64, 56, 56), (64, 7, 7), (1, 1, 200704), (3, 13, 10)])
def test_boxes_waste_little(pixels, images):
    box = conv_plan.box_of(pixels, *images)
    assert np.prod(box) == pixels
    assert conv_plan.count_boxes(box, *images) * pixels <= 1.7 * np.prod(images) + pixels


def test_cuts_fill_the_device():
    plan = conv_plan.choose((64, 56, 56), 64, 64, 9, 1, 2, 132)
    assert plan.splits == 1 and plan.tiles >= 132 and plan.block_k == 64
    few = conv_plan.choose((1, 7, 7), 512, 512, 9, 1, 2, 132)
    assert few.splits > 1 and few.box[0] == 1
    weight = conv_plan.choose_weight((64, 56, 56), 64, 64, 9, 1, 2, 132)
    assert weight.tiles * weight.splits >= 120
    assert conv_plan.depth_of(96, 2) == 32 and conv_plan.depth_of(20, 2) == 32
    assert conv_plan.worth_turning(64, 64, 9, 1) and not conv_plan.worth_turning(64, 64, 1, 1)


def test_parts_are_added_and_endings_come_last(monkeypatch):
    if machine(0)[0] < 90:
        pytest.skip("this GPU has no copy engine")
    plan, weight_plan = conv_tma.choose, conv_tma.choose_weight
    cut = {"box": (2, 4, 8), "splits": 1}
    monkeypatch.setattr(conv_tma, "choose", lambda *given: plan(*given)._replace(**cut))
    monkeypatch.setattr(
        conv_tma, "choose_weight", lambda *given: weight_plan(*given)._replace(splits=2)
    )
    case = (32, 16, 1, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1))
    x, w, bias, geometry = arrays(case)
    params = (*geometry, False, (0, 0), 1)
    plain = compare("conv", "convolution", x[:2], w, bias, *params, tolerance=1e-1)
    compare("conv", "convolution_weight", plain, x[:2], w.shape, *params, tolerance=2e-1)
    residual = last(numbers(plain.shape, BF16, 5))
    rows = on_device(residual).permute(0, 2, 3, 1).reshape(1, 60, 16)
    a, b = on_device(last(np.ascontiguousarray(x[:2]))), on_device(w)
    fixed = cpu_conv.convolution(x[:2], w, None, *params).astype(np.float32)
    want = np.maximum(fixed + residual.astype(np.float32), 0)
    for parts in (1, 2):
        cut["splits"] = parts
        out = new_images(plain.shape, a, True)
        epilogue = Epilogue(rows, activation="relu")
        assert conv_tma.convolve(a, b, out, *geometry, 1, False, "ieee", epilogue)
        np.testing.assert_allclose(out.numpy().astype(np.float32), want, rtol=1e-1, atol=1e-1)
    x[:, :, 4, 0] = np.inf  # which a step past the last tap would read two rows above
    far = np.ones(plain.shape, bool)
    far[:, :, 3:, :2] = False
    out = new_images(plain.shape, a, True)
    a = on_device(last(np.ascontiguousarray(x[:2])))
    assert conv_tma.convolve(a, b, out, *geometry, 1, False, "ieee", Epilogue(rows))
    assert np.array_equal(np.isfinite(out.numpy().astype(np.float32)), far)
