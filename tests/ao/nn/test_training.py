"""Fused modules, and those whose weights are fake-quantized while they train."""

import copy

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.ao import quantization
from tritorch.ao.nn import intrinsic as nni, qat as nnqat
from tritorch.ao.nn.intrinsic import qat as nniqat

QCONFIG = quantization.get_default_qat_qconfig("fbgemm")


def norm(n, channels):
    bn = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[n - 1](channels)
    with torch.no_grad():
        bn.weight.uniform_(0.5, 1.5)
        bn.bias.normal_()
    return bn


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_with_norms_are_what_they_are_made_of(n, bias):
    torch.manual_seed(0)
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[n - 1](2, 3, 3, padding=1, bias=bias)
    fused = getattr(nni, f"ConvBnReLU{n}d")(conv, norm(n, 3), nn.ReLU())
    fused.qconfig = QCONFIG
    trained = getattr(nniqat, f"ConvBnReLU{n}d").from_float(copy.deepcopy(fused))
    trained.apply(quantization.disable_fake_quant)
    x = torch.randn(4, 2, *(5,) * n)
    for _ in range(2):
        want, got = fused(x), trained(x)
        assert torch.allclose(want, got, atol=1e-5)
    assert torch.allclose(fused[1].running_var, trained.bn.running_var, atol=1e-6)
    trained._enable_slow_path_for_better_numerical_stability = True
    assert torch.allclose(copy.deepcopy(fused)(x), trained(x), atol=1e-4)
    for module in (fused, trained):
        module.eval()
    fused[1].load_state_dict(trained.bn.state_dict())
    assert torch.allclose(fused(x), trained(x), atol=1e-4)
    assert torch.allclose(trained.to_float()(x), trained(x), atol=1e-4)
    assert type(trained.to_float()) is getattr(nni, f"ConvReLU{n}d")


def test_norms_are_frozen_and_updated():
    conv = nniqat.ConvBn2d(2, 3, 3, qconfig=QCONFIG)
    model = nn.Sequential(conv).train()
    model.apply(nniqat.freeze_bn_stats)
    before = conv.bn.running_mean.clone()
    model.train()(torch.randn(2, 2, 5, 5))
    assert torch.equal(conv.bn.running_mean, before) and not conv.bn.training
    model.apply(nniqat.update_bn_stats)
    model(torch.randn(2, 2, 5, 5))
    assert not torch.equal(conv.bn.running_mean, before)
    with pytest.raises(AssertionError, match="qconfig must be provided"):
        nniqat.ConvBn2d(2, 3, 3)


def test_state_dicts_of_the_first_version():
    conv = nniqat.ConvBnReLU2d(2, 3, 3, qconfig=QCONFIG)
    state = conv.state_dict()
    assert state._metadata[""] == {"version": 2}
    names = {"weight": "gamma", "bias": "beta"}
    old = {}
    for name, value in state.items():
        part = name.removeprefix("bn.")
        old[names.get(part, part) if part != name else name] = value
    assert {"gamma", "beta", "running_mean"} <= old.keys()
    other = nniqat.ConvBnReLU2d(2, 3, 3, qconfig=QCONFIG)
    other.load_state_dict(old)
    assert torch.equal(other.bn.weight, conv.bn.weight)
    with pytest.raises(RuntimeError, match=r"Missing key.*bn.bias"):
        other.load_state_dict({name: v for name, v in old.items() if name != "beta"})


def test_layers_train_with_rounded_weights():
    torch.manual_seed(0)
    linear = nn.Linear(6, 4)
    linear.qconfig = QCONFIG
    trained = nnqat.Linear.from_float(linear)
    x = torch.randn(8, 6)
    trained(x).sum().backward()
    assert trained.weight is linear.weight and linear.weight.grad is not None
    error = (trained(x) - linear(x)).abs().max()
    assert 0 < error < 0.05
    assert torch.equal(trained.to_float().weight, linear.weight)
    both = nni.LinearReLU(linear, nn.ReLU())
    both.qconfig = QCONFIG
    assert torch.equal(nniqat.LinearReLU.from_float(both)(x), trained(x).relu())
    bn = nni.LinearBn1d(nn.Linear(6, 4), norm(1, 4))
    bn.qconfig = QCONFIG
    folded = nniqat.LinearBn1d.from_float(bn)
    folded.apply(quantization.disable_fake_quant)
    assert torch.allclose(folded(x), bn(x), atol=1e-5)
    embedding = nn.EmbeddingBag(10, 4, mode="sum")
    embedding.qconfig = quantization.float_qparams_weight_only_qconfig
    embedding.qconfig = quantization.default_embedding_qat_qconfig
    bags = nnqat.EmbeddingBag.from_float(embedding)
    assert torch.allclose(bags(torch.arange(6).reshape(2, 3)),
                          embedding(torch.arange(6).reshape(2, 3)), atol=0.05)  # fmt: skip
    with pytest.raises(AssertionError, match="only works for Linear, got Conv2d"):
        nnqat.Linear.from_float(nn.Conv2d(1, 1, 1))


def test_fused_modules_are_traced_as_their_parts():
    fused = nni.ConvBnReLU2d(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
    graph = torch.fx.symbolic_trace(nn.Sequential(fused)).graph
    assert [node.target for node in graph.nodes if node.op == "call_module"] == [
        "0.0", "0.1", "0.2",
    ]  # fmt: skip
    seen = []
    fused[2].register_forward_hook(lambda *args: seen.append(args))
    fused(torch.randn(2, 2, 5, 5))
    assert len(seen) == 1
