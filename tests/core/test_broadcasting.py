"""Broadcasting of shapes with no dims, dims of size 0 and of size 1, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

import tritorch as torch

groups = st.integers(2, 4).flatmap(
    lambda count: mutually_broadcastable_shapes(
        num_shapes=count, min_dims=0, max_dims=4, min_side=0, max_side=4
    )
).map(lambda found: found.input_shapes)  # fmt: skip
shapes = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)

BINARY = {
    "add": np.add,
    "mul": np.multiply,
    "sub": np.subtract,
    "maximum": np.maximum,
    "lt": np.less,
    "atan2": np.arctan2,
    "logical_and": np.logical_and,
}


def numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check_binary(name, a, b, device="cpu"):
    x, y = numbers(a), numbers(b, 1)
    got = getattr(torch, name)(torch.tensor(x, device=device), torch.tensor(y, device=device))
    want = BINARY[name](x, y)
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-5, atol=1e-6)


@settings(max_examples=150)
@given(st.sampled_from([*BINARY]), groups)
def test_binary_operators(name, group):
    check_binary(name, *group[:2])


@pytest.mark.device
@settings(max_examples=20)
@given(st.sampled_from(["add", "lt", "maximum"]), groups)
def test_binary_operators_on_a_gpu(name, group):
    check_binary(name, *group[:2], "cuda")


@settings(max_examples=100)
@given(groups.filter(lambda group: len(group) >= 3))
def test_three_operands(group):
    a, b, c = group[:3]
    x, y, z = numbers(a), numbers(b, 1), numbers(c, 2)
    t = [torch.tensor(v) for v in (x, y, z)]
    got = torch.where(t[0] > 0, t[1], t[2])
    np.testing.assert_array_equal(got.numpy(), np.where(x > 0, y, z))
    got = torch.addcmul(*t, value=2.0)
    np.testing.assert_allclose(got.numpy(), x + 2 * y * z, rtol=1e-5, atol=1e-6)
    got = torch.lerp(*t)
    np.testing.assert_allclose(got.numpy(), x + z * (y - x), rtol=1e-4, atol=1e-5)


@settings(max_examples=100)
@given(st.sampled_from(["add_", "mul_", "copy_"]), groups)
def test_in_place_never_grows(name, group):
    a, b = group[:2]
    x, y = numbers(a), numbers(b, 1)
    t = torch.tensor(x)
    if np.broadcast_shapes(a, b) == a:
        getattr(t, name)(torch.tensor(y))
        want = {"add_": x + y, "mul_": x * y, "copy_": np.broadcast_to(y, a)}[name]
        np.testing.assert_allclose(t.numpy(), want, rtol=1e-6)
    else:
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape|must match"):
            getattr(t, name)(torch.tensor(y))
        np.testing.assert_array_equal(t.numpy(), x)


@settings(max_examples=150)
@given(groups)
def test_broadcast_tensors(group):
    arrays = [numbers(shape, i) for i, shape in enumerate(group)]
    tensors = [torch.tensor(a) for a in arrays]
    want = np.broadcast_arrays(*arrays)
    got = torch.broadcast_tensors(*tensors)
    assert torch.broadcast_shapes(*group) == torch.Size(np.broadcast_shapes(*group))
    for tensor, out, expected in zip(tensors, got, want):
        np.testing.assert_array_equal(out.numpy(), expected)
        assert out.untyped_storage() == tensor.untyped_storage()
        if out.numel():
            repeated = [s for s, n in zip(out.stride(), out.shape) if n > 1]
            assert repeated == [
                s // 4 for s, n in zip(expected.strides, out.shape)
                if n > 1
            ]  # fmt: skip


@settings(max_examples=150)
@given(groups)
def test_broadcast_to_and_expand(group):
    shape, target = group[0], np.broadcast_shapes(*group)
    x = numbers(shape)
    t = torch.tensor(x)
    want = np.broadcast_to(x, target)
    keep = [
        -1 if i >= len(target) - len(shape) and n == shape[i - len(target)] else n
        for i, n in enumerate(target)
    ]
    for out in (
        torch.broadcast_to(t, target),
        t.broadcast_to(target),
        t.expand(target),
        t.expand(*target) if target else t.expand(()),
        t.expand(keep),
        t.expand_as(torch.empty(target)),
    ):
        np.testing.assert_array_equal(out.numpy(), want)
        assert out._base is t
        if out.numel():
            assert out.data_ptr() == t.data_ptr()


@settings(max_examples=100)
@given(groups)
def test_gradients_are_summed_to_each_operand(group):
    a, b = group[:2]
    x, y = torch.tensor(numbers(a)), torch.tensor(numbers(b, 1))
    x.requires_grad_(True)
    y.requires_grad_(True)
    out = x * y
    out.sum().backward()
    for mine, other in ((x, y), (y, x)):
        assert mine.grad.shape == mine.shape
        spread = np.broadcast_to(other.detach().numpy(), tuple(out.shape)).astype(np.float64)
        extra = out.ndim - mine.ndim
        dims = [*range(extra), *(i + extra for i, n in enumerate(mine.shape) if n == 1)]
        want = spread.sum(tuple(dims), keepdims=True).reshape(tuple(mine.shape))
        np.testing.assert_allclose(mine.grad.numpy(), want, rtol=1e-4, atol=1e-5)


@settings(max_examples=200)
@given(shapes, shapes)
def test_shapes_that_do_not_match_are_refused(a, b):
    x, y = torch.tensor(numbers(a)), torch.tensor(numbers(b))
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        at = next(
            i for i in range(-1, -5, -1) if a[i] != b[i] and 1 not in (a[i], b[i])
        )  # the last dim that differs
        dim = max(len(a), len(b)) + at
        message = (
            rf"The size of tensor a \({a[at]}\) must match the size of tensor b \({b[at]}\) "
            rf"at non-singleton dimension {dim}"
        )
        for function in (torch.add, torch.lt, lambda p, q: p * q):
            with pytest.raises(RuntimeError, match=message):
                function(x, y)
        with pytest.raises(RuntimeError):
            torch.broadcast_shapes(a, b)
        with pytest.raises(RuntimeError):
            torch.broadcast_tensors(x, y)
    else:
        assert tuple((x + y).shape) == want
    if len(a) > len(b) or any(n not in (1, m) for n, m in zip(a[::-1], b[::-1])):
        with pytest.raises(RuntimeError):
            x.expand(b)
        with pytest.raises(RuntimeError):
            torch.broadcast_to(x, b)


def test_expand_says_what_is_wrong():
    x = torch.ones(3, 1)
    with pytest.raises(RuntimeError, match=r"expanded size of the tensor \(4\) must match"):
        x.expand(4, 2)
    with pytest.raises(RuntimeError, match=r"-1\) isn't allowed in a leading"):
        x.expand(-1, 3, 2)
    with pytest.raises(RuntimeError, match="number of sizes provided"):
        x.expand(3)


def test_an_expanded_tensor_cannot_be_written_twice_at_one_place():
    x = torch.zeros(3).expand(2, 3)
    for write in (
        lambda: x.add_(1),
        lambda: x.mul_(torch.ones(2, 3)),
        lambda: x.copy_(torch.ones(2, 3)),
        lambda: x.uniform_(),
        lambda: x.sigmoid_(),
        lambda: torch.add(x, x, out=x),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    assert x.tolist() == [[0] * 3] * 2
    x.fill_(3)  # writes one number: as in PyTorch it may
    assert x.tolist() == [[3] * 3] * 2
    assert torch.zeros(0, 1).expand(0, 3).add_(1).shape == (0, 3)
    assert torch.zeros(1).expand(1, 1).add_(1).tolist() == [[1]]


@pytest.mark.device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_source_that_overlaps_is_refused(device):
    x = torch.arange(6.0, device=device)
    square, places = x[:4].view(2, 2), torch.tensor([0, 1], device=device)
    for write in (
        lambda: x[1:].copy_(x[:-1]),
        lambda: x[:-1].add_(x[1:]),
        lambda: x[:-1].add_(x[1:], alpha=0.5),
        lambda: x[:-1].add_(x[1:], alpha=2),
        lambda: x[:-1].sub_(x[1:], alpha=0.5),
        lambda: square.add_(square.t()),
        lambda: x[1:].lerp_(x[:-1], 0.5),
        lambda: x[1:].clamp_(min=x[:-1]),
        lambda: x.index_add_(0, places, x[:2]),
        lambda: x.scatter_(0, places, x[:2]),
        lambda: x.index_put_((places,), x[2:4]),
        lambda: torch.exp(x[1:], out=x[:-1]),
        lambda: torch.add(x[1:], 1, out=x[:-1]),
        lambda: torch.cumsum(x[1:], 0, out=x[:-1]),
    ):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            write()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    x.add_(x)  # the whole of it is no overlap, and neither is a gap
    x[::2].add_(x[1::2])
    assert x.tolist() == [2, 2, 10, 6, 18, 10]
    x.add_(x, alpha=0.5)
    x[::2].add_(x[1::2], alpha=2.0)
    assert x.tolist() == [9, 3, 33, 9, 57, 15]
