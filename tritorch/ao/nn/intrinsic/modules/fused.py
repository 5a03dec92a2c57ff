"""Modules that hold a layer and what follows it, and compute them together where they can.

While training on the GPU a convolution's kernels take its norm's statistics, and norm and relu are
one pass over memory (`nn.utils.fusion`).
"""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.core.tensor import Tensor
from tritorch.nn.utils.fusion import bn_act, conv_bn_act
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "BNReLU2d",
    "BNReLU3d",
    "ConvAdd2d",
    "ConvAddReLU2d",
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "LinearBn1d",
    "LinearLeakyReLU",
    "LinearReLU",
    "LinearTanh",
]  # fmt: skip


def _of_types(modules: tuple[Any, ...], *types: type) -> tuple[Any, ...]:
    """Returns the modules; AssertionError if one is not of its type."""
    kinds = [type_before_parametrizations(module) for module in modules]
    if kinds != list(types):
        titles = [kind.__name__ for kind in kinds]
        joined = ", ".join(titles[:-1]) + ("," if len(titles) > 2 else "")
        raise AssertionError(f"Incorrect types for input modules: {joined} and {titles[-1]}")
    return modules


def _computes_together(input: Any, last: Any) -> bool:
    """Tells if kernels may compute all modules at once: on the GPU, and nobody observes relu."""
    return (
        type(input) is Tensor and input.is_cuda
        and not last._forward_hooks and not last._forward_pre_hooks
    )  # fmt: skip


class _FusedModule(nn.Sequential):
    """Modules that are quantized as one."""


class _ConvBn(_FusedModule):
    def forward(self, input: Tensor) -> Tensor:
        """The norm of the convolution."""
        if not torch.jit.is_scripting():
            if _computes_together(input, self[1]):
                return conv_bn_act(input, self[0], self[1], relu=False)
        for module in self:
            input = module(input)
        return input


class _ConvBnReLU(_FusedModule):
    def forward(self, input: Tensor) -> Tensor:
        """The relu of the norm of the convolution."""
        if not torch.jit.is_scripting():
            if _computes_together(input, self[2]):
                return conv_bn_act(input, self[0], self[1])
        for module in self:
            input = module(input)
        return input


class _BNReLU(_FusedModule):
    def forward(self, input: Tensor) -> Tensor:
        """The relu of the norm."""
        if not torch.jit.is_scripting():
            if _computes_together(input, self[1]):
                return bn_act(input, self[0])
        for module in self:
            input = module(input)
        return input


class ConvReLU1d(_FusedModule):
    """A convolution of sequences and relu."""

    def __init__(self, conv: Any, relu: Any) -> None:
        super().__init__(*_of_types((conv, relu), nn.Conv1d, nn.ReLU))


class ConvReLU2d(_FusedModule):
    """A convolution of images and relu."""

    def __init__(self, conv: Any, relu: Any) -> None:
        super().__init__(*_of_types((conv, relu), nn.Conv2d, nn.ReLU))


class ConvReLU3d(_FusedModule):
    """A convolution of volumes and relu."""

    def __init__(self, conv: Any, relu: Any) -> None:
        super().__init__(*_of_types((conv, relu), nn.Conv3d, nn.ReLU))


class ConvBn1d(_ConvBn):
    """A convolution of sequences and a batch norm."""

    def __init__(self, conv: Any, bn: Any) -> None:
        super().__init__(*_of_types((conv, bn), nn.Conv1d, nn.BatchNorm1d))


class ConvBn2d(_ConvBn):
    """A convolution of images and a batch norm."""

    def __init__(self, conv: Any, bn: Any) -> None:
        super().__init__(*_of_types((conv, bn), nn.Conv2d, nn.BatchNorm2d))


class ConvBn3d(_ConvBn):
    """A convolution of volumes and a batch norm."""

    def __init__(self, conv: Any, bn: Any) -> None:
        super().__init__(*_of_types((conv, bn), nn.Conv3d, nn.BatchNorm3d))


class ConvBnReLU1d(_ConvBnReLU):
    """A convolution of sequences, a batch norm and relu."""

    def __init__(self, conv: Any, bn: Any, relu: Any) -> None:
        super().__init__(*_of_types((conv, bn, relu), nn.Conv1d, nn.BatchNorm1d, nn.ReLU))


class ConvBnReLU2d(_ConvBnReLU):
    """A convolution of images, a batch norm and relu."""

    def __init__(self, conv: Any, bn: Any, relu: Any) -> None:
        super().__init__(*_of_types((conv, bn, relu), nn.Conv2d, nn.BatchNorm2d, nn.ReLU))


class ConvBnReLU3d(_ConvBnReLU):
    """A convolution of volumes, a batch norm and relu."""

    def __init__(self, conv: Any, bn: Any, relu: Any) -> None:
        super().__init__(*_of_types((conv, bn, relu), nn.Conv3d, nn.BatchNorm3d, nn.ReLU))


class BNReLU2d(_BNReLU):
    """A batch norm of images and relu."""

    def __init__(self, batch_norm: Any, relu: Any) -> None:
        super().__init__(*_of_types((batch_norm, relu), nn.BatchNorm2d, nn.ReLU))


class BNReLU3d(_BNReLU):
    """A batch norm of volumes and relu."""

    def __init__(self, batch_norm: Any, relu: Any) -> None:
        super().__init__(*_of_types((batch_norm, relu), nn.BatchNorm3d, nn.ReLU))


class LinearReLU(_FusedModule):
    """A linear map and relu."""

    def __init__(self, linear: Any, relu: Any) -> None:
        super().__init__(*_of_types((linear, relu), nn.Linear, nn.ReLU))


class LinearBn1d(_FusedModule):
    """A linear map and a batch norm."""

    def __init__(self, linear: Any, bn: Any) -> None:
        super().__init__(*_of_types((linear, bn), nn.Linear, nn.BatchNorm1d))


class LinearLeakyReLU(_FusedModule):
    """A linear map and leaky relu."""

    def __init__(self, linear: Any, leaky_relu: Any) -> None:
        super().__init__(*_of_types((linear, leaky_relu), nn.Linear, nn.LeakyReLU))


class LinearTanh(_FusedModule):
    """A linear map and tanh."""

    def __init__(self, linear: Any, tanh: Any) -> None:
        super().__init__(*_of_types((linear, tanh), nn.Linear, nn.Tanh))


class ConvAdd2d(_FusedModule):
    """A convolution of images, to which `add` adds another tensor."""

    def __init__(self, conv: Any, add: Any) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """The sum of the convolution of x1 and of x2."""
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution of images, to which `add` adds another tensor, and relu."""

    def __init__(self, conv: Any, add: Any, relu: Any) -> None:
        super().__init__(conv)
        self.add = add
        self.relu = relu

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """The relu of the sum of the convolution of x1 and of x2."""
        return self.relu(self.add(self[0](x1), x2))
