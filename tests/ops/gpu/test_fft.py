"""Fourier transforms on the GPU against NumPy's: lengths, dims, strides, and what is launched."""

import numpy as np
import pytest

import tritorch as torch
from tritorch.cuda import from_numpy
from tritorch.gpu import by_host
from tritorch.gpu.fft import fft, fft_plan

pytestmark = pytest.mark.device
KINDS = {np.float32: (np.complex64, 1e-6), np.float64: (np.complex128, 5e-15)}
RNG = np.random.default_rng(0)


def reals(shape, kind=np.float64):
    return RNG.standard_normal(shape).astype(kind)


def numbers(shape, kind=np.complex128):
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(kind)


def agree(got, want, tolerance):
    assert got.shape == want.shape
    assert np.linalg.norm(got.numpy() - want) <= tolerance * np.linalg.norm(want)


def check(n, kind, rows=3):
    """All transforms of a length, along the last dim."""
    wide, tolerance = KINDS[kind]
    z, x, half = numbers((rows, n), wide), reals((rows, n), kind), numbers((rows, n // 2 + 1), wide)
    on_gpu, exact = from_numpy(z), z.astype(complex)
    agree(fft.c2c(on_gpu, (1,), 0, True), np.fft.fft(exact), tolerance)
    agree(fft.c2c(on_gpu, (1,), 2, False), np.fft.ifft(exact), tolerance)
    exact = x.astype(float)
    agree(fft.r2c(from_numpy(x), (1,), 1, True), np.fft.rfft(exact, norm="ortho"), tolerance)
    agree(fft.r2c(from_numpy(x), (1,), 0, False), np.fft.fft(exact), tolerance)
    got = fft.c2r(from_numpy(half), (1,), 2, n)
    agree(got, np.fft.irfft(half.astype(complex), n), tolerance)


@pytest.fixture
def short_programs(monkeypatch):
    """Lines of some hundred points take the ways of long ones."""
    monkeypatch.setattr(fft_plan, "LIMIT", {4: 64, 8: 32})
    monkeypatch.setattr(fft, "LIMIT", fft_plan.LIMIT)
    fft_plan.halved.cache_clear()
    yield
    fft_plan.halved.cache_clear()


# Of one radix, of several, of odd ones; primes, whose halves or they themselves are convolutions.
@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 34, 143])
def test_lengths(n):
    check(n, np.float64)


@pytest.mark.parametrize("n", [16, 37, 512])
def test_lengths_in_float32(n):
    check(n, np.float32)


@pytest.mark.parametrize("n", [120, 1024, 67, 134])
def test_long_lines_are_transformed_in_two_steps(n, short_programs):
    check(n, np.float64)


def test_long_lines():
    z = numbers((2, 16384), np.complex64)
    got = fft.c2c(from_numpy(z), (1,), 0, True)
    agree(got, np.fft.fft(z.astype(complex)), 1e-6)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1), (0, 2), (0, 1, 2)])
def test_dims_and_strides(dims, short_programs):
    """Any dims of any layout, the result where PyTorch has it."""
    whole = numbers((6, 40, 5))
    turned = lambda a: a.transpose(2, 0, 1) if isinstance(a, np.ndarray) else a.permute(2, 0, 1)
    for view in (lambda a: a, turned, lambda a: a[:, ::2]):
        x, on_gpu = view(whole), view(from_numpy(whole))
        agree(fft.c2c(on_gpu, dims, 1, True), np.fft.fftn(x, axes=dims, norm="ortho"), 5e-15)
        real = fft.r2c(view(from_numpy(whole.real)), dims, 0, True)
        agree(real, np.fft.rfftn(x.real, axes=dims), 5e-15)
        agree(fft.c2r(real, dims, 2, x.shape[dims[-1]]), x.real, 5e-15)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "ihfft", "hfft", "fftn", "irfftn"])
def test_public_functions_agree_with_the_cpu(name):
    function = getattr(torch.fft, name)
    x = torch.from_numpy(reals((3, 10)))
    if name in ("irfft", "hfft", "fftn", "irfftn"):
        x = x + 1j * x.flip(0)
    size = {"s": (4, 14)} if name.endswith("n") else {"n": 14}
    by_host.via_host.clear()
    for options in ({}, size, {**size, "norm": "forward"}):
        want, got = function(x, **options), function(x.cuda(), **options)
        torch.testing.assert_close(got.cpu(), want, rtol=1e-12, atol=1e-13)
        assert got.stride() == want.stride()
    assert not by_host.via_host


def test_empty_batches():
    x = torch.ones(0, 4, device="cuda")
    assert torch.fft.fft(x).shape == (0, 4)
    assert torch.fft.rfft(x).shape == (0, 3)
    assert torch.fft.irfft(x).shape == (0, 6)


def test_infinities_stay_in_their_lines():
    x = numbers((3, 30))
    x[1, 4] = np.inf
    got = fft.c2c(from_numpy(x), (1,), 0, True).numpy()
    assert np.isfinite(got[[0, 2]]).all() and not np.isfinite(got[1]).any()


def test_transforms_are_captured():
    x = torch.randn(3, 34, device="cuda", dtype=torch.float64)
    torch.fft.irfft(torch.fft.rfft(x))  # tables are made
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.fft.irfft(torch.fft.rfft(x) * 2)
    x.fill_(0).add_(torch.arange(34, device="cuda"))
    graph.replay()
    torch.testing.assert_close(y, 2 * x)


# ---- plans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("itemsize", [4, 8])
def test_stages_multiply_to_the_length(itemsize):
    for n in range(1, 3000):
        found = fft_plan.stages(n, itemsize)
        rest = n
        for prime in (2, 3, 5, 7, 11, 13):
            while rest % prime == 0:
                rest //= prime
        assert (found is None) == (rest > 1)
        if found is not None:
            assert np.prod(found.radices) == n and max(found.radices) <= 16
            assert found.spans[-1] == 1


def test_programs_hold_what_registers_do():
    for itemsize, limit in fft_plan.LIMIT.items():
        for n in (*range(1, 200), 1000, 2048, limit):
            line = fft_plan.stages(n, itemsize)
            for n_lines in (1, 7, 1000, 10**6) if line else ():
                rows, warps, programs = fft_plan.tile(line, n_lines, itemsize, False)
                assert rows & rows - 1 == 0 and 1 <= warps <= 16 and programs * rows >= 1
                assert rows * line.points <= 32 * warps * max(line.radices[0], 8) * 2


@pytest.mark.parametrize("itemsize", [4, 8])
def test_long_lines_are_two_of_one_program(itemsize):
    limit = fft_plan.LIMIT[itemsize]
    for bits in range(limit.bit_length(), 2 * limit.bit_length() - 2):
        first, second = fft_plan.halved(1 << bits, itemsize)
        assert first * second == 1 << bits and first <= second <= 2 * first
    assert fft_plan.halved(3 * limit**2, itemsize) is None
