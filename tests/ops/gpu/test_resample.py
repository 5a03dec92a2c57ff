"""Resampling on the GPU against NumPy, and what it must do whatever the table."""

import numpy as np
import pytest

import tritorch as torch
from tests.ops.gpu_reference import FLOATS, compare, numbers
from tritorch.gpu.nn import resample as gpu
from tritorch.host.nn.resample import table
from tritorch.nn import functional as F
from tritorch.ops.record.backends import backend

KINDS = ["bicubic", "bicubic_aa", "bilinear_aa", "lanczos_aa"]


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_as_on_the_host(kind, dtype):
    for x in (numbers((2, 3, 4, 7), dtype), numbers((2, 3, 7, 4), dtype).swapaxes(2, 3)):
        for m, scale in ((11, None), (3, 0.5), (1, None)):
            out = compare("resample", "resample", x, 3, 7, m, scale, False, kind, False)
            compare("resample", "resample", out, 3, 7, m, scale, False, kind, True)
        compare("resample", "resample", x, 2, 4, 9, None, True, kind, False)


@pytest.mark.device
def test_64_bit_offsets(monkeypatch):
    monkeypatch.setattr(gpu, "is_wide", lambda *arrays: True)
    compare("resample", "resample", numbers((1, 2, 3, 5)), 2, 3, 5, None, False, "bicubic", False)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_add_up_to_one_and_gradients_are_the_transpose(kind):
    for n, m in ((5, 12), (40, 3), (6, 6), (1, 4)):
        begin, weights = table(n, m, None, False, kind, False)
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-12)
        dense = np.zeros((m, n + 99))
        back = np.zeros((n, m + 99))
        for target, (first, rows) in ((dense, (begin, weights)),
                                      (back, table(n, m, None, False, kind, True))):  # fmt: skip
            for i, row in enumerate(rows):
                target[i, first[i] : first[i] + len(row)] = row
        np.testing.assert_allclose(dense[:, :n], back[:, :m].T)


def test_many_taps_are_one_product(monkeypatch):
    x = numbers((1, 1, 2, 90), np.float64)
    args = (3, 90, 4, None, False, "bicubic_aa", False)
    few = backend("cpu", "resample").resample(x, *args)
    monkeypatch.setattr("tritorch.host.nn.resample._FEW", 1000)
    many = backend("cpu", "resample").resample(x, *args)
    np.testing.assert_allclose(few, many)


def test_errors():
    x = torch.zeros(1, 1, 4, 4)
    with pytest.raises(ValueError, match="Lanczos mode requires antialias=True"):
        F.interpolate(x, 3, mode="lanczos")
    with pytest.raises(ValueError, match="restricted to bilinear, bicubic, and lanczos modes"):
        F.interpolate(x[0], 3, mode="linear", antialias=True)
    with pytest.raises(NotImplementedError, match="Got 4D input, but trilinear mode needs 5D"):
        F.interpolate(x, 3, mode="trilinear")
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.interpolate(x.long(), 3, mode="bicubic")
