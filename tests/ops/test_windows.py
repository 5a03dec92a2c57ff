"""torch.signal.windows against PyTorch's recorded values; torch.hann_window and its like."""

import pathlib

import numpy as np
import pytest

import tritorch as torch
from tritorch.signal import windows

RECORDED = np.load(pathlib.Path(__file__).parent / "special.npz")


@pytest.mark.parametrize("name", windows.__all__)
def test_values(name):
    options = {"a": [0.4, 0.3, 0.2]} if name == "general_cosine" else {}
    for key in RECORDED.files:
        if key.startswith(f"window {name} "):
            length, sym = map(int, key.split()[2:])
            made = getattr(windows, name)(length, sym=bool(sym), dtype=torch.float64, **options)
            np.testing.assert_allclose(made.numpy(), RECORDED[key], rtol=1e-12, atol=1e-14)


def test_parameters():
    assert windows.kaiser(5).dtype is torch.float32
    assert windows.hann(5, requires_grad=True).requires_grad
    np.testing.assert_allclose(windows.exponential(3, center=0, tau=2.0, sym=False),
                               np.exp(-np.arange(3) / 2), rtol=1e-6)  # fmt: skip
    np.testing.assert_allclose(windows.gaussian(3, std=0.5), np.exp([-2, 0, -2]), rtol=1e-6)


def test_old_names():
    for old, new in (("hann", "hann"), ("hamming", "hamming"), ("blackman", "blackman"),
                     ("bartlett", "bartlett"), ("kaiser", "kaiser")):  # fmt: skip
        function = getattr(torch, f"{old}_window")
        for periodic in (True, False):
            want = getattr(windows, new)(6, sym=not periodic)
            assert torch.equal(function(6, periodic), want)
        assert function(0).shape == (0,) and function(1).item() == 1
        assert function(4, dtype=torch.float16).dtype is torch.float16
    by_place, by_name = torch.hamming_window(5, True, 0.5, 0.4), torch.hamming_window(5, beta=0.4)
    np.testing.assert_allclose(by_place[0], 0.1, rtol=1e-6)
    np.testing.assert_allclose(by_name[0], 0.14, rtol=1e-6)
    assert torch.equal(torch.kaiser_window(5, beta=3.0), torch.kaiser_window(5, True, 3.0))


def test_errors():
    for call, error, text in (
        (lambda: windows.hann(-1), ValueError, "general_cosine requires non-negative window len"),
        (lambda: windows.kaiser(5, beta=-1), ValueError, "beta must be non-negative, got: -1 inst"),
        (lambda: windows.gaussian(5, std=0), ValueError, "Standard deviation must be positive"),
        (lambda: windows.exponential(5, center=1.0), ValueError, "Center must be None for symmet"),
        (lambda: windows.cosine(5, dtype=torch.float16), ValueError, "cosine expects float32 or f"),
        (lambda: windows.general_cosine(5, a=[]), ValueError, "Coefficients cannot be empty"),
        (lambda: windows.general_cosine(5, a=3.0), TypeError, "Coefficients must be a list/tuple"),
        (lambda: torch.hann_window(-1), RuntimeError, "requires non-negative window_length, got"),
        (lambda: torch.hann_window(5, dtype=torch.int64), RuntimeError, "expects floating point"),
        (lambda: torch.kaiser_window(5.0), TypeError, r"\(position 1\) must be int, not float"),
        (lambda: torch.hann_window(5, alpha=1), TypeError, "unexpected keyword argument 'alpha'"),
    ):
        with pytest.raises(error, match=text):
            call()
