"""grid_sample on the GPU against its composed definition."""

import itertools

import numpy as np
import pytest

import tritorch as torch
from tests.ops.gpu_reference import FLOATS, TOLERANCE, numbers
from tritorch.gpu.nn import grid as gpu
from tritorch.nn import functional as F

pytestmark = pytest.mark.device
INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
MODES = list(itertools.product(INTERPOLATIONS, PADDINGS, (False, True)))


def check(shape, size, mode, padding, align, kind=np.float32, change=lambda x: x):
    values = (
        numbers((*shape[:2], *shape[2:]), kind),
        (1.3 * numbers((shape[0], *size), np.float64, 1)),
    )
    results = []
    for device in ("cpu", "cuda"):
        x = change(torch.tensor(values[0], device=device)).detach().requires_grad_()
        grid = torch.tensor(values[1].astype(kind), device=device).requires_grad_()
        out = F.grid_sample(x, grid, mode, padding, align)
        (out * out).sum().backward()
        results.append([t.detach().cpu().double().numpy() for t in (out, x.grad, grid.grad)])
    allowed = 4 * TOLERANCE.get(np.dtype(kind).name, 1e-10)
    for cpu, cuda in zip(*results):
        np.testing.assert_allclose(cuda, cpu, rtol=allowed, atol=allowed * max(abs(cpu).max(), 1))


@pytest.mark.parametrize(("mode", "padding", "align"), MODES)
def test_modes(mode, padding, align):
    check((2, 3, 4, 5), (3, 2, 2), mode, padding, align)
    if mode != "bicubic":
        check((1, 2, 3, 1, 4), (2, 3, 2, 3), mode, padding, align)


@pytest.mark.parametrize("kind", FLOATS)
def test_types(kind):
    check((1, 2, 3, 4), (3, 2, 2), "bilinear", "zeros", False, kind)


def test_strides_offsets_and_many_channels(monkeypatch):
    monkeypatch.setattr(gpu, "is_wide", lambda *arrays: True)
    monkeypatch.setattr(gpu, "_CHANNELS", 2)
    check((2, 5, 4, 3), (2, 2, 2), "bilinear", "border", True, change=lambda x: x.flip(0))
    check((2, 5, 4, 3), (2, 2, 2), "bicubic", "zeros", False, change=lambda x: x.mT.contiguous().mT)


def test_empty():
    x = torch.zeros(2, 0, 3, 3, device="cuda", requires_grad=True)
    grid = torch.zeros(2, 2, 2, 2, device="cuda", requires_grad=True)
    out = F.grid_sample(x, grid, align_corners=False)
    out.sum().backward()
    assert out.shape == (2, 0, 2, 2) and grid.grad.count_nonzero() == 0
