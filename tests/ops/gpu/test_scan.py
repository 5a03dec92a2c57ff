"""Scans and one-read reductions on the GPU against the CPU's, in rows, columns and segments."""

import numpy as np
import pytest

import tritorch as torch
from tritorch import _C
from tritorch.cuda import from_numpy
from tritorch.gpu.reduce import reduction, scan

pytestmark = pytest.mark.device
SHAPES = [((70,), 0), ((3, 40), 1), ((40, 7), 0), ((2, 5, 20), 1), ((1,), 0), ((300, 3), 0)]


@pytest.fixture
def small_tiles(monkeypatch):
    """The interpreter scans slowly: many segments of few elements instead of long ones."""

    def plan(n_rows, n_cols, along):
        rows, segment = (1, 32) if along else (4, 48)
        return scan._Plan(n_rows, n_cols, -(-n_cols // segment), segment, rows, 16)

    if _C.is_simulated():
        monkeypatch.setattr(scan, "plan", plan)


@pytest.fixture
def short_segments(monkeypatch):
    """Rows of some hundred elements are cut."""
    monkeypatch.setattr(reduction, "_SEGMENT", 256)


def numbers(shape):
    rng = np.random.default_rng(0)
    return torch.tensor(np.round(rng.standard_normal(shape) * 5).astype(np.float32))


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_running_sums_and_products(shape, dim, small_tiles):
    x = numbers(shape)
    assert torch.equal(x.cuda().cumsum(dim).cpu(), x.double().cumsum(dim).float())  # integers
    assert torch.equal(x.long().cuda().cumsum(dim).cpu(), x.long().cumsum(dim))
    y = x * 0.01 + 1
    close = lambda a, b: torch.testing.assert_close(a.cpu(), b, rtol=2e-4, atol=1e-4)
    close(y.cuda().cumprod(dim), y.cumprod(dim))
    close(x.cuda().logcumsumexp(dim), x.logcumsumexp(dim))


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes(shape, dim, name, small_tiles):
    x = numbers(shape)
    with_nan = x.clone()
    with_nan[tuple(n // 2 for n in shape)] = float("nan")
    for each in (x, with_nan, torch.full(shape, float("-inf")), torch.full(shape, float("inf"))):
        got, want = getattr(each.cuda(), name)(dim), getattr(each, name)(dim)
        torch.testing.assert_close(got[0].cpu(), want[0], equal_nan=True)
        assert torch.equal(got[1].cpu(), want[1])


@pytest.mark.parametrize("n", [5, 8192, 9000, 20001])
def test_sums_of_all_before(n):
    x = np.random.default_rng(0).integers(0, 9, n + 1)
    array = from_numpy(x.copy())
    scan.sums_before(array, n)
    assert (array.numpy() == np.concatenate([[0], np.cumsum(x[:-1])])).all()


def test_plans_cover_rows_and_fill_a_gpu():
    for n_rows, n_cols in [(1, 1 << 24), (4096, 4096), (1, 5000), (10**6, 3), (3, 1), (132, 10**5)]:
        for along in (False, True):
            p = scan.plan(n_rows, n_cols, along)
            assert p.segment % p.block_cols == 0 and p.grid[0] * p.block_rows >= n_rows
            assert (p.parts - 1) * p.segment < n_cols <= p.parts * p.segment
            assert p.grid[0] * p.parts >= 256 or n_rows * n_cols < 1 << 20


@pytest.mark.parametrize(("shape", "dims"), [
    ((3, 7001), (1,)), ((7001, 3), (0,)), ((5, 7, 300), (0, 2)), ((1, 4001), (1,)),
])  # fmt: skip
def test_moments_of_numbers_far_from_0(shape, dims, short_segments):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 3 + 1e4
    variance, mean = torch.var_mean(torch.tensor(x).cuda(), dims)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(variance.cpu().numpy(), wide.var(dims, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(mean.cpu().numpy(), wide.mean(dims), rtol=1e-6)


@pytest.mark.parametrize(("shape", "dim"), [((3, 2003), 1), ((1003, 3), 0), ((5, 7), 1)])
def test_extremes_and_their_first_places(shape, dim, short_segments):
    x = numbers(shape)
    x[tuple(n // 2 for n in shape)] = float("nan")
    lowest = torch.full(shape, -(2**63))
    for each in (x, x.nan_to_num().long(), lowest, torch.full(shape, float("-inf"))):
        for name in ("max", "min"):
            got, want = getattr(each.cuda(), name)(dim), getattr(each, name)(dim)
            torch.testing.assert_close(got[0].cpu(), want[0], equal_nan=True)
            assert torch.equal(got[1].cpu(), want[1])


def test_logsumexp_of_infinities_and_long_rows(short_segments):
    inf = float("inf")
    x = torch.tensor([[-inf, -inf], [inf, 1.0], [0.0, 0.0]])
    torch.testing.assert_close(x.cuda().logsumexp(1).cpu(), x.logsumexp(1))
    y = numbers((2, 7005)) * 6
    torch.testing.assert_close(y.cuda().logsumexp(1).cpu(), y.logsumexp(1))
    assert torch.equal(y[:, :0].cuda().logsumexp(1).cpu(), torch.full((2,), -inf))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_gradient_of_logcumsumexp_of_large_numbers(device, kind):
    """What float32 loses of logs near 60 was 2e-3 of the gradient."""
    numbers = np.random.default_rng(0).standard_normal((2, 3, 300))
    x, g = (
        torch.tensor(part, dtype=getattr(torch, kind)) for part in numbers * [[[20.0]], [[1.0]]]
    )
    grads = []
    for leaf in (x.clone().to(device).requires_grad_(), x.double().requires_grad_()):
        leaf.logcumsumexp(1).backward(g.to(leaf.device, leaf.dtype))
        grads.append(leaf.grad.cpu().double())
    scale = grads[1].abs().max()
    assert (grads[0] - grads[1]).abs().max() < scale * (1e-6 if kind == "float32" else 1e-2)


def test_tensor_split_takes_indices_of_the_host_only():
    """As PyTorch, which would have to wait for them."""
    x = torch.arange(6, device="cuda")
    assert [part.numel() for part in x.tensor_split(torch.tensor([1, 4]))] == [1, 3, 2]
    with pytest.raises(RuntimeError, match="to be on cpu, but it's on cuda:0"):
        x.tensor_split(torch.tensor([1, 4], device="cuda"))
