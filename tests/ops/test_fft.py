"""Fourier transforms of sizes that take their own paths, types, batches, memory orders."""

import numpy as np
import pytest

import tritorch as torch


def numbers(shape, kind=np.complex64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(kind).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(kind)


def agree(got, want, tolerance=2e-6):
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= tolerance * max(np.abs(want).max(), 1)


@pytest.mark.parametrize("kind", [np.complex64, np.complex128, np.float32])
@pytest.mark.parametrize("n", [1 << 17, 131_072 + 1024, 150_000, 1 << 18])
def test_long_lines_are_transformed_in_two_steps(n, kind):
    x = numbers((n,), kind)
    tolerance = 1e-14 if kind is np.complex128 else 2e-6
    for norm in (None, "ortho", "forward"):
        got = torch.fft.fft(torch.from_numpy(x), norm=norm)
        agree(got.numpy(), np.fft.fft(x.astype(complex), norm=norm), tolerance)
        agree(torch.fft.ifft(got, norm=norm).numpy(), x.astype(complex), tolerance)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_lines_along_any_dim(dim):
    x = numbers((33, 40, 50))
    for order in ((0, 1, 2), (2, 0, 1)):
        t = torch.from_numpy(x).permute(order)
        agree(torch.fft.fft(t, dim=dim).numpy(), np.fft.fft(x.transpose(order), axis=dim))
        real = t.real
        agree(torch.fft.rfft(real, dim=dim).numpy(), np.fft.rfft(real.numpy(), axis=dim))
        agree(torch.fft.irfft(t, dim=dim).numpy(), np.fft.irfft(x.transpose(order), axis=dim))


def test_results_do_not_depend_on_threads():
    x = torch.from_numpy(numbers((300, 700)))
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append((torch.fft.fft2(x), torch.fft.rfft2(x.real), torch.fft.irfft2(x)))
        assert all(a.equal(b) for a, b in zip(*found))
    finally:
        torch.set_num_threads(before)


def test_float32_stays_float32():
    x = torch.ones(3, 4)
    assert torch.fft.rfft(x).dtype is torch.complex64
    assert torch.fft.irfft2(torch.fft.rfft2(x)).dtype is torch.float32
    assert torch.fft.fft(x.double()).dtype is torch.complex128


def test_empty_batches():
    x = torch.ones(0, 4)
    assert torch.fft.fft(x).shape == (0, 4)
    assert torch.fft.rfft(x).shape == (0, 3)
    assert torch.fft.irfft(x).shape == (0, 6)
    assert torch.fft.rfft(x).dtype is torch.complex64
    assert torch.fft.irfft(x).dtype is torch.float32


@pytest.mark.parametrize("name", ["fft", "rfft", "ihfft", "irfft", "hfft", "fft2", "irfftn"])
def test_vmap(name):
    function = getattr(torch.fft, name)
    x = torch.from_numpy(numbers((5, 3, 4), np.float32))
    if name in ("irfft", "hfft", "irfftn"):
        x = x + 1j * x.flip(0)
    got = torch.vmap(function)(x)
    assert torch.allclose(got, torch.stack([function(each) for each in x]))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_there_and_back(norm):
    x = torch.from_numpy(numbers((3, 5, 6), np.float64))
    z = torch.from_numpy(numbers((3, 5, 6), np.complex128))
    for there, back in (("rfftn", "irfftn"), ("ihfftn", "hfftn")):
        half = getattr(torch.fft, there)(x, norm=norm)
        assert torch.allclose(getattr(torch.fft, back)(half, s=x.shape, norm=norm), x)
    assert torch.allclose(torch.fft.ifftn(torch.fft.fftn(z, norm=norm), norm=norm), z)


def test_out_is_resized_and_returned():
    x = torch.from_numpy(numbers((3, 4)))
    out = torch.empty(0, dtype=torch.complex128)
    assert torch.fft.fft(x, out=out) is out
    assert torch.allclose(out, torch.fft.fft(x).to(torch.complex128))


def test_autocast_computes_in_float32():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.fft.rfft(torch.ones(4, dtype=torch.bfloat16)).dtype is torch.complex64


def test_short_transforms_add_up_to_the_signal():
    x = torch.from_numpy(numbers((2, 103), np.float64))
    window = torch.from_numpy(np.hanning(18)[1:-1])
    for options in ({}, {"hop_length": 3}, {"normalized": True}, {"onesided": False}):
        spectra = x.stft(16, window=window, return_complex=True, **options)
        assert torch.allclose(spectra.istft(16, window=window, length=103, **options), x)
    spectra = x.stft(16, 5, 12, window[2:-2], return_complex=True, pad_mode="constant")
    assert torch.allclose(spectra.istft(16, 5, 12, window[2:-2], length=103), x)
