"""Modules as functions of their parameters (former functions; now `func.functional_call`)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.func import functional_call, stack_module_state
from tritorch.nn.modules.module import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


class FunctionalModuleWithBuffers(Module):
    """A module that is called with its parameters, its buffers, and then its arguments."""

    def __init__(
        self, stateless_model: Module, param_names: Sequence[str], buffer_names: Sequence[str]
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        """The module's result with these."""
        state = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers)))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers that is called with its parameters and then its arguments."""

    def __init__(self, stateless_model: Module, param_names: Sequence[str]) -> None:
        super().__init__(stateless_model, param_names, ())

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        """The module's result with these."""
        return super().forward(params, (), *args, **kwargs)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A module as a function, its parameters, and its buffers."""
    params = dict(model.named_parameters())
    buffers = dict(model.named_buffers())
    made = FunctionalModuleWithBuffers(_without_memory(model), [*params], [*buffers])
    return made, _copies(params, not disable_autograd_tracking), _copies(buffers, False)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A module without buffers as a function, and its parameters."""
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    params = dict(model.named_parameters())
    made = FunctionalModule(_without_memory(model), [*params])
    return made, _copies(params, not disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Modules of one class as a function, and their states in a new first dim."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    params, buffers = stack_module_state(list(models))
    made = FunctionalModuleWithBuffers(_without_memory(models[0]), [*params], [*buffers])
    return made, tuple(params.values()), tuple(buffers.values())


def _without_memory(model: Module) -> Module:
    return copy.deepcopy(model).to("meta")


def _copies(state: Mapping[str, Tensor], wants_grad: bool) -> tuple[Tensor, ...]:
    return tuple(
        x.detach().clone().requires_grad_(wants_grad and x.requires_grad) for x in state.values()
    )
