"""Layers with what follows them: one after the other, and together on the GPU."""

import copy

import pytest

import tritorch as torch
from tritorch.nn import intrinsic
from tritorch.nn.utils.fusion import bn_act, conv_bn_act
from tritorch.ops.nn import conv_norm


def make(dtype=torch.float32, channels=(16, 16), **kwargs):
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(*channels, 3, padding=1, dtype=dtype, **kwargs)
    bn = torch.nn.BatchNorm2d(channels[1])
    with torch.no_grad():
        bn.weight.uniform_(0.5, 1.5)
        bn.bias.normal_()
    return conv, bn


def run(layers, x, residual, fused, relu=True):
    """The result, all gradients and the running statistics."""
    conv, bn = copy.deepcopy(layers)
    inputs = [t.detach().clone(memory_format=torch.preserve_format) for t in (x, residual)]
    for t in inputs:
        t.requires_grad_()
    if fused:
        y = conv_bn_act(inputs[0], conv, bn, inputs[1], relu)
    else:
        y = bn(conv(inputs[0])) + inputs[1]
        y = y.relu() if relu else y
    (y * torch.linspace(-1, 1, y.numel(), device=y.device).reshape(y.shape)).sum().backward()
    grads = [t.grad for t in (*inputs, *conv.parameters(), *bn.parameters())]
    return [y.detach(), *grads, bn.running_mean, bn.running_var, bn.num_batches_tracked]


@pytest.mark.device
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(("dtype", "last"), [
    (torch.float32, False), (torch.bfloat16, True),
])  # fmt: skip
def test_together_as_one_after_the_other(dtype, last, relu, monkeypatch):
    calls = []
    fused = conv_norm._with_statistics.gpu
    monkeypatch.setattr(
        conv_norm._with_statistics, "gpu", lambda *args: calls.append(1) or fused(*args)
    )
    conv, bn = make(dtype)
    form = torch.channels_last if last else torch.contiguous_format
    layers = (conv.cuda().to(memory_format=form), bn.cuda())
    x = torch.randn(2, 16, 3, 5, dtype=dtype).cuda().to(memory_format=form)
    z = torch.randn(2, 16, 3, 5, dtype=dtype).cuda().to(memory_format=form)
    if dtype is torch.bfloat16:
        layers[1].bfloat16()
    tolerance = 2e-4 if dtype is torch.float32 else 6e-2
    got, want = (run(layers, x, z, together, relu) for together in (True, False))
    assert calls
    for a, b in zip(got, want):
        assert a.dtype == b.dtype and a.shape == b.shape
        a, b = a.cpu().double(), b.cpu().double()
        close = torch.isclose(a, b, rtol=tolerance, atol=tolerance * float(b.abs().max()) + 1e-6)
        # In bfloat16 one rounding decides of some elements near 0 whether relu lets them through.
        assert close.double().mean() >= (0.9 if relu and dtype is torch.bfloat16 else 1)
    assert got[0].stride() == want[0].stride()


@pytest.mark.device
def test_autocast_and_evaluation():
    conv, bn = make()
    layers = (conv.cuda(), bn.cuda())
    x = torch.randn(1, 16, 3, 5).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        got = conv_bn_act(x, *copy.deepcopy(layers))
        want = copy.deepcopy(layers)[1](layers[0](x)).relu()
    assert got.dtype == want.dtype == torch.bfloat16
    assert torch.allclose(got.float(), want.float(), atol=3e-2, rtol=3e-2)
    bn.eval()
    z = torch.randn(1, 16, 3, 5).cuda().requires_grad_()
    y = conv_bn_act(x, conv, bn, z)
    assert torch.allclose(y, (bn(conv(x)) + z).relu(), atol=1e-4)
    mine = torch.autograd.grad(y.sum(), [z, bn.weight, conv.weight])
    theirs = torch.autograd.grad((bn(conv(x)) + z).relu().sum(), [z, bn.weight, conv.weight])
    for a, b in zip(mine, theirs):
        assert torch.allclose(a, b, atol=2e-3, rtol=1e-3)


def test_statistics_of_many_tiles_are_joined():
    if not torch.cuda.is_available():
        pytest.skip("needs a device")
    from tritorch.gpu.nn import norm

    torch.manual_seed(0)
    x = torch.randn(150, 3, 7) + 5
    parts = torch.stack([x.new_full((150, 3), 7), x.mean(2), x.var(2, correction=0) * 7], 1)
    parts = parts.contiguous().cuda()._array
    mean, rstd, var = norm.joined_statistics(parts, x.cuda()._array, 1e-5)
    want = x.double()
    assert abs(mean.numpy() - want.mean((0, 2)).numpy()).max() < 1e-5
    assert abs(var.numpy() - want.var((0, 2), correction=0).numpy()).max() < 1e-4
    assert abs(rstd.numpy() ** -2 - var.numpy() - 1e-5).max() < 1e-4


@pytest.mark.parametrize("relu", [True, False])
def test_gradients_are_those_of_the_composition(relu):
    conv, bn = make(torch.float64, (2, 3))
    bn = bn.double()
    x = torch.randn(2, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    z = torch.randn(2, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    convolved = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)

    def function(x, w, b, gamma, beta, z):
        return conv_norm.convolution_batch_norm(x, w, b, convolved, gamma, beta, z, relu, 1e-5)[0]

    inputs = (x, conv.weight, conv.bias, bn.weight, bn.bias, z)
    want = bn(conv(x)) + z
    assert torch.allclose(function(*inputs), want.relu() if relu else want)
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)
    given = lambda x, w, b, z: conv_norm.batch_norm_add_relu(
        x, bn.running_mean + 0.1, bn.running_var, w, b, z, relu, 1e-5
    )
    inputs = (torch.randn_like(z).requires_grad_(), bn.weight, bn.bias, z)
    assert torch.autograd.gradcheck(given, inputs)
    assert torch.autograd.gradgradcheck(given, inputs)


def test_modules():
    conv, bn = make(channels=(2, 3))
    relu = torch.nn.ReLU()
    x = torch.randn(2, 2, 4, 5)
    want = torch.nn.Sequential(*copy.deepcopy((conv, bn)))(x)
    assert torch.equal(intrinsic.ConvBn2d(*copy.deepcopy((conv, bn)))(x), want)
    both = intrinsic.ConvBnReLU2d(conv=copy.deepcopy(conv), bn=copy.deepcopy(bn), relu=relu)
    assert torch.equal(both(x), want.relu())
    assert repr(both).startswith("ConvBnReLU2d(\n  (0): Conv2d(2, 3, ")
    assert torch.equal(bn_act(conv(x), copy.deepcopy(bn)), want.relu())
    assert torch.equal(intrinsic.BNReLU2d(copy.deepcopy(bn), relu)(conv(x)), want.relu())
    assert list(both.state_dict()) == list(torch.nn.Sequential(conv, bn, relu).state_dict())


@pytest.mark.parametrize(("make", "message"), [
    (lambda c, b: intrinsic.ConvBnReLU2d(c, b, b), "Conv2d, BatchNorm2d, and BatchNorm2d"),
    (lambda c, b: intrinsic.ConvReLU2d(b, torch.nn.ReLU()), "BatchNorm2d and ReLU"),
    (lambda c, b: intrinsic.BNReLU3d(b, torch.nn.ReLU()), "BatchNorm2d and ReLU"),
])  # fmt: skip
def test_other_modules_are_refused(make, message):
    with pytest.raises(AssertionError, match="Incorrect types for input modules: " + message):
        make(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
