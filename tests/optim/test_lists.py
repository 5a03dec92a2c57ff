"""Optimizers as functions of lists do what the optimizers do."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

import tritorch as torch
from tritorch.optim import _functional

OPTIONS: dict[str, dict[str, Any]] = {
    "adadelta": {"rho": 0.8, "weight_decay": 0.1},
    "adagrad": {"lr_decay": 0.1, "maximize": True},
    "adam": {"betas": (0.8, 0.9), "amsgrad": True, "weight_decay": 0.1},
    "adamax": {"betas": (0.8, 0.9), "weight_decay": 0.1},
    "adamw": {"betas": (0.8, 0.9)},
    "asgd": {"lambd": 0.01, "t0": 1.0},
    "nadam": {"betas": (0.8, 0.9), "momentum_decay": 0.1},
    "radam": {"betas": (0.5, 0.7), "decoupled_weight_decay": True, "weight_decay": 0.1},
    "rmsprop": {"momentum": 0.5, "centered": True},
    "rprop": {"etas": (0.4, 1.3)},
    "sgd": {"momentum": 0.5, "dampening": 0.2, "weight_decay": 0.1},
}
_PAIRED = {
    "beta1": ("betas", 0), "beta2": ("betas", 1), "etaminus": ("etas", 0), "etaplus": ("etas", 1),
    "step_size_min": ("step_sizes", 0), "step_size_max": ("step_sizes", 1),
}  # fmt: skip


def _state_name(argument: str, state: dict[str, Any]) -> str:
    """exp_avg_sqs -> exp_avg_sq, state_steps -> step, momentum_buffer_list -> momentum_buffer."""
    short = argument.removeprefix("state_").removesuffix("_list")
    return short if short in state else short.removesuffix("s")


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("way", ["", "_single_tensor_", "_multi_tensor_"])
def test_a_function_of_lists_is_a_step(name: str, way: str) -> None:
    if name == "adamw" and way:
        pytest.skip("adamw is adam with one option")
    module = importlib.import_module(f"tritorch.optim.{name}")
    cls = next(v for v in vars(module).values() if getattr(v, "__name__", "").lower() == name and
               isinstance(v, type))  # fmt: skip
    function = getattr(module, way + name)
    assert way or getattr(_functional, name) is function
    parameters = inspect.signature(function).parameters

    torch.manual_seed(0)
    theirs = [torch.randn(3, requires_grad=True), torch.randn(2, 2, requires_grad=True)]
    ours = [p.detach().clone() for p in theirs]
    optimizer = cls(theirs, lr=0.1, **OPTIONS[name])
    group, lists = optimizer.param_groups[0], {}
    for round in range(3):
        grads = [torch.randn_like(p) for p in ours]
        for p, g in zip(theirs, grads):
            p.grad = g.clone()
        if not round:  # the state before the first step, of another optimizer like it
            for p in theirs:
                state = cls(theirs, lr=0.1, **OPTIONS[name]).new_state(p, group)
                for argument in list(parameters)[2:]:
                    if argument.endswith(("s", "_list")):
                        key = _state_name(argument, state)
                        if key in state:
                            lists.setdefault(argument, []).append(state[key])
        optimizer.step()
        given: dict[str, Any] = {}
        for argument in list(parameters)[2:]:
            parameter = parameters[argument]
            option, at = _PAIRED.get(argument, (argument, None))
            if argument in lists:
                given[argument] = lists[argument]
            elif option in group:
                given[argument] = group[option] if at is None else group[option][at]
            elif parameter.default is parameter.empty:
                given[argument] = None if argument in ("grad_scale", "found_inf") else False
        function(ours, grads, **given)
    for mine, other in zip(ours, theirs):
        assert torch.equal(mine, other.detach())
    assert lists
    for argument, values in lists.items():
        for p, value in zip(theirs, values):
            state = optimizer.state[p]
            assert torch.equal(value, state[_state_name(argument, state)]), argument


def test_steps_are_tensors_and_scales_are_undone() -> None:
    lists: Any = ([torch.zeros(2)], [torch.ones(2)], [torch.zeros(2)], [torch.zeros(2)], [])
    options: Any = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.0, "eps": 1e-8,
                    "maximize": False, "amsgrad": False}  # fmt: skip
    with pytest.raises(RuntimeError, match="state_steps"):
        _functional.adam(*lists, [1], **options)
    found = []
    for scale in (None, torch.tensor(4.0)):
        p, average = torch.zeros(2), torch.zeros(2)
        grad = torch.tensor([0.5, -1.0]) * (1 if scale is None else scale)
        _functional.adam([p], [grad], [average], [torch.zeros(2)], [], [torch.tensor(0.0)],
                         grad_scale=scale, **options)  # fmt: skip
        found.append((p, average))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])
    with pytest.raises(TypeError, match="amsgrad"):
        _functional.adam([], [], [], [], [], [], beta1=0.9)


def test_sparse_adam_counts_the_step_that_it_takes() -> None:
    grad = torch.sparse_coo_tensor(
        torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0]), (4,), check_invariants=True
    )
    p, average, square = torch.ones(4), torch.zeros(4), torch.zeros(4)
    _functional.sparse_adam([p], [grad], [average], [square], [1], eps=1e-8, beta1=0.9, beta2=0.99,
                            lr=0.1, maximize=False)  # fmt: skip
    torch.testing.assert_close(p, torch.tensor([0.9, 1.0, 0.9, 1.0]))
    torch.testing.assert_close(average, torch.tensor([0.1, 0.0, 0.2, 0.0]))
