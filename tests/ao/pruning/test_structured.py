"""Pruning of rows and channels: pruned models compute what masked ones do."""

from __future__ import annotations

import copy

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.ao.pruning._experimental.pruner import (
    FPGMPruner,
    LSTMSaliencyPruner,
    SaliencyPruner,
)

RELU = nn.ReLU()
CHAINS: dict[str, tuple[list[nn.Module], tuple[int, ...]]] = {
    "linear": ([nn.Linear(5, 6), RELU, nn.Linear(6, 3)], (2, 5)),
    "conv": ([nn.Conv2d(3, 6, 3), RELU, nn.Conv2d(6, 2, 3)], (2, 3, 7, 7)),
    "pool": ([nn.Conv2d(3, 6, 3), nn.MaxPool2d(2), RELU, nn.Conv2d(6, 2, 2)], (2, 3, 9, 9)),
    "flat": (
        [nn.Conv2d(3, 6, 3), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 2)],
        (2, 3, 6, 6),
    ),
    "padded": ([nn.Conv2d(3, 6, 3), RELU, nn.Conv2d(6, 2, 3, padding=1)], (2, 3, 7, 7)),
}


@pytest.mark.parametrize("prune_bias", [True, False])
@pytest.mark.parametrize("name", CHAINS)
def test_pruned_is_masked(name: str, prune_bias: bool) -> None:
    modules, shape = CHAINS[name]
    torch.manual_seed(0)
    model = copy.deepcopy(nn.Sequential(*modules))
    pruner = SaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(model, [{"tensor_fqn": "0.weight", "prune_bias": prune_bias}])
    pruner.step()
    x = torch.randn(shape)
    wanted = model(x)
    pruned = pruner.prune()
    assert torch.allclose(pruned(x), wanted, atol=1e-5)
    rows = pruned.get_submodule("0").weight.shape[0]
    assert rows == (6 if name == "padded" else 3)


def test_rows_that_go_are_the_smallest() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.arange(4.0)[:, None].expand(4, 4))
    pruner = SaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    pruner.step()
    assert model[0].parametrizations.weight[0].mask.tolist() == [False, False, True, True]


def test_filters_near_the_median_go() -> None:
    pruner = FPGMPruner(0.25)
    points = torch.tensor([[0.0], [1.0], [2.0], [9.0]])
    assert pruner._compute_distance(points).argmin() == 1
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.Conv2d(4, 2, 1))
    with torch.no_grad():
        model[0].weight.copy_(points.reshape(4, 1, 1, 1))
    pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    pruner.step()
    mask = model[0].parametrizations.weight[0].mask
    assert not mask[pruner._compute_distance(points).argmin()] and mask.sum() == 3


def test_lstm_loses_as_many_rows_of_each_gate() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 8, num_layers=1)
            self.linear = nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(self.lstm(x)[0])

    torch.manual_seed(0)
    model = Net()
    names = ("weight_ih_l0", "weight_hh_l0")
    pruner = LSTMSaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(model, [{"tensor_fqn": f"lstm.{name}"} for name in names])
    pruner.step()
    mask = model.lstm.parametrizations["weight_hh_l0"][0].mask
    assert mask.reshape(4, 8).sum(1).tolist() == [4, 4, 4, 4]
    pruned = pruner.prune()
    assert pruned.lstm.hidden_size == 4 and pruned.linear.in_features == 4
    assert pruned(torch.randn(5, 2, 3)).shape == (5, 2, 2)
