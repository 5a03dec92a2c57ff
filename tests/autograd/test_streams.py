"""Gradients run on the streams that their forward ran on."""

import gc

import numpy as np
import pytest

import tritorch as torch
from tritorch import cuda
from tritorch.cuda import simulator

pytestmark = pytest.mark.device


seen = []


class Where(torch.autograd.Function):
    """The identity; notes the stream of its backward."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        seen.append(cuda.current_stream())
        return g.clone()


def leaf(seed, n=700):
    values = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    return torch.tensor(values, device="cuda", requires_grad=True)


def test_each_node_runs_on_its_stream_and_the_caller_waits():
    side, other = cuda.Stream(), cuda.Stream()
    x = leaf(0)
    seen.clear()
    y = Where.apply(x)
    for stream in (side, other):
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            y = Where.apply(y)
        cuda.current_stream().wait_stream(stream)
    y.sum().backward()
    assert seen == [other, side, cuda.default_stream()]
    assert cuda.current_stream() == cuda.default_stream()
    assert x.grad.cpu().equal(torch.ones(700))


@pytest.mark.simulated
@pytest.mark.parametrize("seed", range(8))
def test_branches_on_streams_of_their_own(seed):
    """The simulated device runs streams as late as it may: a wait that is missing gives garbage."""
    simulator.seed(seed)
    left, right = cuda.Stream(), cuda.Stream()
    x, y = leaf(seed), leaf(seed + 100)
    for stream in (left, right):
        stream.wait_stream(cuda.current_stream())
    with cuda.stream(left):
        a = (x * y).sin()
    with cuda.stream(right):
        b = (x + y).cos() * x
    for stream in (left, right):
        cuda.current_stream().wait_stream(stream)
    (a * b).sum().backward()
    host_x, host_y = (v.detach().cpu().requires_grad_() for v in (x, y))
    ((host_x * host_y).sin() * ((host_x + host_y).cos() * host_x)).sum().backward()
    for got, want in ((x.grad, host_x.grad), (y.grad, host_y.grad)):
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_backward_inside_another_stream_than_the_forward():
    side = cuda.Stream()
    x = leaf(3)
    loss = (x * x).sum()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        loss.backward()
        assert cuda.current_stream() == side
        doubled = x.grad * 1
    side.synchronize()
    assert doubled.cpu().equal(2 * x.detach().cpu())


def test_nothing_stays_allocated():
    side = cuda.Stream()
    gc.collect()
    before = cuda.memory_allocated()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        x = leaf(4)
        (x.exp() * x).sum().backward()
    del x
    cuda.synchronize()
    assert cuda.memory_allocated() == before
