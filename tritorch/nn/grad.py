"""Gradients of convolutions by themselves, as in torch.nn.grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch import autograd
from tritorch.core import published
from tritorch.core.tensor import Tensor


def _of_input(convolution: Callable[..., Any], name: str) -> Callable[..., Any]:
    def gradient(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        """The gradient of a convolution with respect to its input, of which only the size is
        needed."""
        with autograd.enable_grad():
            x = grad_output.new_zeros(1).expand(input_size).detach().requires_grad_()
            out = convolution(x, weight.detach(), None, stride, padding, dilation, groups)
        return autograd.grad(out, x, grad_output)[0]

    gradient.__name__ = gradient.__qualname__ = name
    return gradient


def _of_weight(convolution: Callable[..., Any], name: str) -> Callable[..., Any]:
    def gradient(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        """The gradient of a convolution with respect to its weight, of which only the size is
        needed."""
        with autograd.enable_grad():
            w = grad_output.new_zeros(1).expand(weight_size).detach().requires_grad_()
            out = convolution(input.detach(), w, None, stride, padding, dilation, groups)
        return autograd.grad(out, w, grad_output)[0]

    gradient.__name__ = gradient.__qualname__ = name
    return gradient


conv1d_input = _of_input(published.functional.conv1d, "conv1d_input")
conv2d_input = _of_input(published.functional.conv2d, "conv2d_input")
conv3d_input = _of_input(published.functional.conv3d, "conv3d_input")
conv1d_weight = _of_weight(published.functional.conv1d, "conv1d_weight")
conv2d_weight = _of_weight(published.functional.conv2d, "conv2d_weight")
conv3d_weight = _of_weight(published.functional.conv3d, "conv3d_weight")
