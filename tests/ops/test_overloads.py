"""Overloads of ATen behind the public functions: numbers for words, what is kept, gradients.

`tools/compare/overloads.py` holds all that PyTorch's operator database reaches to PyTorch.
"""

import math

import pytest

import tritorch as torch
import tritorch.nn.functional as F

aten = torch.ops.aten
REDUCED = {"none": 0, "mean": 1, "sum": 2}


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("word", REDUCED)
@pytest.mark.parametrize("name", [
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "soft_margin_loss", "poisson_nll_loss", "kl_div",
])  # fmt: skip
def test_a_reduction_is_a_number(name, word):
    x, y = torch.rand(3, 4).requires_grad_(), torch.rand(3, 4)
    want = getattr(F, name)(x, y, reduction=word)
    more = {"log_input": True, "full": False, "eps": 1e-8} if name == "poisson_nll_loss" else {}
    found = getattr(aten, name).default(x, y, reduction=REDUCED[word], **more)
    close(found, want)
    back = getattr(aten, f"{name}_backward", None)
    if name in ("mse_loss", "binary_cross_entropy", "soft_margin_loss"):
        g = torch.rand_like(want)
        (grad,) = torch.autograd.grad(want, x, g)
        more = (None,) if name == "binary_cross_entropy" else ()
        close(back(g, x.detach(), y, *more, REDUCED[word]), grad)


def test_arguments_go_by_name_where_orders_differ():
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    assert aten.max.other(x, y).equal(torch.maximum(x, y))
    assert aten.argsort.stable(x, stable=True, dim=0).equal(x.argsort(0, stable=True))
    assert aten.mean.default(x, dtype=torch.float64).dtype is torch.float64
    assert aten.repeat_interleave.Tensor(torch.tensor([2, 0, 1])).tolist() == [0, 0, 2]
    assert aten.slice.Tensor(x, 1, 2).equal(x[:, 2:])
    assert torch._softmax(x, -1, False).equal(x.softmax(-1))
    assert not hasattr(torch, "_no_such_operator")


def test_norms_with_what_they_kept():
    x = torch.randn(4, 6, 5).requires_grad_()
    w, b = torch.randn(5).requires_grad_(), torch.randn(5).requires_grad_()
    g = torch.randn(4, 6, 5)
    out, mean, rstd = aten.native_layer_norm(x, (5,), w, b, 1e-5)
    want = torch.autograd.grad(out, (x, w, b), g)
    found = aten.native_layer_norm_backward(
        g,
        x.detach(),
        (5,),
        mean.detach(),
        rstd.detach(),
        w.detach(),
        b.detach(),
        (True, True, True),
    )
    for a, e in zip(found, want):
        close(a, e)
    w, b = torch.randn(6).requires_grad_(), torch.randn(6).requires_grad_()
    out, mean, rstd = aten.native_group_norm(x, w, b, 4, 6, 5, 2, 1e-5)
    want = torch.autograd.grad(out, (x, w, b), g)
    found = aten.native_group_norm_backward(
        g, x.detach(), mean.detach(), rstd.detach(), w.detach(), 4, 6, 5, 2, (True, True, True)
    )
    for a, e in zip(found, want):
        close(a, e)
    assert aten.native_group_norm_backward(g, x, mean, rstd, w, 4, 6, 5, 2, (False, True, False))[
        ::2
    ] == (None, None)


@pytest.mark.parametrize("dim", [0, -1])
def test_gradients_of_softmax_from_its_result(dim):
    x, g = torch.randn(3, 4).requires_grad_(), torch.randn(3, 4)
    for name in ("softmax", "log_softmax"):
        out = getattr(x, name)(dim)
        (want,) = torch.autograd.grad(out, x, g)
        back = getattr(aten, f"_{name}_backward_data")
        close(back(g, out.detach(), dim, torch.float32), want)


def test_gradients_of_pools_by_their_places():
    x = torch.randn(2, 3, 8, 8).requires_grad_()
    out, places = aten.max_pool2d_with_indices(x, (3, 3), (2, 2))
    g = torch.randn_like(out)
    (want,) = torch.autograd.grad(out, x, g)
    found = aten.max_pool2d_with_indices_backward(
        g, x.detach(), (3, 3), (2, 2), (0, 0), (1, 1), False, places
    )
    close(found, want)
    pooled, where = aten.adaptive_max_pool2d(x.detach(), (2, 2))
    back = aten.max_unpool2d(pooled, where, (8, 8))
    assert (back != 0).sum() == pooled.numel() and back.amax((2, 3)).equal(pooled.amax((2, 3)))


def test_a_convolutions_gradients_are_those_wanted():
    x, w = torch.randn(2, 3, 6, 6).requires_grad_(), torch.randn(4, 3, 3, 3).requires_grad_()
    out = F.conv2d(x, w, stride=2, padding=1)
    g = torch.randn_like(out)
    want = torch.autograd.grad(out, (x, w), g)
    rest = ((4,), (2, 2), (1, 1), (1, 1), False, (0, 0), 1)
    found = aten.convolution_backward(g, x.detach(), w.detach(), *rest, (True, True, True))
    close(found[0], want[0])
    close(found[1], want[1])
    close(found[2], g.sum((0, 2, 3)))
    none, only, no_bias = aten.convolution_backward(g, x, w, *rest, (False, True, False))
    assert none is None is no_bias
    close(only, want[1])


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_segments(reduce, axis):
    data = torch.randn(2, 5, 3, dtype=torch.float64) if axis else torch.randn(5, 3).double()
    data.requires_grad_()
    lengths = torch.tensor([[2, 0, 3], [1, 3, 1]]) if axis else torch.tensor([2, 0, 3])

    def run(rows, counts):
        parts = rows.split(counts.tolist())
        pick = {"sum": lambda p: p.sum(0), "mean": lambda p: p.mean(0), "prod": lambda p: p.prod(0),
                "max": lambda p: p.amax(0), "min": lambda p: p.amin(0)}[reduce]  # fmt: skip
        empty = {"sum": 0.0, "mean": math.nan, "prod": 1.0, "max": -math.inf, "min": math.inf}
        return torch.stack([
            pick(p) if len(p) else torch.full((3,), empty[reduce], dtype=torch.float64)
            for p in parts
        ])  # fmt: skip

    want = torch.stack([run(d, n) for d, n in zip(data, lengths)]) if axis else run(data, lengths)
    found = torch.segment_reduce(data, reduce, lengths=lengths, axis=axis)
    torch.testing.assert_close(found, want, equal_nan=True)
    real = want.isfinite()
    g = torch.randn_like(want) * real
    grads = [torch.autograd.grad(y.masked_fill(~real, 0), data, g)[0] for y in (found, want)]
    close(*grads)
    starts = torch.cat([torch.zeros_like(lengths[..., :1]), lengths.cumsum(-1)], -1)
    by_starts = torch.segment_reduce(data, reduce, offsets=starts, axis=axis, initial=0.5)
    assert by_starts.isfinite().all()
    with pytest.raises(RuntimeError, match="Expected all rows of lengths along axis to sum"):
        torch.segment_reduce(data, reduce, lengths=lengths + 1, axis=axis)


def test_an_index_of_no_places_may_have_any_type():
    x, none = torch.ones(3), torch.empty(0, dtype=torch.uint8)
    assert x.scatter_add(0, none, x[:0]).equal(x) and x.gather(0, none).shape == (0,)
    with pytest.raises(IndexError, match=r"^index_fill_\(\): Expected dtype int64 for index\.$"):
        x.index_fill(0, none, 1.0)
    with pytest.raises(RuntimeError, match=r"^index_add_\(\): .* for index but got: Byte$"):
        x.index_add(0, none, x[:0])
