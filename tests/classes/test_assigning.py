"""Attributes of instances that PyTorch lets programs assign: modules, distributions, optimizers,
schedulers, samplers."""

import copy
import json
import pickle
from pathlib import Path

import pytest

import tritorch as torch
import tritorch.utils.data.distributed
from tests.classes import assigning

RECORDED = json.loads((Path(__file__).parent / "assignable.json").read_text())


@pytest.fixture(scope="module")
def made():
    return assigning.instances(torch)


def test_every_class_is_recorded(made):
    assert made.keys() == RECORDED.keys()


@pytest.mark.parametrize("expression", sorted(RECORDED))
def test_attributes_are_assignable(made, expression):
    instance = made[expression]
    refused = [n for n in RECORDED[expression] if not assigning.assignable(instance, n)]
    assert not refused


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_names_of_flat_weights_are_assigned(kind):
    """Weights by these names are used, and copies and pickles have the names."""
    module = getattr(torch.nn, kind)(2, 3)
    names = module._flat_weights_names
    module._flat_weights_names = assigned = [name + "_raw" for name in names]
    for name in names:
        module.register_parameter(name + "_raw", torch.nn.Parameter(getattr(module, name) * 0))
    assert module._flat_weights_names is assigned
    assert all(not weight.any() for weight in module._flat_weights)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert again._flat_weights_names == assigned
    module._flat_weights_names = names
    assert module._flat_weights[0] is module.weight_ih_l0
    assert not hasattr(module, "_nothing")


def test_parameters_of_lbfgs_are_those_of_its_group():
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = torch.optim.LBFGS(weights[:1])
    optimizer._params = weights[1:]
    assert optimizer.param_groups[0]["params"] == weights[1:]
