"""Dropout on the GPU: no mask is stored, the numbers are drawn again."""

import pytest

import tritorch as torch

pytestmark = pytest.mark.device
F = torch.nn.functional


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p", [0.1, 0.75])
def test_the_same_elements_backward(kind, p):
    torch.manual_seed(1)
    x = torch.randn(33, 70, device="cuda", dtype=kind).requires_grad_()
    y = F.dropout(x, p)
    kept = (y != 0).to(kind)
    torch.testing.assert_close(y, x * kept / (1 - p))
    assert abs(kept.float().mean().item() - (1 - p)) < 4 * (p * (1 - p) / x.numel()) ** 0.5
    g = torch.randn(70, 33, device="cuda", dtype=kind).t()  # strides of its own
    (got,) = torch.autograd.grad(y, x, g)
    torch.testing.assert_close(got, g * kept / (1 - p))


def test_any_strides_keep_theirs():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 3, 7, device="cuda").to(memory_format=torch.channels_last)
    torch.manual_seed(2)
    y = F.dropout(x, 0.5)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.manual_seed(2)
    assert torch.equal(F.dropout(x.contiguous(), 0.5), y)  # numbers go with elements, not memory
    torch.manual_seed(2)
    wide = torch.randn(2, 5, 3, 14, device="cuda")
    torch.manual_seed(2)
    part = F.dropout(wide[..., ::2], 0.5)
    assert torch.equal(part != 0, y != 0)


def test_numbers_go_on_and_derivatives_too():
    torch.manual_seed(0)
    x = torch.ones(64, device="cuda", requires_grad=True)
    assert not torch.equal(F.dropout(x), F.dropout(x))
    y = F.dropout(x * x, 0.5)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 2.0 * y.detach())
    assert F.dropout(x[:0]).shape == (0,)
    assert torch.equal(F.dropout(x, 1.0), torch.zeros_like(x))


def test_nan_stays():
    x = torch.full((64,), float("nan"), device="cuda")
    assert F.dropout(x, 0.5).isnan().all()


@pytest.mark.parametrize("kind", [torch.float32, torch.complex64, torch.bfloat16])
def test_with_a_mask(kind):
    torch.manual_seed(0)
    x = torch.randn(300, device="cuda").to(kind).requires_grad_()
    y, kept = torch.native_dropout(x, 0.25, True)
    assert kept.dtype is torch.bool and 0.6 < kept.float().mean().item() < 0.9
    torch.testing.assert_close(y, x * kept / 0.75)
    (got,) = torch.autograd.grad(y, x, torch.ones_like(y))
    torch.testing.assert_close(got, kept.to(kind) / 0.75)
