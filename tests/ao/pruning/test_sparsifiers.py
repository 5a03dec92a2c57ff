"""Sparsifiers of weights, data and activations, and their schedulers."""

from __future__ import annotations

import pickle

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.ao import pruning
from tritorch.ao.pruning._experimental.activation_sparsifier.activation_sparsifier import (
    ActivationSparsifier,
)
from tritorch.ao.pruning._experimental.data_scheduler import BaseDataScheduler
from tritorch.ao.pruning._experimental.data_sparsifier import DataNormSparsifier


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))


def test_smallest_blocks_are_zeroed_and_squashed() -> None:
    model = _model()
    weight = model[0].weight.detach().clone()
    sparsifier = pruning.WeightNormSparsifier(sparsity_level=0.5, sparse_block_shape=(1, 4))
    sparsifier.prepare(model, config=[{"tensor_fqn": "0.weight"}])
    assert torch.equal(model[0].weight, weight)
    sparsifier.step()
    norms = (weight**2).reshape(6, 2, 4).sum(-1)
    kept = norms >= norms.flatten().sort().values[6]
    assert torch.equal(model[0].weight, weight * kept.repeat_interleave(4, 1))
    sparsifier.squash_mask(params_to_keep=("sparsity_level",))
    assert model[0].sparse_params == {"sparsity_level": 0.5}
    assert isinstance(model[0].weight, nn.Parameter) and not hasattr(model[0], "parametrizations")


def test_part_of_a_block() -> None:
    model = _model()
    sparsifier = pruning.WeightNormSparsifier(1.0, (1, 4), zeros_per_block=2)
    sparsifier.prepare(model, config=None)
    sparsifier.step()
    zeros = (model[0].weight == 0).reshape(6, 2, 4).sum(-1)
    assert bool((zeros == 2).all())


def test_band() -> None:
    model = _model()
    sparsifier = pruning.NearlyDiagonalSparsifier(nearliness=3)
    sparsifier.prepare(model, config=[{"tensor_fqn": "2.weight"}])
    sparsifier.step()
    rows, columns = torch.meshgrid(torch.arange(4), torch.arange(6), indexing="ij")
    assert torch.equal(model[2].weight != 0, (rows - columns).abs() <= 1)
    with pytest.raises(ValueError, match="only be an odd number"):
        sparsifier.groups[0]["nearliness"] = 2
        sparsifier.step()


def test_configurations_are_checked_and_states_are_loaded() -> None:
    model = _model()
    sparsifier = pruning.WeightNormSparsifier()
    with pytest.raises(AssertionError, match="expected them to agree"):
        sparsifier.prepare(model, [{"tensor_fqn": "0.weight", "module": model[2]}])
    with pytest.raises(AssertionError, match="tensor_fqn is a required argument"):
        sparsifier.prepare(model, [{"sparsity_level": 1}])
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    sparsifier.step()
    other, target = pruning.WeightNormSparsifier(), _model()
    other.prepare(target, [{"tensor_fqn": "0.weight"}])
    other.load_state_dict(pickle.loads(pickle.dumps(sparsifier.state_dict())))
    assert torch.equal(target[0].weight, model[0].weight)
    assert repr(other).startswith("WeightNormSparsifier (\n\tGroup 0\n\t    module: ")


def test_schedulers() -> None:
    sparsifier = pruning.WeightNormSparsifier(sparsity_level=0.8)
    sparsifier.prepare(_model(), [{"tensor_fqn": "0.weight"}])
    scheduler = pruning.LambdaSL(sparsifier, lambda epoch: epoch / 4)
    levels = [scheduler.get_last_sl()[0]]
    with pytest.warns(UserWarning, match="before `sparsifier.step"):
        scheduler.step()
    for _ in range(2):
        sparsifier.step()
        scheduler.step()
        levels.append(scheduler.get_last_sl()[0])
    assert levels == pytest.approx([0.0, 0.4, 0.6])
    assert pruning.CubicSL.sparsity_compute_fn(0.0, 0.8, 5, 0, 1, 10) == pytest.approx(0.7)


def test_data_outside_of_models() -> None:
    data = torch.arange(1.0, 9.0).reshape(2, 4)
    sparsifier = DataNormSparsifier([("x", data)], sparsity_level=0.5, sparse_block_shape=(1, 2))
    sparsifier.step()
    assert sparsifier.get_data("x", return_original=False).tolist() == [[0, 0, 0, 0], [5, 6, 7, 8]]
    assert torch.equal(sparsifier.get_data("x"), data)

    class Halves(BaseDataScheduler):
        def get_schedule_param(self) -> dict[str, float]:
            groups = self.data_sparsifier.data_groups
            return {name: group[self.schedule_param] / 2 for name, group in groups.items()}

    scheduler = Halves(sparsifier, "sparsity_level")
    assert scheduler.get_last_param() == {"x": 0.25}
    other = DataNormSparsifier()
    other.load_state_dict(sparsifier.state_dict())
    assert torch.equal(other.get_mask("x"), sparsifier.get_mask("x"))
    sparsifier.squash_mask()
    with pytest.raises(ValueError, match="mask squashed"):
        sparsifier.get_data("x")


def test_activations() -> None:
    model = _model()
    sparsifier = ActivationSparsifier(
        model,
        aggregate_fn=torch.add,
        reduce_fn=lambda x: x.abs().sum(0),
        mask_fn=lambda x, threshold: (x > threshold).float(),
        threshold=3.0,
    )
    sparsifier.register_layer(model[0])
    x = torch.ones(2, 8)
    x[:, :4] = 0.5
    model(x), model(x)
    sparsifier.step()
    wanted = torch.tensor([0.0] * 4 + [1.0] * 4)
    assert torch.equal(sparsifier.get_mask("0"), wanted)
    sparsifier.squash_mask()
    assert torch.allclose(model(x), model[2](model[1](model[0].forward(x * wanted))))
