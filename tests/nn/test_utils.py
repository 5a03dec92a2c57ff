"""nn.utils and nn.init."""

import math

import numpy as np
import pytest

import tritorch as torch
from tritorch import nn
from tritorch.nn import utils


def model():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    net(torch.randn(5, 3)).square().sum().backward()
    return net


def all_grads(net):
    return np.concatenate([p.grad.numpy().ravel() for p in net.parameters()])


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_clip_grad_norm(order):
    net = model()
    before = all_grads(net)
    norm = np.linalg.norm(before, order)
    assert utils.clip_grad_norm_(net.parameters(), 0.1, order).item() == pytest.approx(norm, 1e-5)
    np.testing.assert_allclose(all_grads(net), before * 0.1 / (norm + 1e-6), rtol=1e-5)
    again = all_grads(net)
    utils.clip_grad_norm_(net.parameters(), 100.0, order)
    np.testing.assert_array_equal(all_grads(net), again)
    net[0].weight.grad[0, 0] = math.nan
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        utils.clip_grad_norm_(net.parameters(), 1.0, order, error_if_nonfinite=True)


def test_clip_grad_value():
    net = model()
    before = all_grads(net)
    utils.clip_grad_value_(net.parameters(), 0.05)
    np.testing.assert_array_equal(all_grads(net), before.clip(-0.05, 0.05).astype(np.float32))


def test_parameters_as_a_vector():
    net = model()
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (26,)
    utils.vector_to_parameters(vector * 2, net.parameters())
    assert torch.allclose(utils.parameters_to_vector(net.parameters()), vector * 2)


@pytest.mark.parametrize("transpose", [False, True])
def test_batch_norm_is_folded(transpose):
    kind = nn.ConvTranspose2d if transpose else nn.Conv2d
    conv, norm = kind(3, 5, 3).eval(), nn.BatchNorm2d(5)
    norm(torch.randn(8, 5, 4, 4) * 3 + 1)
    nn.init.uniform_(norm.weight)
    norm.eval()
    x = torch.randn(2, 3, 6, 6)
    fused = utils.fuse_conv_bn_eval(conv, norm, transpose)
    assert torch.allclose(fused(x), norm(conv(x)), atol=1e-5)
    linear, flat = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    y = torch.randn(2, 3)
    assert torch.allclose(utils.fuse_linear_bn_eval(linear, flat)(y), flat(linear(y)), atol=1e-6)
    with pytest.raises(AssertionError, match="only for eval"):
        utils.fuse_conv_bn_eval(conv.train(), norm)


def test_skip_init_and_memory_formats():
    assert utils.skip_init(nn.Linear, 3, 4).weight.shape == (4, 3)
    assert nn.Linear(2, 2).weight.abs().sum() > 0
    net = nn.Sequential(nn.Conv2d(3, 4, 3))
    utils.convert_conv2d_weight_memory_format(net, torch.channels_last)
    assert net[0].weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("fill", "low", "high", "std"),
    [
        (lambda t: nn.init.uniform_(t, -1, 3), -1, 3, 4 / math.sqrt(12)),
        (lambda t: nn.init.normal_(t, 0, 2), -math.inf, math.inf, 2),
        (lambda t: nn.init.trunc_normal_(t, 0, 1, -1, 1), -1, 1, 0.5396),
        (nn.init.xavier_uniform_, -0.15, 0.15, math.sqrt(2 / 300)),
        (nn.init.xavier_normal_, -math.inf, math.inf, math.sqrt(2 / 300)),
        (nn.init.kaiming_uniform_, -0.1733, 0.1733, math.sqrt(2 / 200)),
        (lambda t: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), -math.inf,
         math.inf, math.sqrt(2 / 100)),
    ],
)  # fmt: skip
def test_distributions(fill, low, high, std):
    torch.manual_seed(0)
    x = torch.empty(100, 200)
    assert fill(x) is x
    values = x.numpy()
    assert values.min() >= low and values.max() <= high
    assert values.std() == pytest.approx(std, rel=0.03)


def test_fixed_values():
    assert nn.init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert nn.init.constant_(torch.empty(2), 3).tolist() == [3, 3]
    weight = nn.init.dirac_(torch.empty(4, 2, 3), groups=2)
    x = torch.randn(1, 4, 5)
    assert nn.functional.conv1d(x, weight, padding=1, groups=2).equal(x)
    sparse = nn.init.sparse_(torch.empty(10, 4), 0.3)
    assert (sparse == 0).sum(0).tolist() == [3] * 4
    assert nn.init.calculate_gain("leaky_relu", 1.0) == 1.0
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        nn.init.calculate_gain("nothing")
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(torch.empty(3))
