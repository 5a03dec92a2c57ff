"""Normalisation on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, bfloat16, compare, numbers
from tritorch.gpu import norm

pytestmark = pytest.mark.device


@pytest.fixture(params=["rows", "looped"])
def path(request, monkeypatch):
    """Both kernels: the one for long rows with blocks so small that it loops."""
    if request.param == "looped":
        monkeypatch.setattr(norm, "row_blocks", lambda n_rows, n_cols, inner: (True, 2, 8, 4))


def affine(shape, kind, present=True):
    return (numbers(shape, kind, 5), numbers(shape, kind, 6)) if present else (None, None)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("shape", [((5, 19), 1), ((2, 3, 4, 6), 2)])
def test_layer_norm(kind, shape, path):
    shape, n = shape
    for x in (numbers(shape, kind), numbers(shape[::-1], kind).transpose()):
        for present in (True, False):
            w, b = affine(shape[-n:], kind, present)
            _, mean, rstd = compare("norm", "layer_norm", x, n, w, b, 1e-5)
            compare("norm", "layer_norm_backward", numbers(shape, kind, 1), x, n, w, mean, rstd)
            _, rstd = compare("norm", "rms_norm", x, n, w, 1e-6)
            compare("norm", "rms_norm_backward", numbers(shape, kind, 1), x, n, w, rstd)


def test_mean_far_from_zero():
    x = numbers((3, 40)) + np.float32(1000)
    compare("norm", "layer_norm", x, 1, None, None, 1e-5, tolerance=1e-3)
    compare("norm", "batch_norm", x, None, None, None, None, True, 1e-5, tolerance=2e-3)


@pytest.mark.parametrize("kind", [np.float32, bfloat16])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm(kind, groups, path):
    for shape in ((3, 6, 4, 5), (2, 6)):
        x, g = numbers(shape, kind), numbers(shape, kind, 1)
        for present in (True, False):
            w, b = affine((6,), kind, present)
            _, mean, rstd = compare("norm", "group_norm", x, groups, w, b, 1e-5)
            compare("norm", "group_norm_backward", g, x, groups, w, mean, rstd)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(kind, training):
    running = np.float64 if kind is np.float64 else np.float32
    for x in (numbers((5, 3, 4, 6), kind), numbers((37, 3), kind), numbers((6, 3, 5), kind)):
        g, (w, b) = numbers(x.shape, kind, 1), affine((3,), kind)
        given = numbers((3,), running, 7), np.abs(numbers((3,), running, 8)) + running(0.5)
        for weight, bias in ((w, b), (None, None)):
            _, mean, rstd, _ = compare(
                "norm", "batch_norm", x, weight, bias, *given, training, 1e-5
            )
            compare("norm", "batch_norm_backward", g, x, weight, mean, rstd, training)


def test_channels_are_summed_in_parts(monkeypatch):
    monkeypatch.setattr(norm, "channel_blocks", lambda c, s, n: (2, 8, -(-n // 16), 16))
    x, g = numbers((7, 5, 9)), numbers((7, 5, 9), seed=1)
    _, mean, rstd, _ = compare("norm", "batch_norm", x, None, None, None, None, True, 1e-5)
    compare("norm", "batch_norm_backward", g, x, None, mean, rstd, True)
    _, mean, rstd = compare("norm", "layer_norm", x, 1, None, None, 1e-5)
    compare("norm", "layer_norm_backward", g, x, 1, None, mean, rstd)


def test_parts_cover_the_channel():
    for c in (1, 3, 1000, 10**5):
        for spatial in (1, 15, 16, 10**4):
            for n in (1, 100, 10**7):
                block_c, block_k, splits, per = norm.channel_blocks(c, spatial, n)
                assert per % block_k == 0 and (splits - 1) * per < n <= splits * per
                assert block_c & (block_c - 1) == 0


def test_empty():
    compare("norm", "layer_norm", np.zeros((0, 4), np.float32), 1, None, None, 1e-5)
    x, mean = np.zeros((0, 4), np.float32), np.zeros(0, np.float32)
    compare("norm", "layer_norm_backward", x, x, 1, np.ones(4, np.float32), mean, mean)
