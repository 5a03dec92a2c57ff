"""Masks of rows, and biases that are added after masked layers."""

from __future__ import annotations

from typing import Any

from tritorch import Tensor
from tritorch.ao.pruning.sparsifier.utils import module_contains_param
from tritorch.nn import Module

__all__ = ["BiasHook", "FakeStructuredSparsity", "module_contains_param"]


class FakeStructuredSparsity(Module):
    """Parametrization that multiplies the rows of a tensor by a mask of one bool a row."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(self.mask, Tensor):
            raise AssertionError("mask must be a torch.Tensor")
        if self.mask.shape[0] != x.shape[0]:
            raise AssertionError(
                f"mask shape[0] ({self.mask.shape[0]}) must match x shape[0] ({x.shape[0]})"
            )
        return self.mask.reshape([-1] + [1] * (x.dim() - 1)) * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Nothing: masks belong to the pruner."""
        return {}


class BiasHook:
    """Adds a layer's `_bias` to its output; with `prune_bias`, masked rows have none."""

    def __init__(self, parametrization: Module, prune_bias: bool) -> None:
        self.param = parametrization
        self.prune_bias = prune_bias

    def __call__(self, module: Module, input: Any, output: Tensor) -> Tensor:
        if getattr(module, "_bias", None) is not None:
            bias = module._bias.data
            if self.prune_bias:
                bias[~self.param.mask] = 0
            output += bias.reshape([1, -1] + [1] * (output.dim() - 2))
        return output
