"""nn.utils: parametrizations, pruning, hooks that compute weights, functional calls."""

import copy
import warnings

import numpy as np
import pytest

import tritorch as torch
from tritorch import nn
from tritorch.nn import utils
from tritorch.nn.utils import parametrizations, parametrize, prune, stateless


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    calls = 0

    def forward(self, x):
        Doubled.calls += 1
        return 2 * x


def test_a_parametrized_tensor_is_computed_assigned_and_removed():
    layer = nn.Linear(3, 3)
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert torch.equal(layer.weight, layer.weight.mT)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    given = torch.ones(3, 3)
    layer.weight = given
    assert torch.equal(layer.parametrizations.weight.original, given.triu())
    assert torch.equal(layer.weight, given)
    layer(torch.ones(2, 3)).sum().backward()
    assert torch.equal(layer.parametrizations.weight.original.grad.tril(-1), torch.zeros(3, 3))
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert torch.equal(layer.weight, 2 * given)
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        twin.parametrizations.weight.original.zero_()
    assert torch.equal(layer.weight, 2 * given) and not twin.weight.any()
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        layer.__getstate__()
    original = layer.parametrizations.weight.original
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and not parametrize.is_parametrized(layer)
    assert layer.weight is original and torch.equal(layer.weight, 2 * given)


def test_cached_and_transferred():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    Doubled.calls = 0
    with parametrize.cached():
        assert layer.weight is layer.weight
        assert Doubled.calls == 1
    assert layer.weight is not layer.weight
    other = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 2))
    assert torch.equal(other.weight, layer.weight)
    mine, theirs = layer.parametrizations.weight, other.parametrizations.weight
    assert mine.original is theirs.original and mine[0] is theirs[0]


def test_several_originals():
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    before = layer.weight.detach().clone()
    layer.weight = 2 * before
    assert torch.allclose(layer.weight, 2 * before)
    with pytest.raises(ValueError, match="parametrized in terms of a sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        old = utils.weight_norm(nn.Linear(3, 2))
    layer.load_state_dict(old.state_dict())
    assert torch.allclose(layer.weight, old.weight)
    utils.remove_weight_norm(old)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        utils.remove_weight_norm(old)


class Wrong(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, x):
        return self.change(x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.double(), "may not change the dtype of the tensor"),
        (lambda x: x[:1], "may not change the shape of the tensor"),
        (lambda x: 3, "A parametrization must return a tensor. Got int"),
    ],
)
@pytest.mark.parametrize("second", [False, True])
def test_a_parametrization_keeps_dtype_and_shape(change, message, second):
    layer = nn.Linear(2, 2)
    if second:
        parametrize.register_parametrization(layer, "weight", Doubled())
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(layer, "weight", Wrong(change))
    with pytest.raises(ValueError, match="does not have a parameter, a buffer"):
        parametrize.register_parametrization(layer, "nothing", Wrong(change))
    with pytest.raises(ValueError, match="does not have a parametrization on bias"):
        parametrize.remove_parametrizations(layer, "bias")


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (5, 3)])
def test_orthogonal_stays_orthogonal(kind, sizes):
    torch.manual_seed(0)
    layer = parametrizations.orthogonal(nn.Linear(*sizes), orthogonal_map=kind)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        layer(torch.randn(2, sizes[0])).square().sum().backward()
        optimizer.step()
    w = layer.weight
    product = w @ w.mT if w.shape[0] <= w.shape[1] else w.mT @ w
    assert torch.allclose(product, torch.eye(min(sizes)), atol=1e-5)
    q = nn.init.orthogonal_(torch.empty(w.shape))
    layer.weight = q
    assert torch.allclose(layer.weight, q, atol=1e-5)


def test_spectral_norm_approaches_the_largest_singular_value():
    torch.manual_seed(0)
    for normed in (parametrizations.spectral_norm, utils.spectral_norm):
        layer = normed(nn.Linear(4, 5), n_power_iterations=20)
        layer(torch.ones(1, 4))
        found = np.linalg.svd(layer.weight.detach().numpy(), compute_uv=False)[0]
        assert found == pytest.approx(1, abs=1e-3)
    assert layer.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
    old = {
        key: value for key, value in layer.state_dict().items() if key != "weight_v"
    } | {"weight": layer.weight.detach()}  # fmt: skip
    v = layer.weight_v.clone()
    layer.load_state_dict(old)
    assert torch.allclose(layer.weight_v, v, atol=1e-2)
    with pytest.raises(RuntimeError, match="two spectral_norm hooks on the same parameter"):
        utils.spectral_norm(layer)


def test_pruning_again_prunes_what_is_left():
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 6, 3)
    weight = layer.weight.detach().clone()
    prune.l1_unstructured(layer, "weight", amount=0.5)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    mask = weight.abs() > weight.abs().flatten().sort()[0][weight.numel() // 2 - 1]
    assert torch.equal(layer.weight_mask.bool(), mask)
    prune.ln_structured(layer, "weight", amount=2, n=1, dim=0)
    prune.random_unstructured(layer, "weight", amount=10)
    (hook,) = layer._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 3
    kept = layer.weight_mask.sum((1, 2, 3))
    assert (kept == 0).sum() == 2 and not (layer.weight_mask.bool() & ~mask).any()
    gone = mask.sum((1, 2, 3))[kept == 0].sum()
    assert int(layer.weight_mask.sum()) == int(mask.sum() - gone) - 10
    assert prune.is_pruned(layer)
    prune.remove(layer, "weight")
    assert not prune.is_pruned(layer) and (layer.weight == 0).sum() > weight.numel() // 2
    assert isinstance(layer.weight, nn.Parameter)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(layer, "weight")


def test_global_pruning_and_errors():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        net[1].weight.copy_(torch.tensor([[0.1, 5.0], [6.0, 7.0]]))
    pairs = [(layer, "weight") for layer in net]
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=3)
    assert net[0].weight.tolist() == [[0, 0], [3, 4]] and net[1].weight.tolist() == [[0, 5], [6, 7]]
    with pytest.raises(ValueError, match="amount=9 should be smaller than the number"):
        prune.l1_unstructured(nn.Linear(2, 2), "weight", 9)
    with pytest.raises(ValueError, match=r"a float in the range \[0, 1\]"):
        prune.random_unstructured(nn.Linear(2, 2), "weight", 1.5)
    with pytest.raises(TypeError, match="Must be int or float"):
        prune.random_unstructured(nn.Linear(2, 2), "weight", "x")
    broken = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="multidimensional tensors"):
        prune.random_structured(broken, "bias", 1, 0)
    assert list(broken.state_dict()) == ["weight", "bias"]  # as it was
    pruned = prune.RandomStructured(1, 1).prune(torch.ones(3, 4))
    assert sorted(pruned.sum(0).tolist()) == [0, 3, 3, 3]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2, bias=False)
        self.second = self.first
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count = self.count + 1
        return self.second(self.first(x))


@pytest.mark.parametrize("call", [torch.func.functional_call, stateless._functional_call])
def test_functional_call(call):
    net, x = Tied(), torch.ones(1, 2)
    kept = net.first.weight
    given = {"first.weight": torch.eye(2) * 3, "count": torch.tensor(5.0)}
    assert call(net, given, x).tolist() == [[9, 9]]
    assert net.first.weight is kept and net.count == 0 and given["count"] == 6
    untied = call(net, {"first.weight": torch.eye(2) * 3}, (x,), tie_weights=False)
    assert untied.tolist() == [[9, 9]]  # one module under two names
    with pytest.raises(ValueError, match="multiple values for keys"):
        call(net, {"first.weight": torch.eye(2), "second.weight": torch.ones(2, 2)}, x)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'other'"):
        call(net, {"other": x}, x, strict=True)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): "):
        call(net, {"first.weight": torch.eye(2)}, x, strict=True)
    assert net.first.weight is kept


def test_orthogonal_init():
    torch.manual_seed(0)
    for shape in ((3, 5), (5, 3), (4, 2, 2), (3, 0)):
        w = nn.init.orthogonal_(torch.empty(*shape), gain=2.0)
        flat = w.flatten(1)
        if w.numel():
            product = flat @ flat.mT if flat.shape[0] <= flat.shape[1] else flat.mT @ flat
            assert torch.allclose(product, 4 * torch.eye(product.shape[0]), atol=1e-5)
    with pytest.raises(ValueError, match="2 or more dimensions"):
        nn.init.orthogonal_(torch.empty(3))
