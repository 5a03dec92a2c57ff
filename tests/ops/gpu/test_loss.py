"""Cross-entropy on the GPU against NumPy."""

import numpy as np
import pytest

import tritorch as torch
from tests.ops.gpu_reference import FLOATS, assert_close, compare, numbers, on_device
from tritorch import nn
from tritorch.gpu.loss import loss
from tritorch.gpu.reduce.softmax import RowPlan
from tritorch.host.loss import loss as cpu
from tritorch.nn import functional as F

pytestmark = pytest.mark.device


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tile", [None, (2, 4, 4), "parts"])
def test_cross_entropy(kind, smoothing, weighted, tile, monkeypatch):
    if tile:  # several blocks a row
        cut = (2, 4, 4) if tile == "parts" else tile
        monkeypatch.setattr(loss, "row_tile", lambda *sizes: cut)
        parts = (4, 4) if tile == "parts" else (1, 13)
        monkeypatch.setattr(loss, "plan", lambda *sizes: RowPlan(True, *cut, *parts))
    target = np.random.default_rng(3).integers(0, 13, 7)
    target[2] = -100
    weight = np.abs(numbers((13,), kind, 4)) if weighted else None
    for x in (numbers((7, 13), kind), numbers((13, 7), kind).T):
        _, lse = compare("loss", "cross_entropy", x, target, weight, -100, smoothing)
        g = numbers((7,), kind, 1)
        compare(
            "loss", "cross_entropy_backward", g, x, target, weight, -100, smoothing, lse
        )  # fmt: skip


def test_infinite_logits_and_an_ignored_class():
    x = np.float32([[0, -np.inf, 1], [-np.inf, 5, -np.inf], [1, 2, 3]])
    target = np.array([2, 1, 0])
    losses, lse = compare("loss", "cross_entropy", x, target, None, 0, 0.0)
    assert losses[1] == 0 and losses[2] == 0 and losses[0] > 0
    compare("loss", "cross_entropy_backward", np.ones(3, np.float32), x, target, None, 0, 0.0, lse)


def test_no_rows():
    none = np.zeros(0, np.int64)
    compare("loss", "cross_entropy", np.zeros((0, 3), np.float32), none, None, -100, 0.0)


def test_a_target_out_of_range_is_reported():
    x = on_device(numbers((2, 3)))
    losses, _ = loss.cross_entropy(x, on_device(np.array([1, 10**6])), None, -100, 0.0)
    with pytest.raises(IndexError, match="Target 1000000 is out of bounds"):
        losses.numpy()


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("weighted", [False, True])
def test_logits_become_their_gradient(kind, weighted):
    for rows, classes in ((7, 13), (3, 4100), (3, 4096)):
        target = np.random.default_rng(3).integers(0, classes, rows)
        target[2] = -100
        weight = np.abs(numbers((classes,), kind, 4)) if weighted else None
        x, g = numbers((rows, classes), kind), numbers((rows,), kind, 1)
        wanted, lse = cpu.cross_entropy(x, target, weight, -100, 0.0)
        dx = cpu.cross_entropy_backward(g, x, target, weight, -100, 0.0, lse)
        logits = on_device(x)
        arrays = on_device(target), None if weight is None else on_device(weight)
        losses = loss.cross_entropy_in_place(logits, *arrays, -100, on_device(g))
        assert_close((losses.numpy().astype(kind), logits.numpy()), (wanted, dx))


def test_few_long_rows_are_cut():
    assert loss.plan(4096, 50304).parts == 1 and loss.plan(264, 128256).parts == 1
    few = loss.plan(8, 128256)
    assert few.parts == 32 and few.per_part == 4096 and few.rows == 1


def _peak(x, w, target, options):
    """Bytes of one pass forward and backward beyond its inputs, and its results on the host."""
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    if options is None:
        out = F.cross_entropy(F.linear(x, w), target)
    else:
        out = F.linear_cross_entropy(x, w, target, options=options)
    out.backward()
    peak = torch.cuda.max_memory_allocated() - before
    return peak, [t.detach().float().cpu().numpy() for t in (out, x.grad, w.grad)]


def test_a_linear_layer_in_chunks_takes_a_third_of_the_memory():
    x, w = (torch.tensor(numbers(shape)).bfloat16().cuda() for shape in ((640, 16), (509, 16)))
    target = torch.arange(640, device="cuda") % 509
    target[5] = -100
    whole, wanted = _peak(x, w, target, None)
    held, found = _peak(x, w, target, nn.LinearCrossEntropyOptions())
    assert 3 * held <= whole
    for got, want in zip(found, wanted):
        np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_chunks_with_bias_and_weights(reduction):
    results = []
    for device in ("cpu", "cuda"):
        x, w, b = (
            torch.tensor(numbers(shape, seed=i)).to(device).requires_grad_()
            for i, shape in enumerate(((40, 17), (21, 17), (21,)))
        )
        target = (torch.arange(40) % 21).to(device)
        weight = torch.tensor(np.abs(numbers((21,), seed=9))).to(device)
        loss = F.linear_cross_entropy(
            x, w, target, linear_bias=b, weight=weight, reduction=reduction,
            options=nn.LinearCrossEntropyOptions(batch_chunk_size=16),
        )  # fmt: skip
        loss.sum().backward()
        results.append([t.detach().cpu().numpy() for t in (loss, x.grad, w.grad, b.grad)])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
