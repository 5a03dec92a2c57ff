"""The batch norm of a fused module that trains: its statistics move, or are frozen."""

from __future__ import annotations

from typing import Any

from tritorch.ao.nn import intrinsic as nni
from tritorch.nn import init


class WithNorm(nni._FusedModule):
    """A module whose batch norm `bn` follows its layer, and can be frozen."""

    bn: Any
    freeze_bn: bool

    def _start(self, freeze_bn: bool) -> None:
        """Initialises the norm; it is frozen in evaluation mode, or if a program says so."""
        self.freeze_bn = freeze_bn if self.training else True
        self.reset_bn_parameters()
        if self.training and not freeze_bn:
            self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        """Starts the norm anew, with a random weight."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)

    def update_bn_stats(self) -> Any:
        """From now on the norm is of each batch, and running statistics follow."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self) -> Any:
        """From now on the norm is by running statistics, which stay."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def train(self, mode: bool = True) -> Any:
        """Sets the mode; a frozen norm keeps its own."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def _take(self, layer: Any, bn: Any) -> Any:
        """Trains the parameters of a float layer and its norm."""
        self.weight, self.bias = layer.weight, layer.bias
        names = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        for name in names:
            setattr(self.bn, name, getattr(bn, name))
        return self

    def _check_statistics(self) -> None:
        if self.bn.running_var is None or self.bn.running_mean is None:
            raise AssertionError("self.bn.running_var and self.bn.running_mean must not be None")
